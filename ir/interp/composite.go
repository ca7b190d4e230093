package interp

import (
	"math"
	"slices"
)

// batchNorm computes (x-mean)/sqrt(variance+eps)*weight+bias with the statistics of each channel.
func batchNorm(c *call) (value, error) {
	eps := c.attrs().Float("eps")
	x, mean, variance := c.args[0].floats(), c.args[1].floats(), c.args[2].floats()
	weight, bias := c.optionalFloats(3), c.optionalFloats(4)
	out := make([]float64, len(x))
	positions := elems(c.dims[2:])
	for i, v := range x {
		channel := i / positions % c.dims[1] // x is [batch, channel, positions...]
		out[i] = scaled((v-mean[channel])/math.Sqrt(variance[channel]+eps), weight, bias, channel)
	}
	return c.floats(out), nil
}

func tril(c *call) (value, error) {
	k := c.attrs().Int("k")
	return triangle(c, func(row, col int) bool { return col-row <= k })
}

func triu(c *call) (value, error) {
	k := c.attrs().Int("k")
	return triangle(c, func(row, col int) bool { return col-row >= k })
}

// triangle copies the elements at positions (row, col) of the two innermost axes that satisfy keep.
func triangle(c *call, keep func(row, col int) bool) (value, error) {
	x := c.args[0].wide()
	out, err := makeValue(x.typ, c.dims)
	if err != nil {
		return value{}, err
	}
	rows, cols := c.dims[len(c.dims)-2], c.dims[len(c.dims)-1]
	for i := range elems(c.dims) {
		switch {
		case !keep(i/cols%rows, i%cols): // stays 0
		case out.f64 != nil:
			out.f64[i] = x.f64[i]
		default:
			out.i64[i] = x.i64[i]
		}
	}
	return out, nil
}

// oneHot sets the element at each index to 1.
func oneHot(c *call) (value, error) {
	depth := c.attrs().Int("depth")
	out, err := makeValue(c.node.DType(), c.dims)
	if err != nil {
		return value{}, err
	}
	for i, at := range c.args[0].i64 {
		switch {
		case at < 0 || at >= int64(depth): // an index out of range sets no element
		case out.f64 != nil:
			out.f64[i*depth+int(at)] = 1
		default:
			out.i64[i*depth+int(at)] = 1
		}
	}
	return out, nil
}

// ropeTables rotates pairs of elements by the tables of cosines and sines.
func ropeTables(c *call) (value, error) {
	last := len(c.dims) - 1
	width, pairs := c.dims[last], c.args[1].dims[len(c.args[1].dims)-1]
	turned := append(slices.Clone(c.dims[:last]), pairs)
	// The tables are broadcast to one element per pair.
	var tables [2][]float64
	for i := range tables {
		t := c.args[1+i]
		whole, err := c.strided(t, turned, region{strides: broadcastStrides(t.dims, turned)})
		if err != nil {
			return value{}, err
		}
		tables[i] = whole.floats()
	}
	first, second := ropePairs(c.attrs().String_("mode"), 2*pairs)
	out := slices.Clone(c.args[0].floats())
	for i, cos := range tables[0] {
		// The conversions to float64 prevent fused multiply-adds.
		y, sin, pair := out[i/pairs*width:], tables[1][i], i%pairs
		a, b := y[first(pair)], y[second(pair)]
		y[first(pair)], y[second(pair)] = float64(a*cos)-float64(b*sin), float64(a*sin)+float64(b*cos)
	}
	return c.floats(out), nil
}
