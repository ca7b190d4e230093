package frontend

import (
	"errors"

	"github.com/vkc-go/vkc/ir"
)

// Softmax returns exp(x-max)/sum(exp(x-max)) along an axis.
func (t Tensor) Softmax(axis int) Tensor { return t.unary(ir.OpSoftmax, attr("axis", axis)) }

// LogSoftmax returns x-max-log(sum(exp(x-max))) along an axis.
func (t Tensor) LogSoftmax(axis int) Tensor { return t.unary(ir.OpLogSoftmax, attr("axis", axis)) }

// RMSNorm returns x*rsqrt(mean(x^2)+eps)*weight along the innermost axis (Zhang and Sennrich 2019). The weight is a
// vector, or the zero Tensor for none.
func (t Tensor) RMSNorm(weight Tensor, eps float64) Tensor {
	return t.apply(ir.OpRMSNorm, present(weight), attr("eps", eps))
}

// LayerNorm returns (x-mean)*rsqrt(var+eps)*weight+bias along the innermost axis (Ba et al. 2016), with the biased
// variance. Weight and bias are vectors. The bias, or both, may be the zero Tensor.
func (t Tensor) LayerNorm(weight, bias Tensor, eps float64) Tensor {
	if weight.IsZero() && !bias.IsZero() {
		fail("layer_norm", errors.New("a bias needs a weight too"), t, bias)
	}
	return t.apply(ir.OpLayerNorm, present(weight, bias), attr("eps", eps))
}

// GroupNorm splits the channels of t [N, C, …] into groups of consecutive channels, and normalizes each group over its
// channels and all axes after them (Wu and He 2018). Weight and bias are [C]. The bias, or both, may be the zero
// Tensor.
func (t Tensor) GroupNorm(groups int, weight, bias Tensor, eps float64) Tensor {
	if weight.IsZero() && !bias.IsZero() {
		fail("group_norm", errors.New("a bias needs a weight too"), t, bias)
	}
	return t.apply(ir.OpGroupNorm, present(weight, bias), attr("groups", groups), attr("eps", eps))
}

// BatchNorm returns (x-mean)*rsqrt(variance+eps)*weight+bias of t [N, C, …] with stored statistics, as in inference
// (Ioffe and Szegedy 2015). mean, variance, weight and bias are [C]. The bias, or weight and bias, may be the zero
// Tensor.
func (t Tensor) BatchNorm(mean, variance, weight, bias Tensor, eps float64) Tensor {
	if weight.IsZero() && !bias.IsZero() {
		fail("batch_norm", errors.New("a bias needs a weight too"), t, bias)
	}
	return t.apply(ir.OpBatchNorm, append([]Tensor{mean, variance}, present(weight, bias)...), attr("eps", eps))
}

// L2Normalize returns x/max(norm2(x), eps) along an axis.
func (t Tensor) L2Normalize(axis int, eps float64) Tensor {
	return t.unary(ir.OpL2Normalize, attr("eps", eps), attr("axis", axis))
}

// present returns the operands before the first zero Tensor.
func present(args ...Tensor) []Tensor {
	for i, a := range args {
		if a.IsZero() {
			return args[:i]
		}
	}
	return args
}
