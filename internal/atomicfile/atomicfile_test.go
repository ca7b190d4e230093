package atomicfile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// names returns the base names in dir.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func mustRead(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestWriteFileCreatesAndReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	for _, want := range []string{"first, longer", "second", ""} {
		if err := WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := mustRead(t, path); got != want {
			t.Errorf("read %q, want %q", got, want)
		}
	}
	if got := names(t, filepath.Dir(path)); len(got) != 1 {
		t.Errorf("left behind: %q", got)
	}
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 { // Windows has no modes
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
}

func TestTargetUnchangedUntilCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	if err := WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Create(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("xew")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("n"), 0); err != nil {
		t.Fatal(err)
	}
	if got := mustRead(t, path); got != "old" {
		t.Errorf("before Commit: %q", got)
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	if got := mustRead(t, path); got != "new" {
		t.Errorf("after Commit: %q", got)
	}
	if err := f.Close(); err != nil {
		t.Errorf("Close after Commit: %v", err)
	}
	if err := f.Commit(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("second Commit: %v, want ErrClosed", err)
	}
	if got := mustRead(t, path); got != "new" {
		t.Errorf("after second Commit: %q", got)
	}
}

func TestCloseDiscards(t *testing.T) {
	dir := t.TempDir()
	f, err := Create(filepath.Join(dir, "a"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); len(got) != 1 || !IsTemp(got[0]) {
		t.Fatalf("while writing: %q, want one temporary file", got)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("after Close: %q, want nothing", got)
	}
	if err := f.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestFailureLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "no", "a")
	if err := WriteFile(missing, nil, 0o600); !errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(err.Error(), missing+":") {
		t.Errorf("missing directory: %v, want ErrNotExist of %s", err, missing)
	}
	target := filepath.Join(dir, "d") // a directory cannot be replaced by a file
	if err := os.MkdirAll(filepath.Join(target, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(target, []byte("x"), 0o600); err == nil {
		t.Error("a directory was replaced by a file")
	}
	if got := names(t, dir); len(got) != 1 || got[0] != "d" {
		t.Errorf("left: %q, want only the directory", got)
	}
}

// TestConcurrentWriters races writers of different contents. Readers must always see one writer's complete content.
func TestConcurrentWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	content := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, 1<<14*(i+1)) }
	if err := WriteFile(path, content(0), 0o600); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			for range 10 {
				if err := WriteFile(path, content(i), 0o600); err != nil {
					t.Error(err)
				}
			}
		})
	}
	stop := make(chan struct{})
	go func() { writers.Wait(); close(stop) }()
	for running := true; running; {
		select {
		case <-stop:
			running = false
		default:
		}
		var data []byte
		err := Retry(func() (err error) {
			data, err = os.ReadFile(path)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(data, content(int(data[0]-'a'))) {
			t.Fatalf("torn read: %d bytes of %q", len(data), data[0])
		}
		if runtime.GOOS == "windows" { // where a file that is open all the time is never replaced
			time.Sleep(time.Millisecond)
		}
	}
}

func TestRemoveStale(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-2 * time.Hour)
	for name, mtime := range map[string]time.Time{
		tempPrefix + "old" + tempSuffix:  old,
		tempPrefix + "live" + tempSuffix: time.Now(),
		"user.tmp":                       old,
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, mtime, mtime); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveStale(dir, time.Hour); err != nil {
		t.Fatal(err)
	}
	got := names(t, dir)
	if len(got) != 2 || got[0] != tempPrefix+"live"+tempSuffix || got[1] != "user.tmp" {
		t.Errorf("left %q, want the live temporary file and the foreign file", got)
	}
}
