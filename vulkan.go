package vkc

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/cachefile"
	"github.com/vkc-go/vkc/internal/tunefile"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// vulkan is a Vulkan device. tuning reads its tuning file once.
type vulkan struct {
	identity
	singleDevice
	inst   *vk.Instance
	dev    *vk.Device
	tuning func() (*tunefile.File, error)
}

// openVulkan opens the Vulkan device that want names.
func openVulkan(want string, options openOptions) (*vulkan, error) {
	inst, err := options.open()
	if err != nil {
		return nil, err
	}
	index, why, err := vk.Choose(inst.Devices(), want)
	if err != nil {
		return nil, errors.Join(err, inst.Close())
	}
	root, _ := cachefile.Root() // without a cache directory no pipelines are stored
	options.CacheDir = cachefile.PipelineDir(root)
	dev, err := inst.OpenDevice(index, options.DeviceOptions)
	if err != nil {
		return nil, errors.Join(err, inst.Close())
	}
	caps := dev.Caps()
	if limit := options.MemoryLimit; limit > 0 {
		caps.DeviceMemory = min(caps.DeviceMemory, limit)
	}
	d := &vulkan{identity: identity{caps: caps, why: why}, inst: inst, dev: dev}
	d.tuning = sync.OnceValues(func() (*tunefile.File, error) { return tunefile.DeviceTuning(d.caps) })
	return d, nil
}

// compile compiles a graph with the schedules of the device's tuning file, unless opt has others.
func (d *vulkan) compile(ctx context.Context, g *ir.Graph, opt CompileOptions) (*Program, error) {
	opt.Target = d.caps
	if opt.Tuning == nil {
		measured, _ := d.tuning() // an unusable tuning file is ignored
		opt.Target, opt.Tuning = measured.On(d.caps), measured.Tuning()
	}
	if opt.Memory > 0 {
		opt.Target.DeviceMemory = min(opt.Target.DeviceMemory, opt.Memory)
	}
	return Compile(ctx, g, opt)
}

// load loads the program's kernels on the device.
func (d *vulkan) load(ctx context.Context, p *Program, opt LoadOptions) (*Executable, error) {
	if opt.Share != nil && opt.Share.Vulkan() == nil {
		return nil, errSharedElsewhere(&d.identity, opt.Share)
	}
	if p.Contents.Program == nil {
		return nil, fmt.Errorf("on %s: the program was made for the CPU fast path: compile the graph for this device",
			d.caps.Name)
	}
	options := vk.LoadOptions{Graph: p.Contents.Graph, Progress: opt.Progress, Guards: opt.Guards,
		Share: opt.Share.Vulkan(), WeightRoom: opt.WeightRoom, Statistics: opt.Statistics}
	measured, _ := d.tuning() // an unusable tuning file is ignored
	options.Machine = device.MachineOf(measured.On(d.caps))
	if opt.WeightRoom > 0 {
		options.HostFirst = sparselyRead(p.Contents.Graph)
	}
	exe, err := d.dev.Load(ctx, p.Contents.Program, p.Contents.SPIRV, opt.Weights, options)
	plain, again := d.withoutCopies(ctx, p, opt, err)
	if again {
		exe, err = d.dev.Load(ctx, plain.Contents.Program, plain.Contents.SPIRV, opt.Weights, options)
	}
	if err != nil {
		if _, others, _ := ir.FitWeights(p.Contents.Graph, opt.Weights); others > 0 {
			err = fmt.Errorf("%w; kernels read weights as they were stored at compile time: compile the graph with "+
				"these (CompileOptions.Weights, vkc compile --weights)", runtime.Reason(err))
		}
		return nil, err
	}
	return &Executable{backend: exe, why: d.why, withoutCopies: again}, nil
}

// withoutCopies compiles a program again if its load ran out of memory: without decoded copies of weights, which need
// memory that others may have taken since vkc decided to keep them. It returns false for another error, for a program
// without copies, and if it cannot compile the graph.
func (d *vulkan) withoutCopies(ctx context.Context, p *Program, opt LoadOptions, err error) (*Program, bool) {
	memory := (*vk.OutOfMemoryError)(nil)
	if !errors.As(err, &memory) || preparedBytes(p) == 0 {
		return nil, false
	}
	const noCopies = 1 // in a byte of memory no copy fits
	plain, err := d.compile(ctx, p.Contents.Graph, CompileOptions{Weights: opt.Weights, Memory: noCopies,
		Progress: opt.Progress, OneKernel: p.Contents.Meta.OneKernel})
	return plain, err == nil && preparedBytes(plain) < preparedBytes(p)
}

// preparedBytes returns the size of the values that a program computes at load.
func preparedBytes(p *Program) (n int64) {
	for _, b := range p.Contents.Program.Buffers {
		if b.Kind == kernel.BufPrepared {
			n += b.Bytes
		}
	}
	return n
}

// sparselyRead returns the names of the weights from which a run reads only the rows or expert matrices that an index
// tensor selects (embeddings, experts). These weights lose least when they are kept in host memory, which is slow for
// the device.
func sparselyRead(g *ir.Graph) map[string]bool {
	users, names := g.Users(), map[string]bool{}
	var readSparsely func(n *ir.Node) bool // whether all readers of n select from it by index
	readSparsely = func(n *ir.Node) bool {
		for _, u := range users[n.ID()] {
			switch {
			case u.Op() == ir.OpEmbedding || u.Op() == ir.OpMatMulID || u.Op() == ir.OpIndexSelect:
			case (u.Op() == ir.OpDequantize || u.Op().Class() == ir.ClassView) && readSparsely(u):
			default:
				return false
			}
		}
		return true
	}
	for _, n := range g.Leaves(ir.OpWeight) {
		names[n.Name()] = readSparsely(n)
	}
	return names
}

func (d *vulkan) backend() any { return d.dev }

func (d *vulkan) hardware() []hardware { return []hardware{d} }

func (d *vulkan) traffic() Traffic { return d.dev.Traffic() }

func (d *vulkan) memory() runtime.MemoryUse { return d.dev.MemoryStats().Owners }

func (d *vulkan) synchronize(ctx context.Context) error { return d.dev.WaitIdle(ctx) }

func (d *vulkan) close() error { return errors.Join(d.dev.Close(), d.inst.Close()) }
