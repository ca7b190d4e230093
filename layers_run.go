package vkc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// lanes keep the runs of all programs split over several devices in one order: each device executes its parts in the
// order of the runs.
type lanes struct {
	mu   sync.Mutex
	last map[int]chan struct{} // by device: closed when its last part is done
	late *layersRun            // a failed run with an unreported error
}

// fail records that an asynchronous run has failed. It is called before the run gives up its turns, so that later runs
// see the error.
func (l *lanes) fail(r *layersRun, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.err = err; !r.follows {
		l.late = r
	}
}

// tell returns the error of a failed asynchronous run, once. The run is one of the given program, or of any program if
// of is nil, since programs may share states.
func (l *lanes) tell(of *layered) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	late := l.late
	if late == nil || of != nil && late.of != of {
		return nil
	}
	l.late = nil
	return fmt.Errorf("a run that was not waited for has failed: %w", late.err)
}

// told records that the caller has received the error of a failed run, because it read a result of that run.
func (l *lanes) told(r *layersRun) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.late == r {
		l.late = nil
	}
}

// turns are the turns of a run, or of an access to states, by part.
type turns []turn

// turn is a run's place in the queue of a device. The turn begins when before is closed, and ends by closing over.
type turn struct{ before, over chan struct{} }

// join appends a run to the queues of its parts' devices.
func (l *lanes) join(parts []part) turns {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		l.last = map[int]chan struct{}{}
	}
	list := make(turns, len(parts))
	for i, p := range parts {
		list[i] = turn{closedDone, make(chan struct{})}
		if last := l.last[p.device]; last != nil {
			list[i].before = last
		}
		l.last[p.device] = list[i].over
	}
	return list
}

// leave gives up turns without using them, each when it begins.
func (list turns) leave() {
	for i, t := range list {
		select {
		case <-t.before:
			close(t.over)
			continue
		default:
		}
		go func() {
			<-t.before
			close(t.over)
			list[i+1:].leave()
		}()
		return
	}
}

// layered is a program in parts that run one after another.
type layered struct {
	*several
	ahead bool // whether a run that keeps all outputs is asynchronous
	pass  passing

	mu     sync.Mutex
	under  []*layersRun // asynchronous runs, of which at most maxStarted are unfinished
	closed bool
}

var _ runtime.Executable = (*layered)(nil)

// Run implements runtime.Executable. It does not wait for a run whose outputs all stay on Vulkan devices, unless the
// run has large host inputs.
func (x *layered) Run(ctx context.Context, in Tensors, opts ...RunOptions) (*Result, error) {
	opt, err := runtime.CheckRun(ctx, opts)
	if err != nil {
		return nil, err
	}
	if x.goesAhead(in, opt) {
		return x.runAhead(ctx, in, opt)
	}
	return x.run(ctx, in, opt, func() {})
}

// run runs the program and waits for the result. It calls begun when the next run may begin. It also fails if an
// earlier run has failed and the error was not yet reported.
func (x *layered) run(ctx context.Context, in Tensors, opt RunOptions, begun func()) (*Result, error) {
	r := &layersRun{of: x, opt: opt, begun: begun}
	defer func() { r.begun() }()
	if err := r.join(in); err != nil {
		return nil, err
	}
	result, err := r.run(ctx)
	if late := x.of.lanes.tell(nil); late != nil {
		return nil, errors.Join(late, err, result.CloseKept())
	}
	return result, err
}

// maxAheadGiven limits the bytes that the host may pass to an asynchronous run.
const maxAheadGiven = 64 << 20

func (x *layered) goesAhead(in Tensors, opt RunOptions) bool {
	size := 0
	for _, d := range in {
		if d != nil {
			size += len(d.Bytes)
		}
	}
	return x.ahead && !opt.Profile && len(opt.Keep) > 0 && len(opt.Keep) == len(x.Outputs()) && size <= maxAheadGiven
}

// runAhead starts a run and returns results that are available later.
func (x *layered) runAhead(ctx context.Context, in Tensors, opt RunOptions) (_ *Result, err error) {
	own := Tensors{} // the caller may change its data after this returns
	for name, d := range in {
		if d != nil {
			own[name] = &ir.Data{DType: d.DType, Dims: slices.Clone(d.Dims), Bytes: slices.Clone(d.Bytes)}
		}
	}
	if err := x.lockSettled(ctx, maxStarted-1); err != nil {
		return nil, err
	}
	defer x.mu.Unlock()
	if x.closed {
		return nil, runtime.ErrProgramClosed
	}
	r := &layersRun{of: x, opt: opt, begun: func() {}, done: make(chan struct{})}
	if err := r.join(own); err != nil {
		return nil, err
	}
	result, err := r.later()
	x.under = append(x.under, r)
	go func() { r.finish(r.run(context.WithoutCancel(ctx))) }()
	return result, err
}

// lockSettled waits until at most so many asynchronous runs are in flight, and locks x.mu. If a run has failed and the
// error was not yet reported, it returns that error without the lock.
func (x *layered) lockSettled(ctx context.Context, most int) error {
	for {
		if err := x.of.lanes.tell(nil); err != nil {
			return err
		}
		x.mu.Lock()
		if len(x.under) <= most {
			return nil
		}
		first := x.under[0]
		x.mu.Unlock()
		select {
		case <-first.done:
			x.mu.Lock()
			if len(x.under) > 0 && x.under[0] == first {
				x.under = x.under[1:]
			}
			x.mu.Unlock()
		case <-ctx.Done():
			return fmt.Errorf("%d runs are under way: %w", maxStarted, ctx.Err())
		}
	}
}

// Close implements runtime.Executable.
func (x *layered) Close() error {
	x.mu.Lock()
	under := x.under
	x.closed, x.under = true, nil
	x.mu.Unlock()
	for _, r := range under {
		<-r.done
	}
	late := x.of.lanes.tell(x)
	x.pass.close()
	return errors.Join(late, x.several.Close())
}

// Upload implements runtime.Executable: to the first device.
func (x *layered) Upload(ctx context.Context, d *ir.Data) (*DeviceTensor, error) {
	return x.exes[0].Upload(ctx, d)
}

// UploadFrom implements runtime.Executable: to the first device.
func (x *layered) UploadFrom(ctx context.Context, t ir.DType, dims []int, from io.ReaderAt) (*DeviceTensor, error) {
	return x.exes[0].UploadFrom(ctx, t, dims, from)
}

// layersRun is one run of a layered program.
type layersRun struct {
	of      *layered
	opt     RunOptions
	symbols map[string]int64
	own     []States // by part
	turns   turns
	held    map[string]runtime.Memory // inputs on devices
	release func()
	values  Tensors                  // inputs, and results of earlier parts
	there   map[string]*DeviceTensor // inputs already on the device of the only part
	given   Tensors                  // values passed between parts
	follows bool                     // whether it has failed because an earlier run has
	begun   func()                   // called when the next run may begin
	done    chan struct{}            // closed when an asynchronous run is over

	result *Result // set together with err when the run is done
	err    error   // of an asynchronous run

	mu   sync.Mutex
	left []string // outputs of an unfinished run that are no longer needed
}

// join checks a run and appends it to the queues.
func (r *layersRun) join(in Tensors) (err error) {
	if r.symbols, r.own, err = r.of.check(in, r.opt); err != nil {
		return err
	}
	if r.held, r.release, err = runtime.Hold(r.opt.Inputs); err != nil {
		return err
	}
	r.values, r.given, r.there = maps.Clone(in), Tensors{}, map[string]*DeviceTensor{}
	if r.values == nil {
		r.values = Tensors{}
	}
	r.turns = r.of.of.lanes.join(r.of.parts)
	return nil
}

// run executes the parts in order. If ctx ends before the run has begun, run returns early.
func (r *layersRun) run(ctx context.Context) (_ *Result, err error) {
	result, left := &Result{Outputs: Tensors{}}, r.turns
	defer func() {
		if err != nil {
			err = errors.Join(err, result.CloseKept())
		}
		if err != nil && r.done != nil {
			r.of.of.lanes.fail(r, err)
		}
		r.of.pass.give(r.given)
		left.leave()
		r.release()
	}()
	if err := r.bring(ctx); err != nil {
		return nil, err
	}
	select {
	case <-left[0].before:
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("another run is under way: %w", err)
	}
	// A run that has begun executes all parts, so that every part updates its states.
	ctx = context.WithoutCancel(ctx)
	for i, t := range r.turns {
		// The run leaves the queue of a part when it starts the next part. So the number of runs that hold values in
		// transit is at most the number of parts.
		if <-t.before; i > 0 {
			close(left[0].over)
			left = left[1:]
			r.begun()
			r.begun = func() {}
		}
		if err := r.runPart(ctx, i, result); err != nil {
			return nil, r.of.failed(i, err)
		}
	}
	return result, nil
}

// bring reads to the host the inputs that are on devices. It skips them if the only part runs on the same device.
func (r *layersRun) bring(ctx context.Context) error {
	for name, memory := range r.held {
		t := r.opt.Inputs[name]
		device := -1
		if later, ok := memory.(*laterTensor); ok {
			made, err := later.wait(ctx)
			if err != nil {
				r.follows = true
				return fmt.Errorf("input %q: %w", name, err)
			}
			if later.run.of.of == r.of.of {
				device = later.device
			}
			if len(r.turns) == 1 && device == r.of.parts[0].device {
				r.there[name] = made
				continue
			}
		} else if len(r.turns) == 1 {
			same, err := runtime.NewDeviceTensor("input "+name, t.DType(), t.Dims(), memory) // t may be closed by now
			if err != nil {
				return err
			}
			r.there[name] = same
			continue
		}
		d := &ir.Data{DType: t.DType(), Dims: t.Dims(), Bytes: make([]byte, t.Size())}
		if err := memory.ReadAt(ctx, d.Bytes, 0); err != nil {
			return err
		}
		r.values[name] = d
	}
	return nil
}

// runPart runs a part. It stores values for later parts in given and values, and the program's outputs in result.
func (r *layersRun) runPart(ctx context.Context, i int, result *Result) (err error) {
	e, in, gives := r.of.exes[i], Tensors{}, r.of.parts[i].layer.Gives
	mine := RunOptions{Symbols: map[string]int64{}, Into: Tensors{}, States: r.own[i], Inputs: r.there,
		Profile: r.opt.Profile, More: r.opt.More && i == len(r.turns)-1}
	for _, port := range e.Inputs() {
		if r.there[port.Name] == nil {
			in[port.Name] = r.values[port.Name]
		}
	}
	for _, s := range e.Symbols() {
		mine.Symbols[s.Name] = r.symbols[s.Name]
	}
	for _, port := range e.Outputs() {
		if slices.Contains(gives, port.Name) {
			if r.given[port.Name], err = r.of.pass.take(port, r.symbols); err != nil {
				return err
			}
			r.values[port.Name], mine.Into[port.Name] = r.given[port.Name], r.given[port.Name]
		} else if d := r.opt.Into[port.Name]; d != nil {
			mine.Into[port.Name] = d
		}
		if slices.Contains(r.opt.Keep, port.Name) {
			mine.Keep = append(mine.Keep, port.Name)
		}
	}
	one, err := e.Run(ctx, in, mine)
	if err != nil {
		return err
	}
	for name, d := range one.Outputs {
		if r.given[name] == nil {
			result.Outputs[name] = d
		}
	}
	for name, t := range one.Kept {
		if result.Kept == nil {
			result.Kept = map[string]*DeviceTensor{}
		}
		result.Kept[name] = t
	}
	result.Profile = one.Profile
	return nil
}

// finish completes an asynchronous run.
func (r *layersRun) finish(result *Result, err error) {
	// A result refers to its run. Drop the references to the run's inputs, since these may be results of earlier runs.
	r.opt, r.held, r.values, r.there, r.given = RunOptions{}, nil, nil, nil, nil
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result = result
	for _, name := range r.left {
		if err == nil {
			result.Kept[name].Close() // retiring it cannot fail
		}
	}
	close(r.done)
}

// later returns the result of a run in progress.
func (r *layersRun) later() (*Result, error) {
	outputs, err := r.of.NewOutputs(r.symbols, r.opt)
	if err != nil {
		return nil, err
	}
	result := &Result{Outputs: Tensors{}, Kept: map[string]*DeviceTensor{}}
	for i, port := range r.of.Outputs() {
		t := &laterTensor{run: r, name: port.Name}
		for part, e := range r.of.exes {
			if slices.ContainsFunc(e.Outputs(), func(p runtime.Port) bool { return p.Name == port.Name }) {
				t.device = r.of.parts[part].device
			}
		}
		result.Kept[port.Name], err = runtime.NewDeviceTensor(fmt.Sprintf("output %q", port.Name), port.Type.DType,
			outputs[i].Dims, t)
		if err != nil {
			return nil, err
		}
	}
	return result, nil
}

// laterTensor is an output of a run that may be in flight.
type laterTensor struct {
	run    *layersRun
	name   string
	device int // where the tensor is
}

// wait waits for the run, and returns the tensor.
func (t *laterTensor) wait(ctx context.Context) (*DeviceTensor, error) {
	select {
	case <-t.run.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if t.run.err == nil {
		return t.run.result.Kept[t.name], nil
	}
	t.run.of.of.lanes.told(t.run)
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
		t.run.left = append(t.run.left, t.name)
		return nil
	}
	if t.run.err != nil {
		return nil
	}
	return t.run.result.Kept[t.name].Close()
}

// Device implements runtime.Memory.
func (t *laterTensor) Device() string { return t.run.of.Device() }

// passing is host memory for values between parts. Runs reuse it; at most as many runs as parts are in progress.
type passing struct {
	mu     sync.Mutex
	free   map[string][][]byte // by value
	made   int
	closed bool
}

// take returns host memory for a value of a run with these symbols.
func (p *passing) take(port runtime.Port, symbols map[string]int64) (*ir.Data, error) {
	d := &ir.Data{DType: port.Type.DType}
	whole, err := port.Type.MaxBytes()
	if err == nil {
		d.Dims, err = port.Type.Shape.Eval(symbols)
	}
	if err != nil {
		return nil, err
	}
	size, err := ir.ByteSize(d.DType, d.Dims)
	if err != nil {
		return nil, err
	}
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
	return d, nil
}

// give returns the memory of a finished run.
func (p *passing) give(values Tensors) {
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
func (p *passing) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free, p.closed = nil, true
}
