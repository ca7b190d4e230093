package vk

import (
	"context"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/internal/mailbox"
	"github.com/vkc-go/vkc/runtime"
)

// warm dispatches one workgroup of every kernel, because some drivers compile a kernel at its first dispatch. Inputs
// and temporaries are zeros. The results do not matter: every run overwrites temporaries and outputs, keepStates
// restores borrowed states, and the caller resets the other states afterwards.
func (rec *recorder) warm(ctx context.Context, report reporter) {
	first := rec.firstUses()
	if len(first) == 0 {
		return
	}
	symbols := warmSymbols(rec.program)
	bailout.Check(rec.grids.put(symbols))
	rec.tryPersistent(ctx)
	for i, step := range first {
		if isEmpty(step.Step, symbols) { // its invocations would store results that it does not have
			continue
		}
		rec.dispatchOnce(ctx, "warm-up", step.Step, func(c *CommandList) {
			// A kernel that reads addresses must not use results of another kernel's warm-up as such.
			if i == 0 || mailbox.Follows(step.Ops) {
				rec.zero(c)
			}
			c.Barrier(StageCompute, StageCompute)
			c.BindPipeline(rec.pipelines[step.Shader])
			c.Bind(rec.own.bindings, step.index)
			c.Dispatch(1, 1, 1)
		})
		report(runtime.StageWarm, int64(i+1), int64(len(first)))
	}
}

// dispatchOnce runs a dispatch of a step, which record adds to c, and restores the borrowed states that it overwrote.
func (rec *recorder) dispatchOnce(ctx context.Context, why string, step kernel.Step, record func(c *CommandList)) {
	rec.keepStates(ctx, step, func() {
		bailout.Check(rec.device.runOnce(ctx, why+" of "+step.Name, func(c *CommandList) {
			record(c)
			c.Barrier(StageCompute, stageEverything)
		}))
	})
}

// warmSymbols returns the values of symbols for the warm-up: 1 each, so that kernels have little work. If that makes an
// extent such as T-2 negative, or leaves a kernel without results, it returns every symbol's bound instead.
func warmSymbols(p *kernel.Program) map[string]int64 {
	ones, bounds := map[string]int64{}, map[string]int64{}
	for _, s := range p.Symbols {
		ones[s.Name], bounds[s.Name] = min(1, s.Bound), s.Bound
	}
	empty := func(s kernel.Step) bool { return isEmpty(s, ones) }
	if checkExtents(signedExtents(p), ones) != nil || slices.ContainsFunc(p.Steps, empty) {
		return bounds
	}
	return ones
}

// isEmpty reports whether a step has no workgroups for these values of the symbols, or no valid number of them.
func isEmpty(s kernel.Step, symbols map[string]int64) bool {
	grid, err := s.Grid.Eval(symbols)
	return err != nil || slices.Contains(grid[:], 0)
}

// use is a step with one of its kernels, and the step's index.
type use struct {
	kernel.Step
	index int
}

// firstUses returns, for each pipeline, the first step of a run that uses it. It leaves out the pipelines of prepared
// steps, which have run already.
func (rec *recorder) firstUses() (list []use) {
	seen := map[int]bool{}
	for i, s := range rec.program.Steps {
		for _, k := range s.Kernels() {
			if !seen[k.Shader] && i >= rec.program.Prepared {
				list = append(list, use{k, i})
			}
			seen[k.Shader] = true
		}
	}
	return list
}

// zero adds commands to c that set inputs and temporaries to zero, because kernels may read indices and addresses from
// them.
func (rec *recorder) zero(c *CommandList) {
	cleared := map[*Buffer]bool{}
	for _, b := range rec.buffersOf(kernel.BufInput, kernel.BufTemp) {
		if to := b.at.Buffer; !cleared[to] {
			c.FillBuffer(to, 0, to.Size(), 0)
			cleared[to] = true
		}
	}
	c.Barrier(StageTransfer, StageCompute)
}

// tryPersistent runs each persistent kernel once on zeros. The workgroups of a persistent kernel wait for each other,
// so all of them must be resident on the device at the same time. If one times out, they are not, and the program then
// runs the steps instead of persistent kernels.
func (rec *recorder) tryPersistent(ctx context.Context) {
	for _, b := range rec.buffersOf(kernel.BufLate) {
		rec.timeouts = append(rec.timeouts, b.at.Buffer.Bytes()[b.at.Offset:][:4])
	}
	tried := map[int]bool{} // shaders
	for i, k := range rec.program.Persistent {
		if tried[k.Dispatch.Shader] {
			continue
		}
		tried[k.Dispatch.Shader] = true
		rec.dispatchOnce(ctx, "trial", k.Dispatch, func(c *CommandList) {
			for _, b := range rec.buffersOf(kernel.BufBarrier) {
				c.FillBuffer(b.at.Buffer, b.at.Offset, b.Bytes, 0)
			}
			rec.zero(c)
			c.Barrier(StageCompute, StageCompute) // see waitsForRoom
			rec.recordStep(c, rec.own.bindings, nil, len(rec.program.Steps)+i)
		})
	}
	if rec.checkTimeouts() == nil {
		rec.stats.Persistent = len(rec.program.Persistent)
		return
	}
	rec.stats.NoRoom = len(rec.program.Persistent)
	for _, word := range rec.timeouts {
		clear(word)
	}
}

// waitsForRoom reports whether dispatch i is a persistent kernel and the first dispatch (n is 0) of a run. It then
// needs a barrier before it, so that it begins after all earlier work in the queue. Another program's persistent kernel
// could otherwise still occupy a part of the device, and workgroups of both could wait forever.
func (rec *recorder) waitsForRoom(n, i int) bool { return n == 0 && i >= len(rec.program.Steps) }
