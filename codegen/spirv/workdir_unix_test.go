//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package spirv

import (
	"golang.org/x/sync/errgroup"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestAbandonedWorkDirs: a compilation removes temporary files of killed compilations, and nothing else.
func TestAbandonedWorkDirs(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	work := func(name string) string {
		dir := filepath.Join(temp, workDirPrefix+name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "0000.comp"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	lock := func(dir string) *os.File {
		f, held, err := lockDir(dir)
		if err != nil || !held {
			t.Fatal(held, err)
		}
		return f
	}
	work("never-locked")
	lock(work("dead")).Close()
	defer lock(work("live")).Close()
	if err := os.Chmod(work("open"), 0o755); err != nil { // no compilation made this
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	if err := os.Chmod(elsewhere, 0o700); err != nil {
		t.Fatal(err)
	}
	want := []string{"other", workDirPrefix + "file", workDirPrefix + "link", workDirPrefix +
		"live", workDirPrefix + "open"}
	for _, name := range want[:2] {
		if err := os.WriteFile(filepath.Join(temp, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(elsewhere, filepath.Join(temp, want[2])); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // another user's, who only wants it removed
		dir := work("theirs")
		want = append(want, filepath.Base(dir))
		if err := os.Chown(dir, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	compile(t, newFakes(t).find(t, ""), shaders(1), Options{})
	var left []string
	entries, err := os.ReadDir(temp)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if err != nil || !slices.Equal(left, want) {
		t.Errorf("left %q, %v; want %q", left, err, want)
	}
}

// TestWorkDirTakenAway: a directory that another process removes before it is
// locked is not used.
func TestWorkDirTakenAway(t *testing.T) {
	dir := t.TempDir()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if lock, held, err := lockDir(dir); lock != nil || held || err != nil {
		t.Errorf("a directory that is gone: %v, %t, %v", lock, held, err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	first, held, err := lockDir(dir)
	if err != nil || !held {
		t.Fatal(held, err)
	}
	defer first.Close()
	if _, held, err := lockDir(dir); held || err != nil {
		t.Errorf("locked twice: %t, %v", held, err)
	}
}

// TestWorkDirsStay creates many directories concurrently while each creation looks for abandoned ones. None may remove
// a directory that another has just created.
func TestWorkDirsStay(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var g errgroup.Group
	for range 8 {
		g.Go(func() error {
			for range 200 {
				d, err := makeWorkDir()
				if err != nil {
					return err
				}
				if err := os.WriteFile(filepath.Join(d.path, "shader"), nil, 0o600); err != nil {
					return err
				}
				d.remove()
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}
