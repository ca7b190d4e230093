package interp

import (
	"math"

	"github.com/vkc-go/vkc/ir"
)

// eachRandomWord calls f with the index of each result element and the element's random word.
func (c *call) eachRandomWord(f func(i int, word uint32)) error {
	return c.eachRandomBlock(func(first, count int, words [4]uint32) {
		for lane, word := range words[:count] {
			f(first+lane, word)
		}
	})
}

// eachRandomBlock calls f with each block of four random words, the first element that uses the block, and the number
// of elements that use it: four, or fewer at the end of a stream. Each seed of argument 0 starts a stream.
func (c *call) eachRandomBlock(f func(first, count int, words [4]uint32)) error {
	seeds, offsets := c.args[0].i64, c.args[1].i64
	if len(seeds) == 0 {
		return nil
	}
	length := elems(c.dims) / len(seeds) // elements of a stream
	perStream := (length + 3) / 4        // blocks of a stream
	return c.parallelRange(len(seeds)*perStream, 4*elementWork, func(lo, hi int) {
		for b := lo; b < hi; b++ {
			stream, block := b/perStream, b%perStream
			f(stream*length+4*block, min(length-4*block, 4),
				ir.RandomBlock(uint64(seeds[stream]), uint64(offsets[stream]), uint64(block)))
		}
	})
}

// uniform24 converts a word to a uniform f32 number in [0, 1), from its top 24 bits.
func uniform24(word uint32) float64 { return float64(word>>8) * 0x1p-24 }

// randomUniform computes op random_uniform: numbers in [0, 1) from the top bits of each element's word.
func randomUniform(c *call) (value, error) {
	uniform := uniform24
	switch c.node.DType() { // as many bits as the significand has, so that no number rounds up to 1
	case ir.F16:
		uniform = func(word uint32) float64 { return float64(word>>21) * 0x1p-11 }
	case ir.BF16:
		uniform = func(word uint32) float64 { return float64(word>>24) * 0x1p-8 }
	}
	out := make([]float64, elems(c.dims))
	err := c.eachRandomWord(func(i int, word uint32) { out[i] = uniform(word) })
	return c.floats(out), err
}

// randomNormal computes op random_normal. Each pair of words gives a pair of independent normal numbers: the radius r
// and the angle of a point, and so its two coordinates (Box and Muller, "A note on the generation of random normal
// deviates", 1958).
func randomNormal(c *call) (value, error) {
	out := make([]float64, elems(c.dims))
	err := c.eachRandomBlock(func(first, count int, words [4]uint32) {
		for lane := range count {
			u, v := uniform24(words[lane&^1]), uniform24(words[lane|1]) // of lanes 0 and 1, or 2 and 3
			r := math.Sqrt(-2 * math.Log1p(-u))
			sin, cos := math.Sincos(2 * math.Pi * v)
			out[first+lane] = r * cos
			if lane%2 == 1 {
				out[first+lane] = r * sin
			}
		}
	})
	return c.floats(out), err
}

// randomBernoulli computes op random_bernoulli: whether an element's uniform number is below p.
func randomBernoulli(c *call) (value, error) {
	p := c.attrs().Float("p")
	out := make([]int64, elems(c.dims))
	err := c.eachRandomWord(func(i int, word uint32) {
		if uniform24(word) < p {
			out[i] = 1
		}
	})
	return c.ints(out), err
}
