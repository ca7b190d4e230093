package multi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// Queues has one queue of runs per device, shared by all pipelines on these devices. Every run joins the queues of all
// its devices at the same time, so all devices execute the runs in the same order.
type Queues struct {
	mu     sync.Mutex
	last   map[int]chan struct{} // by device: closed when the last run in its queue has left
	failed *pipelineRun          // a failed asynchronous run whose error no caller has received; nil if there is none
}

// fail records that asynchronous run r has failed. The run calls it before it leaves its queues, so that later runs
// see the error. If r failed because an earlier run did, method report does not report r.
func (q *Queues) fail(r *pipelineRun, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r.err = err
	if !r.follows {
		q.failed = r
	}
}

// report returns the error of a failed asynchronous run that no caller has received yet, or nil. If of is not nil, it
// reports only a run of that program. A new run passes nil, because programs may share states.
func (q *Queues) report(of *Pipeline) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.failed
	if r == nil || of != nil && r.of != of {
		return nil
	}
	q.failed = nil
	return fmt.Errorf("a run that was not waited for has failed: %w", r.err)
}

// reported records that a caller has received the error of a failed run by reading a result of that run.
func (q *Queues) reported(r *pipelineRun) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed == r {
		q.failed = nil
	}
}

// ticket is a run's position in the queue of a device.
type ticket struct {
	before chan struct{} // closed when the run may use the device: the field over of the run before it in the queue
	over   chan struct{} // closed by the run to leave the queue
}

// tickets are the tickets of one run, or of one access to states: one for each part.
type tickets []ticket

// noWait is a closed channel: ticket.before of a run that is first in its queue.
var noWait = make(chan struct{})

func init() { close(noWait) }

// join appends a run to the queues of its parts' devices.
func (q *Queues) join(parts Layers) tickets {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.last == nil {
		q.last = map[int]chan struct{}{}
	}
	list := make(tickets, len(parts))
	for i, p := range parts {
		list[i] = ticket{noWait, make(chan struct{})} // noWait is closed already
		if last := q.last[p.Device]; last != nil {
			list[i].before = last
		}
		q.last[p.Device] = list[i].over
	}
	return list
}

// leave removes a run that will not use the devices from their queues. It returns at once. The run leaves a queue when
// all runs before it have left, because the next run in the queue waits only for this one.
func (list tickets) leave() {
	for i, t := range list {
		// A ticket with no run before it is over at once. A goroutine waits for the first other ticket, and handles the
		// rest.
		select {
		case <-t.before:
			close(t.over)
			continue
		default:
		}
		go func() {
			<-t.before
			close(t.over)
			list[i+1:].leave()
		}()
		return
	}
}

// maxInFlight limits the unfinished asynchronous runs of a pipeline.
const maxInFlight = 16

// Pipeline is a program in consecutive parts on several devices. A run executes them one after another. While it is on
// one device, the previous run is on the next.
type Pipeline struct {
	*program
	queues  *Queues
	layers  Layers
	async   bool // whether a run that keeps all outputs is asynchronous
	buffers buffers

	mu       sync.Mutex
	inFlight []*pipelineRun // asynchronous runs, of which at most maxInFlight are unfinished
	closed   bool
}

var _ runtime.Executable = (*Pipeline)(nil)

// NewPipeline makes the program of a graph from its loaded parts. names has the name of each part's device. All
// pipelines on the same devices must be given the same queues.
func NewPipeline(g *ir.Graph, layers Layers, queues *Queues, names []string,
	exes []runtime.Executable) (*Pipeline, error) {
	noneCut := func(int) map[string]int { return nil } // each state is whole, on the device of its layer
	x := &Pipeline{program: newProgram(g, names, exes, noneCut), queues: queues, layers: layers}
	x.async = !slices.ContainsFunc(exes, func(e runtime.Executable) bool { return !runtime.Asynchronous(e) })
	x.lock = x.Lock
	for _, s := range x.States() {
		if len(x.home[s.Name].parts) == 0 {
			return nil, fmt.Errorf("nothing reads or updates state %q: leave it out", s.Name)
		}
	}
	return x, nil
}

// Lock waits until the runs in flight are over. Later runs do not begin until unlock is called.
func (x *Pipeline) Lock() (unlock func()) {
	list := x.queues.join(x.layers)
	for _, t := range list {
		<-t.before
	}
	return func() {
		for _, t := range list {
			close(t.over)
		}
	}
}

// Queues returns the queues of its devices.
func (x *Pipeline) Queues() *Queues { return x.queues }

// On returns the executable of the part on a device, or nil if the device has no part.
func (x *Pipeline) On(device int) runtime.Executable {
	for i, p := range x.layers {
		if p.Device == device {
			return x.exes[i]
		}
	}
	return nil
}

// Describe lists the devices with the bytes of weights and states on each.
func (x *Pipeline) Describe() string {
	var parts []string
	for i, p := range x.layers {
		parts = append(parts, fmt.Sprintf("%s with %.1f MiB of weights and states", x.names[i],
			float64(p.Stored)/(1<<20)))
	}
	return "layers over " + strings.Join(parts, ", then ")
}

// InFlight returns the number of asynchronous runs that are not known to have ended. At most so many are unfinished.
func (x *Pipeline) InFlight() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.inFlight)
}

// Buffers returns statistics for tests: the number of values passed between parts, the number of times that memory was
// allocated for one, and the number of values for which there is unused memory.
func (x *Pipeline) Buffers() (values, made, free int) {
	x.buffers.mu.Lock()
	defer x.buffers.mu.Unlock()
	for _, p := range x.layers {
		values += len(p.Gives)
	}
	return values, x.buffers.made, len(x.buffers.free)
}

// Asynchronous reports whether a run that keeps all its outputs returns before it has finished.
func (x *Pipeline) Asynchronous() bool { return x.async }

// Device implements runtime.Executable.
func (x *Pipeline) Device() string { return x.devices(", then ") }

// Run implements runtime.Executable. If all outputs stay on Vulkan devices and the host inputs are small
// (maxAheadGiven), the run is asynchronous: Run does not wait for its end.
func (x *Pipeline) Run(ctx context.Context, in map[string]*ir.Data,
	opts ...runtime.RunOptions) (*runtime.Result, error) {
	opt, err := runtime.CheckRun(ctx, opts)
	if err != nil {
		return nil, err
	}
	if x.goesAhead(in, opt) {
		return x.runAhead(ctx, in, opt)
	}
	return x.RunNext(ctx, in, opt, func() {})
}

// RunNext runs the program and waits for the result. It calls next once, as soon as the next run may begin: when the
// first part is done, or the run has ended. It also returns the error of an earlier asynchronous run that no caller has
// received yet.
func (x *Pipeline) RunNext(ctx context.Context, in map[string]*ir.Data, opt runtime.RunOptions,
	next func()) (*runtime.Result, error) {
	r := &pipelineRun{of: x, opt: opt, next: next}
	defer func() { r.next() }()
	if err := r.join(in); err != nil {
		return nil, err
	}
	result, err := r.run(ctx)
	if failed := x.queues.report(nil); failed != nil {
		return nil, errors.Join(failed, err, result.CloseKept())
	}
	return result, err
}

// maxAheadGiven is the maximum size in bytes of all inputs that the host passes to an asynchronous run.
const maxAheadGiven = 64 << 20

// goesAhead reports whether a run is asynchronous.
func (x *Pipeline) goesAhead(in map[string]*ir.Data, opt runtime.RunOptions) bool {
	size := 0
	for _, d := range in {
		if d != nil {
			size += len(d.Bytes)
		}
	}
	return x.async && !opt.Profile && len(opt.Keep) > 0 && len(opt.Keep) == len(x.Outputs()) && size <= maxAheadGiven
}

// runAhead starts an asynchronous run. Reading a tensor of the result waits for the run.
func (x *Pipeline) runAhead(ctx context.Context, in map[string]*ir.Data,
	opt runtime.RunOptions) (_ *runtime.Result, err error) {
	own := map[string]*ir.Data{} // the caller may change its data after this returns
	for name, d := range in {
		if d != nil {
			own[name] = &ir.Data{DType: d.DType, Dims: slices.Clone(d.Dims), Bytes: slices.Clone(d.Bytes)}
		}
	}
	defer bailout.Caught(&err)
	bailout.Check(x.lockDrained(ctx, maxInFlight-1))
	defer x.mu.Unlock()
	if x.closed {
		return nil, runtime.ErrProgramClosed
	}
	r := &pipelineRun{of: x, opt: opt, next: func() {}, done: make(chan struct{})}
	bailout.Check(r.join(own))
	result, err := r.later() // the run has joined the queues, so it begins also after an error
	x.inFlight = append(x.inFlight, r)
	go func() { r.finish(r.run(context.WithoutCancel(ctx))) }()
	return result, err
}

// lockDrained waits until at most `most` asynchronous runs are in flight, and locks x.mu. It returns an error, without
// the lock, if ctx ends, or if an earlier run has failed and no caller has received its error.
func (x *Pipeline) lockDrained(ctx context.Context, most int) error {
	for {
		if err := x.queues.report(nil); err != nil {
			return err
		}
		x.mu.Lock()
		if len(x.inFlight) <= most {
			return nil
		}
		first := x.inFlight[0]
		x.mu.Unlock()
		select {
		// Another goroutine may have removed it meanwhile.
		case <-first.done:
			x.mu.Lock()
			if len(x.inFlight) > 0 && x.inFlight[0] == first {
				x.inFlight = x.inFlight[1:]
			}
			x.mu.Unlock()
		case <-ctx.Done():
			return fmt.Errorf("%d runs are under way: %w", maxInFlight, ctx.Err())
		}
	}
}

// Close implements runtime.Executable.
func (x *Pipeline) Close() error {
	x.mu.Lock()
	inFlight := x.inFlight
	x.closed, x.inFlight = true, nil
	x.mu.Unlock()
	for _, r := range inFlight {
		<-r.done
	}
	failed := x.queues.report(x)
	x.buffers.close()
	return errors.Join(failed, x.program.Close())
}

// Upload implements runtime.Executable: to the first device.
func (x *Pipeline) Upload(ctx context.Context, d *ir.Data) (*runtime.DeviceTensor, error) {
	return x.exes[0].Upload(ctx, d)
}

// UploadFrom implements runtime.Executable: to the first device.
func (x *Pipeline) UploadFrom(ctx context.Context, t ir.DType, dims []int,
	from io.ReaderAt) (*runtime.DeviceTensor, error) {
	return x.exes[0].UploadFrom(ctx, t, dims, from)
}
