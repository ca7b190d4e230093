package inputfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := Read(path); string(text) != "text" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), dir+" is a directory and not a regular file") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := Open(os.DevNull); err == nil || !strings.Contains(err.Error(), "is a device and not a regular file") {
		t.Errorf("a device: %v", err)
	}
	if _, err := Open(path + "x"); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
}
