// Package trusted checks whether a file is the user's own: only the user and the system's administrator can replace it.
// That is required of every file that vkc executes, or believes without another check.
package trusted

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// maxLinks is how many symbolic links a path may lead through.
const maxLinks = 40

// Check returns nil if only the user and the administrator can change the file or directory at path, which must be
// absolute. It also checks every directory and symbolic link on the way, since a user who can write to a directory can
// rename its entries. A directory with the sticky bit (/tmp) is accepted on the way, because only the owner can rename
// a file in it.
//
// If others can change it, the error is an [*Error]. The error wraps fs.ErrNotExist if path does not exist and
// everything on the way to it is trusted.
//
// Check uses owners, modes and groups on Unix, and owners and access lists on Windows. On other systems it only
// requires the file to exist.
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
		links++
		if links > maxLinks {
			return fmt.Errorf("%q leads through more than %d symbolic links", path, maxLinks)
		}
		if filepath.IsAbs(target) {
			at = filepath.VolumeName(target) + string(filepath.Separator)
		}
		ahead = append(elements(target), ahead...)
	}
	return nil
}

// Error names another user who may change a file or directory.
type Error struct {
	Path string
	Why  string // "belongs to user 7"
	Do   string // how to make it the user's own
}

func (e *Error) Error() string { return fmt.Sprintf("%q %s: %s", e.Path, e.Why, e.Do) }

// elements splits a path, without its volume, into names. It keeps .., because with links a/.. may differ from the
// parent.
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
