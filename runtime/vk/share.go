package vk

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
)

// sharedBuffer is a buffer with a weight, a prepared weight or a state, which several programs may use. The last
// program to close frees it.
type sharedBuffer struct {
	*Buffer
	id     uint64 // unique in this process
	users  atomic.Int32
	forget func() // removes the weight from the device's store; nil if it is not in the store
}

// sharedIDs is the ID of the last sharedBuffer.
var sharedIDs atomic.Uint64

// newShared makes a sharedBuffer with one user, the program that made b.
func newShared(b *Buffer) *sharedBuffer {
	s := &sharedBuffer{Buffer: b, id: sharedIDs.Add(1)}
	s.users.Store(1)
	return s
}

// Close removes a user. The last one closes the buffer.
func (s *sharedBuffer) Close() error {
	if s.users.Add(-1) > 0 {
		return nil
	}
	if s.forget != nil {
		s.forget()
	}
	return s.Buffer.Close()
}

// join adds a user. It returns false if the last user has closed the buffer.
func (s *sharedBuffer) join() bool {
	for {
		n := s.users.Load()
		if n == 0 {
			return false
		}
		if s.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// assign makes s the memory of b. The program is a user of s already; closing the program removes it.
func (m *programMemory) assign(b *buffer, s *sharedBuffer) {
	b.shared, b.at.Buffer = s, s.Buffer
	m.keep(s)
}

// borrow makes s, which another program made, the memory of b, and marks b as borrowed: Load then does not fill it.
func (m *programMemory) borrow(b *buffer, s *sharedBuffer) {
	m.assign(b, s)
	b.borrowed = true
}

// borrowFrom makes the program use the weights that another program has with the same names and layouts, and the states
// that it has with the same names. It takes the other program's lock, which the caller must release.
func (e *Executable) borrowFrom(ctx context.Context, from *Executable) error {
	if e.device != from.device {
		return errors.New("the program to share with is on another device")
	}
	if err := from.lock(ctx); err != nil {
		return fmt.Errorf("share with another program: %w", err)
	}
	for _, b := range e.buffersOf(kernel.BufWeight) {
		if have := from.weightLike(b.Buffer); have != nil {
			have.shared.join() // succeeds: `from` is a user of it, and is open while it is locked
			e.borrow(b, have.shared)
		}
	}
	for _, port := range e.program.States {
		if err := e.borrowState(port, from); err != nil {
			from.unlock()
			return err
		}
	}
	return nil
}

// weightLike returns the program's buffer with the same weights in the same layout as b, or nil.
func (m *programMemory) weightLike(b *kernel.Buffer) *buffer {
	for _, have := range m.buffersOf(kernel.BufWeight) {
		if have.DType == b.DType && have.Layout == b.Layout && have.Bytes == b.Bytes &&
			reflect.DeepEqual(have.Segments, b.Segments) {
			return have
		}
	}
	return nil
}

// borrowState makes program e use a state of program `from`, if that has a state of this name. `from` is locked.
func (e *Executable) borrowState(port kernel.Port, from *Executable) error {
	i, err := from.State(port.Name)
	if err != nil {
		return nil // the state is this program's own
	}
	have := &from.program.States[i]
	if have.DType != port.DType || !have.Shape.Equal(port.Shape) {
		return fmt.Errorf("state %q is %s here and %s in the program that shares it: want equal types", port.Name,
			ir.Type{DType: port.DType, Shape: port.Shape}, ir.Type{DType: have.DType, Shape: have.Shape})
	}
	if e.guarded != from.guarded {
		return fmt.Errorf("state %q is to be shared by a program with guards and one without", port.Name)
	}
	shared := from.buffers[have.Buffer].shared
	shared.join() // succeeds, see borrowFrom
	e.borrow(&e.buffers[port.Buffer], shared)
	e.token = from.token // serialize the programs' runs, since each reads the other's writes
	return nil
}

// keepStates calls do, which runs a dispatch of a step on zeros. It then restores the borrowed states that the step
// writes, from copies. It copies no other states: all of them may take up most of the device's memory.
func (rec *recorder) keepStates(ctx context.Context, step kernel.Step, do func()) {
	var save, restore []bufferCopy
	for _, i := range rec.program.WrittenStates(step) {
		b := &rec.buffers[i]
		if !b.borrowed {
			continue
		}
		state, size := b.at.Buffer, b.at.Buffer.Size()
		saved := bailout.Must(rec.device.NewBuffer("copy of "+b.Name, size, DeviceMemory))
		defer saved.Close()
		save = append(save, bufferCopy{dst: saved, src: state, size: size})
		restore = append(restore, bufferCopy{dst: state, src: saved, size: size})
	}
	if len(save) == 0 {
		do()
		return
	}
	run := func(list []bufferCopy) {
		bailout.Check(rec.device.runOnce(ctx, "copies of states", func(c *CommandList) { c.copyAll(list) }))
	}
	run(save)
	defer run(restore)
	do()
}
