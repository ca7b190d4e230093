package vkc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/internal/mailbox"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
	"github.com/vkc-go/vkc/passes/partition"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/collective"
)

// Cheapest combines the devices into one in the way with the least expected time for a run of a graph: only the first
// device with enough memory, consecutive parts ([Devices.Together]), or shared ops ([Devices.TensorParallel]).
// [Device.Why] lists the expected time of each way. It closes devices that are not used.
func (d Devices) Cheapest(ctx context.Context, g *ir.Graph) (*Device, error) {
	if len(d) < 2 {
		return d.Together()
	}
	ways, err := splitPrices(ctx, g, d.members())
	if err != nil {
		return nil, err
	}
	var told []string
	for _, w := range ways {
		told = append(told, w.String())
	}
	best := cheapestSplit(ways)
	if best.Err != nil {
		return nil, fmt.Errorf("no way to run %q on %d devices: %s", g.Name, len(d), strings.Join(told, "; "))
	}
	open := map[string]func() (*Device, error){splitAlone: d.alone(g), splitLayers: d.Together,
		splitTensor: d.TensorParallel}
	one, err := open[best.Way]()
	if err == nil {
		one.why += fmt.Sprintf(" (%s is cheapest: %s)", best.Way, strings.Join(told, "; "))
	}
	return one, err
}

// Ways to run a graph on several devices.
const (
	splitAlone  = "one device"
	splitLayers = "layers"
	splitTensor = "tensor"
)

// SplitPrice is a way to run a graph on several devices, with the expected time of a run.
type SplitPrice struct {
	Way   string // "one device", "layers" or "tensor"
	Nanos float64
	Of    string // the components of the time
	Err   error  // the reason that the way is not possible
	Taken bool   // whether it has the least time
}

func (p SplitPrice) time() float64 {
	if p.Err != nil {
		return math.MaxFloat64
	}
	return p.Nanos
}

// String formats the expected time, such as "layers: 5.17ms a run".
func (p SplitPrice) String() string {
	if p.Err != nil {
		return fmt.Sprintf("%s: %v", p.Way, p.Err)
	}
	return fmt.Sprintf("%s: %v a run", p.Way, nanos(p.Nanos))
}

func nanos(ns float64) time.Duration { return runtime.Brief(time.Duration(ns)) }

func cheapestSplit(ways []SplitPrice) *SplitPrice {
	best := &ways[0]
	for i := range ways {
		if ways[i].time() < best.time() {
			best = &ways[i]
		}
	}
	return best
}

// SplitPrices returns the estimates of [Devices.Cheapest]: the expected time of a run in each way, on several devices
// with the given caps and all of their memory free.
func SplitPrices(ctx context.Context, g *ir.Graph, devices []device.Caps) ([]SplitPrice, error) {
	if err := errors.Join(runtime.CheckContext(ctx), g.Verify()); err != nil {
		return nil, fmt.Errorf("split: %w", err)
	}
	var list []member
	for _, caps := range devices {
		list = append(list, member{room: usedMemory * float64(caps.DeviceMemory),
			Traits: collective.Traits{Caps: caps, NoInbox: !caps.Features.BufferDeviceAddress}})
	}
	if len(list) < 2 {
		return nil, fmt.Errorf("split %s over %d devices: want at least 2", ir.Titled("graph", g.Name), len(list))
	}
	ways, err := splitPrices(ctx, g, list)
	if err == nil {
		best := cheapestSplit(ways)
		best.Taken = best.Err == nil
	}
	return ways, err
}

func splitPrices(ctx context.Context, g *ir.Graph, list []member) ([]SplitPrice, error) {
	stored, err := storedBy(g)
	if err != nil {
		return nil, err
	}
	ways := []SplitPrice{{Way: splitAlone}, {Way: splitLayers}, {Way: splitTensor}}
	for i, price := range []func(context.Context, *ir.Graph, []member, int64) (float64, string, error){priceAlone,
		priceLayers, priceTensor} {
		ways[i].Nanos, ways[i].Of, ways[i].Err = price(ctx, g, list, stored)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return ways, nil
}

// member describes one of several devices.
type member struct {
	collective.Traits
	room float64 // bytes for weights and states
}

// traitsOf returns the traits of the members.
func traitsOf(list []member) (all []collective.Traits) {
	for _, m := range list {
		all = append(all, m.Traits)
	}
	return all
}

func (d Devices) members() []member {
	var list []member
	for _, one := range d {
		if one.Vulkan() == nil {
			list = append(list, member{Traits: collective.Traits{Caps: one.Caps(), Processor: true}, room: math.Inf(1)})
			continue
		}
		measured, _ := one.tuning() // an unusable tuning file is ignored
		list = append(list, member{room: usedMemory * float64(one.Vulkan().MemoryAvailable()),
			Traits: collective.Traits{Caps: measured.On(one.caps), NoInbox: !one.Vulkan().HasInbox()}})
	}
	return list
}

// hasRoom returns the first device with memory for the given number of bytes.
func hasRoom(list []member, stored int64) (int, error) {
	i := slices.IndexFunc(list, func(m member) bool { return float64(stored) < m.room })
	if i < 0 {
		return 0, fmt.Errorf("none has room for %.3g GiB", float64(stored)/(1<<30))
	}
	return i, nil
}

// alone opens the first device that has room, and closes the others.
func (d Devices) alone(g *ir.Graph) func() (*Device, error) {
	return func() (*Device, error) {
		stored, err := storedBy(g)
		if err != nil {
			return nil, err
		}
		first, err := hasRoom(d.members(), stored)
		for i, other := range d {
			if i != first {
				err = errors.Join(err, other.Close())
			}
		}
		return d[first], err
	}
}

func priceAlone(ctx context.Context, g *ir.Graph, list []member, stored int64) (float64, string, error) {
	i, err := hasRoom(list, stored)
	if err != nil {
		return 0, "", err
	}
	ns, err := list[i].price(ctx, g)
	return ns, fmt.Sprintf("%.3g GiB of weights and states", float64(stored)/(1<<30)), err
}

// Expected estimates the duration of a run of a graph on the device, in nanoseconds, with all symbols at their maximum.
// It has no estimate for the processor.
func (d *Device) Expected(ctx context.Context, g *ir.Graph) (ns float64, err error) {
	if err := d.usable(ctx); err != nil {
		return 0, fmt.Errorf("expect of a graph: %w", err)
	}
	stored, err := storedBy(g)
	if err != nil {
		return 0, err
	}
	list, price := d.parts.members(), priceLayers
	switch {
	case d.parts == nil:
		list, price = Devices{d}.members(), priceAlone
	case d.group != nil:
		price = priceTensor
	}
	ns, _, err = price(ctx, g, list, stored)
	return ns, err
}

// priceLayers adds the times of the parts and of passing values through the host.
func priceLayers(ctx context.Context, g *ir.Graph, list []member, stored int64) (ns float64, of string, err error) {
	parts, err := partition.SplitLayers(g, sharesAmong(list, stored), nil)
	if err != nil {
		return 0, "", err
	}
	var terms []string
	for i, p := range parts {
		m := list[p.Device]
		if i > 0 {
			pass := device.MachineOf(m.Caps).Staged.LatencyNs
			ns += pass
			terms = append(terms, fmt.Sprintf("%v to pass values on", nanos(pass)))
		}
		one, err := m.price(ctx, p.Graph)
		if err != nil {
			return 0, "", err
		}
		ns += one
		terms = append(terms, fmt.Sprintf("%v for %.3g GiB", nanos(one), float64(p.Stored)/(1<<30)))
	}
	return ns, strings.Join(terms, " + "), nil
}

// priceTensor adds the time of the slowest device's part and of the exchanges.
func priceTensor(ctx context.Context, g *ir.Graph, list []member, _ int64) (ns float64, of string, err error) {
	c := collective.Available(traitsOf(list))
	known := map[string]bool{} // equal devices have equal parts
	var exchanges []int
	for rank, m := range list {
		if known[m.Caps.Name] {
			continue
		}
		known[m.Caps.Name] = true
		s, err := partition.SplitTensor(g, len(list), rank, false)
		if err != nil {
			return 0, "", err
		}
		own, err := m.price(ctx, s.Graph)
		if err != nil {
			return 0, "", err
		}
		if exchanges, err = s.Exchanges(nil); err != nil {
			return 0, "", err
		}
		ns = max(ns, own)
	}
	meet := c.Price(exchanges)
	of = fmt.Sprintf("%v + %v for %d exchanges: %s", nanos(ns), nanos(meet), len(exchanges), c.Describe(exchanges))
	return ns + meet, of, nil
}

// price estimates the nanoseconds of a graph's kernels on a device, without the exchanges with other devices.
func (m member) price(ctx context.Context, g *ir.Graph) (float64, error) {
	if m.Processor {
		return 0, fmt.Errorf("what a run takes on the %s is not known", m.Caps.Name)
	}
	s, err := passes.Run(g, passes.Options{
		Context: ctx,
		Limits:  passes.Limits{Bindings: device.Bindings(m.Caps), Weigh: glsl.Weigh},
		Pricer:  schedule.NewPricer(m.Caps),
	})
	if err != nil {
		return 0, err
	}
	own := slices.DeleteFunc(slices.Clone(s.Kernels), func(k *kernel.Kernel) bool { return mailbox.Follows(k.Ops) })
	e := schedule.NewPricer(m.Caps).Price(kernel.Rewrite{After: own, LastSplit: true})
	if e.Note != "" {
		return 0, errors.New(e.Note)
	}
	return e.After, nil
}
