//go:build unix

package spirv

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// pipe is a named pipe that shows tests whether processes hold it open. The test holds it too until the first process
// has written; otherwise a writer that comes while a signal interrupts the wait would be missed.
type pipe struct {
	path       string
	read, hold *os.File
}

func newPipe(t *testing.T) pipe {
	t.Helper()
	p := pipe{path: filepath.Join(t.TempDir(), "pipe")}
	err := syscall.Mkfifo(p.path, 0o600)
	if err == nil {
		p.hold, err = os.OpenFile(p.path, os.O_RDWR, 0)
	}
	if err == nil {
		p.read, err = os.Open(p.path)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.read.Close(); p.hold.Close() })
	return p
}

// waitForWriter returns when a process has written to the pipe.
func (p pipe) waitForWriter(t *testing.T) {
	if _, err := p.read.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
	p.hold.Close()
}

// waitForNoWriter waits until no process has the pipe open: all that had it open have ended. No new writer may begin. A
// waitForWriter that has not seen a writer fails.
func (p pipe) waitForNoWriter(t *testing.T) {
	t.Helper()
	p.hold.Close()
	if _, err := io.Copy(io.Discard, p.read); err != nil {
		t.Error(err)
	}
}
