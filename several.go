package vkc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/internal/tunefile"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/multi"
	"github.com/vkc-go/vkc/runtime/vk"
)

// combined is the common part of [pipeline] and [tensorParallel]: a list of devices, the members, that together run
// each program.
type combined struct {
	identity
	members Devices
}

// newCombined combines two or more devices, none of which may combine devices itself. how says in one clause how they
// share the work, for Device.Why.
func newCombined(d Devices, how string) (combined, error) {
	var names []string
	for _, one := range d {
		if one == nil || one.kind == nil || len(one.Parts()) != 1 {
			return combined{}, errors.New("devices together: one is nil, or combines several itself: " +
				"pass devices of OpenDevices")
		}
		names = append(names, one.Name())
	}
	s := combined{identity{caps: d[0].Caps()}, d}
	s.caps.Name = strings.Join(names, " + ")
	s.why = s.caps.Name + ": " + how
	return s, nil
}

// compileParts splits the graph with split and compiles each part for the member that runs it. The returned program has
// the parts' programs and no kernels of its own.
func (s *combined) compileParts(ctx context.Context, g *ir.Graph, opt CompileOptions,
	split func(g *ir.Graph) (multi.Split, error)) (*Program, error) {
	g, fitted, err := compiler.FitWeights(g, opt.Weights)
	if err != nil {
		return nil, err
	}
	p := interpreted(g, nil)
	if p.split, err = split(g); err != nil {
		return nil, runtime.Explain("compile", g.Name, err)
	}
	p.Stats.CacheHit, p.Stats.Fitted = true, fitted // CacheHit stays true if all parts are hits
	all := p.split.Parts()
	for i, one := range all {
		own := opt
		own.ShareWith = nil // only the split depends on it
		own.Weights = p.split.Weights(opt.Weights, i)
		part, err := s.members[one.Device].Compile(ctx, one.Graph, own)
		if err != nil {
			return nil, runtime.Explain("compile", g.Name, fmt.Errorf("part %d of %d, for %s: %w", i+1, len(all),
				s.members[one.Device].Name(), withDeviceHint(runtime.Reason(err))))
		}
		p.parts = append(p.parts, part)
		p.Stats.Add(part.Stats)
	}
	return p, nil
}

// withDeviceHint adds a hint to an error of one of several devices: the CPU does not replace a device that cannot run
// its part, because the caller asked for these devices. It returns other errors, such as mistakes in the graph,
// unchanged.
func withDeviceHint(err error) error {
	if driver := (*vk.Error)(nil); !isRefusal(err) && !errors.As(err, &driver) {
		return err
	}
	return fmt.Errorf("%w; several devices are not replaced: leave this one out of the list, or give none, so that "+
		"the CPU runs what a device cannot (--device auto)", err)
}

// errOtherDevices returns the error of loading a program that was compiled for other devices.
func (s *combined) errOtherDevices() error {
	return fmt.Errorf("on %s: the program was compiled for other devices: compile the graph for these", s.caps.Name)
}

// loadParts loads each part of a program on its device. If LoadOptions.Share is set, share returns that program's
// executable on the device with the given index. names are the names of the parts' devices.
func (s *combined) loadParts(ctx context.Context, p *Program, opt LoadOptions,
	share func(device int) *Executable) (exes []*Executable, names []string, err error) {
	parts := p.split.Parts()
	if opt.WeightRoom > 0 && len(parts) > 1 {
		return nil, nil, fmt.Errorf("on %s: LoadOptions.WeightRoom goes with one device", s.caps.Name)
	}
	if opt.Weights == nil && opt.Share == nil {
		if err := ir.CheckWeights(p.Contents.Graph, nil); err != nil { // check all parts together
			return nil, nil, err
		}
	}
	for _, one := range parts {
		names = append(names, s.members[one.Device].Name())
	}
	for i, one := range parts {
		own := opt
		own.Weights = p.split.Weights(opt.Weights, i)
		if opt.Share != nil {
			own.Share = share(one.Device)
		}
		exe, err := s.members[one.Device].Load(ctx, p.parts[i], own)
		if err != nil {
			err = multi.Failed(names, i, withDeviceHint(runtime.Reason(err)))
			return nil, nil, errors.Join(err, runtime.Each(exes, (*Executable).Close))
		}
		exes = append(exes, exe)
	}
	return exes, names, nil
}

// programs returns the backends of the executables.
func programs(exes []*Executable) (list []runtime.Executable) {
	for _, e := range exes {
		list = append(list, e.program())
	}
	return list
}

func (s *combined) parts(*Device) Devices { return s.members }

// hardware returns the hardware of all members.
func (s *combined) hardware() (list []hardware) {
	for _, one := range s.members {
		list = append(list, one.kind.hardware()...)
	}
	return list
}

func (s *combined) close() error { return s.members.Close() }

// describe returns the devices' speeds and memory sizes in the form that package multi takes to split a graph.
func (d Devices) describe() (list []multi.Member) {
	for _, one := range d {
		if v := vk.Of(one); v != nil {
			measured, _ := tunefile.DeviceTuning(one.Caps()) // an unusable tuning file is ignored
			list = append(list, multi.MemberOf(v, measured.On(one.Caps())))
		} else {
			list = append(list, multi.Processor(one.Caps()))
		}
	}
	return list
}

// Cheapest combines the devices into one by the strategy with the least expected time for a run of a graph: only the
// first device with enough memory, consecutive parts ([Devices.Together]), or shared ops ([Devices.TensorParallel]).
// [Device.Why] lists the expected time of each. It closes devices that are not used.
func (d Devices) Cheapest(ctx context.Context, g *ir.Graph) (*Device, error) {
	if len(d) < 2 { // an error for none, and d[0] for one
		return d.Together()
	}
	prices, err := multi.Prices(ctx, g, d.describe(), compiler.Estimate)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, p := range prices {
		list = append(list, p.String())
	}
	i := slices.IndexFunc(prices, func(p multi.Price) bool { return p.Taken })
	if i < 0 {
		return nil, fmt.Errorf("no way to run %q on %d devices: %s", g.Name, len(d), strings.Join(list, "; "))
	}
	var one *Device
	switch prices[i].Strategy {
	case multi.PipelineParallel:
		one, err = d.Together()
	case multi.TensorParallel:
		one, err = d.TensorParallel()
	case multi.OneDevice:
		one, err = d.firstThatFits(g)
	}
	if err != nil {
		return nil, err
	}
	one.kind.id().why += fmt.Sprintf(" (%s is cheapest: %s)", prices[i].Strategy, strings.Join(list, "; "))
	return one, nil
}

// firstThatFits returns the first device with enough memory for the graph, and closes the others.
func (d Devices) firstThatFits(g *ir.Graph) (*Device, error) {
	first, err := multi.FirstWithRoom(g, d.describe())
	if err != nil {
		return nil, err
	}
	return d[first], slices.Concat(d[:first], d[first+1:]).Close()
}
