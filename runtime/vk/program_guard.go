package vk

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
)

const (
	// guardSize is the number of guard bytes on each side of a tensor: a multiple of every device's alignment, and more
	// than a row of a tile.
	guardSize = 16 << 10
	// guardPattern is a value that kernels are unlikely to compute: a float of 5.8e18.
	guardPattern = 0x5ea1ed5e
)

// OverrunError says that a kernel wrote outside of an output or state. Only programs loaded with [LoadOptions].Guards
// check for that.
type OverrunError struct {
	Name  string // of the output or state
	State bool
	// Offset of the first byte written, relative to the tensor's first byte; negative before the tensor.
	Offset int64
	Size   int64 // bytes of the tensor
}

// Error names the tensor and the offset.
func (e *OverrunError) Error() string {
	kind := "output"
	if e.State {
		kind = "state"
	}
	return fmt.Sprintf("a kernel wrote outside of %s %q, which has %d bytes: at byte %d, which is a bug in vkc", kind,
		e.Name, e.Size, e.Offset)
}

// guards is the extra state of a program with guards.
type guards struct {
	fill *Recording // writes the pattern into and around outputs; nil if there are none
}

// around returns the numbers of guard bytes before and after a buffer.
func (g *guards) around(b *kernel.Buffer) (before, after int64) {
	if g == nil || b.Kind != kernel.BufOutput && b.Kind != kernel.BufState {
		return 0, 0
	}
	return guardSize, guardSize
}

// recordGuards records the filling of outputs, which comes before each run. It fills the guards of states once, since
// their contents must stay.
func (e *Executable) recordGuards() error {
	if e.guards == nil {
		return nil
	}
	outputs, states := e.device.NewCommandList(), e.device.NewCommandList()
	var some, state bool
	for i := range e.program.Buffers {
		b, buf := &e.program.Buffers[i], e.ranges[i].Buffer
		switch b.Kind {
		case kernel.BufOutput:
			some = true
			outputs.FillBuffer(buf, 0, buf.Size(), guardPattern)
		case kernel.BufState:
			if e.borrowed[i] {
				continue // the program that owns them guards them
			}
			state = true
			states.FillBuffer(buf, 0, guardSize, guardPattern)
			states.FillBuffer(buf, guardSize+b.Bytes, guardSize, guardPattern)
		}
	}
	if state {
		once, err := e.device.Record("guards of states", states)
		if err != nil {
			return err
		}
		defer once.Close()
		if err := e.device.Run(context.Background(), once); err != nil {
			return err
		}
	}
	if !some {
		return nil
	}
	r, err := e.device.Record("guards of outputs", outputs)
	if err != nil {
		return err
	}
	e.keep(r)
	e.guards.fill = r
	return nil
}

// fillGuards writes the pattern over all outputs, so that elements a kernel fails to write are seen as well.
func (e *Executable) fillGuards(ctx context.Context) error {
	if e.guards == nil || e.guards.fill == nil {
		return nil
	}
	return e.device.Run(ctx, e.guards.fill)
}

// checkGuards fails if the pattern around a tensor has changed.
func (e *Executable) checkGuards(ctx context.Context, symbols map[string]int64) error {
	if e.guards == nil {
		return nil
	}
	for _, list := range [][]kernel.Port{e.program.Outputs, e.program.States} {
		for _, port := range list {
			b := &e.program.Buffers[port.Buffer]
			if before, _ := e.guards.around(b); before == 0 {
				continue // an output that is an input or a weight itself
			}
			size := b.Bytes
			// The pattern fills the whole buffer, so the check begins after the last element.
			if b.Kind == kernel.BufOutput {
				dims, err := port.Shape.Eval(symbols)
				if err != nil {
					return err
				}
				if size, err = port.DType.BytesFor(elements(dims)); err != nil {
					return err
				}
			}
			if err := e.checkGuard(ctx, port, size); err != nil {
				return err
			}
		}
	}
	return nil
}

func elements(dims []int) int64 {
	n := int64(1)
	for _, d := range dims {
		n *= int64(d)
	}
	return n
}

// checkGuard checks the guards before a tensor and after its first size bytes.
func (e *Executable) checkGuard(ctx context.Context, port kernel.Port, size int64) error {
	buf := e.ranges[port.Buffer].Buffer
	for _, at := range []struct{ offset, size int64 }{{0, guardSize},
		{guardSize + size, buf.Size() - guardSize - size}} {
		have := make([]byte, at.size)
		if err := e.device.Download(ctx, have, buf, at.offset); err != nil {
			return err
		}
		var pattern [4]byte
		binary.NativeEndian.PutUint32(pattern[:], guardPattern)
		for i, x := range have {
			if offset := at.offset + int64(i); x != pattern[offset%4] {
				return &OverrunError{Name: port.Name, State: e.program.Buffers[port.Buffer].Kind == kernel.BufState,
					Offset: offset - guardSize, Size: size}
			}
		}
	}
	return nil
}
