package vkc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// maxStarted is how many runs of an executable may have been started and not be done. More than a device has at a time,
// so that it never waits for the host, and few enough to bound the memory of their outputs.
const maxStarted = 16

// Pending is a run that [Executable.Start] has begun. Any number of goroutines may wait for it.
type Pending struct {
	done   chan struct{}
	result *Result
	err    error
}

var (
	errNotStarted = errors.New("the pending run is none: Executable.Start makes one")
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

// Wait waits until the run is done and returns what it gives, each time the same. It ends early where the context that
// Start was given does.
func (p *Pending) Wait() (*Result, error) {
	if p == nil || p.done == nil {
		return nil, errNotStarted
	}
	<-p.done
	return p.result, p.err
}

// finish is called once.
func (p *Pending) finish(r *Result, err error) {
	p.result, p.err = r, err
	close(p.done)
}

// starts puts the started runs of an executable in order.
type starts struct {
	mu   sync.Mutex
	last chan struct{} // closed once the device has the run that was started last
	room chan struct{} // has an element for each run that is not done
}

// enter waits for room and returns the run's place: it may begin when before is closed, and closes begun when the
// next may. leave makes room again.
func (s *starts) enter(ctx context.Context) (before <-chan struct{}, begun chan struct{}, leave func(), err error) {
	s.mu.Lock()
	if s.room == nil {
		s.room, s.last = make(chan struct{}, maxStarted), closedDone
	}
	room := s.room
	s.mu.Unlock()
	select {
	case room <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, nil, fmt.Errorf("start a run while %d are not done: %w", maxStarted, ctx.Err())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before, begun = s.last, make(chan struct{})
	s.last = begun
	return before, begun, func() { <-room }, nil
}

// Start is Run without waiting: it returns as soon as the run is on its way, and [Pending.Wait] gives its result or
// its error. Each run has inputs and outputs of its own, several are on the device at a time, and they begin in the
// order in which they were started, so that states pass from one to the next. What is given in in and opt must not be
// changed before the run is done. Where 16 runs of the executable are not done, Start waits for one of them.
//
// A run overlaps with those before it if each of its inputs from the host has at most 64 KiB, no op of the program can
// fail, and opt asks for neither Profile nor Into; else it is complete before the next one begins. If ctx ends, Wait
// returns at once; a run that the device has goes on. Wait for all runs before Close.
func (e *Executable) Start(ctx context.Context, in Tensors, opt ...RunOptions) *Pending {
	p := &Pending{done: make(chan struct{})}
	o, err := runtime.CheckRun(ctx, opt)
	if err == nil && !e.loaded() {
		err = errNotLoaded
	}
	if err != nil {
		p.finish(nil, fmt.Errorf("start a run: %w", err))
		return p
	}
	before, begun, leave, err := e.starts.enter(ctx)
	if err != nil {
		p.finish(nil, err)
		return p
	}
	go func() {
		defer leave()
		select {
		case <-before:
		case <-ctx.Done():
			p.finish(nil, fmt.Errorf("a run that had not begun: %w", ctx.Err()))
			<-before
			close(begun)
			return
		}
		p.finish(e.runStarted(ctx, in, o, begun))
	}()
	return p
}

// runStarted is Run in two halves: begun is closed as soon as the device has the run, whose outputs stay there until
// they are read.
func (e *Executable) runStarted(ctx context.Context, in Tensors, opt RunOptions, begun chan struct{}) (*Result, error) {
	if opt.Profile || len(opt.Into) > 0 {
		defer close(begun)
		return e.backend.Run(ctx, in, opt)
	}
	wanted := opt.Keep
	opt.Keep = slices.Clone(wanted)
	for _, port := range e.Outputs() {
		if !slices.Contains(wanted, port.Name) {
			opt.Keep = append(opt.Keep, port.Name)
		}
	}
	res, err := e.backend.Run(ctx, in, opt)
	close(begun)
	if err != nil {
		return nil, err
	}
	if res.Outputs == nil {
		res.Outputs = map[string]*ir.Data{}
	}
	for _, name := range opt.Keep[len(wanted):] {
		t := res.Kept[name]
		delete(res.Kept, name)
		if err == nil {
			res.Outputs[name], err = t.Read(ctx)
		}
		if closed := t.Close(); err == nil {
			err = closed
		}
	}
	if err != nil {
		for _, t := range res.Kept {
			err = errors.Join(err, t.Close())
		}
		return nil, err
	}
	if len(res.Kept) == 0 {
		res.Kept = nil
	}
	return res, nil
}

// RunBatch runs the program once for each set of inputs, with several on the device at a time, and returns the results
// in their order. It ends with the first error, which says whose it is; runs that have begun are over by then.
func (e *Executable) RunBatch(ctx context.Context, in []Tensors, opt ...RunOptions) ([]*Result, error) {
	if err := runtime.CheckContext(ctx); err != nil {
		return nil, fmt.Errorf("run a batch: %w", err)
	}
	if !e.loaded() {
		return nil, errNotLoaded
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	started := make([]*Pending, len(in))
	for i, one := range in {
		started[i] = e.Start(ctx, one, opt...)
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
			for _, t := range keptOf(r) {
				failed = errors.Join(failed, t.Close())
			}
		}
		return nil, failed
	}
	return results, nil
}

func keptOf(r *Result) map[string]*DeviceTensor {
	if r == nil {
		return nil
	}
	return r.Kept
}
