package ir

import "fmt"

func init() {
	rows(
		OpInfo{Op: OpMatMul, Name: "matmul", Class: ClassContraction, Args: []ArgInfo{{Name: "a"}, {Name: "b"}},
			Attrs: []AttrInfo{
				{Name: "transpose_a", Kind: AttrBool, Default: false, Doc: "a is [..., K, M]"},
				{Name: "transpose_b", Kind: AttrBool, Default: false, Doc: "b is [..., N, K]"},
				precisionAttr,
			}, Infer: inferMatMul, Tol: Tolerance{Eps: 64, Abs: 1e-5, Sum: true},
			Doc: "Matmul a[..., M, K] x b[..., K, N] with broadcast outer axes. Floats are accumulated in f32. The result has the narrowest float dtype that holds all values of both: f16 by f32 gives f32, and so does f16 by bf16. Either operand may be quantized, in blocks along its last axis. It then counts as the other operand's dtype; two quantized operands give f32. i8 by i8 and u8 by u8 give i32: exact sums, which wrap past 32 bits."},
	)
}

var precisionAttr = AttrInfo{Name: "precision", Kind: AttrString, Default: PrecisionFull,
	Enum: []string{PrecisionFull, PrecisionBF16x3, PrecisionHalf, PrecisionHalfSums, PrecisionBytes},
	Doc:  "how far a device may round to be faster. full: it may round only f32 rows multiplied by a quantized weight, by 2^-22 of the largest of 32 neighbours. bf16x3: it may replace f32 operands by sums of two bf16, with an error of at most 2^-15 per multiplication. half: it may round operands to f16. half_sums: it may accumulate in f16 too. int8: as half, and it may quantize rows multiplied by a quantized weight to 8 bits, with a scale per 32 elements."}

// windowPrecision is the attribute of convolutions, which have no weights in blocks.
var windowPrecision = AttrInfo{Name: "precision", Kind: AttrString, Default: PrecisionFull,
	Enum: []string{PrecisionFull, PrecisionHalf, PrecisionHalfSums},
	Doc:  "how far a device may round to be faster. full: not at all. half: it may round operands to f16. half_sums: it may accumulate in f16 too."}

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
		return Type{}, fmt.Errorf("%s is %s and %s is %s: both need at least 2 axes", c.arg(0), a, c.arg(1), b)
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
		return Type{}, fmt.Errorf("%s is %s and %s is %s: contraction extents %s and %s differ%s", c.arg(0), a,
			c.arg(1), b, k, kb, transposeHint(ta, tb, a, b))
	}
	batch, err := BroadcastShapes(a[:len(a)-2], b[:len(b)-2])
	if err != nil {
		return Type{}, fmt.Errorf("outer axes of %s: %w", c.argList(), err)
	}
	return Type{result, append(batch, m, n)}, nil
}

// productDType returns the dtype of a matmul: of floats the narrowest that holds all values of both
// operands, where one of blocks counts as the other does, or as f32 beside blocks; and i32 for bytes.
func productDType(c *Call) (DType, error) {
	a, b := c.DType(0), c.DType(1)
	if a == I8 || a == U8 {
		return I32, c.wantSame(0, 1)
	}
	for i, t := range []DType{a, b} {
		switch {
		case t.IsInteger() && i == 0:
			return Invalid, fmt.Errorf("%s is %s: integers that are multiplied as matrices are i8 or u8", c.arg(0), t)
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
