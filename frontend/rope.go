package frontend

import (
	"cmp"
	"fmt"
	"math"

	"github.com/vkc-go/vkc/ir"
)

// RopeOption sets an option of Rope.
type RopeOption func(*ropeOptions)

// ropeOptions collects the operands and attributes that options set.
type ropeOptions struct {
	operands []Tensor // in addition to x
	attrs    []ir.Attr
}

func ropeAttr(name string, value any) RopeOption {
	return func(c *ropeOptions) { c.attrs = append(c.attrs, attr(name, value)) }
}

// RopeAxis sets the axis of the positions; the default is -2.
func RopeAxis(axis int) RopeOption { return ropeAttr("axis", axis) }

// RopeBase sets the base of the angles' geometric progression; 10000 unless set.
func RopeBase(base float64) RopeOption { return ropeAttr("base", base) }

// RopeDims sets the number of innermost elements to rotate; all by default.
func RopeDims(n int) RopeOption { return ropeAttr("dims", n) }

// RopeHalf pairs element i with i+dims/2, as GPT-NeoX does. By default pairs are adjacent, as in GGUF files of the
// llama architecture.
func RopeHalf() RopeOption { return ropeAttr("mode", "half") }

// RopeTurns sets the angle of every pair per position, in place of base^(-2i/dims). Builder.RopeTurns makes the tensor.
// It is needed for scaled frequencies, as in Llama 3.
func RopeTurns(turns Tensor) RopeOption {
	return func(c *ropeOptions) { c.operands = append(c.operands[:1], turns) }
}

// Rope is rotary position embedding (Su et al. 2021): it rotates pair i of innermost elements by the angle
// position*base^(-2i/dims). The positions are a vector of integers along axis -2 (see RopeAxis). They may also have
// outer axes of t: [B, T] for t of [B, H, T, D], with separate positions per sequence of a batch.
func (t Tensor) Rope(positions Tensor, options ...RopeOption) Tensor {
	c := ropeOptions{operands: []Tensor{positions}}
	for _, o := range options {
		o(&c)
	}
	return t.apply(ir.OpRope, c.operands, c.attrs...)
}

// RopeTables rotates pairs of innermost elements by angles with given cosines and sines: (a, b) becomes (a*cos-b*sin,
// a*sin+b*cos). Both tables have one value per pair in their innermost axis. Their outer axes broadcast to t's:
// [T, pairs] for t of [B, H, T, D]. The first 2*pairs elements are rotated, the others stay. RopeHalf is the only
// allowed option.
func (t Tensor) RopeTables(cos, sin Tensor, options ...RopeOption) Tensor {
	c := ropeOptions{operands: []Tensor{cos, sin}}
	for _, o := range options {
		o(&c)
	}
	return t.apply(ir.OpRopeTables, c.operands, c.attrs...)
}

// RopeTurns returns the tensor for option RopeTurns: pair i rotates by radians[i] per position.
func (b *Builder) RopeTurns(radians []float64) Tensor {
	d, err := ir.RopeTurns(radians)
	if err != nil {
		fail("rope", err)
	}
	return b.Const(d)
}

// RopeScaled returns the tensor for option RopeTurns with dims elements: pair i rotates by base^(-2i/dims)/factors[i]
// radians per position. factors has a positive number for each of the dims/2 pairs; RopeLinear, RopeNTK and YaRN
// compute it to extend a model to sequences longer than it was trained on.
func (b *Builder) RopeScaled(dims int, base float64, factors []float64) Tensor {
	if dims < 0 || dims%2 != 0 || len(factors) != dims/2 {
		b.Fail("rope", fmt.Errorf("%d factors for %d elements: want one factor per pair", len(factors), dims))
	}
	if !(base > 0) || math.IsInf(base, 1) {
		b.Fail("rope", fmt.Errorf("the base of the angles is %v: want a positive number", base))
	}
	radians := make([]float64, len(factors))
	for i, f := range factors {
		if !(f > 0) || math.IsInf(f, 1) {
			b.Fail("rope", fmt.Errorf("factor %d of the rotary angles is %v: want a positive number", i, f))
		}
		radians[i] = math.Pow(base, -2*float64(i)/float64(dims)) / f
	}
	return b.RopeTurns(radians)
}

// RopeLinear returns factors for RopeScaled by position interpolation (Chen et al. 2023, arXiv:2306.15595): all dims/2
// pairs rotate more slowly by factor, as if positions were divided by it.
func RopeLinear(dims int, factor float64) []float64 {
	return ropeFactors(dims, func(int) float64 { return factor })
}

// RopeNTK returns factors for RopeScaled by NTK-aware interpolation (Peng et al. 2023, arXiv:2309.00071, section 3.1).
// The fastest pair is unchanged. The slowest pair rotates more slowly by factor. Each pair between rotates more slowly
// by a power of factor, with an exponent from 0 to 1. The result equals a base of base*factor^(dims/(dims-2)).
func RopeNTK(dims int, factor float64) []float64 {
	return ropeFactors(dims, func(i int) float64 { return math.Pow(factor, 2*float64(i)/max(float64(dims-2), 1)) })
}

// YaRN extends rotary positions to sequences longer than those a model was trained on (Peng et al. 2023,
// arXiv:2309.00071, section 3.2). Pairs that rotate many times within a training sequence stay unchanged, and pairs
// that rotate less than once slow down. Pairs between are interpolated by index, as in the authors' code.
type YaRN struct {
	Times   float64 // factor by which sequences may be longer
	Trained int     // positions of the longest training sequence
	Fast    float64 // pairs with at least this many rotations per training sequence are unchanged; 0 means 32
	Slow    float64 // pairs with at most this many rotations per training sequence slow down; 0 means 1
	Exact   bool    // use both bounds as computed; otherwise they are widened to whole pairs
}

// Factors returns the factors for RopeScaled with the same dims and base.
func (y YaRN) Factors(dims int, base float64) []float64 {
	pair := func(turns float64) float64 { // the pair with that many rotations per training sequence
		return float64(dims/2) * math.Log(float64(y.Trained)/(turns*2*math.Pi)) / math.Log(base)
	}
	low, high := pair(cmp.Or(y.Fast, 32)), pair(cmp.Or(y.Slow, 1))
	if !y.Exact {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, float64(dims-1))
	return ropeFactors(dims, func(i int) float64 {
		slowed := min(max((float64(i)-low)/max(high-low, 0.001), 0), 1)
		return 1 / (slowed/y.Times + 1 - slowed)
	})
}

// Magnitude returns the factor by which YaRN multiplies rotated queries and keys: 0.1*ln(Times)+1. The scores are
// scaled by its square.
func (y YaRN) Magnitude() float64 { return 1 + float64(0.1*math.Log(y.Times)) }

// ropeFactors returns of(i) for each of the dims/2 pairs i.
func ropeFactors(dims int, of func(pair int) float64) []float64 {
	list := make([]float64, max(dims, 0)/2)
	for i := range list {
		list[i] = of(i)
	}
	return list
}
