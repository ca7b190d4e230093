package cpu

import (
	"fmt"
	"sync"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/runtime"
)

// states is an additional set of states for a program: the same program with separate states.
type states struct {
	exe *executable

	mu      sync.Mutex
	program *interp.Program // nil after Close
}

// NewStates implements runtime.Executable.
func (e *executable) NewStates() (runtime.States, error) {
	p, err := e.open()
	if err != nil {
		return nil, err
	}
	if len(e.States()) == 0 {
		return nil, fmt.Errorf("cpu: %w", runtime.ErrNoStates)
	}
	own, err := p.WithStates()
	if err != nil {
		return nil, fmt.Errorf("cpu: %w", err)
	}
	return &states{exe: e, program: own}, nil
}

func (s *states) open() (*interp.Program, error) {
	if _, err := s.exe.open(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.program == nil {
		return nil, fmt.Errorf("cpu: the states are %w", runtime.ErrClosed)
	}
	return s.program, nil
}

// Read implements runtime.States.
func (s *states) Read(name string) (*ir.Data, error) {
	p, err := s.open()
	if err != nil {
		return nil, err
	}
	return p.State(name)
}

// Write implements runtime.States.
func (s *states) Write(name string, d *ir.Data) error {
	p, err := s.open()
	if err != nil {
		return err
	}
	return p.SetState(name, d)
}

// Reset implements runtime.States.
func (s *states) Reset() error {
	p, err := s.open()
	if err != nil {
		return err
	}
	return p.ResetStates()
}

// Close implements runtime.States.
func (s *states) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.program = nil
	return nil
}

// programOf returns the program with the states that a run uses.
func (e *executable) programOf(opt runtime.RunOptions) (*interp.Program, error) {
	p, err := e.open()
	if err != nil || opt.States == nil {
		return p, err
	}
	s, ok := opt.States.(*states)
	if !ok || s.exe != e {
		return nil, fmt.Errorf("cpu: run: %w", runtime.ErrStates)
	}
	return s.open()
}
