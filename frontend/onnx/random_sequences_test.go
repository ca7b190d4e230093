package onnx_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// einsumCase is Einsum of one to three operands, with repeated letters and ellipses.
func einsumCase(c *opCase) {
	extents := map[rune]int{}
	letters := []rune("abcde")
	for _, l := range letters {
		extents[l] = c.between(1, 4)
	}
	more := c.shape(0, 2, 3) // the axes of the ellipsis
	anyMore := false
	var terms []string
	var operands []array
	used := map[rune]bool{}
	var axes [][]rune // of operands; digits are axes of the ellipsis
	for range c.between(1, 3) {
		var term []rune
		for range c.between(1, 3) {
			l := letters[c.IntN(len(letters))]
			if !slices.Contains(term, l) || c.chance(3) {
				term = append(term, l)
			}
			used[l] = true
		}
		text, list := string(term), slices.Clone(term)
		var dims []int
		if c.chance(4) {
			at, skip := c.IntN(len(term)+1), c.IntN(len(more)+1)
			text = string(term[:at]) + "..." + string(term[at:])
			var digits []rune
			for i := skip; i < len(more); i++ {
				digits = append(digits, rune('0'+i))
			}
			list = slices.Concat(term[:at], digits, term[at:])
			anyMore = true
		}
		for _, l := range list {
			if d, ok := extents[l]; ok {
				dims = append(dims, d)
			} else {
				dims = append(dims, more[l-'0'])
			}
		}
		terms, axes, operands = append(terms, text), append(axes, list), append(operands, c.random("f32", dims...))
	}
	equation := strings.Join(terms, ",")
	var result []rune
	var digits []rune
	if anyMore {
		first := len(more)
		for _, list := range axes {
			for _, l := range list {
				if l <= '9' {
					first = min(first, int(l-'0'))
				}
			}
		}
		for i := first; i < len(more); i++ {
			digits = append(digits, rune('0'+i))
		}
	}
	if c.chance(3) { // implicit: the letters that occur once, sorted
		result = slices.Clone(digits)
		for _, l := range letters {
			if strings.Count(equation, string(l)) == 1 {
				result = append(result, l)
			}
		}
	} else {
		for _, i := range c.Perm(len(letters)) {
			if used[letters[i]] && c.chance(2) {
				result = append(result, letters[i])
			}
		}
		text := string(result)
		if anyMore {
			at := c.IntN(len(result) + 1)
			text = string(result[:at]) + "..." + string(result[at:])
			result = slices.Concat(result[:at], digits, result[at:])
		}
		equation += "->" + text
	}
	c.text("equation", equation)
	for _, x := range operands {
		c.maybe("f32", x)
	}
	var all []rune
	var dims, to []int
	extent := func(l rune) int {
		if l <= '9' {
			return more[l-'0']
		}
		return extents[l]
	}
	for _, list := range axes {
		for _, l := range list {
			if !slices.Contains(all, l) {
				all, dims = append(all, l), append(dims, extent(l))
			}
		}
	}
	for _, l := range result {
		to = append(to, extent(l))
	}
	if to == nil {
		to = []int{}
	}
	y := newArray(to...)
	each(dims, func(at []int) {
		places := func(list []rune) (in []int) {
			for _, l := range list {
				in = append(in, at[slices.Index(all, l)])
			}
			return in
		}
		product := 1.0
		for i, x := range operands {
			product *= x.at(places(axes[i])...)
		}
		y.v[y.place(places(result)...)] += product
	})
	c.expect(y, 1e-5)
}

// attendCase is Attention without disputed combinations.
func attendCase(c *opCase) {
	batch, groups, each1 := c.between(1, 2), c.between(1, 2), c.between(1, 3)
	heads, queries, keys := groups*each1, c.between(1, 5), c.between(1, 6)
	d, e, past := c.between(1, 4), c.between(1, 4), 0
	flat := c.chance(2)
	q, k, v := c.random("f32", batch, heads, queries, d), c.random("f32", batch, groups, keys, d),
		c.random("f32", batch, groups, keys, e)
	arranged := func(x array) array {
		if !flat {
			return x
		}
		n, size := x.dims[1], x.dims[3]
		return filled([]int{batch, x.dims[2], n * size}, func(at []int) float64 {
			return x.at(at[0], at[2]/size, at[1], at[2]%size)
		})
	}
	if flat || c.chance(4) {
		c.int("q_num_heads", heads)
		c.int("kv_num_heads", groups)
	}
	scale := 1 / math.Sqrt(float64(d))
	if c.chance(2) {
		scale = 0.25
		c.float("scale", scale)
	}
	causal := c.flag("is_causal", false)
	c.give("f32", arranged(q))
	c.give("f32", arranged(k))
	c.give("f32", arranged(v))
	var pastK, pastV array
	if c.chance(3) {
		past = c.between(1, 4)
		pastK, pastV = c.random("f32", batch, groups, past, d), c.random("f32", batch, groups, past, e)
	}
	total := past + keys
	bias := func(at []int) float64 { return 0 }
	switch c.IntN(3) {
	case 0:
		c.skip()
	default:
		dims := []int{batch, heads, queries, total}
		for i := range 2 {
			if c.chance(2) {
				dims[i] = 1
			}
		}
		dims = dims[c.IntN(3):]
		kind := pick(c.Rand, "bool", "f32")
		mask := c.random(kind, dims...)
		c.give(kind, mask)
		bias = func(at []int) float64 {
			at = slices.Clone(at[4-len(mask.dims):])
			for i, n := range mask.dims {
				at[i] = min(at[i], n-1)
			}
			m := mask.at(at...)
			if kind == "bool" {
				return map[float64]float64{0: math.Inf(-1), 1: 0}[m]
			}
			return m
		}
	}
	joined := func(a, b array) array {
		if past == 0 {
			return b
		}
		return filled([]int{batch, groups, total, b.dims[3]}, func(at []int) float64 {
			if at[2] < past {
				return a.at(at...)
			}
			return b.at(with(at, 2, at[2]-past)...)
		})
	}
	if past > 0 {
		c.give("f32", pastK)
		c.give("f32", pastV)
	}
	k, v = joined(pastK, k), joined(pastV, v)
	y := newArray(batch, heads, queries, e)
	each([]int{batch, heads, queries}, func(at []int) {
		weights, sum, most := make([]float64, total), 0.0, math.Inf(-1)
		for j := range total {
			for i := range d {
				weights[j] += q.at(at[0], at[1], at[2], i) * k.at(at[0], at[1]/each1, j, i)
			}
			weights[j] = weights[j]*scale + bias([]int{at[0], at[1], at[2], j})
			if causal && j > at[2]+past {
				weights[j] = math.Inf(-1)
			}
			most = math.Max(most, weights[j])
		}
		if math.IsInf(most, -1) {
			return
		}
		for j := range total {
			weights[j] = math.Exp(weights[j] - most)
			sum += weights[j]
		}
		for j := range total {
			for i := range e {
				y.v[y.place(at[0], at[1], at[2], i)] += weights[j] / sum * v.at(at[0], at[1]/each1, j, i)
			}
		}
	})
	c.expect(arranged(y), 2e-5)
	if past > 0 {
		c.expect(k, 0)
		c.expect(v, 0)
	}
}

// rotaryCase is RotaryEmbedding.
func rotaryCase(c *opCase) {
	batch, heads, length, half := c.between(1, 2), c.between(1, 3), c.between(1, 4), c.between(1, 4)
	turned := half
	flat := c.chance(2)
	if flat || c.chance(2) {
		c.int("num_heads", heads)
	}
	if c.chance(2) {
		turned = c.between(1, half)
		c.int("rotary_embedding_dim", 2*turned)
	}
	between := c.flag("interleaved", false)
	x := c.random("f32", batch, heads, length, 2*half)
	arranged := func(x array) array {
		if !flat {
			return x
		}
		return filled([]int{batch, length, heads * 2 * half}, func(at []int) float64 {
			return x.at(at[0], at[2]/(2*half), at[1], at[2]%(2*half))
		})
	}
	c.give("f32", arranged(x))
	rows := c.between(1, 6)
	at := filled([]int{batch, length}, func([]int) float64 { return float64(c.IntN(rows)) })
	tables := c.chance(2)
	dims := []int{batch, length, turned}
	if tables {
		dims = []int{rows, turned}
	}
	cos, sin := c.random("f32", dims...), c.random("f32", dims...)
	c.maybe("f32", cos)
	c.maybe("f32", sin)
	if tables {
		c.maybe("i64", at)
	}
	c.expect(arranged(filled(x.dims, func(p []int) float64 {
		i := p[3]
		if i >= 2*turned {
			return x.at(p...)
		}
		pair, second := i%turned, i >= turned
		first, other := pair, pair+turned
		if between {
			pair, second = i/2, i%2 == 1
			first, other = 2*pair, 2*pair+1
		}
		row := []int{p[0], p[2], pair}
		if tables {
			row = []int{int(at.at(p[0], p[2])), pair}
		}
		a, b := x.at(with(p, 3, first)...), x.at(with(p, 3, other)...)
		if second {
			return sin.at(row...)*a + cos.at(row...)*b
		}
		return cos.at(row...)*a - sin.at(row...)*b
	})), 1e-5)
}

// lossCase is a loss of log-probabilities or of scores.
func lossCase(softmax bool) func(c *opCase) {
	return func(c *opCase) {
		batch, classes := c.between(1, 3), c.between(1, 5)
		dims := slices.Concat([]int{batch, classes}, c.shape(0, 2, 4))
		reduction := pick(c.Rand, "mean", "sum", "none")
		if reduction != "mean" || c.chance(2) {
			c.text("reduction", reduction)
		}
		ignored := math.MaxInt32
		if c.chance(2) {
			ignored = pick(c.Rand, -1, 255, -100, 0, classes)
			c.int("ignore_index", ignored)
		}
		x := c.random("f32", dims...)
		class := filled(slices.Concat(dims[:1], dims[2:]), func([]int) float64 {
			if ignored != math.MaxInt32 && c.chance(4) {
				return float64(ignored)
			}
			return float64(c.IntN(classes))
		})
		weights := filled([]int{classes}, func([]int) float64 { return 1 })
		c.give("f32", x)
		c.maybe(pick(c.Rand, "i64", "i32"), class)
		if c.chance(2) {
			weights = filled([]int{classes}, func([]int) float64 { return float64(c.between(1, 8)) / 4 })
			c.maybe("f32", weights)
		}
		logs := x
		if softmax {
			logs = filled(dims, func(at []int) float64 {
				sum := 0.0
				for i := range classes {
					sum += math.Exp(x.at(with(at, 1, i)...))
				}
				return x.at(at...) - math.Log(sum)
			})
		}
		sum, total := 0.0, 0.0
		y := filled(class.dims, func(at []int) float64 {
			k := int(class.at(at...))
			if k == ignored {
				return 0
			}
			v := -logs.at(slices.Concat(at[:1], []int{k}, at[1:])...) * weights.v[k]
			sum, total = sum+v, total+weights.v[k]
			return v
		})
		switch reduction {
		case "sum":
			y = array{[]int{}, []float64{sum}}
		case "mean":
			y = array{[]int{}, []float64{sum / total}}
		}
		c.expect(y, 2e-5)
		if softmax && c.chance(2) {
			c.expect(logs, 2e-5)
		}
	}
}

func reverseSequenceCase(c *opCase) {
	x := c.random("f32", c.shape(2, 4, 5)...)
	batch := c.IntN(2)
	if batch == 0 || c.chance(2) {
		c.int("batch_axis", batch)
		c.int("time_axis", 1-batch)
	}
	lens := filled([]int{x.dims[batch]}, func([]int) float64 { return float64(c.between(1, x.dims[1-batch])) })
	c.give("f32", x)
	c.maybe("i64", lens)
	c.expect(filled(x.dims, func(at []int) float64 {
		if n := int(lens.v[at[batch]]); at[1-batch] < n {
			at = with(at, 1-batch, n-1-at[1-batch])
		}
		return x.at(at...)
	}), 0)
}

// uniqueCase is Unique with all results.
func uniqueCase(c *opCase) {
	k := pick(c.Rand, "f32", "i64", "i32", "u8")
	x := filled(c.shape(1, 3, 5), func([]int) float64 { return float64(c.IntN(3)) })
	axis, n := -1, len(x.v)
	if c.chance(2) {
		axis = c.IntN(len(x.dims))
		c.axis(axis, len(x.dims))
		n = x.dims[axis]
	}
	sorted := c.flag("sorted", true)
	slice := func(i int) (list []float64) {
		if axis < 0 {
			return []float64{x.v[i]}
		}
		each(with(x.dims, axis, 1), func(at []int) { list = append(list, x.at(with(at, axis, i)...)) })
		return list
	}
	var first, counts, order []int
	of := make([]int, n)
	for i := range n {
		same := slices.IndexFunc(first, func(j int) bool { return slices.Equal(slice(i), slice(j)) })
		if same < 0 {
			same = len(first)
			first, counts = append(first, i), append(counts, 0)
		}
		counts[same]++
		of[i] = same
	}
	for i := range first {
		order = append(order, i)
	}
	if sorted {
		slices.SortFunc(order, func(a, b int) int { return slices.Compare(slice(first[a]), slice(first[b])) })
	}
	c.notFound()
	c.give(k, x)
	var y array
	if axis < 0 {
		y = filled([]int{len(first)}, func(at []int) float64 { return x.v[first[order[at[0]]]] })
	} else {
		y = filled(with(x.dims, axis, len(first)), func(at []int) float64 {
			return x.at(with(at, axis, first[order[at[axis]]])...)
		})
	}
	c.expect(y, 0)
	c.expect(filled([]int{len(first)}, func(at []int) float64 { return float64(first[order[at[0]]]) }), 0)
	c.expect(filled([]int{n}, func(at []int) float64 { return float64(slices.Index(order, of[at[0]])) }), 0)
	c.expect(filled([]int{len(first)}, func(at []int) float64 { return float64(counts[order[at[0]]]) }), 0)
}

// suppressionCase is NonMaxSuppression.
func suppressionCase(c *opCase) {
	batch, classes, n := c.between(1, 2), c.between(1, 2), c.between(1, 8)
	centers := c.flag("center_point_box", false)
	boxes := newArray(batch, n, 4)
	each([]int{batch, n}, func(at []int) {
		y, x := float64(c.between(0, 16))/8, float64(c.between(0, 16))/8
		h, w := float64(c.between(1, 8))/8, float64(c.between(1, 8))/8
		list := []float64{y, x, y + h, x + w}
		switch {
		case centers:
			list = []float64{x, y, w, h}
		case c.chance(3):
			list[0], list[2] = list[2], list[0]
		}
		for i, v := range list {
			boxes.set(v, at[0], at[1], i)
		}
	})
	scores := newArray(batch, classes, n)
	for i, v := range c.Perm(len(scores.v)) {
		scores.v[i] = float64(v)/16 + 1.0/64
	}
	c.notFound()
	c.give("f32", boxes)
	c.give("f32", scores)
	most, limit, least := pick(c.Rand, 0, 1, 2, 3, 4, 5, 1<<40), 0.0, math.Inf(-1)
	c.scalar("i64", float64(most))
	if c.chance(2) {
		limit = float64(c.between(1, 9))/10 + 0.013
		c.scalar("f32", limit)
		if c.chance(2) {
			least = float64(c.between(0, 8)) / 16
			c.scalar("f32", least)
		}
	}
	overlap := func(b, i, j int) float64 {
		corners := func(k int) (y0, x0, y1, x1 float64) {
			a := func(m int) float64 { return boxes.at(b, k, m) }
			if centers {
				return a(1) - a(3)/2, a(0) - a(2)/2, a(1) + a(3)/2, a(0) + a(2)/2
			}
			return math.Min(a(0), a(2)), math.Min(a(1), a(3)), math.Max(a(0), a(2)), math.Max(a(1), a(3))
		}
		ay0, ax0, ay1, ax1 := corners(i)
		by0, bx0, by1, bx1 := corners(j)
		h, w := math.Min(ay1, by1)-math.Max(ay0, by0), math.Min(ax1, bx1)-math.Max(ax0, bx0)
		if h <= 0 || w <= 0 {
			return 0
		}
		return h * w / ((ay1-ay0)*(ax1-ax0) + (by1-by0)*(bx1-bx0) - h*w)
	}
	var rows []float64
	for b := range batch {
		for class := range classes {
			order := []int{}
			for i := range n {
				if scores.at(b, class, i) > least {
					order = append(order, i)
				}
			}
			slices.SortFunc(order, func(i, j int) int {
				return cmp.Compare(scores.at(b, class, j), scores.at(b, class, i))
			})
			var kept []int
			for _, i := range order {
				overlaps := func(j int) bool { return overlap(b, i, j) > limit }
				if len(kept) < most && !slices.ContainsFunc(kept, overlaps) {
					kept = append(kept, i)
					rows = append(rows, float64(b), float64(class), float64(i))
				}
			}
		}
	}
	c.expect(array{[]int{len(rows) / 3, 3}, rows}, 0)
}

func rangeCase(c *opCase) {
	k := pick(c.Rand, "f32", "i32", "i64")
	start, step := float64(c.between(-9, 9)), float64(c.between(1, 4))
	if k == "f32" {
		start, step = start/4, step/4
	}
	if c.chance(2) {
		step = -step
	}
	limit := float64(c.between(-12, 12))
	n := max(0, int(math.Ceil((limit-start)/step)))
	c.scalar(k, start)
	c.scalar(k, limit)
	c.scalar(k, step)
	c.expect(filled([]int{n}, func(at []int) float64 { return start + float64(at[0])*step }), 1e-6)
}

func bitShiftCase(c *opCase) {
	direction := pick(c.Rand, "LEFT", "RIGHT")
	c.text("direction", direction)
	dims := c.shape(1, 3, 4)
	x := c.random("u8", dims...)
	by := filled(dims[c.IntN(len(dims)):], func([]int) float64 { return float64(c.IntN(8)) })
	c.maybe("u8", x)
	c.maybe("u8", by)
	c.expect(filled(dims, func(at []int) float64 {
		a, n := uint8(x.at(at...)), uint8(by.at(at[len(dims)-len(by.dims):]...))
		if direction == "LEFT" {
			return float64(a << n)
		}
		return float64(a >> n)
	}), 0)
}

func centerCropPadCase(c *opCase) {
	k := pick(c.Rand, "f32", "i64", "u8")
	x := c.random(k, c.shape(1, 4, 6)...)
	n := len(x.dims)
	axes := c.Perm(n)
	if c.chance(2) {
		axes = axes[:c.between(1, n)]
		var list []int
		for _, a := range axes {
			list = append(list, c.either(a, n))
		}
		c.ints("axes", list)
	} else {
		slices.Sort(axes)
	}
	to, start := slices.Clone(x.dims), make([]int, n)
	var sizes []int
	for _, a := range axes {
		to[a] = c.between(1, 8)
		sizes = append(sizes, to[a])
		if d := x.dims[a]; d >= to[a] {
			start[a] = (d - to[a]) / 2
		} else {
			start[a] = -((to[a] - d) / 2)
		}
	}
	c.give(k, x)
	c.integers(sizes...)
	c.expect(filled(to, func(at []int) float64 {
		for a := range at {
			at[a] += start[a]
		}
		if !x.has(at...) {
			return 0
		}
		return x.at(at...)
	}), 0)
}

func lrnCase(c *opCase) {
	n := c.between(1, 5)
	c.int("size", n)
	alpha, beta, bias := 1e-4, 0.75, 1.0
	if c.chance(2) {
		alpha, beta, bias = 0.5, 0.5, 2
		c.float("alpha", alpha)
		c.float("beta", beta)
		c.float("bias", bias)
	}
	x := c.random("f32", slices.Concat([]int{c.between(1, 2)}, c.shape(1, 3, 6))...)
	c.give("f32", x)
	c.expect(filled(x.dims, func(at []int) float64 {
		sum := 0.0
		for i := max(0, at[1]-(n-1)/2); i <= min(x.dims[1]-1, at[1]+n/2); i++ {
			v := x.at(with(at, 1, i)...)
			sum += v * v
		}
		return x.at(at...) / math.Pow(bias+alpha/float64(n)*sum, beta)
	}), 2e-5)
}

// softmaxCase is Softmax, LogSoftmax or Hardmax.
func softmaxCase(op string) func(c *opCase) {
	return func(c *opCase) {
		x := c.random("f32", c.shape(1, 4, 6)...)
		axis := c.IntN(len(x.dims))
		if axis < len(x.dims)-1 || c.chance(2) {
			c.axis(axis, len(x.dims))
		}
		c.give("f32", x)
		c.expect(filled(x.dims, func(at []int) float64 {
			sum, best := 0.0, 0
			for i := range x.dims[axis] {
				v := x.at(with(at, axis, i)...)
				sum += math.Exp(v)
				if v > x.at(with(at, axis, best)...) {
					best = i
				}
			}
			switch op {
			case "Softmax":
				return math.Exp(x.at(at...)) / sum
			case "LogSoftmax":
				return x.at(at...) - math.Log(sum)
			}
			return map[bool]float64{true: 1}[best == at[axis]]
		}), 2e-5)
	}
}

// tensorScatterCase is TensorScatter.
func tensorScatterCase(c *opCase) {
	x := c.random("f32", c.shape(3, 4, 5)...)
	n := len(x.dims)
	axis := c.between(1, n-1)
	if axis != n-2 || c.chance(2) {
		c.axis(axis, n)
	}
	mode := c.choice("mode", "linear", "circular")
	length := c.between(1, x.dims[axis])
	updates := c.random("f32", with(x.dims, axis, length)...)
	at := newArray(x.dims[0])
	given := c.chance(2)
	if given {
		for i := range at.v {
			at.v[i] = float64(c.IntN(x.dims[axis] - length + 1))
			if mode == "circular" {
				at.v[i] = float64(c.IntN(x.dims[axis]))
			}
		}
	}
	c.opset = 24
	c.give("f32", x)
	c.give("f32", updates)
	if given {
		c.maybe("i64", at)
	}
	y := array{x.dims, slices.Clone(x.v)}
	each(updates.dims, func(from []int) {
		y.set(updates.at(from...), with(from, axis, (int(at.v[from[0]])+from[axis])%x.dims[axis])...)
	})
	c.expect(y, 0)
}

// maxUnpoolCase is MaxUnpool of distinct indices.
func maxUnpoolCase(c *opCase) {
	n := c.between(1, 3)
	outer := []int{c.between(1, 2), c.between(1, 2)}
	var kernel, stride, low, high, from, to []int
	for range n {
		k, s, d := c.between(1, 3), c.between(1, 3), c.between(1, 3)
		l, h := c.IntN(k), c.IntN(k)
		extent := (d-1)*s + k - l - h
		if extent < d {
			l, h, extent = 0, 0, (d-1)*s+k
		}
		kernel, stride, low, high = append(kernel, k), append(stride, s), append(low, l), append(high, h)
		from, to = append(from, d), append(to, extent)
	}
	c.ints("kernel_shape", kernel)
	c.ints("strides", stride)
	c.ints("pads", slices.Concat(low, high))
	x := c.random("f32", slices.Concat(outer, from)...)
	y := newArray(slices.Concat(outer, to)...)
	at := newArray(x.dims...)
	area, ins := size(to), size(from)
	for image := range size(outer) {
		for i, p := range c.Perm(area)[:ins] {
			at.v[image*ins+i] = float64(image*area + p)
			y.v[image*area+p] = x.v[image*ins+i]
		}
	}
	c.give("f32", x)
	c.maybe("i64", at)
	if c.chance(2) {
		wide := slices.Clone(y.dims)
		var list []int
		for i := range wide {
			if i > 1 {
				wide[i] += c.IntN(3)
			}
			list = append(list, wide[i])
		}
		c.integers(list...)
		y = filled(wide, func(at []int) float64 {
			if y.has(at...) {
				return y.at(at...)
			}
			return 0
		})
		c.what += fmt.Sprint(" to ", wide)
	}
	c.expect(y, 0)
}
