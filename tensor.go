package vkc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/internal/mailbox"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/collective"
	"github.com/vkc-go/vkc/runtime/multi"
	"github.com/vkc-go/vkc/runtime/vk"
)

// tensorParallel is several devices that share the work of each op. group is their process group, through which kernels
// exchange values.
type tensorParallel struct {
	combined
	group *collective.Group
}

// TensorParallel combines the devices into one that shares the work of each op. Weights and states that a graph marks
// for it are cut between the devices (see [partition.SplitTensor]), so that each reads its share concurrently. All
// devices must be Vulkan devices with Features.ExternalMemoryHost, or all the CPU.
//
// Kernels exchange values through host memory that all devices import. There are four ways for a device to learn that a
// value has arrived:
//
//   - Kernels of software devices wait for flags in host memory.
//   - A GPU may see another device's writes to host memory only after its program has ended. If it sees the host's
//     writes to its own memory at once, the host copies the flags there, and kernels wait for them.
//   - Otherwise a program ends at each exchange, and the host starts the rest of it.
//   - Between NVIDIA cards with peer access, the host may copy the values with CUDA (libcuda.so.1) instead.
//
// Load tries which of these transports work. Each run takes the cheapest. [Executable.Why] says which one the largest
// run takes.
//
// Results are the graph's results, except that cut sums are added in a different order than on one device. Runs are
// serialized. If the host relays flags, runs whose outputs all stay on the devices return without waiting, up to eight
// at a time. Device tensors are on each device. If a device does not arrive at an exchange, a timeout ends the run on
// all devices with an error: of the run, of reading its results, or else of the next run.
func (d Devices) TensorParallel() (*Device, error) {
	if len(d) < 2 {
		return d.Together()
	}
	if len(d) > mailbox.MaxRanks {
		return nil, fmt.Errorf("devices: %d share each op: the limit is %d", len(d), mailbox.MaxRanks)
	}
	s, err := newCombined(d, "they share each op")
	if err != nil {
		return nil, err
	}
	var devices []*vk.Device
	for _, one := range d {
		if v := vk.Of(one); v != nil {
			devices = append(devices, v)
		}
	}
	group, err := collective.New(multi.Traits(d.describe()), devices)
	if err != nil {
		return nil, err
	}
	group.LoadGraph = func(ctx context.Context, rank int, g *ir.Graph) (runtime.Executable, error) {
		exe, err := d[rank].LoadGraph(ctx, g, nil)
		return exe.program(), err
	}
	return &Device{kind: &tensorParallel{s, group}}, nil
}

// OpenTensorParallel opens the devices of a list such as "0,1" as one device; see [OpenDevices] and
// [Devices.TensorParallel].
func OpenTensorParallel(list string, opt ...DeviceOption) (*Device, error) {
	devices, err := OpenDevices(list, opt...)
	if err != nil {
		return nil, err
	}
	d, err := devices.TensorParallel()
	if err != nil {
		return nil, errors.Join(err, devices.Close())
	}
	return d, nil
}

func (d *tensorParallel) compile(ctx context.Context, g *ir.Graph, opt CompileOptions) (*Program, error) {
	return d.compileParts(ctx, g, opt, func(g *ir.Graph) (multi.Split, error) {
		return multi.SplitTensor(ctx, g, d.group)
	})
}

// load loads each device's shard of the program on the device. It returns an error if the program was compiled for
// other devices, or if opt.Share is an executable elsewhere.
func (d *tensorParallel) load(ctx context.Context, p *Program, opt LoadOptions) (*Executable, error) {
	shards, ok := p.split.(multi.Shards)
	if !ok || len(shards) != len(d.members) {
		return nil, d.errOtherDevices()
	}
	other, ok := opt.Share.program().(*multi.Tensor)
	if opt.Share != nil && (!ok || other.Group() != d.group) {
		return nil, errSharedElsewhere(&d.identity, opt.Share)
	}
	exes, names, err := d.loadParts(ctx, p, opt, func(rank int) *Executable {
		return &Executable{backend: other.Parts()[rank]}
	})
	if err != nil {
		return nil, err
	}
	x, err := multi.NewTensor(ctx, p.Contents.Graph, shards, d.group, names, programs(exes), sameKernels(p.parts))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("on %s: %w", d.caps.Name, err), runtime.Each(exes, (*Executable).Close))
	}
	return &Executable{backend: x, why: "tensor parallel over " + d.caps.Name + ": " + x.Describe()}, nil
}

// sameKernels reports whether all parts were compiled for the same kind of device into the same kernels. Then all
// devices compute the same bits of the values that each of them computes.
func sameKernels(parts []*Program) bool {
	kernels := func(s *Program) (list []string) {
		if p := s.Contents.Program; p != nil {
			list = append(list, s.Contents.Meta.Target.Fingerprint())
			for _, step := range p.Steps {
				list = append(list, fmt.Sprint(step.Name, step.Ops, step.Schedule))
			}
		}
		return list
	}
	return !slices.ContainsFunc(parts, func(s *Program) bool { return !slices.Equal(kernels(s), kernels(parts[0])) })
}

func (d *tensorParallel) backend() any { return d.group }

func (d *tensorParallel) close() error { return errors.Join(d.group.Close(), d.combined.close()) }
