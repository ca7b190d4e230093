package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/plan"
)

// touching returns a kernel that reads and writes some values.
func touching(name string, reads, writes []plan.ValueID) *kernel.Kernel {
	k := &kernel.Kernel{Name: name, Family: kernel.FamilyMap}
	for _, v := range reads {
		k.Bindings = append(k.Bindings, kernel.Binding{Buffer: v, Read: true})
	}
	for _, v := range writes {
		k.Bindings = append(k.Bindings, kernel.Binding{Buffer: v, Write: true})
	}
	return k
}

// The values of the graphs below.
const (
	input plan.ValueID = iota
	state
	weight
	a
	b
	c
	output
)

type values = []plan.ValueID

func newGraph() *plan.Graph {
	g := &plan.Graph{}
	for _, o := range []plan.Origin{plan.Input, plan.State, plan.Weight, plan.Temp, plan.Temp, plan.Temp, plan.Output} {
		g.AddValue(plan.Value{Type: ir.Type{DType: ir.F32}, Origin: o})
	}
	return g
}

func levels(g *plan.Graph) (list []int) {
	for _, id := range g.IDs() {
		list = append(list, g.Level(id))
	}
	return list
}

func names(g *plan.Graph) string {
	var list []string
	for _, k := range g.Kernels() {
		list = append(list, k.Name)
	}
	return strings.Join(list, " ")
}

func TestLevels(t *testing.T) {
	for _, tt := range []struct {
		name    string
		kernels []*kernel.Kernel
		want    []int
		sorted  string
	}{
		{"what reads waits for what writes",
			[]*kernel.Kernel{touching("x", values{input}, values{a}), touching("y", values{a}, values{b}),
				touching("z", values{input}, values{c})}, []int{0, 1, 0}, "x z y"},
		{"a state is read before it is overwritten", []*kernel.Kernel{touching("old", values{state}, values{a}),
			touching("set", values{input}, values{state}), touching("new", values{state}, values{b})}, []int{0, 1, 2}, "old set new"},
		{"parts of a value follow one another",
			[]*kernel.Kernel{touching("x", values{input}, values{a}), touching("y", values{input}, values{a}),
				touching("z", values{a}, values{output})}, []int{0, 1, 2}, "x y z"},
		{"zeros are stored late",
			[]*kernel.Kernel{touching("zeros", nil, values{c}), touching("x", values{input}, values{a}),
				touching("y", values{a}, values{b}), touching("z", values{b, c}, values{output})}, []int{1, 0, 1, 2}, "x zeros y z"},
	} {
		g := newGraph()
		for _, k := range tt.kernels {
			g.Append(k)
		}
		if got := levels(g); !slices.Equal(got, tt.want) {
			t.Errorf("%s: levels are %v and want %v", tt.name, got, tt.want)
		}
		if g.Sort(); names(g) != tt.sorted {
			t.Errorf("%s: the order is %s and wants %s", tt.name, names(g), tt.sorted)
		}
		if err := g.Check(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestReplace(t *testing.T) {
	g := newGraph()
	x := g.Append(touching("x", values{input}, values{a}))
	y := g.Append(touching("y", values{a}, values{output}))
	scratch := g.Scratch(ir.Type{DType: ir.F32})
	before := g.Replace(y, touching("store", values{a}, values{scratch}),
		touching("y2", values{scratch}, values{output}))
	if names(g) != "x store y2" || len(before) != 1 || g.Kernel(y).Name != "y2" {
		t.Errorf("the kernels are %s, the one before %v, y is %s", names(g), before, g.Kernel(y).Name)
	}
	if r := g.Readers(a); !slices.Equal(r, before) {
		t.Errorf("%v read the value of x and %v should", r, before)
	}
	if got := levels(g); !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("levels are %v", got)
	}
	g.Replace(x)
	if g.Kernel(x) != nil || len(g.Writers(a)) != 0 {
		t.Errorf("x is still there: %v writes its value", g.Writers(a))
	}
	if err := g.Check(); err == nil || !strings.Contains(err.Error(), "store reads") {
		t.Errorf("a value that nobody stores: %v", err)
	}
}

func TestCanMove(t *testing.T) {
	g := newGraph()
	x := g.Append(touching("x", values{input}, values{a}))
	y := g.Append(touching("y", values{a}, values{b}))
	z := g.Append(touching("z", values{b, state}, values{c}))
	set := g.Append(touching("set", values{a}, values{state}))
	for _, tt := range []struct {
		name       string
		kernel, to plan.KernelID
		between    plan.ValueID
		want       bool
	}{
		{"a reader, to where its value is made", y, x, a, true},
		{"a reader whose state is overwritten later", z, y, b, true},
		{"a writer, before others have read the state", set, x, a, false},
	} {
		if got := g.CanMove(tt.kernel, tt.to, tt.between); got != tt.want {
			t.Errorf("%s: %t and want %t", tt.name, got, tt.want)
		}
	}
	beside := newGraph()
	beside.Append(touching("place", values{input}, values{b}))
	rows := beside.Append(touching("rows", values{weight}, values{a}))
	store := beside.Append(touching("store", values{a, b}, values{output}))
	if !beside.CanMove(store, rows, a) {
		t.Error("a reader does not move to a kernel beside which, and before it, what it reads was made")
	}
	later := newGraph()
	norm := later.Append(touching("norm", values{state}, values{a}))
	later.Append(touching("set", values{input}, values{state}))
	product := later.Append(touching("product", values{a}, values{output}))
	if later.CanMove(norm, product, a) {
		t.Error("a reader moves to where the state is overwritten that it reads before")
	}
	g.Append(touching("late", values{c}, values{state}))
	w := g.Append(touching("w", values{state}, values{output}))
	if g.CanMove(w, z, c) {
		t.Error("a reader moves before a state is overwritten that it reads after")
	}
}

func TestRunOnce(t *testing.T) {
	g := newGraph()
	g.Append(touching("x", values{input}, values{a}))
	pack := g.Append(touching("pack", values{weight}, values{b}))
	g.Append(touching("y", values{a, b}, values{output}))
	zeros := g.Append(touching("zeros", nil, values{c}))
	g.Append(touching("z", values{c}, values{output}))
	g.RunOnce([]plan.KernelID{pack, zeros})
	if g.Sort(); names(g) != "pack zeros x y z" || g.Once() != 2 {
		t.Errorf("%s, %d run once", names(g), g.Once())
	}
	if got := levels(g); !slices.Equal(got, []int{0, 0, 1, 2, 3}) {
		t.Errorf("levels are %v", got)
	}
}
