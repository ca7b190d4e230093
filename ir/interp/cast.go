package interp

import "github.com/vkc-go/vkc/ir"

// cast converts by the rules of op cast: float to integer saturates, integer to integer wraps, and to bool is x != 0.
func cast(c *call) (value, error) {
	from, to := c.args[0], c.node.DType()
	switch {
	case from.typ == to:
		return from, nil
	case (from.f32 != nil || from.small != nil) && to == ir.F32: // f32 represents all values of narrower types
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
		for j, x := range from.i64 {
			f[j] = ir.IntToFloat(x, to)
		}
		return c.floats(f), nil
	}
	v := make([]int64, elems(c.dims))
	for j, x := range from.i64 {
		v[j] = x
		if to == ir.Bool && x != 0 {
			v[j] = 1
		}
	}
	return c.ints(v), nil
}

// bitcast reinterprets the elements' bytes as another dtype.
func bitcast(c *call) (value, error) {
	d, err := c.args[0].data()
	if err != nil {
		return value{}, err
	}
	d.DType = c.node.DType()
	return fromData(d)
}
