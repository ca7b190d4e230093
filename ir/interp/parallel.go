package interp

import (
	"cmp"
	"context"
	"math"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/vkc-go/vkc/internal/mmap"
)

// Work is counted in multiply-adds of Go code, which take about 0.6 ns.
const (
	callWork = 1 << 10 // takes as long as calling one more worker that looks for a job, about 0.4 µs
	taskWork = 1 << 13 // is enough for a task
)

// parallel calls f for each task from 0 to tasks-1 on the workers, and stops early when ctx ends. Concurrent calls of f
// get different values of worker, from 0 to workers-1. work is the cost of one task in multiply-adds. If tasks*work is
// small, all tasks run on the calling goroutine.
func parallel(ctx context.Context, workers, tasks, work int, f func(worker, task int)) error {
	workers = usefulWorkers(workers, tasks, work)
	if workers <= 1 {
		for task := range tasks {
			if ctx.Err() != nil {
				break
			}
			f(0, task)
		}
		return ctx.Err()
	}
	// The shared workers avoid starting goroutines; another call may be using them.
	if ran, err := shared.run(ctx, workers, tasks, f); ran {
		return err
	}
	var next atomic.Int64
	loop := func(worker int) error {
		return mmap.Guard(func() error { // f may read mapped weights
			for {
				task := int(next.Add(1)) - 1
				if task >= tasks || ctx.Err() != nil {
					return ctx.Err()
				}
				f(worker, task)
			}
		})
	}
	var others errgroup.Group
	for w := 1; w < workers; w++ {
		others.Go(func() error { return loop(w) })
	}
	return cmp.Or(loop(0), others.Wait(), ctx.Err())
}

// usefulWorkers returns how many of the workers compute the tasks fastest; each gets at least one task. work is the
// cost of one task in multiply-adds. w workers need the time of total/w for all tasks, and of w*callWork to begin
// together. The sum is smallest if w is the square root of total/callWork.
func usefulWorkers(workers, tasks, work int) int {
	total := tasks * max(work, 1)
	return min(workers, tasks, max(1, int(math.Sqrt(float64(total)/callWork))))
}

// parallelRange splits n items into chunks of about equal work and calls f for each chunk, items lo to hi-1. work is
// the cost of one item.
func parallelRange(ctx context.Context, workers, n, work int, f func(lo, hi int)) error {
	chunk := max(1, taskWork/max(work, 1))
	tasks := (n + chunk - 1) / chunk
	if tasks == 1 {
		if ctx.Err() == nil {
			f(0, n)
		}
		return ctx.Err()
	}
	return parallel(ctx, workers, tasks, chunk*work, func(_, task int) {
		f(task*chunk, min((task+1)*chunk, n))
	})
}
