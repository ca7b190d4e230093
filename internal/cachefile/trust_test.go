//go:build unix

package cachefile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func mkdir(t *testing.T, mode os.FileMode, elements ...string) string {
	t.Helper()
	dir := filepath.Join(elements...)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, mode); err != nil { // whatever the umask
		t.Fatal(err)
	}
	return dir
}

// TestTrusted: the rules are those of package trusted, except for missing files.
func TestTrusted(t *testing.T) {
	base := t.TempDir()
	own := mkdir(t, 0o755, base, "own")
	open := mkdir(t, 0o777, base, "open")
	tests := []struct {
		name, path string
		says       string // empty: it is trusted
	}{
		{"an own folder", own, ""},
		{"what is not there yet", filepath.Join(own, "no", "such"), ""},
		{"a folder that others can write", open, `open" can be written by others`},
		{"what is below such a folder", mkdir(t, 0o700, open, "own"), `open" can be written by others`},
		{"what is not there below such a folder", filepath.Join(open, "no"), "$" + EnvDir},
		{"a relative path", "cache", "relative path"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Trusted(tt.path)
			if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("Trusted(%s) = %v, want %q", tt.path, err, tt.says)
			}
			if strings.Contains(tt.says, "written by") && !isUntrusted(err) {
				t.Errorf("Trusted(%s) = %v, want an *UntrustedError", tt.path, err)
			}
		})
	}
}

// TestPlantedEntryIsMiss has an entry that is sound in every way but who could
// have written it.
func TestPlantedEntryIsMiss(t *testing.T) {
	d, k := testDir(t), KeyOf("a")
	put(t, d, k, "payload")
	path := d.path(k)
	for _, place := range []string{path, filepath.Dir(path), d.Path, filepath.Dir(d.Path)} {
		info, err := os.Stat(place)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(place, info.Mode().Perm()|0o002); err != nil {
			t.Fatal(err)
		}
		if have, ok := d.Get(k); ok {
			t.Errorf("%s can be written by others: hit with %q", place, have)
		}
		if err := d.Put(k, []byte("payload")); place != path && !isUntrusted(err) {
			t.Errorf("%s can be written by others: Put gave %v, want an *UntrustedError", place, err)
		}
		if _, _, err := d.Verify(); place != path && !isUntrusted(err) {
			t.Errorf("%s can be written by others: Verify gave %v, want an *UntrustedError", place, err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s: the entry is gone: %v", place, err)
		}
		if err := os.Chmod(place, info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
		if _, ok := d.Get(k); !ok {
			t.Errorf("%s: a miss after it was put right", place)
		}
	}
}

// TestEntryHoldsForItsKeyOnly moves a sound entry to another key: changing the
// key in its header is noticed too.
func TestEntryHoldsForItsKeyOnly(t *testing.T) {
	d, from, to := testDir(t), KeyOf("a"), KeyOf("b")
	moved := d.encode(from, []byte("payload"))
	copy(moved[16:48], to[:])
	if have, err := d.decode(moved, to); err == nil {
		t.Errorf("the payload of another key was taken: %q", have)
	}
}
