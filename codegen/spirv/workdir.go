package spirv

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// workDirPrefix begins the names of the temporary directories.
const workDirPrefix = "vkc-spirv-"

// workDir is the temporary directory of a compilation. While it is in use its
// lock is held, which the system lets go of when the process ends in any way:
// so later compilations can tell a directory that a killed one left behind.
type workDir struct {
	path string
	lock *os.File // nil where there are no locks
}

// makeWorkDir makes a directory, and removes those that were left behind.
func makeWorkDir() (*workDir, error) {
	removeAbandoned(os.TempDir())
	for range 10 {
		path, err := os.MkdirTemp("", workDirPrefix)
		if err != nil {
			return nil, fmt.Errorf("spirv: %w", err)
		}
		lock, held, err := lockDir(path)
		if held || err != nil { // a system without locks: there nobody finds it abandoned
			return &workDir{path, lock}, nil
		}
		// Another process found it before it was locked, and removes it.
	}
	return nil, fmt.Errorf("spirv: no temporary directory in %s stays for long enough to lock it", os.TempDir())
}

// remove lets go of the lock first: Windows removes no file that is open. Another
// process may then remove the directory, too, to the same end.
func (d *workDir) remove() {
	if d.lock != nil {
		d.lock.Close()
	}
	os.RemoveAll(d.path)
}

// removeAbandoned removes the directories of this user's compilations that were
// killed. It is an attempt: what cannot be removed stays.
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
		if lock, held, err := lockDir(path); err == nil && held {
			removeLocked(path, lock)
		}
	}
}
