package spirv

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// workDirPrefix begins the names of the temporary directories.
const workDirPrefix = "vkc-spirv-"

// workDir is the temporary directory of a compilation. Its lock is held while it is in use. The system releases the
// lock when the process ends in any way, so later compilations recognize a directory left behind by a killed one.
type workDir struct {
	path string
	lock *os.File // nil on systems without locks
}

// makeWorkDir makes a directory, and removes abandoned ones.
func makeWorkDir() (*workDir, error) {
	removeAbandoned(os.TempDir())
	for range 10 {
		path, err := os.MkdirTemp("", workDirPrefix)
		if err != nil {
			return nil, fmt.Errorf("spirv: %w", err)
		}
		lock, held, err := lockDir(path)
		if held || err != nil { // without locks, no other process considers it abandoned
			return &workDir{path, lock}, nil
		}
		// Another process found it unlocked, and removes it.
	}
	return nil, fmt.Errorf("spirv: no temporary directory in %s stays for long enough to lock it", os.TempDir())
}

// remove releases the lock first, because Windows cannot remove an open file. Another process may then remove the
// directory too, which is harmless.
func (d *workDir) remove() {
	if d.lock != nil {
		d.lock.Close()
	}
	os.RemoveAll(d.path)
}

// removeAbandoned removes the directories of this user's killed compilations. It ignores failures.
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
