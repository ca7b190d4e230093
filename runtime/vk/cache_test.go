package vk

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/internal/cachefile"
)

func TestCacheKey(t *testing.T) {
	base := DeviceInfo{Caps: device.Caps{VendorID: 1, DeviceUUID: "aa", DriverUUID: "bb", PipelineCacheUUID: "cc",
		DriverVersion: 7}}
	for name, change := range map[string]func(*device.Caps){
		"device":         func(c *device.Caps) { c.DeviceUUID = "ab" },
		"driver":         func(c *device.Caps) { c.DriverUUID = "ab" },
		"cache UUID":     func(c *device.Caps) { c.PipelineCacheUUID = "ab" },
		"driver version": func(c *device.Caps) { c.DriverVersion = 8 },
	} {
		other := base
		if change(&other.Caps); cacheKey(&other) == cacheKey(&base) {
			t.Errorf("another %s has the same key", name)
		}
	}
}

// TestPlantedCacheIsNotRead: the driver must not get data that other users could have written.
func TestPlantedCacheIsNotRead(t *testing.T) {
	files, key := cachefile.Pipelines(t.TempDir()), cacheKey(&DeviceInfo{})
	if err := files.Put(key, []byte("payload")); err != nil {
		t.Fatal(err)
	}
	if got, ok := files.Get(key); !ok || string(got) != "payload" {
		t.Fatalf("read %q", got)
	}
	err := filepath.WalkDir(files.Path, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return os.Chmod(path, 0o666)
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := files.Get(key); runtime.GOOS != "windows" && ok {
		t.Errorf("a file that others can write is read: %q", got)
	}
}
