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

// lockDir locks a directory by locking a file in it, and returns that file; closing it releases the lock. held is false
// if another process has locked the directory, or has removed it meanwhile. An error means a file system without locks,
// or a directory without write permission.
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
	// Another process may have removed the directory between OpenFile and Flock, and a third may have made it again.
	// Then path names another file, or none.
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

// removeLocked removes a directory that this process has locked. It first renames the directory. Otherwise a process
// that has just made the directory could lock it after the lock file is removed and before the directory is.
func removeLocked(path string, lock *os.File) {
	defer lock.Close()
	if gone := path + "-gone"; os.Rename(path, gone) == nil {
		os.RemoveAll(gone)
	}
}

// ownDir reports whether path is a directory that os.MkdirTemp made for this user. Other users may make files with any
// name in the system's temporary directory.
func ownDir(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != fs.ModeDir|0o700 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
