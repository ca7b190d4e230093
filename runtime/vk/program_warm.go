package vk

import (
	"context"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/mailbox"
	"github.com/vkc-go/vkc/runtime"
)

// warm starts one workgroup of every kernel, since drivers may compile a kernel when it is first started: no
// run pays for that. Inputs and temporaries are zeros. What the kernels write is overwritten: temporaries and outputs
// by every run, states by the reset that follows.
func (e *Executable) warm(ctx context.Context, report func(runtime.Stage, int64, int64)) error {
	first := e.firstSteps()
	if len(first) == 0 {
		return nil
	}
	symbols := warmSymbols(e.program)
	for _, b := range e.params {
		e.putSymbols(b.Bytes(), symbols)
	}
	if err := e.tryPersistent(ctx); err != nil {
		return err
	}
	for i, step := range first {
		if err := e.runOnce(ctx, "warm-up of "+e.program.Steps[step].Name, func(c *CommandList) {
			if i == 0 || mailbox.Follows(e.program.Steps[step].Ops) { // what others wrote is no address
				e.zero(c)
			}
			c.Barrier(StageCompute, StageCompute)
			c.BindPipeline(e.pipelines[e.program.Steps[step].Shader])
			c.Bind(e.bindings, step)
			c.Dispatch(1, 1, 1)
			c.Barrier(StageCompute, stageEverything)
		}); err != nil {
			return err
		}
		report(runtime.StageWarm, int64(i+1), int64(len(first)))
	}
	return nil
}

// warmSymbols are 1, sums of symbols too, so that rows are short; or at their bounds where an extent, such as T-2,
// would be negative, which kernels take for a very large one.
func warmSymbols(p *kernel.Program) map[string]int64 {
	ones, bounds := map[string]int64{}, map[string]int64{}
	for _, s := range p.Symbols {
		ones[s.Name], bounds[s.Name] = min(1, s.Bound), s.Bound
	}
	if checkExtents(signedExtents(p), ones) != nil {
		return bounds
	}
	return ones
}

// firstSteps lists the first step of a run that starts each pipeline. Prepared steps have run.
func (e *Executable) firstSteps() (list []int) {
	seen := map[int]bool{}
	for i, s := range e.program.Steps {
		if !seen[s.Shader] && i >= e.program.Prepared {
			list = append(list, i)
		}
		seen[s.Shader] = true
	}
	return list
}

// zero clears the inputs and the temporaries, in which kernels may look for indices and addresses.
func (e *Executable) zero(c *CommandList) {
	cleared := map[*Buffer]bool{}
	for i, b := range e.program.Buffers {
		if to := e.ranges[i].Buffer; (b.Kind == kernel.BufInput || b.Kind == kernel.BufTemp) && !cleared[to] {
			c.FillBuffer(to, 0, to.Size(), 0)
			cleared[to] = true
		}
	}
	c.Barrier(StageTransfer, StageCompute)
}

// runOnce records commands, runs them and waits.
func (e *Executable) runOnce(ctx context.Context, name string, record func(c *CommandList)) error {
	c := e.device.NewCommandList()
	record(c)
	r, err := e.device.Record(name, c)
	if err != nil {
		return err
	}
	defer r.Close()
	return e.device.Run(ctx, r)
}
