package vk

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// sharedBuffer holds a weight, a prepared weight or a state. Several programs may use it, and the last one to close
// frees it.
type sharedBuffer struct {
	*Buffer
	id     uint64 // unique in this process
	users  atomic.Int32
	forget func() // removes a weight from the device's store; nil for states
}

var sharedIDs atomic.Uint64

func newShared(b *Buffer) *sharedBuffer { return &sharedBuffer{Buffer: b, id: sharedIDs.Add(1)} }

// Close implements closer.
func (s *sharedBuffer) Close() error {
	if s.users.Add(-1) > 0 {
		return nil
	}
	if s.forget != nil {
		s.forget()
	}
	return s.Buffer.Close()
}

// join adds a user. It reports false if the last user has closed the buffer.
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

// use adds this program as a user of s, and holds s.
func (e *Executable) use(i int, s *sharedBuffer) {
	s.users.Add(1)
	e.hold(i, s)
}

// hold makes s buffer i of the program. The caller has counted the program as a user; release drops that.
func (e *Executable) hold(i int, s *sharedBuffer) {
	e.lent[i] = s
	e.keep(s)
}

// lendTo shares this program's weights and states with a program that is being loaded. It takes this program's lock;
// the caller releases it.
func (e *Executable) lendTo(ctx context.Context, other *Executable) error {
	if e.device != other.device {
		return errors.New("the program to share with is on another device")
	}
	if err := e.take(ctx); err != nil {
		return fmt.Errorf("share with another program: %w", err)
	}
	if err := other.borrow(e); err != nil {
		e.give()
		return err
	}
	return nil
}

// borrow shares another program's weights of equal names and layout, and its states of equal names and types. The
// caller holds that program's lock.
func (e *Executable) borrow(from *Executable) error {
	for i := range e.program.Buffers {
		switch b := &e.program.Buffers[i]; b.Kind {
		case kernel.BufWeight:
			if j := from.weightLike(b); j >= 0 {
				e.use(i, from.lent[j])
				e.borrowed[i] = true
			}
		case kernel.BufState:
			if err := e.borrowState(i, from); err != nil {
				return err
			}
		}
	}
	return nil
}

// weightLike returns the index of the buffer with the same weights, or -1.
func (e *Executable) weightLike(b *kernel.Buffer) int {
	for j := range e.program.Buffers {
		have := &e.program.Buffers[j]
		if have.Kind == kernel.BufWeight && have.DType == b.DType && have.Layout == b.Layout && have.Bytes == b.Bytes &&
			reflect.DeepEqual(have.Segments, b.Segments) {
			return j
		}
	}
	return -1
}

func (e *Executable) borrowState(i int, from *Executable) error {
	for _, port := range e.program.States {
		if port.Buffer != i {
			continue
		}
		j, err := from.State(port.Name)
		if err != nil {
			return nil // the state is this program's own
		}
		have := &from.program.States[j]
		if have.DType != port.DType || !have.Shape.Equal(port.Shape) {
			return fmt.Errorf("state %q is %s here and %s in the program that it is to be shared with", port.Name,
				ir.Type{DType: port.DType, Shape: port.Shape}, ir.Type{DType: have.DType, Shape: have.Shape})
		}
		if (e.guards == nil) != (from.guards == nil) {
			return fmt.Errorf("state %q is to be shared by a program with guards and one without", port.Name)
		}
		e.use(i, from.lent[have.Buffer])
		e.borrowed[i] = true
		e.turn = from.turn // serialize the programs' runs, since each reads the other's writes
	}
	return nil
}

// missing is the program without its borrowed buffers and states.
func (e *Executable) missing() *kernel.Program {
	p := *e.program
	p.Buffers, p.States = nil, nil
	for i, b := range e.program.Buffers {
		if !e.borrowed[i] {
			p.Buffers = append(p.Buffers, b)
		}
	}
	for _, port := range e.program.States {
		if !e.borrowed[port.Buffer] {
			p.States = append(p.States, port)
		}
	}
	return &p
}

// keepStates calls do, which overwrites states, and then restores the borrowed states.
func (e *Executable) keepStates(ctx context.Context, do func() error) error {
	copies := map[int]*Buffer{}
	for i, b := range e.program.Buffers {
		if b.Kind != kernel.BufState || !e.borrowed[i] {
			continue
		}
		c, err := e.device.NewBuffer("copy of "+b.Name, e.ranges[i].Buffer.Size(), DeviceMemory)
		if err != nil {
			return err
		}
		defer c.Close()
		copies[i] = c
	}
	if len(copies) == 0 {
		return do()
	}
	move := func(back bool) error {
		return e.runOnce(ctx, "copies of states", func(c *CommandList) {
			for i, saved := range copies {
				from, to := e.ranges[i].Buffer, saved
				if back {
					from, to = to, from
				}
				c.CopyBuffer(to, 0, from, 0, saved.Size())
			}
		})
	}
	if err := move(false); err != nil {
		return err
	}
	err := do()
	if back := move(true); err == nil {
		err = back
	}
	return err
}
