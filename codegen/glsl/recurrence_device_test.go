package glsl_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/passes"
	"github.com/vkc-go/vkc/runtime/vk"
)

// recurrent is a delta rule with a shape and a schedule. The arguments shrink the state, so that it stays small.
type recurrent struct {
	texts, times, heads, groups, rows, keys int
	corrected, byKey                        bool
	wg, lanes, each, together               int
	ahead                                   bool
}

// recurrents has each parameter in pairs with others: rows that no vec4 divides, times that no group divides, one time,
// teams that the last workgroup does not fill, and lanes without elements.
var recurrents = []recurrent{
	{1, 9, 2, 1, 8, 32, false, false, 32, 4, 4, 4, true},
	{2, 8, 4, 2, 8, 32, true, false, 32, 8, 8, 2, true},
	{1, 5, 3, 3, 6, 20, true, true, 16, 2, 2, 4, false},
	{3, 1, 2, 2, 16, 64, true, false, 64, 8, 2, 1, false},
	{1, 1, 5, 1, 1, 16, false, true, 32, 4, 1, 1, false},
	{1, 7, 1, 1, 3, 5, true, true, 8, 1, 1, 2, true},
	{2, 3, 3, 1, 4, 13, false, true, 16, 8, 4, 8, true},
	{1, 16, 2, 2, 8, 128, true, false, 64, 4, 1, 8, false},
}

func (c recurrent) graph(t *testing.T) *ir.Graph {
	t.Helper()
	decays := 1
	if c.byKey {
		decays = c.keys
	}
	more, args := "", "%q, %k, %v, %decay, %state"
	if c.corrected {
		shape := fmt.Sprintf("%d,%d,%d,%d", c.texts, c.times, c.groups, c.keys)
		for _, name := range []string{"a", "b"} {
			more += fmt.Sprintf("%%%s0 = input {name=%q, dtype=f32, shape=[%s]}\n", name, name, shape)
			more += fmt.Sprintf("%%%s = affine %%%[1]s0 {mul=0.01}\n", name)
		}
		args += ", %a, %b"
	}
	g, err := ir.Parse(fmt.Sprintf(`graph "g" {
		%%q = input {name="q", dtype=f32, shape=[%d,%d,%d,%d]}
		%%k = input {name="k", dtype=f32, shape=[%[1]d,%[2]d,%[3]d,%[4]d]}
		%%v = input {name="v", dtype=f32, shape=[%[1]d,%[2]d,%[5]d,%d]}
		%%d = input {name="decay", dtype=f32, shape=[%[1]d,%[2]d,%[5]d,%[7]d]}
		%%shrinks = sigmoid %%d
		%%decay = neg %%shrinks
		%%state = input {name="state", dtype=f32, shape=[%[1]d,%[5]d,%[6]d,%[4]d]}
		%[8]s
		%%y = delta_rule %[9]s
		%%last = delta_rule %[9]s {of="state"}
		%%z = silu %%y
		output "y" %%z
		output "last" %%last
	}`, c.texts, c.times, c.groups, c.keys, c.heads, c.rows, decays, more, args))
	check(t, err)
	return g
}

// TestRecurrences runs recurrences with many schedules, and compares with the reference.
func TestRecurrences(t *testing.T) {
	dev := vktest.Device(t, vk.DeviceOptions{})
	tools := toolchain(t)
	states := make([]*passes.State, len(recurrents))
	graphs, texts := make([]*ir.Graph, len(recurrents)), make([][]string, len(recurrents))
	var all []string
	for i, c := range recurrents {
		graphs[i] = c.graph(t)
		var err error
		states[i], texts[i], err = build(graphs[i], func(k *kernel.Kernel) (kernel.Schedule, device.Caps, error) {
			if k.Family != kernel.FamilyRecurrence {
				return nil, dev.Caps(), fmt.Errorf("%d: a %s next to the recurrence:\n%s", i, k.Family, k)
			}
			s := kernel.Recurrent{Launch: kernel.Launch{Variant: kernel.VarRecurrence, Workgroup: c.wg, Vec: 1},
				LanesPerRow: c.lanes, ThreadM: c.each, TileK: c.together, Ahead: c.ahead}
			if c.lanes > 1 {
				s.Subgroup = int(dev.Caps().SubgroupSize)
			}
			return s, dev.Caps(), fits(k, s, dev.Caps())
		})
		check(t, err)
		all = append(all, texts[i]...)
	}
	assembleTogether(tools, all)
	for i, c := range recurrents {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			compareWithReference(t, dev, tools, graphs[i], states[i], texts[i])
		})
	}
}

// TestChunkedScan runs a scan by matmuls over chunks of times, with a partly filled last chunk. It compares with
// the reference.
func TestChunkedScan(t *testing.T) {
	dev, tools := vktest.Device(t, vk.DeviceOptions{}), toolchain(t)
	g := recurrent{texts: 1, times: 200, heads: 2, groups: 1, rows: 5, keys: 12}.graph(t)
	s, text, err := buildWith(g, passes.Options{Pricer: passtest.Choices{Form: kernel.FormChunks}},
		func(k *kernel.Kernel) (kernel.Schedule, device.Caps, error) {
			sched, _, err := schedule.Select(k, dev.Caps())
			return sched, dev.Caps(), err
		})
	check(t, err)
	if !strings.Contains(passtest.Families(s), string(kernel.FamilyMatMul)) {
		t.Errorf("kernels %s have no matmul", passtest.Families(s))
	}
	compareWithReference(t, dev, tools, g, s, text)
}

// TestRecurrenceInPlace runs a recurrence that updates its state in place three times, and compares with the reference.
func TestRecurrenceInPlace(t *testing.T) {
	dev := vktest.Device(t, vk.DeviceOptions{})
	g, err := ir.Parse(`graph "g" {
		%k = input {name="k", dtype=f32, shape=[3,1,16]}
		%v = input {name="v", dtype=f32, shape=[3,2,4]}
		%decay = weight {name="decay", dtype=f32, shape=[3,2,1]}
		%state = state {name="state", dtype=f32, shape=[2,4,16]}
		%y = delta_rule %k, %k, %v, %decay, %state
		%last = delta_rule %k, %k, %v, %decay, %state {of="state"}
		update %state = %last
		output "y" %y
	}`)
	check(t, err)
	s, text, err := build(g, func(k *kernel.Kernel) (kernel.Schedule, device.Caps, error) {
		sched, _, err := schedule.Select(k, dev.Caps())
		return sched, dev.Caps(), err
	})
	check(t, err)
	if len(s.Kernels) != 1 {
		t.Errorf("%d kernels, want one", len(s.Kernels))
	}
	modules, err := assemble(toolchain(t), text)
	check(t, err)
	values := graphgen.Values{Seed: 5, Graph: g}
	exe, err := dev.Load(context.Background(), s.Program, modules, values, vk.LoadOptions{})
	check(t, err)
	defer exe.Close()
	ref, err := interp.New(g, interp.Options{Weights: values})
	check(t, err)
	for i := range 3 {
		in, err := values.Inputs(nil, i)
		check(t, err)
		want, err := ref.Run(context.Background(), in, nil)
		check(t, err)
		have, err := exe.Run(context.Background(), in)
		check(t, err)
		if err := compareOutputs(g, have.Outputs, want); err != nil {
			t.Errorf("run %d: %v", i, err)
		}
	}
}
