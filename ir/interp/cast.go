package interp

import (
	"math"

	"github.com/vkc-go/vkc/ir"
)

// cast converts by the rules of the op's row: float to integer saturates,
// integer to integer wraps, to bool is x != 0.
func cast(c *call) (value, error) {
	from, to := c.args[0], c.node.DType()
	switch {
	case from.typ == to:
		return from, nil
	case (from.n != nil || from.s != nil) && to == ir.F32: // holds every value of narrower types
		from.typ = to
		return from, nil
	case from.typ.IsFloat() && to.IsFloat():
		f := make([]float64, elems(c.dims))
		copy(f, from.floats())
		return c.floats(f), nil
	case from.typ.IsFloat():
		v := make([]int64, elems(c.dims))
		for j, x := range from.floats() {
			v[j] = ir.FloatToInt(x, to)
		}
		return c.ints(v), nil
	case to.IsFloat():
		f := make([]float64, elems(c.dims))
		for j, x := range from.i {
			f[j] = intToFloat(x, to)
		}
		return c.floats(f), nil
	}
	v := make([]int64, elems(c.dims))
	for j, x := range from.i {
		if v[j] = x; to == ir.Bool && x != 0 {
			v[j] = 1
		}
	}
	return c.ints(v), nil
}

// intToFloat returns x as a float64 that rounds to t as x itself would. Where
// float64 cannot hold x and t is narrower, that is the neighbour of x with an
// odd last bit (round to odd, Boldo and Melquiond 2008).
func intToFloat(x int64, t ir.DType) float64 {
	f := float64(x)
	if t == ir.F64 || x > -1<<53 && x < 1<<53 {
		return f
	}
	if f < 1<<63 && int64(f) == x {
		return f
	}
	b := math.Float64bits(f)
	if f >= 1<<63 || x >= 0 && int64(f) > x || x < 0 && int64(f) < x {
		b-- // towards zero
	}
	return math.Float64frombits(b | 1)
}

// bitcast reads the elements as they lie in memory as those of another dtype.
func bitcast(c *call) (value, error) {
	d, err := c.args[0].data()
	if err != nil {
		return value{}, err
	}
	d.DType = c.node.DType()
	return fromData(d), nil
}
