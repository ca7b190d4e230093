package ir

import (
	"fmt"
	"slices"
)

// QuantizeFormats returns the block formats that op quantize supports. Package quant makes the others too, which are
// seldom useful without the importances of weights.
func QuantizeFormats() []DType { return slices.Clone(quantizable) }

var quantizable = func() (list []DType) {
	for t, f := range blockFormats {
		if f != nil && f.Encode != "" {
			list = append(list, DType(t))
		}
	}
	return list
}()

func init() {
	rows(OpInfo{Op: OpQuantize, Name: "quantize", Class: ClassIndexing, Args: []ArgInfo{{Name: "x"}},
		Attrs: []AttrInfo{{Name: "dtype", Kind: AttrDType, Doc: "the result dtype: " + dtypeNames(quantizable)}}, Infer: inferQuantize,
		NoGrad: "blocks come out", Doc: "x (f32, f16 or bf16) quantized to blocks along its innermost axis. The blocks equal package quant's without importances, bit for bit. One exception is groups of magnitudes below 2^-30 on a device that flushes denormals to zero: their levels may differ. The values must be finite and within the range of the format's scales; otherwise the run ends with a FaultError. Only package quant makes the formats iq1_s to iq2_s, which are seldom useful without importances of weights. If dynamic_update_slice writes the result into a state, the kernel stores the blocks there directly."})
}

// inferQuantize is the type rule of quantize: rows must be whole blocks of the format.
func inferQuantize(c *Call) (Type, error) {
	if t := c.DType(0); t != F32 && t != F16 && t != BF16 {
		return Type{}, fmt.Errorf("%s is %s, want f32, f16 or bf16", c.arg(0), t)
	}
	to, s := c.Attrs.DType("dtype"), c.Shape(0)
	if !slices.Contains(quantizable, to) {
		return Type{}, fmt.Errorf("dtype is %s, want one of %v; package quant makes all formats", to, quantizable)
	}
	if len(s) == 0 {
		return Type{}, fmt.Errorf("%s is a scalar: want rows of whole blocks of %d", c.arg(0), to.BlockElems())
	}
	if d := s[len(s)-1]; !d.IsStatic() || d.Add%int64(to.BlockElems()) != 0 {
		return Type{}, fmt.Errorf("%s is %s: its innermost axis is not a whole number of blocks of %d", c.arg(0), s,
			to.BlockElems())
	}
	return Type{to, s}, nil
}
