package vkc

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// Devices is a list of devices, possibly of different kinds. Close everything loaded on them before closing them.
type Devices []*Device

// Close closes all devices. Its error names objects that were still open on them.
func (d Devices) Close() error { return runtime.Each(d, (*Device).Close) }

// Replicas are copies of one program on several devices. Each run goes to the device with the fewest runs in progress,
// so that n equal devices have n times the throughput. A run returns the same results as on its device alone, and equal
// devices return the same bits. Replicas are safe for concurrent use.
type Replicas struct {
	exes []*Executable

	mu         sync.Mutex
	inProgress []int // runs in progress, by device
	next       int   // the device to prefer in a tie
}

// LoadGraph loads a graph on all devices, so that several runs go to different devices; see [Device.LoadGraph]. Devices
// with equal caps share the compiled program. A graph with states is an error, because its results would depend on the
// device that a run goes to.
func (d Devices) LoadGraph(ctx context.Context, g *ir.Graph, weights ir.WeightSource) (_ *Replicas, err error) {
	if len(d) == 0 {
		return nil, errors.New("load graph: there are no devices: OpenDevices makes some, unless it returns an error")
	}
	if g == nil {
		return nil, errors.New("load graph: the graph is nil")
	}
	if states := g.Leaves(ir.OpState); len(states) > 0 {
		return nil, fmt.Errorf("load graph on %d devices: it has states, %q the first, and the results of a run would "+
			"depend on the device that it goes to: load it on each device by itself", len(d), states[0].Name())
	}
	programs := map[string]*Program{}
	r := &Replicas{exes: make([]*Executable, len(d)), inProgress: make([]int, len(d))}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	var all sync.WaitGroup
	failed := make([]error, len(d))
	// After an error, loads that have begun must end before Close (deferred calls run in reverse order).
	defer all.Wait()
	for i, one := range d {
		key := one.Caps().Fingerprint()
		if programs[key] == nil {
			if programs[key], err = one.Compile(ctx, g, CompileOptions{Weights: weights}); err != nil {
				return nil, err
			}
		}
		p := programs[key]
		all.Go(func() { r.exes[i], failed[i] = one.Load(ctx, p, LoadOptions{Weights: weights}) })
	}
	all.Wait()
	return r, errors.Join(failed...)
}

// Executables returns the program's executables, in the order of the devices. Close closes them.
func (r *Replicas) Executables() []*Executable {
	if r == nil {
		return nil
	}
	return r.exes
}

// pick returns the executable with the fewest runs in flight and counts one more run on it. The caller calls done when
// its run ends. If nothing is loaded, pick returns a nil executable, which fails to run with errNotLoaded.
func (r *Replicas) pick() (exe *Executable, done func()) {
	if r == nil || len(r.exes) == 0 {
		return nil, func() {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	best := r.next
	// It begins after the device of the last pick, so that equally busy devices take turns.
	for k := range r.inProgress {
		if i := (r.next + k) % len(r.inProgress); r.inProgress[i] < r.inProgress[best] {
			best = i
		}
	}
	r.next = (best + 1) % len(r.inProgress)
	r.inProgress[best]++
	return r.exes[best], func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.inProgress[best]--
	}
}

// Run is [Executable.Run] on one of the devices.
func (r *Replicas) Run(ctx context.Context, in Tensors, opt ...RunOptions) (*Result, error) {
	exe, done := r.pick()
	defer done()
	return exe.Run(ctx, in, opt...)
}

// Start is [Executable.Start] on one of the devices.
func (r *Replicas) Start(ctx context.Context, in Tensors, opt ...RunOptions) *Pending {
	exe, done := r.pick()
	return exe.start(ctx, in, done, opt)
}

// RunBatch is [Executable.RunBatch] on all devices.
func (r *Replicas) RunBatch(ctx context.Context, in []Tensors, opt ...RunOptions) ([]*Result, error) {
	if err := runtime.CheckContext(ctx); err != nil {
		return nil, fmt.Errorf("run a batch: %w", err)
	}
	return runBatch(ctx, in, func(ctx context.Context, one Tensors) *Pending { return r.Start(ctx, one, opt...) })
}

// Close closes the program on all devices.
func (r *Replicas) Close() error { return runtime.Each(r.Executables(), (*Executable).Close) }
