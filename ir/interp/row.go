package interp

import "math"

// alongAxis applies f in place to every row of argument 0 along an axis.
func alongAxis(c *call, axis int, f func(row []float64)) (value, error) {
	x := c.args[0].floats()
	out := make([]float64, len(x))
	n, inner := c.dims[axis], elems(c.dims[axis+1:])
	if len(x) == 0 {
		return c.floats(out), nil
	}
	err := c.parallelRange(len(x)/n, n*elementWork, func(lo, hi int) {
		buf := make([]float64, n)
		for r := lo; r < hi; r++ {
			first := r/inner*n*inner + r%inner
			for i := range buf {
				buf[i] = x[first+i*inner]
			}
			f(buf)
			for i, y := range buf {
				out[first+i*inner] = y
			}
		}
	})
	return c.floats(out), err
}

func softmax(c *call) (value, error) {
	axis, err := c.axis()
	if err != nil {
		return value{}, err
	}
	return alongAxis(c, axis, softmaxRow)
}

func softmaxRow(row []float64) {
	total := expRow(row)
	for i := range row {
		row[i] /= total
	}
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

func logSoftmax(c *call) (value, error) {
	axis, err := c.axis()
	if err != nil {
		return value{}, err
	}
	return alongAxis(c, axis, func(row []float64) {
		m := maxOf(row)
		total := 0.0
		for _, x := range row {
			total += math.Exp(x - m)
		}
		l := math.Log(total)
		for i := range row {
			row[i] = row[i] - m - l
		}
	})
}

func rmsNorm(c *call) (value, error) {
	eps := c.attrs().Float("eps")
	weight := c.optionalFloats(1)
	return alongAxis(c, len(c.dims)-1, func(row []float64) {
		squares := 0.0
		for _, x := range row {
			squares += x * x
		}
		scale := 1 / math.Sqrt(squares/float64(len(row))+eps)
		for i := range row {
			row[i] *= scale
		}
		scaleRow(row, weight)
	})
}

func layerNorm(c *call) (value, error) {
	eps := c.attrs().Float("eps")
	weight, bias := c.optionalFloats(1), c.optionalFloats(2)
	return alongAxis(c, len(c.dims)-1, func(row []float64) {
		n := float64(len(row))
		mean := sumOf(row) / n
		scale := 1 / math.Sqrt(squaredDeviations(row)/n+eps)
		for i := range row {
			row[i] = (row[i] - mean) * scale
		}
		scaleRow(row, weight)
		for i, b := range bias {
			row[i] += b
		}
	})
}

// groupNorm sees x as [N*groups, channels*positions], whose rows it normalizes.
func groupNorm(c *call) (value, error) {
	eps := c.attrs().Float("eps")
	x, out := c.args[0].floats(), make([]float64, elems(c.dims))
	if len(x) == 0 {
		return c.floats(out), nil
	}
	groups, channels, positions := c.attrs().Int("groups"), c.dims[1], elems(c.dims[2:])
	n := channels / groups * positions
	weight, bias := c.optionalFloats(1), c.optionalFloats(2)
	err := c.parallelRange(len(x)/n, n*elementWork, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			row, to := x[r*n:(r+1)*n], out[r*n:(r+1)*n]
			mean := sumOf(row) / float64(n)
			scale := 1 / math.Sqrt(squaredDeviations(row)/float64(n)+eps)
			for i, v := range row {
				channel := r%groups*(channels/groups) + i/positions
				to[i] = scaled((v-mean)*scale, weight, bias, channel)
			}
		}
	})
	return c.floats(out), err
}

// scaled returns x*weight+bias for a channel, where there are such.
func scaled(x float64, weight, bias []float64, channel int) float64 {
	if weight != nil {
		x *= weight[channel]
	}
	if bias != nil {
		x += bias[channel]
	}
	return x
}

func l2Normalize(c *call) (value, error) {
	axis, err := c.axis()
	if err != nil {
		return value{}, err
	}
	eps := c.attrs().Float("eps")
	return alongAxis(c, axis, func(row []float64) {
		norm := max(norm2Of(row), eps)
		for i := range row {
			row[i] /= norm
		}
	})
}

// scaleRow multiplies by weight, if there is one.
func scaleRow(row, weight []float64) {
	for i, w := range weight {
		row[i] *= w
	}
}

// optionalFloats returns the elements of argument i, or nil if left out.
func (c *call) optionalFloats(i int) []float64 {
	if i >= len(c.args) {
		return nil
	}
	return c.args[i].floats()
}

// rope turns pairs of innermost elements by position*base^(-2i/dims).
func rope(c *call) (value, error) {
	axis, err := c.axis()
	if err != nil {
		return value{}, err
	}
	x, positions := c.args[0].floats(), c.args[1].i
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
	inner := elems(c.dims[axis+1 : last])                // rows per position
	each := elems(c.dims[c.node.Arg(1).Rank()-1 : last]) // rows for which positions repeat
	err = c.parallelRange(len(x)/width, turn*elementWork, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			pos := positions[r/each*c.dims[axis]+r/inner%c.dims[axis]]
			y := out[r*width : (r+1)*width]
			for i := range turn / 2 {
				sin, cos := math.Sincos(angle(pos, i))
				a, b := y[first(i)], y[second(i)]
				y[first(i)], y[second(i)] = a*cos-b*sin, a*sin+b*cos
			}
		}
	})
	return c.floats(out), err
}

// ropeAngle returns the function that gives the angle of pair i at a position.
func (c *call) ropeAngle(turn int) func(pos int64, i int) float64 {
	if len(c.args) > 2 {
		words := c.args[2].i
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

// ropePairs returns where the two elements of pair i are.
func ropePairs(mode string, turn int) (first, second func(i int) int) {
	if mode == "half" {
		return func(i int) int { return i }, func(i int) int { return i + turn/2 }
	}
	return func(i int) int { return 2 * i }, func(i int) int { return 2*i + 1 }
}
