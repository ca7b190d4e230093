package vk

import (
	"context"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/mailbox"
	"github.com/vkc-go/vkc/runtime"
)

// warm dispatches one workgroup of every kernel, because some drivers compile a kernel at its first dispatch. Inputs
// and temporaries are zeros. The kernels' results do not matter: every run overwrites temporaries and outputs, and a
// reset of the states follows.
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
			// The kernel must not use another kernel's results as addresses.
			if i == 0 || mailbox.Follows(e.program.Steps[step].Ops) {
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

// warmSymbols sets every symbol to 1, so that rows are short. If that makes an extent such as T-2 negative, which
// kernels would read as a very large one, it sets every symbol to its bound.
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

// firstSteps lists the first step of a run that uses each pipeline. It skips the pipelines of prepared steps, which
// have run.
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

// zero clears the inputs and the temporaries, because kernels may read indices and addresses from them.
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
