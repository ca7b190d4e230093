package vk

import (
	"encoding/binary"
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/runtime"
)

// record makes the bindings and the recordings that do not depend on a run.
func (e *Executable) record() error {
	var err error
	if e.bindings, err = e.bind(e.ranges, e.keep); err != nil {
		return err
	}
	if err := e.recordGuards(); err != nil {
		return err
	}
	if e.main, err = e.recordSteps("program "+e.program.Name, e.bindings, nil, true); err != nil {
		return err
	}
	e.keep(e.main)
	if len(fixedCopies(e.inputs, (*endpoint).upload))+len(fixedCopies(e.outputs, (*endpoint).download)) == 0 {
		e.alone = e.main
	}
	if e.reset, err = e.recordReset(e.ranges); e.reset != nil {
		e.keep(e.reset)
	}
	return err
}

// addressBytes is the size of a buffer's address.
const addressBytes = 8

// bind gives every step its buffers, of which ranges has the places. keep is told of all that it makes.
func (e *Executable) bind(ranges []BufferRange, keep func(closer)) (*Bindings, error) {
	addresses, err := e.addresses(ranges, keep)
	if err != nil {
		return nil, err
	}
	sets := make([]BindingSet, len(e.program.Steps))
	for i, s := range e.program.Steps {
		sets[i].Name = s.Name
		for _, b := range s.Binds {
			bound := ranges[b.Buffer]
			if b.Address {
				bound = addresses[b.Buffer]
			}
			sets[i].Buffers = append(sets[i].Buffers, bound)
		}
	}
	bindings, err := e.device.NewBindings(sets)
	if err != nil {
		return nil, err
	}
	keep(bindings)
	return bindings, nil
}

// addresses makes a buffer of the addresses of those that steps are given so, and says where each one's lies.
func (e *Executable) addresses(ranges []BufferRange, keep func(closer)) (map[int]BufferRange, error) {
	at := map[int]BufferRange{}
	stride := max(int64(e.device.info.Caps.StorageAlignment), addressBytes)
	for _, s := range e.program.Steps {
		for _, b := range s.Binds {
			if _, known := at[b.Buffer]; b.Address && !known {
				at[b.Buffer] = BufferRange{Offset: stride * int64(len(at)), Size: addressBytes}
			}
		}
	}
	if len(at) == 0 {
		return nil, nil
	}
	made, err := e.device.newBuffer(runtime.OwnOther, "addresses", stride*int64(len(at)), SharedMemory)
	if err != nil {
		return nil, err
	}
	keep(made)
	for i, r := range at {
		r.Buffer = made
		at[i] = r
		binary.NativeEndian.PutUint64(made.Bytes()[r.Offset:], ranges[i].Buffer.Address()+uint64(ranges[i].Offset))
	}
	return at, nil
}

// stepsAlone returns the program's recording without the copies that are the same in every run, for runs whose
// inputs or outputs are elsewhere. It is made on first use, where there are such copies.
func (e *Executable) stepsAlone() (_ *Recording, err error) {
	if e.alone == nil {
		if e.alone, err = e.recordSteps("steps of "+e.program.Name, e.bindings, nil, false); err == nil {
			e.keep(e.alone)
		}
	}
	return e.alone, err
}

// recordSteps records the program: the steps of a run on the buffers that bindings have, and with fixed the copies
// around them that are the same in every run.
// With stamps, of one more than there are such steps, every step runs by itself and is timed: slot i is the
// time when the i-th begins, and slot i+1 when it is done.
func (e *Executable) recordSteps(name string, bindings *Bindings, stamps *Timestamps,
	fixed bool) (*Recording, error) {
	c := e.device.NewCommandList()
	if stamps != nil {
		c.ResetTimestamps(stamps)
	}
	if list := fixedCopies(e.inputs, (*endpoint).upload); fixed && len(list) > 0 {
		c.copyAll(list)
		c.Barrier(StageTransfer, StageCompute)
	}
	if stamps != nil {
		c.Timestamp(stamps, 0)
	}
	first := e.program.Prepared
	for i := first; i < len(e.program.Steps); i++ {
		if i > first && (e.program.Steps[i].Barrier || stamps != nil) {
			c.Barrier(StageCompute, StageCompute)
		}
		e.recordStep(c, bindings, i)
		if stamps != nil {
			c.Timestamp(stamps, i-first+1)
		}
	}
	if list := fixedCopies(e.outputs, (*endpoint).download); fixed && len(list) > 0 {
		c.Barrier(StageCompute, StageTransfer)
		c.copyAll(list)
	}
	r, err := e.device.Record(name, c)
	if err != nil {
		return nil, err
	}
	e.recorded.Add(1)
	return r, nil
}

func (e *Executable) recordStep(c *CommandList, bindings *Bindings, i int) {
	c.BindPipeline(e.pipelines[e.program.Steps[i].Shader])
	c.Bind(bindings, i)
	d := e.dispatches[i]
	switch {
	case d.symbolic:
		c.DispatchIndirect(e.indirect, d.offset)
	case d.counts[0] > 0 && d.counts[1] > 0 && d.counts[2] > 0:
		c.Dispatch(d.counts[0], d.counts[1], d.counts[2])
	}
}

// recordReset records the zeroing of all states, of which ranges has the places; nil where there are none.
func (e *Executable) recordReset(ranges []BufferRange) (*Recording, error) {
	c := e.device.NewCommandList()
	states := 0
	for i, b := range e.program.Buffers {
		if b.Kind == kernel.BufState {
			c.FillBuffer(ranges[i].Buffer, ranges[i].Offset, b.Bytes, 0)
			states++
		}
	}
	if states == 0 {
		return nil, nil
	}
	return e.device.Record(fmt.Sprintf("reset of %s", e.program.Name), c)
}

// rerecord replaces what a recording does. The device must be done with it.
func (r *Recording) rerecord(c *CommandList) error {
	if c.err != nil {
		return c.err
	}
	if err := r.device.checkResult(r.device.native.record(r.pool, r.buffer, c.finished(), false), "record %s",
		r.name); err != nil {
		return err
	}
	r.users = r.users[:0]
	for u := range c.users {
		r.users = append(r.users, u)
	}
	return nil
}
