package doctest

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// importers are programs that import a module which is published, by the module's folder.
var importers = map[string]string{
	".": `package main

import "github.com/vkc-go/vkc"

func main() { println(vkc.Version()) }
`,
	"gomlx": `package main

import _ "github.com/vkc-go/vkc/gomlx"

func main() {}
`,
	"beam": `package main

import vkcbeam "github.com/vkc-go/vkc/beam"

func main() { _ = vkcbeam.Options{} }
`,
}

// modules reads the go.mod files of a checkout, by their folders.
func modules(t *testing.T, dir string) map[string]*modfile.File {
	t.Helper()
	list := map[string]*modfile.File{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "go.mod" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, filepath.Dir(path))
		if err != nil {
			return err
		}
		list[filepath.ToSlash(rel)], err = modfile.Parse(path, text, nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// isPublished reports whether scripts/release tags a module: its go.mod says where it does not.
func isPublished(f *modfile.File) bool {
	return !bytes.HasPrefix(modfile.Format(f.Syntax), []byte("// Not published"))
}

// version returns the version that the modules of this tree require of each other: the current or the latest release.
func version(t *testing.T, all map[string]*modfile.File) (v string) {
	t.Helper()
	for _, dir := range slices.Sorted(maps.Keys(all)) {
		for _, r := range all[dir].Require {
			if !strings.HasPrefix(r.Mod.Path+"/", all["."].Module.Mod.Path+"/") {
				continue
			}
			if v == "" {
				v = r.Mod.Version
			}
			if r.Mod.Version != v || module.IsPseudoVersion(v) {
				t.Errorf("%s/go.mod requires %s, where a release writes %s: scripts/release does", dir, r.Mod, v)
			}
		}
	}
	return v
}

// TestModules: each module is published, with the licences, and then it can be had by its version, or its go.mod says
// that it is not.
func TestModules(t *testing.T) {
	dir := checkout(t)
	all := modules(t, dir)
	version(t, all)
	for at, f := range all {
		if isPublished(f) != (importers[at] != "") {
			t.Errorf("%s/go.mod says that it is published: %t; here is an importer of it: %t", at, isPublished(f),
				importers[at] != "")
		}
		if !isPublished(f) {
			continue
		}
		for _, name := range []string{"LICENSE-MIT", "LICENSE-APACHE"} {
			if text, err := os.ReadFile(filepath.Join(dir, at, name)); string(text) != read(t, name) {
				t.Errorf("module %s has no copy of %s (%v)", at, name, err)
			}
		}
		// By directives of another kind the modules would be other ones here than for who imports them.
		for _, r := range f.Replace {
			if at == "." || !strings.HasPrefix(r.Old.Path, all["."].Module.Mod.Path) || r.Old.Version != "" {
				t.Errorf("%s/go.mod replaces %s, which a published module cannot", at, r.Old.Path)
			}
		}
		if len(f.Exclude) > 0 {
			t.Errorf("%s/go.mod excludes modules, which a published module cannot", at)
		}
	}
}

// published writes the modules as a proxy serves them under a version.
func published(t *testing.T, dir, version string, all map[string]*modfile.File) (proxy string) {
	t.Helper()
	proxy = t.TempDir()
	info, err := json.Marshal(map[string]string{"Version": version, "Time": "2026-01-01T00:00:00Z"})
	if err != nil {
		t.Fatal(err)
	}
	for at, f := range all {
		if !isPublished(f) {
			continue
		}
		var content bytes.Buffer
		mod := module.Version{Path: f.Module.Mod.Path, Version: version}
		if err := zip.CreateFromDir(&content, mod, filepath.Join(dir, at)); err != nil {
			t.Fatalf("module %s cannot be published: %v", at, err)
		}
		for name, text := range map[string]string{"list": version + "\n", version + ".info": string(info),
			version + ".mod": read(t, filepath.Join(at, "go.mod")), version + ".zip": content.String()} {
			write(t, filepath.Join(proxy, filepath.FromSlash(mod.Path), "@v", name), text)
		}
	}
	return proxy
}

// TestPublished: a release can be installed from a proxy into an empty module cache: the command with the line from the
// pages, and each module through a program that imports it. By default go fetches the modules, and lists what it would
// compile: it finds every package and every embedded file. With VKC_TEST_RELEASE=1, as scripts/release sets it, go also
// compiles them. That takes a minute, and the same files are compiled in this checkout.
func TestPublished(t *testing.T) {
	const install = "go install github.com/vkc-go/vkc/cmd/vkc@latest"
	if !strings.Contains(read(t, "README.md"), install) {
		t.Errorf("README.md does not say %q", install)
	}
	dir := checkout(t)
	all := modules(t, dir)
	version := version(t, all)
	proxy := published(t, dir, version, all)
	if testing.Short() {
		t.Skip("it builds vkc")
	}
	env, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	// Dependencies of vkc come from the module cache of this build, or else from this machine's proxy.
	have, upstream, _ := strings.Cut(strings.TrimSpace(string(env)), "\n")
	bin := t.TempDir()
	environ := append(os.Environ(),
		"GOPROXY=file://"+filepath.ToSlash(proxy)+",file://"+filepath.ToSlash(have)+"/cache/download,"+upstream,
		"GOBIN="+bin, "GOMODCACHE="+t.TempDir(),
		// With the flags of make test, packages that it compiled for the GoMLX backend are not compiled again.
		"GOFLAGS="+os.Getenv("GOFLAGS")+" -modcacherw -trimpath",
		"GONOSUMDB=*", "GOSUMDB=off", "GOWORK=off")
	command := func(dir string, line ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
		cmd.Dir, cmd.Env = dir, environ
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(line, " "), err, out)
		}
		return string(out)
	}
	compiles := os.Getenv("VKC_TEST_RELEASE") != ""
	// build runs go build or go install, or has it list its steps.
	build := func(dir string, line ...string) string {
		t.Helper()
		if !compiles {
			line = slices.Insert(line, 2, "-n")
		}
		return command(dir, line...)
	}
	steps := build(t.TempDir(), strings.Fields(install)...)
	if !compiles && !strings.Contains(steps, "vkc@"+version+"/cmd/vkc/") {
		t.Errorf("the steps of %q do not compile cmd/vkc of %s:\n%.2000s", install, version, steps)
	}
	if compiles {
		says := command(".", filepath.Join(bin, "vkc"), "version")
		if !strings.HasPrefix(says, "vkc "+version+" (generator ") {
			t.Errorf("vkc version: %s", says)
		}
	}
	for at, program := range importers {
		dir, path := t.TempDir(), all[at].Module.Mod.Path
		write(t, filepath.Join(dir, "go.mod"), "module importer\n\ngo "+all["."].Go.Version+"\n")
		write(t, filepath.Join(dir, "main.go"), program)
		if at == "beam" && !compiles { // Beam's SDK takes minutes to compile
			command(dir, "go", "mod", "edit", "-require="+path+"@"+version)
			command(dir, "go", "mod", "download", path)
			list := command(dir, "go", "list", "-mod=mod", "-m", "all")
			if !strings.Contains(list, "vkc-go/vkc "+version) {
				t.Errorf("an importer of %s has\n%s", path, list)
			}
			continue
		}
		command(dir, "go", "get", path+"@"+version)
		build(dir, "go", "build", "-o", filepath.Join(bin, "importer"), ".")
	}
}
