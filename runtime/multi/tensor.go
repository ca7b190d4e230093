package multi

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/collective"
)

// Tensor is a program with tensor parallelism: several devices divide the work of each op.
type Tensor struct {
	*program
	group  *collective.Group
	shards Shards
	alike  bool // whether all devices have the same kernels, so that values that all of them compute have the same bits
	async  bool // whether a run that keeps all outputs returns before it has finished

	transport string // of the largest run, and the reason for the choice
}

var _ runtime.Executable = (*Tensor)(nil)

// NewTensor makes the program of a graph from its loaded parts. exes and names have the parts and the devices' names by
// rank. alike says that all devices have the same kernels. NewTensor allocates a channel for the largest run.
func NewTensor(ctx context.Context, g *ir.Graph, shards Shards, group *collective.Group, names []string,
	exes []runtime.Executable, alike bool) (_ *Tensor, err error) {
	defer bailout.Caught(&err)
	x := &Tensor{program: newProgram(g, names, exes, func(rank int) map[string]int { return shards[rank].Cut }),
		group: group, shards: shards, alike: alike, async: alike}
	if len(shards[0].Collectives) == 0 {
		return x, nil
	}
	most := bailout.Must(shards[0].Exchanges(nil))
	bailout.Check(group.Lock(ctx))
	defer group.Unlock()
	c := bailout.Must(x.channel(ctx, most))
	x.async, x.transport = alike && c.Asynchronous(), ": "+group.Describe(most)
	return x, nil
}

// Describe reports the number of cut weights and states, the number of exchanges of a run, and the transport of the
// largest run.
func (x *Tensor) Describe() string {
	s := x.shards[0]
	return fmt.Sprintf("%d of %d weights and states are cut, and the devices exchange values %d times a run%s",
		len(s.Cut), len(s.Leaves(ir.OpWeight))+len(s.Leaves(ir.OpState)), len(s.Collectives), x.transport)
}

// channel returns the channel for a run with exchanges of the given sizes, which depend on the run's symbols.
func (x *Tensor) channel(ctx context.Context, exchanges []int) (*collective.Channel, error) {
	c, err := x.group.Reserve(ctx, exchanges)
	if err == nil && x.shards[0].Waits && c.EndsPrograms() {
		err = errors.New("kernels of the program wait for one another, and those of these devices cannot: " +
			"compile the graph for these")
	}
	return c, err
}

// Group returns the process group of its devices.
func (x *Tensor) Group() *collective.Group { return x.group }

// Asynchronous reports whether a run that keeps all its outputs returns before it has finished.
func (x *Tensor) Asynchronous() bool { return x.async }

// Device implements runtime.Executable.
func (x *Tensor) Device() string { return x.devices(" and ") }

// Run implements runtime.Executable. If all outputs stay on the devices, and kernels wait for each other without the
// host's help, Run does not wait for the end of the run.
func (x *Tensor) Run(ctx context.Context, in map[string]*ir.Data,
	opts ...runtime.RunOptions) (_ *runtime.Result, err error) {
	defer bailout.Caught(&err)
	opt := bailout.Must(runtime.CheckRun(ctx, opts))
	symbols, own, err := x.check(in, opt)
	bailout.Check(err)
	values, release, err := x.inputsByRank(ctx, in, opt)
	bailout.Check(err)
	defer release()
	bailout.Check(x.group.Lock(ctx))
	defer x.group.Unlock()
	return x.run(ctx, symbols, values, opt, own), nil
}

// shardInputs has the inputs of one device in a run, by name: tensors in host memory, and tensors on that device.
type shardInputs struct {
	host   map[string]*ir.Data
	device map[string]*runtime.DeviceTensor
}

// run runs the parts of all ranks at once. After a failure the other parts still run to their end, so that all of them
// update their states.
func (x *Tensor) run(ctx context.Context, symbols map[string]int64, values []shardInputs, opt runtime.RunOptions,
	own []runtime.States) *runtime.Result {
	run, links := x.begin(ctx, symbols)
	results, errs := make([]*runtime.Result, len(x.exes)), make([]error, len(x.exes))
	var wait sync.WaitGroup
	for rank := range x.exes {
		wait.Go(func() {
			var err error
			results[rank], err = x.runPart(rank, run, values[rank], links[rank], opt, own[rank])
			if err != nil {
				errs[rank] = x.failed(rank, err)
				run.Fail() // so that the other devices do not wait for this one
			}
		})
	}
	wait.Wait()
	err := errors.Join(errs...)
	if err == nil && x.alike && run.Asynchronous() && len(opt.Keep) == len(x.Outputs()) {
		run.Detach()
	} else if err = x.group.Finish(run, errs); err != nil {
		for _, r := range results {
			err = errors.Join(err, r.CloseKept())
		}
		bailout.Check(err)
	}
	return bailout.Must(x.result(results, run))
}

// begin prepares a run's exchanges. It returns each rank's link: the input tensor through which kernels find the
// memory for exchanges. Without exchanges the run and the links are nil.
func (x *Tensor) begin(ctx context.Context, symbols map[string]int64) (*collective.Run, []*ir.Data) {
	exchanges := bailout.Must(x.shards[0].Exchanges(symbols))
	if len(exchanges) == 0 {
		return nil, make([]*ir.Data, len(x.exes))
	}
	run, links, err := x.group.Begin(bailout.Must(x.channel(ctx, exchanges)), exchanges)
	bailout.Check(err)
	return run, links
}

// runPart runs one rank's part of the graph. Rank 0 writes its outputs to the destinations in opt. The other ranks
// leave theirs on their devices.
func (x *Tensor) runPart(rank int, run *collective.Run, values shardInputs, link *ir.Data, opt runtime.RunOptions,
	own runtime.States) (*runtime.Result, error) {
	e, in := x.exes[rank], values.host
	mine := runtime.RunOptions{Symbols: opt.Symbols, Inputs: values.device, States: own}
	if link != nil {
		in[x.shards[rank].Link] = link
	}
	if rank == 0 {
		mine.Into, mine.Keep = opt.Into, opt.Keep
	} else {
		// The other ranks compute the same outputs. Keep avoids their copies to the host.
		for _, o := range e.Outputs() {
			mine.Keep = append(mine.Keep, o.Name)
		}
	}
	return run.Do(context.Background(), e, in, mine)
}
