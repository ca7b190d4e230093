package vk

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// states is a separate set of buffers for the states of a program, with the steps recorded for them. The steps share
// the program's other buffers, which is safe because runs are serialized.
type states struct {
	exe      *Executable
	made     []closer
	ranges   []BufferRange // the program's ranges with the states replaced
	recorded recordings    // for runs on these states, without copies of inputs and outputs
	reset    *Recording
	closed   atomic.Bool
}

// NewStates implements runtime.Executable.
func (e *Executable) NewStates() (runtime.States, error) {
	if err := e.take(context.Background()); err != nil {
		return nil, e.wrap("make states of", err)
	}
	defer e.give()
	s := &states{exe: e, ranges: slices.Clone(e.ranges)}
	if err := s.make(); err != nil {
		closeList(s.made)
		return nil, e.wrap("make states of", err)
	}
	return s, nil
}

func (s *states) keep(c closer) { s.made = append(s.made, c) }

func (s *states) make() error {
	e := s.exe
	if e.reset == nil {
		return runtime.ErrNoStates
	}
	for i := range e.program.Buffers {
		b := &e.program.Buffers[i]
		if b.Kind != kernel.BufState {
			continue
		}
		made, err := e.device.newBuffer(ownerOf(b.Kind), b.Name, e.ranges[i].Buffer.Size(), e.memoryKind(b))
		if err != nil {
			return err
		}
		s.keep(made)
		s.ranges[i].Buffer = made
	}
	bindings, err := e.bind(s.ranges, s.keep)
	if err != nil {
		return err
	}
	s.recorded.bindings = bindings
	s.keep(&s.recorded)
	if e.tripsOf(nil) == "" {
		if _, err := e.stepsOn(s, nil); err != nil {
			return err
		}
	}
	if s.reset, err = e.recordReset(s.ranges); err != nil {
		return err
	}
	s.keep(s.reset)
	return e.resetStates(context.Background(), s.reset, s.ranges, func(int) bool { return true })
}

// closeList closes resources in reverse order. On a device that only retires them.
func closeList(made []closer) error {
	var errs []error
	for _, c := range slices.Backward(made) {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// use calls do with the program's lock held.
func (s *states) use(doing string, do func(e *Executable) error) error {
	e := s.exe
	if err := e.take(context.Background()); err != nil {
		return e.wrap(doing, err)
	}
	defer e.give()
	if s.closed.Load() {
		return e.wrap(doing, runtime.ErrStatesClosed)
	}
	if err := do(e); err != nil {
		return e.wrap(doing, err)
	}
	return nil
}

// Read implements runtime.States.
func (s *states) Read(name string) (d *ir.Data, err error) {
	err = s.use("read state of", func(e *Executable) (err error) {
		d, err = e.readState(s.ranges, name)
		return err
	})
	return d, err
}

// Write implements runtime.States.
func (s *states) Write(name string, d *ir.Data) error {
	return s.use("write state of", func(e *Executable) error { return e.writeState(s.ranges, name, d) })
}

// Reset implements runtime.States.
func (s *states) Reset() error {
	return s.use("reset states of", func(e *Executable) error {
		return e.resetStates(context.Background(), s.reset, s.ranges, func(int) bool { return true })
	})
}

// Close implements runtime.States. Runs in progress complete first.
func (s *states) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	return closeList(s.made)
}

// statesOf returns the states given to a run, or nil for the program's own.
func (e *Executable) statesOf(opt runtime.RunOptions) (*states, error) {
	if opt.States == nil {
		return nil, nil
	}
	s, ok := opt.States.(*states)
	switch {
	case !ok || s.exe != e:
		return nil, runtime.ErrStates
	case s.closed.Load():
		return nil, runtime.ErrStatesClosed
	case opt.Profile || e.guards != nil:
		return nil, errors.New("runs on states of their own have no profile and no guards: leave one of them out")
	}
	return s, nil
}
