package vkc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/vkc-go/vkc/codegen/target"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
	"github.com/vkc-go/vkc/runtime"
)

// Together has the devices be one, which runs each program on all of them: cut into parts that follow one another, as
// a model's layers do, one on each device, by how fast and how large its memory is. So a model may be larger than any
// of them. [Executable.Why] says which part is where. What passes between parts goes by way of host memory. While a run
// is on one device, the run before it is on the next: several that are started ([Executable.Start], RunBatch, or Run by
// several goroutines) keep all devices busy. One by itself takes as long as the parts together. What has neither
// weights nor states runs on the last device.
//
// Results are those of the graph; kernels may add up in another order than on one device where it was cut through what
// would be one kernel. An executable of several parts has no profile, and its [Executable.Vulkan] is nil, as is
// [Device.Vulkan]; [Device.Caps] are those of the first but for the name. Close closes the devices.
func (d Devices) Together() (*Device, error) {
	switch {
	case len(d) == 0:
		return nil, errors.New("devices together: there are none: OpenDevices opens some, unless it returns an error")
	case len(d) == 1:
		return d[0], nil
	}
	one := &Device{parts: d, caps: d[0].Caps()}
	var names []string
	for _, part := range d {
		if part == nil || part.parts != nil {
			return nil, errors.New("devices together: one is nil or several itself: want those of OpenDevices")
		}
		names = append(names, part.Name())
	}
	one.caps.Name = strings.Join(names, " + ")
	one.why = one.caps.Name + ": each has some of a program's layers"
	return one, nil
}

// layers cuts a graph into parts that follow one another, where those of a program beside it are.
func (d *Device) layers(_ context.Context, g *ir.Graph, beside *Program) (list []part, err error) {
	var home map[string]int
	if beside != nil {
		var others []passes.Part
		for _, one := range beside.parts {
			others = append(others, one.layer)
		}
		home = passes.Homes(others)
	}
	stored, err := storedBy(g)
	if err != nil {
		return nil, err
	}
	cut, err := passes.SplitLayers(g, d.parts.shares(stored), home)
	for _, one := range cut {
		list = append(list, part{graph: one.Graph, device: one.Device, layer: one})
	}
	return list, err
}

// storedBy is how many bytes the weights and states of a graph have.
func storedBy(g *ir.Graph) (stored int64, err error) {
	for _, op := range []ir.Op{ir.OpWeight, ir.OpState} {
		for _, n := range g.Leaves(op) {
			size, err := n.Type().MaxBytes()
			if err != nil {
				return 0, err
			}
			stored += size
		}
	}
	return stored, nil
}

// following has the parts of a program follow one another.
func (x *several) following() (*Executable, error) {
	if len(x.parts) == 1 {
		return x.exes[0], nil
	}
	var why []string
	l := &layered{several: x}
	for _, one := range x.parts {
		l.turns = append(l.turns, make(chan struct{}, 1))
		why = append(why, fmt.Sprintf("%s with %.1f MiB of weights and states", x.of.parts[one.device].Name(),
			float64(one.layer.Stored)/(1<<20)))
	}
	for _, s := range x.States() {
		if len(x.states[s.Name].parts) == 0 {
			return nil, fmt.Errorf("load on %s: nothing reads or updates state %q: leave it out", x.of.Name(), s.Name)
		}
	}
	return &Executable{backend: l, why: "layers over " + strings.Join(why, ", then ")}, nil
}

// shares are how much of so many bytes each device is to have: by how fast it reads its memory, up to what it has left
// of it. The processor counts as the least of the others.
func (d Devices) shares(stored int64) []float64 { return sharesAmong(d.members(), stored) }

func sharesAmong(list []member, stored int64) []float64 {
	rooms, speeds := make([]float64, len(list)), make([]float64, len(list))
	room, speed := math.Inf(1), math.Inf(1)
	for i, m := range list {
		if m.processor {
			continue
		}
		rooms[i], speeds[i] = max(m.room, 1), target.MachineOf(m.caps).CopyGBps
		room, speed = min(room, rooms[i]), min(speed, speeds[i])
	}
	for i, m := range list {
		switch {
		case math.IsInf(room, 1): // all are the processor
			rooms[i], speeds[i] = 1, 1
		case m.processor:
			rooms[i], speeds[i] = room, speed
		}
	}
	return sharesOf(float64(stored), rooms, speeds)
}

// usedMemory is the part of a device's memory that weights and states may fill.
const usedMemory = 0.9

// sharesOf shares by speeds, but gives nobody more than it has room for while others have room left.
func sharesOf(stored float64, rooms, speeds []float64) []float64 {
	shares, full := make([]float64, len(rooms)), make([]bool, len(rooms))
	for range rooms {
		left, speed := stored, 0.0
		for i := range rooms {
			if full[i] {
				left -= shares[i]
			} else {
				speed += speeds[i]
			}
		}
		filled := false
		for i := range rooms {
			if full[i] {
				continue
			}
			if shares[i] = left * speeds[i] / speed; shares[i] >= rooms[i] {
				shares[i], full[i], filled = rooms[i], true, true
			}
		}
		if !filled {
			break
		}
	}
	return shares
}

// layered is a program in parts that follow one another. The turn of a part holds a token while a run is in it: runs
// come to each part in the order in which they came to the first, since each takes the turn of the next part before it
// gives that of its own back.
type layered struct {
	*several
	turns []chan struct{} // by part
	pass  passing
}

var _ runtime.Executable = (*layered)(nil)

// Run implements runtime.Executable.
func (x *layered) Run(ctx context.Context, in Tensors, opts ...RunOptions) (*Result, error) {
	opt, err := runtime.CheckRun(ctx, opts)
	if err != nil {
		return nil, err
	}
	return x.run(ctx, in, opt, func() {})
}

// run calls begun when the next run may begin.
func (x *layered) run(ctx context.Context, in Tensors, opt RunOptions, begun func()) (_ *Result, err error) {
	once := func() { begun(); begun = func() {} }
	defer func() { once() }()
	symbols, own, err := x.check(in, opt)
	if err != nil {
		return nil, err
	}
	values := Tensors{} // inputs, and what parts have given
	maps.Copy(values, in)
	for name, t := range opt.Inputs {
		if values[name], err = t.Read(ctx); err != nil { // it lies on one device, and any may want it
			return nil, err
		}
	}
	result := &Result{Outputs: Tensors{}}
	given := Tensors{} // by parts to later ones
	defer func() {
		x.pass.give(given)
		if err != nil {
			for _, t := range result.Kept {
				err = errors.Join(err, t.Close())
			}
		}
	}()
	// A run that has begun goes through all parts, so that none of the states misses it.
	part := context.WithoutCancel(ctx)
	for i, turn := range x.turns {
		if i == 0 {
			select {
			case turn <- struct{}{}:
			case <-ctx.Done():
				return nil, fmt.Errorf("another run is under way: %w", ctx.Err())
			}
			if err := ctx.Err(); err != nil {
				<-turn
				return nil, err
			}
		} else {
			turn <- struct{}{}
			<-x.turns[i-1]
			once()
		}
		if err := x.runPart(part, i, values, given, opt, symbols, own[i], result); err != nil {
			<-turn
			return nil, x.failed(i, err)
		}
	}
	<-x.turns[len(x.turns)-1]
	return result, nil
}

// runPart runs a part. What later parts read goes to given and values, what the program gives to result.
func (x *layered) runPart(ctx context.Context, i int, values, given Tensors, opt RunOptions, symbols map[string]int64,
	own States, result *Result) (err error) {
	e, in, mine := x.exes[i], Tensors{}, RunOptions{Symbols: map[string]int64{}, Into: Tensors{}, States: own}
	for _, port := range e.Inputs() {
		in[port.Name] = values[port.Name]
	}
	for _, s := range e.Symbols() {
		mine.Symbols[s.Name] = symbols[s.Name]
	}
	for _, port := range e.Outputs() {
		if slices.Contains(x.parts[i].layer.Gives, port.Name) {
			if given[port.Name], err = x.pass.take(port, symbols); err != nil {
				return err
			}
			values[port.Name], mine.Into[port.Name] = given[port.Name], given[port.Name]
		} else if d := opt.Into[port.Name]; d != nil {
			mine.Into[port.Name] = d
		}
		if slices.Contains(opt.Keep, port.Name) {
			mine.Keep = append(mine.Keep, port.Name)
		}
	}
	r, err := e.Run(ctx, in, mine)
	if err != nil {
		return err
	}
	for name, d := range r.Outputs {
		if given[name] == nil {
			result.Outputs[name] = d
		}
	}
	for name, t := range r.Kept {
		if result.Kept == nil {
			result.Kept = map[string]*DeviceTensor{}
		}
		result.Kept[name] = t
	}
	return nil
}

// Upload implements runtime.Executable: to the first device.
func (x *layered) Upload(ctx context.Context, d *ir.Data) (*DeviceTensor, error) {
	return x.exes[0].Upload(ctx, d)
}

// UploadFrom implements runtime.Executable: to the first device.
func (x *layered) UploadFrom(ctx context.Context, t ir.DType, dims []int, from io.ReaderAt) (*DeviceTensor, error) {
	return x.exes[0].UploadFrom(ctx, t, dims, from)
}

// Close implements runtime.Executable.
func (x *layered) Close() error {
	x.pass.close()
	return x.several.Close()
}

// passing is memory of the host for what parts give to later ones. Runs use it in turn: as many as there are parts are
// under way at a time.
type passing struct {
	mu     sync.Mutex
	free   map[string][][]byte // by value
	made   int
	closed bool
}

// take returns memory for a value of a run with such symbols.
func (p *passing) take(port runtime.Port, symbols map[string]int64) (*ir.Data, error) {
	d := &ir.Data{DType: port.Type.DType}
	whole, err := port.Type.MaxBytes()
	if err == nil {
		d.Dims, err = port.Type.Shape.Eval(symbols)
	}
	if err != nil {
		return nil, err
	}
	size, err := ir.ByteSize(d.DType, d.Dims)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.free[port.Name]
	if n := len(list); n > 0 {
		d.Bytes, p.free[port.Name] = list[n-1], list[:n-1]
	} else {
		d.Bytes = make([]byte, whole)
		p.made++
	}
	d.Bytes = d.Bytes[:size]
	return d, nil
}

// give takes back what a run has had, which is over.
func (p *passing) give(values Tensors) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	if p.free == nil {
		p.free = map[string][][]byte{}
	}
	for name, d := range values {
		p.free[name] = append(p.free[name], d.Bytes[:cap(d.Bytes)])
	}
}

// close frees what nobody uses, and what is given back later.
func (p *passing) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free, p.closed = nil, true
}
