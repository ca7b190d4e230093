// Package trial runs a program on one device and tries another device in the background. If the other device is faster
// and returns the same bits, the program changes over to it, with its states.
//
// [Executable] is the program. It begins on the first device. Once its runs have taken the time [Options].After in
// total, it loads the program on the second device too, and both devices repeat a few of the caller's runs on copies of
// their inputs and states. This is the trial.
package trial

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// Options says when a program is tried, and where.
type Options struct {
	// Load loads the program on the second device. It returns soon after ctx has ended.
	Load func(ctx context.Context) (runtime.Executable, error)
	// First and Second name the devices, for people.
	First, Second string
	// After is how long the program's runs take in total before the trial begins.
	After time.Duration
	// Turn is a lock: a channel with room for one element, which is in it while the lock is held. Of the programs with
	// the same Turn, only one at a time loads the program for a trial or repeats a run.
	Turn chan struct{}
	// Clock runs a program and measures the time; nil means the clock of the machine. It is for tests.
	Clock func(program runtime.Executable, run func() error) (time.Duration, error)
}

const (
	trialRuns = 3   // number of the caller's runs that both devices repeat
	margin    = 1.2 // factor by which the second device must be faster
)

// Executable is a program that may change over from one device to another. Its device tensors are always on the first
// device, so that programs on one device can exchange them. Runs on the second device copy them.
type Executable struct {
	*runtime.Signature
	first  runtime.Executable
	opt    Options
	second atomic.Pointer[runtime.Executable] // the program on the second device, if it runs there; else nil

	// If the program has states, a run and any access to the states hold moving for reading. A change of the device
	// holds it for writing.
	moving sync.RWMutex

	asked   atomic.Bool // whether the trial waits for a run to repeat
	samples chan sample // passes that run to the trial; has room for one element

	mu    sync.Mutex       // guards the fields below
	spent time.Duration    // total time of runs on the first device
	phase phase            // of the trial
	why   string           // see Why
	sets  map[*states]bool // open sets of states that NewStates has made
	stop  context.CancelFunc
	done  chan struct{} // closed at the end of the trial
}

// phase says how far the trial has come.
type phase int

const (
	waiting phase = iota // for the program's runs to take long enough
	trying
	settled // the trial has ended, and there is no further one
)

// sample is a copy of what a run of the caller reads: inputs, states and symbols, by name.
type sample struct {
	in      map[string]*ir.Data
	states  map[string]*ir.Data
	symbols map[string]int64
}

// New returns a program that runs on the device where first is loaded. It closes first.
func New(g *ir.Graph, first runtime.Executable, opt Options) *Executable {
	if opt.Clock == nil {
		opt.Clock = func(_ runtime.Executable, run func() error) (time.Duration, error) {
			start := time.Now()
			err := run()
			return time.Since(start), err
		}
	}
	return &Executable{Signature: runtime.SignatureOf(g), first: first, opt: opt, samples: make(chan sample, 1),
		sets: map[*states]bool{}}
}

// Why says what the trial has found, in one line that begins with the device's name. It is empty before the trial.
func (e *Executable) Why() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.why
}

// now returns the program on the device where it runs.
func (e *Executable) now() runtime.Executable {
	if second := e.second.Load(); second != nil {
		return *second
	}
	return e.first
}

// hold returns the program on the device where it runs. A program with states stays on that device until release is
// called. A program without states may change over meanwhile, because nothing has to move.
func (e *Executable) hold() (now runtime.Executable, release func()) {
	if len(e.States()) == 0 {
		return e.now(), func() {}
	}
	e.moving.RLock()
	return e.now(), e.moving.RUnlock
}

// Run implements runtime.Executable.
func (e *Executable) Run(ctx context.Context, in map[string]*ir.Data,
	opts ...runtime.RunOptions) (*runtime.Result, error) {
	opt, err := runtime.CheckRun(ctx, opts)
	if err != nil {
		return nil, e.Explain("run", err)
	}
	e.beginIfDue()
	now, release := e.hold()
	defer release()
	set := opt.States
	if opt.States, err = e.unwrap(set); err != nil {
		return nil, e.Explain("run", err)
	}
	if now != e.first {
		r, failed, err := e.runOnSecond(ctx, now, in, opt)
		if failed == nil || len(e.States()) > 0 || ctx.Err() != nil {
			return r, e.Explain("run", cmp.Or(failed, err))
		}
		e.leave(now, failed)
	}
	copied := e.sampleIfAsked(ctx, in, opt)
	var r *runtime.Result
	took, err := e.opt.Clock(e.first, func() (err error) {
		r, err = e.first.Run(ctx, in, opt)
		return err
	})
	if copied != nil { // only now, so that the trial does not repeat the run while it still goes on
		e.samples <- *copied
	}
	if err == nil {
		e.mu.Lock()
		e.spent += took
		e.mu.Unlock()
	}
	return r, err
}

// runOnSecond runs the program on the second device. Device tensors are on the first one, so it copies inputs from and
// kept outputs to the first device. failed is an error of the second device; err is any other error, such as a wrong
// input.
func (e *Executable) runOnSecond(ctx context.Context, second runtime.Executable, in map[string]*ir.Data,
	opt runtime.RunOptions) (r *runtime.Result, failed, err error) {
	symbols, err := e.Bind(in, opt)
	if err == nil {
		_, err = e.NewOutputs(symbols, opt)
	}
	if err == nil {
		in, err = onHost(ctx, in, opt.Inputs)
	}
	if err != nil {
		return nil, nil, err
	}
	keep := opt.Keep
	opt.Inputs, opt.Keep, opt.More = nil, nil, false
	r, err = second.Run(ctx, in, opt)
	switch fault := (*ir.FaultError)(nil); {
	case errors.As(err, &fault): // an op has no result for the caller's values
		return nil, nil, err
	case err != nil:
		return nil, err, nil
	case len(keep) == 0:
		return r, nil, nil
	}
	r.Kept = map[string]*runtime.DeviceTensor{}
	for _, name := range keep {
		t, err := e.first.Upload(ctx, r.Outputs[name])
		if err != nil {
			return nil, nil, errors.Join(err, r.CloseKept())
		}
		r.Kept[name] = t
		delete(r.Outputs, name)
	}
	return r, nil, nil
}

// onHost returns all inputs of a run as host tensors: the tensors of in, and copies of the device tensors.
func onHost(ctx context.Context, in map[string]*ir.Data,
	tensors map[string]*runtime.DeviceTensor) (map[string]*ir.Data, error) {
	if len(tensors) == 0 {
		return in, nil
	}
	all := maps.Clone(in)
	if all == nil {
		all = map[string]*ir.Data{}
	}
	for name, t := range tensors {
		d, err := t.Read(ctx)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", name, err)
		}
		all[name] = d
	}
	return all, nil
}

// sampleIfAsked returns a copy of what a run reads, if the trial waits for one, or else nil. It returns nil for wrong
// arguments, and the trial goes on waiting.
func (e *Executable) sampleIfAsked(ctx context.Context, in map[string]*ir.Data, opt runtime.RunOptions) *sample {
	if !e.asked.CompareAndSwap(true, false) {
		return nil
	}
	s, err := e.sample(ctx, in, opt)
	if err != nil {
		e.asked.Store(true)
		return nil
	}
	return &s
}

// sample copies what a run reads.
func (e *Executable) sample(ctx context.Context, in map[string]*ir.Data, opt runtime.RunOptions) (s sample, err error) {
	defer bailout.Caught(&err)
	s.symbols = bailout.Must(e.Bind(in, opt))
	s.in = maps.Clone(bailout.Must(onHost(ctx, in, opt.Inputs)))
	for name, d := range in { // the caller may change them after the run
		own := *d
		own.Bytes, own.Dims = slices.Clone(own.Bytes), slices.Clone(own.Dims)
		s.in[name] = &own
	}
	from := opt.States
	if from == nil {
		from = runtime.StatesOf(e.first)
	}
	s.states = e.read(from)
	return s, nil
}

// read returns copies of all states of a set, by name. It panics with an error for [bailout.Caught].
func (e *Executable) read(from runtime.States) map[string]*ir.Data {
	values := map[string]*ir.Data{}
	for _, p := range e.States() {
		values[p.Name] = bailout.Must(from.Read(p.Name))
	}
	return values
}

// write sets states of a set to values, by name. It panics with an error for [bailout.Caught].
func write(to runtime.States, values map[string]*ir.Data) {
	for name, d := range values {
		bailout.Check(to.Write(name, d))
	}
}

// beginIfDue begins the trial if the program's runs have taken long enough.
func (e *Executable) beginIfDue() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.phase != waiting || e.spent < e.opt.After {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	e.phase, e.stop, e.done = trying, stop, make(chan struct{})
	go e.try(ctx)
}

// try makes the trial. Its errors do not reach the caller's runs, but Why has them.
func (e *Executable) try(ctx context.Context) {
	defer close(e.done)
	defer e.stop()
	why, err := e.measure(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		why = fmt.Sprintf("%s: %s was tried and failed: %s", e.opt.First, e.opt.Second, oneLine(err))
	}
	e.settle(why)
}

// inTurn calls f while no other program with the same Turn is loaded or measured for a trial.
func (e *Executable) inTurn(ctx context.Context, f func()) {
	select {
	case e.opt.Turn <- struct{}{}:
		defer func() { <-e.opt.Turn }()
		f()
	case <-ctx.Done():
		bailout.Check(ctx.Err())
	}
}

// oneLine formats an error, without the program's name, in one line.
func oneLine(err error) string {
	return strings.Join(strings.Fields(runtime.Reason(err).Error()), " ")
}

// settle ends the trial with the result why.
func (e *Executable) settle(why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.phase, e.why = settled, why
}

// measure loads the program on the second device, compares both devices, and changes over if the second one is better.
// It returns the result for Why. Other programs have their turn while it waits for the caller's runs.
func (e *Executable) measure(ctx context.Context) (why string, err error) {
	var second runtime.Executable
	kept := false
	defer func() {
		if second != nil && !kept {
			err = errors.Join(err, second.Close())
		}
	}()
	defer bailout.Caught(&err)
	e.inTurn(ctx, func() { second = bailout.Must(e.opt.Load(ctx)) })
	trialStates := runtime.StatesOf(e.first) // for repeated runs on the first device; not used without states
	if len(e.States()) > 0 {
		trialStates = bailout.Must(e.first.NewStates())
		defer trialStates.Close()
	}
	var here, there time.Duration // the total times on the first and the second device
	same := true
	tried := 0
	for tried < trialRuns && (tried == 0 || float64(there) < 2*float64(here)) {
		s := e.next(ctx)
		var a, b outcome
		var failed error // of the first device; the caller gets it from a run of its own
		e.inTurn(ctx, func() {
			a, failed = e.repeat(ctx, e.first, trialStates, s)
			if failed == nil {
				b = bailout.Must(e.repeat(ctx, second, nil, s))
			}
		})
		if failed != nil {
			continue
		}
		here, there, tried = here+a.took, there+b.took, tried+1
		same = same && a.equal(b)
	}
	times := fmt.Sprintf("%v for %d of your runs, and %s %v", runtime.Brief(there), tried, e.opt.First,
		runtime.Brief(here))
	switch {
	case float64(there)*margin >= float64(here):
		return fmt.Sprintf("%s: %s was tried and took %s", e.opt.First, e.opt.Second, times), nil
	case !same:
		return fmt.Sprintf("%s: %s was tried and took %s, but its results differ in their last bits: name that device "+
			"to run there", e.opt.First, e.opt.Second, times), nil
	}
	e.changeOver(ctx, second)
	kept = true
	return fmt.Sprintf("%s: it took %s; the bits of the results are the same", e.opt.Second, times), nil
}

// next waits for the caller's next run and returns what it reads.
func (e *Executable) next(ctx context.Context) (s sample) {
	e.asked.Store(true)
	select {
	case s = <-e.samples:
	case <-ctx.Done():
		bailout.Check(ctx.Err())
	}
	return s
}

// outcome is a repeated run: its duration, the outputs, and the states afterwards.
type outcome struct {
	took            time.Duration
	outputs, states map[string]*ir.Data
}

// equal reports whether two repeated runs have the same bits in all outputs and states.
func (o outcome) equal(other outcome) bool {
	same := func(a, b *ir.Data) bool {
		return a.DType == b.DType && slices.Equal(a.Dims, b.Dims) && bytes.Equal(a.Bytes, b.Bytes)
	}
	return maps.EqualFunc(o.outputs, other.outputs, same) && maps.EqualFunc(o.states, other.states, same)
}

// repeat repeats run s on a device, with a set of its states, which it overwrites. A nil set means the program's own
// states.
func (e *Executable) repeat(ctx context.Context, on runtime.Executable, set runtime.States,
	s sample) (o outcome, err error) {
	defer bailout.Caught(&err)
	opt := runtime.RunOptions{Symbols: s.symbols}
	at := runtime.StatesOf(on)
	if len(s.states) > 0 && set != nil {
		at, opt.States = set, set
	}
	write(at, s.states)
	var r *runtime.Result
	o.took = bailout.Must(e.opt.Clock(on, func() (err error) {
		r, err = on.Run(ctx, s.in, opt)
		return err
	}))
	o.took = max(o.took, 1) // the clock may be coarse
	o.outputs, o.states = r.Outputs, e.read(at)
	return o, nil
}

// changeOver moves all states to the second device, where the program runs from then on. After an error it runs on the
// first device as before.
func (e *Executable) changeOver(ctx context.Context, second runtime.Executable) {
	if len(e.States()) > 0 {
		e.moving.Lock()
		defer e.moving.Unlock()
	}
	bailout.Check(ctx.Err())
	bailout.Check(e.move(e.first, second))
	e.second.Store(&second)
}

// move copies the program's states, and the sets of NewStates, from one device to another. The caller holds moving.
func (e *Executable) move(from, to runtime.Executable) (err error) {
	if len(e.States()) == 0 {
		return nil
	}
	moved := map[*states]runtime.States{}
	defer func() {
		if err != nil {
			err = errors.Join(err, runtime.Each(slices.Collect(maps.Values(moved)), runtime.States.Close))
		}
	}()
	defer bailout.Caught(&err)
	write(runtime.StatesOf(to), e.read(runtime.StatesOf(from)))
	e.mu.Lock()
	defer e.mu.Unlock()
	for s := range e.sets {
		moved[s] = bailout.Must(to.NewStates())
		write(moved[s], e.read(s.at))
	}
	for s, one := range moved {
		s.at.Close() // nothing is lost if it fails
		s.at = one
	}
	return nil
}

// leave returns a program without states to the first device, because a run on the second one failed. It does nothing
// if another run has done so already.
func (e *Executable) leave(second runtime.Executable, why error) {
	at := e.second.Load()
	if at == nil || *at != second || !e.second.CompareAndSwap(at, nil) {
		return
	}
	second.Close()
	e.settle(fmt.Sprintf("%s: a run on %s failed: %s", e.opt.First, e.opt.Second, oneLine(why)))
}

// Stay ends the trial, moves the program back to the first device and keeps it there, for the reason why. It returns
// the program there, so that another one can share its memory.
func (e *Executable) Stay(ctx context.Context, why string) (runtime.Executable, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e.end()
	if len(e.States()) > 0 {
		e.moving.Lock()
		defer e.moving.Unlock()
	}
	second := e.second.Load()
	if second != nil {
		if err := e.move(*second, e.first); err != nil {
			return nil, e.Explain("share states of", err)
		}
		e.second.Store(nil)
		if err := (*second).Close(); err != nil {
			return nil, err
		}
	}
	e.settle(e.opt.First + ": " + why)
	return e.first, nil
}

// end ends the trial, and waits until it has ended.
func (e *Executable) end() {
	e.mu.Lock()
	began := e.phase == trying
	e.phase = settled
	done := e.done
	if began {
		e.stop()
	}
	e.mu.Unlock()
	if done != nil {
		<-done
	}
	e.asked.Store(false)
}

// Close implements runtime.Executable. It ends the trial, and waits for the run that the second device is executing.
func (e *Executable) Close() error {
	e.end()
	err := e.first.Close()
	if second := e.second.Load(); second != nil {
		err = errors.Join((*second).Close(), err)
	}
	return err
}

// Upload implements runtime.Executable.
func (e *Executable) Upload(ctx context.Context, d *ir.Data) (*runtime.DeviceTensor, error) {
	return e.first.Upload(ctx, d)
}

// Device implements runtime.Executable.
func (e *Executable) Device() string { return e.now().Device() }
