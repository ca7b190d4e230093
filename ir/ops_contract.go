package ir

import (
	"fmt"
	"math"
)

func init() {
	rows(
		OpInfo{Op: OpMatMul, Name: "matmul", Class: ClassContraction, Args: []ArgInfo{{Name: "a"}, {Name: "b"}},
			Attrs: []AttrInfo{
				{Name: "transpose_a", Kind: AttrBool, Default: false, Doc: "a is [..., K, M]"},
				{Name: "transpose_b", Kind: AttrBool, Default: false, Doc: "b is [..., N, K]"},
				precisionAttr,
			}, Infer: inferMatMul, Tol: Tolerance{Eps: 64, Abs: 1e-5, Sum: true},
			Doc: "Matrix product a[..., M, K] x b[..., K, N] with broadcast outer axes. Floats are accumulated in f32. The result has the narrowest float dtype that holds all values of both: f16 by f32 gives f32, f16 by bf16 too. Either may be quantized, in blocks along its last axis, and counts as the other one then; two of blocks give f32. i8 by i8 and u8 by u8 give i32: exact sums, which wrap around past 32 bits."},
		OpInfo{Op: OpAttention, Name: "attention", Class: ClassAttention,
			Args: []ArgInfo{{Name: "q"}, {Name: "k"}, {Name: "v"}, {Name: "mask", Optional: true}, {Name: "sinks", Optional: true}},
			Attrs: []AttrInfo{
				{Name: "causal", Kind: AttrBool, Default: false, Doc: "query i sees keys up to i+S-T"},
				{Name: "window", Kind: AttrInt, Default: int64(0), Doc: "not 0, and causal: query i sees only the last window keys up to i+S-T"},
				{Name: "scale", Kind: AttrFloat, Default: 0.0, Doc: "multiplies the scores; 0 means 1/sqrt(D)"},
				{Name: "softcap", Kind: AttrFloat, Default: 0.0, Doc: "not 0: scores become softcap*tanh(score/softcap) before the mask is added (Gemma Team, 2024)"},
				{Name: "precision", Kind: AttrString, Default: PrecisionFull,
					Enum: []string{PrecisionFull, PrecisionHalf},
					Doc:  "what a device may do to be faster: full, nothing; half, round queries, keys, values and the weights of values to f16"},
			}, Infer: inferAttention, Tol: Tolerance{Eps: 512, Abs: 1e-5, Sum: true},
			Doc: "Scaled dot-product attention: softmax(q k^T * scale + mask) v, q [..., H, T, D], k and v [..., G, S, D], H a multiple of G (grouped heads); mask broadcasts to [..., H, T, S]: floats are added, of bools and integers those that are not 0 say which keys a query sees. sinks [H], beside a mask that may be a scalar 0, are the scores of a key that every query of a head sees and whose value is 0 (Xiao et al. 2023)."},
	)
}

var precisionAttr = AttrInfo{Name: "precision", Kind: AttrString, Default: PrecisionFull,
	Enum: []string{PrecisionFull, PrecisionBF16x3, PrecisionHalf, PrecisionHalfSums, PrecisionBytes},
	Doc:  "what a device may do to be faster: full, nothing, except that rows which meet a quantized weight may be off by 2^-22 of the largest of 32 neighbours; bf16x3, multiply f32 operands as sums of two bf16 without the product of the lesser two, off by 2^-15 of a product at most; half, round operands to f16; half_sums, sum in f16 as well; int8, what half allows, and round rows that meet a quantized weight to 8 bits, with a scale for every 32"}

// windowPrecision is the attribute of convolutions, which have no weights in blocks.
var windowPrecision = AttrInfo{Name: "precision", Kind: AttrString, Default: PrecisionFull,
	Enum: []string{PrecisionFull, PrecisionHalf, PrecisionHalfSums},
	Doc:  "what a device may do to be faster: full, nothing; half, round operands to f16; half_sums, sum in f16 as well"}

// The values of the attribute precision of matmul, of which other ops know some. They allow, and never oblige: the
// reference computes in full precision whatever they say.
const (
	// PrecisionFull counts operands as they are and sums in f32. Rows that meet a
	// quantized weight may be off by 2^-22 of the largest of 32 neighbours: matrix
	// units take a float as three bytes.
	PrecisionFull = "full"
	// PrecisionBF16x3 lets f32 operands count as sums of two bf16, the operand
	// rounded and what is left of it rounded, and leaves out the product of what
	// is left of both: three products of bf16, with f32 sums.
	PrecisionBF16x3   = "bf16x3"
	PrecisionHalf     = "half"      // operands may be rounded to f16, sums are f32
	PrecisionHalfSums = "half_sums" // operands may be rounded to f16, and so may sums
	PrecisionBytes    = "int8"      // rows that meet a quantized weight may be rounded to 8 bits, other operands to f16
)

// AllowsHalf reports whether a value of the attribute precision lets operands be rounded to f16.
func AllowsHalf(precision string) bool {
	return precision == PrecisionHalf || precision == PrecisionHalfSums || precision == PrecisionBytes
}

func inferMatMul(c *Call) (Type, error) {
	result, err := productDType(c)
	if err != nil {
		return Type{}, err
	}
	a, b := c.Shape(0), c.Shape(1)
	ta, tb := c.Attrs.Bool("transpose_a"), c.Attrs.Bool("transpose_b")
	if len(a) < 2 || len(b) < 2 {
		return Type{}, fmt.Errorf("a is %s and b is %s: both need at least 2 axes", a, b)
	}
	m, k := a[len(a)-2], a[len(a)-1]
	if ta {
		m, k = k, m
	}
	kb, n := b[len(b)-2], b[len(b)-1]
	if tb {
		kb, n = n, kb
	}
	if k != kb {
		return Type{}, fmt.Errorf("a is %s and b is %s: contraction extents %s and %s differ%s", a, b, k, kb,
			transposeHint(ta, tb, a, b))
	}
	batch, err := BroadcastShapes(a[:len(a)-2], b[:len(b)-2])
	if err != nil {
		return Type{}, fmt.Errorf("outer axes: %w", err)
	}
	return Type{result, append(batch, m, n)}, nil
}

// productDType returns the dtype of a matrix product: of floats the narrowest that holds all values of both
// operands, where one of blocks counts as the other does, or as f32 beside blocks; and i32 for bytes.
func productDType(c *Call) (DType, error) {
	a, b := c.DType(0), c.DType(1)
	if a == I8 || a == U8 {
		return I32, c.wantSame(0, 1)
	}
	for i, t := range []DType{a, b} {
		switch {
		case t.IsInteger() && i == 0:
			return Invalid, fmt.Errorf("a is %s: integers that are multiplied as matrices are i8 or u8", t)
		case t.IsInteger():
			return Invalid, c.wantSame(0, 1)
		case !t.IsBlock():
			if err := c.wantKinds(i, KindFloat); err != nil {
				return Invalid, err
			}
		}
	}
	switch {
	case a.IsBlock() && b.IsBlock():
		return F32, nil
	case a.IsBlock():
		return b, nil
	case b.IsBlock():
		return a, nil
	}
	return holdsBoth(a, b), nil
}

// transposeHint says when the other reading of b would fit.
func transposeHint(ta, tb bool, a, b Shape) string {
	k, other := a[len(a)-1], b[len(b)-1]
	if ta {
		k = a[len(a)-2]
	}
	if tb {
		other = b[len(b)-2]
	}
	if k == other {
		return fmt.Sprintf(" (transpose_b=%v would fit)", !tb)
	}
	return ""
}

func inferAttention(c *Call) (Type, error) {
	q, k, v := c.Shape(0), c.Shape(1), c.Shape(2)
	for i := range c.Args {
		kinds := []Kind{KindFloat}
		if i == 3 {
			kinds = append(kinds, KindBool, KindInt, KindUint)
		}
		if err := c.wantKinds(i, kinds...); err != nil {
			return Type{}, err
		}
	}
	if c.DType(1) != c.DType(0) || c.DType(2) != c.DType(0) {
		return Type{}, fmt.Errorf("q, k and v are %s, %s and %s: want one dtype", c.DType(0), c.DType(1), c.DType(2))
	}
	if softcap := c.Attrs.Float("softcap"); softcap < 0 || softcap-softcap != 0 {
		return Type{}, fmt.Errorf("softcap is %v: want a positive number, or 0 for none", softcap)
	}
	switch window := c.Attrs.Int("window"); {
	case window < 0 || window > math.MaxInt32:
		return Type{}, fmt.Errorf("window is %d: want the number of keys that a query sees, or 0 for all", window)
	case window > 0 && !c.Attrs.Bool("causal"):
		return Type{}, fmt.Errorf("a window of %d ends where a query is: it goes with causal", window)
	}
	r := len(q)
	if r < 3 || len(k) != r || len(v) != r {
		return Type{}, fmt.Errorf("q %s, k %s and v %s: want [..., heads, length, dim] of one rank", q, k, v)
	}
	for i := 0; i < r-3; i++ {
		if q[i] != k[i] || q[i] != v[i] {
			return Type{}, fmt.Errorf("q %s, k %s and v %s: outer axes differ", q, k, v)
		}
	}
	h, g := q[r-3], k[r-3]
	if !h.IsStatic() || !g.IsStatic() || g.Add == 0 || h.Add%g.Add != 0 || v[r-3] != g {
		return Type{}, fmt.Errorf("q %s, k %s and v %s: the %s query heads are not a multiple of the key heads", q, k,
			v, h)
	}
	if q[r-1] != k[r-1] || k[r-2] != v[r-2] {
		return Type{}, fmt.Errorf("q %s, k %s and v %s: want q [..., T, D], k [..., S, D], v [..., S, E]", q, k, v)
	}
	if !q[r-1].IsStatic() {
		return Type{}, fmt.Errorf("the head dim %s must be a number", q[r-1])
	}
	out := append(Shape{}, q[:r-1]...)
	out = append(out, v[r-1])
	if len(c.Args) > 3 {
		scores := append(append(Shape{}, q[:r-1]...), k[r-2])
		if s, err := BroadcastShapes(c.Shape(3), scores); err != nil || !s.Equal(scores) {
			return Type{}, fmt.Errorf("mask %s does not broadcast to the scores %s", c.Shape(3), scores)
		}
	}
	if len(c.Args) > 4 && !c.Shape(4).Equal(Shape{h}) {
		return Type{}, fmt.Errorf("sinks %s: want [%s], a score for each query head", c.Shape(4), h)
	}
	return Type{c.DType(0), out}, nil
}
