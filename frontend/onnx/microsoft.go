package onnx

import (
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// microsoftOps are ops of ONNX Runtime. Its optimizer and its exporters use them in models.
var microsoftOps = table{
	"Gelu":                             unary(tensor.GeluErf),
	"FastGelu":                         tensorOp(func(c *call) tensor { return c.biased().Gelu() }),
	"BiasGelu":                         tensorOp(func(c *call) tensor { return c.biased().GeluErf() }),
	"QuickGelu":                        tensorOp(quickGelu),
	"FusedMatMul":                      tensorOp(fusedMatMul),
	"SkipLayerNormalization":           manyOp(skipLayerNorm),
	"SkipSimplifiedLayerNormalization": manyOp(skipRMSNorm),
	"SimplifiedLayerNormalization":     tensorOp(rmsNorm),
	"QLinearAdd":                       tensorOp(qlinear(tensor.Add)),
	"QLinearMul":                       tensorOp(qlinear(tensor.Mul)),
	"QuantizeLinear":                   tensorOp(quantizeLinear),
	"DequantizeLinear":                 controlOp(dequantizeNode),
	"RotaryEmbedding":                  tensorOp(microsoftRotary),
}

// biased returns input 0 plus input 1, if that is given.
func (c *call) biased() tensor {
	if !c.has(1) {
		return c.x(0)
	}
	return c.x(0).Add(c.x(1))
}

// quickGelu is x*sigmoid(alpha*x).
func quickGelu(c *call) tensor {
	alpha := c.floatAttr("alpha", 1.702)
	return wide(c.x(0), func(x tensor) tensor { return x.Mul(x.MulScalar(alpha).Sigmoid()) })
}

// fusedMatMul builds FusedMatMul: a matmul with optional transposes and a factor.
func fusedMatMul(c *call) tensor {
	a, b := c.x(0), c.x(1)
	c.only("transBatchA", 0, "it transposes no batches")
	c.only("transBatchB", 0, "it transposes no batches")
	if c.flag("transA", false) && a.Rank() > 1 {
		a = a.T()
	}
	if c.flag("transB", false) && b.Rank() > 1 {
		b = b.T()
	}
	y := matmul(a, b)
	if alpha := c.floatAttr("alpha", 1); alpha != 1 {
		y = y.MulScalar(alpha)
	}
	return y
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

// qlinear returns the builder of an op on two quantized tensors, each with a scale and a zero point, and with a
// quantized result.
func qlinear(f func(a, b tensor) tensor) func(c *call) tensor {
	return func(c *call) tensor {
		a := centred(c.x(0), c.zeroPoint(2, false)).Mul(c.x(1).Reshape())
		b := centred(c.x(3), c.zeroPoint(5, false)).Mul(c.x(4).Reshape())
		return quantized(f(a, b), c.x(6).Reshape(), c.zeroPoint(7, false), c.dtypeOf(c.in[0]))
	}
}

// microsoftRotary differs from ONNX's op in the order of inputs: positions come before the tables. A single position
// applies to all sequences.
func microsoftRotary(c *call) tensor {
	x, at := c.x(0), c.x(1)
	c.only("is_packed_batching", 0, "sequences of a batch are not joined")
	if scale := c.floatAttr("scale", 1); scale != 1 {
		c.fail("attribute scale is %v, and vkc computes by 1 alone", scale)
	}
	if at.Rank() == 1 && x.Rank() > 2 {
		axis := x.Rank() - 2
		batch, length := x.Shape()[0], x.Shape()[axis]
		at = c.b.Iota(ir.I64, 1, ir.Shape{batch, length}).Add(castTo(at, ir.I64))
	}
	return c.rotated(x, c.x(2), c.x(3), at)
}

func rotaryEmbedding(c *call) tensor {
	at := tensor{}
	if c.has(3) {
		at = c.x(3)
	}
	return c.rotated(c.x(0), c.x(1), c.x(2), at)
}

// rotated applies rotary embeddings to x, [batch, heads, length, size] or [batch, length, heads*size], with tables of
// cosines and sines. The tables are [positions, pairs], with rows selected by the positions at. If at is the zero
// Tensor, they are [batch, length, pairs].
func (c *call) rotated(x, cos, sin, at tensor) tensor {
	if !at.IsZero() {
		if cos.Rank() != 2 {
			c.fail("the tables are %s: want [positions, pairs]", cos)
		}
		flat := at.Reshape(-1)
		to := append(append(ir.Shape{}, at.Shape()...), cos.Shape()[1])
		cos, sin = cos.IndexSelect(0, flat).Reshape(to), sin.IndexSelect(0, flat).Reshape(to)
	}
	heads := c.intAttr("num_heads", 0)
	if turn := c.intAttr("rotary_embedding_dim", 0); turn > 0 && !cos.Dim(-1).Is(turn/2) {
		c.fail("rotary_embedding_dim is %d for tables %s: want one of their rows for each pair", turn, cos)
	}
	var options []frontend.RopeOption
	if !c.flag("interleaved", false) {
		options = append(options, frontend.RopeHalf())
	}
	if x.Rank() == 4 {
		if heads != 0 && !x.Dim(1).Is(heads) {
			c.fail("num_heads is %d, and x is %s, [batch, heads, length, size]", heads, x)
		}
		return x.RopeTables(cos.Unsqueeze(1), sin.Unsqueeze(1), options...)
	}
	s := x.Shape()
	if x.Rank() != 3 || heads < 1 || !s[2].IsStatic() || s[2].Static()%heads != 0 {
		c.fail("x is %s with num_heads %d: want [batch, heads, length, size] or [batch, length, heads*size]", x, heads)
	}
	y := x.Reshape(s[0], s[1], heads, s[2].Static()/heads)
	return y.RopeTables(cos.Unsqueeze(2), sin.Unsqueeze(2), options...).Reshape(s)
}
