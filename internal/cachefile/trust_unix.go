//go:build unix

package cachefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

func trusted(path string) error { return trustedBy(os.Geteuid(), path) }

// maxLinks is how many symbolic links a path may lead through, as on Linux.
const maxLinks = 40

// trustedBy is trusted for the user uid.
func trustedBy(uid int, path string) error {
	const root = string(filepath.Separator)
	at, rest := "", append([]string{root}, elements(path)...)
	for links := 0; len(rest) > 0; {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		info, err := os.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := checkOwner(uid, next, info); err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			if err := checkMode(next, info, len(rest) == 0); err != nil {
				return err
			}
			at = next
			continue
		}
		to, err := os.Readlink(next)
		if err != nil {
			return err
		}
		if links++; links > maxLinks {
			return fmt.Errorf("%q leads through more than %d symbolic links", path, maxLinks)
		}
		if filepath.IsAbs(to) {
			at = root
		}
		rest = append(elements(to), rest...)
	}
	return nil
}

// elements splits a path, without its root.
func elements(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == filepath.Separator })
}

func checkOwner(uid int, path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%q: this system does not say whose it is", path)
	}
	if owner := int(stat.Uid); owner != uid && owner != 0 {
		return &UntrustedError{path, fmt.Sprintf("belongs to user %d, and you are user %d", owner, uid), fmt.Sprintf("run as user %d", owner)}
	}
	return nil
}

// checkMode checks who may write. A sticky folder is good enough only on the
// way: anybody can add to it.
func checkMode(path string, info fs.FileInfo, last bool) error {
	const others = 0o022
	mode := info.Mode()
	if mode.Perm()&others == 0 || mode.IsDir() && mode&fs.ModeSticky != 0 && !last {
		return nil
	}
	return &UntrustedError{path, fmt.Sprintf("can be written by others (%s)", mode), fmt.Sprintf("chmod go-w %q", path)}
}
