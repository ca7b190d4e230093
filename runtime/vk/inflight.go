package vk

import (
	"cmp"
	"context"
	"io"
	"slices"
	"sync/atomic"

	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

const (
	// maxInFlight is the largest number of asynchronous runs of a program in flight.
	maxInFlight = 32
	// smallHostInput is the largest size in bytes of an input for which a run uses preallocated memory
	// (runResources.host).
	smallHostInput = 64 << 10
	// maxHostInputs is the largest number of bytes for larger inputs of all runs in flight. If maxInFlight runs need
	// more, fewer are in flight. One run may use at most half of it, so that two can overlap.
	maxHostInputs = 128 << 20
	// reusedKept is the largest size in bytes of an output for which each element of the ring keeps memory for later
	// runs, because an allocation takes as much time as submitting a run.
	reusedKept = 1 << 20
	// sharedKept is the largest size in bytes of an output for which memory is kept for later runs at all. Above
	// reusedKept, all elements of the ring share the memory of one output.
	sharedKept = 64 << 20
	// maxBound is the largest number of bound recordings per element of inFlight.ring. A bound recording is a recorded
	// command buffer for fixed tensors, so other combinations of tensors need other recordings. For example, the first
	// decoding step of a sequence reads its token from another buffer than later steps.
	maxBound = 4
)

// inFlight has the resources of the runs that the device may not have finished. Asynchronous runs use the elements of
// the ring one after the other.
type inFlight struct {
	last       Point        // the end of the program's last submission
	waiting    runResources // of synchronous runs, for which the host waits
	ring       [maxInFlight]runResources
	next       int   // the element of the next asynchronous run
	count      int   // number of asynchronous runs since the device was last idle
	largeBytes int64 // bytes allocated for larger inputs in all elements
	kept       slots // memory of outputs, by port, for all runs: see sharedKept
}

// runResources has the resources of one run, which a later run reuses. If the later run's tensors have the same
// addresses, it allocates and records nothing.
//
// During an asynchronous run, earlier runs may still be in flight, and the host must not write memory that they read.
// So each element of the ring has memory of its own for inputs and symbols. A synchronous run begins when all earlier
// runs are done, and the host writes the program's own memory.
type runResources struct {
	host          *Buffer   // small inputs, symbols and grids of asynchronous runs; nil before the first
	large         []*Buffer // larger inputs on the device, by port; nil if no run has had any. See capacities.
	kept          slots     // memory of kept outputs, by port
	before, after copies    // before and after the program's steps
	bound         []*bound  // at most maxBound, most recently used first
	key           boundKey  // of the run being prepared
	busy          Point     // the device uses the resources until this point
}

// slot is reusable memory for a kept output. After the tensor there is closed, a later run may write another tensor to
// it. That is safe, because the device executes runs in order, so all runs that read the old tensor come first.
type slot struct {
	*Buffer
	state atomic.Int32 // slotFree, slotTaken or slotDropped
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

// drop gives up the slot, if it is not nil, so that no later run uses it. Its memory is freed now, or by the tensor
// that uses it.
func (s *slot) drop() {
	if s != nil && !s.state.CompareAndSwap(slotTaken, slotDropped) {
		s.Buffer.Close() // retires it, which cannot fail
	}
}

// slots has the slots of outputs, by port. An element is nil if the output has no slot.
type slots []*slot

// close gives up all slots.
func (list slots) close() {
	for _, s := range list {
		s.drop()
	}
}

// Close frees all resources on behalf of the executable. It retires them, which cannot fail.
func (f *inFlight) Close() error {
	f.waiting.close()
	for i := range f.ring {
		f.ring[i].close()
	}
	f.kept.close()
	return nil
}

// close frees the resources. It retires them, which cannot fail.
func (r *runResources) close() {
	r.kept.close()
	for _, b := range r.bound {
		_ = b.Close()
	}
	for _, made := range []io.Closer{r.before.recording, r.after.recording, r.host} {
		_ = made.Close()
	}
	r.dropLarge()
}

// dropLarge frees the memory of larger inputs after the work submitted so far has finished.
func (r *runResources) dropLarge() {
	for _, b := range r.large {
		b.Close() // retires it, which cannot fail
	}
	r.large = nil
}

// isAsync reports whether a run is asynchronous. That requires that all of its outputs stay on the device, that its
// inputs fit in maxHostInputs/2 bytes, and that nothing needs the host's attention afterwards: no profile, no guards,
// no exchange between devices, and no op that can fail.
func (e *Executable) isAsync(j *job) bool {
	if j.profiled || j.between != nil || e.guarded || len(e.program.Faults) > 0 {
		return false
	}
	onHost := func(x runtime.Output) bool { return !x.Keep }
	return len(j.outputs) > 0 && !slices.ContainsFunc(j.outputs, onHost) &&
		largeInputBytes(j.in) <= e.device.maxHostInputs()/2
}

// maxHostInputs returns the constant maxHostInputs, or the value that a test has set instead.
func (d *Device) maxHostInputs() int64 { return cmp.Or(d.options.hostInputBytes, maxHostInputs) }

// largeInputBytes returns the number of bytes that a run needs for its larger inputs (see smallHostInput).
func largeInputBytes(in map[string]*ir.Data) int64 {
	size := int64(0)
	for _, d := range in {
		if n := int64(len(d.Bytes)); n > smallHostInput {
			size += ceil.Multiple(n, 16)
		}
	}
	return size
}

// capacities returns the bytes to allocate for each larger input, by port, or nil if all inputs are small. Inputs get
// their maximum sizes if these fit in maxHostInputs/2, so that kernels can read the inputs directly.
func (e *Executable) capacities(in map[string]*ir.Data) []int64 {
	if largeInputBytes(in) == 0 {
		return nil
	}
	n := len(e.program.Inputs)
	// exact has the sizes of this run's tensors, whole the maximum sizes of the same inputs; all is the sum of whole.
	exact, whole, all := make([]int64, n), make([]int64, n), int64(0)
	for i, port := range e.program.Inputs {
		if d := in[port.Name]; d != nil && int64(len(d.Bytes)) > smallHostInput {
			exact[i], whole[i] = int64(len(d.Bytes)), e.input(i).Bytes
			all += ceil.Multiple(whole[i], 16)
		}
	}
	if all <= e.device.maxHostInputs()/2 {
		return whole
	}
	return exact
}

// missingBytes returns the number of bytes that the run must allocate for larger inputs with these capacities.
func (r *runResources) missingBytes(capacities []int64) (n int64) {
	for i, size := range capacities {
		if r.large == nil || r.large[i] == nil {
			n += size
		} else {
			n += max(size-r.large[i].size, 0)
		}
	}
	return n
}

// acquire returns the resources for a run, and the capacities of its larger inputs. For an asynchronous run it returns
// the next element of the ring. It goes back to element 0 in two cases:
//
//   - The next element would exceed the memory for larger inputs. If element 0 does too, all of that memory is freed
//     first.
//   - Several runs were in flight, the device is now idle, and all outputs of element 0 are closed. So the next answer
//     of a language model reuses the recordings of the answer before.
func (f *inFlight) acquire(e *Executable, j *job) (r *runResources, capacities []int64) {
	if !j.async {
		f.waiting.busy = f.last
		return &f.waiting, nil
	}
	capacities = e.capacities(j.in)
	// fits reports whether the inputs fit in the next element's memory, enlarged as far as needed.
	fits := func() bool { return f.largeBytes+f.ring[f.next].missingBytes(capacities) <= e.device.maxHostInputs() }
	restart := !fits()
	if e.device.knownDone(f.last) {
		restart = restart || f.count > 1 && f.ring[0].isFree()
		f.count = 0
	}
	f.count++
	if restart {
		f.next = 0
	}
	if !fits() { // not even in element 0
		for i := range f.ring {
			f.ring[i].dropLarge()
		}
		f.largeBytes = 0
	}
	return &f.ring[f.next], capacities
}

// isFree reports whether all tensors in r's slots are closed.
func (r *runResources) isFree() bool {
	return !slices.ContainsFunc(r.kept, func(s *slot) bool { return s != nil && s.state.Load() != slotFree })
}

// recordings returns a run's recordings, in order. inputs lists the copies of its inputs and symbols.
//
// If an earlier run with these resources had tensors at the same addresses, kernels access them directly, in a bound
// recording. Otherwise the program's steps stand between recordings that copy the inputs and outputs. Synchronous runs
// without device tensors have the same copies again and again, so these three recordings may be joined to a group.
func (r *runResources) recordings(e *Executable, j *job, inputs []bufferCopy) []*Recording {
	var steps []*Recording
	var written []*Buffer // the memory of outputs that kernels write directly, by port
	switch {
	case j.profiler != nil:
		steps = []*Recording{j.profiler.recording}
	case j.between != nil:
		steps = e.partsOn(j.states, j.symbols)
	default:
		if b := r.bind(e, inputs, j); b != nil {
			steps, inputs, written = []*Recording{b.recording}, nil, b.key.kept
		} else {
			steps = []*Recording{e.stepsOn(j.states, j.symbols)}
		}
	}
	grouped := !j.async
	before := r.before.record(&e.programMemory, "inputs", inputs, grouped)
	after := r.after.record(&e.programMemory, "outputs", r.copiesAfter(e, j, written), grouped)
	list := slices.Concat([]*Recording{before}, steps, []*Recording{after})
	return slices.DeleteFunc(list, func(r *Recording) bool { return r == nil })
}

// copiesAfter returns the copies of outputs after the steps: to the tensors of kept outputs, except the tensors that
// kernels have written directly, and to staging memory.
func (r *runResources) copiesAfter(e *Executable, j *job, written []*Buffer) []bufferCopy {
	list := r.after.next[:0]
	for i, x := range j.outputs {
		b, to := e.output(i), j.kept[i].Buffer
		switch {
		case x.Size == 0 || written != nil && written[i] != nil:
		case to != nil:
			list = append(list, bufferCopy{to, 0, b.at.Buffer, b.at.Offset, x.Size})
		case b.staged():
			c := bufferCopy{b.host, 0, b.at.Buffer, b.at.Offset, b.copySize(x.Size)}
			if !slices.Contains(list, c) { // outputs may share a buffer
				list = append(list, c)
			}
		}
	}
	r.after.next = list
	return list
}

// uploadLarge starts the uploads of larger inputs to device buffers. The run then treats them as device tensors
// (j.sources).
func (r *runResources) uploadLarge(ctx context.Context, e *Executable, j *job, capacities []int64) {
	if capacities == nil {
		return
	}
	j.sources = slices.Clone(j.sources)
	if r.large == nil {
		r.large = make([]*Buffer, len(j.sources))
	}
	for i, port := range e.program.Inputs {
		if capacities[i] == 0 {
			continue
		}
		// The buffer of an earlier run may be too small.
		if b := r.large[i]; b == nil || b.size < capacities[i] {
			if b != nil {
				e.inFlight.largeBytes -= b.size
				b.Close() // retires it, which cannot fail
				r.large[i] = nil
			}
			r.large[i] = bailout.Must(e.device.newBuffer(runtime.OwnStaging, "input "+port.Name+" of a run",
				capacities[i], DeviceMemory))
			e.inFlight.largeBytes += r.large[i].size
		}
		j.sources[i] = r.large[i]
		bailout.Check(e.device.uploadToNew(ctx, j.sources[i], 0, j.in[port.Name].Bytes))
	}
}

// writeInputs writes the inputs from the host, the symbols and the workgroup counts. It returns the copies of these and
// of device tensors to the program's buffers. No copy is needed to a buffer that the host writes directly.
//
// An asynchronous run copies small inputs at their maximum size, so that the copies are the same for all lengths.
func (r *runResources) writeInputs(ctx context.Context, e *Executable, j *job) []bufferCopy {
	list := r.before.next[:0]
	used := int64(0) // bytes of r.host
	// inHost returns memory in r.host for size bytes, and adds a copy from there.
	inHost := func(to *Buffer, toAt, size int64) []byte {
		c := bufferCopy{to, toAt, r.host, used, size}
		list = append(list, c)
		used += e.device.alignBinding(size)
		return r.host.Bytes()[c.srcAt:][:size]
	}
	if j.async {
		r.allocateHost(e)
		e.grids.now = nil // the copies overwrite the program's buffers
		for _, b := range e.grids.written {
			bailout.Check(b.put(inHost(b.Buffer, 0, b.size), j.symbols))
		}
	} else {
		bailout.Check(e.grids.put(j.symbols))
	}
	for i, port := range e.program.Inputs {
		b, d := e.input(i), j.in[port.Name]
		size := j.tensors[port.Name].Size()
		if d != nil {
			size = int64(len(d.Bytes))
		}
		switch {
		case size == 0:
		case j.sources[i] != nil: // a device tensor, or uploaded by uploadLarge
			list = append(list, bufferCopy{b.at.Buffer, b.at.Offset, j.sources[i], 0, size})
		case j.async:
			copy(inHost(b.at.Buffer, b.at.Offset, min(b.Bytes, smallHostInput)), d.Bytes)
			e.device.traffic.in.Add(uint64(size))
		case b.chunked():
			bailout.Check(e.device.Upload(ctx, b.at.Buffer, b.at.Offset, d.Bytes))
		default:
			copyBytes(b.hostBytes(), d.Bytes)
			e.device.traffic.in.Add(uint64(size))
			if b.staged() {
				list = append(list, bufferCopy{b.at.Buffer, b.at.Offset, b.host, 0, b.copySize(size)})
			}
		}
	}
	r.before.next = list
	return list
}

// alignBinding rounds a size up to a multiple of the device's alignment for buffer bindings.
func (d *Device) alignBinding(size int64) int64 {
	return ceil.Multiple(size, max(int64(d.info.Caps.StorageAlignment), 16))
}

// allocateHost allocates r.host, unless it exists.
func (r *runResources) allocateHost(e *Executable) {
	if r.host != nil {
		return
	}
	size := int64(16)
	for i := range e.program.Inputs {
		size += e.device.alignBinding(min(e.input(i).Bytes, smallHostInput))
	}
	for _, b := range e.grids.written {
		size += e.device.alignBinding(b.size)
	}
	r.host = bailout.Must(e.device.newBuffer(runtime.OwnStaging, "what the host gives runs", size, SharedMemory))
}

// keep returns memory for the kept outputs of a run, by port.
func (r *runResources) keep(e *Executable, outputs []runtime.Output) ([]deviceMemory, error) {
	for _, list := range []*slots{&r.kept, &e.inFlight.kept} { // the first run makes the slots
		if *list == nil {
			*list = make(slots, len(outputs))
		}
	}
	kept := make([]deviceMemory, len(outputs))
	for i, x := range outputs {
		if !x.Keep {
			continue
		}
		s, err := r.slotFor(e, i, x.Size)
		if err != nil {
			closeAll(kept)
			return nil, err
		}
		kept[i] = deviceMemory{Buffer: s.Buffer, slot: s}
	}
	return kept, nil
}

// slotFor returns a slot for the tensor of an output port, of size bytes. It takes the port's slot of an earlier run if
// that is free, large enough, and in the right kind of memory. Otherwise it makes one.
func (r *runResources) slotFor(e *Executable, port int, size int64) (*slot, error) {
	// Allocate the output's maximum size, so that later runs of any length can reuse the memory, unless that is much
	// larger than this run needs.
	whole := e.output(port).Bytes
	if whole < size || whole > 4*size {
		whole = size
	}
	at := &r.kept[port]
	if whole > reusedKept {
		at = &e.inFlight.kept[port]
	}
	kind := e.keptKind(port, size)
	s := *at
	if s != nil && s.kind == kind && s.size >= size && s.state.CompareAndSwap(slotFree, slotTaken) {
		return s, nil
	}
	s.drop() // it is in use, too small or of another kind
	*at = nil
	b, err := e.device.newTensor("kept output "+e.Outputs()[port].Name, whole, kind)
	if err != nil {
		return nil, err
	}
	s = &slot{Buffer: b}
	if whole > sharedKept {
		s.state.Store(slotDropped) // no later run reuses it
		return s, nil
	}
	s.state.Store(slotTaken)
	*at = s
	return s, nil
}
