package vk

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
)

const (
	// guardSize is the number of guard bytes on each side of a tensor. It is a multiple of every device's alignment,
	// and larger than a row of a matmul's tile.
	guardSize = 16 << 10
	// guardPattern is a value that kernels are unlikely to compute: a float of 5.8e18.
	guardPattern = 0x5ea1ed5e
)

// OverrunError is the error of a run in which a kernel wrote outside of an output or state. Only programs loaded with
// [LoadOptions].Guards check for that.
type OverrunError struct {
	Name  string // of the output or state
	State bool
	// Offset is the position of the first such byte relative to the tensor's first byte. It is negative before the
	// tensor.
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

// guards reports whether buffer b has guards around it.
func (m *programMemory) guards(b *buffer) bool {
	return m.guarded && (b.Kind == kernel.BufOutput || b.Kind == kernel.BufState)
}

// recordGuards makes the recording that fills all outputs and their guards with the pattern before a run, if the
// program has guards. It also fills the guards of states, which
// is done only once because the states' contents must stay.
func (rec *recorder) recordGuards() {
	if !rec.guarded {
		return
	}
	bailout.Check(rec.device.runOnce(context.Background(), "guards of states", func(c *CommandList) {
		for _, b := range rec.buffersOf(kernel.BufState) {
			if b.borrowed {
				continue // the program that made the state has filled its guards
			}
			c.FillBuffer(b.at.Buffer, 0, guardSize, guardPattern)
			c.FillBuffer(b.at.Buffer, guardSize+b.Bytes, guardSize, guardPattern)
		}
	}))
	c := rec.device.NewCommandList()
	for _, b := range rec.buffersOf(kernel.BufOutput) {
		c.FillBuffer(b.at.Buffer, 0, b.at.Buffer.Size(), guardPattern)
	}
	rec.guard = bailout.Must(rec.device.Record("guards of outputs", c))
	rec.keep(rec.guard)
}

// checkGuards ends the run with an error if the pattern around an output or state has changed.
func (m *programMemory) checkGuards(ctx context.Context, symbols map[string]int64) {
	if !m.guarded {
		return
	}
	for _, list := range [][]kernel.Port{m.program.Outputs, m.program.States} {
		for _, port := range list {
			b := &m.buffers[port.Buffer]
			if !m.guards(b) {
				continue // an output that is in the buffer of an input or weight
			}
			size := b.Bytes
			// The pattern fills the whole buffer of an output, so the check begins right after the last element.
			if b.Kind == kernel.BufOutput {
				size = bailout.Must(ir.ByteSize(port.DType, bailout.Must(port.Shape.Eval(symbols))))
			}
			m.checkGuard(ctx, port, size)
		}
	}
}

// checkGuard checks the guards of a port's tensor: before it, and after its first size bytes.
func (m *programMemory) checkGuard(ctx context.Context, port kernel.Port, size int64) {
	b := &m.buffers[port.Buffer]
	buf := b.at.Buffer
	for _, at := range []struct{ offset, size int64 }{{0, guardSize},
		{guardSize + size, buf.Size() - guardSize - size}} {
		have := make([]byte, at.size)
		bailout.Check(m.device.Download(ctx, have, buf, at.offset))
		var pattern [4]byte
		binary.NativeEndian.PutUint32(pattern[:], guardPattern)
		for i, x := range have {
			// The pattern fills the buffer from its first byte, so the offset in the buffer tells the pattern's byte.
			if offset := at.offset + int64(i); x != pattern[offset%4] {
				bailout.Check(&OverrunError{Name: port.Name, State: b.Kind == kernel.BufState,
					Offset: offset - guardSize, Size: size})
			}
		}
	}
}

// takeFaults returns an error for the faults that kernels have reported since the last call, or nil. A fault is an
// element for which an op has no result, such as an index out of range. Kernels report it in a word of memory that the
// host can read without a copy. The device must have finished the runs.
func (m *programMemory) takeFaults() error {
	var errs []error
	for _, f := range m.program.Faults {
		at := m.buffers[f.Buffer].at
		word := at.Buffer.Bytes()[at.Offset:]
		if err := f.Check(binary.NativeEndian.Uint32(word)); err != nil {
			errs = append(errs, err)
			binary.NativeEndian.PutUint32(word, 0)
		}
	}
	return errors.Join(errs...)
}

// checkTimeouts returns an error if workgroups of a persistent kernel have timed out at a barrier since the program was
// loaded. All results after that are unreliable.
func (rec *recorder) checkTimeouts() error {
	for _, word := range rec.timeouts {
		if binary.NativeEndian.Uint32(word) != 0 {
			return &kernel.LateError{Program: rec.program.Name}
		}
	}
	return nil
}
