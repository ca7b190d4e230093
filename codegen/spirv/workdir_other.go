//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package spirv

import (
	"errors"
	"os"
)

var errNoLocks = errors.New("no locks on this system")

// lockDir returns an error, because there are no locks.
func lockDir(string) (lock *os.File, held bool, err error) { return nil, false, errNoLocks }

// ownDir reports false, so that no directory is removed: without locks, only the system can clear its temporary files.
func ownDir(string) bool { return false }

func removeLocked(string, *os.File) {}
