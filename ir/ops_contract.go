package ir

import "fmt"

// init adds the rows of matmul to the op table.
func init() {
	rows(
		OpInfo{Op: OpMatMul, Name: "matmul", Class: ClassContraction, Args: []ArgInfo{{Name: "a"}, {Name: "b"}},
			Attrs: []AttrInfo{
				{Name: "transpose_a", Kind: AttrBool, Default: false, Doc: "a is [..., K, M]"},
				{Name: "transpose_b", Kind: AttrBool, Default: false, Doc: "b is [..., N, K]"},
				precisionAttr,
			}, Infer: inferMatMul, Tol: Tolerance{Eps: 64, Abs: 1e-5, Sum: true},
			Doc: "Matmul a[..., M, K] x b[..., K, N] with broadcast outer axes. Floats are accumulated in f32. The result has the narrowest float dtype that holds all values of both: f16 by f32 gives f32, and so does f16 by bf16. Either operand may be quantized, in blocks along its last axis. A quantized operand counts as one of the other operand's dtype. Two quantized operands give f32. i8 by i8 and u8 by u8 give i32: exact sums, which wrap past 32 bits."},
	)
}

var precisionAttr = AttrInfo{Name: "precision", Kind: AttrString, Default: PrecisionFull,
	Enum: []string{PrecisionFull, PrecisionBF16x3, PrecisionHalf, PrecisionHalfSums, PrecisionBytes},
	Doc:  "how far a device may round to be faster. full: it may round f32 rows that are multiplied by a quantized weight, and nothing else. An element's error is then at most 2^-22 of the largest of its 32 neighbours. bf16x3: it may replace f32 operands by sums of two bf16, with an error of at most 2^-15 per multiplication. half: it may round operands to f16. half_sums: as half, and it may accumulate in f16. int8: as half, and it may quantize rows that are multiplied by a quantized weight to 8 bits, with a scale per 32 elements."}

// windowPrecision is the attribute of convolutions, which have no block weights.
var windowPrecision = AttrInfo{Name: "precision", Kind: AttrString, Default: PrecisionFull,
	Enum: []string{PrecisionFull, PrecisionHalf, PrecisionHalfSums},
	Doc:  "how far a device may round to be faster. full: not at all. half: it may round operands to f16. half_sums: it may accumulate in f16 too."}

// The values of attribute precision of matmul; other ops accept some of them. They allow a lower precision and never
// require it: the reference always computes in full precision.
const (
	// PrecisionFull does not round operands, and accumulates in f32. Rows that are multiplied by a quantized weight may
	// have errors of 2^-22 of the largest of 32 neighbouring elements: on tensor cores, three int8 represent a float.
	PrecisionFull = "full"
	// PrecisionBF16x3 splits each f32 operand into the sum of two bf16, the rounded operand and the rounded remainder.
	// It does not multiply the two remainders, and so needs three bf16 matmuls with f32 accumulation.
	PrecisionBF16x3   = "bf16x3"
	PrecisionHalf     = "half"      // operands may be rounded to f16, accumulation is in f32
	PrecisionHalfSums = "half_sums" // operands and accumulation may be rounded to f16
	// Rows that are multiplied by a quantized weight may be quantized to int8, other operands rounded to f16.
	PrecisionBytes = "int8"
)

// AllowsHalf reports whether a value of the attribute precision lets operands be rounded to f16.
func AllowsHalf(precision string) bool {
	return precision == PrecisionHalf || precision == PrecisionHalfSums || precision == PrecisionBytes
}

// inferMatMul is the type rule of matmul: contraction axes must match, and outer axes broadcast.
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

// productDType returns the dtype of a matmul's result: for floats the narrowest dtype that represents all values of
// both operands, and i32 for int8. A block operand counts as the other operand's dtype, or as f32 if both are blocks.
func productDType(c *Call) (DType, error) {
	a, b := c.DType(0), c.DType(1)
	if a == I8 || a == U8 {
		return I32, c.wantSame(0, 1)
	}
	for i, t := range []DType{a, b} {
		switch {
		case t.IsInteger() && i == 0:
			return Invalid, fmt.Errorf("%s is %s: want i8 or u8, because matmuls of other integers are not "+
				"supported", c.arg(0), t)
		case t.IsInteger():
			return Invalid, c.wantSame(0, 1) // the error: a is a float or a block format
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

// transposeHint suggests another transpose_b if that would make the shapes fit, and returns "" if it would not. ta and
// tb are the attributes transpose_a and transpose_b.
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
