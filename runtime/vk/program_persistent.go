package vk

import (
	"context"
	"encoding/binary"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// tryPersistent runs each persistent kernel once on zeros. If its workgroups time out waiting for one another, they
// cannot all be resident on this device. The program then does without persistent kernels and runs their steps instead.
func (e *Executable) tryPersistent(ctx context.Context) error {
	for i, b := range e.program.Buffers {
		if b.Kind == kernel.BufLate {
			e.lateWords = append(e.lateWords, e.ranges[i].Buffer.Bytes()[e.ranges[i].Offset:][:4])
		}
	}
	tried := map[int]bool{} // shaders
	for i, k := range e.program.Persistent {
		if tried[k.Dispatch.Shader] {
			continue
		}
		tried[k.Dispatch.Shader] = true
		if err := e.runOnce(ctx, "trial of "+k.Dispatch.Name, func(c *CommandList) {
			for i, b := range e.program.Buffers {
				if r := e.ranges[i]; b.Kind == kernel.BufMeeting {
					c.FillBuffer(r.Buffer, r.Offset, b.Bytes, 0)
				}
			}
			e.zero(c)
			c.Barrier(StageCompute, StageCompute) // see waitsForRoom
			e.recordStep(c, e.bindings, len(e.program.Steps)+i)
			c.Barrier(StageCompute, stageEverything)
		}); err != nil {
			return err
		}
	}
	if e.late() == nil {
		e.stats.Persistent = len(e.program.Persistent)
		return nil
	}
	e.stats.NoRoom = len(e.program.Persistent)
	for _, word := range e.lateWords {
		clear(word)
	}
	return nil
}

// waitsForRoom reports whether dispatch i, the n-th of a run, is a persistent kernel without a barrier before it. It
// needs one: another program's persistent kernel may still occupy the device, and two such kernels could wait for one
// another forever. The barrier makes it begin after all earlier work in the queue.
func (e *Executable) waitsForRoom(n, i int) bool { return n == 0 && i >= len(e.program.Steps) }

// late returns an error if a persistent kernel has timed out since the program was loaded. All results since then are
// unreliable.
func (e *Executable) late() error {
	for _, word := range e.lateWords {
		if binary.NativeEndian.Uint32(word) != 0 {
			return &kernel.LateError{Program: e.program.Name}
		}
	}
	return nil
}
