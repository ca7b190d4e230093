package vk

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"github.com/vkc-go/vkc/internal/cachefile"
)

// pipelineCache is a VkPipelineCache and its file. It uses the file only if the file's checksum matches, it is from
// this device and driver, and no other user can have written it (see cachefile.Trusted). It replaces a file that fails
// the first two checks, and leaves an untrusted file alone.
type pipelineCache struct {
	device *Device
	handle uint64
	path   string      // empty: no file
	grown  atomic.Bool // whether pipelines were added since the last save
}

// The file format: magic, identity, payload length (8 bytes, little endian), SHA-256 of identity and payload, payload.
// The identity is the SHA-256 of the fields in cacheIdentity.
const (
	cacheMagic    = "VKCPIPE1"
	cacheHeader   = len(cacheMagic) + sha256.Size + 8 + sha256.Size
	maxCacheBytes = 512 << 20
)

// errForeignCache is the error for files of another format, device or driver.
var errForeignCache = errors.New("not a pipeline cache of this device and driver")

// cacheIdentity returns a hash of the device and the driver. Drivers check a header in the payload themselves, but some
// have crashed on the header of another driver.
func cacheIdentity(info *DeviceInfo) [sha256.Size]byte {
	c := &info.Caps
	return sha256.Sum256(fmt.Appendf(nil, "%08x %08x %s %s %s %d %d %s", c.VendorID, c.DeviceID, c.DeviceUUID,
		c.DriverUUID, c.PipelineCacheUUID, c.DriverID, c.DriverVersion, c.DriverInfo))
}

// encodeCache returns the contents of a file with a driver's data.
func encodeCache(identity [sha256.Size]byte, payload []byte) []byte {
	sum := cacheSum(identity, payload)
	out := make([]byte, 0, cacheHeader+len(payload))
	out = append(out, cacheMagic...)
	out = append(out, identity[:]...)
	out = binary.LittleEndian.AppendUint64(out, uint64(len(payload)))
	out = append(out, sum[:]...)
	return append(out, payload...)
}

// decodeCache returns the driver's data from the contents of a file. It returns an error unless the file is complete
// and has the given identity.
func decodeCache(identity [sha256.Size]byte, file []byte) ([]byte, error) {
	// The file is: magic, identity, length of the data (8 bytes), checksum, data.
	if len(file) < cacheHeader || string(file[:len(cacheMagic)]) != cacheMagic {
		return nil, errForeignCache
	}
	rest := file[len(cacheMagic):]
	if !bytes.Equal(rest[:sha256.Size], identity[:]) {
		return nil, errForeignCache
	}
	rest = rest[sha256.Size:]
	length := binary.LittleEndian.Uint64(rest)
	sum, payload := rest[8:8+sha256.Size], rest[8+sha256.Size:]
	if length != uint64(len(payload)) {
		return nil, fmt.Errorf("pipeline cache of %d bytes where %d are announced", len(payload), length)
	}
	if want := cacheSum(identity, payload); !bytes.Equal(sum, want[:]) {
		return nil, errors.New("pipeline cache with a wrong checksum")
	}
	return payload, nil
}

// cacheSum returns the checksum of a cache file.
func cacheSum(identity [sha256.Size]byte, payload []byte) (sum [sha256.Size]byte) {
	h := sha256.New()
	h.Write(identity[:])
	h.Write(payload)
	h.Sum(sum[:0])
	return sum
}

// openPipelineCache makes the device's cache, and fills it from the file if there is a usable one.
func openPipelineCache(d *Device) (*pipelineCache, error) {
	c := &pipelineCache{device: d}
	identity := cacheIdentity(&d.info)
	var payload []byte
	if d.options.CacheDir != "" {
		c.path = filepath.Join(d.options.CacheDir, "pipelines-"+hex.EncodeToString(identity[:8])+".vkpc")
		payload = readCache(c.path, identity)
	}
	var r Result
	// If the driver refuses the file's contents, the cache begins empty.
	if c.handle, r = d.native.createPipelineCache(payload); r < 0 && payload != nil {
		c.handle, r = d.native.createPipelineCache(nil)
	}
	return c, d.checkResult(r, "create pipeline cache")
}

// readCache returns the driver's data from a cache file, or nil after any error, because the cache only saves time.
func readCache(path string, identity [sha256.Size]byte) []byte {
	file, err := cachefile.ReadFile(path, maxCacheBytes)
	if err != nil {
		return nil
	}
	payload, err := decodeCache(identity, file)
	if err != nil {
		return nil
	}
	return payload
}

// SavePipelineCache writes the pipeline cache to DeviceOptions.CacheDir, if that is set and pipelines were created
// since the last save. Close does so too.
func (d *Device) SavePipelineCache() error {
	if err := d.checkUsable("save pipeline cache"); err != nil {
		return err
	}
	return d.cache.save()
}

// save writes the cache to its file, if pipelines were added since the last save.
func (c *pipelineCache) save() error {
	if c.path == "" || !c.grown.Swap(false) {
		return nil
	}
	payload, r := c.device.native.pipelineCacheData(c.handle)
	if err := r.check("read pipeline cache"); err != nil {
		return err
	}
	// The data is partial, empty or too large to keep.
	if r == Incomplete || len(payload) == 0 || len(payload) > maxCacheBytes-cacheHeader {
		return nil
	}
	file := encodeCache(cacheIdentity(&c.device.info), payload)
	if err := cachefile.WriteFile(c.path, file); err != nil {
		return fmt.Errorf("vk: save pipeline cache: %w", err)
	}
	return nil
}

// release destroys Vulkan's cache.
func (c *pipelineCache) release() {
	if c.handle != 0 {
		c.device.native.destroy(objectPipelineCache, c.handle)
	}
}
