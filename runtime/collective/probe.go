package collective

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/partition"
	"github.com/vkc-go/vkc/runtime"
)

const (
	probeRuns  = 2 // the second run reuses the slots of the first, and must not read stale values
	probeLimit = 5 * time.Second
)

// probeExchanges returns the numbers of values in the exchanges of a transport's probe.
func probeExchanges(t Transport) []int {
	return slices.Repeat([]int{transports[t].values}, transports[t].times)
}

// probe runs a program that exchanges values many times through a channel, with a time limit for each run, and returns
// the first failure. It does not measure the cost of an exchange: the host may be busy loading other programs.
func (g *Group) probe(ctx context.Context, c *Channel, limit time.Duration) (err error) {
	ranks, t := len(g.names), transports[c.transport]
	in, want := swapped(ranks, t.values, t.times)
	var parts []runtime.Executable
	defer func() {
		err = errors.Join(err, runtime.Each(parts, runtime.Executable.Close))
	}()
	defer bailout.Caught(&err)
	swaps := bailout.Must(partition.ProbeGraph(ranks, t.values, t.times))
	for rank := range ranks {
		parts = append(parts, bailout.Must(g.LoadGraph(ctx, rank, swaps)))
	}
	for range probeRuns {
		if t.ownSlots {
			c.next = 0 // the slots of the previous run
		}
		if err := g.probeRun(ctx, c, limit, parts, in, want); err != nil {
			c.box.Stop()
			err = errors.Join(err, g.Idle())
			c.box.Reset()
			return err
		}
	}
	return nil
}

// swapped returns the inputs of a probe and its expected outputs, by rank. Each has count values. In each of the given
// number of exchanges (times) a rank replaces its values by the sums of all other ranks' values, rounded as the kernels
// do (see [partition.ProbeGraph]).
func swapped(ranks, count, times int) (in, out []*ir.Data) {
	now := make([][]float32, ranks)
	for rank := range now {
		for i := range count {
			now[rank] = append(now[rank], float32(i+count*rank))
		}
		in = append(in, tensor(ir.F32, now[rank]))
	}
	for range times {
		for i := range count {
			sum := now[0][i] // in the order of ranks, like the kernels
			for _, values := range now[1:] {
				sum += values[i]
			}
			for _, values := range now {
				values[i] = sum - values[i]
			}
		}
	}
	for _, values := range now {
		out = append(out, tensor(ir.F32, values))
	}
	return in, out
}

// probeRun makes one run of a probe and compares its results with the expected ones.
func (g *Group) probeRun(ctx context.Context, c *Channel, limit time.Duration, parts []runtime.Executable,
	in, want []*ir.Data) error {
	run, links, err := g.begin(c, probeExchanges(c.transport), limit)
	if err != nil {
		return err
	}
	errs := make([]error, len(parts))
	var wait sync.WaitGroup
	for rank, p := range parts {
		wait.Go(func() {
			result, err := run.Do(ctx, p, map[string]*ir.Data{"x": in[rank], "link": links[rank]}, runtime.RunOptions{})
			switch errs[rank] = err; {
			case err != nil:
				run.Fail()
			case !slices.Equal(result.Outputs["y"].Bytes, want[rank].Bytes):
				errs[rank] = fmt.Errorf("%s got other values than were given", p.Device())
			}
		})
	}
	wait.Wait()
	return errors.Join(run.wait(), errors.Join(errs...))
}
