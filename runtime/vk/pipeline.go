package vk

import (
	"context"
	"encoding/binary"
	"fmt"
	goruntime "runtime"
	"sync"
	"sync/atomic"

	"github.com/vkc-go/vkc/internal/cachefile"
	"github.com/vkc-go/vkc/runtime"
	"golang.org/x/sync/errgroup"
)

// PipelineDesc describes a compute pipeline. Its kernel is the module's entry point main, with storage buffers at
// bindings 0 to Buffers-1 of descriptor set 0.
type PipelineDesc struct {
	Name    string // for errors and validation messages
	Code    []byte // SPIR-V, little endian
	Buffers int
	// SubgroupSize requests one of the device's subgroup sizes; 0 leaves the choice to the driver. It needs
	// Caps.RequiredSubgroupSize.
	SubgroupSize int
	// FullSubgroups forbids partial subgroups. It needs Features.FullSubgroups.
	FullSubgroups bool
	// Capture makes the driver keep data for [Pipeline.Statistics] and [Pipeline.Representations]. It needs
	// Features.PipelineExecutableProperties.
	Capture Capture
}

// Pipeline is a kernel compiled for the device.
type Pipeline struct {
	object
	name    string
	handle  uint64 // Vulkan's pipeline
	layout  *pipelineLayout
	capture Capture // PipelineDesc.Capture
}

// pipelineLayout is the Vulkan layout of all kernels with this number of buffers.
type pipelineLayout struct {
	handle  uint64
	set     uint64 // descriptor set layout
	buffers int
}

// spirvMagic is the first word of a SPIR-V module.
const spirvMagic = 0x07230203

// NewPipeline compiles a kernel for the device.
func (d *Device) NewPipeline(desc PipelineDesc) (*Pipeline, error) {
	if err := d.checkUsable("make pipeline " + desc.Name); err != nil {
		return nil, err
	}
	if err := d.checkPipeline(&desc); err != nil {
		return nil, fmt.Errorf("vk: pipeline %s: %w", desc.Name, err)
	}
	layout, err := d.layouts.layoutFor(desc.Buffers)
	if err != nil {
		return nil, err
	}
	cache := d.cache.handle
	if desc.Capture&CaptureRepresentations != 0 {
		cache = 0 // driver turnip has no machine code of pipelines from its cache
	}
	id, r := d.native.createPipeline(layout.handle, cache, &desc)
	if err := d.checkResult(r, "compile pipeline %s", desc.Name); err != nil {
		return nil, err
	}
	if cache != 0 {
		d.cache.grown.Store(true)
	}
	d.native.setName(objectPipeline, id, desc.Name)
	p := &Pipeline{object: object{device: d, owned: [2]handle{{objectPipeline, id}}}, name: desc.Name, handle: id,
		layout: layout, capture: desc.Capture}
	d.adopt(p)
	return p, nil
}

// NewPipelines compiles pipelines on several threads and returns them in the order of descs. If one fails or ctx ends,
// it returns an error and no pipelines. It calls report, unless that is nil, with the number of pipelines done. The
// calls do not overlap.
func (d *Device) NewPipelines(ctx context.Context, descs []PipelineDesc, report func(done int)) ([]*Pipeline, error) {
	if err := runtime.CheckContext(ctx); err != nil {
		return nil, fmt.Errorf("vk: make pipelines: %w", err)
	}
	if err := d.checkUsable("make pipelines"); err != nil {
		return nil, err
	}
	made := make([]*Pipeline, len(descs))
	var mu sync.Mutex
	done := 0
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(goruntime.GOMAXPROCS(0))
	for i := range descs {
		group.Go(func() (err error) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if made[i], err = d.NewPipeline(descs[i]); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			done++
			if report != nil {
				report(done)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		// The pipelines that were made before the error are of no use.
		for _, p := range made {
			if p != nil {
				p.Close()
			}
		}
		return nil, err
	}
	return made, nil
}

// checkPipeline checks desc against the device's limits. If the device has only one subgroup size, it also clears
// desc.SubgroupSize.
func (d *Device) checkPipeline(desc *PipelineDesc) error {
	caps := &d.info.Caps
	size := desc.SubgroupSize
	switch {
	case len(desc.Code) < 20 || len(desc.Code)%4 != 0 || binary.LittleEndian.Uint32(desc.Code) != spirvMagic:
		return fmt.Errorf("%d bytes that are not a SPIR-V module", len(desc.Code))
	case desc.Buffers < 0 || desc.Buffers > int(min(caps.MaxStorageBuffers, 1<<16)):
		return fmt.Errorf("%d storage buffers; the device binds 0 to %d", desc.Buffers, caps.MaxStorageBuffers)
	case size != 0 && !caps.RequiredSubgroupSize && size != int(caps.SubgroupSize):
		return fmt.Errorf("subgroup size %d: the device has %d and no choice", size, caps.SubgroupSize)
	case size != 0 && (size&(size-1) != 0 || size < int(caps.MinSubgroupSize) || size > int(caps.MaxSubgroupSize)):
		return fmt.Errorf("subgroup size %d: want a power of two from %d to %d", size, caps.MinSubgroupSize,
			caps.MaxSubgroupSize)
	case desc.FullSubgroups && !caps.Features.FullSubgroups:
		return fmt.Errorf("the device cannot promise full subgroups")
	case desc.Capture != 0 && !caps.Features.PipelineExecutableProperties:
		return fmt.Errorf("the driver does not say what it compiled: %s has no VK_KHR_pipeline_executable_properties",
			caps.Name)
	}
	if size != 0 && !caps.RequiredSubgroupSize {
		desc.SubgroupSize = 0 // the device has only this size
	}
	return nil
}

// Close frees the pipeline after the work submitted so far has finished. Closing twice is fine.
func (p *Pipeline) Close() error { return closeOnce(p) }

func (p *Pipeline) describe() string { return "pipeline " + p.name }

// layoutCache makes each layout once and keeps it as long as the device. There are few layouts.
type layoutCache struct {
	device *Device

	mu      sync.Mutex
	layouts map[int]*pipelineLayout // by number of buffers
}

// layoutFor returns the layout for kernels with this number of buffers.
func (c *layoutCache) layoutFor(buffers int) (*pipelineLayout, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if layout, ok := c.layouts[buffers]; ok {
		return layout, nil
	}
	layout, n := &pipelineLayout{buffers: buffers}, c.device.native
	var r Result
	layout.set, r = n.createSetLayout(buffers)
	if err := c.device.checkResult(r, "create set layout of %d buffers", buffers); err != nil {
		return nil, err
	}
	layout.handle, r = n.createPipelineLayout(layout.set)
	if err := c.device.checkResult(r, "create layout of %d buffers", buffers); err != nil {
		n.destroy(objectSetLayout, layout.set)
		return nil, err
	}
	if c.layouts == nil {
		c.layouts = map[int]*pipelineLayout{}
	}
	c.layouts[buffers] = layout
	return layout, nil
}

// release destroys all layouts.
func (c *layoutCache) release() {
	for _, l := range c.layouts {
		c.device.native.destroy(objectPipelineLayout, l.handle)
		c.device.native.destroy(objectSetLayout, l.set)
	}
	c.layouts = nil
}

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
