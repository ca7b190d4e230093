package vkc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/partition"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// part is one device's part of a program: some of its layers, or its share of each op.
type part struct {
	*Program
	graph  *ir.Graph
	device int             // index of the device
	layer  partition.Part  // for consecutive parts
	shard  partition.Shard // for shared ops
}

// compileParts compiles the part of each device.
func (d *Device) compileParts(ctx context.Context, g *ir.Graph, opt CompileOptions) (*Program, error) {
	g, fitted, err := compiler.FitWeights(g, opt.Weights)
	if err != nil {
		return nil, err
	}
	split := d.layers
	if d.group != nil {
		split = d.shards
	}
	p := interpreted(g, nil)
	if p.parts, err = split(ctx, g, opt.Beside); err != nil {
		return nil, runtime.Explain("compile", g.Name, err)
	}
	p.Stats.CacheHit, p.Stats.Fitted = true, fitted
	for i := range p.parts {
		one, own := &p.parts[i], opt
		own.Beside, own.Weights = nil, one.weights(opt.Weights, p)
		if one.Program, err = d.parts[one.device].Compile(ctx, one.graph, own); err != nil {
			return nil, runtime.Explain("compile", g.Name, fmt.Errorf("part %d of %d, for %s: %w", i+1, len(p.parts),
				d.parts[one.device].Name(), notReplaced(runtime.Reason(err))))
		}
		p.Stats.Add(one.Stats)
	}
	return p, nil
}

// notReplaced says that the CPU does not stand in for one of several devices, if the fault is the device's. Their
// caller asked for these devices.
func notReplaced(err error) error {
	if driver := (*vk.Error)(nil); !refuses(err) && !errors.As(err, &driver) {
		return err
	}
	return fmt.Errorf("%w; several devices are not replaced: leave this one out of the list, or give none, so that "+
		"the CPU runs what a device cannot (--device auto)", err)
}

// weights returns the part's weights from a source.
func (one *part) weights(from ir.WeightSource, p *Program) ir.WeightSource {
	if len(one.shard.Cut) == 0 {
		return from
	}
	return cutWeights(from, one.shard.Cut, len(p.parts), one.device)
}

// loadParts loads each part of a program on its device.
func (d *Device) loadParts(ctx context.Context, p *Program, opt LoadOptions) (_ *Executable, err error) {
	shares := d.group != nil
	switch n := len(p.parts); {
	case n == 0 || p.parts[n-1].device >= len(d.parts) || shares != (p.parts[0].shard.Graph != nil),
		shares && n != len(d.parts):
		return nil, fmt.Errorf("on %s: the program was compiled for other devices: compile the graph for these",
			d.Name())
	case opt.WeightRoom > 0 && n > 1:
		return nil, fmt.Errorf("on %s: LoadOptions.WeightRoom goes with one device", d.Name())
	}
	share := severalOf(opt.Share)
	if opt.Share != nil && (share == nil || share.of != d) {
		return nil, errSharedElsewhere(d, opt.Share)
	}
	if opt.Weights == nil && share == nil {
		if err := ir.CheckWeights(p.Contents.Graph, nil); err != nil { // check all parts together
			return nil, err
		}
	}
	opt.NoTrial = true
	x := &several{Signature: runtime.SignatureOf(p.Contents.Graph), of: d, parts: p.parts, states: map[string]home{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, x.Close())
		}
	}()
	for i := range p.parts {
		one := &p.parts[i]
		own := opt
		own.Share, own.Weights = share.on(one.device), one.weights(opt.Weights, p)
		exe, err := d.parts[one.device].Load(ctx, one.Program, own)
		if err != nil {
			return nil, x.failed(i, notReplaced(runtime.Reason(err)))
		}
		x.exes = append(x.exes, exe)
		for _, s := range exe.States() {
			x.states[s.Name] = x.states[s.Name].and(i, one.shard.Cut, s.Name)
		}
	}
	if shares {
		return x.sharing(ctx)
	}
	return x.following()
}

// several is a program in parts on several devices. It has the code common to layer splits and tensor parallelism:
// everything except the run itself.
type several struct {
	*runtime.Signature
	of     *Device
	parts  []part
	exes   []*Executable // by part
	states map[string]home
	turn   func() (end func()) // waits for runs in flight before states are accessed; nil if each part does so
	closed atomic.Bool
}

// open refuses a program that is closed, and states that are; nil for the program's own.
func (x *several) open(own *severalStates) error {
	if x.closed.Load() {
		return runtime.ErrProgramClosed
	}
	if own != nil && own.closed.Load() {
		return runtime.ErrStatesClosed
	}
	return nil
}

// inTurn calls turn if it is set.
func (x *several) inTurn() (end func()) {
	if x.turn == nil {
		return func() {}
	}
	return x.turn()
}

// home gives the location of a state: the parts that hold it. Each of them has a slice along an axis if cut is set, and
// the whole state otherwise.
type home struct {
	parts []int
	cut   bool
	axis  int
}

// and adds another part with the state, cut along the axis in cut.
func (h home) and(part int, cut map[string]int, name string) home {
	h.parts = append(h.parts, part)
	h.axis, h.cut = cut[name]
	return h
}

// severalOf returns an executable's parts on several devices, or nil.
func severalOf(e *Executable) *several {
	switch x := e.program().(type) {
	case *layered:
		return x.several
	case *sharded:
		return x.several
	}
	return nil
}

// on returns the part on a device, or nil.
func (x *several) on(device int) *Executable {
	if x == nil {
		return nil
	}
	for i, p := range x.parts {
		if p.device == device {
			return x.exes[i]
		}
	}
	return nil
}

// failed adds the part and its device to an error.
func (x *several) failed(part int, err error) error {
	return fmt.Errorf("part %d of %d, on %s: %w", part+1, len(x.parts), x.of.parts[x.parts[part].device].Name(),
		runtime.Reason(err))
}

// check validates a run. It returns the run's symbols and its own states by part, or nil for the program's own states.
func (x *several) check(in Tensors, opt RunOptions) (symbols map[string]int64, own []States, err error) {
	if opt.Profile && len(x.parts) > 1 {
		return nil, nil, errors.New("a program on several devices has no profile: leave RunOptions.Profile out")
	}
	if err = x.open(nil); err == nil {
		symbols, err = x.Bind(in, opt)
	}
	if err == nil {
		_, err = x.NewOutputs(symbols, opt)
	}
	if err != nil || opt.States == nil {
		return symbols, make([]States, len(x.parts)), err
	}
	s, ok := opt.States.(*severalStates)
	if !ok || s.of != x {
		return nil, nil, runtime.ErrStates
	}
	return symbols, s.parts, x.open(s)
}

// Device implements runtime.Executable.
func (x *several) Device() string {
	and := ", then "
	if x.of.group != nil {
		and = " and "
	}
	var names []string
	for _, e := range x.exes {
		names = append(names, e.Device())
	}
	return strings.Join(names, and)
}

// Close implements runtime.Executable.
func (x *several) Close() error {
	x.closed.Store(true)
	var errs []error
	for _, e := range x.exes {
		errs = append(errs, e.Close())
	}
	return errors.Join(errs...)
}

// ReadState implements runtime.Executable.
func (x *several) ReadState(name string) (*ir.Data, error) {
	return x.readState(nil, name, func(part int) (*ir.Data, error) { return x.exes[part].ReadState(name) })
}

// readState assembles a state from the values that read returns for each part.
func (x *several) readState(own *severalStates, name string,
	read func(part int) (*ir.Data, error)) (*ir.Data, error) {
	if err := x.open(own); err != nil {
		return nil, err
	}
	if _, err := x.State(name); err != nil {
		return nil, err
	}
	defer x.inTurn()()
	h := x.states[name]
	if !h.cut {
		return read(h.parts[0])
	}
	var list []*ir.Data
	for _, part := range h.parts {
		d, err := read(part)
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return joinData(list, h.axis)
}

// WriteState implements runtime.Executable.
func (x *several) WriteState(name string, d *ir.Data) error {
	return x.writeState(nil, name, d, func(part int, d *ir.Data) error { return x.exes[part].WriteState(name, d) })
}

// writeState writes each part's share of a state.
func (x *several) writeState(own *severalStates, name string, d *ir.Data,
	write func(part int, d *ir.Data) error) error {
	if err := x.open(own); err != nil {
		return err
	}
	if _, err := x.CheckState(name, d); err != nil {
		return err
	}
	defer x.inTurn()()
	h := x.states[name]
	for i, part := range h.parts {
		own := d
		if h.cut {
			var err error
			if own, err = cutData(d, h.axis, len(h.parts), i); err != nil {
				return err
			}
		}
		if err := write(part, own); err != nil {
			return err
		}
	}
	return nil
}

// ResetStates implements runtime.Executable.
func (x *several) ResetStates() error {
	if err := x.open(nil); err != nil {
		return err
	}
	defer x.inTurn()()
	var errs []error
	for i, e := range x.exes {
		if err := e.ResetStates(); err != nil {
			errs = append(errs, x.failed(i, err))
		}
	}
	return errors.Join(errs...)
}

// NewStates implements runtime.Executable.
func (x *several) NewStates() (States, error) {
	if err := x.open(nil); err != nil {
		return nil, err
	}
	if len(x.States()) == 0 {
		return nil, runtime.ErrNoStates
	}
	own := &severalStates{of: x, parts: make([]States, len(x.exes))}
	for i, e := range x.exes {
		if len(e.States()) == 0 {
			continue
		}
		s, err := e.NewStates()
		if err != nil {
			return nil, errors.Join(err, own.Close())
		}
		own.parts[i] = s
	}
	return own, nil
}

// severalStates holds the states of a run, by part. An element is nil if its part has no states.
type severalStates struct {
	of     *several
	parts  []States
	closed atomic.Bool
}

// Read implements runtime.States.
func (s *severalStates) Read(name string) (*ir.Data, error) {
	d, err := s.of.readState(s, name, func(part int) (*ir.Data, error) { return s.parts[part].Read(name) })
	return d, s.of.Explain("read state of", err)
}

// Write implements runtime.States.
func (s *severalStates) Write(name string, d *ir.Data) error {
	return s.of.Explain("write state of", s.of.writeState(s, name, d,
		func(part int, d *ir.Data) error { return s.parts[part].Write(name, d) }))
}

// each calls do for the states of every part.
func (s *severalStates) each(do func(States) error) error {
	var errs []error
	for _, p := range s.parts {
		if p != nil {
			errs = append(errs, do(p))
		}
	}
	return errors.Join(errs...)
}

// Reset implements runtime.States.
func (s *severalStates) Reset() error {
	if err := s.of.open(s); err != nil {
		return s.of.Explain("reset states of", err)
	}
	defer s.of.inTurn()()
	return s.of.Explain("reset states of", s.each(States.Reset))
}

// Close implements runtime.States.
func (s *severalStates) Close() error {
	s.closed.Store(true)
	defer s.of.inTurn()()
	return s.each(States.Close)
}
