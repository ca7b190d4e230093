// Package atomicfile replaces a file in one step: a reader, in this process or
// another, sees the old content or the whole new content and never a part of
// it, even where the writer is killed or the disk fills up half way.
//
// Data is written to a temporary file in the target's own directory (a rename
// is atomic only within one file system), flushed to the disk, and renamed
// over the target. The directory itself is not flushed: after a power failure
// the old file may be back, which is still a whole file.
//
// A link stays, and the file that it names is replaced. What is no regular
// file, such as /dev/null, a terminal or a pipe, has no content to replace: it
// is sent the data, once all of it is there.
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
	"syscall"
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
	stream *os.File // the target, if it is no regular file
	done   bool
}

// Create starts to write the file that Commit will put at path. The caller
// must call Close (usually deferred), which throws the data away unless Commit
// came first.
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
			// A pipe that no one reads is an error, and does not keep the writer waiting.
			if f.stream, err = os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0); err != nil {
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

// IsTemp reports whether name (a base name) is one that Create gives to a file
// in the making.
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
