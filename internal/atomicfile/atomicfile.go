// Package atomicfile replaces a file in one step: a reader, in this process or another, sees either the old or the new
// content, and never a part of it, even if the writer is killed or the disk is full.
//
// Data is written to a temporary file in the target's directory (a rename is atomic only within one file system),
// flushed to the disk, and renamed to the target. The directory itself is not flushed: after a power failure the old
// file may be back, complete.
//
// A symbolic link stays, and the file that it refers to is replaced. A target that is not a regular file, such as
// /dev/null, a terminal or a pipe, receives the data once it is complete.
package atomicfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vkc-go/vkc/internal/inputfile"
)

const (
	tempPrefix = ".atomic-"
	tempSuffix = ".tmp"
)

// WriteFile is os.WriteFile made atomic. perm is subject to the umask, even if path exists already.
func WriteFile(path string, data []byte, perm fs.FileMode) error {
	return Write(path, perm, func(f *File) error { _, err := f.Write(data); return err })
}

// Write calls write with a new file, and puts the file at path if write returns no error.
func Write(path string, perm fs.FileMode, write func(f *File) error) error {
	f, err := Create(path, perm)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := write(f); err != nil {
		return err
	}
	return f.Commit()
}

// File is a file being written that gets its final name only at Commit. It embeds the open *os.File, so a header can be
// filled in last through WriteAt or Seek.
type File struct {
	*os.File
	target string
	stream *os.File // the target, if it is not a regular file
	done   bool
}

// Create starts to write the file that Commit will put at path. The caller must call Close (usually deferred), which
// discards the data unless Commit was called.
func Create(path string, perm fs.FileMode) (*File, error) {
	f := &File{target: path}
	dir := filepath.Dir(path)
	if st, err := os.Stat(path); err == nil && !st.IsDir() {
		if st.Mode().IsRegular() {
			if f.target, err = filepath.EvalSymlinks(path); err != nil {
				return nil, err
			}
			dir = filepath.Dir(f.target)
		} else {
			// Opening a pipe without a reader fails instead of blocking.
			if f.stream, err = os.OpenFile(path, os.O_WRONLY|inputfile.NonBlocking, 0); err != nil {
				return nil, err
			}
			dir = os.TempDir()
		}
	}
	temp := filepath.Join(dir, tempPrefix+rand.Text()+tempSuffix)
	var err error
	f.File, err = os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
	if wrong := (*fs.PathError)(nil); errors.As(err, &wrong) && f.stream == nil {
		wrong.Path = path // the caller knows the file by this path only
	}
	if err != nil {
		if f.stream != nil {
			f.stream.Close()
		}
		return nil, err
	}
	return f, nil
}

// Commit flushes the data to disk and renames the temporary file to the final path. If the target is not a regular
// file, Commit copies the data to it. After an error a regular target is unchanged and the temporary file is gone.
func (f *File) Commit() error {
	if f.done {
		return fmt.Errorf("commit %s: %w", f.target, fs.ErrClosed)
	}
	if f.stream != nil {
		_, err := f.Seek(0, io.SeekStart)
		if err == nil {
			_, err = io.Copy(f.stream, f.File)
		}
		return errors.Join(err, f.Close())
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
	err := errors.Join(f.File.Close(), os.Remove(f.Name()))
	if f.stream != nil {
		err = errors.Join(err, f.stream.Close())
	}
	return err
}

// IsTemp reports whether name (a base name) is a temporary file of Create.
func IsTemp(name string) bool {
	return strings.HasPrefix(name, tempPrefix) && strings.HasSuffix(name, tempSuffix)
}

// RemoveStale deletes temporary files in dir that are older than age; killed processes leave them behind. An age well
// above the duration of a write protects the files of live writers.
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
