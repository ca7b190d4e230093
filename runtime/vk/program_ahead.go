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
	// maxAhead is how many runs of a program that nobody has waited for the device may have at a time.
	maxAhead = 32
	// smallGiven is up to which size an input that the host gives such a run has its place in memory that is made once,
	// in the device's where the host reaches that.
	smallGiven = 64 << 10
	// maxGiven is how many bytes such memory has for the larger inputs of all these runs: where those of maxAhead runs
	// take more, fewer are under way. A run may be given half of that, so that two are.
	maxGiven = 128 << 20
	// reusedKept is up to which size the memory of a kept output serves later runs that have the same place in turn: to
	// make some costs as much as to start a run.
	reusedKept = 1 << 20
	// sharedKept is up to which size it serves any later run that finds nothing there. So a program has such memory
	// once, and not maxAhead times.
	sharedKept = 64 << 20
	// maxBound is for how many sets of tensors the steps of runs that have the same place in turn stay recorded: a
	// text's first step takes other tokens than those that go on from it.
	maxBound = 4
)

// ahead is what a run takes that is not waited for. Runs before it may be under way, so that the host writes nothing
// that they read: it writes to memory of this run's own, from where the device copies, larger inputs beside those runs.
// Runs take these in turn, and nothing is made or recorded anew where copies go from and to where they went maxAhead
// runs before.
type ahead struct {
	host          *Buffer   // small inputs, symbols and grids, as the host gives them; nil before the first run
	large         []*Buffer // larger inputs on the device, by port; nil where no run has had one. See room.
	kept          places    // of outputs, by port
	before, after copies
	bound         []*bound // at most maxBound, the latest first
	key           boundKey // of the run being prepared
	busy          Point    // the device uses all this until then
}

// place is memory of a kept output. When nobody has the tensor any more, a later run may put another there: the device
// takes runs in order, so that those that read the tensor have read it by then.
type place struct {
	*Buffer
	state atomic.Int32
}

// The states of a place.
const (
	placeFree  int32 = iota // a run may have it
	placeTaken              // a tensor lies there
	placeLeft               // a tensor lies there, with which it ends
)

// Close is for the tensor that lies there.
func (p *place) Close() error {
	if p.state.CompareAndSwap(placeTaken, placeFree) {
		return nil
	}
	return p.Buffer.Close()
}

// leave is for whoever gives no more tensors to the place.
func (p *place) leave() error {
	if p == nil || p.state.CompareAndSwap(placeTaken, placeLeft) {
		return nil
	}
	return p.Buffer.Close()
}

// places are those of outputs, by port; nil where there is none.
type places []*place

// Close implements closer.
func (list places) Close() error {
	for _, p := range list {
		p.leave() // retires it, which cannot fail
	}
	return nil
}

// Close is for the executable.
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

// dropLarge frees the memory of larger inputs, once the device is done with it.
func (a *ahead) dropLarge() {
	for _, b := range a.large {
		b.Close() // retires it, which cannot fail
	}
	a.large = nil
}

// goesAhead reports whether a run is not waited for: all its outputs stay on the device, there is room for
// what the host gives it, and no op of it may fail.
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

// largeGiven is how much room inputs take that are not small.
func largeGiven(in map[string]*ir.Data) int64 {
	size := int64(0)
	for _, d := range in {
		if n := int64(len(d.Bytes)); n > smallGiven {
			size += aligned(n)
		}
	}
	return size
}

// rooms are how much room the device has for those inputs of a run, by port: for the longest, so that kernels may read
// them there, unless that is too much. It is nil where all are small.
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

// lacks is how many bytes of such rooms a turn has not yet.
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

// turnFor returns the turn of a run whose larger inputs take so much room. The first turn follows the last one, or the
// one after which there is no room for more; where the first turn has not enough, all begin anew. The first turn also
// comes after several runs of which the last has been waited for, unless somebody has the tensors that lie there: so an
// answer has the turns, and the recordings, of the one before it.
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

// isFree reports whether nobody has tensors that lie in the turn's places.
func (a *ahead) isFree() bool {
	return !slices.ContainsFunc(a.kept, func(p *place) bool { return p != nil && p.state.Load() != placeFree })
}

// runAhead submits a run, once the one that had its turn before is done.
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
		return nil, err // what was submitted before may still be under way
	}
	if e.pending, a.busy = p, p; !bound {
		e.symbols = j.symbols
	}
	e.nextAhead = (e.nextAhead + 1) % maxAhead
	result := &runtime.Result{}
	return result, e.readOutputs(result, j)
}

// recordings are what a run submits: its steps bound to the memory of its tensors where those lie as in an earlier run,
// and else copies around the steps on the program's own.
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

// bring starts to bring larger inputs to the device, where they then lie as others do.
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

// give writes what the host gives a run, and lists the copies that bring all inputs to where kernels read them. What is
// small is copied with all the room that it has, so that copies do not depend on its length.
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
	sizes := make([]int64, len(e.inputs)) // of what lies on the device
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

// aligned is a size with what follows it up to where something else may begin.
func aligned(size int64) int64 { return (size + 15) &^ 15 }

// boundAt is aligned for what kernels are bound to.
func (d *Device) boundAt(size int64) int64 {
	align := max(int64(d.info.Caps.StorageAlignment), 16) // a power of two
	return (size + align - 1) &^ (align - 1)
}

// open makes the memory that give writes to.
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
		// Room for the output at its longest, so that a run of any length may be bound to it, unless it is much longer.
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

// allGrids are the buffers of workgroup counts that the host writes.
func (e *Executable) allGrids() (list []*Buffer) {
	for _, b := range []*Buffer{e.indirect, e.grids} {
		if b != nil {
			list = append(list, b)
		}
	}
	return list
}

// putGrids writes the workgroup counts that one of those buffers holds: of steps whose grids depend on symbols, or of
// gated ones.
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

// putSymbols writes the values of symbols as kernels read them.
func (e *Executable) putSymbols(to []byte, symbols map[string]int64) {
	for i, s := range e.program.Symbols {
		binary.NativeEndian.PutUint32(to[4*i:], uint32(symbols[s.Name]))
	}
}
