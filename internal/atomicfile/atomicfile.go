// Package atomicfile replaces a file in one step: a reader, in this process or
// another, sees the old content or the whole new content and never a part of
// it, even where the writer is killed or the disk fills up half way.
//
// Data is written to a temporary file in the target's own directory (a rename
// is atomic only within one file system), flushed to the disk, and renamed
// over the target. The directory itself is not flushed: after a power failure
// the old file may be back, which is still a whole file.
package atomicfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	tempPrefix = ".atomic-"
	tempSuffix = ".tmp"
)

// WriteFile is os.WriteFile made atomic. perm is subject to the umask, also
// where path already exists.
func WriteFile(path string, data []byte, perm fs.FileMode) error {
	f, err := Create(path, perm)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Commit()
}

// File is a file being written that takes its final name only at Commit. It
// embeds the open *os.File, so a header can be filled in last through WriteAt
// or Seek.
type File struct {
	*os.File
	target string
	done   bool
}

// Create starts to write the file that Commit will put at path. The caller
// must call Close (usually deferred), which throws the data away unless Commit
// came first.
func Create(path string, perm fs.FileMode) (*File, error) {
	temp := filepath.Join(filepath.Dir(path), tempPrefix+rand.Text()+tempSuffix)
	f, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
	if wrong := (*fs.PathError)(nil); errors.As(err, &wrong) {
		wrong.Path = path // whoever asked for that file knows no other
	}
	if err != nil {
		return nil, err
	}
	return &File{File: f, target: path}, nil
}

// Commit flushes the data to the disk and renames it to the final path. After
// an error the target is untouched and the temporary file is gone.
func (f *File) Commit() error {
	if f.done {
		return fmt.Errorf("commit %s: %w", f.target, fs.ErrClosed)
	}
	f.done = true
	err := errors.Join(f.Sync(), f.File.Close())
	if err == nil {
		err = Retry(func() error { return os.Rename(f.Name(), f.target) })
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// Close throws the data away, unless Commit was called: then it does nothing.
func (f *File) Close() error {
	if f.done {
		return nil
	}
	f.done = true
	return errors.Join(f.File.Close(), os.Remove(f.Name()))
}

// IsTemp reports whether name (a base name) is one that Create gives to a file
// in the making.
func IsTemp(name string) bool {
	return strings.HasPrefix(name, tempPrefix) && strings.HasSuffix(name, tempSuffix)
}

// RemoveStale deletes the temporary files in dir that were last written more
// than age ago: what a killed process left behind. An age well above the time
// that a write takes keeps files of live writers safe.
func RemoveStale(dir string, age time.Duration) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !IsTemp(e.Name()) {
			continue
		}
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < age {
			continue // gone already, or still being written
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
