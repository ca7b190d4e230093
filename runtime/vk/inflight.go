package vk

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

const (
	// maxInFlight is the largest number of asynchronous runs of a program in flight.
	maxInFlight = 32
	// smallGiven is the largest size in bytes of an input for which a run uses preallocated memory (asyncRun.host).
	smallGiven = 64 << 10
	// maxGiven limits the bytes for larger inputs of all runs in flight. If maxInFlight runs need more, fewer are in
	// flight. One run may use at most half of it, so that two can overlap.
	maxGiven = 128 << 20
	// reusedKept is the largest size in bytes of a kept output for which each element of the ring has memory to reuse.
	// An allocation would take as much time as submitting a run.
	reusedKept = 1 << 20
	// sharedKept is the largest size in bytes of a kept output for which all elements of the ring together have memory
	// to reuse. That is for outputs larger than reusedKept, for which memory per element would be too much.
	sharedKept = 64 << 20
	// maxBound is the largest number of bound recordings per element of the ring. Different combinations of tensors
	// need different recordings. For example, the first decoding step of a sequence reads its token from another buffer
	// than later steps.
	maxBound = 4
)

// inFlight has the resources of the runs that the device may not have finished. Asynchronous runs use the elements of
// the ring one after the other.
type inFlight struct {
	last  Point // the last submission of the program
	ring  [maxInFlight]asyncRun
	next  int   // the element of the next run
	count int   // number of asynchronous runs since the device was last idle
	given int64 // bytes allocated for larger inputs in all elements
	kept  slots // memory of outputs, by port, for all elements: see sharedKept
}

// asyncRun has the resources of one asynchronous run. Earlier runs may still be in flight, and the host must not write
// memory that they read. So each run has memory of its own for its inputs. Resources are reused by the run maxInFlight
// runs later. If its tensors have the same addresses, that run allocates and records nothing.
type asyncRun struct {
	host          *Buffer   // small inputs, symbols and grids; nil before the first run
	large         []*Buffer // larger inputs on the device, by port; nil if no run has had any. See capacities.
	kept          slots     // memory of outputs, by port
	before, after copies
	bound         []*bound // at most maxBound, most recently used first
	key           boundKey // of the run being prepared
	busy          Point    // the device uses the resources until this point
}

// slot is reusable memory for a kept output. After the tensor there is closed, a later run may write another tensor to
// it. That is safe, because the device executes runs in order, so all runs that read the old tensor come first.
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

// drop gives up the slot, so that no later run uses it. Its memory is freed now, or by the tensor that uses it.
func (s *slot) drop() error {
	if s == nil || s.state.CompareAndSwap(slotTaken, slotDropped) {
		return nil
	}
	return s.Buffer.Close()
}

// slots has the slots of outputs, by port. An element is nil if the output has no slot.
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

// isAsync reports whether a run is asynchronous. That requires that all of its outputs stay on the device, that its
// inputs fit in maxGiven/2 bytes, and that nothing needs the host's attention afterwards: no profile, no guards, no
// exchange between devices, and no op that can fail.
func (e *Executable) isAsync(j *job) bool {
	if j.profiled || j.between != nil || e.guarded || len(e.program.Faults) > 0 {
		return false
	}
	onHost := func(x runtime.Output) bool { return !x.Keep }
	return len(j.outputs) > 0 && !slices.ContainsFunc(j.outputs, onHost) &&
		largeGiven(j.in) <= e.device.maxGiven()/2
}

func (d *Device) maxGiven() int64 { return cmp.Or(d.options.givenBytes, maxGiven) }

// largeGiven returns the bytes that a run's larger inputs need.
func largeGiven(in map[string]*ir.Data) int64 {
	size := int64(0)
	for _, d := range in {
		if n := int64(len(d.Bytes)); n > smallGiven {
			size += aligned(n)
		}
	}
	return size
}

// capacities returns the bytes to allocate for each larger input, by port, or nil if all inputs are small. Inputs get
// their maximum sizes if these fit in maxGiven/2, so that kernels can read the inputs directly.
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

// lacks returns the number of bytes that a must allocate for larger inputs with these capacities.
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

// acquire returns the resources for a run with larger inputs of these capacities: the next element of the ring. It
// starts again at element 0 in two cases:
//
//   - The next element would exceed the memory for larger inputs. If element 0 does too, all of that memory is freed
//     first.
//   - Several runs were in flight, the device is now idle, and all outputs of element 0 are closed. So the next answer
//     of a language model reuses the recordings of the answer before.
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

// isFree reports whether all tensors in a's slots are closed.
func (a *asyncRun) isFree() bool {
	return !slices.ContainsFunc(a.kept, func(s *slot) bool { return s != nil && s.state.Load() != slotFree })
}

// runAsync submits an asynchronous run. It first waits until the run that used the same resources before is done.
func (e *Executable) runAsync(ctx context.Context, j *job) *runtime.Result {
	capacities := e.capacities(j.in)
	a := e.inFlight.acquire(e.device, capacities)
	bailout.Check(errors.Join(e.device.Wait(ctx, a.busy), e.timedOut()))
	j.kept = bailout.Must(a.keep(e, j.outputs))
	a.uploadLarge(ctx, e, j, capacities)
	list, bound := a.recordings(e, a.writeSmall(e, j), j)
	bailout.Check(ctx.Err())
	e.grids.now = nil // unknown until the run is submitted
	submit := e.device.Submit
	if j.more {
		submit = e.device.Gather
	}
	p := bailout.Must(submit(list...)) // after an error, earlier submissions may still be in flight
	if e.inFlight.last, a.busy = p, p; !bound {
		e.grids.now = j.symbols
	}
	e.inFlight.next = (e.inFlight.next + 1) % maxInFlight
	return e.readOutputs(j)
}

// recordings returns a run's recordings. If an earlier run on these resources had tensors at the same addresses, it is
// a single recording in which kernels access them directly, and bound is true. Otherwise it is the program's steps,
// between recordings that copy the inputs and outputs.
func (a *asyncRun) recordings(e *Executable, given []bufferCopy, j *job) (list []*Recording, bound bool) {
	if r := a.steps(e, given, j); r != nil {
		return []*Recording{r}, true
	}
	main := e.stepsOn(j.states, j.symbols)
	before := a.before.prepare(&e.programMemory, "inputs", given)
	after := a.after.prepare(&e.programMemory, "outputs", e.copiesAfter(j.outputs, j.kept, true))
	return present(before, main, after), false
}

// uploadLarge starts the uploads of larger inputs to device buffers. The run then treats them as device tensors
// (j.from).
func (a *asyncRun) uploadLarge(ctx context.Context, e *Executable, j *job, capacities []int64) {
	if capacities == nil {
		return
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
				a.large[i] = nil
			}
			a.large[i] = bailout.Must(e.device.newBuffer(runtime.OwnStaging, "input "+port.Name+" of a run",
				capacities[i], DeviceMemory))
			e.inFlight.given += a.large[i].size
		}
		j.from[i] = a.large[i]
		bailout.Check(e.device.fill(ctx, j.from[i], 0, j.in[port.Name].Bytes))
	}
}

// writeSmall writes the run's small inputs, symbols and workgroup counts to a.host, and returns the copies from there
// to the program's buffers. Small inputs are copied at their maximum size, so that the copies are the same for all
// lengths.
func (a *asyncRun) writeSmall(e *Executable, j *job) (list []bufferCopy) {
	a.open(e)
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
		bailout.Check(b.put(put(b.Buffer, 0, b.size), j.symbols))
	}
	return append(list, e.copiesBefore(sizes, j.from, true)...)
}

// aligned rounds a size up to a multiple of 16.
func aligned(size int64) int64 { return (size + 15) &^ 15 }

// alignBinding rounds a size up to a multiple of the device's alignment for buffer bindings.
func (d *Device) alignBinding(size int64) int64 {
	align := max(int64(d.info.Caps.StorageAlignment), 16) // a power of two
	return (size + align - 1) &^ (align - 1)
}

// open allocates a.host, unless it exists.
func (a *asyncRun) open(e *Executable) {
	if a.host != nil {
		return
	}
	size := int64(16)
	for i := range e.program.Inputs {
		size += e.device.alignBinding(min(e.input(i).Bytes, smallGiven))
	}
	for _, b := range e.grids.written {
		size += e.device.alignBinding(b.size)
	}
	a.host = bailout.Must(e.device.newBuffer(runtime.OwnStaging, "what the host gives runs", size, SharedMemory))
	e.keep(a.host)
	e.keep(a)
}

// keep returns memory for the outputs of a run, by port. It reuses slots that are free and large enough.
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
		// Allocate the output's maximum size, so that later runs of any length can reuse the memory, unless that is
		// much larger than this run needs.
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
