// Package trusted tells whether a file is the user's own: whether nobody but
// the user and the system's administrator can put another in its place. What
// vkc runs, or believes without a check of its own, must be.
package trusted

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// maxLinks is how many symbolic links a path may lead through.
const maxLinks = 40

// Check returns nil if only the user and the administrator may change the file
// or directory at path, which is absolute. It looks at every directory and
// symbolic link on the way there, too: whoever may write a directory may rename
// what lies in it. A directory with the sticky bit (/tmp) may be on the way, as
// only the owner renames a file in it.
//
// Where others may, the error is an [*Error]. It wraps fs.ErrNotExist where there
// is nothing at path, and all on the way is the user's own.
//
// On Unix owners, modes and groups tell, on Windows owners and access lists. On
// other systems Check only asks for the file to be there.
func Check(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%q is a relative path: write it from the root", path)
	}
	at := filepath.VolumeName(path) + string(filepath.Separator)
	ahead := elements(path)
	links := 0
	if err := checkOne(at, len(ahead) > 0); err != nil {
		return err
	}
	for len(ahead) > 0 {
		name := ahead[0]
		ahead = ahead[1:]
		if name == ".." {
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		if err := checkOne(next, len(ahead) > 0); err != nil {
			return err
		}
		target, err := os.Readlink(next)
		if err != nil { // no link
			at = next
			continue
		}
		if links++; links > maxLinks {
			return fmt.Errorf("%q leads through more than %d symbolic links", path, maxLinks)
		}
		if filepath.IsAbs(target) {
			at = filepath.VolumeName(target) + string(filepath.Separator)
		}
		ahead = append(elements(target), ahead...)
	}
	return nil
}

// Error says who else may change a file or directory.
type Error struct {
	Path string
	Why  string // "belongs to user 7"
	Do   string // what makes it the user's own
}

func (e *Error) Error() string { return fmt.Sprintf("%q %s: %s", e.Path, e.Why, e.Do) }

// elements splits a path, without its volume, into names. A link makes a
// difference between a/.. and nothing, so .. stays.
func elements(path string) []string {
	path = path[len(filepath.VolumeName(path)):]
	var names []string
	for _, name := range strings.Split(filepath.ToSlash(path), "/") {
		if name != "" && name != "." {
			names = append(names, name)
		}
	}
	return names
}
