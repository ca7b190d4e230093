package vk

import (
	"context"
	"errors"
	"fmt"
	"slices"

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

// RunInParts is Run for a program that exchanges values with other devices. If between is not nil, RunInParts calls it
// at each exchange: this device has then written its values to host memory, and the program reads the other devices'
// values after between has returned. An error of between ends the run. If between is nil, the kernels themselves wait
// for one another.
func (e *Executable) RunInParts(ctx context.Context, in map[string]*ir.Data, between func() error,
	opts ...runtime.RunOptions) (*runtime.Result, error) {
	opt, err := runtime.CheckRun(ctx, opts)
	if err != nil {
		return nil, e.wrap("run", err)
	}
	log := newRunLog(opt.Profile)
	if err := e.lock(ctx); err != nil {
		return nil, e.wrap("run", err)
	}
	defer e.unlock()
	log.note("wait for another run")
	r, err := e.run(ctx, in, between, opt, log)
	if err != nil {
		return nil, e.wrap("run", err)
	}
	if r.Profile != nil {
		log.finish(r.Profile)
	}
	return r, nil
}

// wrap returns err with what the program was doing.
func (e *Executable) wrap(doing string, err error) error {
	if e == nil || e.program == nil {
		return fmt.Errorf("%s a program: %w", doing, err)
	}
	return e.Explain(doing, err)
}

// job is a run of which the arguments have been checked.
type job struct {
	in      map[string]*ir.Data              // inputs from the host
	there   map[string]*runtime.DeviceTensor // inputs that are device tensors
	from    []*Buffer                        // the buffers of these tensors, by port; nil for inputs from the host
	symbols map[string]int64
	states  *states
	outputs []runtime.Output // by port
	kept    []deviceMemory   // memory of the outputs that stay on the device, by port
	// profiled requests a profile. profiler is its recording, nil if the device has no timestamps or the program no
	// steps.
	profiled bool
	profiler *profiler
	more     bool         // see runtime.RunOptions.More
	between  func() error // see RunInParts
	log      *runLog
}

// run checks the arguments of a run and makes it. The caller holds the program's lock.
func (e *Executable) run(ctx context.Context, in map[string]*ir.Data, between func() error, opt runtime.RunOptions,
	log *runLog) (*runtime.Result, error) {
	symbols, err := e.Bind(in, opt)
	if err == nil {
		err = checkExtents(e.signed, symbols)
	}
	if err != nil {
		return nil, err
	}
	j := &job{in: in, there: opt.Inputs, symbols: symbols, profiled: opt.Profile, more: opt.More,
		between: between, log: log}
	if j.outputs, err = e.NewOutputs(symbols, opt); err != nil {
		return nil, err
	}
	var release func()
	if j.from, release, err = e.holdInputs(opt.Inputs); err != nil {
		return nil, err
	}
	defer release() // by then the run is submitted, or never will be
	if j.states, err = e.statesOf(opt); err != nil {
		return nil, err
	}
	if j.profiled {
		if j.profiler, err = e.profiler(symbols); err != nil {
			return nil, err
		}
	}
	if e.isAsync(j) {
		return e.runAsync(ctx, j)
	}
	if j.kept, err = e.newKeptAll(j.outputs); err != nil {
		return nil, err
	}
	log.note("check inputs, make outputs")
	result, err := e.runWaiting(ctx, j)
	if err != nil {
		closeAll(j.kept)
		return nil, err
	}
	return result, nil
}

// runWaiting makes a synchronous run.
func (e *Executable) runWaiting(ctx context.Context, j *job) (*runtime.Result, error) {
	// An asynchronous run may still be reading the memory that the host writes below.
	if err := e.device.Wait(ctx, e.inFlight.last); err != nil {
		return nil, err
	}
	j.log.note("wait for the device")
	_ = e.takeFaults() // drop the faults of an earlier run, if its caller stopped waiting for it
	if err := e.grids.put(j.symbols); err != nil {
		return nil, err
	}
	recordings, err := e.submissions(j, e.writeInputs(j))
	if err != nil {
		return nil, err
	}
	if err := e.fillGuards(ctx); err != nil {
		return nil, err
	}
	j.log.note("write inputs")
	if err := e.submit(ctx, recordings, j); err != nil {
		return nil, err
	}
	if err := errors.Join(e.timedOut(), e.takeFaults()); err != nil {
		return nil, err
	}
	if err := e.checkGuards(ctx, j.symbols); err != nil {
		return nil, err
	}
	result := &runtime.Result{}
	if err := e.readOutputs(result, j); err != nil {
		return nil, err
	}
	j.log.note("read outputs")
	if j.profiled {
		result.Profile, err = e.readProfile(j.profiler, j.symbols, j.log)
	}
	return result, err
}

// readOutputs copies outputs to host memory, and makes device tensors of kept outputs.
func (e *Executable) readOutputs(result *runtime.Result, j *job) error {
	outputs, kept := j.outputs, j.kept
	result.Outputs = map[string]*ir.Data{}
	for i, port := range e.Outputs() {
		if kept[i].Buffer != nil {
			t, err := e.keptTensor(i, outputs[i].Data, kept[i])
			if err != nil {
				return err
			}
			if result.Kept == nil {
				result.Kept = map[string]*runtime.DeviceTensor{}
			}
			result.Kept[port.Name] = t
			continue
		}
		if outputs[i].Bytes == nil {
			outputs[i].Bytes = make([]byte, outputs[i].Size)
		}
		n := copy(outputs[i].Bytes, e.output(i).hostBytes())
		e.device.traffic.out.Add(uint64(n))
		result.Outputs[port.Name] = outputs[i].Data
	}
	return nil
}

// writeInputs copies inputs from the host to mapped memory, and returns the sizes of all inputs.
func (e *Executable) writeInputs(j *job) []int64 {
	sizes := make([]int64, len(e.program.Inputs))
	for i, port := range e.Inputs() {
		if t := j.there[port.Name]; t != nil {
			sizes[i] = t.Size()
			continue
		}
		sizes[i] = int64(copy(e.input(i).hostBytes(), j.in[port.Name].Bytes))
		e.device.traffic.in.Add(uint64(sizes[i]))
	}
	return sizes
}

// submissions returns the recordings of a synchronous run, in order. sizes are the sizes of its inputs.
func (e *Executable) submissions(j *job, sizes []int64) (_ []*Recording, err error) {
	isSet := func(b *Buffer) bool { return b != nil }
	isKept := func(m deviceMemory) bool { return m.Buffer != nil }
	var main *Recording
	var parts []*Recording
	recorded := false // whether main contains the copies that are the same in every run
	switch {
	case j.profiler != nil:
		main = j.profiler.recording
	case j.between != nil:
		parts, err = e.partsOn(j.states, j.symbols)
	case j.states != e.own || slices.ContainsFunc(j.from, isSet) || slices.ContainsFunc(j.kept, isKept):
		main, err = e.stepsOn(j.states, j.symbols)
	default:
		main, err = e.mainSteps(j.symbols)
		recorded = true
	}
	if err != nil {
		return nil, err
	}
	before, err := e.copiesIn.prepare(&e.programMemory, "inputs", e.copiesBefore(sizes, j.from, recorded))
	if err != nil {
		return nil, err
	}
	after, err := e.copiesOut.prepare(&e.programMemory, "outputs", e.copiesAfter(j.outputs, j.kept, recorded))
	if err != nil {
		return nil, err
	}
	return present(slices.Concat([]*Recording{before, main}, parts, []*Recording{after})...), nil
}

// present returns the recordings that are not nil.
func present(list ...*Recording) []*Recording {
	return slices.DeleteFunc(list, func(r *Recording) bool { return r == nil })
}

// submit submits recordings and waits for them. Where a recording ends with an exchange between devices, it waits,
// calls j.between, and continues with the rest.
func (e *Executable) submit(ctx context.Context, recordings []*Recording, j *job) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i, r := range recordings {
		if !r.ends {
			continue
		}
		p, err := e.device.Submit(recordings[:i+1]...)
		if err != nil {
			return err
		}
		e.inFlight.last = p
		if err := e.device.Wait(context.Background(), p); err != nil { // a run that has begun always completes
			return err
		}
		if err := j.between(); err != nil {
			return err
		}
		return e.submit(context.Background(), recordings[i+1:], j)
	}
	p, err := e.device.Submit(recordings...)
	if err != nil {
		return err
	}
	e.inFlight.last = p
	j.log.note("submit")
	err = e.device.Wait(ctx, p)
	j.log.note(hostWaits)
	return err
}
