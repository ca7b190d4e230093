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

// team is the goroutines of a process that help runs with the tasks of their ops. After an op, a goroutine looks for a
// moment for another op before it ends, because starting a goroutine on another core takes longer than many ops do. An
// op never waits for a goroutine that has not begun to work on the op.
type team struct {
	busy    atomic.Bool // an op has the team; other ops start goroutines of their own
	helpers []*helper   // guarded by busy
}

// helper is a goroutine of a team. An op calls only as many helpers as have work, so that the others do not compete for
// the memory of its job.
type helper struct {
	job   atomic.Pointer[job] // the job to work on next, or nil
	awake atomic.Bool         // the goroutine runs
	_     [64]byte            // keeps other helpers out of the cache line in which this one looks for its job
}

var shared team

// A goroutine that waits looks in turns, and pauses the processor between two looks. It calls Go's scheduler after each
// turn of about 100 µs, so that other goroutines can run. A call takes a lock that all goroutines share. With a turn of
// 2 µs, 15 waiting goroutines would use the lock so often that an op's goroutine took twice as long (M-cpu-llm). After
// all turns, about half a millisecond, the goroutine gives up.
const (
	turns       = 8
	looksInTurn = 2000
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
	_              [64]byte     // keeps the fields above in a cache line that no worker changes
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
	// This goroutine works too, as worker 0. GOMAXPROCS, a better limit, takes the lock of Go's scheduler.
	for i := range min(workers, runtime.NumCPU()) - 1 {
		t.call(i, j)
	}
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

// call gives a job to helper i, which works on it as worker i+1, and starts the helper's goroutine if it has ended.
func (t *team) call(i int, j *job) {
	if i == len(t.helpers) {
		t.helpers = append(t.helpers, &helper{})
	}
	h := t.helpers[i]
	h.job.Store(j)
	if h.awake.CompareAndSwap(false, true) {
		go h.help(i + 1)
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
func (h *helper) help(worker int) {
	for {
		for await(func() bool { return h.job.Load() != nil }) {
			h.job.Swap(nil).work(worker)
		}
		h.awake.Store(false)
		// A job may have come before the last line: its op took this goroutine for awake.
		if h.job.Load() == nil || !h.awake.CompareAndSwap(false, true) {
			return
		}
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
