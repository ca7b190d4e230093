package vk

import (
	"fmt"
	"sync/atomic"

	"github.com/vkc-go/vkc/internal/cachefile"
)

// pipelineCache is a VkPipelineCache and its entry among the files of the user's pipeline caches.
type pipelineCache struct {
	device *Device
	handle uint64
	files  *cachefile.Dir // nil: no file
	grown  atomic.Bool    // whether pipelines were added since the last save
}

// cacheKey returns the key of a device and driver. Drivers check a header in their data themselves, but some have
// crashed on the header of another driver.
func cacheKey(info *DeviceInfo) cachefile.Key {
	c := &info.Caps
	return cachefile.KeyOf(fmt.Sprintf("%08x %08x %s %s %s %d %d %s", c.VendorID, c.DeviceID, c.DeviceUUID,
		c.DriverUUID, c.PipelineCacheUUID, c.DriverID, c.DriverVersion, c.DriverInfo))
}

// openPipelineCache makes the device's cache, and fills it from the file if there is a usable one.
func openPipelineCache(d *Device) (*pipelineCache, error) {
	c := &pipelineCache{device: d}
	var payload []byte
	if d.options.CacheDir != "" {
		files := cachefile.Pipelines(d.options.CacheDir)
		c.files = &files
		payload, _ = files.Get(cacheKey(&d.info))
	}
	var r Result
	// If the driver refuses the file's contents, the cache begins empty.
	if c.handle, r = d.native.createPipelineCache(payload); r < 0 && payload != nil {
		c.handle, r = d.native.createPipelineCache(nil)
	}
	return c, d.checkResult(r, "create pipeline cache")
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
	if c.files == nil || !c.grown.Swap(false) {
		return nil
	}
	payload, r := c.device.native.pipelineCacheData(c.handle)
	if err := r.check("read pipeline cache"); err != nil {
		return err
	}
	// The data is partial, empty or too large to keep.
	if r == Incomplete || len(payload) == 0 || int64(len(payload)) > c.files.MaxPayload {
		return nil
	}
	if err := c.files.Put(cacheKey(&c.device.info), payload); err != nil {
		return fmt.Errorf("vk: save pipeline cache: %w", err)
	}
	return nil
}
