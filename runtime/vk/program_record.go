package vk

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/mailbox"
	"github.com/vkc-go/vkc/runtime"
)

// record makes the bindings, and the recordings that do not depend on a run.
func (e *Executable) record() error {
	var err error
	if e.bindings, err = e.bind(e.ranges, e.keep); err != nil {
		return err
	}
	if err := e.recordGuards(); err != nil {
		return err
	}
	e.recorded.bindings = e.bindings
	e.keep(&e.recorded)
	if e.reset, err = e.recordReset(e.ranges); e.reset != nil {
		e.keep(e.reset)
	}
	return err
}

// recordMain records the steps, unless trip counts depend on a run's symbols.
func (e *Executable) recordMain() error {
	if e.tripsOf(nil) != "" {
		return nil
	}
	_, err := e.mainSteps(nil)
	return err
}

// addressBytes is the size of a buffer's address.
const addressBytes = 8

// bind makes descriptor sets that bind every step's buffers, as given by ranges. It passes every resource it makes to
// keep.
func (e *Executable) bind(ranges []BufferRange, keep func(closer)) (*Bindings, error) {
	addresses, err := e.addresses(ranges, keep)
	if err != nil {
		return nil, err
	}
	sets := make([]BindingSet, len(e.steps))
	for i, s := range e.steps {
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
	bindings.grids = e.indirect
	keep(bindings)
	return bindings, nil
}

// addresses makes a buffer of the addresses of all buffers that kernels access by address. It returns the range of each
// address, by buffer.
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

// recordings caches the recordings of a program for one set of bindings, by trip counts, most recently used first.
type recordings struct {
	bindings *Bindings
	list     []*recorded
}

// recorded holds the recordings for one combination of trip counts. Each is nil before the first run that needs it.
type recorded struct {
	trips   string     // the trip counts that depend on symbols
	main    *Recording // with the copies that every run repeats
	alone   *Recording // without copies
	profile *profiler
	parts   []*Recording // alone, split before each step that reads other devices' values
}

// Close closes all recordings.
func (rs *recordings) Close() error {
	for _, r := range rs.list {
		r.close()
	}
	rs.list = nil
	return nil
}

// close retires the recordings, which cannot fail.
func (r *recorded) close() {
	_ = r.main.Close()
	_ = r.alone.Close()
	for _, part := range r.parts {
		_ = part.Close()
	}
	if r.profile != nil {
		_ = r.profile.recording.Close()
		_ = r.profile.stamps.Close()
	}
}

// maxRecorded bounds the combinations of trip counts that stay recorded.
const maxRecorded = 8

// maxDispatches bounds the dispatches in one recording.
const maxDispatches = 1 << 20

// tripsOf formats the trip counts that depend on symbols. It is empty only if none do.
func (e *Executable) tripsOf(symbols map[string]int64) string {
	text := ""
	for _, r := range e.program.Regions {
		if !r.Trips.IsStatic() {
			trips, err := r.Trips.Eval(symbols)
			text += fmt.Sprintf("%d %t ", trips, err == nil)
		}
	}
	return text
}

// of returns the cache entry for a run with these symbols.
func (rs *recordings) of(e *Executable, symbols map[string]int64) *recorded {
	trips := e.tripsOf(symbols)
	at := slices.IndexFunc(rs.list, func(r *recorded) bool { return r.trips == trips })
	if at < 0 {
		if len(rs.list) == maxRecorded {
			rs.list[maxRecorded-1].close()
			rs.list = rs.list[:maxRecorded-1]
		}
		rs.list = slices.Insert(rs.list, 0, &recorded{trips: trips})
	} else if at > 0 {
		r := rs.list[at]
		copy(rs.list[1:at+1], rs.list[:at])
		rs.list[0] = r
	}
	return rs.list[0]
}

// mainSteps returns the program's recording with the copies that every run repeats.
func (e *Executable) mainSteps(symbols map[string]int64) (_ *Recording, err error) {
	r := e.recorded.of(e, symbols)
	if r.main == nil {
		r.main, err = e.recordSteps("program "+e.program.Name, e.bindings, symbols, nil, e.fixedIn(), e.fixedOut())
	}
	return r.main, err
}

// stepsOn returns a recording of the steps without copies, for runs with device tensors or with their own states. A nil
// own means the program's states.
func (e *Executable) stepsOn(own *states, symbols map[string]int64) (_ *Recording, err error) {
	rs := &e.recorded
	if own != nil {
		rs = &own.recorded
	} else if len(e.fixedIn())+len(e.fixedOut()) == 0 {
		return e.mainSteps(symbols)
	}
	r := rs.of(e, symbols)
	if r.alone == nil {
		r.alone, err = e.recordSteps("steps of "+e.program.Name, rs.bindings, symbols, nil, nil, nil)
	}
	return r.alone, err
}

// partsOn is stepsOn split into parts, for a run in which the host acts after each exchange between devices.
func (e *Executable) partsOn(own *states, symbols map[string]int64) (_ []*Recording, err error) {
	rs := &e.recorded
	if own != nil {
		rs = &own.recorded
	}
	r := rs.of(e, symbols)
	if r.parts == nil {
		steps, err := e.joined(symbols)
		if err != nil {
			return nil, err
		}
		var parts []*Recording
		for len(steps) > 0 {
			n := 1
			for n < len(steps) && !mailbox.Meets(e.steps[steps[n]].Ops) {
				n++
			}
			var part *Recording
			if part, err = e.recordList("part of "+e.program.Name, rs.bindings, steps[:n], nil, nil, nil); err != nil {
				(&recorded{parts: parts}).close()
				return nil, err
			}
			part.ends = n < len(steps)
			parts, steps = append(parts, part), steps[n:]
		}
		r.parts = parts
	}
	return r.parts, nil
}

// ran lists the steps of a run in the order of execution, with loop bodies repeated.
func (e *Executable) ran(symbols map[string]int64) (list []int, err error) {
	rounds := 0
	e.program.Walk(e.program.Prepared, func(i int) { list = append(list, i) }, func(r kernel.Region, body func()) {
		trips, wrong := r.Trips.Eval(symbols)
		if wrong != nil && err == nil {
			err = wrong
		}
		for range trips {
			if err != nil {
				return
			}
			rounds++
			if body(); max(len(list), rounds) > maxDispatches && err == nil {
				err = fmt.Errorf("loops of %d trips make a run of more than %d dispatches, the limit: have them "+
					"do more in a trip, or give them lower bounds", trips, maxDispatches)
			}
		}
	})
	return list, err
}

// joined lists the dispatches of a run: the steps of ran, or the persistent kernels that replace some of them.
func (e *Executable) joined(symbols map[string]int64) ([]int, error) {
	steps, err := e.ran(symbols)
	if err == nil && e.stats.Persistent > 0 {
		steps = e.program.Joined(steps)
	}
	return steps, err
}

// recordSteps records the steps of a run on the buffers of bindings, between the copies in before and after. symbols
// determine the trip counts. With stamps, which needs one slot more than there are steps, every step runs alone and is
// timed: slot i is the start of the i-th step, and slot i+1 its end.
func (e *Executable) recordSteps(name string, bindings *Bindings, symbols map[string]int64, stamps *Timestamps,
	before, after []bufferCopy) (*Recording, error) {
	list := e.joined
	if stamps != nil {
		list = e.ran
	}
	steps, err := list(symbols)
	if err != nil {
		return nil, err
	}
	return e.recordList(name, bindings, steps, stamps, before, after)
}

// recordList records a list of dispatches.
func (e *Executable) recordList(name string, bindings *Bindings, steps []int, stamps *Timestamps,
	before, after []bufferCopy) (*Recording, error) {
	borders := e.program.Borders()
	c := e.device.NewCommandList()
	c.grouped = stamps == nil
	if stamps != nil {
		c.ResetTimestamps(stamps)
	}
	if len(before) > 0 {
		c.copyAll(before)
		c.Barrier(StageTransfer, StageCompute|StageIndirect)
	}
	if stamps != nil {
		c.Timestamp(stamps, 0)
	}
	for n, i := range steps {
		switch {
		case n > 0 && e.gatedGrids != nil && (borders[i] || stamps != nil):
			// Gates write the counts that indirect dispatches read.
			c.Barrier(StageCompute|StageIndirect, StageCompute|StageIndirect)
		case e.waitsForRoom(n, i), n > 0 && (e.steps[i].Barrier || stamps != nil):
			c.Barrier(StageCompute, StageCompute)
		}
		if mailbox.Meets(e.steps[i].Ops) { // other devices read the results of earlier steps
			c.Barrier(StageCompute, StageCompute|StageHost)
		}
		e.recordStep(c, bindings, i)
		if stamps != nil {
			c.Timestamp(stamps, n+1)
		}
	}
	if len(after) > 0 {
		c.Barrier(StageCompute, StageTransfer)
		c.copyAll(after)
	}
	if e.between != nil { // other devices read the kernels' results
		c.Barrier(StageCompute, StageHost)
	}
	r, err := e.device.Record(name, c)
	if err != nil {
		return nil, err
	}
	e.recordings.Add(1)
	return r, nil
}

func (e *Executable) recordStep(c *CommandList, bindings *Bindings, i int) {
	c.BindPipeline(e.pipelines[e.steps[i].Shader])
	c.Bind(bindings, i)
	d := e.dispatches[i]
	switch {
	case d.gated:
		c.DispatchIndirect(e.gatedGrids, d.offset)
	case d.symbolic && bindings.symbols == nil:
		c.DispatchIndirect(bindings.grids, bindings.gridsAt+d.offset)
	default:
		counts := d.counts
		if d.symbolic {
			var err error
			if counts, err = e.steps[i].Grid.Eval(bindings.symbols); err != nil {
				c.fail("step %s: %w", e.steps[i].Name, err)
			}
		}
		if counts[0] > 0 && counts[1] > 0 && counts[2] > 0 {
			c.Dispatch(counts[0], counts[1], counts[2])
		}
	}
}

// recordReset records the zeroing of all states in ranges. It returns nil if there are none.
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

// rerecord replaces the commands of a recording. The device must have finished it.
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
