//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package spirv

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// lockDir takes the lock of a directory. held is false where another process
// has it, or has removed the directory meanwhile. The error is that of a file
// system without locks, or of a directory that is not ours to write.
func lockDir(dir string) (lock *os.File, held bool, err error) {
	path := filepath.Join(dir, "lock")
	lock, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	switch err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		lock.Close()
		return nil, false, nil
	case err != nil:
		lock.Close()
		return nil, false, err
	}
	mine, err := lock.Stat()
	if err != nil {
		lock.Close()
		return nil, false, err
	}
	if there, err := os.Lstat(path); err != nil || !os.SameFile(mine, there) {
		lock.Close()
		return nil, false, nil
	}
	return lock, true, nil
}

// removeLocked removes a directory whose lock this process holds, by another
// name first: whoever has just made it then finds it gone, rather than locks it
// between the removal of the lock and its own.
func removeLocked(path string, lock *os.File) {
	defer lock.Close()
	if gone := path + "-gone"; os.Rename(path, gone) == nil {
		os.RemoveAll(gone)
	}
}

// ownDir reports whether path is a directory as os.MkdirTemp makes them for
// this user. Others may have put anything into the system's directory of
// temporary files, by any name.
func ownDir(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != fs.ModeDir|0o700 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
