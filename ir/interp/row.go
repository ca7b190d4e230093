package interp

import (
	"math"

	"github.com/vkc-go/vkc/ir"
)

// alongAxis returns argument 0 with each row along an axis changed in place by a function. newFunc makes a function for
// each chunk of rows, so the function may keep scratch memory.
func alongAxis(c *call, axis int, newFunc func() func(row []float64)) (value, error) {
	x := c.args[0].floats()
	out := make([]float64, len(x))
	if len(x) == 0 {
		return c.floats(out), nil
	}
	rows := rowsAlong(c.dims, axis)
	err := c.parallelRange(rows.count(), rows.n*elementWork, func(lo, hi int) {
		row, f := make([]float64, rows.n), newFunc()
		for r := lo; r < hi; r++ {
			first := rows.first(r)
			for i := range row {
				row[i] = x[first+i*rows.inner]
			}
			f(row)
			for i, y := range row {
				out[first+i*rows.inner] = y
			}
		}
	})
	return c.floats(out), err
}

// normalize computes an op that changes each element of a row by the results of the row's Fold, such as softmax.
func normalize(c *call) (value, error) {
	axis := len(c.dims) - 1
	if c.attrs().Has("axis") {
		var err error
		if axis, err = c.axis(); err != nil {
			return value{}, err
		}
	}
	weight, bias := c.optionalFloats(1), c.optionalFloats(2)
	return alongAxis(c, axis, func() func(row []float64) {
		f := newFolder(c.node.Op().Info().Fold, c.attrs())
		return func(row []float64) {
			f.fold(row)
			for i, x := range row {
				f.x = x
				row[i] = scaled(f.finish(), weight, bias, i)
			}
		}
	})
}

// expRow replaces each x by exp(x-max) and returns their sum.
func expRow(row []float64) float64 {
	m := maxOf(row)
	total := 0.0
	for i, x := range row {
		row[i] = math.Exp(x - m)
		total += row[i]
	}
	return total
}

// groupNorm treats each group of channels as one row, [N*groups, channels*positions], and normalizes the rows.
func groupNorm(c *call) (value, error) {
	x, out := c.args[0].floats(), make([]float64, elems(c.dims))
	if len(x) == 0 {
		return c.floats(out), nil
	}
	groups, channels, positions := c.attrs().Int("groups"), c.dims[1], elems(c.dims[2:])
	n := channels / groups * positions
	norm := ir.OpLayerNorm.Info().Fold
	weight, bias := c.optionalFloats(1), c.optionalFloats(2)
	err := c.parallelRange(len(x)/n, n*elementWork, func(lo, hi int) {
		f := newFolder(norm, c.attrs())
		for r := lo; r < hi; r++ {
			row, to := x[r*n:(r+1)*n], out[r*n:(r+1)*n]
			f.fold(row)
			for i, v := range row {
				// A row is a group: its first channel, plus the channel inside.
				channel := r%groups*(channels/groups) + i/positions
				f.x = v
				to[i] = scaled(f.finish(), weight, bias, channel)
			}
		}
	})
	return c.floats(out), err
}

// scaled returns x*weight+bias with the factor and addend of a channel. weight and bias may be nil.
func scaled(x float64, weight, bias []float64, channel int) float64 {
	if weight != nil {
		x = float64(x * weight[channel])
	}
	if bias != nil {
		x += bias[channel]
	}
	return x
}

// optionalFloats returns the elements of argument i, or nil if it is left out.
func (c *call) optionalFloats(i int) []float64 {
	if i >= len(c.args) {
		return nil
	}
	return c.args[i].floats()
}

// rope rotates pairs of innermost elements. Pair i at a position turns by the angle position*base^(-2i/dims), or by the
// angle that argument turns gives.
func rope(c *call) (value, error) {
	axis, err := c.axis()
	if err != nil {
		return value{}, err
	}
	x, positions := c.args[0].floats(), c.args[1].i64
	last := len(c.dims) - 1
	width, turn := c.dims[last], c.attrs().Int("dims")
	if turn == 0 {
		turn = width
	}
	first, second := ropePairs(c.attrs().String_("mode"), turn)
	angle := c.ropeAngle(turn)
	out := make([]float64, len(x))
	copy(out, x)
	if len(x) == 0 {
		return c.floats(out), nil
	}
	// positions is [outer…, times], and x is [outer…, …, times, …, width], where times is the axis. A row of x is its
	// innermost axis.
	times := c.dims[axis]
	rowsPerTime := elems(c.dims[axis+1 : last])
	rowsPerOuter := elems(c.dims[c.node.Arg(1).Rank()-1 : last]) // these rows use the same list of positions
	err = c.parallelRange(len(x)/width, turn*elementWork, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			pos := positions[r/rowsPerOuter*times+r/rowsPerTime%times]
			y := out[r*width : (r+1)*width]
			for i := range turn / 2 {
				sin, cos := math.Sincos(angle(pos, i))
				a, b := y[first(i)], y[second(i)]
				y[first(i)], y[second(i)] = float64(a*cos)-float64(b*sin), float64(a*sin)+float64(b*cos)
			}
		}
	})
	return c.floats(out), err
}

// ropeAngle returns a function that returns the angle, in radians, of pair i at a position. turn is the number of
// rotated elements. Argument turns, if given, has two words per pair, the high one first: the turns per position as a
// fraction of 2^64.
func (c *call) ropeAngle(turn int) func(pos int64, i int) float64 {
	if len(c.args) > 2 {
		words := c.args[2].i64
		return func(pos int64, i int) float64 {
			turns := words[2*i]<<32 | words[2*i+1]&math.MaxUint32
			return float64(pos*turns) * (2 * math.Pi / (1 << 64)) // whole turns wrap away
		}
	}
	freqs := make([]float64, turn/2)
	for i := range freqs {
		freqs[i] = math.Pow(c.attrs().Float("base"), -2*float64(i)/float64(turn))
	}
	return func(pos int64, i int) float64 { return float64(pos) * freqs[i] }
}

// ropePairs returns functions that return the indices of the two elements of pair i. turn is the number of rotated
// elements. In mode half, element i pairs with element i+turn/2; otherwise neighbours are pairs.
func ropePairs(mode string, turn int) (first, second func(i int) int) {
	if mode == "half" {
		return func(i int) int { return i }, func(i int) int { return i + turn/2 }
	}
	return func(i int) int { return 2 * i }, func(i int) int { return 2*i + 1 }
}
