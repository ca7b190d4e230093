package cpu

import (
	"sync"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/runtime"
)

// states implements runtime.States: an additional set of states for a program. It has a copy of the interpreter's
// program with states of its own; the weights are shared.
type states struct {
	exe *executable

	mu      sync.Mutex
	program *interp.Program // nil after Close
}

// NewStates implements runtime.Executable.
func (e *executable) NewStates() (runtime.States, error) {
	s, err := e.newStates()
	if err != nil {
		return nil, e.Explain("make states of", err)
	}
	return s, nil
}

// newStates returns new states of the program, for NewStates, which adds the program's name to errors.
func (e *executable) newStates() (*states, error) {
	p, err := e.open()
	if err != nil {
		return nil, err
	}
	if len(e.States()) == 0 {
		return nil, runtime.ErrNoStates
	}
	own, err := p.WithStates()
	return &states{exe: e, program: own}, err
}

// open returns the program with these states, or an error after Close.
func (s *states) open() (*interp.Program, error) {
	if _, err := s.exe.open(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.program == nil {
		return nil, runtime.ErrStatesClosed
	}
	return s.program, nil
}

// Read implements runtime.States.
func (s *states) Read(name string) (*ir.Data, error) { return s.exe.readState(name, s.open) }

// Write implements runtime.States.
func (s *states) Write(name string, d *ir.Data) error { return s.exe.writeState(name, d, s.open) }

// Reset implements runtime.States.
func (s *states) Reset() error { return s.exe.resetStates(s.open) }

// Close implements runtime.States.
func (s *states) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.program = nil
	return nil
}

// programOf returns the program with the set of states that a run uses: opt.States, or the program's own.
func (e *executable) programOf(opt runtime.RunOptions) (*interp.Program, error) {
	p, err := e.open()
	if err != nil || opt.States == nil {
		return p, err
	}
	s, ok := opt.States.(*states)
	if !ok || s.exe != e {
		return nil, runtime.ErrStates
	}
	return s.open()
}
