package onnx_test

import (
	"math"
	"slices"
)

// anyKind returns a type of a tensor that is only moved.
func (c *opCase) anyKind() string {
	return pick(c.Rand, "f32", "f16", "i32", "i64", "u8", "i8", "bool")
}

// number returns a type with arithmetic.
func (c *opCase) number() string { return pick(c.Rand, "f32", "f32", "i32", "i64") }

func sliceCase(c *opCase) {
	k := c.anyKind()
	x := c.random(k, c.shape(1, 4, 6)...)
	c.give(k, x)
	n := c.between(1, len(x.dims))
	axes, count := c.Perm(len(x.dims))[:n], slices.Clone(x.dims)
	given := c.chance(2)
	if !given {
		slices.Sort(axes)
		for i := range axes {
			axes[i] = i
		}
	}
	start, step := make([]int, len(x.dims)), slices.Repeat([]int{1}, len(x.dims))
	var starts, ends, steps []int
	stepped := given && c.chance(2) // steps need axes
	for _, a := range axes {
		d := x.dims[a]
		s, e, by := c.between(-d-2, d+2), c.between(-d-2, d+2), 1
		if stepped {
			by = pick(c.Rand, -3, -2, -1, 1, 2, 3)
		}
		if c.chance(6) {
			e = pick(c.Rand, math.MaxInt64, math.MinInt64, math.MaxInt32, math.MinInt32)
		}
		starts, ends, steps = append(starts, s), append(ends, e), append(steps, by)
		clamp := func(v, low, high int) int {
			if v < 0 && v > math.MinInt32 {
				v += d
			}
			return min(max(v, low), high)
		}
		if by > 0 {
			s, e = clamp(s, 0, d), clamp(e, 0, d)
			count[a] = max(0, (e-s+by-1)/by)
		} else {
			s, e = clamp(s, 0, d-1), clamp(e, -1, d-1)
			count[a] = max(0, (s-e-by-1)/-by)
		}
		start[a], step[a] = s, by
	}
	c.vector(starts)
	c.vector(ends)
	if given {
		var list []int
		for _, a := range axes {
			list = append(list, c.either(a, len(x.dims)))
		}
		c.integers(list...)
		if stepped {
			c.integers(steps...)
		}
	}
	c.expect(filled(count, func(at []int) float64 {
		from := slices.Clone(at)
		for a := range from {
			from[a] = start[a] + at[a]*step[a]
		}
		return x.at(from...)
	}), 0)
}

// vector adds a vector of integers. Unlike integers, it keeps integers that a float cannot represent.
func (c *opCase) vector(list []int) {
	name := "in" + string(rune('0'+len(c.ins)))
	var wide []int64
	for _, v := range list {
		wide = append(wide, int64(v))
	}
	c.ins = append(c.ins, name)
	c.constants = append(c.constants, ints(name, wide, int64(len(list))))
	c.what += " " + name
}

func padCase(c *opCase) {
	k := c.anyKind()
	x := c.random(k, c.shape(1, 4, 5)...)
	mode := c.choice("mode", "constant", "reflect", "edge", "wrap")
	n := len(x.dims)
	axes, given := c.Perm(n), c.chance(2)
	if given {
		axes = axes[:c.between(1, n)]
	} else {
		slices.Sort(axes)
	}
	low, high := make([]int, n), make([]int, n)
	var lows, highs []int
	for _, a := range axes {
		d := x.dims[a]
		limit := map[string]int{"constant": 3, "reflect": d - 1, "edge": 3, "wrap": d}[mode]
		low[a], high[a] = c.between(0, limit), c.between(0, limit)
		if c.chance(4) && mode != "reflect" && mode != "wrap" {
			low[a] = -c.IntN(d)
		}
		if c.chance(4) && mode != "reflect" && mode != "wrap" && low[a]+d > 1 {
			high[a] = -c.IntN(d + min(0, low[a]))
		}
		lows, highs = append(lows, low[a]), append(highs, high[a])
	}
	c.give(k, x)
	c.integers(slices.Concat(lows, highs)...)
	value := 0.0
	if mode == "constant" && c.chance(2) {
		value = 1
		if k != "bool" {
			value = float64(c.between(0, 9))
		}
		c.scalar(k, value)
	} else if given {
		c.skip()
	}
	if given {
		var list []int
		for _, a := range axes {
			list = append(list, c.either(a, n))
		}
		c.integers(list...)
	}
	to := slices.Clone(x.dims)
	for a := range to {
		to[a] += low[a] + high[a]
	}
	c.expect(filled(to, func(at []int) float64 {
		for a, d := range x.dims {
			i := at[a] - low[a]
			switch {
			case i >= 0 && i < d:
			case mode == "constant":
				return value
			case mode == "edge":
				i = min(max(i, 0), d-1)
			case mode == "wrap":
				i = (i%d + d) % d
			case i < 0:
				i = -i
			default:
				i = 2*(d-1) - i
			}
			at[a] = i
		}
		return x.at(at...)
	}), 0)
}

// index returns a random index of an axis, sometimes counted from its end.
func (c *opCase) index(d int) float64 { return float64(c.between(-d, d-1)) }

func wrapped(i float64, d int) int {
	if i < 0 {
		return int(i) + d
	}
	return int(i)
}

func gatherCase(c *opCase) {
	k := c.anyKind()
	x := c.random(k, c.shape(1, 4, 5)...)
	axis := c.IntN(len(x.dims))
	if axis > 0 || c.chance(2) {
		c.axis(axis, len(x.dims))
	}
	at := filled(c.shape(0, 3, 4), func([]int) float64 { return c.index(x.dims[axis]) })
	c.maybe(k, x)
	c.maybe(pick(c.Rand, "i32", "i64"), at)
	n := len(at.dims)
	c.expect(filled(slices.Concat(x.dims[:axis], at.dims, x.dims[axis+1:]), func(to []int) float64 {
		i := wrapped(at.at(to[axis:axis+n]...), x.dims[axis])
		return x.at(slices.Concat(to[:axis], []int{i}, to[axis+n:])...)
	}), 0)
}

func gatherElementsCase(c *opCase) {
	k := c.anyKind()
	x := c.random(k, c.shape(1, 4, 5)...)
	axis := c.IntN(len(x.dims))
	c.axis(axis, len(x.dims))
	dims := slices.Clone(x.dims)
	for a := range dims {
		if c.chance(2) {
			dims[a] = c.between(1, dims[a])
		}
	}
	dims[axis] = c.between(1, 6)
	at := filled(dims, func([]int) float64 { return c.index(x.dims[axis]) })
	c.maybe(k, x)
	c.maybe(pick(c.Rand, "i32", "i64"), at)
	c.expect(filled(dims, func(to []int) float64 {
		return x.at(with(to, axis, wrapped(at.at(to...), x.dims[axis]))...)
	}), 0)
}

func gatherNDCase(c *opCase) {
	k := c.anyKind()
	x := c.random(k, c.shape(1, 4, 4)...)
	batch := c.IntN(len(x.dims))
	if batch > 0 || c.chance(2) {
		c.int("batch_dims", batch)
	}
	n := c.between(1, len(x.dims)-batch)
	dims := slices.Concat(x.dims[:batch], c.shape(0, 2, 4), []int{n})
	at := filled(dims, func(at []int) float64 { return c.index(x.dims[batch+at[len(at)-1]]) })
	c.maybe(k, x)
	c.maybe("i64", at)
	outer := len(dims) - 1
	c.expect(filled(slices.Concat(dims[:outer], x.dims[batch+n:]), func(to []int) float64 {
		from := slices.Clone(to[:batch])
		for i := range n {
			from = append(from, wrapped(at.at(slices.Concat(to[:outer], []int{i})...), x.dims[batch+i]))
		}
		return x.at(append(from, to[outer:]...)...)
	}), 0)
}

// reduced returns how a scatter combines an element with an update.
func (c *opCase) reduced() (name string, f func(a, b float64) float64) {
	name = c.choice("reduction", "none", "add", "mul", "min", "max")
	return name, map[string]func(a, b float64) float64{"none": func(_, b float64) float64 { return b },
		"add": func(a, b float64) float64 { return a + b }, "mul": func(a, b float64) float64 { return a * b },
		"min": math.Min, "max": math.Max}[name]
}

func scatterElementsCase(c *opCase) {
	k := c.number()
	x := c.random(k, c.shape(1, 4, 5)...)
	axis := c.IntN(len(x.dims))
	c.axis(axis, len(x.dims))
	name, f := c.reduced()
	dims := slices.Clone(x.dims)
	for a := range dims {
		if c.chance(2) {
			dims[a] = c.between(1, dims[a])
		}
	}
	if name != "none" {
		dims[axis] = c.between(1, 6)
	}
	at, used := newArray(dims...), map[int]bool{}
	y := array{x.dims, slices.Clone(x.v)}
	updates := c.random(k, dims...)
	each(dims, func(place []int) {
		for { // without a reduction, no two updates may have the same index
			i := c.index(x.dims[axis])
			to := x.place(with(place, axis, wrapped(i, x.dims[axis]))...)
			if name == "none" && used[to] {
				continue
			}
			used[to] = true
			at.set(i, place...)
			y.v[to] = f(y.v[to], updates.at(place...))
			return
		}
	})
	c.maybe(k, x)
	c.maybe(pick(c.Rand, "i32", "i64"), at)
	c.maybe(k, updates)
	c.expect(y, 1e-5)
}

func scatterNDCase(c *opCase) {
	k := c.number()
	x := c.random(k, c.shape(1, 4, 4)...)
	name, f := c.reduced()
	n := c.between(1, len(x.dims))
	outer := c.shape(0, 2, 3)
	for name == "none" && size(outer) > size(x.dims[:n]) {
		outer = c.shape(0, 2, 3)
	}
	at, used := newArray(append(slices.Clone(outer), n)...), map[int]bool{}
	y := array{x.dims, slices.Clone(x.v)}
	updates := c.random(k, slices.Concat(outer, x.dims[n:])...)
	each(outer, func(place []int) {
		for {
			var list []float64
			var to []int
			for i := range n {
				list = append(list, c.index(x.dims[i]))
				to = append(to, wrapped(list[i], x.dims[i]))
			}
			first := x.place(append(slices.Clone(to), make([]int, len(x.dims)-n)...)...)
			if name == "none" && used[first] {
				continue
			}
			used[first] = true
			for i, v := range list {
				at.set(v, append(slices.Clone(place), i)...)
			}
			each(x.dims[n:], func(rest []int) {
				p := x.place(slices.Concat(to, rest)...)
				y.v[p] = f(y.v[p], updates.at(slices.Concat(place, rest)...))
			})
			return
		}
	})
	c.maybe(k, x)
	c.maybe("i64", at)
	c.maybe(k, updates)
	c.expect(y, 1e-5)
}

func depthToSpaceCase(c *opCase) {
	n := c.between(1, 3)
	c.int("blocksize", n)
	order := c.choice("mode", "DCR", "CRD")
	depth, k := c.between(1, 3), c.anyKind()
	x := c.random(k, c.between(1, 2), depth*n*n, c.between(1, 4), c.between(1, 4))
	c.give(k, x)
	c.expect(filled([]int{x.dims[0], depth, x.dims[2] * n, x.dims[3] * n}, func(at []int) float64 {
		h, w := at[2]%n, at[3]%n
		channel := (h*n+w)*depth + at[1]
		if order == "CRD" {
			channel = (at[1]*n+h)*n + w
		}
		return x.at(at[0], channel, at[2]/n, at[3]/n)
	}), 0)
}

func triluCase(c *opCase) {
	k := c.anyKind()
	x := c.random(k, c.shape(2, 4, 6)...)
	upper := c.flag("upper", true)
	c.give(k, x)
	diagonal := 0
	if c.chance(2) {
		diagonal = c.between(-7, 7)
		c.scalar("i64", float64(diagonal))
	}
	c.expect(filled(x.dims, func(at []int) float64 {
		d := at[len(at)-1] - at[len(at)-2]
		if upper && d >= diagonal || !upper && d <= diagonal {
			return x.at(at...)
		}
		return 0
	}), 0)
}

func oneHotCase(c *opCase) {
	at := filled(c.shape(0, 3, 4), func([]int) float64 { return float64(c.between(-6, 6)) })
	depth, rank := c.between(1, 5), len(at.dims)+1
	axis := c.IntN(rank)
	if axis < rank-1 || c.chance(2) {
		c.axis(axis, rank)
	}
	k := pick(c.Rand, "f32", "i32", "i64")
	values := c.random(k, 2)
	c.maybe(pick(c.Rand, "i32", "i64", "f32"), at)
	c.constant("i64", array{[][]int{nil, {1}}[c.IntN(2)], []float64{float64(depth)}})
	c.maybe(k, values)
	c.expect(filled(slices.Concat(at.dims[:axis], []int{depth}, at.dims[axis:]), func(to []int) float64 {
		i := at.at(slices.Concat(to[:axis], to[axis+1:])...)
		if wrapped(i, depth) == to[axis] { // out of range, all are off
			return values.v[1]
		}
		return values.v[0]
	}), 0)
}

func compressCase(c *opCase) {
	k := c.anyKind()
	x := c.random(k, c.shape(1, 4, 5)...)
	axis, dims := -1, []int{size(x.dims)}
	if c.chance(2) {
		axis = c.IntN(len(x.dims))
		c.axis(axis, len(x.dims))
		dims = []int{x.dims[axis]}
	}
	chosen := c.random("bool", c.between(1, dims[0]))
	var list []int
	for i, v := range chosen.v {
		if v != 0 {
			list = append(list, i)
		}
	}
	c.notFound() // Compress finds a number of elements itself
	c.give(k, x)
	c.maybe("bool", chosen)
	if axis < 0 {
		c.expect(filled([]int{len(list)}, func(at []int) float64 { return x.v[list[at[0]]] }), 0)
		return
	}
	c.expect(filled(with(x.dims, axis, len(list)), func(at []int) float64 {
		return x.at(with(at, axis, list[at[axis]])...)
	}), 0)
}

func splitCase(c *opCase) {
	k := c.anyKind()
	x := c.random(k, c.shape(1, 4, 7)...)
	axis := c.IntN(len(x.dims))
	c.axis(axis, len(x.dims))
	var sizes []int
	d := x.dims[axis]
	c.give(k, x)
	if c.chance(2) {
		for left := d; left > 0; {
			n := c.between(0, left)
			sizes, left = append(sizes, n), left-n
		}
		c.integers(sizes...)
	} else {
		n := c.between(1, d)
		part := (d + n - 1) / n
		for (d+part-1)/part != n { // the parts must not be empty
			n--
			part = (d + n - 1) / n
		}
		c.int("num_outputs", n)
		for left := d; left > 0; left -= part {
			sizes = append(sizes, min(part, left))
		}
	}
	start := 0
	for _, n := range sizes {
		first := start
		c.expect(filled(with(x.dims, axis, n), func(at []int) float64 {
			return x.at(with(at, axis, first+at[axis])...)
		}), 0)
		start += n
	}
}
