package frontend

import (
	"errors"

	"github.com/vkc-go/vkc/ir"
)

// Softmax returns exp(x-max)/sum(exp(x-max)) along an axis.
func (t Tensor) Softmax(axis int) Tensor { return t.unary(ir.OpSoftmax, attr("axis", axis)) }

// LogSoftmax returns x-max-log(sum(exp(x-max))) along an axis.
func (t Tensor) LogSoftmax(axis int) Tensor { return t.unary(ir.OpLogSoftmax, attr("axis", axis)) }

// RMSNorm returns x*rsqrt(mean(x^2)+eps)*weight along the innermost axis (Zhang
// and Sennrich 2019). The weight is a vector, or the zero Tensor for none.
func (t Tensor) RMSNorm(weight Tensor, eps float64) Tensor {
	return t.apply(ir.OpRMSNorm, present(weight), attr("eps", eps))
}

// LayerNorm returns (x-mean)*rsqrt(var+eps)*weight+bias along the innermost axis
// (Ba et al. 2016), with the biased variance. Weight and bias are vectors; bias,
// or both, may be the zero Tensor for none.
func (t Tensor) LayerNorm(weight, bias Tensor, eps float64) Tensor {
	if weight.IsZero() && !bias.IsZero() {
		fail("layer_norm", errors.New("a bias needs a weight beside it"), t, bias)
	}
	return t.apply(ir.OpLayerNorm, present(weight, bias), attr("eps", eps))
}

// GroupNorm normalizes t [N, C, …] over each of that many groups of consecutive
// channels, with all axes after them (Wu and He 2018). Weight and bias are [C];
// bias, or both, may be the zero Tensor for none.
func (t Tensor) GroupNorm(groups int, weight, bias Tensor, eps float64) Tensor {
	if weight.IsZero() && !bias.IsZero() {
		fail("group_norm", errors.New("a bias needs a weight beside it"), t, bias)
	}
	return t.apply(ir.OpGroupNorm, present(weight, bias), attr("groups", groups), attr("eps", eps))
}

// BatchNorm returns (x-mean)*rsqrt(variance+eps)*weight+bias of t [N, C, …] with
// stored statistics, as inference does (Ioffe and Szegedy 2015). All four are
// [C]; bias, or weight and bias, may be the zero Tensor for none.
func (t Tensor) BatchNorm(mean, variance, weight, bias Tensor, eps float64) Tensor {
	if weight.IsZero() && !bias.IsZero() {
		fail("batch_norm", errors.New("a bias needs a weight beside it"), t, bias)
	}
	return t.apply(ir.OpBatchNorm, append([]Tensor{mean, variance}, present(weight, bias)...), attr("eps", eps))
}

// L2Normalize returns x/max(norm2(x), eps) along an axis.
func (t Tensor) L2Normalize(axis int, eps float64) Tensor {
	return t.unary(ir.OpL2Normalize, attr("eps", eps), attr("axis", axis))
}

// present returns the operands up to the first that is left out.
func present(args ...Tensor) []Tensor {
	for i, a := range args {
		if a.IsZero() {
			return args[:i]
		}
	}
	return args
}

// RopeOption changes what Rope does.
type RopeOption func(*ropeCall)

type ropeCall struct {
	operands []Tensor // beside x
	attrs    []ir.Attr
}

func ropeAttr(name string, value any) RopeOption {
	return func(c *ropeCall) { c.attrs = append(c.attrs, attr(name, value)) }
}

// RopeAxis sets the axis that the positions run along; -2 unless set.
func RopeAxis(axis int) RopeOption { return ropeAttr("axis", axis) }

// RopeBase sets the base of the angles' geometric progression; 10000 unless set.
func RopeBase(base float64) RopeOption { return ropeAttr("base", base) }

// RopeDims sets how many of the innermost elements turn; all unless set.
func RopeDims(n int) RopeOption { return ropeAttr("dims", n) }

// RopeHalf pairs element i with i+dims/2, as GPT-NeoX does. Unless set, pairs are
// neighbours, as in GGUF files of the llama architecture.
func RopeHalf() RopeOption { return ropeAttr("mode", "half") }

// RopeTurns gives every pair its own angle, made by Builder.RopeTurns, in place
// of base^(-2i/dims): the scaled frequencies of Llama 3, say.
func RopeTurns(turns Tensor) RopeOption {
	return func(c *ropeCall) { c.operands = append(c.operands[:1], turns) }
}

// Rope turns pairs of innermost elements by an angle that grows with the
// position (rotary position embedding, Su et al. 2021): pair i by
// position*base^(-2i/dims). The positions are a vector of integers along axis -2
// (see RopeAxis), or have the outermost axes of t before it: [B, T] for t of
// [B, H, T, D], where every sequence of a batch has its own.
func (t Tensor) Rope(positions Tensor, options ...RopeOption) Tensor {
	c := ropeCall{operands: []Tensor{positions}}
	for _, o := range options {
		o(&c)
	}
	return t.apply(ir.OpRope, c.operands, c.attrs...)
}

// RopeTables turns pairs of innermost elements by the angles whose cosines and sines
// are given: (a, b) becomes (a*cos-b*sin, a*sin+b*cos). Tables have one value a
// pair in their innermost axis, and broadcast to t before it: [T, pairs] for t of
// [B, H, T, D]. The first 2*pairs elements turn, the others stay. Of the options
// only RopeHalf holds here, others are an error.
func (t Tensor) RopeTables(cos, sin Tensor, options ...RopeOption) Tensor {
	c := ropeCall{operands: []Tensor{cos, sin}}
	for _, o := range options {
		o(&c)
	}
	return t.apply(ir.OpRopeTables, c.operands, c.attrs...)
}

// RopeTurns is the constant that option RopeTurns takes: pair i turns by
// radians[i] per position.
func (b *Builder) RopeTurns(radians []float64) Tensor {
	d, err := ir.RopeTurns(radians)
	if err != nil {
		fail("rope", err)
	}
	return b.Const(d)
}
