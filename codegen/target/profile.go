package target

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/internal/filefmt"
)

//go:embed profiles/*.json
var profileFiles embed.FS

// profileFile is what a file of profiles/ holds: the caps of one device, what a
// reader should know about where they come from, and what was measured there.
type profileFile struct {
	Notes []string `json:"notes"`
	Caps  Caps     `json:"caps"`
	// Tuning is schedules that were measured on the device, as vkc tune --json
	// prints them.
	Tuning Tuning `json:"tuning,omitempty"`
}

// Profiles returns the names of the built-in device profiles, in alphabetical order.
func Profiles() []string {
	entries, err := profileFiles.ReadDir("profiles")
	if err != nil {
		return nil // the folder is embedded; there is no way to lose it
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".json")
	}
	slices.Sort(names)
	return names
}

// Profile returns the caps of a built-in profile, for compiling without the
// device at hand. An unknown name is an error that lists the nearest ones.
func Profile(name string) (Caps, error) {
	f, err := readProfile(name)
	return f.Caps, err
}

// ProfileNotes says, line by line, which device a profile models and where its
// figures come from.
func ProfileNotes(name string) ([]string, error) {
	f, err := readProfile(name)
	return f.Notes, err
}

// ProfileTuning returns the schedules that a profile carries: those that were
// measured on its device. Most carry none.
func ProfileTuning(name string) (Tuning, error) {
	f, err := readProfile(name)
	return f.Tuning, err
}

func readProfile(name string) (profileFile, error) {
	if have := Profiles(); !slices.Contains(have, name) {
		return profileFile{}, fmt.Errorf("target: no device profile %q; nearest: %s (all: %s)",
			name, strings.Join(filefmt.Nearest(name, have, 2), ", "), strings.Join(have, ", "))
	}
	text, err := profileFiles.ReadFile(path.Join("profiles", name+".json"))
	if err != nil {
		return profileFile{}, fmt.Errorf("target: profile %s: %w", name, err)
	}
	return parseProfile(name, text)
}

func parseProfile(name string, text []byte) (profileFile, error) {
	var f profileFile
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields() // a misspelt limit would silently be 0
	if err := dec.Decode(&f); err != nil {
		return profileFile{}, fmt.Errorf("target: profile %s: %w", name, err)
	}
	return f, nil
}
