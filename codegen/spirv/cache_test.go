package spirv

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/vkc-go/vkc/internal/cachefile"
)

var testKey = cachefile.KeyOf("test")

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// entryPath returns the only file of a cache.
func entryPath(t *testing.T, c cachefile.Dir) string {
	t.Helper()
	entries, err := c.Entries()
	if err != nil || len(entries) != 1 {
		t.Fatalf("%d entries, %v; want 1", len(entries), err)
	}
	return entries[0].Path
}

func TestCacheRoundTrip(t *testing.T) {
	c := OpenCache(t.TempDir())
	if _, ok := c.Get(testKey); ok {
		t.Error("hit in an empty cache")
	}
	for i := range 2 {
		want := tinyModule(uint32(i + 1))
		if err := c.Put(testKey, want); err != nil {
			t.Fatal(err)
		}
		if got, ok := c.Get(testKey); !ok || !bytes.Equal(got, want) {
			t.Errorf("got %x, %v; want %x", got, ok, want)
		}
	}
}

// TestForeignEntryIsMiss: a cache entry that is not SPIR-V is a miss, even with a correct checksum.
func TestForeignEntryIsMiss(t *testing.T) {
	for name, content := range map[string][]byte{"text": []byte("text"), "nothing": nil,
		"cut short": tinyModule(1)[:24]} {
		t.Run(name, func(t *testing.T) {
			c := OpenCache(t.TempDir())
			if err := c.Put(testKey, content); err != nil {
				t.Fatal(err)
			}
			path := entryPath(t, c)
			if _, ok := c.Get(testKey); ok || exists(path) {
				t.Errorf("hit %v, file left %v; want a miss and no file", ok, exists(path))
			}
		})
	}
	t.Run("directory", func(t *testing.T) {
		c := OpenCache(t.TempDir())
		if err := c.Put(testKey, tinyModule(1)); err != nil {
			t.Fatal(err)
		}
		path := entryPath(t, c)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(path, "full"), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, ok := c.Get(testKey); ok {
			t.Error("hit on a directory")
		}
	})
}
