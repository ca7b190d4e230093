package glsl_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/internal/pairs"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/passes"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// transpositions are maps that read some operands transposed.
var transpositions = map[string]string{
	"whole tiles": `
		%x = input {name="x", dtype=f32, shape=[64,128]}
		%y = transpose %x {perm=[1,0]}
		output "y" %y`,
	"odd sizes": `
		%x = input {name="x", dtype=f16, shape=[67,131]}
		%y = transpose %x {perm=[1,0]}
		output "y" %y`,
	"batches and vectors": `
		%x = input {name="x", dtype=i8, shape=[3,36,68]}
		%y = transpose %x {perm=[2,0,1]}
		output "y" %y`,
	"bools": `
		%x = input {name="x", dtype=bool, shape=[40,33]}
		%y = transpose %x {perm=[1,0]}
		output "y" %y`,
	"six axes": `
		%x = input {name="x", dtype=f32, shape=[2,3,4,5,6,7]}
		%y = transpose %x {perm=[5,1,3,0,4,2]}
		%z = neg %y
		output "z" %z`,
	"a chain with operands of both kinds": `
		%x = input {name="x", dtype=f32, shape=[40,72]}
		%u = input {name="u", dtype=bf16, shape=[40,72]}
		%v = input {name="v", dtype=f32, shape=[72,40]}
		%w = input {name="w", dtype=f32, shape=[40]}
		%1 = cast %u {dtype=f32}
		%2 = mul %x, %1
		%3 = transpose %2 {perm=[1,0]}
		%4 = add %3, %v
		%5 = mul %4, %w
		output "y" %5
		output "z" %4`,
	"a symbol": `
		symbol T <= 70
		%x = input {name="x", dtype=f32, shape=[T,2,48]}
		%y = transpose %x {perm=[1,2,0]}
		output "y" %y`,
}

// TestTranspositionsOnDevice runs maps through tiles of every candidate shape, and in grids that must loop: each map in
// each tile and in each grid, each tile in each grid.
func TestTranspositionsOnDevice(t *testing.T) {
	t.Parallel()
	dev := vktest.Device(t, vk.DeviceOptions{})
	tools := toolchain(t)
	few := dev.Caps()
	few.MaxWorkgroupCount = [3]uint32{1, 2, 1}
	type transposition struct {
		name string
		caps device.Caps
		tile [3]int
	}
	var cases []transposition
	for _, name := range slices.Sorted(maps.Keys(transpositions)) {
		for _, caps := range []device.Caps{dev.Caps(), few} {
			for _, tile := range [][3]int{{32, 64, 128}, {32, 32, 32}, {8, 16, 8}} {
				cases = append(cases, transposition{name, caps, tile})
			}
		}
	}
	var picked []scheduled
	for _, c := range pairs.Pick(cases, func(c transposition) pairs.Of {
		return pairs.Of{Name: c.name, Properties: []any{c.name, c.caps.MaxWorkgroupCount, c.tile}}
	}) {
		x := newScheduled(t, fmt.Sprintf("%s %v of %d", c.name, c.tile, c.caps.MaxWorkgroupCount[0]),
			transpositions[c.name], kernel.MapTile{
				Launch: kernel.Launch{Variant: kernel.VarMapTile, Workgroup: c.tile[2], Vec: 4},
				TileM:  c.tile[0], TileN: c.tile[1]}, c.caps)
		for i, sh := range x.state.Program.Shaders {
			if declared := declaredShared(t, x.text[i]); sh.SharedBytes != declared {
				t.Errorf("%s: claims %d bytes of shared memory, declares %d", x.name, sh.SharedBytes, declared)
			}
		}
		picked = append(picked, x)
	}
	runScheduled(t, dev, tools, picked)
}

// scheduled is a graph with shaders for its kernels, all under one schedule.
type scheduled struct {
	name  string
	graph *ir.Graph
	state *passes.State
	text  []string
}

func newScheduled(t *testing.T, name, graph string, sched kernel.Schedule, caps device.Caps) scheduled {
	t.Helper()
	g, err := ir.Parse("graph \"test\" {" + graph + "\n}")
	check(t, err)
	s, text, err := build(g, func(*kernel.Kernel) (kernel.Schedule, device.Caps, error) { return sched, caps, nil })
	check(t, err)
	return scheduled{name, g, s, text}
}

// runScheduled compares graphs with the reference, in a subtest each.
func runScheduled(t *testing.T, dev *vk.Device, tools *spirv.Toolchain, cases []scheduled) {
	t.Helper()
	var text []string
	for _, c := range cases {
		text = append(text, c.text...)
	}
	assembleTogether(tools, text)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t, dev, tools) })
	}
}

// run compares a graph with the reference for several values of its symbols.
func (c scheduled) run(t *testing.T, dev *vk.Device, tools *spirv.Toolchain) {
	t.Helper()
	g, s, text := c.graph, c.state, c.text
	modules, err := assemble(tools, text)
	check(t, err)
	exe, err := dev.Load(context.Background(), s.Program, modules, nil, vk.LoadOptions{})
	check(t, err)
	defer exe.Close()
	values := graphgen.Values{Seed: 3, Graph: g}
	ref, err := interp.New(g, interp.Options{})
	check(t, err)
	for i, symbols := range values.Symbols(3) {
		in, err := values.Inputs(symbols, i)
		check(t, err)
		want, err := ref.Run(context.Background(), in, symbols)
		check(t, err)
		have, err := exe.Run(context.Background(), in, runtime.RunOptions{Symbols: maps.Clone(symbols)})
		check(t, err)
		if err := compareOutputs(g, have.Outputs, want); err != nil {
			t.Fatalf("at %v: %v\n%s", symbols, err, numbered(joined(text)))
		}
	}
}
