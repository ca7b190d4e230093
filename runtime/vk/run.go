package vk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// Run implements runtime.Executable. If ctx ends while the device is working, Run returns the context's error at once.
// The run still completes: it updates the states, and the next run begins after it. If the run is asynchronous (see
// isAsync), Run does not wait for it.
func (e *Executable) Run(ctx context.Context, in map[string]*ir.Data,
	opts ...runtime.RunOptions) (*runtime.Result, error) {
	return e.RunInParts(ctx, in, nil, opts...)
}

// RunInParts runs a program that exchanges values with other devices, as Run does. If between is not nil, RunInParts
// calls it at each exchange: this device has then written its values to host memory, and the program reads the other
// devices' values after between has returned. An error of between ends the run. If between is nil, the kernels
// themselves wait for one another.
func (e *Executable) RunInParts(ctx context.Context, in map[string]*ir.Data, between func() error,
	opts ...runtime.RunOptions) (_ *runtime.Result, err error) {
	defer e.explain("run", &err)
	defer bailout.Caught(&err)
	opt := bailout.Must(runtime.CheckRun(ctx, opts))
	log := newRunLog(opt.Profile)
	bailout.Check(e.lock(ctx))
	defer e.unlock()
	log.note("wait for another run")
	r := e.run(ctx, in, between, opt, log)
	if r.Profile != nil {
		r.Profile.Began, r.Profile.Host, r.Profile.Wall = log.began, log.spans, time.Since(log.began)
	}
	return r, nil
}

// explain adds to the error of an exported method, if any, what the method does and the program's name. It is called by
// defer.
func (e *Executable) explain(doing string, err *error) {
	switch {
	case *err == nil:
	case e == nil || e.program == nil:
		*err = fmt.Errorf("%s a program: %w", doing, *err)
	default:
		*err = e.Explain(doing, *err)
	}
}

// job is a run with checked arguments.
type job struct {
	in      map[string]*ir.Data              // inputs from the host
	tensors map[string]*runtime.DeviceTensor // inputs that are device tensors
	sources []*Buffer                        // the buffers of these tensors, by input; nil for inputs from the host
	symbols map[string]int64
	states  *states
	outputs []runtime.Output // the destinations of outputs, by port
	kept    []deviceMemory   // memory of the outputs that stay on the device, by port; without a Buffer for others
	// profiled requests a profile. profiler is its recording, nil if the device has no timestamps or the program no
	// steps.
	profiled bool
	profiler *profiler
	async    bool         // whether Run does not wait for it, see isAsync
	more     bool         // see runtime.RunOptions.More
	between  func() error // see RunInParts
	log      *runLog
}

// run checks the arguments of a run and makes it. The caller holds the program's lock.
func (e *Executable) run(ctx context.Context, in map[string]*ir.Data, between func() error, opt runtime.RunOptions,
	log *runLog) (result *runtime.Result) {
	symbols := bailout.Must(e.Bind(in, opt))
	bailout.Check(checkExtents(e.signed, symbols))
	j := &job{in: in, tensors: opt.Inputs, symbols: symbols, profiled: opt.Profile, more: opt.More,
		between: between, log: log}
	j.outputs = bailout.Must(e.NewOutputs(symbols, opt))
	from, release, err := e.holdInputs(opt.Inputs)
	bailout.Check(err)
	j.sources = from
	defer release() // by then the run is submitted, or never will be
	j.states = bailout.Must(e.statesOf(opt))
	if j.profiled {
		j.profiler = e.profiler(symbols)
	}
	j.async = e.isAsync(j)
	log.note("check inputs, make outputs")
	defer func() {
		if result == nil {
			closeAll(j.kept)
		}
	}()
	e.start(ctx, j)
	if !j.async {
		bailout.Check(errors.Join(e.checkTimeouts(), e.takeFaults()))
		e.checkGuards(ctx, symbols)
	}
	result = e.readOutputs(ctx, j)
	log.note("read outputs")
	if j.profiled {
		result.Profile = e.readProfile(j.profiler, symbols, log)
	}
	return result
}

// start submits a run, and waits for it unless it is asynchronous. It first waits until the resources of the run are
// free.
func (e *Executable) start(ctx context.Context, j *job) {
	r, capacities := e.inFlight.acquire(e, j)
	bailout.Check(errors.Join(e.device.Wait(ctx, r.busy), e.checkTimeouts()))
	j.log.note("wait for the device")
	_ = e.takeFaults() // drop the faults of an earlier run, if its caller stopped waiting for it
	j.kept = bailout.Must(r.keep(e, j.outputs))
	r.uploadLarge(ctx, e, j, capacities)
	recordings := r.recordings(e, j, r.writeInputs(ctx, e, j))
	if e.guard != nil { // with outputs filled too, tests notice elements that a kernel does not write
		bailout.Check(e.device.Run(ctx, e.guard))
	}
	j.log.note("write inputs")
	e.submit(ctx, recordings, j)
	if j.async {
		r.busy = e.inFlight.last
		e.inFlight.next = (e.inFlight.next + 1) % maxInFlight
	}
}

// readOutputs copies outputs to host memory, and makes device tensors of kept outputs.
func (e *Executable) readOutputs(ctx context.Context, j *job) *runtime.Result {
	outputs, kept, result := j.outputs, j.kept, &runtime.Result{Outputs: map[string]*ir.Data{}}
	for i, port := range e.Outputs() {
		if kept[i].Buffer != nil {
			t := bailout.Must(e.keptTensor(i, outputs[i].Data, kept[i]))
			if result.Kept == nil {
				result.Kept = map[string]*runtime.DeviceTensor{}
			}
			result.Kept[port.Name] = t
			continue
		}
		if outputs[i].Bytes == nil {
			outputs[i].Bytes = make([]byte, outputs[i].Size)
		}
		if b := e.output(i); b.chunked() {
			bailout.Check(e.device.download(ctx, outputs[i].Bytes, b.at.Buffer, b.at.Offset,
				order{overlaps: true, after: e.inFlight.last}))
		} else {
			copyBytes(outputs[i].Bytes, b.hostBytes())
			e.device.traffic.out.Add(uint64(outputs[i].Size))
		}
		outputs[i].ClearUnused()
		result.Outputs[port.Name] = outputs[i].Data
	}
	return result
}

// submit submits the recordings of a run, and waits for them unless the run is asynchronous. If a recording ends with
// an exchange between devices, submit waits for it, calls j.between, and continues with the rest.
func (e *Executable) submit(ctx context.Context, recordings []*Recording, j *job) {
	bailout.Check(ctx.Err())
	for i, r := range recordings {
		if !r.hostNext {
			continue
		}
		e.inFlight.last = bailout.Must(e.device.Submit(recordings[:i+1]...))
		bailout.Check(e.device.Wait(context.Background(), e.inFlight.last)) // a run that has begun always completes
		bailout.Check(j.between())
		e.submit(context.Background(), recordings[i+1:], j)
		return
	}
	e.inFlight.last = bailout.Must(e.device.submit(j.more && j.async, recordings))
	j.log.note("submit")
	if j.async {
		return
	}
	err := e.device.Wait(ctx, e.inFlight.last)
	j.log.note(hostWaits)
	bailout.Check(err)
}
