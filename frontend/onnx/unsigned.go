package onnx

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// vkc has no u64 and represents a uint64 as an i64 with the same bits. Below 2^63 both are the same number. A value
// that may be 2^63 or more is large. Only ops that compute alike on the bits of both types take large values; others
// are errors.

// unsignedOps are the ops that have results below 2^63 if their inputs are below 2^63.
var unsignedOps = []string{
	"ArgMax", "ArgMin", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Cast", "CastLike", "Compress", "Concat",
	"Constant", "ConstantOfShape", "Div", "Equal", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Greater",
	"GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Max", "Min", "Mod", "NonZero", "Pad", "Pow", "ReduceMax",
	"ReduceMin", "Reshape", "ScatterElements", "ScatterND", "Shape", "Size", "Slice", "Split", "Squeeze", "Tile", "TopK",
	"Transpose", "Unique", "Unsqueeze", "Where",
}

// wrappingOps compute the same bits for uint64 as for int64, whatever the numbers are.
var wrappingOps = []string{
	"Add", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Compress", "Concat", "Constant", "CumSum", "Equal",
	"Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Mul", "NonZero", "Pad", "ReduceSum", "Reshape",
	"ScatterElements", "ScatterND", "Shape", "Size", "Slice", "Split", "Squeeze", "Sub", "Sum", "Tile", "Transpose",
	"Unsqueeze", "Where",
}

// movingOps are the wrapping ops whose results are numbers of the operands.
var movingOps = []string{
	"Compress", "Concat", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Pad", "Reshape",
	"ScatterElements", "ScatterND", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Where", "Equal",
	"NonZero", "Shape", "Size",
}

// wraps reports whether the op computes on bits, and left shifts.
func (c *call) wraps() bool {
	return c.node.Domain == "" && (slices.Contains(wrappingOps, c.node.Op) ||
		c.node.Op == "BitShift" && c.textAttr("direction", "") == "LEFT") && c.textAttr("reduction", "none") == "none"
}

// checkUnsigned fails if the op cannot treat a uint64 input as an i64.
func (c *call) checkUnsigned() {
	for i, v := range c.in {
		switch {
		case v == nil || !v.unsigned || c.wraps():
		case v.large:
			c.fail("its input %q is a uint64 that may be 2^63 or more, and vkc computes uint64 as int64, which gives "+
				"another result for this op", v.name)
		case !slices.Contains(unsignedOps, c.node.Op) || c.node.Domain != "" || c.node.Op == "Pow" && i == 0 ||
			c.textAttr("reduction", "none") != "none":
			c.fail("its input %q is a uint64, and its result may be 2^63 or more, which vkc does not have: cast it to "+
				"int64", v.name)
		}
	}
}

// markLike copies the fields unsigned and large of each value in of to the value at the same index.
func markLike(values, of []*value) {
	for i, v := range values {
		v.unsigned, v.large = v.unsigned || of[i].unsigned, v.large || of[i].large
	}
}

// markUnsigned sets which results are uint64, and which of them may be 2^63 or more.
func (c *call) markUnsigned(results []*value) {
	isUnsigned := func(i int) bool { return c.has(i) && c.in[i].unsigned }
	marked, large := isUnsigned(0) || isUnsigned(1), false
	switch c.node.Op {
	case "ArgMax", "ArgMin", "NonZero", "Shape", "Size":
		return // int64 for every input type
	case "TopK", "Unique":
		results = results[:min(len(results), 1)]
	case "BitShift":
		large = c.textAttr("direction", "") == "LEFT"
	case "Cast":
		marked, large = false, !isUnsigned(0)
	case "CastLike":
		marked, large = isUnsigned(1), !isUnsigned(0)
	case "Where":
		marked = isUnsigned(1)
	default:
		large = c.toUnsigned
	}
	if c.wraps() {
		if large = !slices.Contains(movingOps, c.node.Op); !large {
			large = slices.ContainsFunc(c.in, func(v *value) bool { return v != nil && v.large })
		}
		for _, v := range results {
			if v != nil && !v.isList && marked && c.dtypeOf(v) == ir.I64 {
				v.unsigned, v.large = true, large
			}
		}
		return
	}
	if large && c.has(0) && !c.in[0].isList {
		narrow := []ir.DType{ir.Bool, ir.U8, ir.U16, ir.U32}
		large = !slices.Contains(narrow, c.dtypeOf(c.in[0]))
	}
	for _, v := range results {
		if v == nil || v.isList || !marked && !c.toUnsigned || c.dtypeOf(v) != ir.I64 {
			continue
		}
		v.unsigned, v.large = true, large
		if v.data != nil {
			v.large = firstNegative(v.data) >= 0
		}
	}
}

// firstNegative returns the index of the first negative integer, or -1.
func firstNegative(d *ir.Data) int {
	list, err := d.Ints()
	if err != nil {
		return -1
	}
	return slices.IndexFunc(list, func(n int64) bool { return n < 0 })
}
