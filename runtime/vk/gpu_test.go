package vk

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAnyFile(t *testing.T) {
	dir := t.TempDir()
	nodes := []string{filepath.Join(dir, "dri/render*"), filepath.Join(dir, "card*")}
	if anyFile(nodes) {
		t.Error("found a file in an empty folder")
	}
	if err := os.WriteFile(filepath.Join(dir, "card0"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !anyFile(nodes) {
		t.Error("card0 is not found")
	}
}
