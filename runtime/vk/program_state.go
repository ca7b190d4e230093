package vk

import (
	"context"

	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
)

// ReadState implements runtime.Executable. It waits for runs in progress.
func (e *Executable) ReadState(name string) (*ir.Data, error) {
	if err := e.take(context.Background()); err != nil {
		return nil, e.wrap("read state of", err)
	}
	defer e.give()
	d, err := e.readState(e.ranges, name)
	if err != nil {
		return nil, e.wrap("read state of", err)
	}
	return d, nil
}

// readState reads a state from its buffer in ranges.
func (e *Executable) readState(ranges []BufferRange, name string) (*ir.Data, error) {
	i, err := e.State(name)
	if err != nil {
		return nil, err
	}
	port := &e.program.States[i]
	dims, err := port.Shape.Eval(nil) // states are static
	if err != nil {
		return nil, err
	}
	d, err := ir.NewData(port.DType, dims...)
	if err != nil {
		return nil, err
	}
	at := ranges[port.Buffer]
	return d, e.device.Download(context.Background(), d.Bytes, at.Buffer, at.Offset)
}

// WriteState implements runtime.Executable. It takes effect after runs in progress.
func (e *Executable) WriteState(name string, d *ir.Data) error {
	if err := e.take(context.Background()); err != nil {
		return e.wrap("write state of", err)
	}
	defer e.give()
	if err := e.writeState(e.ranges, name, d); err != nil {
		return e.wrap("write state of", err)
	}
	return nil
}

func (e *Executable) writeState(ranges []BufferRange, name string, d *ir.Data) error {
	i, err := e.CheckState(name, d)
	if err != nil {
		return err
	}
	at := ranges[e.program.States[i].Buffer]
	return e.device.Upload(context.Background(), at.Buffer, at.Offset, d.Bytes)
}

// ResetStates implements runtime.Executable. It takes effect after runs in progress.
func (e *Executable) ResetStates() error {
	if err := e.take(context.Background()); err != nil {
		return e.wrap("reset states of", err)
	}
	defer e.give()
	if err := e.resetStates(context.Background(), e.reset, e.ranges, func(int) bool { return true }); err != nil {
		return e.wrap("reset states of", err)
	}
	return nil
}

// resetStates zeroes all states by the given recording. Then it uploads initial values for the states that have some
// and that which selects.
func (e *Executable) resetStates(ctx context.Context, reset *Recording, ranges []BufferRange,
	which func(state int) bool) error {
	if reset == nil {
		return nil
	}
	if _, err := e.device.Submit(reset); err != nil {
		return err
	}
	for i, port := range e.program.States {
		if port.Init == "" || !which(i) {
			continue
		}
		d, err := port.First(e.weights)
		if err != nil {
			return err
		}
		at := ranges[port.Buffer]
		if err := e.device.UploadFunc(ctx, at.Buffer, at.Offset, int64(len(d.Bytes)), func(p []byte, from int64) error {
			// A weight may belong to a mapped file.
			return mmap.Guard(func() error { copy(p, d.Bytes[from:]); return nil })
		}); err != nil {
			return err
		}
	}
	return nil
}
