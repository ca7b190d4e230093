package onnx

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// vkc has no u64 and represents a uint64 as an i64 with the same bits. An unsignedRule says how an op is built for such
// values: as for int64, as for int64 with the sign bits flipped, or by a function of its own.
type unsignedRule struct {
	// flips says that the op depends on the order of numbers. The sign bits of its inputs are then flipped, because
	// that turns the order of uint64 into the order of i64. flipped lists the results to flip back.
	flips   bool
	flipped []int
	// build, if set, builds the node.
	build func(c *call) []*value
	// signed lists results that are int64 also for inputs that are uint64.
	signed []int
}

// unsignedRules has the rules of ONNX's ops that compute with uint64. Other ops do not take it.
var unsignedRules = map[string]unsignedRule{
	"Max": {flips: true, flipped: []int{0}}, "Min": {flips: true, flipped: []int{0}},
	"Clip": {flips: true, flipped: []int{0}}, "TopK": {flips: true, flipped: []int{0}, signed: []int{1}},
	"ReduceMax": {flips: true, flipped: []int{0}}, "ReduceMin": {flips: true, flipped: []int{0}},
	"Unique": {flips: true, flipped: []int{0}, signed: []int{1, 2, 3}},
	"ArgMax": {flips: true, signed: []int{0}}, "ArgMin": {flips: true, signed: []int{0}},
	"Greater": {flips: true}, "GreaterOrEqual": {flips: true}, "Less": {flips: true}, "LessOrEqual": {flips: true},

	"Abs":      {build: func(c *call) []*value { return one(c.x(0)) }},
	"ReduceL1": {build: func(c *call) []*value { return one(c.reduced(tensor.Sum, tensor.SumKeep)) }},
	"Sign": {build: func(c *call) []*value {
		x := c.x(0)
		return one(x.Ne(x.Lit(0)).Cast(ir.I64))
	}},
	"Div":        {build: func(c *call) []*value { return one(divUnsigned(c.x(0), c.x(1))) }},
	"Mod":        {build: modUnsigned},
	"BitShift":   {build: shiftUnsigned},
	"Pow":        {build: powUnsigned},
	"ReduceMean": {build: meanUnsigned},
	"Cast":       {build: castUnsigned},
	"CastLike":   {build: castUnsigned},

	"NonZero": {signed: []int{0}}, "Shape": {signed: []int{0}}, "Size": {signed: []int{0}},
}

// wrappingOps compute the same bits for uint64 as for int64.
var wrappingOps = []string{
	"Add", "BitCast", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Compress", "Concat", "Constant",
	"ConstantOfShape", "CumProd", "CumSum", "DepthToSpace", "Einsum", "Equal", "Expand", "EyeLike", "Flatten", "Gather",
	"GatherElements", "GatherND", "Gemm", "Identity", "MatMul", "Mul", "OneHot", "Pad", "ReduceProd", "ReduceSum",
	"ReduceSumSquare", "Reshape", "ReverseSequence", "ScatterElements", "ScatterND", "Slice", "SpaceToDepth", "Split",
	"Squeeze", "Sub", "Sum", "Tile", "Transpose", "Trilu", "Unsqueeze", "Where",
}

func isUnsigned(v *value) bool { return v != nil && v.unsigned }

// unsignedRule returns how the op takes inputs that are uint64. ok is false if it does not take them.
func (c *call) unsignedRule() (rule unsignedRule, ok bool) {
	rule, ok = unsignedRules[c.node.Op]
	wraps := slices.Contains(wrappingOps, c.node.Op)
	// Scatters that keep the least or the largest number depend on the order of numbers.
	if mode := c.textAttr("reduction", "none"); mode == "min" || mode == "max" {
		rule, ok = unsignedRule{flips: true, flipped: []int{0}}, wraps
	}
	return rule, c.node.Domain == "" && (ok || wraps)
}

// forUnsigned returns the function that builds the node. That is build, which is for signed integers, unless an input
// or a result is uint64. Then it follows from the op's unsignedRule. forUnsigned fails if the op has none.
func (c *call) forUnsigned(build func(c *call) []*value) func(c *call) []*value {
	first := slices.IndexFunc(c.in, isUnsigned)
	toUnsigned := c.node.Op == "Cast" && dataTypes[c.inspector().typeAttr("to")].unsigned
	if first < 0 && !toUnsigned {
		return build
	}
	rule, ok := c.inspector().unsignedRule()
	if !ok {
		c.fail("its input %q is a uint64, and vkc does not support that for this op: cast it to int64",
			c.in[first].name)
	}
	switch {
	case rule.build != nil:
		return rule.build
	case !rule.flips:
		return build
	}
	return func(c *call) []*value {
		c.in = slices.Clone(c.in)
		for i, v := range c.in {
			if isUnsigned(v) {
				flipped := *v // with the tensor as its only form
				flipped.tensor, flipped.data, flipped.isDims = flipSign(c.asTensor(v)), nil, false
				c.in[i] = &flipped
			}
		}
		results := build(c)
		for _, i := range rule.flipped {
			if i < len(results) && results[i] != nil {
				results[i].tensor = flipSign(c.asTensor(results[i]))
			}
		}
		return results
	}
}

// markLike marks each value as uint64 if the value at the same index of `of` is.
func markLike(values, of []*value) {
	for i, v := range values {
		v.unsigned = v.unsigned || of[i].unsigned
	}
}

// markUnsigned marks the results that are uint64. For most ops, they are if one of the first two inputs is uint64.
func (c *call) markUnsigned(results []*value) {
	marked := slices.ContainsFunc(c.in[:min(2, len(c.in))], isUnsigned)
	switch c.node.Op {
	case "Cast", "BitCast":
		marked = false
	case "CastLike", "Where":
		marked = isUnsigned(c.in[1])
	case "OneHot":
		marked = isUnsigned(c.in[2])
	case "EyeLike":
		marked = marked && !c.hasAttr("dtype")
	}
	rule, ok := c.unsignedRule()
	for i, v := range results {
		if v == nil || v.isList || slices.Contains(rule.signed, i) || c.dtypeOf(v) != ir.I64 {
			continue
		}
		v.unsigned = v.unsigned || marked && ok || c.toUnsigned
	}
}

// flipSign flips the sign bits of an i64.
func flipSign(x tensor) tensor { return x.Xor(x.Builder().Const(int64(math.MinInt64))) }

// lessUnsigned returns a < b of uint64.
func lessUnsigned(a, b tensor) tensor { return flipSign(a).Lt(flipSign(b)) }

// halfUnsigned returns x/2 of uint64 in an i64 tensor.
func halfUnsigned(x tensor) tensor {
	return x.Shr(x.Lit(1)).And(x.Builder().Const(int64(math.MaxInt64)))
}

// divUnsigned returns a/b of uint64 in i64 tensors, and 0 if b is 0 (Warren, Hacker's Delight, 9-5).
func divUnsigned(a, b tensor) tensor {
	zero, one := b.Lit(0), b.Lit(1)
	q := halfUnsigned(a).Div(b).Shl(one) // the quotient, or 1 less
	q = q.Add(lessUnsigned(a.Sub(q.Mul(b)), b).Where(zero, one))
	// A divisor of 2^63 or more goes into a once or not at all.
	q = b.Lt(zero).Where(lessUnsigned(a, b).Where(zero, one), q)
	return b.Eq(zero).Where(zero, q)
}

func modUnsigned(c *call) []*value {
	c.flag("fmod", false) // read, but without effect: both remainders are equal for unsigned numbers
	a, b := c.x(0), c.x(1)
	return one(b.Eq(b.Lit(0)).Where(b.Lit(0), a.Sub(divUnsigned(a, b).Mul(b))))
}

// shiftUnsigned builds BitShift. To the right, zeros come in.
func shiftUnsigned(c *call) []*value {
	x, y := c.x(0), c.x(1)
	if c.choice("direction", "LEFT", "RIGHT") == "LEFT" {
		return one(x.Shl(y))
	}
	// x>>y = (x/2)>>(y-1), because x/2 has no sign bit. Shifts by 64 or more give 0.
	shifted := halfUnsigned(x).Shr(y.SubScalar(1).Max(y.Lit(0)))
	return one(y.Eq(y.Lit(0)).Where(x, lessUnsigned(y, y.Lit(64)).Where(shifted, x.Lit(0))))
}

// meanUnsigned builds ReduceMean: a sum that wraps, divided by the number of elements.
func meanUnsigned(c *call) []*value {
	if c.mask != nil {
		c.fail("the mean of uint64 along an axis of an extent that is known only in a run is not supported")
	}
	x := c.x(0)
	sum := c.reduced(tensor.Sum, tensor.SumKeep)
	n, ok := c.numel(x.Shape()).Quo2(c.numel(sum.Shape()))
	if !ok {
		c.fail("of %s, with a result %s", x, sum)
	}
	return one(divUnsigned(sum, c.dimValue(n)))
}

// castUnsigned builds Cast and CastLike from or to uint64.
func castUnsigned(c *call) []*value {
	x, from := c.x(0), isUnsigned(c.in[0])
	to := c.typeAttr("to")
	if c.node.Op == "CastLike" {
		to = c.typeOf(c.input(1))
	}
	c.toUnsigned = dataTypes[to].unsigned
	t := dataTypes[to].dtype
	switch {
	case from && t.IsFloat():
		return []*value{c.converted(floatOf(x, wideFloat(t)), to)}
	case !from && c.toUnsigned && x.DType().IsFloat():
		return one(unsignedOf(x))
	}
	return []*value{c.converted(x, to)}
}

// wideFloat returns the dtype in which to compute floats of dtype t: f64 for f64, and otherwise f32.
func wideFloat(t ir.DType) ir.DType {
	if t == ir.F64 {
		return ir.F64
	}
	return ir.F32
}

// floatOf converts uint64 to f32 or f64.
func floatOf(x tensor, t ir.DType) tensor {
	// For numbers of 2^63 and more, convert half the number and double the result. The lowest bit of the half is set if
	// it or the dropped bit is, so that the half rounds in the same direction as the whole number.
	half := halfUnsigned(x).Or(x.And(x.Lit(1))).Cast(t)
	return x.Lt(x.Lit(0)).Where(half.MulScalar(2), x.Cast(t))
}

// powUnsigned builds Pow with an exponent that is a uint64. The base has another type.
func powUnsigned(c *call) []*value {
	if isUnsigned(c.input(0)) {
		c.fail("its input %q is a uint64, which ONNX does not have as a base: cast it to int64", c.in[0].name)
	}
	x, y := c.x(0), c.x(1)
	t := x.DType()
	if t.IsFloat() {
		wide := wideFloat(t)
		return one(castTo(x, wide).Pow(floatOf(y, wide)).Cast(t))
	}
	// Powers of odd numbers repeat after 2^62 exponents, and powers of even numbers from 64 on are 0 modulo 2^64.
	y = y.Lt(y.Lit(0)).Where(flipSign(y).Or(y.Lit(1<<62)), y)
	return one(castTo(castTo(x, ir.I64).Pow(y), t))
}

// unsignedOf converts floats to uint64. Negative numbers become 0, and numbers beyond the range the largest uint64.
func unsignedOf(x tensor) tensor {
	if x.DType() != ir.F64 {
		x = castTo(x, ir.F32)
	}
	large := x.Lit(1 << 63)
	low := x.Cast(ir.I64)
	return x.Ge(large).Where(flipSign(x.Sub(large).Cast(ir.I64)), low.Max(low.Lit(0)))
}
