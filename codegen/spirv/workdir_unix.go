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

// lockDir takes the lock of a directory. held is false if another process has it, or has removed the directory
// meanwhile. An error means a file system without locks, or a directory that we may not write.
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

// removeLocked removes a directory while this process holds its lock. It renames the directory first, so that a process
// that has just made it finds it gone. Otherwise that process could lock it between the removals of the lock file and
// of the directory.
func removeLocked(path string, lock *os.File) {
	defer lock.Close()
	if gone := path + "-gone"; os.Rename(path, gone) == nil {
		os.RemoveAll(gone)
	}
}

// ownDir reports whether path is a directory that os.MkdirTemp made for this user. Others may put anything into the
// system's directory of temporary files, under any name.
func ownDir(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != fs.ModeDir|0o700 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
