//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package spirv

import (
	"errors"
	"os"
)

var errNoLocks = errors.New("no locks on this system")

func lockDir(string) (lock *os.File, held bool, err error) { return nil, false, errNoLocks }

// ownDir finds no directory to remove: without locks, the system itself must clear its temporary files.
func ownDir(string) bool { return false }

func removeLocked(string, *os.File) {}
