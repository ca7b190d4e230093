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

// RandomUniform returns a tensor of floats that are uniform in [0, 1).
func (b *Builder) RandomUniform(seed, offset Tensor, t ir.DType, dims ...Dim) Tensor {
	return b.add(ir.OpRandomUniform, []Tensor{seed, offset}, attr("dtype", t),
		attr("shape", mustShape(ir.OpRandomUniform, dims)))
}

// RandomNormal returns a tensor of floats that are normal with mean 0 and variance 1.
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

// RandomGumbel returns a tensor of f32 with the standard Gumbel distribution, -log(-log(u)) for uniform u. It computes
// with 1-u, because small values of that need the precision.
func (b *Builder) RandomGumbel(seed, offset Tensor, dims ...Dim) Tensor {
	v := b.RandomUniform(seed, offset, ir.F32, dims...)
	v = v.AddScalar(0x1p-25).Min(v.Lit(1 - 0x1p-24)) // neither 0 nor 1, whose logarithms are infinite
	return v.Neg().Log1p().Neg().Log().Neg()
}

// Categorical draws an index of the innermost axis for each row of t, i32. The elements of a row are the logarithms of
// the probabilities, up to a common constant: -inf is never drawn unless the whole row is -inf. For several draws per
// row, broadcast t first. It takes the largest sum of an element and Gumbel noise (Gumbel 1954).
func (t Tensor) Categorical(seed, offset Tensor) Tensor {
	t.must("categorical")
	t = t.wide()
	return t.Add(t.b.RandomGumbel(seed, offset, t.Shape()).Cast(t.DType())).Argmax(-1)
}

// RandomPermutation returns the numbers 0 to n-1 in random order, i32[n]. It uses 2*ceil(n/4) offsets. It sorts by two
// random numbers of 24 bits, so that equal ones, which would keep their order, are rare.
func (b *Builder) RandomPermutation(seed, offset Tensor, n Dim) Tensor {
	size := mustShape(ir.OpRandomUniform, []Dim{n})
	next := offset.AddScalar(float64((size.MaxElems() + 3) / 4))
	order := b.RandomUniform(seed, offset, ir.F32, n).Argsort(0)
	return order.Gather(0, b.RandomUniform(seed, next, ir.F32, n).Gather(0, order).Argsort(0))
}

// Shuffle returns t with its slices along an axis in the order of RandomPermutation.
func (t Tensor) Shuffle(axis int, seed, offset Tensor) Tensor {
	t.must("shuffle")
	return t.IndexSelect(axis, t.b.RandomPermutation(seed, offset, t.Dim(axis)))
}
