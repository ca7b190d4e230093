package cachefile

import (
	"fmt"
	"path/filepath"
)

// Trusted reports an *UntrustedError if somebody else could decide what stands
// at path. What is in a cache ends as code that runs: whoever can write there
// runs code as this user.
//
// From the root folder on, every folder and the file itself must belong to this
// user or to root, who can do anything anyway, and nobody else may write there.
// A folder on the way may be open to all where it is sticky, as /tmp is: nobody
// can rename or remove there what belongs to another. Symbolic links are
// followed, and where they lead is checked likewise. What does not exist yet is
// trusted, if the folder is.
//
// Windows and Plan 9 do not tell owners in this way. There every path is
// trusted.
func Trusted(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%q depends on the current directory: name it from the root folder on", path)
	}
	return trusted(filepath.Clean(path))
}

// UntrustedError says who else could write to a cache.
type UntrustedError struct {
	Path string // the folder or file
	Why  string
	Do   string // what makes it trusted
}

func (e *UntrustedError) Error() string {
	return fmt.Sprintf("%q %s, so what is in it could run code as you: %s, or set $%s to a directory of your own", e.Path, e.Why, e.Do, EnvDir)
}
