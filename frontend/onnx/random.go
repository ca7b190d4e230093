package onnx

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// randomOps are the ops with random results. ONNX does not specify the numbers. Here a node's numbers are the same in
// every run. They depend on its seed or, without one, on its position among the random nodes. In a loop they differ in
// each trip.
var randomOps = table{
	"Dropout":           controlOp(dropout),
	"Bernoulli":         randomOp(bernoulli),
	"Multinomial":       randomOp(multinomial),
	"RandomNormal":      randomOp(func(c *call) tensor { return c.normal(ir.F32, ir.ShapeOf(c.mustInts("shape")...)) }),
	"RandomUniform":     randomOp(func(c *call) tensor { return c.between(ir.F32, ir.ShapeOf(c.mustInts("shape")...)) }),
	"RandomNormalLike":  randomOp(func(c *call) tensor { return c.normal(c.dtypeOf(c.input(0)), c.shapeOf(c.in[0])) }),
	"RandomUniformLike": randomOp(func(c *call) tensor { return c.between(c.dtypeOf(c.input(0)), c.shapeOf(c.in[0])) }),
}

// randomOp returns the row of a random op. It is never computed while the graph is built, because each trip of a loop
// draws new numbers.
func randomOp(f func(c *call) tensor) row {
	return controlOp(func(c *call) []*value { return one(f(c)) })
}

// perOffset is the number of elements that the generator makes per offset.
const perOffset = 4

// randomState returns the generator's seed and offset for a tensor of shape s. Successive calls give different
// numbers.
func (c *call) randomState(s ir.Shape) (seed, offset tensor) {
	c.draws++
	first := int64(c.draws)
	if a := c.anyAttr("seed"); a != nil && a.Type == AttrFloat {
		first = int64(math.Float32bits(a.Float))
	} else if a != nil {
		first = int64(uint32(a.Int))
	}
	seed, offset = c.b.Const(first), c.b.Const(int64(0))
	// The innermost loop changes the offset, and the loops around it the seed.
	for i, trip := range slices.Backward(c.trips) {
		n := trip.Cast(ir.I64)
		if innermost := i == len(c.trips)-1; innermost {
			offset = n.Mul(c.b.Const((s.MaxElems() + perOffset - 1) / perOffset))
			continue
		}
		seed = seed.Add(n.AddScalar(1).Mul(c.b.Const(int64(0x9E3779B1) << (8 * (i % 4)))))
	}
	return seed, offset
}

func (c *call) normal(t ir.DType, s ir.Shape) tensor {
	seed, offset := c.randomState(s)
	y := c.b.RandomNormal(seed, offset, c.dtypeAttr("dtype", t), s)
	return y.Affine(c.floatAttr("scale", 1), c.floatAttr("mean", 0))
}

func (c *call) between(t ir.DType, s ir.Shape) tensor {
	seed, offset := c.randomState(s)
	low, high := c.floatAttr("low", 0), c.floatAttr("high", 1)
	return c.b.RandomUniform(seed, offset, c.dtypeAttr("dtype", t), s).Affine(high-low, low)
}

// bernoulli builds Bernoulli: each element of the input is the probability that the element of the result is 1, and not
// 0.
func bernoulli(c *call) tensor {
	p := c.x(0)
	seed, offset := c.randomState(p.Shape())
	is := c.b.RandomUniform(seed, offset, ir.F32, p.Shape()).Lt(castTo(p, ir.F32))
	return is.Cast(c.dtypeAttr("dtype", p.DType()))
}

// multinomial samples classes of [batch, classes] from their log-probabilities.
func multinomial(c *call) tensor {
	x, n := c.x(0), c.intAttr("sample_size", 1)
	if x.Rank() != 2 || n < 1 {
		c.fail("input %s, %d samples: want [batch, classes] and at least one", x, n)
	}
	s := ir.Shape{x.Dim(0), ir.D(n), x.Dim(1)}
	seed, offset := c.randomState(s)
	x = castTo(x, ir.F32).Unsqueeze(1).Broadcast(s)
	return castTo(x.Categorical(seed, offset), c.dtypeAttr("dtype", ir.I32))
}

func dropout(c *call) []*value { return c.dropoutOf(c.x(0), 1, 2) }

// dropoutOf returns x and a mask of ones. In training it drops elements of x, and the mask is false for these. `ratio`
// and `mode` are the numbers of the inputs with the ratio of dropped elements and the training mode.
func (c *call) dropoutOf(x tensor, ratio, mode int) []*value {
	c.anyAttr("seed") // read here, so that it is allowed without training too
	p, training := 0.5, false
	if c.has(ratio) {
		p = c.number(ratio)
	}
	if c.has(mode) {
		training, _ = truth(c.in[mode])
		c.constant(mode)
	}
	if !training || p == 0 {
		return several(x, c.b.Full(ir.Bool, 1, x.Shape()))
	}
	if !(p > 0 && p < 1) {
		c.fail("ratio %v: want at least 0 and below 1", p)
	}
	seed, offset := c.randomState(x.Shape())
	keep := c.b.RandomBernoulli(1-p, seed, offset, x.Shape())
	return several(keep.Where(x.MulScalar(1/(1-p)), x.Lit(0)), keep)
}
