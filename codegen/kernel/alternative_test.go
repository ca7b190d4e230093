package kernel

import (
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// fewRows is valid with alternatives for up to 2 and up to 4 of its symbol.
func fewRows() *Program {
	p := valid()
	p.Shaders = append(p.Shaders, Shader{Name: "few", Bindings: 2, Workgroup: 64})
	for _, most := range []int{2, 4} {
		p.Steps[0].Alternatives = append(p.Steps[0].Alternatives, Alternative{Symbol: Symbol{"T", int64(most)},
			Shader: 1, Grid: Grid{{{ir.Symbol("T", most), 1}}}, Schedule: "few"})
	}
	return p
}

func TestAlternativeFor(t *testing.T) {
	p := fewRows()
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	s := p.Steps[0]
	for value, want := range map[int64]int{0: 0, 2: 0, 3: 1, 4: 1, 5: -1, 8: -1} {
		symbols := map[string]int64{"T": value}
		i, err := s.Choose(symbols)
		if err != nil || i != want {
			t.Errorf("for %d alternative %d, want %d: %v", value, i, want, err)
		}
		one, err := s.For(symbols)
		groups, gridErr := one.Grid.Eval(symbols)
		if err != nil || gridErr != nil || (one.Shader == 1) != (want >= 0) || want >= 0 && groups[0] != uint32(value) {
			t.Errorf("for %d shader %d with %v workgroups: %v, %v", value, one.Shader, groups, err, gridErr)
		}
	}
	if _, err := s.For(nil); err == nil {
		t.Error("a kernel was chosen without the symbol's value")
	}
	product := Step{Alternatives: []Alternative{{Symbol: Symbol{"B*T", 6}}}}
	for value, want := range map[int64]int{3: 0, 4: -1} {
		if i, err := product.Choose(map[string]int64{"B": 2, "T": value}); err != nil || i != want {
			t.Errorf("for 2*%d alternative %d, want %d: %v", value, i, want, err)
		}
	}
	most, err := s.Kernels()[2].MostGroups()
	if err != nil || most != [3]uint32{4, 1, 1} || s.IsStatic() {
		t.Errorf("up to %v workgroups: %v", most, err)
	}
}

func TestAlternativeCheck(t *testing.T) {
	for want, damage := range map[string]func(p *Program, a []Alternative){
		"no shader 7":              func(_ *Program, a []Alternative) { a[1].Shader = 7 },
		"shader of 3 bindings":     func(p *Program, _ []Alternative) { p.Shaders[1].Bindings = 3 },
		"1 is for values of \"S\"": func(_ *Program, a []Alternative) { a[1].Symbol.Name = "S" },
		"increasing values":        func(_ *Program, a []Alternative) { a[1].Symbol.Bound = 2 },
		"up to 0":                  func(_ *Program, a []Alternative) { a[0].Symbol.Bound = 0 },
		"no declared symbol":       func(_ *Program, a []Alternative) { a[0].Grid[0][0].Extent = ir.Symbol("S", 2) },
		"dim T has no":             func(_ *Program, a []Alternative) { a[0].Grid[0][0].Extent = ir.Symbol("T", 9) },
		"is not usable":            func(_ *Program, a []Alternative) { a[0].Grid[0][0].Tile = 0 },
		"cannot be printed":        func(_ *Program, a []Alternative) { a[0].Schedule = "\x1b" },
		"9 alternatives": func(p *Program, a []Alternative) {
			p.Steps[0].Alternatives = append(a, a[1], a[1], a[1], a[1], a[1], a[1], a[1])
		},
		"its grid depends on symbols": func(p *Program, _ []Alternative) { p.Prepared, p.Steps[0].Grid = 1, Grid{} },
	} {
		p := fewRows()
		damage(p, p.Steps[0].Alternatives)
		if err := p.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error of %q: %v", want, err)
		}
	}
}

// TestNarrow: a narrowed kernel has smaller bounds and the same bindings, used or not.
func TestNarrow(t *testing.T) {
	rows := ir.Symbol("T", 8)
	at := Axis(0, rows)
	k := &Kernel{Name: "k", Family: FamilyMap, Parallel: []ir.Dim{rows, ir.Symbol("S", 3)},
		Bindings: []Binding{{Name: "x", Read: true, DType: ir.F32, Elems: 8}, {Name: "y", Write: true, DType: ir.F32,
			Elems: 8}, {Name: "unused", Read: true}},
		Stores: []Store{{Bind: 1, Index: at, Value: NewBuilder().Load(0, ir.F32, at, "x")}}}
	n := Narrow(k, "T", 2)
	if n.Parallel[0].Max() != 2 || n.Parallel[1].Max() != 3 || len(n.Bindings) != 3 || n.Bindings[0].Elems != 8 {
		t.Errorf("narrowed to %s", n)
	}
	n.Stores[0].Value.Index.Walk(func(f *Factor) {
		if f.Extent.Max() != 2 {
			t.Errorf("it loads along an axis of %s <= %d", f.Extent, f.Extent.Max())
		}
	})
	if same := Narrow(k, "T", 9); same.Parallel[0].Max() != 8 || k.Parallel[0].Max() != 8 {
		t.Errorf("a larger bound gives %s", same)
	}
}
