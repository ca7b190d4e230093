package glsl_test

import (
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// product describes a matmul for tests: y = epilogue(sum over k of prologue(A) * B). If it is gated, it has a second B
// with the same A.
type product struct {
	batch       []ir.Dim
	m, n, k     ir.Dim
	a, b        ir.DType
	transA      bool // A stored as [k,m]
	transB      bool // B stored as [n,k]
	sharedB     bool // B has no batch
	prologue    bool // A passes an elementwise op first
	bias, gated bool
	half        bool     // the result is stored as f16
	halfSums    bool     // sums may be f16
	loose       bool     // scales are rounded to f16, too
	operands    ir.DType // the dtype that operands may be rounded to, or Invalid
	layout      kernel.Layout
	bytes       bool // A is int8, with a scale for every 32 elements
	byteRows    bool // A may be rounded to int8 with such scales
	halves      bool // A is the sum of two f16 values
	plusOne     bool // for integers: one is added to the sums
	norm        bool // a norm: A is weighted, and rows of the result are divided by the size of A's rows
	across      bool // the result is stored as [n,m]
}

// integers reports whether the operands are i8 or u8. The result is i32, or f32 or f16 if any op but plusOne follows.
func (p product) integers() bool { return p.operands == ir.I8 || p.operands == ir.U8 }

// sumScale scales integer sums to the size of float sums.
const sumScale = 1.0 / (1 << 16)

// normEps prevents a division by zero for rows of zeros.
const normEps = 0.01

// leastInteger is the lower limit that the prologue applies to integers.
const leastInteger = 3

// at returns the row-major position of coordinates.
func at(shape []ir.Dim, coords ...kernel.Index) kernel.Index {
	x := kernel.Const(0)
	for i, d := range shape {
		x = x.Mul(kernel.DimIndex(d)).Plus(coords[i])
	}
	return x
}

func join(batch []ir.Dim, rest ...ir.Dim) []ir.Dim {
	return append(append([]ir.Dim(nil), batch...), rest...)
}

func coords(batch []kernel.Index, rest ...kernel.Index) []kernel.Index {
	return append(append([]kernel.Index(nil), batch...), rest...)
}

func swapIf(cond bool, a, b ir.Dim) (ir.Dim, ir.Dim) {
	if cond {
		return b, a
	}
	return a, b
}

// kernel builds the kernel. Its bindings are a, b, then gate and bias if it has them, then the result, then params.
func (p product) kernel() *kernel.Kernel {
	b := kernel.NewBuilder()
	r := len(p.batch)
	k := &kernel.Kernel{Name: "matmul", Family: kernel.FamilyMatMul, Parallel: join(p.batch, p.m, p.n), Fold: p.k,
		Ops: []string{"matmul"}}
	bind := func(name string, t ir.DType, shape []ir.Dim, write bool) int {
		k.Bindings = append(k.Bindings,
			kernel.Binding{Name: name, DType: t, Read: !write, Write: write, Buffer: len(k.Bindings),
				Elems: ir.Shape(shape).MaxElems()})
		return len(k.Bindings) - 1
	}
	var batch []kernel.Index
	for i, d := range p.batch {
		batch = append(batch, kernel.Axis(i, d))
	}
	row, col, fold := kernel.Axis(r, p.m), kernel.Axis(r+1, p.n), kernel.Axis(r+2, p.k)

	ar, ac := swapIf(p.transA, p.m, p.k)
	aShape, aAt := join(p.batch, ar, ac), coords(batch, row, fold)
	if p.transA {
		aAt = coords(batch, fold, row)
	}
	x := b.Load(bind("a", p.a, aShape, false), p.a, at(aShape, aAt...), "a")
	if !p.integers() {
		x = b.Cast(ir.F32, x)
	}
	if p.halves {
		low := b.Load(bind("a_low", p.a, aShape, false), p.a, at(aShape, aAt...), "a_low")
		x = b.Apply(ir.OpAdd, ir.F32, nil, x, b.Cast(ir.F32, low))
	}
	if p.bytes {
		groups, _ := p.k.Quo(32)
		group, _ := fold.DivMod(d(32))
		shape := join(p.batch, p.m, groups)
		x = b.Apply(ir.OpMul, ir.F32, nil, x,
			b.Load(bind("scales", ir.F32, shape, false), ir.F32, at(shape, coords(batch, row, group)...), "scales"))
	}
	switch {
	case p.prologue && p.integers():
		x = b.Apply(ir.OpMax, p.a, nil, x, b.Integer(p.a, leastInteger))
	case p.prologue:
		x = b.Apply(ir.OpRelu, ir.F32, nil, b.Apply(ir.OpAdd, ir.F32, nil, x, b.Float(ir.F32, 0.5)))
	}

	scale := b.Float(ir.F32, 1)
	if p.norm {
		k.Phases = []kernel.Phase{{Combine: kernel.CombineSum,
			Value: b.Apply(ir.OpSqr, ir.F32, nil, x), Name: "sum_sq"}}
		x = b.Apply(ir.OpMul, ir.F32, nil, x,
			b.Load(bind("norm_weight", ir.F32, []ir.Dim{p.k}, false), ir.F32, fold, "norm_weight"))
	}

	br, bc := swapIf(p.transB, p.k, p.n)
	bBatch, bCoords := p.batch, batch
	if p.sharedB {
		bBatch, bCoords = nil, nil
	}
	bShape, bAt := join(bBatch, br, bc), coords(bCoords, fold, col)
	if p.transB {
		bAt = coords(bCoords, col, fold)
	}
	load := func(name string) *kernel.Expr {
		slot := bind(name, p.b, bShape, false)
		k.Bindings[slot].Layout = p.layout
		v := b.Load(slot, p.b, at(bShape, bAt...), name)
		if p.integers() {
			return v
		}
		return b.Cast(ir.F32, v)
	}
	k.MatMuls = []kernel.MatMul{{A: x, B: load("b"), Name: "acc", Operands: p.operands, HalfSums: p.halfSums,
		ByteRows: p.byteRows}}
	if c := quant.Codebook(p.b); c != nil {
		k.Bindings[bind("codebook", c.DType, []ir.Dim{ir.D(c.Elems())}, false)].Codebook = p.b
	}
	sum := func(i int, name string) *kernel.Expr {
		v := b.Acc(i, k.MatMuls[i].Sums(), name)
		if p.norm {
			v = b.Apply(ir.OpMul, ir.F32, nil, v, scale)
		}
		if p.integers() && (p.gated || p.bias || p.half) {
			v = b.Apply(ir.OpMul, ir.F32, nil, b.Cast(ir.F32, v), b.Float(ir.F32, sumScale))
		}
		return v
	}
	if p.norm {
		acc := 1 // the result of the phase
		if p.gated {
			acc = 2
		}
		mean := b.Apply(ir.OpMul, ir.F32, nil, b.Acc(acc, ir.F32, "sum_sq"), b.Float(ir.F32, 1/float64(p.k.Max())))
		scale = b.Apply(ir.OpRsqrt, ir.F32, nil, b.Apply(ir.OpAdd, ir.F32, nil, mean, b.Float(ir.F32, normEps)))
	}
	y := sum(0, "acc")
	if p.plusOne {
		y = b.Apply(ir.OpAdd, ir.I32, nil, y, b.Integer(ir.I32, 1))
	}
	if p.gated {
		k.MatMuls[0].Name = "acc0"
		k.MatMuls = append(k.MatMuls, kernel.MatMul{A: x, B: load("gate"), Name: "acc1", Operands: p.operands})
		k.MatMuls[1].HalfSums, k.MatMuls[1].ByteRows = p.halfSums, p.byteRows
		y = b.Apply(ir.OpMul, ir.F32, nil, b.Apply(ir.OpRelu, ir.F32, nil, y), sum(1, "acc1"))
	}
	if p.bias {
		y = b.Apply(ir.OpAdd, ir.F32, nil, y, b.Load(bind("bias", ir.F32, []ir.Dim{p.n}, false), ir.F32, col, "bias"))
	}
	out := y.DType
	if p.half {
		out = ir.F16
		y = b.Cast(out, y)
	}
	yShape, place := join(p.batch, p.m, p.n), coords(batch, row, col)
	if p.across {
		yShape, place = join(p.batch, p.n, p.m), coords(batch, col, row)
	}
	k.Stores = []kernel.Store{{Bind: bind("out", out, yShape, true), Index: at(yShape, place...), Value: y}}
	if len(k.Symbols()) > 0 {
		k.Bindings = append(k.Bindings,
			kernel.Binding{Name: "params", DType: ir.U32, Read: true, Params: true, Elems: 4})
	}
	return kernel.Canonical(k)
}

// fits returns the reason why a kernel cannot run so.
func fits(k *kernel.Kernel, s kernel.Schedule, caps device.Caps) error {
	_, err := schedule.New(k, s, caps)
	return err
}
