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

// TestLinkStays: writing through a link replaces the target file.
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

// pipe makes a named pipe and opens it for reading. It is opened before any writer comes, and without waiting for
// one: a wait that a signal interrupts would begin again, and for ever if the writer had come and gone.
func pipe(t *testing.T) (path string, reader *os.File) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reader.Close() })
	return path, reader
}

// TestPipeIsSentTheData: a pipe remains a pipe. It gets the complete committed data, and no discarded data.
func TestPipeIsSentTheData(t *testing.T) {
	path, reader := pipe(t)
	t.Setenv("TMPDIR", t.TempDir())
	received := func() string { // until the writer closes the pipe
		data, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}

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
	if data := received(); data != "sum, and its end" {
		t.Errorf("the pipe got %q", data)
	}

	if f, err = Create(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("half of"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if data := received(); data != "" {
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
	path, reader := pipe(t)
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
