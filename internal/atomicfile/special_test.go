//go:build unix

package atomicfile

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestLinkStays: it is the file behind a link that is replaced.
func TestLinkStays(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	file, link := filepath.Join(other, "a"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(link, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := mustRead(t, file); got != "new" {
		t.Errorf("the file behind the link has %q, want new", got)
	}
	if st, err := os.Lstat(link); err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link became %v, %v", st.Mode(), err)
	}
	if got := append(names(t, dir), names(t, other)...); len(got) != 2 {
		t.Errorf("left: %q, want the link and the file", got)
	}
}

// TestPipeIsSentTheData: a pipe stays one, gets what was committed whole, and gets nothing of what was thrown away.
func TestPipeIsSentTheData(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	path := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	receive := func() <-chan string {
		got := make(chan string, 1)
		go func() {
			f, err := os.Open(path)
			if err != nil {
				got <- err.Error()
				return
			}
			defer f.Close()
			data, err := io.ReadAll(f)
			if err != nil {
				data = []byte(err.Error())
			}
			got <- string(data)
		}()
		return got
	}

	got := receive()
	f, err := Create(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("..., and its end"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("sum"), 0); err != nil { // a header that is known last
		t.Fatal(err)
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	if data := <-got; data != "sum, and its end" {
		t.Errorf("the pipe got %q", data)
	}

	got = receive()
	if f, err = Create(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("half of"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if data := <-got; data != "" {
		t.Errorf("the pipe got %q of what was thrown away", data)
	}

	if st, err := os.Lstat(path); err != nil || st.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe became %v, %v", st.Mode(), err)
	}
	if left := names(t, os.TempDir()); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}

// TestPipeWithoutReader: that nobody takes the data any more is an error, which names the pipe.
func TestPipeWithoutReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Create(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("x"); err != nil {
		t.Fatal(err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("Commit: %v, want an error of %s", err, path)
	}
}
