//go:build unix

package spirv

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// pipe is a named pipe by which tests hear of processes that hold it open.
type pipe struct {
	path string
	file chan *os.File
}

func newPipe(t *testing.T) pipe {
	t.Helper()
	p := pipe{filepath.Join(t.TempDir(), "pipe"), make(chan *os.File, 1)}
	if err := syscall.Mkfifo(p.path, 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// waitForWriter returns when a process has written to the pipe.
func (p pipe) waitForWriter(t *testing.T) {
	f, err := os.Open(p.path) // waits for one to open it, too
	if err == nil {
		_, err = f.Read(make([]byte, 1))
	}
	if err != nil {
		t.Error(err)
	}
	p.file <- f
}

// waitForNoWriter returns when no process has the pipe open any more: those
// that had it have ended.
func (p pipe) waitForNoWriter(t *testing.T) {
	t.Helper()
	f := <-p.file
	defer f.Close()
	if _, err := io.Copy(io.Discard, f); err != nil {
		t.Error(err)
	}
}
