package frontend

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// reshapeGrad returns the gradient of ops that only change the shape: the result's gradient in the shape of the first
// operand.
func reshapeGrad(c GradCall) Tensor { return c.Grad.Reshape(c.Args[0].Shape()) }

// padSlice is the gradient of x.Slice. It returns t with zeros before and after it along an axis, so that t begins at
// `start` and the axis has the given extent.
func (t Tensor) padSlice(axis int, start int64, extent ir.Dim) Tensor {
	high, err := extent.Less(t.Dim(axis))
	if err == nil && high.IsStatic() {
		low, after := make([]int64, t.Rank()), make([]int64, t.Rank())
		low[axis], after[axis] = start, high.Add-start
		if start == 0 && high.Is(0) {
			return t
		}
		return t.unary(ir.OpPad, attr("low", low), attr("high", after))
	}
	// The padding depends on symbols, which op pad does not support.
	s := append(ir.Shape{}, t.Shape()...)
	s[axis] = extent
	return t.Lit(0).Broadcast(s).DynamicUpdateSlice(axis, t, t.b.Scalar(ir.I32, float64(start)))
}

// dilate inserts step-1 zeros after each element along an axis.
func (t Tensor) dilate(axis int, step int64) Tensor {
	s := append(ir.Shape{}, t.Shape()...)
	s[axis] = s[axis].Times(step)
	high := make([]int, t.Rank()+1)
	high[axis+1] = int(step - 1)
	return t.Unsqueeze(axis+1).Pad(make([]int, t.Rank()+1), high, 0).Reshape(s)
}

// gradOfSlice returns the gradient of slice: the result's gradient at the sliced elements, and zeros elsewhere.
func gradOfSlice(c GradCall) Tensor {
	g, starts, steps := c.Grad, c.Attrs.Ints("starts"), c.Attrs.Ints("steps")
	for i, d := range c.Args[0].Shape() {
		if len(steps) > 0 && steps[i] > 1 && !g.Dim(i).Is(0) { // put the elements back at the distance steps[i]
			g = g.dilate(i, steps[i])
			if over, err := g.Dim(i).Plus(starts[i]).Less(d); err == nil && over.IsStatic() && over.Add > 0 {
				g = g.Slice(i, 0, g.Dim(i).Plus(-over.Add)) // zeros past the end of x
			}
		}
		g = g.padSlice(i, starts[i], d)
	}
	return g
}

// transposeGrad returns the gradient of transpose: the inverse permutation.
func transposeGrad(c GradCall) Tensor {
	perm := c.Attrs.Ints("perm")
	back := make([]int, len(perm))
	for i, p := range perm {
		back[p] = i
	}
	return c.Grad.Transpose(back...)
}

// rolledBack returns the gradient of roll: a roll by the opposite shifts.
func rolledBack(c GradCall) Tensor {
	shifts := make([]int64, c.Grad.Rank())
	for i, n := range c.Attrs.Ints("shifts") {
		shifts[i] = -n
	}
	return c.Grad.unary(ir.OpRoll, attr("shifts", shifts))
}

// concatGrad is the rule of concat: each operand gets a slice of the gradient.
func concatGrad(c GradCall, i int) Tensor {
	axis, start := c.axis(), ir.D(0)
	for _, a := range c.Args[:i] {
		start, _ = start.Sum(a.Dim(axis)) // the shape rule has computed the same sum
	}
	if d := c.Args[i].Dim(axis); start.IsStatic() {
		if end, err := start.Sum(d); err == nil {
			return c.Grad.Slice(axis, start.Static(), end)
		}
	}
	return c.Grad.DynamicSlice(axis, c.Grad.b.DimValue(start), c.Args[i].Dim(axis))
}

// padGrad is the rule of pad. For modes that repeat elements of x, it builds the padding from gathers, and
// differentiates these.
func padGrad(c GradCall, want []bool) []Tensor {
	x, low, mode := c.Args[0], c.Attrs.Ints("low"), c.Attrs.String_("mode")
	if mode != "constant" {
		return definedBy(func(c GradCall) Tensor {
			y := c.Args[0]
			for i, d := range c.Result.Shape() {
				if d == x.Dim(i) {
					continue
				}
				// The argument's index for each index of the result, before it is limited to the argument (mode edge).
				at := x.b.Iota(ir.I32, 0, d).SubScalar(float64(low[i]))
				end := x.b.DimValue(x.Dim(i)).SubScalar(1)
				switch mode {
				case "wrap":
					at = at.Mod(x.b.DimValue(x.Dim(i)))
				case "reflect":
					// Indices go up to the last element and back again, with this period. It is 0 for one element.
					period := end.MulScalar(2)
					at = at.Mod(period.Max(period.Lit(1)))
					at = at.Min(period.Sub(at))
				}
				y = y.IndexSelect(i, at.Max(at.Lit(0)).Min(end))
			}
			return y
		})(c, want)
	}
	g := c.Grad
	for i, n := range low {
		g = g.Slice(i, int(n), x.Dim(i).Plus(n)) // the padding is constant and has no gradient
	}
	return []Tensor{g}
}

// clampIndices returns the indices t clamped to 0 … extent-1, and whether each index was in range.
func (t Tensor) clampIndices(extent ir.Dim) (limited, inRange Tensor) {
	i := t.signed()
	end := i.b.DimValue(extent).to(i.DType()).SubScalar(1)
	limited = i.Max(i.Lit(0)).Min(end)
	return limited, limited.Eq(i)
}

// clamped returns the indices t clamped to 0 … extent-1.
func (t Tensor) clamped(extent ir.Dim) Tensor { l, _ := t.clampIndices(extent); return l }

// coordinates returns rows of coordinates t, clamped to shape s: column r has coordinates along axis r. inRange says
// for each row whether all its coordinates were in range.
func (t Tensor) coordinates(s ir.Shape) (limited, inRange Tensor) {
	columns := make([]Tensor, t.Dim(-1).Static())
	for r := range columns {
		column, columnInRange := t.Slice(-1, r, r+1).clampIndices(s[r])
		columns[r] = column
		if r == 0 {
			inRange = columnInRange
		} else {
			inRange = inRange.And(columnInRange)
		}
	}
	return columns[0].Concat(-1, columns[1:]...), inRange
}

// alongAxis reshapes a vector to the given rank, with its elements along the axis and extent 1 elsewhere.
func (t Tensor) alongAxis(axis, rank int) Tensor {
	s := make(ir.Shape, rank)
	for i := range s {
		s[i] = ir.D(1)
	}
	s[axis] = t.Dim(0)
	return t.Reshape(s)
}

// scatterRule returns the rule of a scatter op, which writes updates into a base at indices or, if add is set, adds
// them. read returns the elements of a tensor with the base's shape at the indices, and whether each index is in range.
func scatterRule(add bool, read func(c GradCall, base Tensor) (at, inside Tensor)) gradRule {
	write := func(c GradCall, base, updates Tensor) Tensor {
		return base.apply(c.Result.node.Op(), []Tensor{c.Args[1], updates}, c.Attrs...)
	}
	return each(func(c GradCall, i int) Tensor {
		switch {
		case c.Args[0].Shape().MaxElems() == 0: // no update is in range, and there is no element to read
			return c.Args[i].zeros()
		case add && c.Attrs.Has("mode") && c.Attrs.String_("mode") != "add":
			return c.foldedScatter(i, read)
		case i == 0 && add:
			return c.Grad
		case i == 0:
			return write(c, c.Grad, c.Args[2].zeros())
		}
		g, inside := read(c, c.Grad)
		if !add && !c.Attrs.Bool("unique") { // of several updates of one element, only the last one gets the gradient
			number := c.Grad.b.order(c.Args[2].Shape())
			last, _ := read(c, write(c, number.Lit(-1).Broadcast(c.Grad.Shape()), number))
			inside = inside.And(last.Eq(number))
		}
		return inside.Where(g, g.Lit(0)).to(c.Args[2].DType())
	})
}

// foldedScatter returns the gradient of operand i of a scatter with mode mul, min or max. read is as in scatterRule.
func (c GradCall) foldedScatter(i int, read func(c GradCall, base Tensor) (at, inside Tensor)) Tensor {
	fold := func(mode string, base, updates Tensor) Tensor {
		attrs := slices.Clone(c.Attrs)
		for k := range attrs {
			if attrs[k].Name == "mode" {
				attrs[k].Value = mode
			}
		}
		return base.apply(c.Result.node.Op(), []Tensor{c.Args[1], updates}, attrs...)
	}
	base, mode := c.Args[0], c.Attrs.String_("mode")
	updates := c.Args[2].to(base.DType())
	operand := []Tensor{base, {}, updates}[i] // operand 1 is the indices, which have no gradient
	// atResult returns, for each element of operand i, the element of t at the place in the result that it is part of.
	atResult := func(t Tensor) Tensor {
		if i == 0 {
			return t
		}
		at, inside := read(c, t)
		return inside.Where(at, at.Lit(0))
	}
	if mode != "mul" { // of min and max: the elements of base and updates that equal the result share its gradient
		at, _ := read(c, c.Result)
		chosen := [2]Tensor{base.Eq(c.Result).to(base.DType()), updates.Eq(at).to(base.DType())}
		count := fold("add", chosen[0], chosen[1])
		return atResult(c.Grad.Div(count)).Mul(chosen[i/2]).to(c.Args[i].DType())
	}
	// The derivative by a factor is the product of the other factors: the product of all factors that are not zero,
	// divided by the factor unless that is zero. If another factor is zero, it is 0.
	isZero := func(t Tensor) Tensor { return t.Eq(t.Lit(0)) }
	zerosAsOnes := func(t Tensor) Tensor { return isZero(t).Where(t.Lit(1), t) }
	product := atResult(fold("mul", zerosAsOnes(base), zerosAsOnes(updates)))
	zeros := atResult(fold("add", isZero(base).to(base.DType()), isZero(updates).to(base.DType())))
	none := product.Lit(0)
	others := isZero(operand).Where(zeros.Eq(zeros.Lit(1)).Where(product, none),
		isZero(zeros).Where(product.Div(zerosAsOnes(operand)), none))
	return atResult(c.Grad).Mul(others).to(c.Args[i].DType())
}

// order returns a tensor of shape s in which each element is its own row-major index.
func (b *Builder) order(s ir.Shape) Tensor {
	n := b.Scalar(ir.I32, 0).Broadcast(s)
	for i, d := range s {
		n = n.Mul(b.DimValue(d)).Add(b.Iota(ir.I32, i, s))
	}
	return n
}

// readAlong is the read of scatterRule for scatter and scatter_add.
func readAlong(c GradCall, base Tensor) (at, inside Tensor) {
	indices, inside := c.Args[1].clampIndices(c.Args[0].Dim(c.axis()))
	return base.Gather(c.axis(), indices), inside
}

// readSlices is the read of scatterRule for index_add.
func readSlices(c GradCall, base Tensor) (at, inside Tensor) {
	indices, inside := c.Args[1].clampIndices(c.Args[0].Dim(c.axis()))
	return base.IndexSelect(c.axis(), indices), inside.alongAxis(c.axis(), base.Rank())
}

// readRows is the read of scatterRule for scatter_nd and scatter_nd_add.
func readRows(c GradCall, base Tensor) (at, inside Tensor) {
	indices, inside := c.Args[1].coordinates(c.Args[0].Shape())
	at = base.GatherND(indices)
	for inside.Rank()-1 < at.Rank() { // over the axes that rows do not index
		inside = inside.Unsqueeze(-1)
	}
	return at, inside.Squeeze(c.Args[1].Rank() - 1)
}

// init adds the gradient rules of ops that move elements to fixed places.
func init() {
	gradRows(map[ir.Op]gradRule{
		ir.OpReshape:   first(reshapeGrad),
		ir.OpSqueeze:   first(reshapeGrad),
		ir.OpUnsqueeze: first(reshapeGrad),
		ir.OpTranspose: first(transposeGrad),
		ir.OpBroadcast: first(func(c GradCall) Tensor { return c.Grad }),
		ir.OpSlice:     first(gradOfSlice),
		ir.OpFlip:      first(func(c GradCall) Tensor { return c.Grad.unary(ir.OpFlip, c.Attrs...) }),
		ir.OpRoll:      first(rolledBack),

		ir.OpConcat: each(concatGrad),
		ir.OpPad:    padGrad,
		ir.OpTril:   first(func(c GradCall) Tensor { return c.Grad.unary(ir.OpTril, c.Attrs...) }),
		ir.OpTriu:   first(func(c GradCall) Tensor { return c.Grad.unary(ir.OpTriu, c.Attrs...) }),
	})
}

// init adds the gradient rules of ops that move elements by indices.
func init() {
	gradRows(map[ir.Op]gradRule{
		// Gathers clamp indices, so the gradient adds at clamped indices. It adds in the order of the indices, so that
		// the bits are the same in every run.
		ir.OpGather: first(func(c GradCall) Tensor {
			x, axis := c.Args[0], c.axis()
			return x.zeros().ScatterAdd(axis, c.Args[1].clamped(x.Dim(axis)), c.Grad)
		}),
		ir.OpIndexSelect: first(func(c GradCall) Tensor {
			x, axis := c.Args[0], c.axis()
			return x.zeros().IndexAdd(axis, c.Args[1].clamped(x.Dim(axis)), c.Grad)
		}),
		ir.OpEmbedding: first(func(c GradCall) Tensor {
			table := c.Args[0]
			return table.zeros().ScatterNDAdd(c.Args[1].clamped(table.Dim(0)).Unsqueeze(-1), c.Grad)
		}),
		ir.OpGatherND: first(func(c GradCall) Tensor {
			at, _ := c.Args[1].coordinates(c.Args[0].Shape())
			return c.Args[0].zeros().ScatterNDAdd(at, c.Grad)
		}),
		ir.OpDynamicSlice: first(func(c GradCall) Tensor {
			return c.Args[0].zeros().DynamicUpdateSlice(c.axis(), c.Grad, c.Args[1])
		}),
		ir.OpDynamicUpdateSlice: each(func(c GradCall, i int) Tensor {
			update, start, axis := c.Args[1], c.Args[2], c.axis()
			switch {
			case i == 0:
				return c.Grad.apply(ir.OpDynamicUpdateSlice, []Tensor{update.zeros(), start}, c.Attrs...)
			case c.Attrs.Bool("wrap"):
				at := start.b.Iota(ir.I64, 0, update.Dim(axis)).Add(start.to(ir.I64))
				return c.Grad.IndexSelect(axis, at.Mod(at.Lit(float64(c.Args[0].Dim(axis).Static()))))
			}
			return c.Grad.DynamicSlice(axis, start, update.Dim(axis))
		}),
		ir.OpScatter:      scatterRule(false, readAlong),
		ir.OpScatterAdd:   scatterRule(true, readAlong),
		ir.OpIndexAdd:     scatterRule(true, readSlices),
		ir.OpScatterND:    scatterRule(false, readRows),
		ir.OpScatterNDAdd: scatterRule(true, readRows),
	})
}
