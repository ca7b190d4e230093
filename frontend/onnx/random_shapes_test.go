package onnx_test

import (
	"math"
	"slices"
)

// scanCase is Scan of a body that adds half of the state to an element of each scanned input.
func scanCase(c *opCase) {
	steps, count, element := c.between(1, 6), c.between(1, 2), c.shape(0, 2, 4)
	state := c.random("f32", element...)
	c.int("num_scan_inputs", count)
	c.give("f32", state)
	rank := len(element) + 1
	var inputAxes, inputDirections []int
	var scanned []array
	ports := []msg{port("s", float, anyInts(element)...)}
	list := []msg{node("Mul", names("s", "half"), names("h"))}
	last := "h"
	for i := range count {
		axis := c.IntN(rank)
		inputAxes = append(inputAxes, c.either(axis, rank))
		inputDirections = append(inputDirections, c.IntN(2))
		x := c.random("f32", slices.Insert(slices.Clone(element), axis, steps)...)
		scanned = append(scanned, x)
		name, sum := []string{"x", "z"}[i], []string{"sum", "sums"}[i]
		ports = append(ports, port(name, float, anyInts(element)...))
		list = append(list, node("Add", names(last, name), names(sum)))
		last = sum
		c.give("f32", x)
	}
	list = append(list, node("Identity", names(last), names("next")), node("Neg", names(last), names("out")))
	body := graph(inputs(ports...), weights(floats("half", []float32{0.5})), nodes(list...), outputs("next", "out"))
	c.attributes = append(c.attributes, graphAttr("body", body))
	c.ints("scan_input_axes", inputAxes)
	c.ints("scan_input_directions", inputDirections)
	outAxis, outDirection := c.IntN(rank), c.IntN(2)
	c.ints("scan_output_axes", []int{c.either(outAxis, rank)})
	c.ints("scan_output_directions", []int{outDirection})
	y := newArray(slices.Insert(slices.Clone(element), outAxis, steps)...)
	s := array{state.dims, slices.Clone(state.v)}
	if s.dims == nil {
		s.dims = []int{}
	}
	for step := range steps {
		i := 0
		each(element, func(at []int) {
			v := s.v[i] / 2
			for k, x := range scanned {
				t := step
				if inputDirections[k] == 1 {
					t = steps - 1 - step
				}
				v += x.at(slices.Insert(slices.Clone(at), wrapped(float64(inputAxes[k]), rank), t)...)
			}
			s.v[i] = v
			t := step
			if outDirection == 1 {
				t = steps - 1 - step
			}
			y.set(-v, slices.Insert(slices.Clone(at), outAxis, t)...)
			i++
		})
	}
	c.expect(s, 1e-5)
	c.expect(y, 1e-5)
}

func tileCase(c *opCase) {
	k := c.anyKind()
	x := c.random(k, c.shape(1, 4, 4)...)
	var repeats []int
	to := slices.Clone(x.dims)
	for a := range to {
		repeats = append(repeats, c.between(0, 3))
		to[a] *= repeats[a]
	}
	c.give(k, x)
	c.integers(repeats...)
	c.expect(filled(to, func(at []int) float64 {
		for a, d := range x.dims {
			at[a] %= d
		}
		return x.at(at...)
	}), 0)
}

func expandCase(c *opCase) {
	k := c.anyKind()
	x := c.random(k, c.shape(0, 4, 4)...)
	for a := range x.dims {
		if c.chance(2) {
			x = c.random(k, with(x.dims, a, 1)...)
		}
	}
	shape := slices.Concat(c.shape(0, 2, 3), slices.Clone(x.dims))
	first := len(shape) - len(x.dims)
	to := slices.Clone(shape)
	for a := range to {
		switch {
		case a >= first && x.dims[a-first] == 1:
			shape[a] = c.between(1, 3)
			to[a] = shape[a]
		case c.chance(2) && a >= first:
			shape[a] = 1 // the input's extent stays
		}
	}
	c.give(k, x)
	c.integers(shape...)
	c.expect(filled(to, func(at []int) float64 {
		at = at[len(at)-len(x.dims):]
		for a, d := range x.dims {
			at[a] = min(at[a], d-1)
		}
		return x.at(at...)
	}), 0)
}

func concatCase(c *opCase) {
	k := c.anyKind()
	dims := c.shape(1, 4, 4)
	axis := c.IntN(len(dims))
	c.axis(axis, len(dims))
	var list []array
	total := 0
	for range c.between(1, 3) {
		x := c.random(k, with(dims, axis, c.between(1, 4))...)
		list = append(list, x)
		total += x.dims[axis]
		c.maybe(k, x)
	}
	c.expect(filled(with(dims, axis, total), func(at []int) float64 {
		for _, x := range list {
			if at[axis] < x.dims[axis] {
				return x.at(at...)
			}
			at[axis] -= x.dims[axis]
		}
		return 0
	}), 0)
}

// reshapeCase is Reshape with kept and inferred extents, and sometimes none of them.
func reshapeCase(c *opCase) {
	k := c.anyKind()
	x := c.random(k, c.shape(1, 4, 4)...)
	to, n := []int{}, len(x.v)
	for n > 1 && len(to) < 6 && c.IntN(5) > 0 {
		d := c.between(1, n)
		for n%d != 0 {
			d--
		}
		to, n = append(to, d), n/d
	}
	to = append(to, n)
	given := slices.Clone(to)
	for a := range given {
		if a < len(x.dims) && given[a] == x.dims[a] && c.chance(2) {
			given[a] = 0
		}
	}
	if a := c.IntN(len(given)); c.chance(2) {
		given[a] = -1
	}
	c.give(k, x)
	c.integers(given...)
	c.expect(array{to, x.v}, 0)
}

func flattenCase(c *opCase) {
	k := c.anyKind()
	x := c.random(k, c.shape(1, 4, 4)...)
	axis := c.between(0, len(x.dims))
	if axis == len(x.dims) {
		c.int("axis", axis)
	} else if axis != 1 || c.chance(2) {
		c.axis(axis, len(x.dims))
	}
	c.give(k, x)
	c.expect(array{[]int{size(x.dims[:axis]), size(x.dims[axis:])}, x.v}, 0)
}

func spaceToDepthCase(c *opCase) {
	n := c.between(1, 3)
	c.int("blocksize", n)
	depth, k := c.between(1, 3), c.anyKind()
	x := c.random(k, c.between(1, 2), depth, n*c.between(1, 3), n*c.between(1, 3))
	c.give(k, x)
	c.expect(filled([]int{x.dims[0], depth * n * n, x.dims[2] / n, x.dims[3] / n}, func(at []int) float64 {
		block := at[1] / depth
		return x.at(at[0], at[1]%depth, at[2]*n+block/n, at[3]*n+block%n)
	}), 0)
}

// matMulCase is MatMul of vectors, matrices and stacks of matrices.
func matMulCase(c *opCase) {
	m, k, n := c.between(1, 5), c.between(1, 6), c.between(1, 5)
	outer := c.shape(0, 2, 3)
	stack := func(last ...int) []int {
		dims := slices.Clone(outer[c.IntN(len(outer)+1):])
		for a := range dims {
			if c.chance(3) {
				dims[a] = 1
			}
		}
		return append(dims, last...)
	}
	a, b := c.random("f32", stack(m, k)...), c.random("f32", stack(k, n)...)
	vectorA, vectorB := len(a.dims) == 2 && c.chance(3), len(b.dims) == 2 && c.chance(3)
	if vectorA {
		m = 1
		a = c.random("f32", 1, k)
	}
	if vectorB {
		n = 1
		b = c.random("f32", k, 1)
	}
	given := func(x array, isVector bool) {
		if isVector {
			x.dims = []int{k}
		}
		c.maybe("f32", x)
	}
	given(a, vectorA)
	given(b, vectorB)
	rank := max(len(a.dims), len(b.dims)) - 2
	var to []int
	for i := range rank {
		d := 1
		for _, x := range []array{a, b} {
			if at := i - rank + len(x.dims) - 2; at >= 0 {
				d = max(d, x.dims[at])
			}
		}
		to = append(to, d)
	}
	y := filled(append(to, m, n), func(at []int) float64 {
		element := func(x array, i, j int) float64 {
			in := slices.Clone(at[rank-len(x.dims)+2 : rank])
			for i, d := range x.dims[:len(x.dims)-2] {
				in[i] = min(in[i], d-1)
			}
			return x.at(append(in, i, j)...)
		}
		sum := 0.0
		for i := range k {
			sum += element(a, at[rank], i) * element(b, i, at[rank+1])
		}
		return sum
	})
	if vectorB {
		y.dims = y.dims[:rank+1]
	}
	if vectorA {
		y.dims = slices.Delete(slices.Clone(y.dims), rank, rank+1)
	}
	c.expect(y, 1e-5)
}

func gemmCase(c *opCase) {
	m, k, n := c.between(1, 5), c.between(1, 6), c.between(1, 5)
	alpha, beta := 1.0, 1.0
	if c.chance(2) {
		alpha, beta = 0.5, -2
		c.float("alpha", alpha)
		c.float("beta", beta)
	}
	turnA, turnB := c.flag("transA", false), c.flag("transB", false)
	a, b := c.random("f32", m, k), c.random("f32", k, n)
	given := func(x array, turned bool) {
		if turned {
			x = filled([]int{x.dims[1], x.dims[0]}, func(at []int) float64 { return x.at(at[1], at[0]) })
		}
		c.maybe("f32", x)
	}
	given(a, turnA)
	given(b, turnB)
	bias := func(i, j int) float64 { return 0 }
	if c.chance(2) {
		dims := [][]int{{}, {1}, {n}, {1, n}, {m, 1}, {m, n}, {1, 1}}[c.IntN(7)]
		x := c.random("f32", dims...)
		c.maybe("f32", x)
		bias = func(i, j int) float64 {
			at := []int{i, j}[2-len(dims):]
			for a, d := range dims {
				at[a] = min(at[a], d-1)
			}
			return x.at(at...)
		}
	}
	c.expect(filled([]int{m, n}, func(at []int) float64 {
		sum := 0.0
		for i := range k {
			sum += a.at(at[0], i) * b.at(i, at[1])
		}
		return alpha*sum + beta*bias(at[0], at[1])
	}), 1e-5)
}

// statisticsCase is InstanceNormalization or MeanVarianceNormalization.
func statisticsCase(instance bool) func(c *opCase) {
	return func(c *opCase) {
		x := c.random("f32", slices.Concat([]int{c.between(1, 3), c.between(1, 3)}, c.shape(1, 2, 4))...)
		n := len(x.dims)
		epsilon, axes := 1e-5, []int{2, 3}[:n-2]
		scale, bias := slices.Repeat([]float64{1}, 3), make([]float64, 3)
		c.give("f32", x)
		if instance {
			if c.chance(2) {
				epsilon = 0.25
				c.float("epsilon", epsilon)
			}
			s, b := c.random("f32", x.dims[1]), c.random("f32", x.dims[1])
			c.maybe("f32", s)
			c.maybe("f32", b)
			scale, bias = s.v, b.v
		} else {
			epsilon, axes = 0, c.Perm(n)[:c.between(1, n)]
			var list []int
			for _, a := range axes {
				list = append(list, c.either(a, n))
			}
			c.ints("axes", list)
		}
		window := slices.Repeat([]int{1}, n)
		for _, a := range axes {
			window[a] = x.dims[a]
		}
		c.expect(filled(x.dims, func(at []int) float64 {
			sum, squares := 0.0, 0.0
			visit := func(f func(v float64)) {
				each(window, func(in []int) {
					from := slices.Clone(at)
					for _, a := range axes {
						from[a] = in[a]
					}
					f(x.at(from...))
				})
			}
			visit(func(v float64) { sum += v / float64(size(window)) })
			visit(func(v float64) { squares += (v - sum) * (v - sum) / float64(size(window)) })
			if !instance && squares < 1e-3 {
				return math.NaN() // 0/0
			}
			return (x.at(at...)-sum)/math.Sqrt(squares+epsilon)*scale[at[1]] + bias[at[1]]
		}), 1e-4)
	}
}

func lpNormalizationCase(c *opCase) {
	x := c.random("f32", c.shape(1, 4, 5)...)
	axis := c.IntN(len(x.dims))
	c.axis(axis, len(x.dims))
	p := c.between(1, 2)
	c.int("p", p)
	c.give("f32", x)
	c.expect(filled(x.dims, func(at []int) float64 {
		sum := 0.0
		for i := range x.dims[axis] {
			sum += math.Pow(math.Abs(x.at(with(at, axis, i)...)), float64(p))
		}
		if sum == 0 {
			return 0
		}
		return x.at(at...) / math.Pow(sum, 1/float64(p))
	}), 1e-5)
}

// nonZeroCase is NonZero, also of what another op has found.
func nonZeroCase(c *opCase) {
	k := pick(c.Rand, "f32", "i32", "bool", "u8")
	x := filled(c.shape(1, 4, 4), func([]int) float64 { return float64(c.IntN(2)) })
	c.give(k, x)
	var columns [][]int
	each(x.dims, func(at []int) {
		if x.at(at...) != 0 {
			columns = append(columns, at)
		}
	})
	c.expect(filled([]int{len(x.dims), len(columns)}, func(at []int) float64 {
		return float64(columns[at[1]][at[0]])
	}), 0)
}

// globalPoolCase is GlobalAveragePool, GlobalMaxPool or GlobalLpPool.
func globalPoolCase(op string) func(c *opCase) {
	return func(c *opCase) {
		x := c.random("f32", slices.Concat([]int{c.between(1, 3), c.between(1, 3)}, c.shape(1, 3, 4))...)
		p := 2
		if op == "GlobalLpPool" && c.chance(2) {
			p = c.between(1, 3)
			c.int("p", p)
		}
		c.give("f32", x)
		to := slices.Concat(x.dims[:2], slices.Repeat([]int{1}, len(x.dims)-2))
		c.expect(filled(to, func(at []int) float64 {
			sum, most, powers := 0.0, math.Inf(-1), 0.0
			each(x.dims[2:], func(in []int) {
				v := x.at(slices.Concat(at[:2], in)...)
				sum, most, powers = sum+v, math.Max(most, v), powers+math.Pow(math.Abs(v), float64(p))
			})
			switch op {
			case "GlobalMaxPool":
				return most
			case "GlobalLpPool":
				return math.Pow(powers, 1/float64(p))
			}
			return sum / float64(size(x.dims[2:]))
		}), 2e-5)
	}
}
