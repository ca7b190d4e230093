package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"os"
	"runtime/debug"
	"time"
)

// bom is a bill of materials in the form of CycloneDX 1.6.
type bom struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	Metadata   metadata    `json:"metadata"`
	Components []component `json:"components"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref,omitempty"`
	Name       string     `json:"name"`
	Version    string     `json:"version,omitempty"`
	PURL       string     `json:"purl,omitempty"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// materials writes the bill of materials of a build: the modules that the program has in it, by its build info.
func (r *release) materials(b build) error {
	info, err := buildinfo.ReadFile(b.path)
	if err != nil {
		return err
	}
	program, err := os.ReadFile(b.path)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(program)
	main := module(&info.Main)
	main.Type, main.Version = "application", r.version
	main.PURL = "pkg:golang/" + info.Main.Path + "@" + r.version
	main.Ref = main.PURL
	main.Hashes = []hash{{"SHA-256", hex.EncodeToString(sum[:])}}
	for _, s := range info.Settings {
		main.Properties = append(main.Properties, property{"go:" + s.Key, s.Value})
	}
	out := bom{Format: "CycloneDX", Spec: "1.6", Version: 1,
		Metadata: metadata{Timestamp: r.time.Format(time.RFC3339), Component: main},
		Components: []component{{Type: "library", Ref: "pkg:golang/std@" + info.GoVersion, Name: "std",
			Version: info.GoVersion, PURL: "pkg:golang/std@" + info.GoVersion}}}
	for _, m := range info.Deps {
		out.Components = append(out.Components, module(m))
	}
	data, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return err
	}
	return r.write(r.stem(b)+".cdx.json", append(data, '\n'))
}

// module describes a module or, if a replace directive names another module, that one.
func module(m *debug.Module) component {
	if m.Replace != nil {
		m = m.Replace
	}
	purl := "pkg:golang/" + m.Path + "@" + m.Version
	return component{Type: "library", Ref: purl, Name: m.Path, Version: m.Version, PURL: purl}
}
