package vk

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
)

const (
	// guardSize is how many bytes stand on each side of a guarded tensor: a multiple of any alignment that
	// devices ask for, and more than a row of a tile.
	guardSize = 16 << 10
	// guardPattern is a number that no kernel comes by: a float of 5.8e18.
	guardPattern = 0x5ea1ed5e
)

// OverrunError says that kernels wrote outside of an output or state. Only programs loaded with
// [LoadOptions].Guards look for that.
type OverrunError struct {
	Name  string // of the output or state
	State bool
	// Offset of the first byte that was written, from the tensor's first; negative before it.
	Offset int64
	Size   int64 // bytes of the tensor
}

// Error names the tensor and the place.
func (e *OverrunError) Error() string {
	kind := "output"
	if e.State {
		kind = "state"
	}
	return fmt.Sprintf("a kernel wrote outside of %s %q, which has %d bytes: at byte %d, which is a bug in vkc", kind,
		e.Name, e.Size, e.Offset)
}

// guards is what a program loaded with guards has besides.
type guards struct {
	fill *Recording // writes the pattern into outputs and around them; nil if there are none
}

// around returns how many bytes are to stand before and after a buffer.
func (g *guards) around(b *kernel.Buffer) (before, after int64) {
	if g == nil || b.Kind != kernel.BufOutput && b.Kind != kernel.BufState {
		return 0, 0
	}
	return guardSize, guardSize
}

// recordGuards records what is done before each run, and guards states once, whose contents must stay.
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
				continue // they are guarded
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

// fillGuards writes the pattern over all outputs, so that what a kernel leaves out is seen as well.
func (e *Executable) fillGuards(ctx context.Context) error {
	if e.guards == nil || e.guards.fill == nil {
		return nil
	}
	return e.device.Run(ctx, e.guards.fill)
}

// checkGuards fails if the pattern around a tensor is not what it was.
func (e *Executable) checkGuards(ctx context.Context, symbols map[string]int64) error {
	if e.guards == nil {
		return nil
	}
	for _, list := range [][]kernel.Port{e.program.Outputs, e.program.States} {
		for _, port := range list {
			b := &e.program.Buffers[port.Buffer]
			if before, _ := e.guards.around(b); before == 0 {
				continue // an input or weight that is handed on
			}
			size := b.Bytes
			if b.Kind == kernel.BufOutput { // filled as a whole, so watched from the last element on
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

// checkGuard looks at what stands before a tensor and after its first size bytes.
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
