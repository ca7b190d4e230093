package onnx

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

var rowOps = table{
	"Softmax":    tensorOp(rows(tensor.Softmax)),
	"LogSoftmax": tensorOp(rows(tensor.LogSoftmax)),
	"Hardmax":    tensorOp(rows(hardmax)),

	"BatchNormalization":    manyOp(batchNorm),
	"InstanceNormalization": tensorOp(instanceNorm),
	"GroupNormalization":    tensorOp(groupNorm),
	"LayerNormalization":    manyOp(layerNorm),
	"RMSNormalization":      tensorOp(rmsNorm),
	// ONNX Runtime has this op in ONNX's domain, too, and language models use it there.
	"SimplifiedLayerNormalization": tensorOp(rmsNorm),
	"LpNormalization":              tensorOp(lpNorm),
	"MeanVarianceNormalization":    tensorOp(meanVariance),
	"LRN":                          tensorOp(lrn),
}

// rows returns the builder of an op that applies f along attribute axis.
func rows(f func(x tensor, axis int) tensor) func(c *call) tensor {
	return func(c *call) tensor {
		x := c.x(0)
		return f(x, c.axis(c.intAttr("axis", -1), x.Rank()))
	}
}

func hardmax(x tensor, axis int) tensor {
	return x.ArgmaxKeep(axis).Eq(x.Builder().Iota(ir.I32, axis, x.Shape())).Cast(x.DType())
}

// spread appends axes of extent 1 to a vector, so that it broadcasts along an axis of tensors with the given rank.
func spread(v tensor, axis, rank int) tensor {
	for range rank - 1 - axis {
		v = v.Unsqueeze(v.Rank())
	}
	return v
}

// channels reshapes a vector with an element per channel, so that it broadcasts to tensors [N, C, …] of the given rank.
func channels(v tensor, rank int) tensor { return spread(v, 1, rank) }

// batchNorm builds BatchNormalization. After a convolution with a result that nothing else reads, it changes the
// weights of the convolution instead.
func batchNorm(c *call) []*value {
	x, scale, bias, mean, variance := c.x(0), c.x(1), c.x(2), c.x(3), c.x(4)
	eps, momentum := c.floatAttr("epsilon", 1e-5), c.floatAttr("momentum", 0.9)
	if c.flag("training_mode", false) {
		return trainedNorm(x, scale, bias, mean, variance, eps, momentum)
	}
	// The op is a factor and an offset per channel. Both depend only on weights, so they are computed once.
	t := x.DType()
	factor := castTo(scale, ir.F32).Mul(castTo(variance, ir.F32).AddScalar(eps).Rsqrt())
	offset := castTo(bias, ir.F32).Sub(castTo(mean, ir.F32).Mul(factor))
	if conv := c.in[0].conv; conv != nil && c.uses(c.in[0].name) == 1 && t == ir.F32 {
		return one(conv.scaled(factor, offset))
	}
	rank := max(x.Rank(), 2)
	y := castTo(x, ir.F32).Mul(channels(factor, rank)).Add(channels(offset, rank))
	return one(castTo(y, t))
}

// uses returns the number of nodes of the graph that read a name.
func (c *call) uses(name string) int { return c.scope.uses[name] }

// trainedNorm builds batch normalization in training, with the statistics of the batch itself. mean and variance are
// the running statistics. Results 1 and 2 are the next running statistics, in which the old ones have the weight
// momentum.
func trainedNorm(x, scale, bias, mean, variance tensor, eps, momentum float64) []*value {
	rank := x.Rank()
	axes := append([]int{0}, axesFrom(2, rank)...) // all except the channels
	batchMean, batchVariance := x.Mean(axes...), x.Variance(0, axes...)
	factor := batchVariance.AddScalar(eps).Rsqrt().Mul(scale)
	y := x.Deviations(axes...).Mul(channels(factor, rank)).Add(channels(bias, rank))
	next := func(old, now tensor) tensor { return old.MulScalar(momentum).Add(now.MulScalar(1 - momentum)) }
	return several(y, next(mean, batchMean), next(variance, batchVariance), batchMean, batchVariance)
}

// normalized returns (x-mean)/sqrt(variance+eps), with mean and variance over axes.
func (c *call) normalized(x tensor, eps float64, axes ...int) tensor {
	return c.deviations(x, axes...).Mul(c.variance(x, axes...).AddScalar(eps).Rsqrt())
}

// instanceNorm builds InstanceNormalization: it normalizes each channel of each element of the batch.
func instanceNorm(c *call) tensor {
	x, scale, bias := c.x(0), c.x(1), c.x(2)
	eps := c.floatAttr("epsilon", 1e-5)
	if n := x.Dim(1); n.IsStatic() && n.Static() > 0 && c.mask == nil {
		return x.GroupNorm(n.Static(), scale, bias, eps)
	}
	y := c.normalized(x, eps, axesFrom(2, x.Rank())...)
	return y.Mul(channels(scale, x.Rank())).Add(channels(bias, x.Rank()))
}

// inF32 is the reason why normalizations support only one value of stash_type.
const inF32 = "means and deviations are computed in float"

// groupNorm builds GroupNormalization of opset 21. If the input is valid in part (c.mask), only valid elements count.
func groupNorm(c *call) tensor {
	x, scale, bias := c.x(0), c.x(1), c.x(2)
	groups := c.mustInt("num_groups")
	c.only("stash_type", float32Type, inF32)
	eps := c.floatAttr("epsilon", 1e-5)
	if c.mask == nil {
		return x.GroupNorm(groups, scale, bias, eps)
	}
	// Split [N, C, …] to [N, groups, C/groups, …], which moves the axis of the mask by one.
	s := x.Shape()
	if groups < 1 || !s[1].IsStatic() || s[1].Static()%groups != 0 {
		c.fail("num_groups is %d, and the input %s", groups, x)
	}
	split := slices.Concat(s[:1], ir.ShapeOf(groups, s[1].Static()/groups), s[2:])
	c.mask = &mask{c.mask.axis + 1, c.mask.count, c.mask.valid.Unsqueeze(1)}
	y := c.normalized(x.Reshape(split), eps, axesFrom(2, len(split))...).Reshape(s)
	return y.Mul(channels(scale, len(s))).Add(channels(bias, len(s)))
}

// layerNorm builds LayerNormalization, which normalizes over all axes from attribute axis on. Results 1 and 2 are the
// mean and the inverse of the standard deviation.
func layerNorm(c *call) []*value {
	x, scale := c.x(0), c.x(1)
	c.only("stash_type", float32Type, inF32)
	axis := c.axis(c.intAttr("axis", -1), x.Rank())
	eps, t := c.floatAttr("epsilon", 1e-5), x.DType()
	// Vkc's op normalizes one axis and returns one result.
	bias := c.optional(2)
	if bias.IsZero() {
		bias = c.b.Full(t, 0, scale.Shape())
	}
	normed := x.Shape()[axis:]
	lastAxis := axis == x.Rank()-1 && scale.Shape().Equal(normed) && bias.Shape().Equal(normed)
	if oneResult := !c.wants(1) && !c.wants(2); lastAxis && oneResult && c.mask == nil {
		return one(x.LayerNorm(scale, bias, eps))
	}
	axes := axesFrom(axis, x.Rank())
	w := castTo(x, ir.F32)
	mean, inverse := c.mean(w, axes...), c.variance(w, axes...).AddScalar(eps).Rsqrt()
	y := castTo(c.deviations(w, axes...).Mul(inverse), t).Mul(scale)
	if c.has(2) {
		y = y.Add(bias)
	}
	return several(y, mean, inverse)
}

// rmsNorm builds RMSNormalization, which normalizes over all axes from attribute axis on.
func rmsNorm(c *call) tensor {
	x, scale := c.x(0), c.x(1)
	c.only("stash_type", float32Type, inF32)
	axis := c.axis(c.intAttr("axis", -1), x.Rank())
	eps, t := c.floatAttr("epsilon", 1e-5), x.DType()
	if axis == x.Rank()-1 && scale.Shape().Equal(x.Shape()[axis:]) && c.mask == nil {
		return x.RMSNorm(scale, eps)
	}
	w := castTo(x, ir.F32)
	return castTo(w.Mul(c.mean(w.Sqr(), axesFrom(axis, x.Rank())...).AddScalar(eps).Rsqrt()), t).Mul(scale)
}

// lpNorm builds LpNormalization: it divides by the 1-norm or 2-norm along an axis. With a norm of 0 the result is 0.
func lpNorm(c *call) tensor {
	x := c.x(0)
	axis := c.axis(c.intAttr("axis", -1), x.Rank())
	norm := tensor{}
	switch p := c.intAttr("p", 2); p {
	case 1:
		norm = x.Norm1Keep(axis)
	case 2:
		norm = x.Norm2Keep(axis)
	default:
		c.fail("attribute p is %d: want 1 or 2", p)
	}
	return norm.Eq(norm.Lit(0)).Where(norm.Lit(0), x.Div(norm))
}

// meanVariance builds MeanVarianceNormalization: (x-mean)/deviation over axes.
func meanVariance(c *call) tensor {
	x := c.x(0)
	axes := c.intsAttr("axes")
	if !c.hasAttr("axes") {
		axes = []int{0, 2, 3}
	}
	axes = c.resolved(axes, x.Rank())
	return c.deviations(x, axes...).Div(c.variance(x, axes...).Sqrt().AddScalar(1e-9))
}

// lrn (local response normalization) divides each element by a power of the sum of squares of neighbouring channels.
func lrn(c *call) tensor {
	x, n := c.x(0), c.mustInt("size")
	if x.Rank() < 2 || n < 1 {
		c.fail("size %d of %s", n, x)
	}
	low, high := make([]int, x.Rank()), make([]int, x.Rank())
	low[1], high[1] = (n-1)/2, n/2 // the channels before and after
	squares := x.Sqr().Pad(low, high, 0)
	sum := tensor{}
	for i := range n {
		part := squares.Slice(1, i, x.Shape()[1].Plus(int64(i)))
		if i == 0 {
			sum = part
			continue
		}
		sum = sum.Add(part)
	}
	alpha, beta, bias := c.floatAttr("alpha", 1e-4), c.floatAttr("beta", 0.75), c.floatAttr("bias", 1)
	return x.Div(sum.MulScalar(alpha / float64(n)).AddScalar(bias).Powf(beta))
}
