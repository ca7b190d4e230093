package onnx_test

import (
	"math"
	"slices"
)

// resizeCase is Resize with scales or sizes. The definition interpolates one axis after the other.
func resizeCase(c *opCase) {
	x := c.random("f32", c.shape(1, 4, 6)...)
	n := len(x.dims)
	mode := c.choice("mode", "nearest", "linear", "cubic")
	coordinates := c.choice("coordinate_transformation_mode", "half_pixel", "half_pixel_symmetric",
		"pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize")
	nearest, exclude, antialias, a, outside := "", false, false, -0.75, 0.0
	switch {
	case mode == "nearest":
		nearest = c.choice("nearest_mode", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
	case coordinates != "tf_crop_and_resize":
		exclude = c.flag("exclude_outside", false)
		antialias = c.flag("antialias", false)
	}
	if mode == "cubic" && c.chance(2) {
		a = -0.5
		c.float("cubic_coeff_a", a)
	}
	axes, given := c.Perm(n), c.chance(2)
	if given {
		axes = axes[:c.between(1, n)]
		var list []int
		for _, axis := range axes {
			list = append(list, c.either(axis, n))
		}
		c.ints("axes", list)
	} else {
		slices.Sort(axes)
	}
	c.give("f32", x)
	starts, ends := make([]float64, n), slices.Repeat([]float64{1}, n)
	if coordinates == "tf_crop_and_resize" {
		if c.chance(2) {
			outside = 2.5
			c.float("extrapolation_value", outside)
		}
		roi := newArray(2 * len(axes))
		for i, axis := range axes {
			starts[axis], ends[axis] = float64(c.between(-2, 3))/8, float64(c.between(5, 10))/8
			roi.v[i], roi.v[len(axes)+i] = starts[axis], ends[axis]
		}
		c.constant("f32", roi)
	} else {
		c.skip()
	}
	to, scale, sized := slices.Clone(x.dims), slices.Repeat([]float64{1}, n), c.chance(2)
	policy := "stretch"
	if sized {
		policy = c.choice("keep_aspect_ratio_policy", "stretch", "not_larger", "not_smaller")
		var list []int
		factor := 0.0
		for i, axis := range axes {
			to[axis] = c.between(1, 9)
			list = append(list, to[axis])
			scale[axis] = float64(to[axis]) / float64(x.dims[axis])
			switch {
			case i == 0:
				factor = scale[axis]
			case policy == "not_larger":
				factor = min(factor, scale[axis])
			case policy == "not_smaller":
				factor = max(factor, scale[axis])
			}
		}
		for _, axis := range axes {
			if policy != "stretch" {
				scale[axis], to[axis] = factor, int(math.Floor(factor*float64(x.dims[axis])+0.5))
			}
		}
		if size(to) == 0 || size(to) > 1<<12 {
			return
		}
		c.skip()
		c.integers(list...)
	} else {
		factors := newArray(len(axes))
		for i, axis := range axes {
			s := float64(float32(pick(c.Rand, 0.25, 0.5, 1.0/3, 0.75, 0.8, 1, 1.5, 2, 2.3, 3)))
			if int(s*float64(x.dims[axis])) < 1 {
				s = 1
			}
			scale[axis], factors.v[i] = s, s
			to[axis] = int(float32(s) * float32(x.dims[axis]))
		}
		c.constant("f32", factors)
	}
	y := x
	beyond := newArray(to...) // how many axes of an element are outside of the region
	for axis := range n {
		from := y
		y = filled(with(from.dims, axis, to[axis]), func(at []int) float64 {
			line := make([]float64, x.dims[axis])
			for i := range line {
				line[i] = from.at(with(at, axis, i)...)
			}
			p, exact := position(coordinates, mode == "nearest", at[axis], len(line), to[axis], scale[axis],
				starts[axis], ends[axis])
			if coordinates == "tf_crop_and_resize" && slices.Contains(axes, axis) {
				last := float64(len(line) - 1)
				if !exact && math.Min(math.Abs(p), math.Abs(p-last)) < 1e-5 {
					return math.NaN()
				}
				if p < 0 || p > last {
					each(to, func(all []int) {
						if all[axis] == at[axis] {
							beyond.set(1, all...)
						}
					})
				}
			}
			if d := math.Abs(2*p - math.Round(2*p)); !exact && mode == "nearest" && d < 1e-5 {
				return math.NaN() // rounding of the position decides
			}
			return interpolated(line, p, mode, nearest, scale[axis], a, exclude, antialias)
		})
	}
	for i := range y.v {
		if beyond.v[i] != 0 {
			y.v[i] = outside
		}
	}
	c.expect(y, 3e-5)
}

// position returns the coordinate in the input of element i of the result, and whether rounding cannot change it.
func position(mode string, nearest bool, i, from, to int, scale, start, end float64) (p float64, exact bool) {
	x, whole := float64(i), scale*float64(from)
	exact = scale == math.Ldexp(1, int(math.Log2(scale)))
	switch mode {
	case "half_pixel_symmetric":
		return float64(from)/2*(1-float64(to)/whole) + (x+0.5)/scale - 0.5, exact
	case "pytorch_half_pixel":
		if to == 1 {
			return 0, true
		}
	case "align_corners":
		if to == 1 {
			return 0, true
		}
		if nearest { // ONNX's definition has the whole extent here
			whole = float64(to)
		}
		return x * float64(from-1) / (whole - 1), false
	case "asymmetric":
		return x / scale, exact
	case "tf_crop_and_resize":
		last := float64(from - 1)
		if to == 1 {
			return (start + end) / 2 * last, true
		}
		return start*last + x*(end-start)*last/float64(to-1), false
	}
	return (x+0.5)/scale - 0.5, exact
}

// interpolated returns the value at coordinate p of a line of elements.
func interpolated(line []float64, p float64, mode, nearest string, scale, a float64,
	exclude, antialias bool) float64 {
	at := func(i int) float64 { return line[min(max(i, 0), len(line)-1)] }
	if mode == "nearest" {
		low, f := math.Floor(p), p-math.Floor(p)
		i := int(low)
		switch nearest {
		case "round_prefer_floor", "round_prefer_ceil":
			if f > 0.5 || f == 0.5 && nearest == "round_prefer_ceil" {
				i++
			}
		case "ceil":
			if f > 0 {
				i++
			}
		}
		return at(i)
	}
	reach, stretch := 1.0, 1.0
	if mode == "cubic" {
		reach = 2
	}
	if antialias {
		stretch = math.Min(scale, 1)
	}
	kernel := func(d float64) float64 {
		d = math.Abs(d)
		switch {
		case mode == "linear":
			return math.Max(0, 1-d)
		case d <= 1:
			return ((a+2)*d-(a+3))*d*d + 1
		case d < 2:
			return ((a*d-5*a)*d+8*a)*d - 4*a
		}
		return 0
	}
	sum, total := 0.0, 0.0
	for i := int(math.Floor(p - reach/stretch)); i <= int(math.Ceil(p+reach/stretch)); i++ {
		w := kernel((float64(i) - p) * stretch)
		if exclude && (i < 0 || i >= len(line)) {
			continue
		}
		sum, total = sum+w*at(i), total+w
	}
	if math.Abs(total) < 0.05 {
		return math.NaN() // the weights cancel
	}
	return sum / total
}

// gridSampleCase is GridSample of images with one to three axes.
func gridSampleCase(c *opCase) {
	mode := c.choice("mode", "linear", "nearest", "cubic")
	padding := c.choice("padding_mode", "zeros", "border", "reflection")
	corners := c.flag("align_corners", false)
	n := c.between(2, 3)
	if mode == "cubic" {
		n = 2
	}
	x := c.random("f32", append([]int{c.between(1, 2), c.between(1, 3)}, c.shape(n, n, 5)...)...)
	outs := c.shape(n, n, 4)
	grid := filled(slices.Concat(x.dims[:1], outs, []int{n}), func([]int) float64 {
		return float64(c.between(-16, 16)) / 8
	})
	c.give("f32", x)
	c.give("f32", grid)
	mirrored := func(v, low, high float64) float64 {
		if low == high {
			return low
		}
		for v < low || v > high {
			if v < low {
				v = 2*low - v
			} else {
				v = 2*high - v
			}
		}
		return v
	}
	c.expect(filled(slices.Concat(x.dims[:2], outs), func(at []int) float64 {
		place := make([]float64, n)
		for i, d := range x.dims[2:] {
			g := grid.at(slices.Concat(at[:1], at[2:], []int{n - 1 - i})...)
			if corners {
				place[i] = (g + 1) / 2 * float64(d-1)
			} else {
				place[i] = ((g+1)*float64(d) - 1) / 2
			}
		}
		pixel := func(in []int) float64 {
			in = slices.Clone(in)
			for i, d := range x.dims[2:] {
				low, high := -0.5, float64(d)-0.5
				if corners {
					low, high = 0, float64(d-1)
				}
				switch {
				case padding == "border":
					in[i] = min(max(in[i], 0), d-1)
				case padding == "reflection":
					in[i] = int(mirrored(float64(in[i]), low, high))
				case in[i] < 0 || in[i] >= d:
					return 0
				}
			}
			return x.at(slices.Concat(at[:2], in)...)
		}
		if mode == "nearest" {
			in := make([]int, n)
			for i := range in {
				in[i] = int(math.RoundToEven(place[i]))
			}
			return pixel(in)
		}
		taps, first := 2, 0
		if mode == "cubic" {
			taps, first = 4, -1
		}
		sum := 0.0
		each(slices.Repeat([]int{taps}, n), func(k []int) {
			w, in := 1.0, make([]int, n)
			for i := range in {
				in[i] = int(math.Floor(place[i])) + first + k[i]
				d := math.Abs(float64(in[i]) - place[i])
				switch {
				case mode == "linear":
					w *= 1 - d
				case d <= 1:
					w *= (1.25*d-2.25)*d*d + 1
				default:
					w *= ((-0.75*d+3.75)*d-6)*d + 3
				}
			}
			if w != 0 {
				sum += w * pixel(in)
			}
		})
		return sum
	}), 3e-5)
}

// roiAlignCase is RoiAlign, also with the adaptive number of samples.
func roiAlignCase(c *opCase) {
	mode := c.choice("mode", "avg", "max")
	half := c.choice("coordinate_transformation_mode", "half_pixel", "output_half_pixel") == "half_pixel"
	h, w, ratio := c.between(1, 4), c.between(1, 4), c.between(0, 3)
	c.int("output_height", h)
	c.int("output_width", w)
	c.int("sampling_ratio", ratio)
	scale := 1.0
	if c.chance(2) {
		scale = 0.5
		c.float("spatial_scale", scale)
	}
	x := c.random("f32", c.between(1, 2), c.between(1, 3), c.between(1, 6), c.between(1, 6))
	n := c.between(1, 3)
	rois := newArray(n, 4)
	for i := range n {
		for a := range 2 {
			v := float64(c.between(-8, 30)) / 8
			rois.set(v, i, a)
			rois.set(v+float64(c.between(1, 40))/8+1.0/64, i, 2+a)
		}
	}
	batch := filled([]int{n}, func([]int) float64 { return float64(c.IntN(x.dims[0])) })
	c.give("f32", x)
	c.give("f32", rois)
	c.give("i64", batch)
	c.expect(filled([]int{n, x.dims[1], h, w}, func(at []int) float64 {
		offset := 0.0
		if half {
			offset = 0.5
		}
		edge := func(i int) float64 { return rois.at(at[0], i)*scale - offset }
		x0, y0 := edge(0), edge(1)
		width, height := edge(2)-x0, edge(3)-y0
		if !half {
			width, height = math.Max(width, 1), math.Max(height, 1)
		}
		cellH, cellW := height/float64(h), width/float64(w)
		ny, nx := ratio, ratio
		if ratio == 0 {
			ny, nx = int(math.Ceil(cellH)), int(math.Ceil(cellW))
		}
		sum, most, doubtful := 0.0, math.Inf(-1), false
		for iy := range ny {
			for ix := range nx {
				py := y0 + float64(at[2])*cellH + (float64(iy)+0.5)*cellH/float64(ny)
				px := x0 + float64(at[3])*cellW + (float64(ix)+0.5)*cellW/float64(nx)
				for _, v := range []float64{py + 1, px + 1, py - float64(x.dims[2]), px - float64(x.dims[3])} {
					doubtful = doubtful || math.Abs(v) < 1e-5
				}
				if py < -1 || py > float64(x.dims[2]) || px < -1 || px > float64(x.dims[3]) {
					most = math.Max(most, 0)
					continue
				}
				clamp := func(v float64, d int) (low, high int, f float64) {
					v = math.Max(v, 0)
					if int(v) >= d-1 {
						return d - 1, d - 1, 0
					}
					return int(v), int(v) + 1, v - math.Floor(v)
				}
				yl, yh, fy := clamp(py, x.dims[2])
				xl, xh, fx := clamp(px, x.dims[3])
				v := func(y, x1 int) float64 { return x.at(int(batch.v[at[0]]), at[1], y, x1) }
				parts := []float64{(1 - fy) * (1 - fx) * v(yl, xl), (1 - fy) * fx * v(yl, xh),
					fy * (1 - fx) * v(yh, xl), fy * fx * v(yh, xh)}
				for _, part := range parts {
					sum, most = sum+part, math.Max(most, part)
				}
			}
		}
		switch {
		case doubtful:
			return math.NaN()
		case mode == "max":
			return most
		}
		return sum / float64(max(1, ny*nx))
	}), 3e-5)
}
