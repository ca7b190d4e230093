package frontend

import (
	"fmt"

	"github.com/vkc-go/vkc/ir"
)

// Random tensors come from the counter-based generator Philox-4x32-10. They depend only on seed and offset, so they are
// the same on every device. Both are scalars of u32 or i64. A tensor of n elements uses ceil(n/4) offsets from the
// given one on. For the next tensor, increase the offset by at least that many, or use another seed. Seed and offset
// may also be tensors with the first axes of the result: each of their elements then starts a separate stream for the
// remaining axes.

// RandomUniform is a tensor of floats that are uniform in [0, 1).
func (b *Builder) RandomUniform(seed, offset Tensor, t ir.DType, dims ...Dim) Tensor {
	return b.add(ir.OpRandomUniform, []Tensor{seed, offset}, attr("dtype", t),
		attr("shape", mustShape(ir.OpRandomUniform, dims)))
}

// RandomNormal is a tensor of floats that are normal with mean 0 and variance 1.
func (b *Builder) RandomNormal(seed, offset Tensor, t ir.DType, dims ...Dim) Tensor {
	return b.add(ir.OpRandomNormal, []Tensor{seed, offset}, attr("dtype", t),
		attr("shape", mustShape(ir.OpRandomNormal, dims)))
}

// RandomBernoulli returns a tensor of bools that are true with probability p. For a different probability per element,
// compare RandomUniform with a tensor.
func (b *Builder) RandomBernoulli(p float64, seed, offset Tensor, dims ...Dim) Tensor {
	return b.add(ir.OpRandomBernoulli, []Tensor{seed, offset}, attr("p", p),
		attr("shape", mustShape(ir.OpRandomBernoulli, dims)))
}

// Dropout zeroes each element with probability p, below 1, and divides the others by 1-p, so that the mean stays
// (Srivastava et al. 2014).
func (t Tensor) Dropout(p float64, seed, offset Tensor) Tensor {
	t.must("dropout")
	if !(p >= 0 && p < 1) {
		fail("dropout", fmt.Errorf("probability %v is outside 0..1, or 1 itself", p), t)
	}
	keep := t.b.RandomBernoulli(1-p, seed, offset, t.Shape())
	return keep.Where(t.MulScalar(1/(1-p)), t.Lit(0))
}
