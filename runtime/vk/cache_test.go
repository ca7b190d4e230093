package vk

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/vkc-go/vkc/codegen/target"
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
	base := DeviceInfo{Caps: target.Caps{VendorID: 1, DeviceUUID: "aa", DriverUUID: "bb", PipelineCacheUUID: "cc", DriverVersion: 7}}
	for name, change := range map[string]func(*target.Caps){
		"device":         func(c *target.Caps) { c.DeviceUUID = "ab" },
		"driver":         func(c *target.Caps) { c.DriverUUID = "ab" },
		"cache UUID":     func(c *target.Caps) { c.PipelineCacheUUID = "ab" },
		"driver version": func(c *target.Caps) { c.DriverVersion = 8 },
	} {
		other := base
		if change(&other.Caps); cacheIdentity(&other) == cacheIdentity(&base) {
			t.Errorf("another %s has the same identity", name)
		}
	}
}

func TestWriteAtomically(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "file")
	for _, want := range []string{"first", "second, longer"} {
		if err := writeAtomically(path, []byte(want)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("the file holds %q, %v; want %q", got, err, want)
		}
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("temporary files are left: %v", entries)
	}
	if err := writeAtomically(filepath.Join(path, "below a file"), nil); err == nil {
		t.Error("writing below a file succeeds")
	}
}
