package spirv

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// workDirPrefix begins the names of the temporary directories.
const workDirPrefix = "vkc-spirv-"

// workDir is the temporary directory of a compilation. The process locks it while it uses it. The system releases the
// lock when the process ends in any way, so later compilations recognize the directory of a killed process.
type workDir struct {
	path string
	lock *os.File // nil on systems without locks
}

// makeWorkDir makes a temporary directory. It also removes directories that killed processes left.
func makeWorkDir() (*workDir, error) {
	removeAbandoned(os.TempDir())
	for range 10 {
		path, err := os.MkdirTemp("", workDirPrefix)
		if err != nil {
			return nil, fmt.Errorf("spirv: %w", err)
		}
		lock, held, err := lockDir(path)
		if held || err != nil { // without locks, no other process removes the directory
			return &workDir{path, lock}, nil
		}
		// Another process found the new directory before it was locked, and removes it. Try again.
	}
	return nil, fmt.Errorf("spirv: no temporary directory in %s stays for long enough to lock it", os.TempDir())
}

// remove removes the directory. It first releases the lock, because Windows cannot remove an open file. Another process
// may then remove the directory at the same time, which is harmless.
func (d *workDir) remove() {
	if d.lock != nil {
		d.lock.Close()
	}
	os.RemoveAll(d.path)
}

// removeAbandoned removes the directories that killed processes of this user left. It ignores failures.
func removeAbandoned(temp string) {
	entries, err := os.ReadDir(temp)
	if err != nil {
		return
	}
	for _, e := range entries {
		path := filepath.Join(temp, e.Name())
		if !strings.HasPrefix(e.Name(), workDirPrefix) || !ownDir(path) {
			continue
		}
		// A running process would hold the lock.
		if lock, held, err := lockDir(path); err == nil && held {
			removeLocked(path, lock)
		}
	}
}
