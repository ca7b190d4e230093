package glsl_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/passes"
	"github.com/vkc-go/vkc/runtime/vk"
)

// sliding is an op over overlapping windows. axis is the axis of the windows, in the kernel with collapsed axes.
type sliding struct {
	name, x, w, op, y string
	axis              int
}

var slidings = []sliding{
	{"3x3", "2,6,12,20", "6,1,3,3", "conv %0, %1 {padding_low=[1,1], padding_high=[1,1], groups=6}", "2,6,12,20", 2},
	{"5x5 of odd sizes", "1,3,15,7", "3,1,5,5", "conv %0, %1 {padding_low=[2,2], padding_high=[2,2], groups=3}",
		"1,3,15,7", 1},
	{"7x7", "2,4,14,14", "4,1,7,7", "conv %0, %1 {padding_low=[3,3], padding_high=[3,3], groups=4}", "2,4,14,14", 2},
	{"strided", "2,6,12,20", "6,1,5,5", "conv %0, %1 {padding_low=[2,2], padding_high=[2,2], stride=[2,1], groups=6}",
		"2,6,6,20", 2},
	{"strided along rows", "2,6,12,20", "6,1,3,3",
		"conv %0, %1 {padding_low=[1,1], padding_high=[1,1], stride=[1,2], groups=6}", "2,6,12,10", 2},
	{"dilated", "1,5,12,9", "5,1,3,3", "conv %0, %1 {padding_low=[2,1], padding_high=[2,1], dilation=[2,1], groups=5}",
		"1,5,12,9", 1},
	{"unpadded", "3,4,14,11", "4,1,3,3", "conv %0, %1 {groups=4}", "3,4,12,9", 2},
	{"padded on one side", "2,4,9,10", "4,1,3,3", "conv %0, %1 {padding_low=[0,2], padding_high=[2,0], groups=4}",
		"2,4,9,10", 2},
	{"groups of two", "2,6,8,10", "9,2,3,3", "conv %0, %1 {padding_low=[1,1], padding_high=[1,1], groups=3}",
		"2,9,8,10", 2},
	{"max pool", "2,6,16,20", "1", "max_pool %0 {kernel=[3,3], stride=[2,2], padding_low=[1,1], padding_high=[1,1]}",
		"2,6,8,10", 1},
	{"average pool", "2,6,12,20", "1",
		"avg_pool %0 {kernel=[3,3], stride=[1,1], padding_low=[1,1], padding_high=[1,1]}", "2,6,12,20", 1},
}

func (c sliding) graph(t *testing.T) *ir.Graph {
	t.Helper()
	g, err := ir.Parse(fmt.Sprintf(`graph "g" {
		%%0 = input {name="x", dtype=f32, shape=[%s]} : f32[%[1]s]
		%%1 = input {name="w", dtype=f32, shape=[%s]} : f32[%[2]s]
		%%2 = %[3]s : f32[%[4]s]
		%%3 = silu %%2 : f32[%[4]s]
		output "y" %%3
	}`, c.x, c.w, c.op, c.y))
	check(t, err)
	return g
}

// TestWindows runs overlapping windows in blocks of every size, and compares with the reference.
func TestWindows(t *testing.T) {
	dev := vktest.Device(t, vk.DeviceOptions{})
	tools := toolchain(t)
	type sized struct {
		name string
		g    *ir.Graph
		s    *passes.State
		text []string
	}
	var cases []sized
	var all []string
	for _, c := range slidings {
		g := c.graph(t)
		sizes := 0
		for rows := 2; rows < 16; rows++ {
			s, text, err := build(g, func(k *kernel.Kernel) (kernel.Schedule, device.Caps, error) {
				if w, ok := schedule.WindowsOf(k); !ok || w.Axis != c.axis {
					t.Fatalf("%s: windows along %d of %v (%t), want %d", c.name, w.Axis, k.Parallel, ok, c.axis)
				}
				sched := kernel.Points{Launch: kernel.Launch{Variant: kernel.VarRowWindows, Workgroup: 64, Vec: 1},
					Coarsen: rows}
				return sched, dev.Caps(), fits(k, sched, dev.Caps())
			})
			if err != nil {
				continue // the block does not divide the axis
			}
			sizes++
			cases, all = append(cases, sized{fmt.Sprintf("%s %d", c.name, rows), g, s, text}), append(all, text...)
		}
		if sizes == 0 {
			t.Errorf("%s: no block of windows runs", c.name)
		}
	}
	assembleTogether(tools, all)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { compareWithReference(t, dev, tools, c.g, c.s, c.text) })
	}
}

// compareWithReference runs a program and the reference on random values.
func compareWithReference(t *testing.T, dev *vk.Device, tools *spirv.Toolchain, g *ir.Graph, s *passes.State,
	text []string) {
	modules, err := assemble(tools, text)
	check(t, err)
	values := graphgen.Values{Seed: 3, Graph: g}
	exe, err := dev.Load(context.Background(), s.Program, modules, values, vk.LoadOptions{})
	check(t, err)
	defer exe.Close()
	in, err := values.Inputs(nil, 0)
	check(t, err)
	ref, err := interp.New(g, interp.Options{Weights: values})
	check(t, err)
	want, err := ref.Run(context.Background(), in, nil)
	check(t, err)
	have, err := exe.Run(context.Background(), in)
	check(t, err)
	if err := compareOutputs(g, have.Outputs, want); err != nil {
		t.Errorf("%v\n%s", err, joined(text))
	}
}
