package optest

import (
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// This file has cases of chains: consecutive ops that one kernel computes. A driver's compiler sees all ops of a chain
// and may simplify two of them to an expression with a different result. The cases require the result of separate ops.
// A case concatenates the results of several chains, so that one kernel computes them all.

// chained adds a case with several chains of ops. The case's result is their results, concatenated along the
// outermost axis.
func (s *suite) chained(op ir.Op, name string, chains func(b *builder, t ir.DType) []*ir.Node) *template {
	return s.add(op, name, func(b *builder, t ir.DType) *ir.Node {
		parts := chains(b, t)
		if b.err != nil || len(parts) == 0 {
			return nil
		}
		return b.op(ir.OpConcat, parts, attr("axis", int64(0)))
	})
}

// castChains adds casts of casts. If the first dtype cannot represent a number, the second cast must get the rounded
// value, although the kernel still has the exact one.
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
		}).allDTypes().bitExact()
		c.types = from
		return c
	}
	back := func(from ir.DType) ir.DType { return from }
	for _, to := range []ir.DType{ir.F16, ir.BF16, ir.F8E4M3, ir.F8E5M2, ir.F4E2M1, ir.F8E4M3FNUZ, ir.F8E5M2FNUZ,
		ir.F8E8M0} { // via f32 these would be rounded twice
		once := s.add(ir.OpCast, "to "+to.String()+"/digits", func(b *builder, t ir.DType) *ir.Node {
			return b.view(ir.OpCast, b.leaf(ir.OpInput, t, []int{chainLength}, digits, 0), attr("dtype", to))
		}).allDTypes().bitExact()
		once.types = []ir.DType{ir.F32, ir.F64, ir.I32, ir.I64}
	}
	all := func(t ir.DType) func(ir.DType) ir.DType { return func(ir.DType) ir.DType { return t } }
	chain("chains/and back", narrower, narrower, back).inSmokeTest()
	chain("chains/and to i64", []ir.DType{ir.F32, ir.I32, ir.U32, ir.F64}, narrower, all(ir.I64))
	chain("chains/and to f32", []ir.DType{ir.I64, ir.U32, ir.F64}, narrower, all(ir.F32))
	chain("chains/and back", []ir.DType{ir.F64}, preferred, back)
	chain("chains/by f64 and back", []ir.DType{ir.I64, ir.F32}, []ir.DType{ir.F64}, back)
}

var (
	// exactOps are the ops with a correctly rounded result, or one of their arguments as the result.
	exactOps = []ir.Op{ir.OpNeg, ir.OpAbs, ir.OpSign, ir.OpSqr, ir.OpRelu, ir.OpFloor, ir.OpCeil, ir.OpRound,
		ir.OpTrunc, ir.OpAdd, ir.OpSub, ir.OpMul, ir.OpMin, ir.OpMax}
	// sums are ops that a compiler may reorder or contract.
	sums = []ir.Op{ir.OpAdd, ir.OpSub, ir.OpMul}
	// inverses are pairs that compilers may cancel: the second inverts the first, except for special values.
	inverses = [][2]ir.Op{{ir.OpExp, ir.OpLog}, {ir.OpLog, ir.OpExp}, {ir.OpExp2, ir.OpLog2}, {ir.OpLog2, ir.OpExp2},
		{ir.OpExpm1, ir.OpLog1p}, {ir.OpLog1p, ir.OpExpm1}, {ir.OpSqr, ir.OpSqrt}, {ir.OpSqrt, ir.OpSqr},
		{ir.OpRecip, ir.OpRecip}, {ir.OpSqrt, ir.OpRecip}, {ir.OpRsqrt, ir.OpRecip}, {ir.OpRsqrt, ir.OpSqr},
		{ir.OpRecip, ir.OpRsqrt}, {ir.OpAtan, ir.OpTan}, {ir.OpAsinh, ir.OpSinh}, {ir.OpSinh, ir.OpAsinh},
		{ir.OpCosh, ir.OpAcosh}, {ir.OpAsin, ir.OpSin}, {ir.OpAcos, ir.OpCos}, {ir.OpExp, ir.OpSqrt},
		{ir.OpSqr, ir.OpLog}}
)

// opChains adds cases that chain ops: each exact op after each, and three ops that a compiler may wrongly simplify,
// such as x+y-x. Values are special ones, such as infinities, and ones that lose digits.
func (s *suite) opChains() {
	for _, first := range exactOps {
		pairs := s.chained(first, "chains/and each exact op", func(b *builder, t ir.DType) []*ir.Node {
			x, y := b.paired(t)
			if first == ir.OpMin || first == ir.OpMax {
				// A device may compare a subnormal as 0 and return it unchanged; the next op then rounds it down to -1.
				x, y = b.pairsOf(t, slices.DeleteFunc(pairedValues(t), func(v float64) bool {
					return v != 0 && math.Abs(v) < smallestNormal(t)
				}))
			}
			return b.applyEach(exactOps, b.apply(first, x, y), x, y)
		}).allDTypes().bitExact()
		pairs.types = []ir.DType{ir.F32}
		if slices.Contains(sums, first) {
			pairs.types = []ir.DType{ir.F32, ir.F16, ir.BF16, ir.F64}
			pairs.inSmokeTest()
		}
	}
	s.cancellingTriples()
	s.chainsWithConstants()
	s.lostBySums()
	s.rowsOfOne()
	s.steppedQuotients()
	s.inexactChains()
}

// cancellingTriples adds chains of three sums or products that a compiler may cancel.
func (s *suite) cancellingTriples() {
	for _, first := range sums {
		triples := s.chained(first, "chains/and two more", func(b *builder, t ir.DType) (parts []*ir.Node) {
			x, y := b.paired(t)
			for _, second := range sums {
				z := b.apply(second, b.apply(first, x, y), x)
				parts = append(parts, b.applyEach(sums, z, x, y)...)
				z = b.apply(second, y, b.apply(first, x, y))
				parts = append(parts, b.applyEach(sums, z, x, y)...)
				z = b.apply(second, b.apply(first, x, y), b.apply(first, y, b.apply(ir.OpNeg, x, nil)))
				parts = append(parts, z, b.apply(ir.OpSub, z, y))
			}
			return parts
		}).allDTypes().bitExact()
		triples.types = []ir.DType{ir.F32, ir.F64}
	}
}

// chainsWithConstants adds ops with a special constant, followed by the reciprocal.
func (s *suite) chainsWithConstants() {
	for _, op := range append(slices.Clone(sums), ir.OpDiv, ir.OpPow) {
		s.chained(op, "chains/with a constant, and the inverse", func(b *builder, t ir.DType) (parts []*ir.Node) {
			x, _ := b.moderate(t)
			for _, v := range []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN()} {
				if !t.Float().Infinite && math.IsInf(v, 0) {
					continue
				}
				c := b.number(t, v)
				left, right := b.apply(op, c, x), b.apply(op, x, c)
				// The reciprocal of a zero is an infinity of the same sign.
				parts = append(parts, left, right, b.apply(ir.OpRecip, left, nil), b.apply(ir.OpRecip, right, nil))
			}
			return parts
		}).floats().inSmokeTest()
	}
}

// lostBySums adds the two ways to compute what a float sum loses by rounding. A compiler that reorders sums gets 0.
func (s *suite) lostBySums() {
	s.chained(ir.OpAdd, "chains/what a sum loses", func(b *builder, t ir.DType) []*ir.Node {
		x, y := b.paired(t)
		sum := b.apply(ir.OpAdd, x, y)
		part := b.apply(ir.OpSub, sum, x)
		// Knuth
		lost := b.apply(ir.OpAdd, b.apply(ir.OpSub, x, b.apply(ir.OpSub, sum, part)), b.apply(ir.OpSub, y, part))
		fast := b.apply(ir.OpSub, y, part) // Dekker
		return []*ir.Node{lost, fast, b.apply(ir.OpAdd, sum, lost)}
	}).floats().bitExact().inSmokeTest()
}

// rowsOfOne adds matmuls in which all elements of a row are one infinite number, broadcast.
func (s *suite) rowsOfOne() {
	for _, rows := range []int{1, 20} {
		name := fmt.Sprintf("chains/%d rows of one number each", rows)
		s.add(ir.OpMatMul, name, func(b *builder, t ir.DType) *ir.Node {
			x := b.given(t, slices.Repeat([]float64{math.Inf(1)}, rows), rows, 1)
			w := b.given(t, []float64{1, -1, 1, -1, 1, 1, 2, 2, 1, 1, 1, 1}, 4, 3)
			return b.op(ir.OpMatMul, []*ir.Node{b.view(ir.OpBroadcast, x, attr("shape", ir.ShapeOf(rows, 4))), w})
		}).smoke = true
	}
}

// steppedQuotients adds quotients that a second op turns into integers. The quotients are integers or halves, or as
// near to them as the dtype has numbers. So a device that rounds the last digit of a quotient differently gives another
// integer.
func (s *suite) steppedQuotients() {
	steps := []ir.Op{ir.OpFloor, ir.OpCeil, ir.OpRound, ir.OpTrunc}
	c := s.chained(ir.OpDiv, "chains/steps of quotients", func(b *builder, t ir.DType) (parts []*ir.Node) {
		var xs, ys, inverse []float64
		// steps of quantization, and other divisors
		for _, y := range []float64{5.0 / 255, 0.1, 0.3, 1.0 / 127, 3, 7, 1000.0 / 3} {
			y = ir.RoundTo(y, t)
			for n := range 48 {
				x := ir.RoundTo((float64(n)/2-12)*y, t)
				last := math.Ldexp(x, -t.Float().Mantissa)
				for _, near := range []float64{x - last, x, x + last} {
					// The reciprocals of these are integers and halves.
					xs, ys, inverse = append(xs, near), append(ys, y), append(inverse, 2/float64(len(xs)+1))
				}
			}
		}
		x, y := b.given(t, xs, 1, len(xs)), b.given(t, ys, 1, len(ys))
		for _, q := range []*ir.Node{b.apply(ir.OpDiv, x, y),
			b.apply(ir.OpRecip, b.given(t, inverse, 1, len(inverse)), nil)} {
			for _, op := range steps {
				parts = append(parts, b.apply(op, q, nil))
			}
			whole := b.view(ir.OpCast, q, attr("dtype", ir.I32))
			// true if the quotient is rounded up
			less := b.apply(ir.OpLt, q, b.apply(ir.OpRound, q, nil))
			parts = append(parts, b.view(ir.OpCast, whole, attr("dtype", t)), b.view(ir.OpCast, less, attr("dtype", t)),
				b.apply(ir.OpMod, q, b.number(t, 1)))
		}
		return parts
	}).allDTypes().bitExact().inSmokeTest()
	c.types = []ir.DType{ir.F32, ir.F16, ir.BF16}
}

// inexactChains adds pairs with inexact ops. The results must be within the tolerances of the ops, and special values
// must match.
func (s *suite) inexactChains() {
	var inexact []ir.Op
	for _, op := range ir.Ops() {
		info := op.Info()
		if op.Class() == ir.ClassElementwise && info.GLSL.Float != "" && !info.Converts() && len(info.Args) < 3 &&
			info.Tol.Eps > 2 {
			inexact = append(inexact, op)
		}
	}
	after := []ir.Op{ir.OpNeg, ir.OpAbs, ir.OpRelu, ir.OpAdd, ir.OpSub, ir.OpMul, ir.OpMax}
	for group := range slices.Chunk(inexact, 4) {
		s.chained(group[0], "chains/exact ops after these", func(b *builder, t ir.DType) (parts []*ir.Node) {
			x, y := b.moderate(t)
			for _, op := range group {
				parts = append(parts, b.applyEach(after, b.apply(op, x, y), x, y)...)
			}
			return parts
		})
	}
	for group := range slices.Chunk(inexact, 8) {
		s.chained(group[0], "chains/after exact ops", func(b *builder, t ir.DType) (parts []*ir.Node) {
			x, y := b.moderate(t)
			for _, op := range group {
				for _, first := range []ir.Op{ir.OpNeg, ir.OpAbs, ir.OpAdd, ir.OpSub, ir.OpMul} {
					parts = append(parts, b.apply(op, b.apply(first, x, y), y))
				}
			}
			return parts
		})
	}
	s.chained(ir.OpExp, "chains/inverses", func(b *builder, t ir.DType) (parts []*ir.Node) {
		x, y := b.moderate(t)
		for _, p := range inverses {
			parts = append(parts, b.apply(p[1], b.apply(p[0], x, nil), nil))
		}
		for _, op := range []ir.Op{ir.OpExp, ir.OpExp2, ir.OpSqrt, ir.OpRsqrt, ir.OpRecip} {
			parts = append(parts, b.apply(ir.OpMul, b.apply(op, x, nil), b.apply(op, y, nil)))
		}
		return append(parts, b.apply(ir.OpMul, b.apply(ir.OpDiv, x, y), y),
			b.apply(ir.OpDiv, b.apply(ir.OpMul, x, y), y),
			b.apply(ir.OpDiv, x, b.apply(ir.OpDiv, x, y)), b.apply(ir.OpDiv, x, x))
	}).inSmokeTest()
}

// apply applies an op of one or two arguments, with sample attributes. y is nil for one argument.
func (b *builder) apply(op ir.Op, x, y *ir.Node) *ir.Node {
	args := []*ir.Node{x, y}
	return b.op(op, args[:len(op.Info().Args)], op.Info().SampleAttrs(0, true)...)
}

// applyEach applies each op to value: a unary op to it alone, and a binary op to it and x, y or itself, in both orders.
func (b *builder) applyEach(ops []ir.Op, value, x, y *ir.Node) (list []*ir.Node) {
	for _, op := range ops {
		if len(op.Info().Args) == 1 {
			list = append(list, b.apply(op, value, nil))
			continue
		}
		list = append(list, b.apply(op, value, x), b.apply(op, x, value), b.apply(op, value, y), b.apply(op, y, value),
			b.apply(op, value, value))
	}
	return list
}

// paired returns two inputs. Together they hold every pair of pairedValues.
func (b *builder) paired(t ir.DType) (x, y *ir.Node) { return b.pairsOf(t, pairedValues(t)) }

// pairedValues returns special values, and values with sums or products that lose digits or exceed the dtype's range.
func pairedValues(t ir.DType) []float64 {
	whole := math.Ldexp(1.5, t.Float().Mantissa) // large enough that adding a number rounds it to an integer
	return []float64{0, math.Copysign(0, -1), 1, -1, 0.5, 2, 3, -2.5, 0.1, 1e-8, whole, -whole - 1,
		smallestNormal(t), -smallestNormal(t) / 4, t.Float().Largest, -t.Float().Largest, math.Inf(1), math.Inf(-1), math.NaN()}
}

// moderate returns two inputs. Together they hold every pair of special and small values, for ops with fast-growing
// results.
func (b *builder) moderate(t ir.DType) (x, y *ir.Node) {
	return b.pairsOf(t, []float64{0, math.Copysign(0, -1), 1, -1, 0.5, 2, -2.5, 0.3, -0.7, 0x1p-20, math.Inf(1),
		math.Inf(-1), math.NaN()})
}

// pairsOf returns two inputs that together hold every pair of values of list.
func (b *builder) pairsOf(t ir.DType, list []float64) (x, y *ir.Node) {
	if !t.Float().Infinite {
		list = slices.DeleteFunc(list, func(v float64) bool { return math.IsInf(v, 0) })
	}
	var xs, ys []float64
	for _, u := range list {
		for _, v := range list {
			xs, ys = append(xs, u), append(ys, v)
		}
	}
	return b.given(t, xs, 1, len(xs)), b.given(t, ys, 1, len(ys))
}

// powers adds powers by constants, which the generator compiles to multiplications, divisions and roots.
func (s *suite) powers() {
	exponents := []float64{-2, -1, -0.5, 0, 0.5, 1, 2, 3, 4, 5, 6, 7, 8, 1.5}
	s.chained(ir.OpPowf, "by constants", func(b *builder, t ir.DType) (parts []*ir.Node) {
		x := b.input(t, []int{1, extremeCount(t)}, extreme)
		for _, e := range exponents {
			parts = append(parts, b.view(ir.OpPowf, x, attr("exponent", e)))
		}
		return parts
	}).floats().inSmokeTest()
	s.chained(ir.OpPow, "by constants", func(b *builder, t ir.DType) (parts []*ir.Node) {
		x := b.input(t, []int{1, extremeCount(t)}, extreme)
		for _, e := range exponents {
			// The reference of integers has no fractional exponents, and negative ones only for signed dtypes.
			if t.IsFloat() || e == math.Trunc(e) && (e >= 0 || t.Kind() == ir.KindInt) {
				parts = append(parts, b.op(ir.OpPow, []*ir.Node{x, b.number(t, e)}))
			}
		}
		return parts
	}).allDTypes()
}

// negatives adds minima and maxima of three negative values, and reductions of negative values. A driver's compiler may
// move the negation out of them.
func (s *suite) negatives() {
	negated := []func(b *builder, t ir.DType, x *ir.Node) *ir.Node{
		func(b *builder, _ ir.DType, x *ir.Node) *ir.Node { return b.view(ir.OpNeg, x) },
		func(b *builder, t ir.DType, x *ir.Node) *ir.Node {
			return b.op(ir.OpSub, []*ir.Node{b.number(t, 0), x})
		},
		func(b *builder, t ir.DType, x *ir.Node) *ir.Node {
			return b.op(ir.OpMul, []*ir.Node{x, b.number(t, -1)})
		},
	}
	signed := slices.DeleteFunc(slices.Clone(preferred), func(t ir.DType) bool {
		return t.Kind() == ir.KindUint || t.Kind() == ir.KindBool
	})
	for _, of := range []struct{ pair, reduce ir.Op }{{ir.OpMin, ir.OpReduceMin}, {ir.OpMax, ir.OpReduceMax}} {
		three := s.chained(of.pair, "of three negatives", func(b *builder, t ir.DType) (parts []*ir.Node) {
			dims := []int{1, chainLength}
			x, y, z := b.input(t, dims, small), b.input(t, dims, small), b.input(t, dims, small)
			for _, neg := range negated {
				pair := b.op(of.pair, []*ir.Node{neg(b, t, x), neg(b, t, y)})
				parts = append(parts, b.op(of.pair, []*ir.Node{pair, neg(b, t, z)}))
			}
			return parts
		}).allDTypes().inSmokeTest()
		folded := s.chained(of.reduce, "of negatives", func(b *builder, t ir.DType) (parts []*ir.Node) {
			x := b.input(t, []int{7, 23}, small)
			for _, neg := range negated {
				parts = append(parts, b.view(of.reduce, neg(b, t, x), attr("axes", []int64{0}), attr("keepdims", true)))
			}
			return parts
		}).allDTypes().inSmokeTest()
		three.types, folded.types = signed, signed
	}
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

// chainLength is the number of elements of each chain.
const chainLength = 192

// roundingCases returns numbers that lose digits in narrower dtypes: powers of two, numbers near them, and numbers
// near the midpoint of two neighbours of a narrower dtype.
func roundingCases(t ir.DType) (floats []float64, ints []int64) {
	if t.IsFloat() {
		floats = append(floats, 0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), t.Float().Largest,
			-t.Float().Largest, math.Pi, 0.1, 1e10, -3e5)
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
