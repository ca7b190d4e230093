package fast

import (
	"math"

	"github.com/vkc-go/vkc/ir/interp"
)

// elementWork is how many multiply-adds a step of a row is worth.
const elementWork = 4

// byRow makes a kernel of a function that changes one row of the innermost axis.
func byRow(f func(row []float32)) func(*interp.Call) error {
	return func(c *interp.Call) error {
		return eachRow(c, func(row, x []float32) {
			copy(row, x)
			f(row)
		})
	}
}

// eachRow calls f with each row of the result and of argument 0.
func eachRow(c *interp.Call, f func(row, x []float32)) error {
	n := c.Dims[len(c.Dims)-1]
	return c.ParallelRange(len(c.Out)/n, n*elementWork, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			f(c.Out[r*n:(r+1)*n], c.Args[0].Floats[r*n:(r+1)*n])
		}
	})
}

func softmaxRow(row []float32) {
	total := expRow(row)
	for i := range row {
		row[i] = float32(float64(row[i]) / total)
	}
}

// expRow replaces each x by exp(x-max) and returns their sum.
func expRow(row []float32) (total float64) {
	top := float32(math.Inf(-1))
	for _, x := range row {
		top = max(top, x)
	}
	exps(row, top)
	for _, e := range row {
		total += float64(e)
	}
	return total
}

func rmsNorm(c *interp.Call) error {
	eps, weight := c.Node.Attrs().Float("eps"), optional(c, 1)
	return eachRow(c, func(row, x []float32) {
		scaleRow(row, x, 0, squares(x, 0), eps, weight, nil)
	})
}

func layerNorm(c *interp.Call) error {
	eps, weight, bias := c.Node.Attrs().Float("eps"), optional(c, 1), optional(c, 2)
	return eachRow(c, func(row, x []float32) {
		sum := 0.0
		for _, v := range x {
			sum += float64(v)
		}
		mean := sum / float64(len(x))
		scaleRow(row, x, mean, squares(x, mean), eps, weight, bias)
	})
}

// squares sums the squared differences from mean. It uses float64, because they may be out of float32's range.
func squares(x []float32, mean float64) (sum float64) {
	for _, v := range x {
		d := float64(v) - mean
		sum += float64(d * d)
	}
	return sum
}

// scaleRow sets row to (x-mean) over the root of the mean square, times weight, plus bias. weight and bias may be nil.
func scaleRow(row, x []float32, mean, squares, eps float64, weight, bias []float32) {
	scale := 1 / math.Sqrt(squares/float64(len(x))+eps)
	for i, v := range x {
		y := float64((float64(v) - mean) * scale)
		if weight != nil {
			y = float64(y * float64(weight[i]))
		}
		if bias != nil {
			y += float64(bias[i])
		}
		row[i] = float32(y)
	}
}

// optional returns the elements of argument i, or nil if it is omitted.
func optional(c *interp.Call, i int) []float32 {
	if i >= len(c.Args) {
		return nil
	}
	return c.Args[i].Floats
}
