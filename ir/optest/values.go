package optest

import (
	"math"
	"math/rand/v2"

	"github.com/vkc-go/vkc/ir"
)

// values selects how the elements of an argument are chosen.
type values uint8

const (
	small   values = iota // ±1.5 and often a whole number; integers from -4 to 11
	wide                  // small ones, and magnitudes from 1e-4 to 30; integers of any size
	nearOne               // 0.9 to 1.1, so that products stay in range
	sparse                // small ones with a few infinities and NaNs
	extreme               // the extremes of the dtype, each in turn
	full                  // any integer, most near the limits and 0
	index                 // integers around the valid indices, some out of range
	special               // small ones, and each value of specials once
	summed                // special for ops that sum or square, see specials
	digits                // numbers that lose digits in narrower dtypes
)

// smallestNormal returns the smallest normal number of a float dtype.
func smallestNormal(t ir.DType) float64 { return math.Ldexp(1, t.Float().Least) }

// extremes returns the values of an extreme argument.
func extremes(t ir.DType) []float64 {
	if !t.IsFloat() {
		return nil
	}
	tiny, huge := smallestNormal(t), t.Float().Largest
	list := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, -0.5, 1.5, -2.5, 2, -3, 7, 30, -30,
		tiny, -tiny, tiny / 4, -tiny / 4, huge, -huge, math.NaN()}
	if t.Float().Infinite {
		list = append(list, math.Inf(1), math.Inf(-1))
	}
	return list
}

// specials returns the values for which every float op must match the reference: NaN, the infinities if there are any,
// -0, and the largest finite values. If v is summed, for ops that sum or square, the two finite values do not cancel,
// and in dtypes with f32's range they are small enough that intermediate results stay in range.
func specials(t ir.DType, v values) []float64 {
	top, bottom := t.Float().Largest, -t.Float().Largest
	if v == summed {
		if t.Float().Largest > 65504 {
			top = 0x1p60
		}
		bottom = -top / 2
	}
	list := []float64{math.NaN(), math.Copysign(0, -1), top, bottom}
	if t.Float().Infinite {
		list = append(list, math.Inf(1), math.Inf(-1))
	}
	return list
}

// extremeInts returns the values of an extreme argument of an integer dtype or bool.
func extremeInts(t ir.DType) []int64 {
	lo, hi := ir.IntRange(t)
	if t == ir.Bool {
		return []int64{0, 1}
	}
	list := []int64{0, 1, 2, 3, 7, 31, 32, 33, hi, hi - 1, hi/2 + 1, lo, lo + 1}
	if lo < 0 {
		list = append(list, -1, -2, -3, -7, -31)
	}
	return list
}

// extremeCount returns the number of extremes of a dtype.
func extremeCount(t ir.DType) int {
	if t.IsFloat() {
		return len(extremes(t))
	}
	return len(extremeInts(t))
}

// tensor makes a tensor of the selected values. bound is the exclusive limit of indices.
func tensor(rng *rand.Rand, t ir.DType, dims []int, v values, bound int) (*ir.Data, error) {
	d, err := ir.NewData(t, dims...)
	if err != nil {
		return nil, err
	}
	n := d.Elems()
	if t.IsFloat() {
		list := make([]float64, n)
		for i := range list {
			list[i] = float(rng, t, v, i)
		}
		if v == special || v == summed {
			each := specials(t, v)
			for i := range min(n, len(each)) { // in the middle of each of len(each) equal parts of the list
				list[(2*i+1)*n/(2*len(each))] = each[i]
			}
		}
		return ir.FromFloats(t, list, dims...)
	}
	list := make([]int64, n)
	for i := range list {
		list[i] = integer(rng, t, v, i, bound)
	}
	return ir.FromInts(t, list, dims...)
}

// float returns element i of a float tensor of the selected values.
func float(rng *rand.Rand, t ir.DType, v values, i int) float64 {
	switch {
	case v == digits:
		list, _ := roundingCases(t)
		return list[i%len(list)]
	case v == extreme:
		list := extremes(t)
		return list[i%len(list)]
	case v == nearOne:
		return 0.9 + float64(0.2*rng.Float64())
	case v == sparse && rng.IntN(9) == 0:
		list, last := extremes(t), 1 // NaN
		if t.Float().Infinite {
			last = 3 // NaN and the infinities
		}
		return list[len(list)-1-rng.IntN(last)]
	case v == wide && rng.IntN(3) == 0:
		return math.Copysign(math.Exp(math.Log(1e-4)+float64(rng.Float64()*math.Log(3e5))), rng.Float64()-0.5)
	}
	x := float64(3*rng.Float64()) - 1.5
	if rng.IntN(4) == 0 {
		return math.Round(x)
	}
	return x
}

// integer returns element i of an integer or bool tensor of the selected values.
func integer(rng *rand.Rand, t ir.DType, v values, i, bound int) int64 {
	lo, hi := ir.IntRange(t)
	switch {
	case t == ir.Bool:
		return rng.Int64N(2)
	case v == digits:
		_, list := roundingCases(t)
		return list[rng.IntN(len(list))]
	case v == extreme:
		list := extremeInts(t)
		return list[i%len(list)]
	case v == index:
		return max(lo, min(hi, rng.Int64N(int64(bound)+4)-2))
	case v == full, v == wide:
		return limits(rng, lo, hi)
	}
	return max(lo, rng.Int64N(16)-4)
}

// limits returns a random integer, mostly one near lo, hi or 0.
func limits(rng *rand.Rand, lo, hi int64) int64 {
	switch rng.IntN(4) {
	case 0:
		return lo + rng.Int64N(3)
	case 1:
		return hi - rng.Int64N(3)
	case 2:
		return max(lo, rng.Int64N(20)-5)
	}
	return int64(rng.Uint64())
}

// flush returns the tensor with denormals replaced by zeros, or nil if it has none.
func flush(d *ir.Data) (*ir.Data, error) {
	if !d.DType.IsFloat() || d.DType.Bits() <= 8 { // computed in wider dtypes
		return nil, nil
	}
	list, err := d.Floats()
	if err != nil {
		return nil, err
	}
	tiny, found := smallestNormal(d.DType), false
	for i, x := range list {
		if x != 0 && math.Abs(x) < tiny {
			list[i], found = math.Copysign(0, x), true
		}
	}
	if !found {
		return nil, nil
	}
	return ir.FromFloats(d.DType, list, d.Dims...)
}
