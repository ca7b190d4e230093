package interp

import (
	"github.com/vkc-go/vkc/ir"
)

func leaf(c *call) (value, error) { return c.env.leaf(c.node) }

func constant(c *call) (value, error) { return fromData(c.attrs().Data("data")) }

// coordinates computes op iota: each element is its coordinate along one axis.
func coordinates(c *call) (value, error) {
	axis, err := ir.ResolveAxis(int64(c.attrs().Int("axis")), len(c.dims))
	if err != nil {
		return value{}, err
	}
	n := c.dims[axis]
	inner := elems(c.dims[axis+1:])
	// In row-major order, inner successive elements have the same coordinate, and n coordinates follow one another.
	at := func(i int) int64 { return int64(i / inner % n) }
	if c.node.DType().IsFloat() {
		f := make([]float64, elems(c.dims))
		for i := range f {
			f[i] = float64(at(i))
		}
		return c.floats(f), nil
	}
	v := make([]int64, elems(c.dims))
	for i := range v {
		v[i] = at(i)
	}
	return c.ints(v), nil
}

// dimValue returns the value of an extent in this run.
func dimValue(c *call) (value, error) {
	v, err := c.attrs().Shape("dim")[0].Eval(c.env.symbols)
	if err != nil {
		return value{}, err
	}
	return c.ints([]int64{v}), nil
}
