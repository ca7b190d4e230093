package quant

import (
	"fmt"
	"math"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// UnsupportedError reports an operation that is not implemented for a data type.
type UnsupportedError struct {
	Type ir.DType
	What string     // the operation: "dequantize", "quantize" or "quantize with weights"
	Have []ir.DType // the types that have it
}

// Error names the operation, the type and the types that support the operation.
func (e *UnsupportedError) Error() string {
	names := make([]string, len(e.Have))
	for i, t := range e.Have {
		names[i] = t.String()
	}
	return fmt.Sprintf("%s %s: not supported; supported formats: %s", e.What, e.Type, strings.Join(names, " "))
}

// ValueError reports an input value that a format cannot represent: a NaN, an infinity, or a magnitude that overflows
// the format's scale.
type ValueError struct {
	Type  ir.DType
	Index int     // position in the source slice
	Value float32 // the offending value
	Limit float32 // largest magnitude that the format can encode
}

// Refusal returns the end of an error about a value that Quantize refuses for t.
func Refusal(t ir.DType) string {
	return fmt.Sprintf("is NaN, infinite, or larger in magnitude than %g, the maximum of %s", Limit(t), t)
}

// Error names the value, where it is, and what would be accepted.
func (e *ValueError) Error() string {
	where := fmt.Sprintf("quantize %s: value %d is %g", e.Type, e.Index, e.Value)
	if v := float64(e.Value); math.IsNaN(v) || math.IsInf(v, 0) {
		return where + ": only finite values can be quantized"
	}
	return fmt.Sprintf("%s: its scale would overflow; magnitudes up to %g fit", where, e.Limit)
}
