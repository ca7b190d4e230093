package schedule

import (
	"slices"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// normed is a matmul with blocks that divides each row by its norm.
func normed(mul *kernel.Kernel) *kernel.Kernel {
	out := *mul
	b, p := kernel.NewBuilder(), mul.MatMuls[0]
	x := b.Load(0, ir.F32, p.A.Index, "a")
	p.A, p.B = x, b.Load(1, ir.F32, p.B.Index, "b")
	if t := mul.Bindings[1].DType; t.IsBlock() {
		p.B = b.Load(1, t, p.B.Index, "b")
	}
	out.MatMuls = []kernel.MatMul{p}
	out.Phases = []kernel.Phase{{Combine: kernel.CombineSum, Value: b.Apply(ir.OpSqr, ir.F32, nil, x), Name: "sum_sq"}}
	st := mul.Stores[0]
	st.Value = b.Apply(ir.OpMul, ir.F32, nil, b.Acc(0, ir.F32, "acc"),
		b.Apply(ir.OpRsqrt, ir.F32, nil, b.Acc(1, ir.F32, "sum_sq")))
	out.Stores = []kernel.Store{st}
	return &out
}

// TestFuseNorms: norms are fused into matmuls of few rows that run as matvecs.
func TestFuseNorms(t *testing.T) {
	h100, lavapipe := profile(t, "nvidia-h100"), profile(t, "lavapipe")
	dear := func(k *kernel.Kernel) *kernel.Kernel {
		b, x := kernel.NewBuilder(), k.Phases[0].Value.Args[0]
		v := b.Load(0, ir.F32, x.Index, "a")
		for range maxRowCost {
			v = b.Apply(ir.OpSin, ir.F32, nil, v)
		}
		k.Phases[0].Value = v
		return k
	}
	for _, c := range []struct {
		what    string
		product *kernel.Kernel
		joined  func(*kernel.Kernel) *kernel.Kernel
		caps    device.Caps
		want    bool
	}{
		{"one row", blockMul(1, 4096, 4096, ir.Q4_0, false), normed, h100, true},
		{"rows of bytes", blockMul(1, 4096, 4096, ir.Q4_0, true), normed, h100, true},
		{"many rows", blockMul(512, 4096, 4096, ir.Q4_0, false), normed, h100, false},
		{"rows that are dear to compute", blockMul(1, 4096, 4096, ir.Q4_0, false),
			func(k *kernel.Kernel) *kernel.Kernel { return dear(normed(k)) }, h100, false},
		{"many columns", blockMul(1, 64000, 4096, ir.Q4_K, false), normed, h100, false},
		{"a processor", blockMul(1, 4096, 4096, ir.Q4_0, false), normed, lavapipe, false},
	} {
		norm := &kernel.Kernel{Family: kernel.FamilyRow, Parallel: c.product.Parallel[:1], Fold: c.product.Fold}
		e := NewPricer(c.caps).Price(kernel.Rewrite{Before: []*kernel.Kernel{norm, c.product},
			After: []*kernel.Kernel{c.joined(c.product)}})
		if got := e.Gain() > 0; got != c.want {
			t.Errorf("%s: %v, want %v: %+v", c.what, got, c.want, e)
		}
	}
}

// TestStoreFactor: a factor of rows is multiplied into the stored rows if they would be read only for it.
func TestStoreFactor(t *testing.T) {
	h100 := profile(t, "nvidia-h100")
	for _, c := range []struct {
		what string
		k    *kernel.Kernel
		want bool
	}{
		{"rows that are read again", normed(blockMul(1, 4096, 4096, ir.Q4_K, false)), true},
		{"rows that become digits as they are read", normed(blockMul(1, 4096, 4096, ir.Q4_0, false)), false},
		{"rows that are rounded as they are read", normed(blockMul(1, 4096, 4096, ir.Q4_0, true)), false},
		{"many rows", blockMul(512, 4096, 4096, ir.Q4_0, false), false},
	} {
		b, weighed, reading := kernel.NewBuilder(), *c.k, *c.k
		weighed.MatMuls, reading.MatMuls = slices.Clone(c.k.MatMuls), slices.Clone(c.k.MatMuls)
		weighed.Bindings = append(slices.Clone(c.k.Bindings),
			kernel.Binding{Name: "w", DType: ir.F32, Read: true, Elems: 4096})
		reading.Bindings = weighed.Bindings
		w := b.Load(len(c.k.Bindings), ir.F32, kernel.Axis(c.k.FoldAxis(), c.k.Fold), "w")
		weighed.MatMuls[0].A, reading.MatMuls[0].A = b.Apply(ir.OpMul, ir.F32, nil, c.k.MatMuls[0].A, w), w
		e := NewPricer(h100).Price(kernel.Rewrite{Before: []*kernel.Kernel{&weighed},
			After: []*kernel.Kernel{&reading}})
		if got := e.Gain() > 0; got != c.want {
			t.Errorf("%s: %v, want %v: %+v", c.what, got, c.want, e)
		}
	}
}

// TestRowSumsCheck: only matvecs with subgroups add up rows, of floats.
func TestRowSumsCheck(t *testing.T) {
	h100 := profile(t, "nvidia-h100")
	k := normed(blockMul(1, 4096, 4096, ir.Q4_0, false))
	vec := matVecSchedule(matShapeOf(k), 128, 8, 4, 256, 32)
	vec.TileK = 32
	with := func(change func(*kernel.Kernel)) *kernel.Kernel {
		c := normed(blockMul(1, 4096, 4096, ir.Q4_0, false))
		change(c)
		return c
	}
	for _, c := range []struct {
		what string
		k    *kernel.Kernel
		s    kernel.Schedule
		want string
	}{
		{"matvec", k, vec, ""},
		{"no subgroups", k, matVecSchedule(matShapeOf(k), 128, 8, 4, 256, 0), ""},
		{"tiles", k, kernel.MatTile{Launch: kernel.Launch{Variant: kernel.VarMatTile, Workgroup: 64, Vec: 4},
			Tile: kernel.Tile{TileM: 16, TileN: 16, TileK: 16}, ThreadM: 2, ThreadN: 2}, "only matvec"},
		{"odd rows", normed(blockMul(1, 64, 4094, ir.F32, false)), vec, "vectors of four"},
		{"a maximum", with(func(k *kernel.Kernel) { k.Phases[0].Combine = kernel.CombineMax }), vec, "want a sum"},
		{"integers", with(func(k *kernel.Kernel) { k.MatMuls[0].Operands = ir.I8 }), vec, "other than f32"},
		{"the result", with(func(k *kernel.Kernel) { k.Phases[0].Value = k.Stores[0].Value }), vec,
			"uses a column or a result"},
	} {
		got, err := New(c.k, c.s, h100)
		expect(t, c.what, got, err, c.want)
	}
}

// TestColsCheck: columns are stored in several ways by matvecs alone, pairs of
// them by one workgroup.
func TestColsCheck(t *testing.T) {
	h100 := profile(t, "nvidia-h100")
	mul := func(cols kernel.Cols, pairs bool) *kernel.Kernel {
		k := blockMul(1, 4096, 4096, ir.Q4_0, false)
		b, p := kernel.NewBuilder(), k.MatMuls[0]
		k.MatMuls[0].A, k.MatMuls[0].B = b.Load(0, ir.F32, p.A.Index, "a"), b.Load(1, ir.Q4_0, p.B.Index, "b")
		k.Stores[0].Cols, k.Stores[0].Value = cols, b.Acc(0, ir.F32, "acc")
		if pairs {
			k.Stores[0].Value = b.AccOfPair(0, ir.F32, kernel.Axis(1, ir.D(int(cols.To-cols.From))), "acc")
		}
		return k
	}
	sh := matShapeOf(mul(kernel.Cols{}, false))
	vec := matVecSchedule(sh, 128, 8, 4, 256, 32)
	for _, c := range []struct {
		what string
		k    *kernel.Kernel
		s    kernel.Schedule
		want string
	}{
		{"a matvec", mul(kernel.Cols{From: 16, To: 32}, true), vec, ""},
		{"odd columns", mul(kernel.Cols{From: 3, To: 8}, false), vec, ""},
		{"half a pair", mul(kernel.Cols{From: 3, To: 8}, true), vec, "not whole pairs"},
		{"beyond the end", mul(kernel.Cols{From: 16, To: 4097}, false), vec, "does not have"},
		{"none", mul(kernel.Cols{From: 16, To: 16}, false), vec, "does not have"},
		{"tiles of odd columns", mul(kernel.Cols{From: 16, To: 32}, true), matVecSchedule(sh, 128, 1, 1, 128, 32),
			"whole pairs"},
		{"a sum an invocation", mul(kernel.Cols{From: 16, To: 32}, true), matVecSchedule(sh, 1, 64, 2, 32, 0),
			"several invocations share sums"},
		{"tiles", mul(kernel.Cols{From: 16, To: 32}, true),
			kernel.MatTile{Launch: kernel.Launch{Variant: kernel.VarMatTile, Workgroup: 64, Vec: 4},
				Tile: kernel.Tile{TileM: 16, TileN: 16, TileK: 16}, ThreadM: 2, ThreadN: 2}, "only matvec"},
	} {
		got, err := New(c.k, c.s, h100)
		expect(t, c.what, got, err, c.want)
	}
}
