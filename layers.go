package vkc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/partition"
)

// Together combines the devices into one that runs each program on all of them. It cuts a program into consecutive
// parts, such as groups of a model's layers, one per device, sized by the device's speed and memory. So a model may be
// larger than any one device. [Executable.Why] says which part is where. Values between parts pass through host memory.
//
// While a run is on one device, the previous run is on the next. Several runs in progress keep all devices busy: use
// [Executable.Start], RunBatch, Run with all outputs kept, or several goroutines. A single run takes as long as all
// parts together. A program with neither weights nor states runs on the last device. Each device executes the runs of
// all programs in the same order. If a run that keeps all outputs fails, as an op may, reading its outputs returns the
// error, or else the next run does.
//
// Results are the graph's results. If a cut separates ops that one device would fuse, sums may be in a different order.
// An executable of several parts has no profile. Its [Executable.Vulkan] is nil, and so is [Device.Vulkan].
// [Device.Caps] are the first device's caps with another name. Close closes the devices.
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

// layers cuts a graph into consecutive parts, at the same places as a given program.
func (d *Device) layers(_ context.Context, g *ir.Graph, beside *Program) (list []part, err error) {
	var home map[string]int
	if beside != nil {
		var others []partition.Part
		for _, one := range beside.parts {
			others = append(others, one.layer)
		}
		home = partition.Homes(others)
	}
	stored, err := storedBy(g)
	if err != nil {
		return nil, err
	}
	cut, err := partition.SplitLayers(g, d.parts.shares(stored), home)
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

// following makes an executable that runs the parts of a program one after another.
func (x *several) following() (*Executable, error) {
	var why []string
	x.turn = func() func() {
		list := x.of.lanes.join(x.parts)
		for _, t := range list {
			<-t.before
		}
		return func() {
			for _, t := range list {
				close(t.over)
			}
		}
	}
	l := &layered{several: x, ahead: !slices.ContainsFunc(x.exes, func(e *Executable) bool { return !e.GoesAhead() })}
	for _, one := range x.parts {
		why = append(why, fmt.Sprintf("%s with %.1f MiB of weights and states", x.of.parts[one.device].Name(),
			float64(one.layer.Stored)/(1<<20)))
	}
	for _, s := range x.States() {
		if len(x.states[s.Name].parts) == 0 {
			return nil, fmt.Errorf("on %s: nothing reads or updates state %q: leave it out", x.of.Name(), s.Name)
		}
	}
	if len(x.parts) == 1 {
		return &Executable{backend: l, why: x.exes[0].why}, nil
	}
	return &Executable{backend: l, why: "layers over " + strings.Join(why, ", then ")}, nil
}

// shares returns each device's share of the given number of stored bytes: proportional to its memory bandwidth, up to
// its free memory. The CPU counts as the slowest of the others.
func (d Devices) shares(stored int64) []float64 { return sharesAmong(d.members(), stored) }

func sharesAmong(list []member, stored int64) []float64 {
	rooms, speeds := make([]float64, len(list)), make([]float64, len(list))
	room, speed := math.Inf(1), math.Inf(1)
	for i, m := range list {
		if m.Processor {
			continue
		}
		rooms[i], speeds[i] = max(m.room, 1), device.MachineOf(m.Caps).CopyGBps
		room, speed = min(room, rooms[i]), min(speed, speeds[i])
	}
	for i, m := range list {
		switch {
		case math.IsInf(room, 1): // all devices are the processor
			rooms[i], speeds[i] = 1, 1
		case m.Processor:
			rooms[i], speeds[i] = room, speed
		}
	}
	return sharesOf(float64(stored), rooms, speeds)
}

// usedMemory is the fraction of a device's memory available to weights and states.
const usedMemory = 0.9

// sharesOf divides the stored bytes in proportion to the devices' speeds. No share exceeds the room of its device: the
// rest goes to the others.
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
