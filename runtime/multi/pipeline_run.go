package multi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// pipelineRun is one run of a pipeline.
type pipelineRun struct {
	of       *Pipeline
	opt      runtime.RunOptions
	symbols  map[string]int64
	own      []runtime.States // the run's states, by part; nil for a part's own states
	tickets  tickets
	held     map[string]runtime.Memory // memory of opt.Inputs, kept allocated until release is called
	release  func()
	values   map[string]*ir.Data              // the run's inputs, and values computed by its earlier parts
	onDevice map[string]*runtime.DeviceTensor // inputs already on the device of the only part
	lent     map[string]*ir.Data              // of values that are in memory of Pipeline.buffers
	follows  bool                             // whether it has failed because the run that computes an input failed
	next     func()                           // called when the next run may begin
	done     chan struct{}                    // closed when an asynchronous run is over

	result *runtime.Result // set together with err when the run is done
	err    error           // of an asynchronous run

	mu       sync.Mutex
	unwanted []string // outputs that the caller closed before the run was done
}

// join checks a run with inputs in and appends it to the queues.
func (r *pipelineRun) join(in map[string]*ir.Data) (err error) {
	if r.symbols, r.own, err = r.of.check(in, r.opt); err != nil {
		return err
	}
	if r.held, r.release, err = runtime.Hold(r.opt.Inputs); err != nil {
		return err
	}
	r.values, r.lent, r.onDevice = maps.Clone(in), map[string]*ir.Data{}, map[string]*runtime.DeviceTensor{}
	if r.values == nil {
		r.values = map[string]*ir.Data{}
	}
	r.tickets = r.of.queues.join(r.of.layers)
	return nil
}

// run executes the parts in order. If ctx ends before the run has begun, run returns early.
func (r *pipelineRun) run(ctx context.Context) (_ *runtime.Result, err error) {
	result, left := &runtime.Result{Outputs: map[string]*ir.Data{}}, r.tickets
	defer func() {
		if err != nil {
			err = errors.Join(err, result.CloseKept())
		}
		if err != nil && r.done != nil {
			r.of.queues.fail(r, err)
		}
		r.of.buffers.put(r.lent)
		left.leave()
		r.release()
	}()
	defer bailout.Caught(&err)
	r.fetch(ctx)
	select {
	case <-left[0].before:
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("another run is under way: %w", err)
	}
	// A run that has begun executes all parts, so that every part updates its states.
	ctx = context.WithoutCancel(ctx)
	for i, t := range r.tickets {
		// The run leaves the queue of part i-1 only when part i starts. So no more runs than parts have values in
		// buffers.
		<-t.before
		if i > 0 {
			close(left[0].over)
			left = left[1:]
			r.next()
			r.next = func() {}
		}
		if err := r.runPart(ctx, i, result); err != nil {
			return nil, r.of.failed(i, err)
		}
	}
	return result, nil
}

// fetch reads the inputs that are device tensors to the host, and adds them to values. If the program has a single part
// and an input is on that part's device, fetch adds it to onDevice instead.
func (r *pipelineRun) fetch(ctx context.Context) {
	onlyPart := len(r.tickets) == 1
	for name, memory := range r.held {
		t := r.opt.Inputs[name]
		later, isLater := memory.(*laterTensor)
		switch {
		case isLater:
			made, err := later.wait(ctx)
			if err != nil {
				r.follows = true
				bailout.Check(fmt.Errorf("input %q: %w", name, err))
			}
			sameDevice := later.run.of.queues == r.of.queues && later.device == r.of.layers[0].Device
			if onlyPart && sameDevice {
				r.onDevice[name] = made
				continue
			}
		case onlyPart: // the part refuses a tensor of another device
			// t may be closed by now, so make another tensor of its memory.
			r.onDevice[name] = bailout.Must(runtime.NewDeviceTensor("input "+name, t.DType(), t.Dims(), memory))
			continue
		}
		d := &ir.Data{DType: t.DType(), Dims: t.Dims(), Bytes: make([]byte, t.Size())}
		bailout.Check(memory.ReadAt(ctx, d.Bytes, 0))
		r.values[name] = d
	}
}

// runPart runs part i. It adds the values for later parts to lent and values, and the program's outputs to result.
func (r *pipelineRun) runPart(ctx context.Context, i int, result *runtime.Result) (err error) {
	defer bailout.Caught(&err)
	e, in, gives := r.of.exes[i], map[string]*ir.Data{}, r.of.layers[i].Gives
	mine := runtime.RunOptions{Symbols: map[string]int64{}, Into: map[string]*ir.Data{}, States: r.own[i],
		Inputs: r.onDevice, Profile: r.opt.Profile, More: r.opt.More && i == len(r.tickets)-1}
	for _, port := range e.Inputs() {
		if r.onDevice[port.Name] == nil {
			in[port.Name] = r.values[port.Name]
		}
	}
	for _, s := range e.Symbols() {
		mine.Symbols[s.Name] = r.symbols[s.Name]
	}
	for _, port := range e.Outputs() {
		if slices.Contains(gives, port.Name) { // a later part reads it
			r.lent[port.Name] = r.of.buffers.get(port, r.symbols)
			r.values[port.Name], mine.Into[port.Name] = r.lent[port.Name], r.lent[port.Name]
		} else if d := r.opt.Into[port.Name]; d != nil {
			mine.Into[port.Name] = d
		}
		if slices.Contains(r.opt.Keep, port.Name) {
			mine.Keep = append(mine.Keep, port.Name)
		}
	}
	one := bailout.Must(e.Run(ctx, in, mine))
	for name, d := range one.Outputs {
		if r.lent[name] == nil { // an output of the whole program
			result.Outputs[name] = d
		}
	}
	for name, t := range one.Kept {
		if result.Kept == nil {
			result.Kept = map[string]*runtime.DeviceTensor{}
		}
		result.Kept[name] = t
	}
	result.Profile = one.Profile
	return nil
}

// finish records the result or error of an asynchronous run and wakes its waiters.
func (r *pipelineRun) finish(result *runtime.Result, err error) {
	// A result refers to its run, and the run's inputs may be results of earlier runs. Drop the inputs, or else all
	// earlier runs would stay in memory.
	r.opt, r.held, r.values, r.onDevice, r.lent = runtime.RunOptions{}, nil, nil, nil, nil
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result = result
	for _, name := range r.unwanted {
		if err == nil {
			result.Kept[name].Close() // it only queues the memory to be freed, which cannot fail
		}
	}
	close(r.done)
}

// later returns the result of a run in progress. The memory of its tensors is a [laterTensor] each.
func (r *pipelineRun) later() (_ *runtime.Result, err error) {
	defer bailout.Caught(&err)
	outputs := bailout.Must(r.of.NewOutputs(r.symbols, r.opt))
	result := &runtime.Result{Outputs: map[string]*ir.Data{}, Kept: map[string]*runtime.DeviceTensor{}}
	for i, port := range r.of.Outputs() {
		t := &laterTensor{run: r, name: port.Name}
		for part, e := range r.of.exes { // the part with the output determines the tensor's device
			if slices.ContainsFunc(e.Outputs(), func(p runtime.Port) bool { return p.Name == port.Name }) {
				t.device = r.of.layers[part].Device
			}
		}
		result.Kept[port.Name] = bailout.Must(runtime.NewDeviceTensor(fmt.Sprintf("output %q", port.Name),
			port.Type.DType, outputs[i].Dims, t))
	}
	return result, nil
}

// laterTensor is the memory of an output of an asynchronous run. Its methods wait for the run.
type laterTensor struct {
	run    *pipelineRun
	name   string
	device int // index of the device that the output is on
}

// wait waits for the run, and returns the output's tensor or the run's error.
func (t *laterTensor) wait(ctx context.Context) (*runtime.DeviceTensor, error) {
	select {
	case <-t.run.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if t.run.err == nil {
		return t.run.result.Kept[t.name], nil
	}
	t.run.of.queues.reported(t.run)
	return nil, t.run.err
}

// ReadAt implements runtime.Memory.
func (t *laterTensor) ReadAt(ctx context.Context, p []byte, offset int64) error {
	made, err := t.wait(ctx)
	if err != nil {
		return err
	}
	return made.ReadBytes(ctx, p, offset)
}

// Close implements runtime.Memory.
func (t *laterTensor) Close() error {
	t.run.mu.Lock()
	defer t.run.mu.Unlock()
	select {
	case <-t.run.done:
	default:
		t.run.unwanted = append(t.run.unwanted, t.name)
		return nil
	}
	if t.run.err != nil {
		return nil
	}
	return t.run.result.Kept[t.name].Close()
}

// Device implements runtime.Memory.
func (t *laterTensor) Device() string { return t.run.of.Device() }

// buffers has host memory for values passed between parts. Runs reuse the memory of earlier runs.
type buffers struct {
	mu     sync.Mutex
	free   map[string][][]byte // unused memory, by the value's name
	made   int                 // number of allocations
	closed bool
}

// get returns host memory for the value of a part's output in a run with these symbols. Its capacity is enough for any
// run.
func (p *buffers) get(port runtime.Port, symbols map[string]int64) *ir.Data {
	whole := bailout.Must(port.Type.MaxBytes())
	d := &ir.Data{DType: port.Type.DType, Dims: bailout.Must(port.Type.Shape.Eval(symbols))}
	size := bailout.Must(ir.ByteSize(d.DType, d.Dims))
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.free[port.Name]
	if n := len(list); n > 0 {
		d.Bytes, p.free[port.Name] = list[n-1], list[:n-1]
	} else {
		d.Bytes = make([]byte, whole)
		p.made++
	}
	d.Bytes = d.Bytes[:size]
	return d
}

// put takes back the memory of a finished run.
func (p *buffers) put(values map[string]*ir.Data) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	if p.free == nil {
		p.free = map[string][][]byte{}
	}
	for name, d := range values {
		p.free[name] = append(p.free[name], d.Bytes[:cap(d.Bytes)])
	}
}

// close frees unused memory; memory that is returned later is dropped.
func (p *buffers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free, p.closed = nil, true
}
