package fast

import (
	"math"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// prepareGroupNorm returns the function that computes a group_norm.
func prepareGroupNorm(n *ir.Node) func(c *interp.Call) error {
	if n.DType() == ir.F64 {
		return groupNorm[float64]
	}
	return groupNorm[float32]
}

// groupNorm computes group_norm, in float64 as the interpreter does. The elements of a group are neighbours in memory,
// and so are the elements of a channel.
func groupNorm[T number](c *interp.Call) error {
	attrs := c.Node.Attrs()
	groups, channels, positions := attrs.Int("groups"), c.Dims[1], volume(c.Dims[2:])
	each := channels / groups // channels of a group
	n, in, out := each*positions, newReader[T](c.Args[0], c.Args[0].Dims, nil), resultsOf[T](c)
	weight, bias := make([]T, channels), make([]T, channels)
	fillOf(weight, 1)
	for i, list := range [][]T{weight, bias} {
		if 1+i < len(c.Args) {
			r := newReader[T](c.Args[1+i], []int{channels}, nil)
			r.read(list, 0)
		}
	}
	return c.Parallel(volume(c.Dims)/n, 3*elementWork*n, func(worker, group int) {
		row := in.direct(group*n, n)
		if row == nil {
			row = roomOf[T](c, worker, n)
			in.read(row, group*n)
		}
		mean, variance := statistics(row)
		scale := 1 / math.Sqrt(variance+attrs.Float("eps"))
		var part [block]T
		for k := range n / max(positions, 1) {
			channel := group%groups*each + k
			w, b := float64(weight[channel]), float64(bias[channel])
			for lo := 0; lo < positions; lo += block {
				from := row[k*positions+lo : k*positions+min(lo+block, positions)]
				at := group*n + k*positions + lo
				to := out.block(at, len(from), part[:])
				narrow, ok := any(to).([]float32)
				// Assembly computes in float32, and does nothing if that could overflow or lose digits.
				done := ok && normalize(narrow, any(from).([]float32), mean, math.Sqrt(variance*float64(n)), scale*w, b)
				if !done {
					for i, x := range from {
						to[i] = T(float64((float64(x)-mean)*scale*w) + b)
					}
				}
				out.put(at, to)
			}
		}
	})
}

// statistics returns the mean and the variance of the elements of a list.
func statistics[T number](x []T) (mean, variance float64) {
	n, result := float64(len(x)), [1]float64{}
	if narrow, ok := any(x).([]float32); ok {
		var squares, first [1]float64
		// Sums of differences from the first element lose fewer bits than sums of elements.
		momentsOf(result[:], squares[:], first[:], narrow, nil, true)
		mean = result[0] / n
		return first[0] + mean, max(0, squares[0]-float64(result[0]*mean)) / n
	}
	rowsOf(reducers[ir.OpSum], result[:], x, x)
	mean = result[0] / n
	// Two sums let the CPU add in parallel.
	var a, b float64
	for ; len(x) >= 2; x = x[2:] {
		y, z := float64(x[0])-mean, float64(x[1])-mean
		a, b = a+float64(y*y), b+float64(z*z)
	}
	for _, v := range x {
		y := float64(v) - mean
		a += float64(y * y)
	}
	return mean, (a + b) / n
}
