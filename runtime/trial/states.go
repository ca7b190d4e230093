package trial

import (
	"context"
	"io"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// UploadFrom implements runtime.Executable.
func (e *Executable) UploadFrom(ctx context.Context, t ir.DType, dims []int,
	from io.ReaderAt) (*runtime.DeviceTensor, error) {
	return e.first.UploadFrom(ctx, t, dims, from)
}

// ReadState implements runtime.Executable.
func (e *Executable) ReadState(name string) (*ir.Data, error) {
	now, release := e.hold()
	defer release()
	return now.ReadState(name)
}

// WriteState implements runtime.Executable.
func (e *Executable) WriteState(name string, d *ir.Data) error {
	now, release := e.hold()
	defer release()
	return now.WriteState(name, d)
}

// ResetStates implements runtime.Executable.
func (e *Executable) ResetStates() error {
	now, release := e.hold()
	defer release()
	return now.ResetStates()
}

// states implements runtime.States: a set of states that moves to the device with the program.
type states struct {
	of *Executable
	at runtime.States // on the device where the program runs; of.moving guards it
}

// NewStates implements runtime.Executable.
func (e *Executable) NewStates() (runtime.States, error) {
	now, release := e.hold()
	defer release()
	at, err := now.NewStates()
	if err != nil {
		return nil, err
	}
	s := &states{e, at}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sets[s] = true
	return s, nil
}

// unwrap returns the states for a run on the device where the program runs. The caller holds the program there.
func (e *Executable) unwrap(set runtime.States) (runtime.States, error) {
	if set == nil {
		return nil, nil
	}
	s, ok := set.(*states)
	if !ok || s.of != e {
		return nil, runtime.ErrStates
	}
	return s.at, nil
}

// Read implements runtime.States.
func (s *states) Read(name string) (*ir.Data, error) {
	_, release := s.of.hold()
	defer release()
	return s.at.Read(name)
}

// Write implements runtime.States.
func (s *states) Write(name string, d *ir.Data) error {
	_, release := s.of.hold()
	defer release()
	return s.at.Write(name, d)
}

// Reset implements runtime.States.
func (s *states) Reset() error {
	_, release := s.of.hold()
	defer release()
	return s.at.Reset()
}

// Close implements runtime.States.
func (s *states) Close() error {
	_, release := s.of.hold()
	defer release()
	s.of.mu.Lock()
	delete(s.of.sets, s)
	s.of.mu.Unlock()
	return s.at.Close()
}
