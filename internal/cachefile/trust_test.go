//go:build unix

package cachefile

import (
	"errors"
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

func symlink(t *testing.T, to, path string) string {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestTrusted has the rules, one by one.
func TestTrusted(t *testing.T) {
	base := t.TempDir()
	own := mkdir(t, 0o755, base, "own")
	open := mkdir(t, 0o777, base, "open")
	group := mkdir(t, 0o775, base, "group")
	sticky := mkdir(t, os.ModeSticky|0o777, base, "sticky")
	file := filepath.Join(own, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	loose := filepath.Join(own, "loose")
	if err := errors.Join(os.WriteFile(loose, nil, 0o600), os.Chmod(loose, 0o666)); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, path string
		says       string // empty: it is trusted
	}{
		{"the root folder", "/", ""},
		{"an own folder", own, ""},
		{"an own file", file, ""},
		{"what is not there yet", filepath.Join(own, "no", "such"), ""},
		{"a file that others can write", loose, `loose" can be written by others`},
		{"a folder that others can write", open, `open" can be written by others`},
		{"a folder that a group can write", group, `group" can be written by others`},
		{"what is below such a folder", mkdir(t, 0o700, open, "own"), `open" can be written by others`},
		{"what is not there below such a folder", filepath.Join(open, "no"), `open" can be written by others`},
		{"a sticky folder itself", sticky, `sticky" can be written by others`},
		{"an own folder in a sticky one", mkdir(t, 0o700, sticky, "own"), ""},
		{"a link to an own folder", symlink(t, own, filepath.Join(base, "good")), ""},
		{"a link to an open folder", symlink(t, open, filepath.Join(base, "bad")), `open" can be written by others`},
		{"a relative link through another", filepath.Join(symlink(t, "good/../group", filepath.Join(base, "far")), "x"), `group" can be written by others`},
		{"a link to itself", symlink(t, "loop", filepath.Join(base, "loop")), "symbolic links"},
		{"a relative path", "cache", "depends on the current directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Trusted(tt.path)
			if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("Trusted(%s) = %v, want %q", tt.path, err, tt.says)
			}
		})
	}
}

// TestTrustedOwner asks for another user, to whom the folders of this one are
// somebody else's. Root's are everybody's.
func TestTrustedOwner(t *testing.T) {
	const somebody = 54321
	if err := trustedBy(somebody, "/"); err != nil {
		t.Errorf("the root folder: %v", err)
	}
	dir := t.TempDir()
	if os.Geteuid() == 0 {
		if err := trustedBy(somebody, dir); err != nil {
			t.Errorf("a folder of root's: %v", err)
		}
		if err := os.Chown(dir, 12345, -1); err != nil {
			t.Fatal(err)
		}
	}
	err := trustedBy(somebody, dir)
	if untrusted := (*UntrustedError)(nil); !errors.As(err, &untrusted) || !strings.Contains(err.Error(), "belongs to user") {
		t.Errorf("somebody else's folder: %v, want an *UntrustedError about its owner", err)
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
		if err := os.Chmod(place, info.Mode().Perm()|0o020); err != nil {
			t.Fatal(err)
		}
		if have, ok := d.Get(k); ok {
			t.Errorf("%s can be written by a group: hit with %q", place, have)
		}
		if err := d.Put(k, []byte("payload")); place != path && !isUntrusted(err) {
			t.Errorf("%s can be written by a group: Put gave %v, want an *UntrustedError", place, err)
		}
		if _, _, err := d.Verify(); place != path && !isUntrusted(err) {
			t.Errorf("%s can be written by a group: Verify gave %v, want an *UntrustedError", place, err)
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
