package interp

import (
	"fmt"
	"math"

	"github.com/vkc-go/vkc/ir"
)

// rows is argument 0 of a reduction with the folded axes moved innermost, so
// that each result element folds n consecutive elements.
type rows struct {
	x     value
	count int // result elements
	n     int
}

// row returns row i of s, the elements of r.x.
func row[T any](r rows, s []T, i int) []T { return s[i*r.n : (i+1)*r.n] }

func foldRows(c *call, axes []int64) (rows, error) {
	x := c.args[0]
	fold, err := ir.ResolveAxes(axes, len(x.dims))
	if err != nil {
		return rows{}, err
	}
	var keep, folded []int64
	n := 1
	for i, in := range fold {
		if in {
			folded = append(folded, int64(i))
			n *= x.dims[i]
		} else {
			keep = append(keep, int64(i))
		}
	}
	x, err = permuted(x, append(keep, folded...))
	return rows{x: x, count: elems(c.dims), n: n}, err
}

// reduceFloat makes a reduction of floats from a function of one row.
func reduceFloat(c *call, f func(row []float64) float64) (value, error) {
	r, err := foldRows(c, c.attrs().Ints("axes"))
	if err != nil {
		return value{}, err
	}
	x := r.x.floats()
	out := make([]float64, r.count)
	err = c.parallelRange(r.count, r.n, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			out[i] = f(row(r, x, i))
		}
	})
	return c.floats(out), err
}

// reduceInt folds integers or bools with f from an initial value on.
func reduceInt(c *call, init int64, f func(acc, x int64) int64) (value, error) {
	r, err := foldRows(c, c.attrs().Ints("axes"))
	if err != nil {
		return value{}, err
	}
	out := make([]int64, r.count)
	err = c.parallelRange(r.count, r.n, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			acc := init
			for _, x := range row(r, r.x.i, i) {
				acc = f(acc, x)
			}
			out[i] = acc
		}
	})
	return c.ints(out), err
}

func sum(c *call) (value, error) {
	if c.node.DType().IsFloat() {
		return reduceFloat(c, sumOf)
	}
	return reduceInt(c, 0, func(acc, x int64) int64 { return acc + x })
}

func sumOf(row []float64) float64 {
	acc := 0.0
	for _, x := range row {
		acc += x
	}
	return acc
}

func mean(c *call) (value, error) {
	return reduceFloat(c, func(row []float64) float64 { return sumOf(row) / float64(len(row)) })
}

func prod(c *call) (value, error) {
	if !c.node.DType().IsFloat() {
		return reduceInt(c, 1, func(acc, x int64) int64 { return acc * x })
	}
	return reduceFloat(c, func(row []float64) float64 {
		acc := 1.0
		for _, x := range row {
			acc *= x
		}
		return acc
	})
}

func norm1(c *call) (value, error) {
	return reduceFloat(c, func(row []float64) float64 {
		acc := 0.0
		for _, x := range row {
			acc += math.Abs(x)
		}
		return acc
	})
}

func norm2(c *call) (value, error) { return reduceFloat(c, norm2Of) }

// norm2Of scales by the largest magnitude, so that squares of f64 values do
// not overflow where their root would not.
func norm2Of(row []float64) float64 {
	top := 0.0
	for _, x := range row {
		top = max(top, math.Abs(x))
	}
	if top == 0 || math.IsInf(top, 0) || math.IsNaN(top) {
		return top
	}
	_, exp := math.Frexp(top)
	acc := 0.0
	for _, x := range row {
		y := math.Ldexp(x, -exp)
		acc += y * y
	}
	return math.Ldexp(math.Sqrt(acc), exp)
}

func logSumExp(c *call) (value, error) {
	return reduceFloat(c, func(row []float64) float64 {
		m := maxOf(row)
		if math.IsInf(m, 0) {
			return m
		}
		acc := 0.0
		for _, x := range row {
			acc += math.Exp(x - m)
		}
		return m + math.Log(acc)
	})
}

func variance(c *call) (value, error) {
	correction := float64(c.attrs().Int("correction"))
	return reduceFloat(c, func(row []float64) float64 {
		return squaredDeviations(row) / max(float64(len(row))-correction, 0)
	})
}

// squaredDeviations returns the sum of the squared differences from the mean.
func squaredDeviations(row []float64) float64 {
	mean := sumOf(row) / float64(len(row))
	acc := 0.0
	for _, x := range row {
		acc += (x - mean) * (x - mean)
	}
	return acc
}

func reduceMax(c *call) (value, error) {
	if t := c.node.DType(); !t.IsFloat() {
		lo, _ := ir.IntRange(t)
		return reduceInt(c, lo, func(acc, x int64) int64 { return max(acc, x) })
	}
	return reduceFloat(c, maxOf)
}

// maxOf returns the largest element, NaN if there is one, -Inf if none at all.
func maxOf(row []float64) float64 {
	acc := math.Inf(-1)
	for _, x := range row {
		acc = max(acc, x)
	}
	return acc
}

func reduceMin(c *call) (value, error) {
	if t := c.node.DType(); !t.IsFloat() {
		_, hi := ir.IntRange(t)
		return reduceInt(c, hi, func(acc, x int64) int64 { return min(acc, x) })
	}
	return reduceFloat(c, func(row []float64) float64 {
		acc := math.Inf(1)
		for _, x := range row {
			acc = min(acc, x)
		}
		return acc
	})
}

func anyTrue(c *call) (value, error) {
	return reduceInt(c, 0, func(acc, x int64) int64 { return acc | x })
}

func allTrue(c *call) (value, error) {
	return reduceInt(c, 1, func(acc, x int64) int64 { return acc & x })
}

func argmax(c *call) (value, error) {
	if c.args[0].typ.IsFloat() {
		return search(c, value.floats, func(x, best float64) bool { return x > best || x != x && best == best })
	}
	return search(c, value.ints, func(x, best int64) bool { return x > best })
}

func argmin(c *call) (value, error) {
	if c.args[0].typ.IsFloat() {
		return search(c, value.floats, func(x, best float64) bool { return x < best || x != x && best == best })
	}
	return search(c, value.ints, func(x, best int64) bool { return x < best })
}

// ints returns the elements of an integer or bool value.
func (v value) ints() []int64 { return v.i }

// search finds the first best element along the axis.
func search[T any](c *call, get func(value) []T, beats func(x, best T) bool) (value, error) {
	r, err := foldRows(c, []int64{int64(c.attrs().Int("axis"))})
	if err != nil {
		return value{}, err
	}
	if r.n == 0 && r.count > 0 {
		return value{}, errEmptyAxis(c, 0)
	}
	x := get(r.x)
	out := make([]int64, r.count)
	err = c.parallelRange(r.count, r.n, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			out[i] = int64(first(row(r, x, i), beats))
		}
	})
	return c.ints(out), err
}

// first returns the index of the first element that no later one beats.
func first[T any](row []T, beats func(x, best T) bool) int {
	best := 0
	for j, x := range row {
		if beats(x, row[best]) {
			best = j
		}
	}
	return best
}

func errEmptyAxis(c *call, axis int) error {
	return fmt.Errorf("axis %d of %s is empty under these symbol values, so there is no element to pick", axis,
		c.args[0])
}
