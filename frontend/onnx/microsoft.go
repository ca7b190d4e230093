package onnx

import (
	"math"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// microsoftOps are ops of ONNX Runtime. Its optimizer and its exporters use them in models.
var microsoftOps = table{
	"Gelu":                             unary(tensor.GeluErf),
	"FastGelu":                         tensorOp(func(c *call) tensor { return c.biased().Gelu() }),
	"BiasGelu":                         tensorOp(func(c *call) tensor { return c.biased().GeluErf() }),
	"QuickGelu":                        tensorOp(quickGelu),
	"BiasSplitGelu":                    tensorOp(biasSplitGelu),
	"BiasAdd":                          tensorOp(func(c *call) tensor { return c.x(0).Add(c.x(1)).Add(c.x(2)) }),
	"BiasSoftmax":                      tensorOp(biasSoftmax),
	"BiasDropout":                      controlOp(biasDropout),
	"GatedAdd":                         tensorOp(func(c *call) tensor { return c.x(0).Add(c.x(1).Mul(c.x(2))) }),
	"ComplexMul":                       tensorOp(func(c *call) tensor { return complexMul(c.x(0), c.x(1), 1) }),
	"ComplexMulConj":                   tensorOp(func(c *call) tensor { return complexMul(c.x(0), c.x(1), -1) }),
	"FusedMatMul":                      tensorOp(fusedMatMul),
	"TransposeMatMul":                  tensorOp(fusedMatMul),
	"FusedMatMulActivation":            tensorOp(fusedMatMulActivation),
	"FusedGemm":                        tensorOp(func(c *call) tensor { return c.activated(gemm(c), c.activationAttr) }),
	"GemmFastGelu":                     tensorOp(gemmFastGelu),
	"FusedConv":                        tensorOp(fusedConv),
	"NhwcConv":                         tensorOp(channelsLast(func(c *call, x tensor) tensor { return c.convOf(x).result() })),
	"NhwcFusedConv":                    tensorOp(channelsLast(fusedConvOf)),
	"GroupNorm":                        tensorOp(func(c *call) tensor { return c.groupNormLike(c.x(0)) }),
	"SkipGroupNorm":                    manyOp(skipGroupNorm),
	"GatedRMSNorm":                     tensorOp(gatedRMSNorm),
	"EmbedLayerNormalization":          manyOp(embedLayerNorm),
	"SkipLayerNormalization":           manyOp(skipLayerNorm),
	"SkipSimplifiedLayerNormalization": manyOp(skipRMSNorm),
	"SimplifiedLayerNormalization":     tensorOp(rmsNorm),

	"Trilu":          tensorOp(trilu),
	"Inverse":        tensorOp(inverse),
	"ExpandDims":     tensorOp(expandDims),
	"Pad":            tensorOp(pad),
	"Unique":         manyOp(microsoftUnique),
	"GatherND":       tensorOp(func(c *call) tensor { return c.x(0).GatherND(c.x(1)) }),
	"Range":          manyOp(microsoftRange),
	"GridSample":     tensorOp(microsoftGridSample),
	"UnfoldTensor":   tensorOp(unfold),
	"CDist":          tensorOp(cdist),
	"IsAllFinite":    tensorOp(isAllFinite),
	"SampleOp":       unary(func(x tensor) tensor { return x }),
	"RemovePadding":  manyOp(removePadding),
	"RestorePadding": passOp(func(c *call) []*value { return one(restorePadding(c)) }),
}

// Reasons why ops are refused.
const (
	wholeLoop = "it generates text in one node: export the decoder alone, with past and present keys and values"
	paged     = "a scheduler of requests allocates the pages of its cache: export GroupQueryAttention"
	packed    = "its sequences have no padding, and their number of tokens is known only in a run: export " +
		"MultiHeadAttention"
	gpuOrder = "its operands are laid out for one kind of GPU: export ops on row-major tensors"
	text     = "strings have no meaning on a device"
)

// refused has the ops that vkc leaves out, by domain, with the reason.
var refused = map[string]map[string]string{"com.microsoft": {
	"BeamSearch": wholeLoop, "GreedySearch": wholeLoop, "Sampling": wholeLoop, "WhisperBeamSearch": wholeLoop,
	"PagedAttention": paged, "PackedAttention": packed, "PackedMultiHeadAttention": packed,
	"SparseAttention":            "tables of columns select its blocks of keys: export GroupQueryAttention",
	"LongformerAttention":        "its operands are laid out for one kind of GPU: export the ops that it consists of",
	"DecoderMaskedSelfAttention": gpuOrder, "QOrderedAttention": gpuOrder, "QOrderedGelu": gpuOrder,
	"QOrderedLayerNormalization": gpuOrder, "QOrderedLongformerAttention": gpuOrder, "QOrderedMatMul": gpuOrder,
	"QuantizeWithOrder": gpuOrder, "DequantizeWithOrder": gpuOrder,
	"Tokenizer": text,
}}

// biased returns input 0 plus input 1, if that is given.
func (c *call) biased() tensor {
	if !c.has(1) {
		return c.x(0)
	}
	return c.x(0).Add(c.x(1))
}

// quickGelu builds QuickGelu: x*sigmoid(alpha*x).
func quickGelu(c *call) tensor {
	alpha := c.floatAttr("alpha", 1.702)
	return wide(c.x(0), func(x tensor) tensor { return x.Mul(x.MulScalar(alpha).Sigmoid()) })
}

// fusedMatMul builds FusedMatMul: a matmul with optional transposes and a factor.
func fusedMatMul(c *call) tensor {
	y := matmul(c.transposed(0, "transA", "transBatchA"), c.transposed(1, "transB", "transBatchB"))
	if alpha := c.floatAttr("alpha", 1); alpha != 1 {
		y = y.MulScalar(alpha)
	}
	return y
}

// transposed returns input i, a stack of matrices. matrix and batch are the names of two bool attributes of the node.
// If batch is set, [rows, batch, columns] becomes [batch, rows, columns]. If matrix is set, the last two axes are then
// exchanged.
func (c *call) transposed(i int, matrix, batch string) tensor {
	x := c.x(i)
	if last := x.Rank() - 1; c.flag(batch, false) && last > 1 {
		x = x.Transpose(append(axesFrom(1, last), 0, last)...)
	}
	if c.flag(matrix, false) && x.Rank() > 1 {
		x = x.T()
	}
	return x
}

// activationAttr returns parameter i of an activation, alpha, beta or gamma, from the attribute for it.
func (c *call) activationAttr(i int, otherwise float64) float64 {
	return c.floatAttr([]string{"activation_alpha", "activation_beta", "activation_gamma"}[i], otherwise)
}

// activated applies the activation that attribute activation names to y. number(i, otherwise) returns its parameter i,
// alpha, beta or gamma, or `otherwise` if the node has none.
func (c *call) activated(y tensor, number func(i int, otherwise float64) float64) tensor {
	name := c.textAttr("activation", "")
	switch strings.ToLower(name) {
	case "":
		return y
	case "clip":
		return y.Clamp(number(0, math.Inf(-1)), number(1, math.Inf(1)))
	case "hardswish":
		return y.Hardswish()
	case "gelu":
		return y.GeluErf()
	case "silu", "swish":
		return y.Silu()
	case "celu":
		return y.Celu(number(0, 1))
	case "softmax":
		return y.Softmax(c.axis(c.intAttr("activation_axis", -1), y.Rank()))
	}
	of := numbersOf[strings.ToLower(name)] // the parameters that the activation has
	alpha, beta := of.alpha, of.beta
	if of.alphas > 0 {
		alpha = number(0, alpha)
	}
	if of.betas > 0 || strings.EqualFold(name, "hardsigmoid") {
		beta = number(1, beta)
	}
	return c.activation(name, alpha, beta)(y)
}

func fusedMatMulActivation(c *call) tensor {
	c.must("activation", AttrString)
	return c.activated(fusedMatMul(c), c.activationAttr)
}

// gemmFastGelu builds GemmFastGelu: a matmul with an optional bias, and Gelu by tanh.
func gemmFastGelu(c *call) tensor {
	y := matmul(c.x(0), c.x(1))
	if c.has(2) {
		y = y.Add(c.x(2))
	}
	return y.Gelu()
}

// fusedConv builds FusedConv: a convolution, an optional sum with input 3, and an activation.
func fusedConv(c *call) tensor { return fusedConvOf(c, c.x(0)) }

// fusedConvOf builds FusedConv or NhwcFusedConv for the input x: a convolution, plus input 3 if given, and an
// activation.
func fusedConvOf(c *call, x tensor) tensor {
	y := c.convOf(x).result()
	if c.has(3) {
		z := c.x(3)
		if c.node.Op == "NhwcFusedConv" {
			z = channelsFirst(z)
		}
		y = y.Add(z)
	}
	var numbers []float32
	if a := c.attr("activation_params", AttrFloats); a != nil {
		numbers = a.Floats
	}
	read := 0 // how many parameters the activation takes
	y = c.activated(y, func(i int, otherwise float64) float64 {
		read = max(read, i+1)
		if i < len(numbers) {
			return float64(numbers[i])
		}
		return float64(float32(otherwise)) // ONNX Runtime keeps parameters as float
	})
	if len(numbers) > read {
		c.fail("activation_params has %d numbers, but activation %q takes %d", len(numbers),
			c.textAttr("activation", ""), read)
	}
	return y
}

// channelsFirst moves the last axis to the second.
func channelsFirst(x tensor) tensor {
	perm := []int{0, x.Rank() - 1}
	for a := 1; a < x.Rank()-1; a++ {
		perm = append(perm, a)
	}
	return x.Transpose(perm...)
}

// channelsAtEnd moves the second axis to the last, the inverse of channelsFirst.
func channelsAtEnd(x tensor) tensor {
	perm := []int{0}
	for a := 2; a < x.Rank(); a++ {
		perm = append(perm, a)
	}
	return x.Transpose(append(perm, 1)...)
}

// channelsLast returns the builder of an op on an input with channels at the last axis. f builds it for channels at
// axis 1.
func channelsLast(f func(c *call, x tensor) tensor) func(c *call) tensor {
	return func(c *call) tensor { return channelsAtEnd(f(c, channelsFirst(c.x(0)))) }
}

// orChannelsLast returns the builder of an op on an input with channels at axis 1 or, if an attribute says so, at the
// last axis. f builds it for channels at axis 1.
func orChannelsLast(f func(c *call, x tensor) tensor) func(c *call) tensor {
	return func(c *call) tensor { return inEitherLayout(f)(c, c.x(0)) }
}

// biasSplitGelu builds BiasSplitGelu: the first half of the last axis times Gelu of the second.
func biasSplitGelu(c *call) tensor {
	x := c.x(0).Add(c.x(1))
	axis := x.Rank() - 1
	half, ok := x.Dim(axis).Quo(2)
	if !ok {
		c.fail("input %s: the last axis must be even", x)
	}
	return x.Slice(axis, 0, half).Mul(x.Slice(axis, half.Static(), x.Dim(axis)).GeluErf())
}

// biasSoftmax builds BiasSoftmax: softmax of a sum, over attribute axis and all later axes.
func biasSoftmax(c *call) tensor {
	c.must("is_inner_broadcast", AttrInt) // which axes the bias lacks: its extents of 1 say the same
	x := c.biased()
	s, axis := x.Shape(), c.axis(c.intAttr("axis", 1), x.Rank())
	return x.Reshape(s[:axis], -1).Softmax(axis).Reshape(s)
}

// biasDropout builds BiasDropout: a sum with a bias, dropout, and a sum with a residual.
func biasDropout(c *call) []*value {
	results := c.dropoutOf(c.biased(), 3, 4)
	if c.has(2) {
		results[0].tensor = results[0].tensor.Add(c.x(2))
	}
	return results
}

// complexMul multiplies complex numbers, with the real and imaginary part along the last axis. sign is -1 for the
// conjugate of b.
func complexMul(a, b tensor, sign float64) tensor {
	ar, ai, br, bi := a.Index(-1, 0), a.Index(-1, 1), b.Index(-1, 0), b.Index(-1, 1)
	if sign < 0 {
		bi = bi.Neg()
	}
	re, im := ar.Mul(br).Sub(ai.Mul(bi)), ar.Mul(bi).Add(ai.Mul(br))
	return re.Stack(re.Rank(), im)
}

// groupNormLike builds GroupNorm of x, by the node's attributes and its inputs 1 and 2, the scale and the bias.
func (c *call) groupNormLike(x tensor) tensor {
	last := c.flag("channels_last", true)
	if last {
		x = channelsFirst(x)
	}
	t := x.DType()
	y := x.GroupNorm(c.mustInt("groups"), castTo(c.x(1), t), castTo(c.x(2), t), c.floatAttr("epsilon", 1e-5))
	switch n := c.mustInt("activation"); n {
	case 0:
	case 1:
		y = y.Silu()
	default:
		c.fail("attribute activation is %d: want 0 or 1", n)
	}
	if last {
		return channelsAtEnd(y)
	}
	return y
}

// skipGroupNorm builds SkipGroupNorm: GroupNorm of a sum, and the sum.
func skipGroupNorm(c *call) []*value {
	x, skip := c.x(0), c.x(3)
	last := c.flag("channels_last", true)
	perChannel := func(v tensor) tensor { // [C] or [N, C], to broadcast against x
		if last {
			for v.Rank() > 1 && v.Rank() < x.Rank() {
				v = v.Unsqueeze(1)
			}
			return v
		}
		return perOutput(v, x.Rank()-1)
	}
	if skip.Rank() == 2 {
		skip = perChannel(skip)
	}
	sum := x.Add(skip)
	if c.has(4) {
		sum = sum.Add(perChannel(c.x(4)))
	}
	return several(c.groupNormLike(sum), sum)
}

// gatedRMSNorm builds GatedRMSNorm: an RMS norm times Silu of a gate. The norm is of groups of elements along the last
// axis, each with as many elements as the weights.
func gatedRMSNorm(c *call) tensor {
	x, scale, gate := c.x(0), c.x(1), c.x(2)
	s, t := x.Shape(), x.DType()
	y := castTo(x, ir.F32).Reshape(s[:len(s)-1], -1, scale.Dim(0)).RMSNorm(castTo(scale, ir.F32),
		c.floatAttr("epsilon", 1e-5))
	return castTo(y.Reshape(s).Mul(castTo(gate, ir.F32).Silu()), t)
}

// embedLayerNorm builds EmbedLayerNormalization: a sum of embeddings, and its LayerNorm. The other results are the
// number of words that the mask marks in each sequence, and the sum.
func embedLayerNorm(c *call) []*value {
	ids := c.x(0)
	s := ids.Shape()
	if ids.Rank() != 2 {
		c.fail("ids are %s, want [batch, length]", ids)
	}
	rows := func(table, ids tensor) tensor { return table.IndexSelect(0, ids.Reshape(-1)).Reshape(ids.Shape(), -1) }
	sum := rows(c.x(2), ids) // inputs 2, 3 and 4 are the tables of words, positions and segments
	positions := c.x(3)
	if c.has(8) { // the position of each word
		sum = sum.Add(rows(positions, c.x(8)))
	} else {
		sum = sum.Add(positions.Slice(0, 0, s[1]))
	}
	if c.has(4) {
		if !c.has(1) {
			c.fail("it has segment embeddings but no segment ids")
		}
		sum = sum.Add(rows(c.x(4), c.x(1)))
	}
	words := c.b.Full(ir.I32, 0, s[0])
	if c.has(7) { // the mask
		words = c.x(7).Eq(c.x(7).Lit(1)).Cast(ir.I32).Sum(1)
	}
	c.intAttr("mask_index_type", 0) // read, but without effect: result 1 is always int32
	return several(sum.LayerNorm(c.x(5), c.x(6), c.floatAttr("epsilon", 1e-12)), words, sum)
}

// inverse inverts matrices.
func inverse(c *call) tensor {
	x := c.x(0)
	r := x.Rank()
	if r < 2 {
		c.fail("of %s: want matrices", x)
	}
	return wide(x, func(x tensor) tensor {
		return x.Solve(x.Builder().Eye(x.DType(), x.Dim(r-2), x.Dim(r-1)).Broadcast(x.Shape()))
	})
}

// expandDims builds ExpandDims, which adds one axis of extent 1.
func expandDims(c *call) tensor {
	x, axes := c.x(0), c.ints(1)
	if len(axes) != 1 {
		c.fail("it has %d axes, want one", len(axes))
	}
	return x.Unsqueeze(c.axis(axes[0], x.Rank()+1))
}

// microsoftRange builds Range, with a step of 1 if it is omitted.
func microsoftRange(c *call) []*value {
	if !c.has(2) {
		one, err := ir.FromFloats(c.dtypeOf(c.input(0)), []float64{1})
		if err != nil {
			c.fail("%v", err)
		}
		c.in = append(c.in[:2:2], &value{data: one})
	}
	return rangeOp(c)
}

// microsoftGridSample builds GridSample as opset 16 of ONNX defines it.
func microsoftGridSample(c *call) tensor {
	c.renameText("mode", "linear", map[string]string{"bilinear": "linear", "bicubic": "cubic"})
	return gridSample(c)
}

// microsoftUnique builds Unique with values in the order of their first occurrence. It lacks ONNX's result 1, the
// positions of the first occurrences.
func microsoftUnique(c *call) []*value {
	all := c.uniqueOf(c.x(0).Unique(0), 0, false)
	return []*value{all[0], all[2], all[3]}
}

// unfold builds UnfoldTensor: windows along an axis, with their elements along a new last axis.
func unfold(c *call) tensor {
	x := c.x(0)
	axis, size, step := c.axis(c.intAttr("dim", -1), x.Rank()), c.mustInt("size"), c.intAttr("step", 1)
	n := x.Dim(axis)
	if size < 1 || step < 1 || !n.IsStatic() || n.Static() < size {
		c.fail("windows of %d elements, %d apart, along axis %d of %s", size, step, axis, x)
	}
	count := (n.Static()-size)/step + 1
	parts := make([]tensor, size)
	for i := range parts { // element i of each window
		parts[i] = x.SliceStep(axis, i, ir.D(i+(count-1)*step+1), step)
	}
	return stacked(parts, x.Rank())
}

// cdist builds CDist: the distance of each row of a from each row of b.
func cdist(c *call) tensor {
	a, b := c.x(0), c.x(1)
	squares := a.Unsqueeze(1).Sub(b.Unsqueeze(0)).Sqr().Sum(2)
	if c.choice("metric", "sqeuclidean", "euclidean") == "euclidean" {
		return squares.Sqrt()
	}
	return squares
}

// isAllFinite builds IsAllFinite: whether all elements of all inputs are finite. With attribute isinf_only NaN is
// allowed too, and with isnan_only infinities are.
func isAllFinite(c *call) tensor {
	onlyInf, onlyNaN := c.flag("isinf_only", false), c.flag("isnan_only", false)
	if onlyInf && onlyNaN {
		c.fail("attributes isinf_only and isnan_only are both set")
	}
	all := tensor{}
	for _, x := range c.all() {
		var bad tensor
		switch {
		case onlyNaN:
			bad = x.IsNaN()
		case onlyInf:
			bad = x.IsInf()
		default:
			bad = x.IsInf().Or(x.IsNaN())
		}
		good := bad.Any().Not()
		if !all.IsZero() {
			good = all.And(good)
		}
		all = good
	}
	return all
}

// removePadding builds RemovePadding of input [batch, length, size]. Input 1 has the lengths of the sequences. Result 0
// has the rows within the lengths. Result 1 has the positions of these rows among batch*length rows, and then the
// positions of the padding. Result 2 has the running sums of the lengths, from 0 on, and result 3 the largest length.
func removePadding(c *call) []*value {
	x, lengths := c.x(0), castTo(c.x(1), ir.I32)
	s := x.Shape()
	if x.Rank() != 3 || lengths.Rank() != 1 {
		c.fail("input %s with lengths %s: want [batch, length, size] and [batch]", x, lengths)
	}
	within := c.b.Iota(ir.I32, 1, s[0], s[1]).Lt(lengths.Unsqueeze(1)).Reshape(-1)
	rows, count := x.Reshape(within.Dim(0), s[2]).Compress(0, within)
	// A stable sort: rows within the lengths come first.
	order := within.Not().Cast(ir.I32).Argsort(0).Cast(ir.I32).Reshape(s[0], s[1])
	sums := c.b.Full(ir.I32, 0, 1).Concat(0, lengths.CumSum(0))
	return []*value{partlyValid(rows, 0, count), {tensor: order}, {tensor: sums},
		{tensor: lengths.ReduceMaxKeep(0)}}
}

// restorePadding builds RestorePadding, the inverse of RemovePadding. It puts rows at their positions, and zeros into
// the padding.
func restorePadding(c *call) tensor {
	x, at := c.x(0), c.x(1)
	if x.Rank() != 2 || at.Rank() != 2 {
		c.fail("inputs %s and %s: want [tokens, size] and [batch, length]", x, at)
	}
	s := at.Shape()
	order := at.Reshape(-1)
	all, n := order.Dim(0), x.Dim(0)
	if v := c.in[0].valid; v != nil { // rows after the valid ones are zeros
		x = c.b.Iota(ir.I32, 0, n, 1).Lt(v.count).Where(x, x.Lit(0))
	}
	if n != all {
		order = order.Slice(0, 0, n)
	}
	zeros := c.b.Full(x.DType(), 0, all, x.Dim(1))
	return zeros.ScatterNDDistinct(order.Unsqueeze(1), x).Reshape(s, x.Dim(1))
}

// skipped returns the sum of inputs 0 and 1 (a residual connection) and, if given, input i, a bias.
func (c *call) skipped(i int) tensor {
	x := c.x(0).Add(c.x(1))
	if c.has(i) {
		x = x.Add(c.x(i))
	}
	return x
}

// skipLayerNorm builds SkipLayerNormalization: LayerNorm of a sum. The fourth result is the sum.
func skipLayerNorm(c *call) []*value {
	sum := c.skipped(4)
	gamma := c.x(2)
	beta := c.b.Full(gamma.DType(), 0, gamma.Shape())
	if c.has(3) {
		beta = c.x(3)
	}
	return several(sum.LayerNorm(gamma, beta, c.floatAttr("epsilon", 1e-12)), tensor{}, tensor{}, sum)
}

func skipRMSNorm(c *call) []*value {
	sum := c.skipped(3)
	return several(sum.RMSNorm(c.x(2), c.floatAttr("epsilon", 1e-12)), tensor{}, tensor{}, sum)
}
