package vk

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// Run implements runtime.Executable. If ctx ends while the device is at work, Run returns at once with its
// error; the run itself goes on, states advance as if it had been waited for, and the next one begins
// when it is done.
func (e *Executable) Run(ctx context.Context, in map[string]*ir.Data,
	opts ...runtime.RunOptions) (*runtime.Result, error) {
	opt, err := runtime.CheckRun(ctx, opts)
	if err != nil {
		return nil, e.wrap("run", err)
	}
	log := newRunLog(opt.Profile)
	if err := e.take(ctx); err != nil {
		return nil, e.wrap("run", err)
	}
	defer e.give()
	log.note("wait for another run")
	r, err := e.run(ctx, in, opt, log)
	if err != nil {
		return nil, e.wrap("run", err)
	}
	if r.Profile != nil {
		log.finish(r.Profile)
	}
	return r, nil
}

func (e *Executable) wrap(doing string, err error) error {
	if e == nil || e.program == nil {
		return fmt.Errorf("%s a program: %w", doing, err)
	}
	return fmt.Errorf("%s %q: %w", doing, e.program.Name, err)
}

func (e *Executable) run(ctx context.Context, in map[string]*ir.Data, opt runtime.RunOptions,
	log *runLog) (*runtime.Result, error) {
	symbols, err := e.Bind(in, opt.Symbols)
	if err != nil {
		return nil, err
	}
	outputs, err := e.NewOutputs(symbols, opt.Into)
	if err != nil {
		return nil, err
	}
	var p *profiler
	if opt.Profile {
		if p, err = e.profiler(); err != nil {
			return nil, err
		}
	}
	log.note("check inputs, make outputs")
	// What the host writes below, a run that was not waited for may still be reading.
	if err := e.device.Wait(ctx, e.pending); err != nil {
		return nil, err
	}
	log.note("wait for the device")
	if err := e.setSymbols(symbols); err != nil {
		return nil, err
	}
	recordings, err := e.recordings(p, e.writeInputs(in), lengths(outputs))
	if err != nil {
		return nil, err
	}
	if err := e.fillGuards(ctx); err != nil {
		return nil, err
	}
	log.note("write inputs")
	if err := e.submit(ctx, recordings, log); err != nil {
		return nil, err
	}
	if err := e.checkGuards(ctx, symbols); err != nil {
		return nil, err
	}
	for i, x := range e.outputs {
		copy(outputs[i].Bytes, x.host.Bytes()[x.hostAt:])
	}
	result := &runtime.Result{Outputs: map[string]*ir.Data{}}
	for i, port := range e.Outputs() {
		result.Outputs[port.Name] = outputs[i]
	}
	log.note("read outputs")
	if opt.Profile {
		result.Profile, err = e.readProfile(p, symbols, log)
	}
	return result, err
}

// setSymbols writes the params buffer and the symbolic grids, unless they are as they were.
func (e *Executable) setSymbols(symbols map[string]int64) error {
	if e.symbols != nil && maps.Equal(e.symbols, symbols) {
		return nil
	}
	e.symbols = nil // in case it fails halfway
	for i, d := range e.dispatches {
		if !d.symbolic {
			continue
		}
		counts, err := e.program.Steps[i].Grid.Eval(symbols)
		if err != nil {
			return fmt.Errorf("step %s: %w", e.program.Steps[i].Name, err)
		}
		for j, n := range counts {
			binary.NativeEndian.PutUint32(e.indirect.Bytes()[d.offset+4*int64(j):], n)
		}
	}
	for _, b := range e.params {
		for i, s := range e.program.Symbols {
			binary.NativeEndian.PutUint32(b.Bytes()[4*i:], uint32(symbols[s.Name]))
		}
	}
	e.symbols = symbols
	return nil
}

// writeInputs puts the inputs where the device finds them, and returns their lengths.
func (e *Executable) writeInputs(in map[string]*ir.Data) []int64 {
	sizes := make([]int64, len(e.inputs))
	for i, port := range e.Inputs() {
		sizes[i] = int64(copy(e.inputs[i].host.Bytes(), in[port.Name].Bytes))
	}
	return sizes
}

func lengths(list []*ir.Data) []int64 {
	sizes := make([]int64, len(list))
	for i, d := range list {
		sizes[i] = int64(len(d.Bytes))
	}
	return sizes
}

// recordings lists what a run submits.
func (e *Executable) recordings(p *profiler, in, out []int64) ([]*Recording, error) {
	before, err := e.copiesIn.prepare(e, "inputs", e.inputs, in)
	if err != nil {
		return nil, err
	}
	after, err := e.copiesOut.prepare(e, "outputs", e.outputs, out)
	if err != nil {
		return nil, err
	}
	main := e.main
	if p != nil {
		main = p.recording
	}
	list := make([]*Recording, 0, 3)
	for _, r := range []*Recording{before, main, after} {
		if r != nil {
			list = append(list, r)
		}
	}
	return list, nil
}

func (e *Executable) submit(ctx context.Context, recordings []*Recording, log *runLog) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p, err := e.device.Submit(recordings...)
	if err != nil {
		return err
	}
	e.pending = p
	log.note("submit")
	err = e.device.Wait(ctx, p)
	log.note(hostWaits)
	return err
}
