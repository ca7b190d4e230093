package vk

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
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
func (s *states) record() {
	s.bindings = s.exe.bind(s.ranges, &s.resources)
	s.keep(&s.recordings)
	if len(s.exe.program.States) == 0 {
		return
	}
	c := s.exe.device.NewCommandList()
	s.zero(c, false)
	s.reset = bailout.Must(s.exe.device.Record("reset of "+s.exe.program.Name, c))
	s.keep(s.reset)
}

// zero adds commands to c that set states to zero: all of them, or only the ones that are not borrowed.
func (s *states) zero(c *CommandList, skipBorrowed bool) {
	for i := range s.exe.buffers {
		if b := &s.exe.buffers[i]; b.Kind == kernel.BufState && !(skipBorrowed && b.borrowed) {
			c.FillBuffer(s.ranges[i].Buffer, s.ranges[i].Offset, b.Bytes, 0)
		}
	}
}

// NewStates implements runtime.Executable.
func (e *Executable) NewStates() (_ runtime.States, err error) {
	defer e.explain("make states of", &err)
	s := &states{exe: e}
	defer func() {
		if err != nil {
			_ = s.resources.Close()
		}
	}()
	defer bailout.Caught(&err)
	bailout.Check(e.lock(context.Background()))
	defer e.unlock()
	s.make()
	return s, nil
}

// make makes the buffers of a set of states other than the program's own, and resets them.
func (s *states) make() {
	e := s.exe
	if e.own.reset == nil { // the program has no states
		bailout.Check(runtime.ErrNoStates)
	}
	s.ranges = e.bufferRanges()
	for i := range e.buffers {
		b := &e.buffers[i]
		if b.Kind != kernel.BufState {
			continue
		}
		made := bailout.Must(e.device.newBuffer(ownerOf(b.Kind), b.Name, b.at.Buffer.Size(), e.memoryKind(b)))
		s.keep(made)
		s.ranges[i].Buffer = made
	}
	s.record()
	e.recordEarly(s)
	s.begin(context.Background(), false)
}

// begin sets the states to their initial values: zeros, or weights. If skipBorrowed is true, it leaves borrowed states
// alone, because other programs use them.
func (s *states) begin(ctx context.Context, skipBorrowed bool) {
	e := s.exe
	if s.reset == nil {
		return
	}
	if skipBorrowed {
		fill := func(c *CommandList) { s.zero(c, true) }
		bailout.Check(e.device.runOnce(ctx, "first values of "+e.program.Name, fill))
	} else {
		bailout.Must(e.device.Submit(s.reset))
	}
	for _, port := range e.program.States {
		if port.Init == "" || skipBorrowed && e.buffers[port.Buffer].borrowed {
			continue
		}
		d := bailout.Must(port.First(e.weights))
		at := s.ranges[port.Buffer]
		fill := func(p []byte, from int64) error { // the weight may be part of a mapped file
			return mmap.Guard(func() error { copy(p, d.Bytes[from:]); return nil })
		}
		bailout.Check(e.device.UploadFunc(ctx, at.Buffer, at.Offset, int64(len(d.Bytes)), fill))
	}
}

// use calls do with the program's lock held. It returns the error with which do bails out, or an error if the program
// or the states are closed. doing names the call in errors.
func (s *states) use(doing string, do func(e *Executable)) (err error) {
	defer s.exe.explain(doing, &err)
	defer bailout.Caught(&err)
	bailout.Check(s.exe.lock(context.Background()))
	defer s.exe.unlock()
	if s.closed.Load() {
		return runtime.ErrStatesClosed
	}
	do(s.exe)
	return nil
}

// Read implements runtime.States.
func (s *states) Read(name string) (d *ir.Data, err error) {
	err = s.use("read state of", func(e *Executable) {
		port := &e.program.States[bailout.Must(e.State(name))]
		dims := bailout.Must(port.Shape.Eval(nil)) // states are static
		made, at := bailout.Must(ir.NewData(port.DType, dims...)), s.ranges[port.Buffer]
		bailout.Check(e.device.Download(context.Background(), made.Bytes, at.Buffer, at.Offset))
		made.ClearUnused()
		d = made
	})
	return d, err
}

// Write implements runtime.States.
func (s *states) Write(name string, d *ir.Data) error {
	return s.use("write state of", func(e *Executable) {
		at := s.ranges[e.program.States[bailout.Must(e.CheckState(name, d))].Buffer]
		bailout.Check(e.device.Upload(context.Background(), at.Buffer, at.Offset, d.Bytes))
	})
}

// Reset implements runtime.States.
func (s *states) Reset() error {
	return s.use("reset states of", func(*Executable) { s.begin(context.Background(), false) })
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
