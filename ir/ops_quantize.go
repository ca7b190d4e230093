package ir

import (
	"fmt"
	"slices"
)

// deviceFormats are the block formats that op quantize makes: those whose
// blocks are found without a search that takes longer than what they are for,
// such as the rows of a cache.
var deviceFormats = []DType{Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL}

func init() {
	rows(OpInfo{Op: OpQuantize, Name: "quantize", Class: ClassIndexing, Args: []ArgInfo{{Name: "x"}},
		Attrs: []AttrInfo{{Name: "dtype", Kind: AttrDType, Doc: "the result dtype: q4_0, q4_1, q5_0, q5_1, q8_0 or iq4_nl"}}, Infer: inferQuantize,
		Doc: "x (f32, f16 or bf16) in blocks along its innermost axis, bit for bit as package quant makes them. The values must be finite, and within what the format's f16 scales reach. Written into a state by dynamic_update_slice, the blocks go straight to their place."})
}

func inferQuantize(c *Call) (Type, error) {
	if t := c.DType(0); t != F32 && t != F16 && t != BF16 {
		return Type{}, fmt.Errorf("x is %s, want f32, f16 or bf16", t)
	}
	to, s := c.Attrs.DType("dtype"), c.Shape(0)
	if !slices.Contains(deviceFormats, to) {
		return Type{}, fmt.Errorf("dtype is %s, want one of %v; package quant makes all formats", to, deviceFormats)
	}
	if len(s) == 0 {
		return Type{}, fmt.Errorf("x is a scalar: want rows of whole blocks of %d", to.BlockElems())
	}
	if d := s[len(s)-1]; !d.IsStatic() || d.Add%int64(to.BlockElems()) != 0 {
		return Type{}, fmt.Errorf("x is %s: its innermost axis is no whole number of blocks of %d", s, to.BlockElems())
	}
	return Type{to, s}, nil
}
