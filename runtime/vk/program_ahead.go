package vk

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// maxAhead is how many runs of a program that nobody has waited for the device may have at a time.
const maxAhead = 8

// ahead is what a run takes that is not waited for. Runs before it may be under way, so that the host writes nothing
// that they read: what is to change between them is in a recording, and changes on the device.
type ahead struct {
	before, after *Recording
	busy          Point // the device uses the recordings until then
}

// goesAhead reports whether a run is not waited for: all its outputs stay on the device, recordings have room for
// what the host gives it, and no op of it may fail.
func (e *Executable) goesAhead(in map[string]*ir.Data, opt runtime.RunOptions, kept []*Buffer) bool {
	if opt.Profile || len(e.program.Faults) > 0 || e.guards != nil || e.indirect != nil && e.indirect.size > maxUpdate {
		return false
	}
	for _, b := range kept {
		if b == nil {
			return false
		}
	}
	for _, d := range in {
		if len(d.Bytes)%4 != 0 || len(d.Bytes) > maxUpdate {
			return false
		}
	}
	return len(kept) > 0
}

// runAhead submits a run, once the one that was submitted maxAhead before it is done.
func (e *Executable) runAhead(ctx context.Context, in map[string]*ir.Data, there map[string]*runtime.DeviceTensor,
	outputs []runtime.Output, from, kept []*Buffer, symbols map[string]int64) (*runtime.Result, error) {
	a := &e.ahead[e.nextAhead]
	if err := e.device.Wait(ctx, a.busy); err != nil {
		return nil, err
	}
	main, err := e.stepsAlone()
	if err != nil {
		return nil, err
	}
	before, after := e.device.NewCommandList(), e.device.NewCommandList()
	if err := e.updateSymbols(before, symbols); err != nil {
		return nil, err
	}
	sizes := make([]int64, len(e.inputs)) // of what lies on the device
	for i, port := range e.Inputs() {
		if t := there[port.Name]; t != nil {
			sizes[i] = t.Size()
		} else if d := in[port.Name]; len(d.Bytes) > 0 {
			before.UpdateBuffer(e.inputs[i].own, e.inputs[i].ownAt, d.Bytes)
			e.device.traffic.in.Add(uint64(len(d.Bytes)))
		}
	}
	before.copyAll(e.copiesBefore(sizes, from, true))
	after.copyAll(e.copiesAfter(outputs, kept, true))
	if err := e.replace(&a.before, "inputs", before); err != nil {
		return nil, err
	}
	if err := e.replace(&a.after, "outputs", after); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e.symbols = nil // in case it fails
	if e.pending, err = e.device.Submit(a.before, main, a.after); err != nil {
		return nil, err
	}
	a.busy, e.symbols = e.pending, symbols
	e.nextAhead = (e.nextAhead + 1) % maxAhead
	result := &runtime.Result{}
	return result, e.readOutputs(result, outputs, kept)
}

// replace records a list in place of what a recording does, with which the device is done, or makes one.
func (e *Executable) replace(r **Recording, name string, c *CommandList) (err error) {
	if *r != nil {
		return (*r).rerecord(c)
	}
	if *r, err = e.device.Record(name, c); err == nil {
		e.keep(*r)
	}
	return err
}

// updateSymbols is setSymbols on the device, after the runs that it has.
func (e *Executable) updateSymbols(c *CommandList, symbols map[string]int64) error {
	if e.hasSymbols(symbols) {
		return nil
	}
	if e.indirect != nil {
		grids := make([]byte, e.indirect.size)
		if err := e.putGrids(grids, symbols); err != nil {
			return err
		}
		c.UpdateBuffer(e.indirect, 0, grids)
	}
	for _, b := range e.params {
		if len(e.program.Symbols) > 0 {
			values := make([]byte, 4*len(e.program.Symbols))
			e.putSymbols(values, symbols)
			c.UpdateBuffer(b, 0, values)
		}
	}
	return nil
}

// putGrids writes the workgroup counts of steps whose grids depend on symbols.
func (e *Executable) putGrids(to []byte, symbols map[string]int64) error {
	for i, d := range e.dispatches {
		if !d.symbolic {
			continue
		}
		counts, err := e.program.Steps[i].Grid.Eval(symbols)
		if err != nil {
			return fmt.Errorf("step %s: %w", e.program.Steps[i].Name, err)
		}
		for j, n := range counts {
			binary.NativeEndian.PutUint32(to[d.offset+4*int64(j):], n)
		}
	}
	return nil
}

// putSymbols writes the values of symbols as kernels read them.
func (e *Executable) putSymbols(to []byte, symbols map[string]int64) {
	for i, s := range e.program.Symbols {
		binary.NativeEndian.PutUint32(to[4*i:], uint32(symbols[s.Name]))
	}
}
