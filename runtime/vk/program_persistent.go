package vk

import (
	"context"
	"encoding/binary"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// tryPersistent runs each persistent kernel once on zeros. Where workgroups of one wait in vain for others, the device
// has no room for all at a time, and the program does without: runs then have the steps that those kernels do.
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
			c.Barrier(StageCompute, StageCompute) // as waitsForRoom says
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

// waitsForRoom reports whether dispatch i, which is the n-th of a run, is a persistent kernel that no barrier of the
// program stands before. Its workgroups must not wait for room that those of another program's persistent kernel take,
// which may wait for room, too: so it begins when all that the queue was given before has ended.
func (e *Executable) waitsForRoom(n, i int) bool { return n == 0 && i >= len(e.program.Steps) }

// late returns an error if workgroups of a persistent kernel have waited in vain since the program was loaded: nothing
// that it made since is to be relied on.
func (e *Executable) late() error {
	for _, word := range e.lateWords {
		if binary.NativeEndian.Uint32(word) != 0 {
			return &kernel.LateError{Program: e.program.Name}
		}
	}
	return nil
}
