package mmap

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func writeTemp(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data.bin")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOpenGivesTheContent(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789"), 100_000)
	for name, content := range map[string][]byte{"empty": {}, "one byte": {7}, "many pages": big} {
		t.Run(name, func(t *testing.T) {
			f, err := Open(writeTemp(t, content))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(f.Bytes(), content) {
				t.Errorf("got %d bytes that differ from the %d written", len(f.Bytes()), len(content))
			}
			if err := f.Intact(); err != nil {
				t.Errorf("Intact of an untouched file: %v", err)
			}
			if err := f.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			if err := f.Close(); err != nil {
				t.Errorf("second Close: %v", err)
			}
			if err := f.Intact(); !errors.Is(err, os.ErrClosed) {
				t.Errorf("Intact after Close = %v, want os.ErrClosed", err)
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent file: got %v, want os.ErrNotExist", err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("directory: got %v, want it named as not a regular file", err)
	}
}

func TestTruncationIsAnError(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the fault is specific to mapped files; checked on Linux")
	}
	path := writeTemp(t, make([]byte, 1<<20))
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	if err := f.Intact(); err == nil || !strings.Contains(err.Error(), "cut short") {
		t.Errorf("Intact = %v, want an error that says the file was cut short", err)
	}
	var sum byte
	err = Guard(func() error {
		sum += f.Bytes()[len(f.Bytes())-1]
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("Guard over a lost page = %v (sum %d), want an error that names the file", err, sum)
	}
}

func TestGuardPassesOtherOutcomesOn(t *testing.T) {
	f, err := Open(writeTemp(t, []byte("abc")))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := errors.New("from the reader")
	if got := Guard(func() error { return want }); got != want {
		t.Errorf("Guard = %v, want the reader's own error", got)
	}
	defer func() {
		if got := recover(); got != "a bug" {
			t.Errorf("recovered %v, want the reader's own panic", got)
		}
	}()
	_ = Guard(func() error { panic("a bug") })
}

// TestGuardNamesTheFile maps several files. One of them faults.
func TestGuardNamesTheFile(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the fault is specific to mapped files; checked on Linux")
	}
	var files []*File
	for range 3 {
		f, err := Open(writeTemp(t, make([]byte, 1<<16)))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	cut := files[1]
	if err := os.Truncate(cut.path, 0); err != nil {
		t.Fatal(err)
	}
	copied := make([]byte, 1<<16)
	for i, f := range files {
		err := Guard(func() error { copy(copied, f.Bytes()); return nil })
		if (err != nil) != (f == cut) || err != nil && !strings.Contains(err.Error(), cut.path) {
			t.Errorf("file %d: %v", i, err)
		}
	}
	// The system reads here, and fails instead of faulting.
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	err = Guard(func() error { _, err := out.Write(cut.Bytes()); return err })
	if err == nil || !strings.Contains(err.Error(), cut.path) {
		t.Errorf("writing what is lost: %v, want an error that names %s", err, cut.path)
	}
}
