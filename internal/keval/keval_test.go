package keval_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/keval"
	"github.com/vkc-go/vkc/ir"
)

// pair is a program of two kernels by hand: t = x+x, then y = t*t, over four
// elements, t in the arena.
func pair() (*kernel.Program, []*kernel.Kernel) {
	four := ir.ShapeOf(4)
	p := &kernel.Program{
		Buffers: []kernel.Buffer{
			{Kind: kernel.BufInput, Name: "x", DType: ir.F32, Shape: four, Bytes: 16},
			{Kind: kernel.BufOutput, Name: "y", DType: ir.F32, Shape: four, Bytes: 16},
			{Kind: kernel.BufTemp, Name: "t", DType: ir.F32, Shape: four, Bytes: 16},
		},
		Inputs:     []kernel.Port{{Name: "x", Buffer: 0, DType: ir.F32, Shape: four}},
		Outputs:    []kernel.Port{{Name: "y", Buffer: 1, DType: ir.F32, Shape: four}},
		ArenaBytes: 256,
		Steps: []kernel.Step{
			{Name: "add", Binds: []kernel.Bind{{Buffer: 0, Read: true}, {Buffer: 2, Write: true}}},
			{Name: "mul", Binds: []kernel.Bind{{Buffer: 2, Read: true}, {Buffer: 1, Write: true}}, Barrier: true},
		},
	}
	return p, []*kernel.Kernel{squareOrDouble(ir.OpAdd, axis()), squareOrDouble(ir.OpMul, axis())}
}

func axis() kernel.Index { return kernel.Axis(0, ir.D(4)) }

// squareOrDouble is a map over four elements that applies op to element at of
// its first binding twice and stores to the second.
func squareOrDouble(op ir.Op, at kernel.Index) *kernel.Kernel {
	b := kernel.NewBuilder()
	x := b.Load(0, ir.F32, at, "x")
	return &kernel.Kernel{
		Name: op.String(), Family: kernel.FamilyMap, Parallel: []ir.Dim{ir.D(4)},
		Bindings: []kernel.Binding{{Name: "x", DType: ir.F32, Read: true}, {Name: "out", DType: ir.F32, Write: true}},
		Stores:   []kernel.Store{{Bind: 1, Index: axis(), Value: b.Apply(op, ir.F32, nil, x, x)}},
	}
}

func runPair(p *kernel.Program, kernels []*kernel.Kernel) ([]float64, error) {
	m, err := keval.New(p, kernels, keval.Options{Order: rand.New(rand.NewPCG(1, 1))})
	if err != nil {
		return nil, err
	}
	x, err := ir.FromFloats(ir.F32, []float64{1, 2, 3, -4}, 4)
	if err != nil {
		return nil, err
	}
	out, err := m.Run(map[string]*ir.Data{"x": x}, map[string]int64{"T": 5})
	if err != nil {
		return nil, err
	}
	return out["y"].Floats()
}

func TestRun(t *testing.T) {
	y, err := runPair(pair())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{4, 16, 36, 64} {
		if y[i] != want {
			t.Errorf("element %d is %v, want %v", i, y[i], want)
		}
	}
}

// TestMistakesAreFound breaks the program in every way that it is this
// package's purpose to see.
func TestMistakesAreFound(t *testing.T) {
	offset := func(n int64) kernel.Index { return axis().Plus(kernel.Const(n)) }
	tests := []struct {
		name  string
		spoil func(p *kernel.Program, k []*kernel.Kernel)
		want  string
	}{
		{"no barrier", func(p *kernel.Program, _ []*kernel.Kernel) { p.Steps[1].Barrier = false }, "no barrier between step 0 (add) and step 1 (mul)"},
		{"a load past the end", func(_ *kernel.Program, k []*kernel.Kernel) { k[0] = squareOrDouble(ir.OpAdd, offset(1)) }, "element 4 of buffer 0 (input x) is outside its memory of 4"},
		{"a load before the start", func(_ *kernel.Program, k []*kernel.Kernel) { k[0] = squareOrDouble(ir.OpAdd, offset(-1)) }, "element -1 of buffer 0"},
		{"a store past the end", func(_ *kernel.Program, k []*kernel.Kernel) { k[1].Stores[0].Index = offset(1) }, "element 4 of buffer 1 (output y) is outside its 4 elements"},
		{"two points store one element", func(_ *kernel.Program, k []*kernel.Kernel) { k[1].Stores[0].Index = kernel.Const(0) }, "element 0 of buffer 1 (output y) is stored by points"},
		{"elements that nothing stores", func(_ *kernel.Program, k []*kernel.Kernel) { k[1].Parallel[0] = ir.D(3) }, `output "y": element 3 of 4 was never stored`},
		{"a load of what was not stored", func(_ *kernel.Program, k []*kernel.Kernel) { k[0].Parallel[0] = ir.D(3) }, "that memory was last stored by nobody"},
		{"a temporary in another's place", func(p *kernel.Program, k []*kernel.Kernel) {
			p.Buffers = append(p.Buffers, p.Buffers[2])
			p.Buffers[3].Name = "u"
			p.Steps[1].Binds[0].Buffer = 3
		}, "load of element"},
		{"a temporary outside of the arena", func(p *kernel.Program, _ []*kernel.Kernel) { p.Buffers[2].Offset = 256 }, "outside the arena"},
		{"a store to what is only read", func(p *kernel.Program, k []*kernel.Kernel) {
			k[0].Stores[0].Bind = 0
		}, "not declared written"},
		{"step and kernel differ", func(p *kernel.Program, k []*kernel.Kernel) { p.Steps[0].Binds[0].Write = true }, "differ on how it is used"},
		{"buffers are missing", func(p *kernel.Program, k []*kernel.Kernel) { p.Steps[0].Binds = p.Steps[0].Binds[:1] }, "1 buffers for 2 bindings"},
		{"no kernel for a step", func(p *kernel.Program, k []*kernel.Kernel) { p.Steps = p.Steps[:1] }, "2 kernels for 1 steps"},
		{"nothing stored", func(_ *kernel.Program, k []*kernel.Kernel) { k[0].Stores = nil }, "nothing is stored"},
		{"another point's element is read and overwritten", func(p *kernel.Program, k []*kernel.Kernel) {
			p.Steps[1].Binds = []kernel.Bind{{Buffer: 2, Read: true, Write: true}}
			k[1].Bindings = []kernel.Binding{{Name: "t", DType: ir.F32, Read: true, Write: true}}
			b := kernel.NewBuilder()
			back := kernel.Const(3).Minus(axis())
			k[1].Stores = []kernel.Store{{Bind: 0, Index: axis(), Value: b.Load(0, ir.F32, back, "t")}}
		}, "of one step"},
		{"a quotient of a negative number", func(_ *kernel.Program, k []*kernel.Kernel) {
			q, _ := axis().Plus(kernel.Const(-3)).DivMod(ir.Symbol("T", 9))
			k[0] = squareOrDouble(ir.OpAdd, q)
		}, "though it is negative"},
		{"an index that i32 does not hold", func(_ *kernel.Program, k []*kernel.Kernel) {
			b := kernel.NewBuilder()
			k[0].Stores[0].Value = b.Load(0, ir.F32, kernel.ValueIndex(b.Integer(ir.U32, 1), kernel.Const(3)), "x")
		}, "u32, which i32 does not hold"},
		{"a random stream before its beginning", func(_ *kernel.Program, k []*kernel.Kernel) {
			b := kernel.NewBuilder()
			one := b.Integer(ir.U32, 1)
			k[0].Stores[0].Value = b.Cast(ir.F32, b.Random(one, one, axis().Minus(kernel.Const(4)), kernel.WordOwn))
		}, "of a random stream"},
		{"a random stream with a float for a seed", func(_ *kernel.Program, k []*kernel.Kernel) {
			b := kernel.NewBuilder()
			k[0].Stores[0].Value = b.Cast(ir.F32,
				b.Random(b.Float(ir.F32, 1), b.Integer(ir.U32, 1), axis(), kernel.WordOwn))
		}, "a seed or offset of f32"},
		{"a scan without a phase", func(_ *kernel.Program, k []*kernel.Kernel) {
			k[0].Family, k[0].Fold, k[0].Parallel = kernel.FamilyScan, ir.D(4), nil
		}, "a scan of 0 phases"},
		{"a scan that stores once per row", func(_ *kernel.Program, k []*kernel.Kernel) {
			b := kernel.NewBuilder()
			k[0].Family, k[0].Fold, k[0].Parallel = kernel.FamilyScan, ir.D(4), nil
			k[0].Phases = []kernel.Phase{{Combine: kernel.CombineSum, Value: b.Float(ir.F32, 1)}}
			k[0].Stores[0] = kernel.Store{Bind: 1, Index: kernel.Const(0), Value: b.Acc(0, ir.F32, "sum")}
		}, "not per row element"},
		{"a sort that takes more than there is", func(_ *kernel.Program, k []*kernel.Kernel) {
			b := kernel.NewBuilder()
			k[0].Family, k[0].Fold, k[0].Take, k[0].Parallel = kernel.FamilySort, ir.D(3), ir.D(4), nil
			k[0].Phases = []kernel.Phase{{Combine: kernel.CombineOrder, Value: b.Float(ir.F32, 1)}}
			k[0].Stores[0] = kernel.Store{Bind: 1, Index: axis(), Value: b.Acc(0, ir.I32, "order"), PerElement: true}
		}, "a sort that takes 4 of 3"},
		{"a scan past its end", func(_ *kernel.Program, k []*kernel.Kernel) {
			b := kernel.NewBuilder()
			at := kernel.Axis(0, ir.D(6))
			k[0].Family, k[0].Fold, k[0].Parallel = kernel.FamilyScan, ir.D(6), nil
			k[0].Phases = []kernel.Phase{{Combine: kernel.CombineSum, Value: b.Float(ir.F32, 1)}}
			k[0].Limit = &kernel.Limit{At: at, Below: ir.D(5)}
			k[0].Stores[0] = kernel.Store{Bind: 1, Index: at, Value: b.Acc(0, ir.F32, "sum"), PerElement: true}
		}, "outside its 4 elements"},
		{"a limit in a map", func(_ *kernel.Program, k []*kernel.Kernel) {
			k[0].Limit = &kernel.Limit{At: axis(), Below: ir.D(2)}
		}, "a limit in a map"},
		{"the fold axis outside of its loop", func(_ *kernel.Program, k []*kernel.Kernel) {
			k[0].Family, k[0].Fold = kernel.FamilyRow, ir.D(4)
			k[0].Parallel = nil
		}, "store 0 uses the fold axis outside of its loop"},
	}
	for _, tt := range tests {
		p, k := pair()
		tt.spoil(p, k)
		if _, err := runPair(p, k); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestMaskedLoads checks that a load past the elements there are at run time
// is harmless where a selection drops it, and an error where it reaches a store.
func TestMaskedLoads(t *testing.T) {
	T := ir.Symbol("T", 8)
	for _, masked := range []bool{true, false} {
		b := kernel.NewBuilder()
		at := kernel.Axis(0, ir.D(8))
		v := b.Load(0, ir.F32, at, "x")
		if masked {
			inside := b.Apply(ir.OpLt, ir.Bool, nil, b.FromIndex(at), b.FromIndex(kernel.DimIndex(T)))
			v = b.Apply(ir.OpWhere, ir.F32, nil, inside, v, b.Float(ir.F32, 7))
		}
		k := &kernel.Kernel{Name: "pad", Family: kernel.FamilyMap, Parallel: []ir.Dim{ir.D(8)},
			Bindings: []kernel.Binding{{Name: "x", DType: ir.F32, Read: true}, {Name: "out", DType: ir.F32, Write: true}},
			Stores:   []kernel.Store{{Bind: 1, Index: at, Value: v}}}
		p := &kernel.Program{
			Buffers: []kernel.Buffer{{Kind: kernel.BufInput, Name: "x", DType: ir.F32, Shape: ir.Shape{T}, Bytes: 32},
				{Kind: kernel.BufOutput, Name: "y", DType: ir.F32, Shape: ir.ShapeOf(8), Bytes: 32}},
			Inputs:  []kernel.Port{{Name: "x", Buffer: 0, DType: ir.F32, Shape: ir.Shape{T}}},
			Outputs: []kernel.Port{{Name: "y", Buffer: 1, DType: ir.F32, Shape: ir.ShapeOf(8)}},
			Steps:   []kernel.Step{{Binds: []kernel.Bind{{Buffer: 0, Read: true}, {Buffer: 1, Write: true}}}},
		}
		m, err := keval.New(p, []*kernel.Kernel{k}, keval.Options{})
		if err != nil {
			t.Fatal(err)
		}
		x, err := ir.FromFloats(ir.F32, []float64{1, 2, 3}, 3)
		if err != nil {
			t.Fatal(err)
		}
		out, err := m.Run(map[string]*ir.Data{"x": x}, map[string]int64{"T": 3})
		if !masked {
			if err == nil || !strings.Contains(err.Error(), "depends on memory that holds nothing") {
				t.Errorf("a load past the end reached a store: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		y, err := out["y"].Floats()
		if err != nil || y[2] != 3 || y[3] != 7 {
			t.Errorf("have %v (%v)", y, err)
		}
	}
}
