package vk

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/internal/cachefile"
)

func TestCacheRoundTrip(t *testing.T) {
	id := [32]byte{1, 2, 3}
	for _, payload := range [][]byte{nil, {0}, bytes.Repeat([]byte("pipeline"), 1000)} {
		got, err := decodeCache(id, encodeCache(id, payload))
		if err != nil || !bytes.Equal(got, payload) {
			t.Errorf("%d bytes come back as %d, %v", len(payload), len(got), err)
		}
	}
}

func TestCacheDamage(t *testing.T) {
	id := [32]byte{1, 2, 3}
	whole := encodeCache(id, []byte("some compiled pipelines"))
	for i := range whole {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 0x40
		if _, err := decodeCache(id, damaged); err == nil {
			t.Errorf("a flipped bit in byte %d goes unnoticed", i)
		}
	}
	for n := range whole {
		if _, err := decodeCache(id, whole[:n]); err == nil {
			t.Errorf("the first %d bytes are taken for the whole", n)
		}
	}
	if _, err := decodeCache(id, append(bytes.Clone(whole), 0)); err == nil {
		t.Error("a byte too many goes unnoticed")
	}
	if _, err := decodeCache([32]byte{9}, whole); err == nil {
		t.Error("a foreign cache is accepted")
	}
}

func FuzzDecodeCache(f *testing.F) {
	id := [32]byte{1}
	f.Add([]byte{})
	f.Add(encodeCache(id, nil))
	f.Add(encodeCache(id, []byte("payload")))
	f.Fuzz(func(t *testing.T, file []byte) {
		payload, err := decodeCache(id, file)
		if err == nil && !bytes.Equal(encodeCache(id, payload), file) {
			t.Error("a file is accepted that encodeCache does not write")
		}
	})
}

func TestCacheIdentity(t *testing.T) {
	base := DeviceInfo{Caps: device.Caps{VendorID: 1, DeviceUUID: "aa", DriverUUID: "bb", PipelineCacheUUID: "cc",
		DriverVersion: 7}}
	for name, change := range map[string]func(*device.Caps){
		"device":         func(c *device.Caps) { c.DeviceUUID = "ab" },
		"driver":         func(c *device.Caps) { c.DriverUUID = "ab" },
		"cache UUID":     func(c *device.Caps) { c.PipelineCacheUUID = "ab" },
		"driver version": func(c *device.Caps) { c.DriverVersion = 8 },
	} {
		other := base
		if change(&other.Caps); cacheIdentity(&other) == cacheIdentity(&base) {
			t.Errorf("another %s has the same identity", name)
		}
	}
}

// TestPlantedCacheIsNotRead: the driver must not get data that other users could have written.
func TestPlantedCacheIsNotRead(t *testing.T) {
	id, path := [32]byte{1}, filepath.Join(t.TempDir(), "file")
	if err := cachefile.WriteFile(path, encodeCache(id, []byte("payload"))); err != nil {
		t.Fatal(err)
	}
	if got := readCache(path, id); string(got) != "payload" {
		t.Fatalf("read %q", got)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if got := readCache(path, id); runtime.GOOS != "windows" && got != nil {
		t.Errorf("a file that others can write is read: %q", got)
	}
}
