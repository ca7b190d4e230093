package spirv

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// lockName is the name of the file that lockDir makes in a directory.
const lockName = "lock"

// lockDir locks a directory by a file that no other process can open while it is open, and that disappears when it is
// closed. held is false if another process has locked the directory, or has removed it meanwhile.
func lockDir(dir string) (lock *os.File, held bool, err error) {
	path := filepath.Join(dir, lockName)
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, false, err
	}
	h, err := windows.CreateFile(p, windows.GENERIC_READ|windows.GENERIC_WRITE|windows.DELETE, 0, nil,
		windows.OPEN_ALWAYS, windows.FILE_FLAG_DELETE_ON_CLOSE|windows.FILE_ATTRIBUTE_TEMPORARY, 0)
	switch {
	case errors.Is(err, windows.ERROR_SHARING_VIOLATION), errors.Is(err, windows.ERROR_ACCESS_DENIED), // being removed
		errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case err != nil:
		return nil, false, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return os.NewFile(uintptr(h), path), true, nil
}

// removeLocked removes a directory that this process has locked. Another process may lock it between Close and Remove.
// Its lock file then makes Remove fail, and the directory stays.
func removeLocked(path string, lock *os.File) {
	entries, _ := os.ReadDir(path)
	for _, e := range entries {
		if e.Name() != lockName {
			os.RemoveAll(filepath.Join(path, e.Name()))
		}
	}
	lock.Close()
	os.Remove(path)
}

// ownDir reports whether path is a directory, and not a link to one. Other users cannot write to the user's temporary
// directory.
func ownDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}
