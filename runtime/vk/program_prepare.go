package vk

import (
	"context"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// runSteps are the steps of every run: all but the prepared ones.
func (e *Executable) runSteps() []kernel.Step { return e.program.Steps[e.program.Prepared:] }

// prepare runs the steps that need nothing but weights. What they make stays in buffers of its own.
func (e *Executable) prepare(ctx context.Context) error {
	if e.program.Prepared == 0 {
		return nil
	}
	err := e.runOnce(ctx, "preparation of "+e.program.Name, func(c *CommandList) {
		for i, s := range e.program.Steps[:e.program.Prepared] {
			if i > 0 && s.Barrier {
				c.Barrier(StageCompute, StageCompute)
			}
			e.recordStep(c, e.bindings, i)
		}
		c.Barrier(StageCompute, StageCompute) // before the first run, and copies of what was made
		c.Barrier(StageCompute, StageTransfer)
	})
	if err != nil {
		return err
	}
	return e.takeFaults()
}
