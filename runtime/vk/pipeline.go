package vk

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	goruntime "runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/vkc-go/vkc/runtime"
)

// PipelineDesc describes a compute pipeline. Its kernel has storage buffers at bindings 0 to Buffers-1 of descriptor
// set 0.
type PipelineDesc struct {
	Name      string // for errors and validation messages
	Code      []byte // SPIR-V, little endian
	Entry     string // entry point; empty: main
	Buffers   int
	PushBytes int // push constants, a multiple of 4
	// SubgroupSize requests one of the device's subgroup sizes; 0 leaves the choice to the driver. It needs
	// Caps.RequiredSubgroupSize.
	SubgroupSize int
	// FullSubgroups forbids partial subgroups. It needs Features.FullSubgroups.
	FullSubgroups bool
	// Constants gives 32-bit specialization constants, by id.
	Constants map[uint32]uint32
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

// pipelineLayout is the Vulkan layout of all kernels with these numbers of buffers and bytes of push constants.
type pipelineLayout struct {
	handle    uint64
	set       uint64 // descriptor set layout
	buffers   int
	pushBytes int
}

// spirvMagic is the first word of a SPIR-V module.
const spirvMagic = 0x07230203

// NewPipeline compiles a kernel for the device.
func (d *Device) NewPipeline(desc PipelineDesc) (*Pipeline, error) {
	if err := d.usable("make pipeline " + desc.Name); err != nil {
		return nil, err
	}
	if err := d.checkPipeline(&desc); err != nil {
		return nil, fmt.Errorf("vk: pipeline %s: %w", desc.Name, err)
	}
	layout, err := d.layouts.pipeline(desc.Buffers, desc.PushBytes)
	if err != nil {
		return nil, err
	}
	if desc.Entry == "" {
		desc.Entry = "main"
	}
	ids := slices.Sorted(maps.Keys(desc.Constants))
	values := make([]uint32, len(ids))
	for i, id := range ids {
		values[i] = desc.Constants[id]
	}
	cache := d.cache.handle
	if desc.Capture&CaptureRepresentations != 0 {
		cache = 0 // driver turnip has no machine code of pipelines from its cache
	}
	id, r := d.native.createPipeline(layout.handle, cache, &desc, ids, values)
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
	if err := d.usable("make pipelines"); err != nil {
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
			if done++; report != nil {
				report(done)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
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
		return fmt.Errorf("%d bytes that are no SPIR-V module", len(desc.Code))
	case desc.Buffers < 0 || desc.Buffers > int(min(caps.MaxStorageBuffers, 1<<16)):
		return fmt.Errorf("%d storage buffers; the device binds 0 to %d", desc.Buffers, caps.MaxStorageBuffers)
	case desc.PushBytes < 0 || desc.PushBytes%4 != 0 || desc.PushBytes > d.maxPushBytes():
		return fmt.Errorf("%d bytes of push constants; want a multiple of 4 up to %d", desc.PushBytes, d.maxPushBytes())
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

// maxPushBytes returns the largest size of push constants that the device supports and recordings can encode.
func (d *Device) maxPushBytes() int { return int(min(d.info.Caps.MaxPushConstants, 256)) }

// Close frees the pipeline after the work submitted so far has finished. Closing twice is fine.
func (p *Pipeline) Close() error { return closeOnce(p) }

func (p *Pipeline) describe() string { return "pipeline " + p.name }

// layoutCache makes each layout once and keeps it as long as the device. There are few layouts.
type layoutCache struct {
	device *Device

	mu        sync.Mutex
	sets      map[int]uint64             // descriptor set layouts, by number of buffers
	pipelines map[[2]int]*pipelineLayout // by number of buffers and bytes of push constants
}

// pipeline returns the layout for kernels with these numbers of buffers and bytes of push constants.
func (c *layoutCache) pipeline(buffers, pushBytes int) (*pipelineLayout, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := [2]int{buffers, pushBytes}
	if layout, ok := c.pipelines[key]; ok {
		return layout, nil
	}
	set, err := c.set(buffers)
	if err != nil {
		return nil, err
	}
	handle, r := c.device.native.createPipelineLayout(set, pushBytes)
	if err := c.device.checkResult(r, "create pipeline layout of %d buffers", buffers); err != nil {
		return nil, err
	}
	layout := &pipelineLayout{handle: handle, set: set, buffers: buffers, pushBytes: pushBytes}
	if c.pipelines == nil {
		c.pipelines = map[[2]int]*pipelineLayout{}
	}
	c.pipelines[key] = layout
	return layout, nil
}

// set returns the descriptor set layout for a number of buffers. The caller holds c.mu.
func (c *layoutCache) set(buffers int) (uint64, error) {
	if set, ok := c.sets[buffers]; ok {
		return set, nil
	}
	set, r := c.device.native.createSetLayout(buffers)
	if err := c.device.checkResult(r, "create layout of %d buffers", buffers); err != nil {
		return 0, err
	}
	if c.sets == nil {
		c.sets = map[int]uint64{}
	}
	c.sets[buffers] = set
	return set, nil
}

// release destroys all layouts.
func (c *layoutCache) release() {
	for _, l := range c.pipelines {
		c.device.native.destroy(objectPipelineLayout, l.handle)
	}
	for _, s := range c.sets {
		c.device.native.destroy(objectSetLayout, s)
	}
	c.pipelines, c.sets = nil, nil
}
