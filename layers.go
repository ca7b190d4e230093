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

// layer is a part of a program that runs on a device of several.
type layer struct {
	*Program
	passes.Part
}

// compileLayers cuts a graph and compiles each part for its device.
func (d *Device) compileLayers(ctx context.Context, g *ir.Graph, opt CompileOptions) (*Program, error) {
	g, fitted, err := fitWeights(g, opt)
	if err != nil {
		return nil, err
	}
	var home map[string]int
	if opt.Beside != nil {
		var others []passes.Part
		for _, l := range opt.Beside.layers {
			others = append(others, l.Part)
		}
		home, opt.Beside = passes.Homes(others), nil
	}
	stored, err := storedBy(g)
	if err != nil {
		return nil, err
	}
	parts, err := passes.SplitLayers(g, d.parts.shares(stored), home)
	if err != nil {
		return nil, err
	}
	p := interpreted(g, nil)
	p.Stats.CacheHit, p.Stats.Fitted = true, fitted
	for i, part := range parts {
		one, err := d.parts[part.Device].Compile(ctx, part.Graph, opt)
		if err != nil {
			return nil, fmt.Errorf("part %d of %d, for %s: %w", i+1, len(parts), d.parts[part.Device].Name(), err)
		}
		p.layers = append(p.layers, layer{one, part})
		p.Stats.add(one.Stats)
	}
	return p, nil
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

// loadLayers loads each part of a program on its device.
func (d *Device) loadLayers(ctx context.Context, p *Program, opt LoadOptions) (_ *Executable, err error) {
	switch {
	case p.layers == nil || p.layers[len(p.layers)-1].Device >= len(d.parts):
		return nil, fmt.Errorf("load on %s: the program was compiled for other devices: compile the graph for these",
			d.Name())
	case opt.WeightRoom > 0 && len(p.layers) > 1:
		return nil, fmt.Errorf("load on %s: LoadOptions.WeightRoom goes with one device", d.Name())
	}
	share, _ := opt.Share.program().(*layered)
	if opt.Share != nil && share == nil {
		return nil, fmt.Errorf("load on %s: the executable to share with is on %s", d.Name(), opt.Share.Device())
	}
	opt.NoTrial = true
	load := func(l layer) (*Executable, error) {
		one := opt
		one.Share = nil
		if share != nil {
			one.Share = share.on(l.Device)
		}
		return d.parts[l.Device].Load(ctx, l.Program, one)
	}
	if len(p.layers) == 1 {
		return load(p.layers[0])
	}
	x := &layered{Signature: runtime.SignatureOf(p.Contents.Graph), states: map[string]int{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, x.Close())
		}
	}()
	var why []string
	for i, l := range p.layers {
		name := d.parts[l.Device].Name()
		exe, err := load(l)
		if err != nil {
			return nil, fmt.Errorf("part %d of %d, on %s: %w", i+1, len(p.layers), name, err)
		}
		x.parts = append(x.parts, &layerPart{Executable: exe, device: l.Device, gives: l.Gives,
			turn: make(chan struct{}, 1)})
		for _, s := range exe.States() {
			x.states[s.Name] = i
		}
		why = append(why, fmt.Sprintf("%s with %.1f MiB of weights and states", name, float64(l.Stored)/(1<<20)))
	}
	for _, s := range x.States() {
		if _, ok := x.states[s.Name]; !ok {
			return nil, fmt.Errorf("load on %s: nothing reads or updates state %q: leave it out", d.Name(), s.Name)
		}
	}
	return &Executable{backend: x, why: "layers over " + strings.Join(why, ", then ")}, nil
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

// layered is a program in parts, which runs take one after the other.
type layered struct {
	*runtime.Signature
	parts  []*layerPart
	states map[string]int // the part that has a state
}

// layerPart is a part of a program. turn holds a token while a run is in it: runs come to each part in the order in
// which they came to the first, since each takes the turn of the next part before it gives that of its own back.
type layerPart struct {
	*Executable
	device int
	gives  []string
	turn   chan struct{}
}

var _ runtime.Executable = (*layered)(nil)

// on returns the part on a device, or nil.
func (x *layered) on(device int) *Executable {
	for _, p := range x.parts {
		if p.device == device {
			return p.Executable
		}
	}
	return nil
}

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
	if opt.Profile {
		return nil, errors.New("a program on several devices has no profile: leave RunOptions.Profile out")
	}
	symbols, err := x.Bind(in, opt)
	if err == nil {
		_, err = x.NewOutputs(symbols, opt)
	}
	if err != nil {
		return nil, err
	}
	own, err := x.statesOf(opt)
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
	defer func() {
		if err != nil {
			for _, t := range result.Kept {
				err = errors.Join(err, t.Close())
			}
		}
	}()
	// A run that has begun goes through all parts, so that none of the states misses it.
	part := context.WithoutCancel(ctx)
	for i, p := range x.parts {
		if i == 0 {
			select {
			case p.turn <- struct{}{}:
			case <-ctx.Done():
				return nil, fmt.Errorf("another run is under way: %w", ctx.Err())
			}
			if err := ctx.Err(); err != nil {
				<-p.turn
				return nil, err
			}
		} else {
			p.turn <- struct{}{}
			<-x.parts[i-1].turn
			once()
		}
		if err := p.run(part, values, opt, symbols, own, i, result); err != nil {
			<-p.turn
			return nil, fmt.Errorf("part %d of %d, on %s: %w", i+1, len(x.parts), p.Device(), err)
		}
	}
	<-x.parts[len(x.parts)-1].turn
	return result, nil
}

// run runs the part. What later parts read goes to values, what the program gives to result.
func (p *layerPart) run(ctx context.Context, values Tensors, opt RunOptions, symbols map[string]int64,
	own layeredStates, i int, result *Result) error {
	in, mine := Tensors{}, RunOptions{Symbols: map[string]int64{}, Into: Tensors{}}
	for _, port := range p.Inputs() {
		in[port.Name] = values[port.Name]
	}
	for _, s := range p.Symbols() {
		mine.Symbols[s.Name] = symbols[s.Name]
	}
	for _, port := range p.Outputs() {
		if d := opt.Into[port.Name]; d != nil {
			mine.Into[port.Name] = d
		}
		if slices.Contains(opt.Keep, port.Name) {
			mine.Keep = append(mine.Keep, port.Name)
		}
	}
	if own != nil {
		mine.States = own[i]
	}
	r, err := p.Executable.Run(ctx, in, mine)
	if err != nil {
		return err
	}
	for name, d := range r.Outputs {
		if slices.Contains(p.gives, name) {
			values[name] = d
		} else {
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
	return x.parts[0].Upload(ctx, d)
}

// UploadFrom implements runtime.Executable: to the first device.
func (x *layered) UploadFrom(ctx context.Context, t ir.DType, dims []int, from io.ReaderAt) (*DeviceTensor, error) {
	return x.parts[0].UploadFrom(ctx, t, dims, from)
}

// stateOf returns the part that has a state.
func (x *layered) stateOf(name string) (*layerPart, error) {
	if _, err := x.State(name); err != nil {
		return nil, err
	}
	return x.parts[x.states[name]], nil
}

// ReadState implements runtime.Executable.
func (x *layered) ReadState(name string) (*ir.Data, error) {
	p, err := x.stateOf(name)
	if err != nil {
		return nil, err
	}
	return p.ReadState(name)
}

// WriteState implements runtime.Executable.
func (x *layered) WriteState(name string, d *ir.Data) error {
	p, err := x.stateOf(name)
	if err != nil {
		return err
	}
	return p.WriteState(name, d)
}

// ResetStates implements runtime.Executable.
func (x *layered) ResetStates() error {
	var errs []error
	for _, p := range x.parts {
		errs = append(errs, p.ResetStates())
	}
	return errors.Join(errs...)
}

// layeredStates are states by part; nil where a part has none.
type layeredStates []States

// NewStates implements runtime.Executable.
func (x *layered) NewStates() (States, error) {
	if len(x.States()) == 0 {
		return nil, runtime.ErrNoStates
	}
	all := ownLayers{of: x, parts: make(layeredStates, len(x.parts))}
	for i, p := range x.parts {
		if len(p.States()) == 0 {
			continue
		}
		s, err := p.NewStates()
		if err != nil {
			return nil, errors.Join(err, all.Close())
		}
		all.parts[i] = s
	}
	return all, nil
}

// ownLayers are states of a run's own.
type ownLayers struct {
	of    *layered
	parts layeredStates
}

// statesOf returns the states that a run is given; nil for the program's own.
func (x *layered) statesOf(opt RunOptions) (layeredStates, error) {
	if opt.States == nil {
		return nil, nil
	}
	own, ok := opt.States.(ownLayers)
	if !ok || own.of != x {
		return nil, runtime.ErrStates
	}
	return own.parts, nil
}

// part returns the states of the part that has a state of that name.
func (s ownLayers) part(name string) (States, error) {
	if _, err := s.of.State(name); err != nil {
		return nil, err
	}
	return s.parts[s.of.states[name]], nil
}

// Read implements runtime.States.
func (s ownLayers) Read(name string) (*ir.Data, error) {
	p, err := s.part(name)
	if err != nil {
		return nil, err
	}
	return p.Read(name)
}

// Write implements runtime.States.
func (s ownLayers) Write(name string, d *ir.Data) error {
	p, err := s.part(name)
	if err != nil {
		return err
	}
	return p.Write(name, d)
}

// each calls do for the states of all parts.
func (s ownLayers) each(do func(States) error) error {
	var errs []error
	for _, p := range s.parts {
		if p != nil {
			errs = append(errs, do(p))
		}
	}
	return errors.Join(errs...)
}

// Reset implements runtime.States.
func (s ownLayers) Reset() error { return s.each(States.Reset) }

// Close implements runtime.States.
func (s ownLayers) Close() error { return s.each(States.Close) }

// Device implements runtime.Executable.
func (x *layered) Device() string {
	var names []string
	for _, p := range x.parts {
		names = append(names, p.Device())
	}
	return strings.Join(names, ", then ")
}

// Close implements runtime.Executable.
func (x *layered) Close() error {
	var errs []error
	for _, p := range x.parts {
		errs = append(errs, p.Executable.Close())
	}
	return errors.Join(errs...)
}
