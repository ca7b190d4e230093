package multi

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// program is a program in parts on several devices. It has the code common to pipelines and tensor parallelism:
// everything except the run itself.
type program struct {
	*runtime.Signature
	names  []string // of the devices, by part
	exes   []runtime.Executable
	home   map[string]home
	own    *states                // the program's own states
	lock   func() (unlock func()) // waits for runs in flight before states are accessed
	closed atomic.Bool
}

// home gives the location of a state: the parts that hold it. Each of them has a slice along an axis if cut is set, and
// the whole state otherwise.
type home struct {
	parts []int
	cut   bool
	axis  int
}

// newProgram makes the program of a graph in parts. cut gives the axes along which each part's states are cut.
func newProgram(g *ir.Graph, names []string, exes []runtime.Executable, cut func(part int) map[string]int) *program {
	x := &program{Signature: runtime.SignatureOf(g), names: names, exes: exes, home: map[string]home{},
		lock: func() func() { return func() {} }}
	x.own = &states{of: x}
	for i, e := range exes {
		for _, s := range e.States() {
			h := x.home[s.Name]
			h.parts = append(h.parts, i)
			h.axis, h.cut = cut(i)[s.Name]
			x.home[s.Name] = h
		}
		x.own.parts = append(x.own.parts, runtime.StatesOf(e))
	}
	return x
}

// Parts returns the executables of the parts.
func (x *program) Parts() []runtime.Executable { return x.exes }

// Failed adds a part and its device to an error.
func Failed(names []string, part int, err error) error {
	return fmt.Errorf("part %d of %d, on %s: %w", part+1, len(names), names[part], runtime.Reason(err))
}

func (x *program) failed(part int, err error) error { return Failed(x.names, part, err) }

// check validates a run. It returns the run's symbols and its own states by part, or nil for the program's own states.
func (x *program) check(in map[string]*ir.Data, opt runtime.RunOptions) (symbols map[string]int64,
	own []runtime.States, err error) {
	if opt.Profile && len(x.exes) > 1 {
		return nil, nil, errors.New("a program on several devices has no profile: leave RunOptions.Profile out")
	}
	if err = x.own.open(); err == nil {
		symbols, err = x.Bind(in, opt)
	}
	if err == nil {
		_, err = x.NewOutputs(symbols, opt)
	}
	if err != nil || opt.States == nil {
		return symbols, make([]runtime.States, len(x.exes)), err
	}
	s, ok := opt.States.(*states)
	if !ok || s.of != x {
		return nil, nil, runtime.ErrStates
	}
	return symbols, s.parts, s.open()
}

// devices lists the names of the devices of the parts.
func (x *program) devices(and string) string {
	var names []string
	for _, e := range x.exes {
		names = append(names, e.Device())
	}
	return strings.Join(names, and)
}

// Close implements runtime.Executable.
func (x *program) Close() error {
	x.closed.Store(true)
	return runtime.Each(x.exes, runtime.Executable.Close)
}

// ReadState implements runtime.Executable.
func (x *program) ReadState(name string) (*ir.Data, error) { return x.own.Read(name) }

// WriteState implements runtime.Executable.
func (x *program) WriteState(name string, d *ir.Data) error { return x.own.Write(name, d) }

// ResetStates implements runtime.Executable.
func (x *program) ResetStates() error { return x.own.Reset() }

// NewStates implements runtime.Executable.
func (x *program) NewStates() (runtime.States, error) {
	if err := x.own.open(); err != nil {
		return nil, err
	}
	if len(x.States()) == 0 {
		return nil, runtime.ErrNoStates
	}
	own := &states{of: x, parts: make([]runtime.States, len(x.exes))}
	for i, e := range x.exes {
		if len(e.States()) == 0 {
			continue
		}
		s, err := e.NewStates()
		if err != nil {
			return nil, errors.Join(err, own.Close())
		}
		own.parts[i] = s
	}
	return own, nil
}

// states are the states of a run, by part. An element is nil if its part has no states.
type states struct {
	of     *program
	parts  []runtime.States
	closed atomic.Bool
}

// open refuses states that are closed, and those of a closed program.
func (s *states) open() error {
	if s.of.closed.Load() {
		return runtime.ErrProgramClosed
	}
	if s.closed.Load() {
		return runtime.ErrStatesClosed
	}
	return nil
}

// Read implements runtime.States.
func (s *states) Read(name string) (*ir.Data, error) {
	d, err := s.read(name)
	return d, s.of.Explain("read state of", err)
}

// read assembles a state from its parts.
func (s *states) read(name string) (*ir.Data, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	if _, err := s.of.State(name); err != nil {
		return nil, err
	}
	defer s.of.lock()()
	h := s.of.home[name]
	if !h.cut {
		return s.parts[h.parts[0]].Read(name)
	}
	var list []*ir.Data
	for _, part := range h.parts {
		d, err := s.parts[part].Read(name)
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return joinData(list, h.axis)
}

// Write implements runtime.States.
func (s *states) Write(name string, d *ir.Data) error {
	return s.of.Explain("write state of", s.write(name, d))
}

// write writes each part's share of a state.
func (s *states) write(name string, d *ir.Data) error {
	if err := s.open(); err != nil {
		return err
	}
	if _, err := s.of.CheckState(name, d); err != nil {
		return err
	}
	defer s.of.lock()()
	h := s.of.home[name]
	for i, part := range h.parts {
		own := d
		if h.cut {
			var err error
			if own, err = cutData(d, h.axis, len(h.parts), i); err != nil {
				return err
			}
		}
		if err := s.parts[part].Write(name, own); err != nil {
			return err
		}
	}
	return nil
}

// each calls do for the states of every part.
func (s *states) each(do func(runtime.States) error) error {
	defer s.of.lock()()
	var errs []error
	for i, p := range s.parts {
		if p == nil {
			continue
		}
		if err := do(p); err != nil {
			errs = append(errs, s.of.failed(i, err))
		}
	}
	return errors.Join(errs...)
}

// Reset implements runtime.States.
func (s *states) Reset() error {
	err := s.open()
	if err == nil {
		err = s.each(runtime.States.Reset)
	}
	return s.of.Explain("reset states of", err)
}

// Close implements runtime.States.
func (s *states) Close() error {
	s.closed.Store(true)
	return s.each(runtime.States.Close)
}
