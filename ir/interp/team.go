package interp

import (
	"cmp"
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/internal/spin"
)

// team is the goroutines of a process that help runs with the tasks of their ops. After an op they look for the next
// one for a moment before they end, because starting a goroutine on another core takes longer than many ops do. An op
// never waits for a goroutine that has not begun to work on it.
type team struct {
	busy    atomic.Bool // an op has the team; other ops start goroutines of their own
	job     atomic.Pointer[job]
	helpers atomic.Int32 // number of goroutines
}

var shared team

// A goroutine that waits looks in turns. Between two looks it pauses the processor, because a call of Go's scheduler
// takes a microsecond and a lock that all goroutines share. It calls the scheduler after each turn, and gives up after
// all turns, which take about half a millisecond.
const (
	turns       = 300
	looksInTurn = 50
)

// await looks until done returns true. It returns false if it gives up.
func await(done func() bool) bool {
	for range turns {
		for range looksInTurn {
			if done() {
				return true
			}
			spin.Pause()
		}
		runtime.Gosched()
	}
	return false
}

// job is the tasks of an op.
type job struct {
	ctx            context.Context
	workers, tasks int
	f              func(worker, task int)
	joined         atomic.Int32 // helpers that work on it, or found enough workers
	next, done     atomic.Int64 // numbers of tasks that were taken, and that are finished
	stopped        atomic.Bool  // a task failed: the remaining tasks are only counted
	err            atomic.Pointer[error]
	panicked       atomic.Pointer[any]
	finished       sync.WaitGroup // counts the job while it has tasks that are not finished
}

// run computes the tasks of an op. It returns false, and computes nothing, if another op has the team.
func (t *team) run(ctx context.Context, workers, tasks int, f func(worker, task int)) (bool, error) {
	if !t.busy.CompareAndSwap(false, true) {
		return false, nil
	}
	defer t.busy.Store(false)
	j := &job{ctx: ctx, workers: workers, tasks: tasks, f: f}
	j.finished.Add(1)
	t.job.Store(j)
	defer t.job.Store(nil)
	t.startHelpers(min(workers, runtime.GOMAXPROCS(0)) - 1) // this goroutine works too
	j.work(0)
	j.wait()
	if p := j.panicked.Load(); p != nil {
		panic(*p)
	}
	if err := j.err.Load(); err != nil {
		return true, cmp.Or(*err, ctx.Err())
	}
	return true, ctx.Err()
}

// startHelpers starts goroutines until there are at least count.
func (t *team) startHelpers(count int) {
	for n := t.helpers.Load(); int(n) < count; n = t.helpers.Load() {
		if t.helpers.CompareAndSwap(n, n+1) {
			go t.help()
		}
	}
}

// wait returns when all tasks are finished. Helpers may still compute their last ones, which usually takes less time
// than blocking. So it looks for a while before it blocks.
func (j *job) wait() {
	if !await(func() bool { return j.done.Load() == int64(j.tasks) }) {
		j.finished.Wait()
	}
}

// help works on jobs until none has come for a moment.
func (t *team) help() {
	defer t.helpers.Add(-1)
	var last, next *job
	for await(func() bool { next = t.job.Load(); return next != nil && next != last }) {
		// The goroutine that runs the op is worker 0.
		if worker := int(next.joined.Add(1)); worker < next.workers {
			next.work(worker)
		}
		last = next
	}
}

// work takes tasks until none is left. It goes on after a failure, because the job ends when all tasks are counted.
func (j *job) work(worker int) {
	for j.workUntilFailure(worker) {
	}
}

// workUntilFailure takes tasks until none is left and returns false, or until one fails or panics and returns true.
func (j *job) workUntilFailure(worker int) (failed bool) {
	defer func() {
		if p := recover(); p != nil {
			j.stopped.Store(true)
			j.panicked.CompareAndSwap(nil, &p)
			j.finish()
			failed = true
		}
	}()
	err := mmap.Guard(func() error { // f may read mapped weights
		for {
			task := int(j.next.Add(1)) - 1
			if task >= j.tasks {
				return nil
			}
			if !j.stopped.Load() {
				if err := j.ctx.Err(); err != nil {
					return err
				}
				j.f(worker, task)
			}
			j.finish()
		}
	})
	if err == nil {
		return false
	}
	j.stopped.Store(true)
	j.err.CompareAndSwap(nil, &err)
	j.finish()
	return true
}

// finish counts a task that is finished.
func (j *job) finish() {
	if j.done.Add(1) == int64(j.tasks) {
		j.finished.Done()
	}
}
