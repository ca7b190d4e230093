package optest

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// Cases of ops in a row, which one kernel computes. A driver's compiler sees all of them, and may take two for
// something simpler that is another number: these cases ask for what each op makes by itself. The chains of one case
// are parts of one tensor, and so of one kernel.

// chained adds a case of several chains, whose results stand one after the other along the outermost axis.
func (s *suite) chained(op ir.Op, name string, chains func(b *builder, t ir.DType) []*ir.Node) *template {
	return s.add(op, name, func(b *builder, t ir.DType) *ir.Node {
		parts := chains(b, t)
		if b.err != nil || len(parts) == 0 {
			return nil
		}
		return b.op(ir.OpConcat, parts, attr("axis", int64(0)))
	})
}

// castChains adds casts of casts. Of a float that cannot hold a number the next cast gets the nearest one, although
// the number itself is at hand.
func (s *suite) castChains() {
	narrower := slices.DeleteFunc(slices.Clone(preferred), func(t ir.DType) bool { return t == ir.F64 })
	chain := func(name string, from, through []ir.DType, to func(from ir.DType) ir.DType) *template {
		c := s.chained(ir.OpCast, name, func(b *builder, t ir.DType) (parts []*ir.Node) {
			x := b.leaf(ir.OpInput, t, []int{1, chainLength}, digits, 0)
			for _, by := range through {
				y := b.view(ir.OpCast, x, attr("dtype", by))
				parts = append(parts, b.view(ir.OpCast, y, attr("dtype", to(t))))
			}
			return parts
		}).every().exactly()
		c.types = from
		return c
	}
	back := func(from ir.DType) ir.DType { return from }
	for _, to := range []ir.DType{ir.F16, ir.BF16, ir.F8E4M3, ir.F8E5M2} { // by way of f32 these would be rounded twice
		once := s.add(ir.OpCast, "to "+to.String()+"/digits", func(b *builder, t ir.DType) *ir.Node {
			return b.view(ir.OpCast, b.leaf(ir.OpInput, t, []int{chainLength}, digits, 0), attr("dtype", to))
		}).every().exactly()
		once.types = []ir.DType{ir.F32, ir.F64, ir.I32, ir.I64}
	}
	all := func(t ir.DType) func(ir.DType) ir.DType { return func(ir.DType) ir.DType { return t } }
	chain("chains/and back", narrower, narrower, back).quick()
	chain("chains/and to i64", []ir.DType{ir.F32, ir.I32, ir.U32, ir.F64}, narrower, all(ir.I64))
	chain("chains/and to f32", []ir.DType{ir.I64, ir.U32, ir.F64}, narrower, all(ir.F32))
	chain("chains/and back", []ir.DType{ir.F64}, preferred, back)
	chain("chains/by f64 and back", []ir.DType{ir.I64, ir.F32}, []ir.DType{ir.F64}, back)
}

// powers adds powers by constants, of which the generator makes products, quotients and roots.
func (s *suite) powers() {
	exponents := []float64{-2, -1, -0.5, 0, 0.5, 1, 2, 3, 4, 5, 6, 7, 8, 1.5}
	s.chained(ir.OpPowf, "by constants", func(b *builder, t ir.DType) (parts []*ir.Node) {
		x := b.input(t, []int{1, extremeCount(t)}, extreme)
		for _, e := range exponents {
			parts = append(parts, b.view(ir.OpPowf, x, attr("exponent", e)))
		}
		return parts
	}).floats().quick()
	s.chained(ir.OpPow, "by constants", func(b *builder, t ir.DType) (parts []*ir.Node) {
		x := b.input(t, []int{1, extremeCount(t)}, extreme)
		for _, e := range exponents {
			if t.IsFloat() || e == math.Trunc(e) && (e >= 0 || t.Kind() == ir.KindInt) {
				parts = append(parts, b.op(ir.OpPow, []*ir.Node{x, b.number(t, e)}))
			}
		}
		return parts
	}).every()
}

// number adds a constant of one element.
func (b *builder) number(t ir.DType, v float64) *ir.Node {
	if b.err != nil {
		return nil
	}
	var d *ir.Data
	if t.IsFloat() {
		d, b.err = ir.FromFloats(t, []float64{v}, 1)
	} else {
		d, b.err = ir.FromInts(t, []int64{int64(v)}, 1)
	}
	return b.op(ir.OpConst, nil, attr("data", d))
}

// chainLength is how many elements each chain computes.
const chainLength = 192

// digitsOf returns numbers of which narrower dtypes lose digits: powers of two, and what lies around them and around
// the middle of two neighbours in a narrower dtype.
func digitsOf(t ir.DType) (floats []float64, ints []int64) {
	if t.IsFloat() {
		floats = append(floats, 0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), largest(t), -largest(t),
			math.Pi, 0.1, 1e10, -3e5)
		for _, scale := range []float64{1, 0x1p-10, 0x1p15, 0x1p31, -0x1p6} {
			for _, last := range []float64{0x1p-3, 0x1p-4, 0x1p-8, 0x1p-9, 0x1p-11, 0x1p-12, 0x1p-23, 0x1p-24} {
				for _, part := range []float64{last, last + 0x1p-30, last - 0x1p-30, 3 * last} {
					floats = append(floats, scale*(1+part))
				}
			}
		}
		return floats, nil
	}
	lo, hi := ir.IntRange(t)
	ints = append(ints, 0, lo, hi, hi-1, lo+1)
	for bit := range 63 {
		for _, last := range []int{8, 9, 11, 24, 25, 53} {
			for _, off := range []int64{0, 1, -1} {
				n := int64(1)<<bit + int64(1)<<max(bit-last, 0) + off
				ints = append(ints, n, -n)
			}
		}
	}
	return nil, slices.DeleteFunc(ints, func(n int64) bool { return n < lo || n > hi })
}
