package vkc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/vkc-go/vkc/internal/mailbox"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/partition"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/collective"
	"github.com/vkc-go/vkc/runtime/vk"
)

// TensorParallel combines the devices into one that shares the work of each op. Weights and states that a graph marks
// for it are cut between the devices (see [partition.SplitTensor]), so that each reads its share concurrently. All
// devices must be Vulkan devices with Features.ExternalMemoryHost, or all the CPU.
//
// Kernels exchange values through host memory that all devices import. How a device learns that a value has arrived
// depends on the device. Software devices wait inside their programs for flags in host memory. Other devices may not
// see another's writes before their program ends. If they see the host's writes to their own memory, their kernels wait
// for flags there, which the host copies. Otherwise each program ends at an exchange, and the host starts the rest. On
// NVIDIA cards with peer access, the host may instead copy the values from card to card with CUDA (libcuda.so.1).
// Loading tries which transports work, and each run takes the cheapest of them: [Executable.Why] says which one the
// largest run takes.
//
// Results are the graph's results, except that cut sums are added in a different order than on one device. Runs are
// serialized. If the host relays flags, runs whose outputs all stay on the devices return without waiting, up to eight
// at a time. Device tensors are on each device. If a device does not arrive at an exchange, a timeout ends the run on
// all devices with an error: of the run, of reading its results, or else of the next run.
func (d Devices) TensorParallel() (*Device, error) {
	one, err := d.Together()
	if err != nil || len(d) == 1 {
		return one, err
	}
	if len(d) > mailbox.MaxRanks {
		return nil, fmt.Errorf("devices: %d share each op: the limit is %d", len(d), mailbox.MaxRanks)
	}
	if one.group, err = d.group(); err != nil {
		return nil, err
	}
	one.why = one.caps.Name + ": they share each op"
	return one, nil
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

// group returns the process group of the devices.
func (d Devices) group() (*collective.Group, error) {
	var vulkan []*vk.Device
	for _, one := range d {
		if one.Vulkan() != nil {
			vulkan = append(vulkan, one.Vulkan())
		}
	}
	group, err := collective.New(traitsOf(d.members()), vulkan)
	if err != nil {
		return nil, err
	}
	group.LoadGraph = func(ctx context.Context, rank int, g *ir.Graph) (runtime.Executable, error) {
		exe, err := d[rank].LoadGraph(ctx, g, nil)
		return exe.program(), err
	}
	return group, nil
}

// waits reports whether kernels wait for one another in the exchanges of a graph.
func (d *Device) waits(ctx context.Context, g *ir.Graph) (bool, error) {
	s, err := partition.SplitTensor(g, len(d.parts), 0, true)
	if err != nil || !s.Waits {
		return false, err
	}
	exchanges, err := s.Exchanges(nil)
	if err != nil {
		return false, err
	}
	return d.group.Waits(ctx, exchanges)
}

// shards returns each device's part of a graph.
func (d *Device) shards(ctx context.Context, g *ir.Graph, _ *Program) (list []part, err error) {
	waits, err := d.waits(ctx, g)
	if err != nil {
		return nil, err
	}
	for rank := range d.parts {
		s, err := partition.SplitTensor(g, len(d.parts), rank, waits)
		if err != nil {
			return nil, err
		}
		list = append(list, part{graph: s.Graph, device: rank, shard: s})
	}
	return list, nil
}

// sharing makes an executable that runs the parts of a program at the same time.
func (x *several) sharing(ctx context.Context) (*Executable, error) {
	s := &sharded{several: x, group: x.of.group, alike: alike(x.parts)}
	s.ahead = s.alike
	first, how := x.parts[0].shard, ""
	if len(first.Meetings) > 0 {
		var err error
		if how, err = s.reserve(ctx, first); err != nil {
			return nil, fmt.Errorf("on %s: %w", x.of.Name(), err)
		}
	}
	return &Executable{backend: s, why: fmt.Sprintf("tensor parallel over %s: %d of %d weights and states are cut, "+
		"and the devices exchange values %d times a run%s", x.of.Name(), len(first.Cut),
		len(first.Leaves(ir.OpWeight))+len(first.Leaves(ir.OpState)), len(first.Meetings), how)}, nil
}

// reserve allocates a channel for the largest exchanges of a program. The string describes the transport.
func (x *sharded) reserve(ctx context.Context, s partition.Shard) (how string, err error) {
	if err := x.group.Lock(ctx); err != nil {
		return "", err
	}
	defer x.group.Unlock()
	most, err := s.Exchanges(nil)
	if err != nil {
		return "", err
	}
	r, err := x.channelFor(ctx, most)
	if err != nil {
		return "", err
	}
	x.ahead = x.alike && r.GoesAhead()
	return ": " + x.group.Describe(most), nil
}

// channelFor returns the channel for the exchanges of a run. Their sizes depend on the run's symbols.
func (x *sharded) channelFor(ctx context.Context, exchanges []int) (*collective.Channel, error) {
	r, err := x.group.Reserve(ctx, exchanges)
	if err == nil && x.parts[0].shard.Waits && r.Ends() {
		err = errors.New("kernels of the program wait for one another, and those of these devices cannot: " +
			"compile the graph for these")
	}
	return r, err
}

// cutWeights returns the shard of a weight source for one device.
func cutWeights(from ir.WeightSource, cut map[string]int, shards, rank int) ir.WeightSource {
	if from == nil {
		return nil
	}
	return &shardWeights{from, cut, shards, rank}
}

type shardWeights struct {
	ir.WeightSource
	cut          map[string]int
	shards, rank int
}

// Weight implements ir.WeightSource.
func (w *shardWeights) Weight(name string) (*ir.Data, error) {
	d, err := w.WeightSource.Weight(name)
	axis, ok := w.cut[name]
	if err != nil || d == nil || !ok {
		return d, err
	}
	return cutData(d, axis, w.shards, w.rank)
}

// WeightType is for ir.WeightType.
func (w *shardWeights) WeightType(name string) (ir.DType, []int, error) {
	t, dims, err := ir.WeightType(w.WeightSource, name)
	axis, ok := w.cut[name]
	if err != nil || !ok || axis >= len(dims) {
		return t, dims, err
	}
	dims = append([]int(nil), dims...)
	dims[axis] /= w.shards
	return t, dims, nil
}

// cutLayout returns the dims of a part along an axis, the size of its contiguous pieces in bytes, and their number.
func cutLayout(t ir.DType, dims []int, axis, shards int) (part []int, each, rows int, err error) {
	if axis >= len(dims) || dims[axis]%shards != 0 {
		return nil, 0, 0, fmt.Errorf("%s%v cannot be cut into %d parts along axis %d", t, dims, shards, axis)
	}
	part = append([]int(nil), dims...)
	part[axis] /= shards
	size, err := ir.ByteSize(t, part[axis:])
	rows = 1
	for _, n := range dims[:axis] {
		rows *= n
	}
	return part, int(size), rows, err
}

// cutData returns a rank's shard of a tensor. A shard along the outermost axis aliases the tensor.
func cutData(d *ir.Data, axis, shards, rank int) (*ir.Data, error) {
	dims, each, rows, err := cutLayout(d.DType, d.Dims, axis, shards)
	if err == nil && len(d.Bytes) != each*rows*shards {
		err = fmt.Errorf("%s%v has %d bytes", d.DType, d.Dims, len(d.Bytes))
	}
	if err != nil {
		return nil, err
	}
	part := &ir.Data{DType: d.DType, Dims: dims}
	if rows == 1 {
		part.Bytes = d.Bytes[rank*each : (rank+1)*each : (rank+1)*each]
		return part, nil
	}
	part.Bytes = make([]byte, each*rows)
	for r := range rows {
		copy(part.Bytes[r*each:], d.Bytes[(r*shards+rank)*each:][:each])
	}
	return part, nil
}

// joinData concatenates the shards of all ranks along an axis.
func joinData(parts []*ir.Data, axis int) (*ir.Data, error) {
	dims := append([]int(nil), parts[0].Dims...)
	dims[axis] *= len(parts)
	_, each, rows, err := cutLayout(parts[0].DType, dims, axis, len(parts))
	if err != nil {
		return nil, err
	}
	d := &ir.Data{DType: parts[0].DType, Dims: dims, Bytes: make([]byte, each*rows*len(parts))}
	for rank, p := range parts {
		for r := range rows {
			copy(d.Bytes[(r*len(parts)+rank)*each:], p.Bytes[r*each:][:each])
		}
	}
	return d, nil
}

// sharded is a program whose ops are shared by several devices.
type sharded struct {
	*several
	group *collective.Group
	alike bool // whether all devices compute replicated values with the same kernels, and so get the same bits
	ahead bool // whether a run that keeps all outputs returns without waiting
}

// alike reports whether all devices are of one kind and have the same kernels.
func alike(parts []part) bool {
	kernels := func(s part) (list []string) {
		if p := s.Contents.Program; p != nil {
			list = append(list, s.Contents.Meta.Target.Fingerprint())
			for _, step := range p.Steps {
				list = append(list, fmt.Sprint(step.Name, step.Ops, step.Schedule))
			}
		}
		return list
	}
	return !slices.ContainsFunc(parts[1:], func(s part) bool { return !slices.Equal(kernels(s), kernels(parts[0])) })
}

var _ runtime.Executable = (*sharded)(nil)

// Run implements runtime.Executable. It does not wait for a run whose outputs all stay on the devices, if kernels wait
// for each other themselves.
func (x *sharded) Run(ctx context.Context, in Tensors, opts ...RunOptions) (*Result, error) {
	opt, err := runtime.CheckRun(ctx, opts)
	if err != nil {
		return nil, err
	}
	symbols, own, err := x.check(in, opt)
	if err != nil {
		return nil, err
	}
	values, release, err := x.given(ctx, in, opt)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := x.group.Lock(ctx); err != nil {
		return nil, err
	}
	defer x.group.Unlock()
	return x.run(ctx, symbols, values, opt, own)
}

// shardInputs are a device's inputs for a run.
type shardInputs struct {
	host   Tensors
	device map[string]*DeviceTensor
}

// run runs all parts at once. Each part runs to its end, so that all of them update their states.
func (x *sharded) run(ctx context.Context, symbols map[string]int64, values []shardInputs, opt RunOptions,
	own []States) (*Result, error) {
	run, links, err := x.begin(ctx, symbols)
	if err != nil {
		return nil, err
	}
	results, errs := make([]*Result, len(x.parts)), make([]error, len(x.parts))
	var wait sync.WaitGroup
	for rank := range x.parts {
		wait.Go(func() {
			var err error
			results[rank], err = x.runPart(rank, run, values[rank], links[rank], opt, own[rank])
			if err != nil {
				errs[rank] = x.failed(rank, err)
				run.Fail() // the others wait in vain
			}
		})
	}
	wait.Wait()
	if err = errors.Join(errs...); err == nil && x.alike && run.GoesAhead() && len(opt.Keep) == len(x.Outputs()) {
		run.Detach()
	} else if err = x.group.Finish(run, errs); err != nil {
		for _, r := range results {
			err = errors.Join(err, r.CloseKept())
		}
		return nil, err
	}
	return x.result(results, run)
}

// begin starts a run's exchanges, if there are any, and returns each device's link.
func (x *sharded) begin(ctx context.Context, symbols map[string]int64) (*collective.Run, []*ir.Data, error) {
	if len(x.parts[0].shard.Meetings) == 0 {
		return nil, make([]*ir.Data, len(x.parts)), nil
	}
	exchanges, err := x.parts[0].shard.Exchanges(symbols)
	if err != nil {
		return nil, nil, err
	}
	c, err := x.channelFor(ctx, exchanges)
	if err != nil {
		return nil, nil, err
	}
	return x.group.Begin(c, exchanges)
}

// runPart runs the part of a rank. The first returns its results; the others' results stay on their devices.
func (x *sharded) runPart(rank int, run *collective.Run, values shardInputs, link *ir.Data, opt RunOptions,
	own States) (*Result, error) {
	e, in := x.exes[rank], values.host
	mine := RunOptions{Symbols: opt.Symbols, Inputs: values.device, States: own}
	if link != nil {
		in[x.parts[rank].shard.Link] = link
	}
	if rank == 0 {
		mine.Into, mine.Keep = opt.Into, opt.Keep
	} else {
		for _, o := range e.Outputs() {
			mine.Keep = append(mine.Keep, o.Name)
		}
	}
	return run.Do(context.Background(), e.program(), in, mine)
}
