package vkc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/vkc-go/vkc/codegen/glsl"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/target"
	"github.com/vkc-go/vkc/internal/mailbox"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
)

// Cheapest has the devices be one, in the way in which a run of a graph is expected to take least: the first that has
// room for it by itself, one after the other ([Devices.Together]), or sharing each op ([Devices.TensorParallel]).
// [Device.Why] says what each way is expected to take. A device that is left out is closed.
func (d Devices) Cheapest(ctx context.Context, g *ir.Graph) (*Device, error) {
	if len(d) < 2 {
		return d.Together()
	}
	ways := []split{
		{what: "one device", open: d.alone(g)},
		{what: "layers", open: d.Together},
		{what: "tensor", open: d.TensorParallel},
	}
	for i, price := range []func(context.Context, *ir.Graph) (float64, error){d.priceAlone, d.priceLayers,
		d.priceTensor} {
		ways[i].ns, ways[i].err = price(ctx, g)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	best := slices.MinFunc(ways, func(a, b split) int { return cmp.Compare(a.time(), b.time()) })
	var told []string
	for _, w := range ways {
		told = append(told, w.String())
	}
	if best.err != nil {
		return nil, fmt.Errorf("no way to run %q on %d devices: %s", g.Name, len(d), strings.Join(told, "; "))
	}
	one, err := best.open()
	if err == nil {
		one.why += fmt.Sprintf(" (%s is cheapest: %s)", best.what, strings.Join(told, "; "))
	}
	return one, err
}

// split is a way to run a graph, and how many nanoseconds a run takes, or why there is none.
type split struct {
	what string
	open func() (*Device, error)
	ns   float64
	err  error
}

func (s split) time() float64 {
	if s.err != nil {
		return math.MaxFloat64
	}
	return s.ns
}

func (s split) String() string {
	if s.err != nil {
		return fmt.Sprintf("%s: %v", s.what, s.err)
	}
	return fmt.Sprintf("%s: %v a run", s.what, digits(time.Duration(s.ns)))
}

// hasRoom returns the first device whose memory has room for the weights and states of a graph.
func (d Devices) hasRoom(g *ir.Graph) (*Device, error) {
	stored, err := storedBy(g)
	if err != nil {
		return nil, err
	}
	for _, one := range d {
		if one.IsCPU() || float64(stored) < usedMemory*float64(one.Vulkan().MemoryAvailable()) {
			return one, nil
		}
	}
	return nil, fmt.Errorf("none has room for %.1f GiB", float64(stored)/(1<<30))
}

// alone opens the first device that has room, and closes the others.
func (d Devices) alone(g *ir.Graph) func() (*Device, error) {
	return func() (*Device, error) {
		one, err := d.hasRoom(g)
		for _, other := range d {
			if other != one {
				err = errors.Join(err, other.Close())
			}
		}
		return one, err
	}
}

func (d Devices) priceAlone(ctx context.Context, g *ir.Graph) (float64, error) {
	one, err := d.hasRoom(g)
	if err != nil {
		return 0, err
	}
	return one.price(ctx, g)
}

// priceLayers adds up what the parts take, and what it takes to pass values on by way of the host.
func (d Devices) priceLayers(ctx context.Context, g *ir.Graph) (ns float64, err error) {
	stored, err := storedBy(g)
	if err != nil {
		return 0, err
	}
	parts, err := passes.SplitLayers(g, d.shares(stored), nil)
	if err != nil {
		return 0, err
	}
	for i, p := range parts {
		one, err := d[p.Device].price(ctx, p.Graph)
		if err != nil {
			return 0, err
		}
		if ns += one; i > 0 {
			ns += target.MachineOf(d[p.Device].Caps()).Staged.LatencyNs
		}
	}
	return ns, nil
}

// priceTensor is what the slowest device takes for its part, and what exchanges take.
func (d Devices) priceTensor(ctx context.Context, g *ir.Graph) (ns float64, err error) {
	m, err := newMeetings(d)
	if err != nil {
		return 0, err
	}
	known := map[string]bool{} // equal devices have equal parts
	var exchanges []int
	for rank, one := range d {
		if known[one.Name()] {
			continue
		}
		known[one.Name()] = true
		s, err := passes.SplitTensor(g, len(d), rank, false)
		if err != nil {
			return 0, err
		}
		own, err := one.price(ctx, s.Graph)
		if err != nil {
			return 0, err
		}
		ns, exchanges = max(ns, own), s.Exchanges
	}
	return ns + m.price(m.cheapest(exchanges), exchanges), nil
}

// price is how many nanoseconds the kernels of a graph are expected to take on a device, but for those that exchange
// values with other devices.
func (d *Device) price(ctx context.Context, g *ir.Graph) (float64, error) {
	if d.IsCPU() {
		return 0, fmt.Errorf("what a run takes on the %s is not known", d.Name())
	}
	measured, _ := d.tuning() // what cannot be used is as if it were not there
	caps := measured.On(d.caps)
	s, err := passes.Run(g, passes.Options{
		Context: ctx,
		Limits:  passes.Limits{Bindings: target.Bindings(caps), Weigh: glsl.Weigh},
		Pricer:  pricer(caps),
	})
	if err != nil {
		return 0, err
	}
	own := slices.DeleteFunc(slices.Clone(s.Kernels), func(k *kernel.Kernel) bool { return mailbox.Follows(k.Ops) })
	e := pricer(caps).Price(kernel.Rewrite{After: own, LastSplit: true})
	if e.Note != "" {
		return 0, errors.New(e.Note)
	}
	return e.After, nil
}
