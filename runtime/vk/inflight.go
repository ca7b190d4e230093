package vk

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

const (
	// maxInFlight bounds the asynchronous runs of a program that are in flight.
	maxInFlight = 32
	// Inputs of up to smallGiven bytes use a preallocated buffer, in device memory if the host can map it.
	smallGiven = 64 << 10
	// maxGiven bounds the memory for larger inputs of all runs in flight, in bytes. If maxInFlight runs need more,
	// fewer are in flight. One run may use half of it, so that two can overlap.
	maxGiven = 128 << 20
	// Kept outputs of up to reusedKept bytes reuse the memory that the same element of the ring used before, because an
	// allocation costs as much as submitting a run.
	reusedKept = 1 << 20
	// Kept outputs of up to sharedKept bytes reuse memory shared by all runs, if it is free. Larger sizes are not kept
	// maxInFlight times.
	sharedKept = 64 << 20
	// maxBound bounds the recordings per element of the ring, one for each combination of tensors. The first decoding
	// step of a sequence takes other token buffers than later steps, for example.
	maxBound = 4
)

// inFlight holds the resources of the runs that the device may not have finished. Asynchronous runs use the elements of
// the ring in rotation.
type inFlight struct {
	last  Point // the last submission of the program
	ring  [maxInFlight]asyncRun
	next  int   // the element of the next run
	count int   // asynchronous runs since the queue was last drained
	given int64 // bytes allocated for larger inputs in all elements
	kept  slots // of outputs, by port, shared by all elements: see sharedKept
}

// asyncRun holds the resources of one asynchronous run. Earlier runs may still be in flight, so the host must not write
// memory that they read. It writes to the run's own memory, and the device copies larger inputs from there while
// earlier runs execute. A run whose copies have the same sources and destinations as maxInFlight runs earlier allocates
// and records nothing.
type asyncRun struct {
	host          *Buffer   // small inputs, symbols and grids; nil before the first run
	large         []*Buffer // larger inputs on the device, by port; nil if no run has had one. See capacities.
	kept          slots     // memory of outputs, by port
	before, after copies
	bound         []*bound // at most maxBound, most recently used first
	key           boundKey // of the run being prepared
	busy          Point    // the resources are in use until this point
}

// slot is reusable memory for a kept output. After the tensor is closed, a later run may store another tensor there.
// That is safe because the device executes runs in order, so earlier readers of the tensor come first.
type slot struct {
	*Buffer
	state atomic.Int32
}

// The states of a slot.
const (
	slotFree    int32 = iota // free for any run
	slotTaken                // a tensor uses it
	slotDropped              // a tensor uses it, and frees it when closed
)

// Close releases the slot on behalf of the tensor.
func (s *slot) Close() error {
	if s.state.CompareAndSwap(slotTaken, slotFree) {
		return nil
	}
	return s.Buffer.Close()
}

// drop gives up the slot: no later run will use it. If a tensor uses it, the tensor frees it.
func (s *slot) drop() error {
	if s == nil || s.state.CompareAndSwap(slotTaken, slotDropped) {
		return nil
	}
	return s.Buffer.Close()
}

// slots holds the slots of outputs, by port; nil for none.
type slots []*slot

// Close implements closer.
func (list slots) Close() error {
	for _, s := range list {
		s.drop() // retires it, which cannot fail
	}
	return nil
}

// Close frees the resources on behalf of the executable.
func (a *asyncRun) Close() error {
	_ = a.kept.Close()
	a.kept = nil
	for _, b := range a.bound {
		_ = b.Close() // retires it, which cannot fail
	}
	a.bound = nil
	a.dropLarge()
	return nil
}

// dropLarge frees the memory of larger inputs after the work submitted so far has finished.
func (a *asyncRun) dropLarge() {
	for _, b := range a.large {
		b.Close() // retires it, which cannot fail
	}
	a.large = nil
}

// isAsync reports whether a run is asynchronous: all of its outputs stay on the device, its inputs fit, and neither its
// ops nor an exchange between devices can fail.
func (e *Executable) isAsync(j *job) bool {
	if j.profiled || j.between != nil || e.guarded || len(e.program.Faults) > 0 {
		return false
	}
	onHost := func(x runtime.Output) bool { return !x.Keep }
	return len(j.outputs) > 0 && !slices.ContainsFunc(j.outputs, onHost) &&
		largeGiven(j.in) <= e.device.maxGiven()/2
}

func (d *Device) maxGiven() int64 { return cmp.Or(d.options.givenBytes, maxGiven) }

// largeGiven is the space that the larger inputs need, in bytes.
func largeGiven(in map[string]*ir.Data) int64 {
	size := int64(0)
	for _, d := range in {
		if n := int64(len(d.Bytes)); n > smallGiven {
			size += aligned(n)
		}
	}
	return size
}

// capacities returns the space that each larger input needs, by port; nil if all inputs are small. If the memory allows
// it, an input gets its maximum size, so that kernels may read it in place.
func (e *Executable) capacities(in map[string]*ir.Data) []int64 {
	given := largeGiven(in)
	if given == 0 {
		return nil
	}
	n := len(e.program.Inputs)
	exact, whole, all := make([]int64, n), make([]int64, n), int64(0)
	for i, port := range e.program.Inputs {
		if d := in[port.Name]; d != nil && int64(len(d.Bytes)) > smallGiven {
			exact[i], whole[i] = int64(len(d.Bytes)), e.input(i).Bytes
			all += aligned(whole[i])
		}
	}
	if all <= e.device.maxGiven()/2 {
		return whole
	}
	return exact
}

// lacks is the number of bytes that a must allocate for larger inputs of these capacities.
func (a *asyncRun) lacks(capacities []int64) (n int64) {
	for i, size := range capacities {
		if a.large == nil || a.large[i] == nil {
			n += size
		} else {
			n += max(size-a.large[i].size, 0)
		}
	}
	return n
}

// acquire returns the resources for a run with larger inputs of these capacities. Runs take the elements of the ring in
// rotation. The rotation restarts at element 0 in two cases:
//
//   - The next element would exceed the memory for larger inputs. If element 0 does too, all of that memory is freed
//     first.
//   - Several runs were in flight, the queue has drained, and all outputs of element 0 are closed. The next answer of
//     a language model then reuses the recordings of the answer before.
func (f *inFlight) acquire(d *Device, capacities []int64) *asyncRun {
	fits := func() bool { return f.given+f.ring[f.next].lacks(capacities) <= d.maxGiven() }
	again := false
	if d.knownDone(f.last) {
		again, f.count = f.count > 1 && f.ring[0].isFree(), 0
	}
	if f.count++; again || !fits() {
		f.next = 0
	}
	if !fits() {
		for i := range f.ring {
			f.ring[i].dropLarge()
		}
		f.given = 0
	}
	return &f.ring[f.next]
}

// isFree reports whether all tensors in the element's slots are closed.
func (a *asyncRun) isFree() bool {
	return !slices.ContainsFunc(a.kept, func(s *slot) bool { return s != nil && s.state.Load() != slotFree })
}

// runAsync submits a run after the earlier run with the same resources is done.
func (e *Executable) runAsync(ctx context.Context, j *job) (_ *runtime.Result, err error) {
	capacities := e.capacities(j.in)
	a := e.inFlight.acquire(e.device, capacities)
	if err := errors.Join(e.device.Wait(ctx, a.busy), e.timedOut()); err != nil {
		return nil, err
	}
	if j.kept, err = a.keep(e, j.outputs); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			closeAll(j.kept)
		}
	}()
	if err := a.uploadLarge(ctx, e, j, capacities); err != nil {
		return nil, err
	}
	given, err := a.writeSmall(e, j)
	if err != nil {
		return nil, err
	}
	list, bound, err := a.recordings(e, given, j)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e.grids.now = nil // in case it fails
	submit := e.device.Submit
	if j.more {
		submit = e.device.Gather
	}
	p, err := submit(list...)
	if err != nil {
		return nil, err // earlier submissions may still be in flight
	}
	if e.inFlight.last, a.busy = p, p; !bound {
		e.grids.now = j.symbols
	}
	e.inFlight.next = (e.inFlight.next + 1) % maxInFlight
	result := &runtime.Result{}
	return result, e.readOutputs(result, j)
}

// recordings returns a run's recordings. If the run's tensors are at the same addresses as in an earlier run, it is one
// recording bound to their memory. Otherwise it is the program's own steps between copies in and out.
func (a *asyncRun) recordings(e *Executable, given []bufferCopy, j *job) (list []*Recording, bound bool, err error) {
	if r, err := a.steps(e, given, j); r != nil || err != nil {
		return []*Recording{r}, true, err
	}
	main, err := e.stepsOn(j.states, j.symbols)
	if err != nil {
		return nil, false, err
	}
	before, err := a.before.prepare(&e.programMemory, "inputs", given)
	if err != nil {
		return nil, false, err
	}
	after, err := a.after.prepare(&e.programMemory, "outputs", e.copiesAfter(j.outputs, j.kept, true))
	if err != nil {
		return nil, false, err
	}
	return present(before, main, after), false, err
}

// uploadLarge starts the uploads of larger inputs into device buffers. From then on the run treats them as device
// tensors.
func (a *asyncRun) uploadLarge(ctx context.Context, e *Executable, j *job, capacities []int64) error {
	if capacities == nil {
		return nil
	}
	j.from = slices.Clone(j.from)
	if a.large == nil {
		a.large = make([]*Buffer, len(j.from))
	}
	for i, port := range e.program.Inputs {
		if capacities[i] == 0 {
			continue
		}
		if b := a.large[i]; b == nil || b.size < capacities[i] {
			if b != nil {
				e.inFlight.given -= b.size
				b.Close() // retires it, which cannot fail
			}
			var err error
			if a.large[i], err = e.device.newBuffer(runtime.OwnStaging, "input "+port.Name+" of a run", capacities[i],
				DeviceMemory); err != nil {
				return err
			}
			e.inFlight.given += a.large[i].size
		}
		j.from[i] = a.large[i]
		if err := e.device.fill(ctx, j.from[i], 0, j.in[port.Name].Bytes); err != nil {
			return err
		}
	}
	return nil
}

// writeSmall writes the run's small inputs, symbols and grids into host memory, and lists the copies to the kernels'
// buffers. Small inputs are copied at their maximum size, so that the copies do not depend on the length.
func (a *asyncRun) writeSmall(e *Executable, j *job) (list []bufferCopy, err error) {
	if err := a.open(e); err != nil {
		return nil, err
	}
	at := int64(0)
	put := func(to *Buffer, toAt, size int64) []byte {
		memory := a.host.Bytes()[at:][:size]
		list = append(list, bufferCopy{to, toAt, a.host, at, size})
		at += e.device.alignBinding(size)
		return memory
	}
	sizes := make([]int64, len(e.program.Inputs)) // sizes of the inputs that are on the device
	for i, port := range e.program.Inputs {
		b := e.input(i)
		if t := j.there[port.Name]; t != nil {
			sizes[i] = t.Size()
		} else if d := j.in[port.Name]; j.from[i] != nil {
			sizes[i] = int64(len(d.Bytes))
		} else if len(d.Bytes) > 0 {
			copy(put(b.at.Buffer, b.at.Offset, min(b.Bytes, smallGiven)), d.Bytes)
			e.device.traffic.in.Add(uint64(len(d.Bytes)))
		}
	}
	for _, b := range e.grids.written {
		if err := b.put(put(b.Buffer, 0, b.size), j.symbols); err != nil {
			return nil, err
		}
	}
	return append(list, e.copiesBefore(sizes, j.from, true)...), nil
}

// aligned rounds a size up to a multiple of 16.
func aligned(size int64) int64 { return (size + 15) &^ 15 }

// alignBinding rounds a size up to the device's alignment of buffer bindings.
func (d *Device) alignBinding(size int64) int64 {
	align := max(int64(d.info.Caps.StorageAlignment), 16) // a power of two
	return (size + align - 1) &^ (align - 1)
}

// open allocates the memory that writeSmall writes to.
func (a *asyncRun) open(e *Executable) (err error) {
	if a.host != nil {
		return nil
	}
	size := int64(16)
	for i := range e.program.Inputs {
		size += e.device.alignBinding(min(e.input(i).Bytes, smallGiven))
	}
	for _, b := range e.grids.written {
		size += e.device.alignBinding(b.size)
	}
	a.host, err = e.device.newBuffer(runtime.OwnStaging, "what the host gives runs", size, SharedMemory)
	if err != nil {
		return err
	}
	e.keep(a.host)
	e.keep(a)
	return nil
}

// keep returns memory for the outputs of a run.
func (a *asyncRun) keep(e *Executable, outputs []runtime.Output) ([]deviceMemory, error) {
	if a.kept == nil {
		a.kept = make(slots, len(outputs))
	}
	shared := &e.inFlight.kept
	if *shared == nil {
		*shared = make(slots, len(outputs))
		e.keep(*shared)
	}
	list := make([]deviceMemory, len(outputs))
	for i, x := range outputs {
		// Allocate the output's maximum size, unless that is much larger, so that later runs of any length can reuse
		// it.
		whole := e.output(i).Bytes
		if whole < x.Size || whole > 4*x.Size {
			whole = x.Size
		}
		at := &a.kept[i]
		if whole > reusedKept {
			at = &(*shared)[i]
		}
		s, kind := *at, e.keptKind(i, x)
		if s == nil || s.kind != kind || s.size < x.Size || !s.state.CompareAndSwap(slotFree, slotTaken) {
			s.drop()
			*at = nil
			b, err := e.newKept(i, whole, kind)
			if err != nil {
				closeAll(list)
				return nil, err
			}
			if s = (&slot{Buffer: b}); whole <= sharedKept {
				s.state.Store(slotTaken)
				*at = s
			}
		}
		list[i] = deviceMemory{Buffer: s.Buffer, slot: s}
	}
	return list, nil
}
