package onnx_test

import (
	"math"
	"slices"
)

// windows are the attributes of a node that moves windows over the innermost axes.
type windows struct {
	kernel, stride, dilation, low, high []int
	ceil                                bool
	from, to                            []int // the extents of the input and of the result, without batch and channels
}

// windows returns random windows, and adds their attributes to the node.
func (c *opCase) windows(pool bool) (w windows) {
	n := c.between(1, 3)
	limit := []int{12, 8, 5}[n-1]
	for range n {
		k, d := c.between(1, 4), 1
		if c.chance(3) {
			d = c.between(1, 3)
		}
		reach := (k-1)*d + 1
		w.kernel, w.dilation = append(w.kernel, k), append(w.dilation, d)
		w.stride = append(w.stride, c.between(1, 4))
		w.from = append(w.from, reach+c.between(0, limit-1))
	}
	w.low, w.high = make([]int, n), make([]int, n)
	if pool || c.chance(2) {
		c.ints("kernel_shape", w.kernel)
	}
	if c.chance(2) && slices.Max(w.dilation) == 1 {
		w.dilation = slices.Repeat([]int{1}, n)
	} else {
		c.ints("dilations", w.dilation)
	}
	if c.chance(4) {
		w.stride = slices.Repeat([]int{1}, n)
	} else {
		c.ints("strides", w.stride)
	}
	mode := "NOTSET"
	if c.chance(2) {
		mode = c.choice("auto_pad", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
	}
	if pool && mode != "VALID" {
		w.ceil = c.flag("ceil_mode", false)
	}
	w.to = make([]int, n)
	for i, k := range w.kernel {
		reach := (k-1)*w.dilation[i] + 1
		switch mode {
		case "NOTSET":
			w.low[i], w.high[i] = c.IntN(k), c.IntN(k)
		case "SAME_UPPER", "SAME_LOWER":
			w.to[i] = (w.from[i] + w.stride[i] - 1) / w.stride[i]
			total := max(0, (w.to[i]-1)*w.stride[i]+reach-w.from[i])
			w.low[i], w.high[i] = total/2, total-total/2
			if mode == "SAME_LOWER" {
				w.low[i], w.high[i] = w.high[i], w.low[i]
			}
			continue
		}
		room := w.from[i] + w.low[i] + w.high[i] - reach
		w.to[i] = room/w.stride[i] + 1
		// A window that would begin in the padding after the elements is left out.
		if w.ceil && room%w.stride[i] != 0 && w.to[i]*w.stride[i] < w.from[i]+w.low[i] {
			w.to[i]++
		}
	}
	if mode == "NOTSET" && (slices.Max(slices.Concat(w.low, w.high)) > 0 || c.chance(2)) {
		c.ints("pads", slices.Concat(w.low, w.high))
	}
	return w
}

// visit calls f for the elements of the window at a place of the result: their coordinates, and the coordinates in the
// window. Elements may be in the padding.
func (w windows) visit(place []int, f func(at, in []int)) {
	each(w.kernel, func(in []int) {
		at := make([]int, len(in))
		for i := range in {
			at[i] = place[i]*w.stride[i] + in[i]*w.dilation[i] - w.low[i]
		}
		f(at, in)
	})
}

// isCounted reports whether an element of a window is in the tensor or in its padding.
func (w windows) isCounted(at []int) bool {
	for i, x := range at {
		if x >= w.from[i]+w.high[i] {
			return false
		}
	}
	return true
}

func maxPoolCase(c *opCase) {
	w := c.windows(true)
	outer := []int{c.between(1, 2), c.between(1, 3)}
	x := c.distinct(slices.Concat(outer, w.from)...)
	columns, indices := false, c.chance(2)
	if indices {
		columns = c.flag("storage_order", false)
	}
	at := newArray(slices.Concat(outer, w.to)...)
	y := filled(at.dims, func(place []int) float64 {
		most, index := math.Inf(-1), math.NaN()
		w.visit(place[2:], func(in, _ []int) {
			if in = slices.Concat(place[:2], in); !x.has(in...) || x.at(in...) <= most {
				return
			}
			most, index = x.at(in...), float64(x.place(in...))
			if columns {
				n := 0
				for a := len(in) - 1; a >= 2; a-- {
					n = n*x.dims[a] + in[a]
				}
				index = float64((in[0]*x.dims[1]+in[1])*size(w.from) + n)
			}
		})
		at.set(index, place...)
		if math.IsInf(most, -1) {
			return math.NaN() // a window of padding alone has no defined maximum
		}
		return most
	})
	c.give("f32", x)
	c.expect(y, 0)
	if indices {
		c.expect(at, 0)
	}
}

func averagePoolCase(c *opCase) {
	w := c.windows(true)
	padding := c.flag("count_include_pad", false)
	outer := []int{c.between(1, 2), c.between(1, 3)}
	x := c.random("f32", slices.Concat(outer, w.from)...)
	c.give("f32", x)
	c.expect(filled(slices.Concat(outer, w.to), func(place []int) float64 {
		sum, n := 0.0, 0.0
		w.visit(place[2:], func(in, _ []int) {
			inside := x.has(slices.Concat(place[:2], in)...)
			if inside {
				sum += x.at(slices.Concat(place[:2], in)...)
			}
			if inside || padding && w.isCounted(in) {
				n++
			}
		})
		return sum / n
	}), 1e-6)
}

func lpPoolCase(c *opCase) {
	w := c.windows(true)
	p := c.between(1, 3)
	if p != 2 || c.chance(2) {
		c.int("p", p)
	}
	outer := []int{c.between(1, 2), c.between(1, 3)}
	x := c.random("f32", slices.Concat(outer, w.from)...)
	c.give("f32", x)
	c.expect(filled(slices.Concat(outer, w.to), func(place []int) float64 {
		sum := 0.0
		w.visit(place[2:], func(in, _ []int) {
			if in = slices.Concat(place[:2], in); x.has(in...) {
				sum += math.Pow(math.Abs(x.at(in...)), float64(p))
			}
		})
		return math.Pow(sum, 1/float64(p))
	}), 2e-5)
}

func convCase(c *opCase) {
	w := c.windows(false)
	groups := 1
	if c.chance(2) {
		groups = c.between(1, 3)
		c.int("group", groups)
	}
	ins, outs := c.between(1, 3), c.between(1, 3)
	batch := c.between(1, 2)
	x := c.random("f32", slices.Concat([]int{batch, ins * groups}, w.from)...)
	weights := c.random("f32", slices.Concat([]int{outs * groups, ins}, w.kernel)...)
	bias := newArray(outs * groups)
	c.give("f32", x)
	c.maybe("f32", weights)
	if c.chance(2) {
		bias = c.random("f32", outs*groups)
		c.maybe("f32", bias)
	}
	c.expect(filled(slices.Concat([]int{batch, outs * groups}, w.to), func(place []int) float64 {
		o := place[1]
		sum := bias.at(o)
		w.visit(place[2:], func(at, in []int) {
			for i := range ins {
				from := slices.Concat([]int{place[0], o/outs*ins + i}, at)
				if x.has(from...) {
					sum += x.at(from...) * weights.at(slices.Concat([]int{o, i}, in)...)
				}
			}
		})
		return sum
	}), 1e-5)
}

func convTransposeCase(c *opCase) {
	n := c.between(1, 3)
	limit := []int{8, 5, 3}[n-1]
	w := windows{low: make([]int, n), high: make([]int, n)}
	more := make([]int, n)
	for i := range n {
		w.kernel, w.dilation = append(w.kernel, c.between(1, 4)), append(w.dilation, c.between(1, 3))
		w.stride, w.from = append(w.stride, c.between(1, 3)), append(w.from, c.between(1, limit))
		if c.chance(2) {
			more[i] = c.IntN(max(w.stride[i], w.dilation[i]))
		}
	}
	c.ints("dilations", w.dilation)
	c.ints("strides", w.stride)
	if slices.Max(more) > 0 {
		c.ints("output_padding", more)
	}
	if c.chance(2) {
		c.ints("kernel_shape", w.kernel)
	}
	mode := "NOTSET"
	if c.chance(2) {
		mode = c.choice("auto_pad", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
	}
	shaped := mode != "VALID" && c.chance(3)
	w.to = make([]int, n)
	for i, k := range w.kernel {
		whole := w.stride[i]*(w.from[i]-1) + more[i] + (k-1)*w.dilation[i] + 1
		switch {
		case shaped:
			w.to[i] = c.between(max(1, whole-k), whole)
		case mode == "NOTSET":
			w.low[i] = c.IntN(min(k, (whole+1)/2))
			w.high[i] = c.IntN(min(k, (whole+1)/2))
		case mode != "VALID":
			w.to[i] = w.from[i] * w.stride[i]
			if w.to[i] > whole { // a negative padding is not defined
				w.to[i] = 0
			}
		}
		if w.to[i] == 0 {
			w.to[i] = whole - w.low[i] - w.high[i]
			if mode == "SAME_UPPER" || mode == "SAME_LOWER" {
				w.to[i] = w.from[i] * w.stride[i]
			}
			continue
		}
		total := whole - w.to[i]
		w.low[i], w.high[i] = total-total/2, total/2
		if mode == "SAME_UPPER" {
			w.low[i], w.high[i] = w.high[i], w.low[i]
		}
	}
	if shaped {
		c.ints("output_shape", w.to)
	} else if mode == "NOTSET" {
		c.ints("pads", slices.Concat(w.low, w.high))
	}
	groups := 1
	if c.chance(2) {
		groups = c.between(1, 3)
		c.int("group", groups)
	}
	ins, outs, batch := c.between(1, 3), c.between(1, 3), c.between(1, 2)
	x := c.random("f32", slices.Concat([]int{batch, ins * groups}, w.from)...)
	weights := c.random("f32", slices.Concat([]int{ins * groups, outs}, w.kernel)...)
	bias := newArray(outs * groups)
	c.give("f32", x)
	c.maybe("f32", weights)
	if c.chance(2) {
		bias = c.random("f32", outs*groups)
		c.maybe("f32", bias)
	}
	shape := slices.Concat([]int{batch, outs * groups}, w.to)
	y := filled(shape, func(place []int) float64 { return bias.at(place[1]) })
	each(x.dims, func(from []int) {
		w.visit(from[2:], func(at, in []int) {
			for o := range outs {
				to := slices.Concat([]int{from[0], from[1]/ins*outs + o}, at)
				if y.has(to...) {
					y.v[y.place(to...)] += x.at(from...) * weights.at(slices.Concat([]int{from[1], o}, in)...)
				}
			}
		})
	})
	c.expect(y, 1e-5)
}

// col2ImCase adds columns of windows into an image.
func col2ImCase(c *opCase) {
	w := c.windows2()
	channels, batch := c.between(1, 3), c.between(1, 2)
	x := c.random("f32", batch, channels*size(w.kernel), size(w.to))
	c.give("f32", x)
	c.integers(w.from...)
	c.integers(w.kernel...)
	y := newArray(slices.Concat([]int{batch, channels}, w.from)...)
	for b := range batch {
		for ch := range channels {
			column := 0
			each(w.to, func(place []int) {
				k := 0
				w.visit(place, func(at, _ []int) {
					if to := slices.Concat([]int{b, ch}, at); y.has(to...) {
						y.v[y.place(to...)] += x.at(b, ch*size(w.kernel)+k, column)
					}
					k++
				})
				column++
			})
		}
	}
	c.expect(y, 1e-5)
}

// windows2 returns windows for Col2Im.
func (c *opCase) windows2() (w windows) {
	n := c.between(1, 3)
	w.low, w.high = make([]int, n), make([]int, n)
	for i := range n {
		k, d := c.between(1, 3), c.between(1, 2)
		w.kernel, w.dilation = append(w.kernel, k), append(w.dilation, d)
		w.stride = append(w.stride, c.between(1, 3))
		w.from = append(w.from, (k-1)*d+1+c.IntN(5))
		w.low[i], w.high[i] = c.IntN(k), c.IntN(k)
		w.to = append(w.to, (w.from[i]+w.low[i]+w.high[i]-(k-1)*d-1)/w.stride[i]+1)
	}
	c.ints("dilations", w.dilation)
	c.ints("strides", w.stride)
	c.ints("pads", slices.Concat(w.low, w.high))
	return w
}
