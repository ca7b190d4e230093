//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package spirv

import (
	"errors"
	"os"
)

var errNoLocks = errors.New("no locks on this system")

func lockDir(string) (lock *os.File, held bool, err error) { return nil, false, errNoLocks }

// removeAbandoned leaves what killed compilations left behind to the system,
// which clears its directory of temporary files itself.
func removeAbandoned(string) {}
