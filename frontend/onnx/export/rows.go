package export

import (
	"errors"
	"maps"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// row says how an op is written: by a formula for each kind of dtype, or by a function.
type row struct {
	float, int, uint, bool string               // formulas; "" for a kind of dtype that ONNX does not take
	build                  func(c *call) string // if set, writes the op and returns the name of its result
	since                  int                  // the first opset that has the ops, if leastOpset does not
}

// formulaFor returns the formula for the dtype of the op's last required argument, or "".
func (r row) formulaFor(n *ir.Node) string {
	if len(n.Args()) == 0 {
		return ""
	}
	switch t := n.Arg(n.Op().Info().MinArgs() - 1).DType(); t.Kind() {
	case ir.KindInt:
		return r.int
	case ir.KindUint:
		return r.uint
	case ir.KindBool:
		return r.bool
	case ir.KindFloat:
		return r.float
	}
	return ""
}

// floats returns a row with formula f for floats, numbers for floats and integers, and all for all dtypes.
func floats(f string) row  { return row{float: f} }
func numbers(f string) row { return row{float: f, int: f, uint: f} }
func all(f string) row     { return row{float: f, int: f, uint: f, bool: f} }

// built returns a row for an op that a function writes.
func built(build func(c *call) string) row { return row{build: build} }

// table has a row for each op that can be written. The functions init fill it, because some rows refer to functions
// that read it.
var table = map[ir.Op]row{}

// init adds the leaves.
func init() {
	maps.Copy(table, map[ir.Op]row{
		ir.OpWeight: built(weight), ir.OpConst: built(constant), ir.OpIota: built(iota_),
		ir.OpDimValue: built(func(c *call) string {
			return c.cast(c.number(c.node.Attrs().Shape("dim")[0]), ir.I32)
		}),
	})
}

// init adds the elementwise ops.
func init() {
	maps.Copy(table, map[ir.Op]row{
		ir.OpNeg: numbers("Neg(x)"), ir.OpAbs: numbers("Abs(x)"), ir.OpSign: numbers("Sign(x)"),
		ir.OpExp: floats("Exp(x)"), ir.OpExp2: floats("Pow(2,x)"),
		ir.OpExpm1: floats("Where(Less(Abs(x),1), Mul(2,Mul(Sinh(Div(x,2)),Exp(Div(x,2)))), Sub(Exp(x),1))"),
		ir.OpLog:   floats("Log(x)"), ir.OpLog2: floats("Div(Log(x),0.6931471805599453)"),
		ir.OpLog1p: floats("Where(Less(Abs(x),0.5), Mul(2,Atanh(Div(x,Add(x,2)))), Log(Add(x,1)))"),
		ir.OpSqrt:  floats("Sqrt(x)"), ir.OpRsqrt: floats("Reciprocal(Sqrt(x))"), ir.OpRecip: floats("Reciprocal(x)"),
		ir.OpSqr: numbers("Mul(x,x)"), ir.OpSin: floats("Sin(x)"), ir.OpCos: floats("Cos(x)"),
		ir.OpTan:  floats("Tan(x)"),
		ir.OpAsin: floats("Asin(x)"), ir.OpAcos: floats("Acos(x)"), ir.OpAtan: floats("Atan(x)"),
		ir.OpAsinh: floats("Asinh(x)"), ir.OpAcosh: floats("Acosh(x)"), ir.OpAtanh: floats("Atanh(x)"),
		ir.OpSinh: floats("Sinh(x)"), ir.OpCosh: floats("Cosh(x)"), ir.OpTanh: floats("Tanh(x)"),
		ir.OpSigmoid: floats("Sigmoid(x)"), ir.OpSilu: floats("Mul(x,Sigmoid(x))"),
		ir.OpRelu:      {float: "Relu(x)", int: "Max(x,0)"},
		ir.OpLeakyRelu: floats("LeakyRelu(x; alpha={alpha})"), ir.OpElu: floats("Elu(x; alpha={alpha})"),
		ir.OpCelu:     floats("Where(Greater(x,0),x,Mul({alpha},Elu(Div(x,{alpha}); alpha=1.0)))"),
		ir.OpSoftsign: floats("Softsign(x)"), ir.OpSelu: floats("Selu(x)"),
		ir.OpGelu: floats("Gelu(x; approximate=tanh)"), ir.OpGeluErf: floats("Gelu(x)"), ir.OpErf: floats("Erf(x)"),
		ir.OpSoftplus: floats("Softplus(x)"), ir.OpMish: floats("Mish(x)"), ir.OpHardswish: floats("HardSwish(x)"),
		ir.OpHardsigmoid: floats("HardSigmoid(x; alpha=0.16666666666666666; beta=0.5)"),
		ir.OpFloor:       floats("Floor(x)"), ir.OpCeil: floats("Ceil(x)"), ir.OpRound: floats("Round(x)"),
		ir.OpTrunc: floats("Mul(Sign(x),Floor(Abs(x)))"),
		ir.OpNot:   {bool: "Not(x)", int: "BitwiseNot(x)", uint: "BitwiseNot(x)"},
		ir.OpIsNaN: floats("IsNaN(x)"), ir.OpIsInf: floats("IsInf(x)"),
		ir.OpAdd: numbers("Add(a,b)"), ir.OpSub: numbers("Sub(a,b)"), ir.OpMul: numbers("Mul(a,b)"),
		ir.OpDiv: {float: "Div(a,b)", int: "Where(Equal(b,-1),Neg(a)," + signed("Div(a,%)") + ")", uint: unsigned("Div(a,%)")},
		ir.OpMod: {float: mod, int: signed("Mod(a,%)"), uint: unsigned("Mod(a,%)")},
		ir.OpRem: {float: rem, int: signed("Mod(a,%; fmod=1)"), uint: unsigned("Mod(a,%; fmod=1)")},
		ir.OpPow: {float: "Pow(a,b)",
			int: "Where(Less(b,0),Where(Equal(Abs(a),1),Pow(a,Mod(b,2)),0),Pow(a,Max(b,0)))"},
		ir.OpMin: numbers("Min(a,b)"), ir.OpMax: numbers("Max(a,b)"),
		ir.OpAtan2: floats(atan2),
		ir.OpAnd:   {bool: "And(a,b)", int: "BitwiseAnd(a,b)", uint: "BitwiseAnd(a,b)"},
		ir.OpOr:    {bool: "Or(a,b)", int: "BitwiseOr(a,b)", uint: "BitwiseOr(a,b)"},
		ir.OpXor:   {bool: "Xor(a,b)", int: "BitwiseXor(a,b)", uint: "BitwiseXor(a,b)"},
		ir.OpShl:   built(shift), ir.OpShr: built(shift),
		ir.OpEq: all("Equal(a,b)"), ir.OpNe: all("Not(Equal(a,b))"), ir.OpLt: numbers("Less(a,b)"),
		ir.OpLe: numbers("LessOrEqual(a,b)"), ir.OpGt: numbers("Greater(a,b)"), ir.OpGe: numbers("GreaterOrEqual(a,b)"),
		ir.OpWhere: built(func(c *call) string {
			return c.emit("Where", []string{c.truth(c.arg(0), c.node.Arg(0).DType()), c.arg(1), c.arg(2)})
		}),
		ir.OpClamp: built(clamp), ir.OpAffine: numbers("Add(Mul(x,{mul}),{add})"),
		ir.OpPowf: floats("Pow(x,{exponent})"),
		ir.OpLerp: floats("Add(a,Mul(Sub(b,a),t))"), ir.OpAfter: built(expand),
		ir.OpCast: built(cast), ir.OpBitcast: {build: bitcast, since: 26},
	})
}

// init adds the views.
func init() {
	maps.Copy(table, map[ir.Op]row{
		ir.OpReshape:   built(func(c *call) string { return c.reshaped(c.arg(0), c.node.Shape()) }),
		ir.OpTranspose: built(transpose), ir.OpSlice: built(slice), ir.OpFlip: built(flip), ir.OpRoll: built(roll),
		ir.OpBroadcast: built(expand),
		ir.OpSqueeze:   built(axesOp("Squeeze")), ir.OpUnsqueeze: built(axesOp("Unsqueeze")),
	})
}

// init adds reductions, scans and sorts.
func init() {
	maps.Copy(table, map[ir.Op]row{
		ir.OpSum: built(reduce("ReduceSum")), ir.OpMean: built(reduce("ReduceMean")),
		ir.OpProd:      built(reduce("ReduceProd")),
		ir.OpReduceMax: built(reduce("ReduceMax")), ir.OpReduceMin: built(reduce("ReduceMin")),
		ir.OpNorm1: built(reduce("ReduceL1")), ir.OpNorm2: built(reduce("ReduceL2")),
		ir.OpLogSumExp: built(reduce("ReduceLogSumExp")), ir.OpNormP: built(normP), ir.OpVariance: built(variance),
		ir.OpAny: built(anyOf), ir.OpAll: built(anyOf), ir.OpArgmax: built(argmax), ir.OpArgmin: built(argmax),
		ir.OpCumSum: {build: scan("CumSum")}, ir.OpCumProd: {build: scan("CumProd"), since: 26},
		ir.OpSort: built(sorted), ir.OpArgsort: built(sorted), ir.OpTopKIndices: built(sorted),
	})
}

// init adds the row ops.
func init() {
	maps.Copy(table, map[ir.Op]row{
		ir.OpSoftmax: built(along("Softmax")), ir.OpLogSoftmax: built(along("LogSoftmax")),
		ir.OpRMSNorm: {build: rmsNorm, since: 23}, ir.OpLayerNorm: built(layerNorm), ir.OpGroupNorm: built(groupNorm),
		ir.OpL2Normalize: built(l2Normalize), ir.OpRope: built(rope),
	})
}

// init adds contractions and windows.
func init() {
	maps.Copy(table, map[ir.Op]row{
		ir.OpMatMul: built(matmul), ir.OpMatMulID: built(matmulID), ir.OpConv: built(conv),
		ir.OpConvTranspose: built(convTranspose), ir.OpAvgPool: built(pool), ir.OpMaxPool: built(pool),
		ir.OpResizeNearest: built(resize), ir.OpResizeLinear: built(resize), ir.OpResizeCubic: built(resize),
	})
}

// init adds the ops that index.
func init() {
	maps.Copy(table, map[ir.Op]row{
		ir.OpGather: built(gather("GatherElements")), ir.OpIndexSelect: built(gather("Gather")),
		ir.OpEmbedding: built(embedding), ir.OpConcat: built(concat), ir.OpPad: built(pad),
		ir.OpDynamicSlice: built(dynamicSlice), ir.OpDynamicUpdateSlice: built(dynamicUpdateSlice),
		ir.OpScatter: built(scatter), ir.OpScatterAdd: built(scatter), ir.OpIndexAdd: built(indexAdd),
		ir.OpGatherND: built(gatherND), ir.OpScatterND: built(scatterND), ir.OpScatterNDAdd: built(scatterND),
		ir.OpDequantize: built(func(c *call) string { return c.decoded(c.node.Arg(0), c.node.DType()) }),
	})
}

// init adds attention, composites, Fourier transforms and control.
func init() {
	maps.Copy(table, map[ir.Op]row{
		ir.OpAttention: built(attention), ir.OpAttentionLSE: built(attention),
		ir.OpBatchNorm: built(batchNorm), ir.OpTril: built(triangle), ir.OpTriu: built(triangle),
		ir.OpOneHot: built(oneHot), ir.OpRopeTables: built(ropeTables),
		ir.OpFFT: built(fourier), ir.OpRFFT: built(fourier),
		ir.OpIf: built(branch), ir.OpLoop: built(loop),
		ir.OpResult: built(func(c *call) string { return c.results[c.node.Arg(0)][c.node.Attrs().Int("index")] }),
	})
}

// rem is the remainder of floats with the sign of a, and mod with the sign of b.
const (
	rem = "Mod(a,b; fmod=1)"
	mod = "Where(And(Not(Equal(" + rem + ",0)),Xor(Less(" + rem + ",0),Less(b,0))),Add(" + rem + ",b)," + rem + ")"
)

// atan2 is the angle of the point (|b|, |a|), with the signs of a and b, also of zeros. If both are infinite, their
// quotient is not defined.
const (
	corner = "Where(Equal(Abs(a),Abs(b)),Where(Equal(a,0),0,0.7853981633974483),Atan(Div(Abs(a),Abs(b))))"
	turned = "Where(Or(Less(b,0),Less(Reciprocal(b),0)),Sub(3.141592653589793," + corner + ")," + corner + ")"
	atan2  = "Where(Or(Less(a,0),Less(Reciprocal(a),0)),Neg(" + turned + ")," + turned + ")"
)

// signed and unsigned return formula f of integers with a divisor in place of the percent sign. The divisor is argument
// b. If b is 0, the result is 0 and the divisor 1, because ONNX does not define division by 0. In signed the divisor is
// also 1 if b is -1, because the least integer cannot be divided by -1.
func signed(f string) string {
	return "Where(Equal(b,0),0," + strings.Replace(f, "%", "Where(Or(Equal(b,0),Equal(b,-1)),1,b)", 1) + ")"
}

func unsigned(f string) string {
	return "Where(Equal(b,0),0," + strings.Replace(f, "%", "Where(Equal(b,0),1,b)", 1) + ")"
}

// reasons says why ops have no row.
var reasons = map[ir.Op]string{
	ir.OpQuantize:        "ONNX has no blocks",
	ir.OpRandomUniform:   "ONNX's random numbers differ: pass them to the graph as an input",
	ir.OpRandomNormal:    "ONNX's random numbers differ: pass them to the graph as an input",
	ir.OpRandomBernoulli: "ONNX's random numbers differ: pass them to the graph as an input",
	ir.OpAttentionGrad:   "ONNX has no op for it: write the graph without gradients",
	ir.OpExpertGroups:    "only vkc's passes make it: write the graph before they run",
}

// reason says why an op has no row.
func reason(op ir.Op) error {
	if r, ok := reasons[op]; ok {
		return errors.New(r)
	}
	return errors.New("ONNX has no op for it")
}
