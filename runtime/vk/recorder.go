package vk

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/internal/mailbox"
	"github.com/vkc-go/vkc/runtime"
)

// recorder makes the recordings of a program's steps.
type recorder struct {
	programMemory
	machine        device.Machine // LoadOptions.Machine: the device's peak rates
	steps          []kernel.Step  // the program's steps, then the dispatches of persistent kernels
	pipelines      []*Pipeline    // by shader; nil if no step uses it
	grids          grids
	timeouts       [][]byte     // words that persistent kernels set when their workgroups wait too long
	own            *states      // the program's own states
	guard          *Recording   // writes the guards' pattern into and around outputs; nil without guards
	recordingCount atomic.Int64 // Stats.Recordings
}

// recordEarly makes the recording of the steps on states s before a run needs it, unless it depends on a run's symbols.
func (rec *recorder) recordEarly(s *states) {
	if rec.pathOf(nil) == "" {
		rec.stepsOn(s, nil)
	}
}

// addressBytes is the size of a buffer's address.
const addressBytes = 8

// bind makes a descriptor set for each step, which binds the step's buffers to memory. ranges has the memory of each of
// the program's buffers. bind appends the resources that it makes to made.
func (rec *recorder) bind(ranges []BufferRange, made *resources) *Bindings {
	addresses := rec.addresses(ranges, made)
	sets := make([]BindingSet, len(rec.steps))
	for i, s := range rec.steps {
		sets[i].Name = s.Name
		for _, b := range s.Binds {
			bound := ranges[b.Buffer]
			if b.Address {
				bound = addresses[b.Buffer]
			}
			sets[i].Buffers = append(sets[i].Buffers, bound)
		}
	}
	bindings := bailout.Must(rec.device.NewBindings(sets))
	bindings.grids = rec.grids.symbolicCounts
	made.keep(bindings)
	return bindings
}

// addresses makes a buffer with the addresses of all buffers that kernels access by address. It returns the range of
// each address in that buffer, by index of the buffer that it points to.
func (rec *recorder) addresses(ranges []BufferRange, made *resources) map[int]BufferRange {
	at := map[int]BufferRange{}
	// A binding must begin at a multiple of StorageAlignment.
	stride := max(int64(rec.device.info.Caps.StorageAlignment), addressBytes)
	for _, s := range rec.program.Steps {
		for _, b := range s.Binds {
			if _, known := at[b.Buffer]; b.Address && !known {
				at[b.Buffer] = BufferRange{Offset: stride * int64(len(at)), Size: addressBytes}
			}
		}
	}
	if len(at) == 0 {
		return nil
	}
	list := bailout.Must(rec.device.newBuffer(runtime.OwnOther, "addresses", stride*int64(len(at)), SharedMemory))
	made.keep(list)
	for i, r := range at {
		r.Buffer = list
		at[i] = r
		binary.NativeEndian.PutUint64(list.Bytes()[r.Offset:], ranges[i].Buffer.Address()+uint64(ranges[i].Offset))
	}
	return at
}

// recordings is a cache of recordings of a program with the same bindings. list has an element for each path (see
// pathOf), most recently used first.
type recordings struct {
	bindings *Bindings
	list     []*recorded
}

// recorded has the recordings for one path. Each is made for the first run that needs it.
type recorded struct {
	path    string     // see pathOf
	steps   *Recording // the steps of a run
	profile *profiler
	parts   []*Recording // the steps, split before each step that reads other devices' values
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
	for _, made := range append(r.parts, r.steps) {
		_ = made.Close()
	}
	if r.profile != nil {
		_ = r.profile.recording.Close()
		_ = r.profile.stamps.Close()
	}
}

// maxRecorded is the largest number of paths in the cache.
const maxRecorded = 8

// maxDispatches is the largest number of dispatches in one recording.
const maxDispatches = 1 << 20

// pathOf returns the path of a run through the program, as a key: the trip counts that depend on symbols, and which
// steps run an alternative, a kernel for small values of a symbol. A recording is for one path. pathOf returns "" if
// there is only one.
func (rec *recorder) pathOf(symbols map[string]int64) string {
	var text []byte
	for _, r := range rec.program.Regions {
		if !r.Trips.IsStatic() {
			trips, err := r.Trips.Eval(symbols)
			text = fmt.Appendf(text, "%d %t ", trips, err == nil)
		}
	}
	for _, s := range rec.grids.bounds {
		within, err := s.Within(symbols)
		text = fmt.Appendf(text, "%t %t ", within, err == nil)
	}
	return string(text)
}

// find returns the cache's element for a path, and adds one if there is none. If the cache is full, it drops the least
// recently used element.
func (rs *recordings) find(path string) *recorded {
	at := slices.IndexFunc(rs.list, func(r *recorded) bool { return r.path == path })
	if at < 0 {
		if len(rs.list) == maxRecorded {
			rs.list[maxRecorded-1].close()
			rs.list = rs.list[:maxRecorded-1]
		}
		at = len(rs.list)
		rs.list = append(rs.list, &recorded{path: path})
	}
	toFront(rs.list, at)
	return rs.list[0]
}

// toFront moves element at to the front of a list.
func toFront[T any](list []T, at int) {
	x := list[at]
	copy(list[1:at+1], list[:at])
	list[0] = x
}

// stepsOn returns a recording of the steps on states s.
func (rec *recorder) stepsOn(s *states, symbols map[string]int64) *Recording {
	r := s.find(rec.pathOf(symbols))
	if r.steps == nil {
		r.steps = rec.recordSteps("steps of "+rec.program.Name, s.bindings, symbols, nil)
	}
	return r.steps
}

// partsOn is stepsOn split into parts, for a run in which the host acts at each exchange between devices.
func (rec *recorder) partsOn(s *states, symbols map[string]int64) []*Recording {
	r := s.find(rec.pathOf(symbols))
	if r.parts != nil {
		return r.parts
	}
	steps := rec.dispatches(symbols)
	var parts []*Recording
	for len(steps) > 0 {
		n := 1
		// A part ends before each collective.
		for n < len(steps) && !mailbox.HasCollective(rec.steps[steps[n]].Ops) {
			n++
		}
		c := rec.device.NewCommandList()
		c.grouped = true
		rec.recordList(c, s.bindings, symbols, steps[:n], nil)
		c.Barrier(StageCompute, StageHost) // other devices read the kernels' results
		part, err := rec.finish("part of "+rec.program.Name, c)
		if err != nil {
			(&recorded{parts: parts}).close()
			bailout.Check(err)
		}
		part.hostNext = n < len(steps)
		parts, steps = append(parts, part), steps[n:]
	}
	r.parts = parts
	return parts
}

// unrolled returns the indices of a run's steps in the order of execution, with the bodies of loops repeated. symbols
// determine the trip counts.
func (rec *recorder) unrolled(symbols map[string]int64) (list []int) {
	total := 0 // trips, which also count if the loop's body has no steps
	step := func(i int) { list = append(list, i) }
	rec.program.Walk(rec.program.Prepared, step, func(r kernel.Region, body func()) {
		trips := bailout.Must(r.Trips.Eval(symbols))
		for range trips {
			total++
			body()
			if max(len(list), total) > maxDispatches {
				bailout.Check(fmt.Errorf("loops of %d trips make a run of more than %d dispatches, the limit: have "+
					"them do more in a trip, or give them lower bounds", trips, maxDispatches))
			}
		}
	})
	return list
}

// dispatches returns the dispatches of a run, as indices of rec.steps: like unrolled, but with persistent kernels in
// place of the steps that they replace.
func (rec *recorder) dispatches(symbols map[string]int64) []int {
	steps := rec.unrolled(symbols)
	if rec.stats.Persistent > 0 {
		steps = rec.program.UsePersistent(steps)
	}
	return steps
}

// recordSteps makes a recording of the copies in before, and then of the dispatches of a run with the given bindings.
// symbols are the values of a run on the recording's path (see pathOf).
func (rec *recorder) recordSteps(name string, bindings *Bindings, symbols map[string]int64,
	before []bufferCopy) *Recording {
	steps := rec.dispatches(symbols)
	c := rec.device.NewCommandList()
	c.grouped = true
	if len(before) > 0 {
		c.copyAll(before)
		c.Barrier(StageTransfer, StageCompute|StageIndirect)
	}
	rec.recordList(c, bindings, symbols, steps, nil)
	return bailout.Must(rec.finish(name, c))
}

// finish makes a recording of c, like Device.Record, and counts it in the statistics.
func (rec *recorder) finish(name string, c *CommandList) (*Recording, error) {
	r, err := rec.device.Record(name, c)
	if err == nil {
		rec.recordingCount.Add(1)
	}
	return r, err
}

// recordList adds dispatches, and the barriers between them, to c. steps has their indices in rec.steps. symbols
// determine their kernels. If stamps is not nil, every dispatch runs alone and is timed: slot i of stamps is the start
// of the i-th dispatch, and slot i+1 its end.
func (rec *recorder) recordList(c *CommandList, bindings *Bindings, symbols map[string]int64, steps []int,
	stamps *Timestamps) {
	alone := stamps != nil
	if alone {
		c.ResetTimestamps(stamps)
		c.Timestamp(stamps, 0)
	}
	borders := rec.program.Borders()
	for n, i := range steps {
		switch {
		case n > 0 && rec.grids.gatedCounts != nil && (borders[i] || alone):
			// Gate steps write the workgroup counts that indirect dispatches read.
			c.Barrier(StageCompute|StageIndirect, StageCompute|StageIndirect)
		case rec.waitsForRoom(n, i), n > 0 && (rec.steps[i].Barrier || alone):
			c.Barrier(StageCompute, StageCompute)
		}
		if mailbox.HasCollective(rec.steps[i].Ops) { // other devices read the results of earlier steps
			c.Barrier(StageCompute, StageCompute|StageHost)
		}
		rec.recordStep(c, bindings, symbols, i)
		if alone {
			c.Timestamp(stamps, n+1)
		}
	}
}

// recordStep adds the dispatch of step i to c. symbols determine its kernel. If its workgroup counts depend on symbols,
// or on a while loop, the device reads them from a buffer, unless the recording is for fixed symbols.
func (rec *recorder) recordStep(c *CommandList, bindings *Bindings, symbols map[string]int64, i int) {
	step, err := rec.steps[i].For(symbols)
	if err != nil {
		c.fail("step %s: %w", step.Name, err)
		return
	}
	c.BindPipeline(rec.pipelines[step.Shader])
	c.Bind(bindings, i)
	d := rec.grids.list[i]
	switch {
	case d.gated: // in a while loop: a gate step sets the counts to 0 after the last trip
		c.DispatchIndirect(rec.grids.gatedCounts, d.offset)
	case d.symbolic && bindings.symbols == nil: // the recording is for all values of symbols
		c.DispatchIndirect(bindings.grids, bindings.gridsAt+d.offset)
	default:
		counts := d.counts
		if d.symbolic {
			if counts, err = rec.groups(i, bindings.symbols); err != nil {
				c.fail("%w", err)
			}
		}
		if counts[0] > 0 && counts[1] > 0 && counts[2] > 0 { // otherwise the step has nothing to do
			c.Dispatch(counts[0], counts[1], counts[2])
		}
	}
}

// runOnce runs commands once and waits for them. record adds the commands to c.
func (d *Device) runOnce(ctx context.Context, name string, record func(c *CommandList)) error {
	c := d.NewCommandList()
	record(c)
	r, err := d.Record(name, c)
	if err != nil {
		return err
	}
	defer r.Close()
	return d.Run(ctx, r)
}
