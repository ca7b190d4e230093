package multi

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// program is a program in parts on several devices, one executable per part. [Pipeline] and [Tensor] embed it; they add
// the code that runs the parts.
type program struct {
	*runtime.Signature
	names  []string // of the devices, by part
	exes   []runtime.Executable
	home   map[string]home        // the location of each state, by name
	own    *states                // the program's own states
	lock   func() (unlock func()) // waits for runs in flight before states are accessed
	closed atomic.Bool
}

// home is the location of a state: the indices of the parts that have it. If cut is set, each of them has an equal
// slice of it along axis; otherwise each has the whole state.
type home struct {
	parts []int
	cut   bool
	axis  int
}

// newProgram makes the program of a graph from its parts. cut maps the names of a part's cut states to the axes along
// which they are cut.
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

// Failed adds the number of a part and the name of its device to an error.
func Failed(names []string, part int, err error) error {
	return fmt.Errorf("part %d of %d, on %s: %w", part+1, len(names), names[part], runtime.Reason(err))
}

// failed is [Failed] for a part of this program.
func (x *program) failed(part int, err error) error { return Failed(x.names, part, err) }

// check validates a run. It returns the values of the run's symbols and its states by part. A part's states are nil if
// the run uses the program's own.
func (x *program) check(in map[string]*ir.Data, opt runtime.RunOptions) (symbols map[string]int64,
	own []runtime.States, err error) {
	if opt.Profile && len(x.exes) > 1 {
		return nil, nil, errors.New("a program on several devices has no profile: leave RunOptions.Profile out")
	}
	if err = x.own.checkOpen(); err == nil {
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
	return symbols, s.parts, s.checkOpen()
}

// devices joins the names of the parts' devices with a separator.
func (x *program) devices(separator string) string {
	var names []string
	for _, e := range x.exes {
		names = append(names, e.Device())
	}
	return strings.Join(names, separator)
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
	if err := x.own.checkOpen(); err != nil {
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

// states is one set of values for all states of a program. parts has the states of each part; an element is nil if the
// part has no states.
type states struct {
	of     *program
	parts  []runtime.States
	closed atomic.Bool
}

// checkOpen returns an error if the states or their program are closed.
func (s *states) checkOpen() error {
	if s.of.closed.Load() {
		return runtime.ErrProgramClosed
	}
	if s.closed.Load() {
		return runtime.ErrStatesClosed
	}
	return nil
}

// Read implements runtime.States. It concatenates the slices of a cut state.
func (s *states) Read(name string) (_ *ir.Data, err error) {
	defer func() { err = s.of.Explain("read state of", err) }()
	defer bailout.Caught(&err)
	bailout.Check(s.checkOpen())
	bailout.Must(s.of.State(name))
	defer s.of.lock()() // locks now, and unlocks at the end
	h := s.of.home[name]
	if !h.cut {
		return s.parts[h.parts[0]].Read(name)
	}
	var list []*ir.Data
	for _, part := range h.parts {
		list = append(list, bailout.Must(s.parts[part].Read(name)))
	}
	return joinData(list, h.axis)
}

// Write implements runtime.States. It writes to each part that has the state: a slice of d if the state is cut.
func (s *states) Write(name string, d *ir.Data) (err error) {
	defer func() { err = s.of.Explain("write state of", err) }()
	defer bailout.Caught(&err)
	bailout.Check(s.checkOpen())
	bailout.Must(s.of.CheckState(name, d))
	defer s.of.lock()()
	h := s.of.home[name]
	for i, part := range h.parts {
		own := d
		if h.cut {
			own = bailout.Must(cutData(d, h.axis, len(h.parts), i))
		}
		bailout.Check(s.parts[part].Write(name, own))
	}
	return nil
}

// each calls do for the states of every part that has some.
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
	err := s.checkOpen()
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
