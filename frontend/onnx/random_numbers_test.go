package onnx_test

import (
	"math"
	"slices"
)

// reduceCase reduces axes, with attributes of all reductions.
func reduceCase(f func(list []float64) float64, slack float64) func(c *opCase) {
	return func(c *opCase) {
		k := c.number()
		if slack > 0 {
			k = "f32"
		}
		x := c.random(k, c.shape(0, 4, 5)...)
		n := len(x.dims)
		keeps := c.flag("keepdims", true)
		noop := c.flag("noop_with_empty_axes", false)
		axes := c.Perm(n)[:c.IntN(n+1)]
		c.give(k, x)
		var list []int
		for _, a := range axes {
			list = append(list, c.either(a, n))
		}
		if len(axes) > 0 || c.chance(2) {
			c.integers(list...)
		}
		if len(axes) == 0 && !noop {
			axes = c.Perm(n)
		}
		kept := slices.Clone(x.dims)
		for _, a := range axes {
			kept[a] = 1
		}
		groups := map[int][]float64{}
		index := newArray(kept...)
		each(x.dims, func(at []int) {
			to := slices.Clone(at)
			for _, a := range axes {
				to[a] = 0
			}
			groups[index.place(to...)] = append(groups[index.place(to...)], x.at(at...))
		})
		y := newArray(kept...)
		for i := range y.v {
			y.v[i] = f(groups[i])
		}
		if !keeps {
			y.dims = nil
			for a, d := range x.dims {
				if !slices.Contains(axes, a) {
					y.dims = append(y.dims, d)
				}
			}
			if y.dims == nil {
				y.dims = []int{}
			}
		}
		c.expect(y, slack)
	}
}

// fold returns a function of a list.
func fold(start float64, f func(sum, x float64) float64) func([]float64) float64 {
	return func(list []float64) float64 {
		sum := start
		for _, x := range list {
			sum = f(sum, x)
		}
		return sum
	}
}

func argCase(largest bool) func(c *opCase) {
	return func(c *opCase) {
		k := pick(c.Rand, "f32", "i32", "u8", "i8", "f16")
		x := c.random(k, c.shape(1, 4, 6)...)
		for i := range x.v { // with equal elements
			x.v[i] = math.Abs(math.Mod(math.Round(x.v[i]), 3))
		}
		axis := c.IntN(len(x.dims))
		if axis > 0 || c.chance(2) {
			c.axis(axis, len(x.dims))
		}
		keeps, last := c.flag("keepdims", true), c.flag("select_last_index", false)
		c.give(k, x)
		y := filled(with(x.dims, axis, 1), func(at []int) float64 {
			best := 0
			for i := range x.dims[axis] {
				a, b := x.at(with(at, axis, i)...), x.at(with(at, axis, best)...)
				if !largest {
					a, b = -a, -b
				}
				if a > b || a == b && last {
					best = i
				}
			}
			return float64(best)
		})
		if !keeps {
			y.dims = slices.Delete(slices.Clone(y.dims), axis, axis+1)
		}
		c.expect(y, 0)
	}
}

func topKCase(c *opCase) {
	k := pick(c.Rand, "f32", "i32", "i64", "f16")
	x := c.random(k, c.shape(1, 3, 8)...)
	axis := c.IntN(len(x.dims))
	if axis < len(x.dims)-1 || c.chance(2) {
		c.axis(axis, len(x.dims))
	}
	largest := c.flag("largest", true)
	if c.chance(3) {
		c.int("sorted", 1)
	}
	n := c.between(0, x.dims[axis])
	c.give(k, x)
	c.integers(n)
	y := newArray(with(x.dims, axis, n)...)
	at := newArray(y.dims...)
	each(with(x.dims, axis, 1), func(place []int) {
		var order []int
		for i := range x.dims[axis] {
			order = append(order, i)
		}
		slices.SortStableFunc(order, func(a, b int) int {
			d := x.at(with(place, axis, a)...) - x.at(with(place, axis, b)...)
			if largest {
				d = -d
			}
			switch {
			case d < 0:
				return -1
			case d > 0:
				return 1
			}
			return a - b
		})
		for i := range n {
			y.set(x.at(with(place, axis, order[i])...), with(place, axis, i)...)
			at.set(float64(order[i]), with(place, axis, i)...)
		}
	})
	c.expect(y, 0)
	c.expect(at, 0)
}

func cumCase(start float64, f func(a, b float64) float64) func(c *opCase) {
	return func(c *opCase) {
		k := c.number()
		x := c.random(k, c.shape(1, 4, 6)...)
		if start == 1 {
			for i := range x.v {
				x.v[i] = math.Mod(math.Round(x.v[i]), 4)
			}
		}
		axis := c.IntN(len(x.dims))
		exclusive, reverse := c.flag("exclusive", false), c.flag("reverse", false)
		c.give(k, x)
		c.scalar("i64", float64(c.either(axis, len(x.dims))))
		y := newArray(x.dims...)
		each(with(x.dims, axis, 1), func(place []int) {
			sum := start
			for n := range x.dims[axis] {
				i := n
				if reverse {
					i = x.dims[axis] - 1 - n
				}
				at := with(place, axis, i)
				if exclusive {
					y.set(sum, at...)
				}
				sum = f(sum, x.at(at...))
				if !exclusive {
					y.set(sum, at...)
				}
			}
		})
		c.expect(y, 1e-5)
	}
}

func modCase(c *opCase) {
	k := pick(c.Rand, "f32", "i32", "i64", "i8", "u8")
	fmod := k == "f32"
	if fmod {
		c.int("fmod", 1)
	} else {
		fmod = c.flag("fmod", false)
	}
	dims := c.shape(1, 3, 4)
	x, y := c.random(k, dims...), c.random(k, dims[c.IntN(len(dims)):]...)
	for i := range y.v {
		if y.v[i] == 0 {
			y.v[i] = 3
		}
	}
	c.maybe(k, x)
	c.maybe(k, y)
	c.expect(filled(dims, func(at []int) float64 {
		a, b := x.at(at...), y.at(at[len(dims)-len(y.dims):]...)
		m := math.Mod(a, b)
		if !fmod && m != 0 && (m < 0) != (b < 0) {
			m += b
		}
		return m
	}), 1e-6)
}

// layerNormCase is LayerNormalization with all results, or RMSNormalization.
func layerNormCase(mean bool) func(c *opCase) {
	return func(c *opCase) {
		x := c.random("f32", c.shape(1, 4, 6)...)
		n := len(x.dims)
		axis := c.IntN(n)
		if axis < n-1 || c.chance(2) {
			c.axis(axis, n)
		}
		epsilon := 1e-5
		if c.chance(2) {
			epsilon = 0.5
			c.float("epsilon", epsilon)
		}
		inner := x.dims[axis:]
		broadcastable := func() array {
			dims := slices.Clone(inner)
			for a := range dims {
				if c.chance(4) {
					dims[a] = 1
				}
			}
			return c.random("f32", dims[c.IntN(len(dims)):]...)
		}
		scale, bias := broadcastable(), array{[]int{1}, []float64{0}}
		c.give("f32", x)
		c.maybe("f32", scale)
		if mean && c.chance(2) {
			bias = broadcastable()
			c.maybe("f32", bias)
		}
		outer := slices.Clone(x.dims)
		for a := axis; a < n; a++ {
			outer[a] = 1
		}
		means, inverse := newArray(outer...), newArray(outer...)
		each(outer, func(at []int) {
			sum, squares := 0.0, 0.0
			each(inner, func(in []int) { sum += x.at(slices.Concat(at[:axis], in)...) / float64(size(inner)) })
			if !mean {
				sum = 0
			}
			each(inner, func(in []int) {
				d := x.at(slices.Concat(at[:axis], in)...) - sum
				squares += d * d / float64(size(inner))
			})
			means.set(sum, at...)
			inverse.set(1/math.Sqrt(squares+epsilon), at...)
		})
		spread := func(a array, at []int) float64 {
			at = slices.Clone(at[len(at)-len(a.dims):])
			for i, d := range a.dims {
				at[i] = min(at[i], d-1)
			}
			return a.at(at...)
		}
		c.expect(filled(x.dims, func(at []int) float64 {
			return (x.at(at...)-spread(means, at))*spread(inverse, at)*spread(scale, at) + spread(bias, at)
		}), 1e-4)
		if mean && c.chance(2) {
			c.expect(means, 1e-5)
			c.expect(inverse, 1e-4)
		}
	}
}

func groupNormCase(c *opCase) {
	groups, each1 := c.between(1, 3), c.between(1, 3)
	channels := groups * each1
	x := c.random("f32", slices.Concat([]int{c.between(1, 2), channels}, c.shape(1, 3, 4))...)
	c.int("num_groups", groups)
	epsilon := 1e-5
	if c.chance(2) {
		epsilon = 0.25
		c.float("epsilon", epsilon)
	}
	scale, bias := c.random("f32", channels), c.random("f32", channels)
	c.give("f32", x)
	c.maybe("f32", scale)
	c.maybe("f32", bias)
	c.expect(filled(x.dims, func(at []int) float64 {
		sum, squares, n := 0.0, 0.0, 0.0
		g := at[1] / each1
		for i := range each1 {
			each(x.dims[2:], func(in []int) {
				v := x.at(slices.Concat([]int{at[0], g*each1 + i}, in)...)
				sum, squares, n = sum+v, squares+v*v, n+1
			})
		}
		m := sum / n
		return (x.at(at...)-m)/math.Sqrt(squares/n-m*m+epsilon)*scale.at(at[1]) + bias.at(at[1])
	}), 1e-4)
}

// recurrentCase is a recurrent layer with all attributes.
func recurrentCase(op string) func(c *opCase) {
	gates := map[string]int{"RNN": 1, "GRU": 3, "LSTM": 4}[op]
	return func(c *opCase) {
		steps, batch, ins, hidden := c.between(1, 7), c.between(1, 3), c.between(1, 4), c.between(1, 4)
		direction := c.choice("direction", "forward", "reverse", "bidirectional")
		count := 1
		if direction == "bidirectional" {
			count = 2
		}
		layout := c.flag("layout", false)
		if c.chance(2) {
			c.int("hidden_size", hidden)
		}
		clip := math.Inf(1)
		if c.chance(3) {
			clip = 0.75
			c.float("clip", clip)
		}
		each1 := map[string]int{"RNN": 1, "GRU": 2, "LSTM": 3}[op]
		f := map[string][]func(float64) float64{"RNN": {math.Tanh}, "GRU": {sigmoid, math.Tanh},
			"LSTM": {sigmoid, math.Tanh, math.Tanh}}[op]
		f = slices.Repeat(f, count)
		if c.chance(2) {
			f = c.functions(each1 * count)
		}
		resets, coupled := false, false
		switch op {
		case "GRU":
			resets = c.flag("linear_before_reset", false)
		case "LSTM":
			coupled = c.flag("input_forget", false)
		}
		x := c.random("f32", steps, batch, ins)
		w, r := c.random("f32", count, gates*hidden, ins), c.random("f32", count, gates*hidden, hidden)
		for _, list := range [][]float64{w.v, r.v} {
			for i := range list {
				list[i] /= 4
			}
		}
		b, start := newArray(count, 2*gates*hidden), newArray(count, batch, hidden)
		memory, peep := newArray(count, batch, hidden), newArray(count, 3*hidden)
		lens := filled([]int{batch}, func([]int) float64 { return float64(steps) })
		turned := func(a array) array { // in the other layout
			if !layout {
				return a
			}
			return filled(slices.Concat([]int{a.dims[1], a.dims[0]}, a.dims[2:]), func(at []int) float64 {
				return a.at(slices.Concat([]int{at[1], at[0]}, at[2:])...)
			})
		}
		c.give("f32", turned(x))
		c.maybe("f32", w)
		c.maybe("f32", r)
		optional := func(a *array, k string, fill func() array, laid bool) {
			if c.chance(2) {
				c.skip()
				return
			}
			*a = fill()
			if laid {
				c.maybe(k, turned(*a))
			} else {
				c.maybe(k, *a)
			}
		}
		optional(&b, "f32", func() array { return c.random("f32", b.dims...) }, false)
		optional(&lens, "i32", func() array {
			return filled([]int{batch}, func([]int) float64 { return float64(c.between(1, steps)) })
		}, false)
		optional(&start, "f32", func() array { return c.random("f32", start.dims...) }, true)
		if op == "LSTM" {
			optional(&memory, "f32", func() array { return c.random("f32", memory.dims...) }, true)
			optional(&peep, "f32", func() array { return c.random("f32", peep.dims...) }, false)
		}
		y, lastH := newArray(steps, count, batch, hidden), newArray(count, batch, hidden)
		lastC, most := newArray(count, batch, hidden), 0.0
		for d := range count {
			act := func(i int, v float64) float64 {
				return f[d*each1+i](math.Max(-clip, math.Min(clip, v)))
			}
			for n := range batch {
				h, m := make([]float64, hidden), make([]float64, hidden)
				for j := range hidden {
					h[j], m[j] = start.at(d, n, j), memory.at(d, n, j)
				}
				for s := range int(lens.at(n)) {
					if most = math.Max(most, largest(h, m)); !(most < 100) {
						return // rounding errors grow from step to step
					}
					t := s
					if direction == "reverse" || d == 1 {
						t = int(lens.at(n)) - 1 - s
					}
					input := func(g, j int) float64 {
						sum := b.at(d, g*hidden+j)
						for i := range ins {
							sum += x.at(t, n, i) * w.at(d, g*hidden+j, i)
						}
						return sum
					}
					state := func(g, j int, h []float64) float64 {
						sum := b.at(d, (gates+g)*hidden+j)
						for i := range hidden {
							sum += h[i] * r.at(d, g*hidden+j, i)
						}
						return sum
					}
					next, mem := make([]float64, hidden), make([]float64, hidden)
					reset := make([]float64, hidden)
					for j := range hidden {
						reset[j] = h[j]
						if op == "GRU" {
							reset[j] *= act(0, input(1, j)+state(1, j, h))
						}
					}
					for j := range hidden {
						switch op {
						case "RNN":
							next[j] = act(0, input(0, j)+state(0, j, h))
						case "GRU":
							z := act(0, input(0, j)+state(0, j, h))
							inner := state(2, j, reset)
							if resets {
								inner = act(0, input(1, j)+state(1, j, h)) * state(2, j, h)
							}
							next[j] = (1-z)*act(1, input(2, j)+inner) + z*h[j]
						case "LSTM":
							in := act(0, input(0, j)+state(0, j, h)+peep.at(d, j)*m[j])
							forget := act(0, input(2, j)+state(2, j, h)+peep.at(d, 2*hidden+j)*m[j])
							if coupled {
								forget = 1 - in
							}
							mem[j] = forget*m[j] + in*act(1, input(3, j)+state(3, j, h))
							out := act(0, input(1, j)+state(1, j, h)+peep.at(d, hidden+j)*mem[j])
							next[j] = out * act(2, mem[j])
						}
						y.set(next[j], t, d, n, j)
					}
					h, m = next, mem
				}
				for j := range hidden {
					lastH.set(h[j], d, n, j)
					lastC.set(m[j], d, n, j)
				}
			}
		}
		if layout {
			y = filled([]int{batch, steps, count, hidden}, func(at []int) float64 {
				return y.at(at[1], at[2], at[0], at[3])
			})
		}
		if !(math.Max(most, largest(lastH.v, lastC.v)) < 100) {
			return
		}
		c.expect(y, 2e-4)
		c.expect(turned(lastH), 2e-4)
		if op == "LSTM" {
			c.expect(turned(lastC), 2e-4)
		}
	}
}

// largest returns the largest magnitude of numbers.
func largest(lists ...[]float64) (most float64) {
	for _, v := range slices.Concat(lists...) {
		most = math.Max(most, math.Abs(v))
	}
	return most
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// functions returns n random activation functions, and adds their attributes.
func (c *opCase) functions(n int) (list []func(float64) float64) {
	var names []string
	var alphas, betas []float32
	number := func(list *[]float32) float64 {
		v := float32(c.between(1, 4)) / 4
		*list = append(*list, v)
		return float64(v)
	}
	for range n {
		name := pick(c.Rand, "Relu", "Tanh", "Sigmoid", "Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh",
			"HardSigmoid", "Elu", "Softsign", "Softplus")
		var f func(x float64) float64
		switch name {
		case "Relu":
			f = func(x float64) float64 { return math.Max(0, x) }
		case "Tanh":
			f = math.Tanh
		case "Sigmoid":
			f = sigmoid
		case "Affine":
			a, b := number(&alphas), number(&betas)
			f = func(x float64) float64 { return a*x + b }
		case "LeakyRelu":
			a := number(&alphas)
			f = func(x float64) float64 {
				if x < 0 {
					return a * x
				}
				return x
			}
		case "ThresholdedRelu":
			a := number(&alphas) + 1e-3
			alphas[len(alphas)-1] = float32(a) // no element is at the threshold
			f = func(x float64) float64 {
				if x >= a {
					return x
				}
				return 0
			}
		case "ScaledTanh":
			a, b := number(&alphas), number(&betas)
			f = func(x float64) float64 { return a * math.Tanh(b*x) }
		case "HardSigmoid":
			a, b := number(&alphas), number(&betas)
			f = func(x float64) float64 { return math.Max(0, math.Min(1, a*x+b)) }
		case "Elu":
			a := number(&alphas)
			f = func(x float64) float64 {
				if x < 0 {
					return a * math.Expm1(x)
				}
				return x
			}
		case "Softsign":
			f = func(x float64) float64 { return x / (1 + math.Abs(x)) }
		default:
			f = func(x float64) float64 { return math.Log1p(math.Exp(x)) }
		}
		names, list = append(names, name), append(list, f)
	}
	m := msg{}.text(1, "activations")
	for _, name := range names {
		m = m.text(9, name)
	}
	c.attributes = append(c.attributes, m.int(20, 8))
	if len(alphas) > 0 {
		c.attributes = append(c.attributes, floatsAttr("activation_alpha", alphas...))
	}
	if len(betas) > 0 {
		c.attributes = append(c.attributes, floatsAttr("activation_beta", betas...))
	}
	c.what += " " + names[0]
	return list
}
