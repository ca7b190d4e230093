package vk

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

const (
	// maxAhead bounds the asynchronous runs of a program that are in flight.
	maxAhead = 32
	// Inputs of up to smallGiven bytes use a preallocated buffer, in device memory if the host can map it.
	smallGiven = 64 << 10
	// maxGiven bounds the memory for larger inputs of all runs in flight, in bytes. If maxAhead runs need more, fewer
	// are in flight. One run may use half of it, so that two can overlap.
	maxGiven = 128 << 20
	// Kept outputs of up to reusedKept bytes reuse the memory that the same element of ahead used before, because an
	// allocation costs as much as submitting a run.
	reusedKept = 1 << 20
	// Kept outputs of up to sharedKept bytes reuse memory shared by all runs, if it is free. Larger sizes are not kept
	// maxAhead times.
	sharedKept = 64 << 20
	// maxBound bounds the recordings per element of ahead, one for each combination of tensors. The first decoding step
	// of a sequence takes other token buffers than later steps, for example.
	maxBound = 4
)

// ahead holds the resources of one asynchronous run. Earlier runs may still be in flight, so the host must not write
// memory that they read. It writes to the run's own memory, and the device copies larger inputs from there while
// earlier runs execute. Runs use the elements of Executable.ahead in rotation. A run whose copies have the same sources
// and destinations as maxAhead runs earlier allocates and records nothing.
type ahead struct {
	host          *Buffer   // small inputs, symbols and grids; nil before the first run
	large         []*Buffer // larger inputs on the device, by port; nil if no run has had one. See rooms.
	kept          places    // memory of outputs, by port
	before, after copies
	bound         []*bound // at most maxBound, most recently used first
	key           boundKey // of the run being prepared
	busy          Point    // the resources are in use until this point
}

// place is reusable memory for a kept output. After the tensor is closed, a later run may store another tensor there.
// That is safe because the device executes runs in order, so earlier readers of the tensor come first.
type place struct {
	*Buffer
	state atomic.Int32
}

// The states of a place.
const (
	placeFree  int32 = iota // free for any run
	placeTaken              // a tensor uses it
	placeLeft               // a tensor uses it, and frees it when closed
)

// Close releases the place on behalf of the tensor.
func (p *place) Close() error {
	if p.state.CompareAndSwap(placeTaken, placeFree) {
		return nil
	}
	return p.Buffer.Close()
}

// leave gives up the place: no later run will use it. If a tensor uses it, the tensor frees it.
func (p *place) leave() error {
	if p == nil || p.state.CompareAndSwap(placeTaken, placeLeft) {
		return nil
	}
	return p.Buffer.Close()
}

// places holds the places of outputs, by port; nil for none.
type places []*place

// Close implements closer.
func (list places) Close() error {
	for _, p := range list {
		p.leave() // retires it, which cannot fail
	}
	return nil
}

// Close frees the resources on behalf of the executable.
func (a *ahead) Close() error {
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
func (a *ahead) dropLarge() {
	for _, b := range a.large {
		b.Close() // retires it, which cannot fail
	}
	a.large = nil
}

// goesAhead reports whether a run is asynchronous: all of its outputs stay on the device, its inputs fit, and none of
// its ops can fail.
func (e *Executable) goesAhead(j *job) bool {
	if j.profiled || len(e.program.Faults) > 0 || e.guards != nil {
		return false
	}
	for _, x := range j.outputs {
		if !x.Keep {
			return false
		}
	}
	return len(j.outputs) > 0 && largeGiven(j.in) <= e.device.maxGiven()/2
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

// rooms returns the space that each larger input needs, by port; nil if all inputs are small. If the memory allows it,
// an input gets its maximum size, so that kernels may read it in place.
func (e *Executable) rooms(in map[string]*ir.Data) []int64 {
	given := largeGiven(in)
	if given == 0 {
		return nil
	}
	exact, whole, all := make([]int64, len(e.inputs)), make([]int64, len(e.inputs)), int64(0)
	for i, port := range e.Inputs() {
		if d := in[port.Name]; d != nil && int64(len(d.Bytes)) > smallGiven {
			exact[i], whole[i] = int64(len(d.Bytes)), e.inputs[i].size
			all += aligned(whole[i])
		}
	}
	if all <= e.device.maxGiven()/2 {
		return whole
	}
	return exact
}

// lacks is the number of bytes that a must allocate to provide these rooms.
func (a *ahead) lacks(rooms []int64) (n int64) {
	for i, room := range rooms {
		if a.large == nil || a.large[i] == nil {
			n += room
		} else {
			n += max(room-a.large[i].size, 0)
		}
	}
	return n
}

// turnFor returns the resources for a run with larger inputs of these sizes. Runs take the elements in rotation. The
// rotation restarts at element 0 in two cases:
//
//   - The next element would exceed the memory for larger inputs. If element 0 does too, all of that memory is freed
//     first.
//   - Several runs were in flight, the queue has drained, and all outputs of element 0 are closed. The next answer of
//     a language model then reuses the recordings of the answer before.
func (e *Executable) turnFor(rooms []int64) *ahead {
	fits := func() bool { return e.given+e.ahead[e.nextAhead].lacks(rooms) <= e.device.maxGiven() }
	again := false
	if e.device.knownDone(e.pending) {
		again, e.flying = e.flying > 1 && e.ahead[0].isFree(), 0
	}
	if e.flying++; again || !fits() {
		e.nextAhead = 0
	}
	if !fits() {
		for i := range e.ahead {
			e.ahead[i].dropLarge()
		}
		e.given = 0
	}
	return &e.ahead[e.nextAhead]
}

// isFree reports whether all tensors in the element's places are closed.
func (a *ahead) isFree() bool {
	return !slices.ContainsFunc(a.kept, func(p *place) bool { return p != nil && p.state.Load() != placeFree })
}

// runAhead submits a run after the earlier run with the same resources is done.
func (e *Executable) runAhead(ctx context.Context, j *job) (_ *runtime.Result, err error) {
	rooms := e.rooms(j.in)
	a := e.turnFor(rooms)
	if err := errors.Join(e.device.Wait(ctx, a.busy), e.late()); err != nil {
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
	if err := a.bring(ctx, e, j, rooms); err != nil {
		return nil, err
	}
	given, err := a.give(e, j)
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
	e.symbols = nil // in case it fails
	submit := e.device.Submit
	if j.more {
		submit = e.device.Gather
	}
	p, err := submit(list...)
	if err != nil {
		return nil, err // earlier submissions may still be in flight
	}
	if e.pending, a.busy = p, p; !bound {
		e.symbols = j.symbols
	}
	e.nextAhead = (e.nextAhead + 1) % maxAhead
	result := &runtime.Result{}
	return result, e.readOutputs(result, j)
}

// recordings returns a run's recordings. If the run's tensors are at the same addresses as in an earlier run, it is one
// recording bound to their memory. Otherwise it is the program's own steps between copies in and out.
func (a *ahead) recordings(e *Executable, given []bufferCopy, j *job) (list []*Recording, bound bool, err error) {
	if r, err := a.steps(e, given, j); r != nil || err != nil {
		return []*Recording{r}, true, err
	}
	main, err := e.stepsOn(j.own, j.symbols)
	if err != nil {
		return nil, false, err
	}
	before, err := a.before.prepare(e, "inputs", given)
	if err != nil {
		return nil, false, err
	}
	after, err := a.after.prepare(e, "outputs", e.copiesAfter(j.outputs, j.kept, true))
	return present(before, main, after), false, err
}

// bring starts the uploads of larger inputs into device buffers. From then on the run treats them as device tensors.
func (a *ahead) bring(ctx context.Context, e *Executable, j *job, rooms []int64) error {
	if rooms == nil {
		return nil
	}
	j.from = slices.Clone(j.from)
	if a.large == nil {
		a.large = make([]*Buffer, len(j.from))
	}
	for i, port := range e.Inputs() {
		if rooms[i] == 0 {
			continue
		}
		if b := a.large[i]; b == nil || b.size < rooms[i] {
			if b != nil {
				e.given -= b.size
				b.Close() // retires it, which cannot fail
			}
			var err error
			if a.large[i], err = e.device.newBuffer(runtime.OwnStaging, "input "+port.Name+" of a run", rooms[i],
				DeviceMemory); err != nil {
				return err
			}
			e.given += a.large[i].size
		}
		j.from[i] = a.large[i]
		if err := e.device.fill(ctx, j.from[i], 0, j.in[port.Name].Bytes); err != nil {
			return err
		}
	}
	return nil
}

// give writes the run's small inputs, symbols and grids into host memory, and lists the copies to the kernels' buffers.
// Small inputs are copied at their maximum size, so that the copies do not depend on the length.
func (a *ahead) give(e *Executable, j *job) (list []bufferCopy, err error) {
	if err := a.open(e); err != nil {
		return nil, err
	}
	at := int64(0)
	put := func(to *Buffer, toAt, room int64) []byte {
		memory := a.host.Bytes()[at:][:room]
		list = append(list, bufferCopy{to, toAt, a.host, at, room})
		at += e.device.boundAt(room)
		return memory
	}
	sizes := make([]int64, len(e.inputs)) // sizes of the inputs that are on the device
	for i, port := range e.Inputs() {
		x := e.inputs[i]
		if t := j.there[port.Name]; t != nil {
			sizes[i] = t.Size()
		} else if d := j.in[port.Name]; j.from[i] != nil {
			sizes[i] = int64(len(d.Bytes))
		} else if len(d.Bytes) > 0 {
			copy(put(x.own, x.ownAt, min(x.size, smallGiven)), d.Bytes)
			e.device.traffic.in.Add(uint64(len(d.Bytes)))
		}
	}
	for _, b := range e.allGrids() {
		if err := e.putGrids(b, put(b, 0, b.size), j.symbols); err != nil {
			return nil, err
		}
	}
	if size := 4 * int64(len(e.program.Symbols)); size > 0 {
		for _, b := range e.params {
			e.putSymbols(put(b, 0, size), j.symbols)
		}
	}
	return append(list, e.copiesBefore(sizes, j.from, true)...), nil
}

// aligned rounds a size up to a multiple of 16.
func aligned(size int64) int64 { return (size + 15) &^ 15 }

// boundAt rounds a size up to the device's alignment of buffer bindings.
func (d *Device) boundAt(size int64) int64 {
	align := max(int64(d.info.Caps.StorageAlignment), 16) // a power of two
	return (size + align - 1) &^ (align - 1)
}

// open allocates the memory that give writes to.
func (a *ahead) open(e *Executable) (err error) {
	if a.host != nil {
		return nil
	}
	size := e.device.boundAt(4*int64(len(e.program.Symbols))) * int64(len(e.params))
	for _, x := range e.inputs {
		size += e.device.boundAt(min(x.size, smallGiven))
	}
	for _, b := range e.allGrids() {
		size += e.device.boundAt(b.size)
	}
	a.host, err = e.device.newBuffer(runtime.OwnStaging, "what the host gives runs", max(size, 16), SharedMemory)
	if err != nil {
		return err
	}
	e.keep(a.host)
	e.keep(a)
	return nil
}

// keep returns memory for the outputs of a run.
func (a *ahead) keep(e *Executable, outputs []runtime.Output) ([]deviceMemory, error) {
	if a.kept == nil {
		a.kept = make(places, len(outputs))
	}
	if e.kept == nil {
		e.kept = make(places, len(outputs))
		e.keep(e.kept)
	}
	list := make([]deviceMemory, len(outputs))
	for i, x := range outputs {
		// Allocate the output's maximum size, unless that is much larger, so that later runs of any length can reuse
		// it.
		whole := e.program.Buffers[e.program.Outputs[i].Buffer].Bytes
		if whole < x.Size || whole > 4*x.Size {
			whole = x.Size
		}
		at := &a.kept[i]
		if whole > reusedKept {
			at = &e.kept[i]
		}
		p, kind := *at, e.keptKind(i, x)
		if p == nil || p.kind != kind || p.size < x.Size || !p.state.CompareAndSwap(placeFree, placeTaken) {
			p.leave()
			*at = nil
			b, err := e.newKept(i, whole, kind)
			if err != nil {
				closeAll(list)
				return nil, err
			}
			if p = (&place{Buffer: b}); whole <= sharedKept {
				p.state.Store(placeTaken)
				*at = p
			}
		}
		list[i] = deviceMemory{Buffer: p.Buffer, place: p}
	}
	return list, nil
}

// allGrids lists the buffers of workgroup counts that the host writes.
func (e *Executable) allGrids() (list []*Buffer) {
	for _, b := range []*Buffer{e.indirect, e.grids} {
		if b != nil {
			list = append(list, b)
		}
	}
	return list
}

// putGrids writes the workgroup counts for symbolic grids, or for gated steps, to buffer b.
func (e *Executable) putGrids(b *Buffer, to []byte, symbols map[string]int64) error {
	for i, d := range e.dispatches {
		if b == e.indirect && !d.symbolic || b == e.grids && !d.gated {
			continue
		}
		counts, err := e.steps[i].Grid.Eval(symbols)
		if err != nil {
			return fmt.Errorf("step %s: %w", e.steps[i].Name, err)
		}
		for j, n := range counts {
			binary.NativeEndian.PutUint32(to[d.offset+4*int64(j):], n)
		}
	}
	return nil
}

// putSymbols writes the values of symbols in the kernels' format.
func (e *Executable) putSymbols(to []byte, symbols map[string]int64) {
	for i, s := range e.program.Symbols {
		binary.NativeEndian.PutUint32(to[4*i:], uint32(symbols[s.Name]))
	}
}
