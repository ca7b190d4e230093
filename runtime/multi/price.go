package multi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/partition"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/collective"
	"github.com/vkc-go/vkc/runtime/vk"
)

// Member describes the speed and memory of one of several devices.
type Member struct {
	collective.Traits
	Memory float64 // bytes for weights and states
}

// usedMemory is the fraction of a device's memory that weights and states may take.
const usedMemory = 0.9

// MemberOf describes a Vulkan device with the memory that is free now. caps has the speeds that vkc tune measured, if
// it was run.
func MemberOf(v *vk.Device, caps device.Caps) Member {
	return Member{collective.Traits{Caps: caps, NoInbox: !v.HasInbox()},
		usedMemory * float64(v.MemoryAvailable())}
}

// Unused describes a device that is only known by its caps. It assumes that all of the device's memory is free.
func Unused(caps device.Caps) Member {
	return Member{collective.Traits{Caps: caps, NoInbox: !caps.Features.BufferDeviceAddress},
		usedMemory * float64(caps.DeviceMemory)}
}

// Processor describes the CPU as a device.
func Processor(caps device.Caps) Member {
	return Member{collective.Traits{Caps: caps, Processor: true}, math.Inf(1)}
}

// Traits returns the traits of the members.
func Traits(list []Member) (all []collective.Traits) {
	for _, m := range list {
		all = append(all, m.Traits)
	}
	return all
}

// Estimate is a function, such as compiler.Estimate, that estimates the nanoseconds of a graph's kernels on a device.
type Estimate func(ctx context.Context, g *ir.Graph, caps device.Caps) (float64, error)

// Strategy is a way to run a graph on several devices.
type Strategy string

// The strategies.
const (
	OneDevice        Strategy = "one device"
	PipelineParallel Strategy = "layers"
	TensorParallel   Strategy = "tensor"
)

// Price is the expected time of a run by one strategy.
type Price struct {
	Strategy Strategy
	Nanos    float64
	Of       string // the terms of the sum Nanos, for people
	Err      error  // the reason that the strategy is not possible; nil if it is
	Taken    bool   // whether this is the fastest possible strategy
}

// String formats the expected time, such as "layers: 5.17ms a run".
func (p Price) String() string {
	if p.Err != nil {
		return fmt.Sprintf("%s: %v", p.Strategy, p.Err)
	}
	return fmt.Sprintf("%s: %v a run", p.Strategy, nanos(p.Nanos))
}

// nanos returns nanoseconds as a duration, rounded for messages.
func nanos(ns float64) time.Duration { return runtime.Brief(time.Duration(ns)) }

// Prices estimates the time of a run of a graph on these devices by each strategy.
func Prices(ctx context.Context, g *ir.Graph, list []Member, estimate Estimate) ([]Price, error) {
	if err := errors.Join(runtime.CheckContext(ctx), g.Verify()); err != nil {
		return nil, fmt.Errorf("split: %w", err)
	}
	if len(list) < 2 {
		return nil, fmt.Errorf("split %s over %d devices: want at least 2", ir.Titled("graph", g.Name), len(list))
	}
	prices := []Price{{Strategy: OneDevice}, {Strategy: PipelineParallel}, {Strategy: TensorParallel}}
	fastest, best := math.Inf(1), 0
	for i := range prices {
		p := &prices[i]
		p.Nanos, p.Of, p.Err = price(ctx, g, list, p.Strategy, estimate)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if p.Err == nil && p.Nanos < fastest {
			fastest, best = p.Nanos, i
		}
	}
	prices[best].Taken = prices[best].Err == nil
	return prices, nil
}

// Expected estimates the time of a run of a graph by one strategy, in nanoseconds.
func Expected(ctx context.Context, g *ir.Graph, list []Member, by Strategy, estimate Estimate) (float64, error) {
	ns, _, err := price(ctx, g, list, by, estimate)
	return ns, err
}

// price estimates the time of a run of a graph by one strategy, in nanoseconds. terms are the parts of the sum, for
// people.
func price(ctx context.Context, g *ir.Graph, list []Member, by Strategy, estimate Estimate) (ns float64, terms string,
	err error) {
	defer bailout.Caught(&err)
	kernels := func(m Member, g *ir.Graph) (float64, error) {
		if m.Processor {
			return 0, fmt.Errorf("what a run takes on the %s is not known", m.Caps.Name)
		}
		return estimate(ctx, g, m.Caps)
	}
	switch by {
	case OneDevice:
		ns = bailout.Must(kernels(list[bailout.Must(FirstWithRoom(g, list))], g))
		terms = fmt.Sprintf("%.3g GiB of weights and states", float64(storedBy(g))/(1<<30))
	case PipelineParallel:
		ns, terms = priceLayers(g, list, kernels)
	default:
		ns, terms = priceTensor(g, list, kernels)
	}
	return ns, terms, nil
}

// FirstWithRoom returns the index of the first device with enough memory for a graph's weights and states.
func FirstWithRoom(g *ir.Graph, list []Member) (_ int, err error) {
	defer bailout.Caught(&err)
	stored := float64(storedBy(g))
	i := slices.IndexFunc(list, func(m Member) bool { return stored < m.Memory })
	if i < 0 {
		return 0, fmt.Errorf("none has room for %.3g GiB", stored/(1<<30))
	}
	return i, nil
}

// storedBy returns the number of bytes of a graph's weights and states.
func storedBy(g *ir.Graph) (stored int64) {
	for _, op := range []ir.Op{ir.OpWeight, ir.OpState} {
		for _, n := range g.Leaves(op) {
			stored += bailout.Must(n.Type().MaxBytes())
		}
	}
	return stored
}

// priceLayers estimates a run of a graph that is split into consecutive parts: the sum of the times of all parts and of
// passing values between them through the host. kernels estimates the kernels of a graph on a device.
func priceLayers(g *ir.Graph, list []Member, kernels func(Member, *ir.Graph) (float64, error)) (ns float64,
	sum string) {
	layers := bailout.Must(SplitLayers(g, list, nil))
	var terms []string
	for i, p := range layers {
		m := list[p.Device]
		if i > 0 {
			pass := device.MachineOf(m.Caps).Staged.LatencyNs
			ns += pass
			terms = append(terms, fmt.Sprintf("%v to pass values on", nanos(pass)))
		}
		one := bailout.Must(kernels(m, p.Graph))
		ns += one
		terms = append(terms, fmt.Sprintf("%v for %.3g GiB", nanos(one), float64(p.Stored)/(1<<30)))
	}
	return ns, strings.Join(terms, " + ")
}

// priceTensor estimates a run of a graph with tensor parallelism: the time of the slowest device's part and of all
// exchanges. kernels estimates the kernels of a graph on a device.
func priceTensor(g *ir.Graph, list []Member, kernels func(Member, *ir.Graph) (float64, error)) (ns float64,
	sum string) {
	c := collective.Available(Traits(list))
	known := map[string]bool{} // equal devices have equal parts
	var exchanges []int
	for rank, m := range list {
		if known[m.Caps.Name] {
			continue
		}
		known[m.Caps.Name] = true
		s := bailout.Must(partition.SplitTensor(g, len(list), rank, false))
		ns = max(ns, bailout.Must(kernels(m, s.Graph)))
		exchanges = bailout.Must(s.Exchanges(nil))
	}
	all := c.Price(exchanges)
	sum = fmt.Sprintf("%v + %v for %d exchanges: %s", nanos(ns), nanos(all), len(exchanges), c.Describe(exchanges))
	return ns + all, sum
}

// shares divides `stored` bytes of weights and states among the devices, and returns the bytes of each. Shares are in
// proportion to the devices' memory bandwidth, but not larger than their free memory. The CPU counts as a device with
// the least bandwidth and memory of the others.
func shares(list []Member, stored float64) []float64 {
	memory, speeds := make([]float64, len(list)), make([]float64, len(list))
	least, slowest := math.Inf(1), math.Inf(1)
	for i, m := range list {
		if !m.Processor {
			memory[i], speeds[i] = max(m.Memory, 1), device.MachineOf(m.Caps).CopyGBps
			least, slowest = min(least, memory[i]), min(slowest, speeds[i])
		}
	}
	for i, m := range list {
		switch {
		case math.IsInf(least, 1): // all devices are the processor
			memory[i], speeds[i] = 1, 1
		case m.Processor:
			memory[i], speeds[i] = least, slowest
		}
	}
	return sharesOf(stored, memory, speeds)
}

// sharesOf divides `stored` bytes in proportion to the devices' speeds. If a device's share exceeds its memory, it gets
// what fits, and the other devices take the rest.
func sharesOf(stored float64, memory, speeds []float64) []float64 {
	shares, full := make([]float64, len(memory)), make([]bool, len(memory))
	// Each round fills at least one device, or is the last.
	for range memory {
		left, speed := stored, 0.0
		for i := range memory {
			if full[i] {
				left -= shares[i]
			} else {
				speed += speeds[i]
			}
		}
		filled := false
		for i := range memory {
			if full[i] {
				continue
			}
			shares[i] = left * speeds[i] / speed
			if shares[i] >= memory[i] {
				shares[i], full[i], filled = memory[i], true, true
			}
		}
		if !filled {
			break
		}
	}
	return shares
}
