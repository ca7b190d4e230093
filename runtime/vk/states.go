package vk

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// states is a set of buffers for the states of a program, the program's own or another set, with recordings of the
// steps on them. All sets use the program's other buffers, which is safe because runs are serialized.
type states struct {
	resources
	recordings // of runs on these states
	exe        *Executable
	ranges     []BufferRange // the memory that kernels access, by buffer
	reset      *Recording    // sets all states to zero; nil if there are none
	closed     atomic.Bool
}

// record makes the bindings for these states, and the recording that resets them.
func (s *states) record() error {
	bindings, err := s.exe.bind(s.ranges, &s.resources)
	if err != nil {
		return err
	}
	s.bindings = bindings
	s.keep(&s.recordings)
	if len(s.exe.program.States) == 0 {
		return nil
	}
	c := s.exe.device.NewCommandList()
	for i, b := range s.exe.program.Buffers {
		if b.Kind == kernel.BufState {
			c.FillBuffer(s.ranges[i].Buffer, s.ranges[i].Offset, b.Bytes, 0)
		}
	}
	if s.reset, err = s.exe.device.Record("reset of "+s.exe.program.Name, c); err == nil {
		s.keep(s.reset)
	}
	return err
}

// NewStates implements runtime.Executable.
func (e *Executable) NewStates() (runtime.States, error) {
	if err := e.lock(context.Background()); err != nil {
		return nil, e.wrap("make states of", err)
	}
	defer e.unlock()
	s := &states{exe: e, ranges: e.ranges()}
	if err := s.make(); err != nil {
		_ = s.resources.Close()
		return nil, e.wrap("make states of", err)
	}
	return s, nil
}

// make makes the buffers of a set of states other than the program's own, and resets them.
func (s *states) make() error {
	e := s.exe
	if e.own.reset == nil {
		return runtime.ErrNoStates
	}
	for i := range e.buffers {
		b := &e.buffers[i]
		if b.Kind != kernel.BufState {
			continue
		}
		made, err := e.device.newBuffer(ownerOf(b.Kind), b.Name, b.at.Buffer.Size(), e.memoryKind(b))
		if err != nil {
			return err
		}
		s.keep(made)
		s.ranges[i].Buffer = made
	}
	if err := s.record(); err != nil {
		return err
	}
	if e.tripsOf(nil) == "" {
		if _, err := e.stepsOn(s, nil); err != nil {
			return err
		}
	}
	return s.begin(context.Background(), false)
}

// begin sets the states to their initial values: zeros, or weights. If spare is true it uploads no weights to borrowed
// states, which the caller restores.
func (s *states) begin(ctx context.Context, spare bool) error {
	e := s.exe
	if s.reset == nil {
		return nil
	}
	if _, err := e.device.Submit(s.reset); err != nil {
		return err
	}
	for _, port := range e.program.States {
		if port.Init == "" || spare && e.buffers[port.Buffer].borrowed {
			continue
		}
		d, err := port.First(e.weights)
		if err != nil {
			return err
		}
		at := s.ranges[port.Buffer]
		if err := e.device.UploadFunc(ctx, at.Buffer, at.Offset, int64(len(d.Bytes)), func(p []byte, from int64) error {
			// The weight may be part of a mapped file.
			return mmap.Guard(func() error { copy(p, d.Bytes[from:]); return nil })
		}); err != nil {
			return err
		}
	}
	return nil
}

// use calls do with the program's lock held. It returns an error if the program or the states are closed.
func (s *states) use(doing string, do func(e *Executable) error) error {
	e := s.exe
	if err := e.lock(context.Background()); err != nil {
		return e.wrap(doing, err)
	}
	defer e.unlock()
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
	err = s.use("read state of", func(e *Executable) error {
		i, err := e.State(name)
		if err != nil {
			return err
		}
		port := &e.program.States[i]
		dims, err := port.Shape.Eval(nil) // states are static
		if err != nil {
			return err
		}
		if d, err = ir.NewData(port.DType, dims...); err != nil {
			return err
		}
		at := s.ranges[port.Buffer]
		return e.device.Download(context.Background(), d.Bytes, at.Buffer, at.Offset)
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Write implements runtime.States.
func (s *states) Write(name string, d *ir.Data) error {
	return s.use("write state of", func(e *Executable) error {
		i, err := e.CheckState(name, d)
		if err != nil {
			return err
		}
		at := s.ranges[e.program.States[i].Buffer]
		return e.device.Upload(context.Background(), at.Buffer, at.Offset, d.Bytes)
	})
}

// Reset implements runtime.States.
func (s *states) Reset() error {
	return s.use("reset states of", func(*Executable) error { return s.begin(context.Background(), false) })
}

// Close implements runtime.States. Runs in progress complete first.
func (s *states) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	return s.resources.Close()
}

// ownStates returns the program's own states, also for a nil program.
func (e *Executable) ownStates() *states {
	if e == nil || e.own == nil {
		return &states{exe: e} // its methods say that there is no program
	}
	return e.own
}

// ReadState implements runtime.Executable. It waits for runs in progress.
func (e *Executable) ReadState(name string) (*ir.Data, error) { return e.ownStates().Read(name) }

// WriteState implements runtime.Executable. It takes effect after runs in progress.
func (e *Executable) WriteState(name string, d *ir.Data) error { return e.ownStates().Write(name, d) }

// ResetStates implements runtime.Executable. It takes effect after runs in progress.
func (e *Executable) ResetStates() error { return e.ownStates().Reset() }

// statesOf returns the set of states that a run uses.
func (e *Executable) statesOf(opt runtime.RunOptions) (*states, error) {
	if opt.States == nil {
		return e.own, nil
	}
	s, ok := opt.States.(*states)
	switch {
	case !ok || s.exe != e:
		return nil, runtime.ErrStates
	case s.closed.Load():
		return nil, runtime.ErrStatesClosed
	case opt.Profile || e.guarded:
		return nil, errors.New("runs on states of their own have no profile and no guards: leave one of them out")
	}
	return s, nil
}
