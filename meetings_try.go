package vkc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/partition"
)

const (
	triedRuns = 2 // the second one reads the slots again
	tryTime   = 5 * time.Second
)

// trialOf returns the exchanges in a trial of a transport.
func trialOf(w way) []int {
	return slices.Repeat([]int{transports[w].values}, transports[w].times)
}

// try runs programs that exchange values through a room many times, with a time limit for each run, and returns the
// first failure. It does not measure the cost of an exchange, because the host is busy while programs are loaded.
func (m *meetings) try(ctx context.Context, r *room, limit time.Duration) (err error) {
	ranks, t := len(m.devices), transports[r.way]
	g, err := partition.Swaps(ranks, t.values, t.times)
	if err != nil {
		return err
	}
	in, want, err := swapped(ranks, t.values, t.times)
	if err != nil {
		return err
	}
	parts := make([]*Executable, ranks)
	defer func() {
		for _, p := range parts {
			err = errors.Join(err, p.Close())
		}
	}()
	for rank, d := range m.devices {
		if parts[rank], err = d.LoadGraph(ctx, g, nil); err != nil {
			return err
		}
	}
	for range triedRuns {
		if t.once {
			r.next = 0 // at the beginning of the previous run
		}
		if err := m.tryRun(ctx, r, limit, parts, in, want); err != nil {
			r.box.Stop()
			err = errors.Join(err, m.idle())
			r.box.Reset()
			return err
		}
	}
	return nil
}

// swapped returns the inputs and expected outputs of each device, summed as kernels do.
func swapped(ranks, count, times int) (in, out []*ir.Data, err error) {
	now := make([][]float32, ranks)
	for rank := range now {
		for i := range count {
			now[rank] = append(now[rank], float32(i+count*rank))
		}
		d, err := Of(now[rank], count)
		if err != nil {
			return nil, nil, err
		}
		in = append(in, d)
		now[rank] = slices.Clone(now[rank])
	}
	for range times {
		for i := range count {
			sum := now[0][i]
			for _, values := range now[1:] {
				sum += values[i]
			}
			for _, values := range now {
				values[i] = sum - values[i]
			}
		}
	}
	for _, values := range now {
		d, err := Of(values, count)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, d)
	}
	return in, out, nil
}

// tryRun makes one run of the trial and compares its results.
func (m *meetings) tryRun(ctx context.Context, r *room, limit time.Duration, parts []*Executable,
	in, want []*ir.Data) error {
	meeting, links, err := m.begin(r, trialOf(r.way), limit)
	if err != nil {
		return err
	}
	errs := make([]error, len(parts))
	var under sync.WaitGroup
	for rank, p := range parts {
		under.Go(func() {
			var result *Result
			result, errs[rank] = p.runInParts(ctx, Tensors{"x": in[rank], "link": links[rank]}, meeting.between())
			switch {
			case errs[rank] != nil:
				meeting.fail()
			case !slices.Equal(result.Outputs["y"].Bytes, want[rank].Bytes):
				errs[rank] = fmt.Errorf("%s got other values than were given", p.Device())
			}
		})
	}
	under.Wait()
	return errors.Join(meeting.tell(), errors.Join(errs...))
}
