package vk

import (
	"context"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/mailbox"
	"github.com/vkc-go/vkc/runtime"
)

// warm dispatches one workgroup of every kernel, because some drivers compile a kernel at its first dispatch. Inputs
// and temporaries are zeros. The kernels' results do not matter: every run overwrites temporaries and outputs, and a
// reset of the states follows.
func (rec *recorder) warm(ctx context.Context, report reporter) error {
	first := rec.firstSteps()
	if len(first) == 0 {
		return nil
	}
	if err := rec.grids.put(warmSymbols(rec.program)); err != nil {
		return err
	}
	if err := rec.tryPersistent(ctx); err != nil {
		return err
	}
	for i, step := range first {
		if err := rec.device.runOnce(ctx, "warm-up of "+rec.program.Steps[step].Name, func(c *CommandList) {
			// The kernel must not use another kernel's results as addresses.
			if i == 0 || mailbox.Follows(rec.program.Steps[step].Ops) {
				rec.zero(c)
			}
			c.Barrier(StageCompute, StageCompute)
			c.BindPipeline(rec.pipelines[rec.program.Steps[step].Shader])
			c.Bind(rec.own.bindings, step)
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
// kernels would read as a very large one and no grid can have, it sets every symbol to its bound.
func warmSymbols(p *kernel.Program) map[string]int64 {
	ones, bounds := map[string]int64{}, map[string]int64{}
	for _, s := range p.Symbols {
		ones[s.Name], bounds[s.Name] = min(1, s.Bound), s.Bound
	}
	noGrid := func(s kernel.Step) bool { _, err := s.Grid.Eval(ones); return err != nil }
	if checkExtents(signedExtents(p), ones) != nil || slices.ContainsFunc(p.Steps, noGrid) {
		return bounds
	}
	return ones
}

// firstSteps lists the first step of a run that uses each pipeline. It skips the pipelines of prepared steps, which
// have run.
func (rec *recorder) firstSteps() (list []int) {
	seen := map[int]bool{}
	for i, s := range rec.program.Steps {
		if !seen[s.Shader] && i >= rec.program.Prepared {
			list = append(list, i)
		}
		seen[s.Shader] = true
	}
	return list
}

// zero clears the inputs and the temporaries, because kernels may read indices and addresses from them.
func (rec *recorder) zero(c *CommandList) {
	cleared := map[*Buffer]bool{}
	for _, b := range rec.of(kernel.BufInput, kernel.BufTemp) {
		if to := b.at.Buffer; !cleared[to] {
			c.FillBuffer(to, 0, to.Size(), 0)
			cleared[to] = true
		}
	}
	c.Barrier(StageTransfer, StageCompute)
}

// tryPersistent runs each persistent kernel once on zeros. If its workgroups time out waiting for one another, they
// cannot all be resident on this device. The program then does without persistent kernels and runs their steps instead.
func (rec *recorder) tryPersistent(ctx context.Context) error {
	for _, b := range rec.of(kernel.BufLate) {
		rec.late = append(rec.late, b.at.Buffer.Bytes()[b.at.Offset:][:4])
	}
	tried := map[int]bool{} // shaders
	for i, k := range rec.program.Persistent {
		if tried[k.Dispatch.Shader] {
			continue
		}
		tried[k.Dispatch.Shader] = true
		if err := rec.device.runOnce(ctx, "trial of "+k.Dispatch.Name, func(c *CommandList) {
			for _, b := range rec.of(kernel.BufMeeting) {
				c.FillBuffer(b.at.Buffer, b.at.Offset, b.Bytes, 0)
			}
			rec.zero(c)
			c.Barrier(StageCompute, StageCompute) // see waitsForRoom
			rec.recordStep(c, rec.own.bindings, len(rec.program.Steps)+i)
			c.Barrier(StageCompute, stageEverything)
		}); err != nil {
			return err
		}
	}
	if rec.timedOut() == nil {
		rec.stats.Persistent = len(rec.program.Persistent)
		return nil
	}
	rec.stats.NoRoom = len(rec.program.Persistent)
	for _, word := range rec.late {
		clear(word)
	}
	return nil
}

// waitsForRoom reports whether dispatch i, the n-th of a run, is a persistent kernel without a barrier before it. It
// needs one: another program's persistent kernel may still occupy the device, and two such kernels could wait for one
// another forever. The barrier makes it begin after all earlier work in the queue.
func (rec *recorder) waitsForRoom(n, i int) bool { return n == 0 && i >= len(rec.program.Steps) }
