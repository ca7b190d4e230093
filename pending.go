package vkc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/multi"
)

// maxStarted is the number of started runs of an executable that may be unfinished. It is large enough that the device
// does not wait for the host, and small enough to bound the memory of the outputs.
const maxStarted = 16

// Pending is a run that [Executable.Start] has begun. Any number of goroutines may wait for it.
type Pending struct {
	done   chan struct{} // closed when result and err are set
	ended  func()        // called before waiters learn that the run is done; may be nil
	result *Result
	err    error
}

var (
	errNotStarted = errors.New("the pending run is nil or empty: Executable.Start makes one")
	closedDone    = make(chan struct{})
)

func init() { close(closedDone) }

// Done returns a channel that is closed when the run is done, or has failed.
func (p *Pending) Done() <-chan struct{} {
	if p == nil || p.done == nil {
		return closedDone
	}
	return p.done
}

// Wait waits for the run and returns its result, the same for each call. It returns early if the context of Start ends.
func (p *Pending) Wait() (*Result, error) {
	if p == nil || p.done == nil {
		return nil, errNotStarted
	}
	<-p.done
	return p.result, p.err
}

// finish sets the result or the error of the run and wakes the goroutines that wait for it. It is called once.
func (p *Pending) finish(r *Result, err error) {
	p.result, p.err = r, err
	if p.ended != nil {
		p.ended()
	}
	close(p.done)
}

// runQueue is the queue of an executable's started runs. It decides which one begins next. Its zero value is ready.
type runQueue struct {
	mu      sync.Mutex
	waiting []*queuedRun  // in the order of Start
	running bool          // whether nextLocked has let a run begin that has not called next yet
	room    chan struct{} // a semaphore: buffers one element for each unfinished run, at most maxStarted
	closing chan struct{} // closed by close; enter makes it together with room
	closed  bool
	all     sync.WaitGroup // the unfinished runs
}

// queuedRun is a run in the queue.
type queuedRun struct {
	priority int
	begin    chan struct{} // closed when it may begin
}

// enter waits until fewer than maxStarted runs are unfinished and appends a run to the queue.
func (s *runQueue) enter(ctx context.Context, priority int) (*queuedRun, error) {
	s.mu.Lock()
	if s.room == nil {
		s.room, s.closing = make(chan struct{}, maxStarted), make(chan struct{})
	}
	room, closing := s.room, s.closing
	s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("a run that had not begun: %w", err) // even if a slot is free
	}
	select {
	case room <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("start a run while %d are not done: %w", maxStarted, ctx.Err())
	case <-closing:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosedStart
	}
	x := &queuedRun{priority, make(chan struct{})}
	s.waiting = append(s.waiting, x)
	s.all.Add(1)
	if !s.running {
		s.nextLocked()
	}
	return x, nil
}

var errClosedStart = fmt.Errorf("start a run: the executable is %w", ErrClosed)

// wait returns nil when the run may begin. The caller must call next when the following run may begin. On an error the
// run has left the queue, and the caller must not begin it.
func (s *runQueue) wait(ctx context.Context, x *queuedRun) (err error) {
	select {
	case <-x.begin:
		return nil
	case <-ctx.Done():
		err = fmt.Errorf("a run that had not begun: %w", ctx.Err())
	case <-s.closing:
		err = fmt.Errorf("a run that had not begun: the executable is %w", ErrClosed)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, x); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	} else { // nextLocked had just let this run begin: let another one begin instead
		s.nextLocked()
	}
	return err
}

// next lets the next run of the queue begin.
func (s *runQueue) next() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextLocked()
}

// nextLocked lets the next run of the queue begin: the waiting run with the highest priority, and among equals the one
// that was started first. The caller holds the lock.
func (s *runQueue) nextLocked() {
	s.running = len(s.waiting) > 0
	if !s.running {
		return
	}
	first := 0
	for i, x := range s.waiting {
		if x.priority > s.waiting[first].priority {
			first = i
		}
	}
	close(s.waiting[first].begin)
	s.waiting = slices.Delete(s.waiting, first, first+1)
}

// leave counts a run as finished, so that enter admits another one.
func (s *runQueue) leave() {
	<-s.room
	s.all.Done()
}

// close makes queued runs fail, waits for runs that have begun, and returns when all are done.
func (s *runQueue) close() {
	s.mu.Lock()
	if !s.closed && s.closing != nil { // closing is nil if no run was started
		close(s.closing)
	}
	s.closed = true
	s.mu.Unlock()
	s.all.Wait()
}

// Start returns an asynchronous Run: it returns as soon as the run is queued, and [Pending.Wait] returns its result or
// error. Each run has its own inputs and outputs, and several may be on the device at once. They begin in the order of
// Start, so that states pass from one to the next; a run with a higher [RunOptions].Priority begins before queued ones.
// The caller must not change in and opt before the run is done. If 16 runs of the executable are not done, Start waits
// for one of them.
//
// Copies between host and device overlap with runs on devices with a transfer queue. A run overlaps with earlier runs,
// except in three cases: an op of the program can fail, opt requests a Profile, or its host inputs of more than 64 KiB
// each take more than 64 MiB together. Then it completes before the next one begins. Such inputs of all runs of the
// executable take at most 128 MiB on the device, which limits the overlap. If ctx ends, Wait returns at once; a run
// that the device has begun continues.
func (e *Executable) Start(ctx context.Context, in Tensors, opt ...RunOptions) *Pending {
	return e.start(ctx, in, nil, opt)
}

// start queues a run and returns at once, as Start does. ended, if not nil, is called before waiters learn that the run
// has ended.
func (e *Executable) start(ctx context.Context, in Tensors, ended func(), opt []RunOptions) *Pending {
	p := &Pending{done: make(chan struct{}), ended: ended}
	o, err := runtime.CheckRun(ctx, opt)
	if err == nil && !e.loaded() {
		err = errNotLoaded
	}
	if err != nil {
		p.finish(nil, fmt.Errorf("start a run: %w", err))
		return p
	}
	queued, err := e.starts.enter(ctx, o.Priority)
	if err != nil {
		p.finish(nil, err)
		return p
	}
	go func() {
		defer e.starts.leave()
		if err := e.starts.wait(ctx, queued); err != nil {
			p.finish(nil, err)
			return
		}
		r, err := e.runStarted(ctx, in, o, e.starts.next)
		p.finish(r, e.explain("run", err))
	}()
	return p
}

// runStarted runs the program once, as Run does, in two phases. First it submits the run, and calls begun so that the
// next run can begin. Then it reads the outputs, which stay on the device until then.
func (e *Executable) runStarted(ctx context.Context, in Tensors, opt RunOptions, begun func()) (*Result, error) {
	if x, ok := e.backend.(*multi.Pipeline); ok && !x.Asynchronous() {
		return x.RunNext(ctx, in, opt, begun)
	}
	if opt.Profile {
		defer begun() // a profile measures one run alone
		return e.backend.Run(ctx, in, opt)
	}
	res, reads, err := e.begin(ctx, in, opt)
	begun()
	if err != nil {
		return nil, err
	}
	if res.Outputs == nil {
		res.Outputs = map[string]*ir.Data{}
	}
	for _, name := range reads {
		t := res.Kept[name]
		delete(res.Kept, name)
		if d := opt.Into[name]; err == nil && d != nil {
			res.Outputs[name], err = d, t.ReadInto(ctx, d)
		} else if err == nil {
			res.Outputs[name], err = t.Read(ctx)
		}
		if closed := t.Close(); err == nil {
			err = closed
		}
	}
	if err != nil {
		return nil, errors.Join(err, res.CloseKept())
	}
	if len(res.Kept) == 0 {
		res.Kept = nil
	}
	return res, nil
}

// signature has the methods of [runtime.Signature] that every backend's executable has.
type signature interface {
	Bind(in Tensors, opt RunOptions) (map[string]int64, error)
	NewOutputs(symbols map[string]int64, opt RunOptions) ([]runtime.Output, error)
	Explain(doing string, err error) error
}

// begin submits a run and keeps all outputs on the device, in res.Kept. reads lists the outputs that the caller has not
// asked to keep, so that they must be read.
func (e *Executable) begin(ctx context.Context, in Tensors, opt RunOptions) (res *Result, reads []string, err error) {
	if s, ok := e.backend.(signature); ok && len(opt.Into) > 0 { // check that the tensors fit before the run begins
		symbols, err := s.Bind(in, opt)
		if err == nil {
			_, err = s.NewOutputs(symbols, opt)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	opt.Into = nil // runStarted copies the outputs there
	wanted := opt.Keep
	opt.Keep = slices.Clone(wanted)
	for _, port := range e.Outputs() {
		if !slices.Contains(wanted, port.Name) {
			opt.Keep = append(opt.Keep, port.Name)
		}
	}
	res, err = e.backend.Run(ctx, in, opt)
	return res, opt.Keep[len(wanted):], err
}

// RunBatch runs the program once for each set of inputs, several of them on the device at once, and returns the results
// in order. It stops at the first error, which identifies the failed run, and returns when runs in progress are over.
func (e *Executable) RunBatch(ctx context.Context, in []Tensors, opt ...RunOptions) ([]*Result, error) {
	if err := runtime.CheckContext(ctx); err != nil {
		return nil, fmt.Errorf("run a batch: %w", err)
	}
	if !e.loaded() {
		return nil, errNotLoaded
	}
	return runBatch(ctx, in, func(ctx context.Context, one Tensors) *Pending { return e.Start(ctx, one, opt...) })
}

// runBatch starts a run for each element of in, and waits for all runs. If one fails, it stops the others.
func runBatch(ctx context.Context, in []Tensors, start func(context.Context, Tensors) *Pending) ([]*Result, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	started := make([]*Pending, len(in))
	for i, one := range in {
		started[i] = start(ctx, one)
	}
	results := make([]*Result, len(in))
	var failed error
	for i, p := range started {
		r, err := p.Wait()
		if err != nil && failed == nil {
			failed = fmt.Errorf("run %d of %d: %w", i, len(in), err)
			stop(failed)
		}
		results[i] = r
	}
	if failed != nil {
		for _, r := range results {
			failed = errors.Join(failed, r.CloseKept()) // of the runs that succeeded
		}
		return nil, failed
	}
	return results, nil
}
