package onnx

import (
	"math"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// dynamicOps are the ops for which the number of result elements depends on values of a run. Their tensors have the
// maximum size, and the graph has a further output for the count.
var dynamicOps = table{
	"Compress":          manyOp(compress),
	"NonZero":           manyOp(nonzero),
	"Unique":            manyOp(unique),
	"NonMaxSuppression": manyOp(nonMaxSuppression),
}

// validPart says that only the first count elements of a value along an axis are valid. It corresponds to ir.Found. For
// example, NonZero returns a tensor of maximum size, and only the first coordinates in it are valid.
type validPart struct {
	axis  int
	count tensor
}

// partlyValid returns a value in which only the first count elements along an axis are valid.
func partlyValid(t tensor, axis int, count tensor) *value {
	return &value{tensor: t, valid: &validPart{axis, count}}
}

// cut returns the valid part of d, the computed value of a tensor. counts has the counts of this tensor and of later
// ones; cut also returns the counts of the later ones.
func (f *validPart) cut(d *ir.Data, counts []*ir.Data) (*ir.Data, []*ir.Data, error) {
	n, err := counts[0].Ints()
	if err == nil {
		d, err = d.Front(f.axis, n[0])
	}
	return d, counts[1:], err
}

// propagateValid marks the valid part of the node's result, if only a part of an input is valid. It fails for ops
// without a rule for that.
func (c *call) propagateValid(results []*value) {
	for i, v := range c.in {
		if v == nil || v.valid == nil {
			continue
		}
		if len(results) != 1 || results[0] == nil || results[0].isList || results[0].isDims {
			c.failPartlyValid(v)
		}
		r := results[0]
		axis, ok := c.validAxis(i, c.shapeOf(v), c.shapeOf(r))
		if !ok || r.valid != nil && *r.valid != (validPart{axis, v.valid.count}) {
			c.failPartlyValid(v)
		}
		r.valid = &validPart{axis, v.valid.count}
	}
}

// failPartlyValid fails because the valid part of input v does not determine which part of the result is valid.
func (c *call) failPartlyValid(v *value) {
	c.fail("%q has as many elements along axis %d as a run finds, and vkc cannot say which part of the result is valid",
		v.name, v.valid.axis)
}

// validAxis returns the axis of the result that corresponds to the axis along which input i is only partly valid.
// from and to are the shapes of the input and the result.
func (c *call) validAxis(i int, from, to ir.Shape) (axis int, ok bool) {
	axis = c.in[i].valid.axis
	op := c.node.Op
	if _, ok := elementwiseOps[op]; ok {
		fromEnd := len(from) - axis
		for _, other := range c.in { // an operand with extent 1 along the axis combines with every element alike
			if other != nil && other.valid == nil {
				if s := c.shapeOf(other); len(s) >= fromEnd && !s[len(s)-fromEnd].Is(1) {
					return 0, false
				}
			}
		}
		return len(to) - fromEnd, true
	}
	switch op {
	case "Transpose":
		perm := c.intsAttr("perm")
		if !c.hasAttr("perm") {
			return len(from) - 1 - axis, true
		}
		return slices.Index(perm, axis), true
	case "Gather":
		along := c.axis(c.intAttr("axis", 0), len(c.shapeOf(c.in[0])))
		switch {
		case i == 1:
			return along + axis, true
		case axis < along:
			return axis, true
		}
		return axis + len(c.shapeOf(c.in[1])) - 1, axis > along
	case "GatherND":
		return axis, i == 1 && axis < len(from)-1
	case "Slice":
		return axis, i == 0 && from[axis] == to[axis]
	case "Squeeze", "Unsqueeze": // axes of extent 1 are inserted or removed
		for k := range to {
			before, err := from[:axis].Numel()
			after, err2 := to[:k].Numel()
			if err == nil && err2 == nil && before == after && to[k] == from[axis] {
				return k, true
			}
		}
	case "Concat":
		return axis, axis != c.axis(c.intAttr("axis", 0), len(to))
	case "Softmax", "LogSoftmax": // hideInvalid hides elements along the axis
		return axis, true
	case "Hardmax":
		return axis, axis != c.axis(c.intAttr("axis", -1), len(from))
	case "LayerNormalization", "RMSNormalization":
		return axis, i == 0 && axis < c.axis(c.intAttr("axis", -1), len(from))
	case "CumSum": // an element depends on those before it
		along := c.ints(1)
		return axis, len(along) == 1 && (axis != c.axis(along[0], len(from)) || c.intAttr("reverse", 0) == 0)
	case "MatMul", "Gemm":
		return c.validOfMatmul(i, len(from), len(to))
	}
	if _, ok := reduceOps[op]; ok && i == 0 {
		folded := c.foldedAxes(len(from))
		at := axis
		for _, a := range folded {
			if a < axis && c.intAttr("keepdims", 1) == 0 {
				at--
			}
		}
		return at, !slices.Contains(folded, axis)
	}
	return 0, false
}

// validOfMatmul is validAxis for matmuls: rows of the first operand, and columns of the second.
func (c *call) validOfMatmul(i, from, to int) (axis int, ok bool) {
	axis = c.in[i].valid.axis
	rows := []int{from - 2, from - 1}[i]
	if c.node.Op == "Gemm" && c.intAttr([]string{"transA", "transB"}[min(i, 1)], 0) != 0 {
		rows = 1 - rows
	}
	if i > 1 || from < 2 || to < 2 || axis != rows {
		return 0, false
	}
	at := to - 2 + i
	if c.node.Op == "Gemm" && c.has(2) { // a bias with an element for each row would have another number of them
		s := c.shapeOf(c.in[2])
		if fromEnd := to - at; len(s) >= fromEnd && !s[len(s)-fromEnd].Is(1) {
			return 0, false
		}
	}
	return at, true
}

// foldedAxes returns the axes that a reduction, or ArgMax and ArgMin, folds.
func (c *call) foldedAxes(rank int) []int {
	if strings.HasPrefix(c.node.Op, "Arg") {
		return []int{c.axis(c.intAttr("axis", 0), rank)}
	}
	axes, given := c.axes(1)
	switch {
	case given && len(axes) > 0:
		return c.resolved(axes, rank)
	case c.flag("noop_with_empty_axes", false):
		return nil
	}
	return axesFrom(0, rank)
}

// neutral has the ops that fold an axis and that an element may not change, and that element: infinities are the least
// and the largest number of a dtype.
var neutral = map[string]float64{"ReduceSum": 0, "ReduceL1": 0, "ReduceL2": 0, "ReduceSumSquare": 0, "ReduceProd": 1,
	"ReduceLogSum": 0, "ReduceLogSumExp": math.Inf(-1), "ReduceMax": math.Inf(-1), "ReduceMin": math.Inf(1),
	"ArgMax": math.Inf(-1), "ArgMin": math.Inf(1), "Softmax": math.Inf(-1), "LogSoftmax": math.Inf(-1), "MatMul": 0}

// hideInvalid replaces the elements of inputs that are not valid by ones that do not change the result, if the op folds
// the axis along which they are.
func (c *call) hideInvalid() {
	value, ok := neutral[c.node.Op]
	if !ok {
		return
	}
	c.in = slices.Clone(c.in)
	for i, v := range c.in {
		if v == nil || v.valid == nil {
			continue
		}
		x := c.asTensor(v)
		if x.DType() == ir.Bool || !slices.Contains(c.inspector().hiddenAxes(i, x.Rank()), v.valid.axis) {
			continue
		}
		places := make(ir.Shape, x.Rank())
		for i := range places {
			places[i] = ir.D(1)
		}
		places[v.valid.axis] = x.Dim(v.valid.axis)
		there := c.b.Iota(ir.I32, v.valid.axis, places).Lt(v.valid.count)
		hidden := *v
		hidden.tensor = there.Where(x, c.b.Const(elementOf(x.DType(), value)))
		if !strings.HasSuffix(c.node.Op, "Softmax") { // which keeps the axis
			hidden.valid = nil
		}
		c.in[i] = &hidden
	}
}

// hiddenAxes returns the axes of input i that the op folds.
func (c *call) hiddenAxes(i, rank int) []int {
	switch c.node.Op {
	case "Softmax", "LogSoftmax":
		return []int{c.axis(c.intAttr("axis", -1), rank)}
	case "MatMul": // the contraction axis
		if i == 1 && rank > 1 {
			return []int{rank - 2}
		}
		return []int{rank - 1}
	}
	if i > 0 {
		return nil
	}
	return c.foldedAxes(rank)
}

// elementOf returns a scalar of a dtype. An infinite value is the least or the largest number of an integer dtype.
func elementOf(t ir.DType, v float64) *ir.Data {
	d := &ir.Data{DType: t, Bytes: make([]byte, t.BlockBytes())}
	if t.IsFloat() {
		ir.EncodeFloats(d.Bytes, t, []float64{v})
		return d
	}
	n, bits := int64(v), 8*t.BlockBytes()
	switch signed := t.Kind() == ir.KindInt; {
	case math.IsInf(v, -1) && signed:
		n = -1 << (bits - 1)
	case math.IsInf(v, -1):
		n = 0
	case math.IsInf(v, 1) && signed:
		n = 1<<(bits-1) - 1
	case math.IsInf(v, 1):
		n = 1<<bits - 1
	}
	ir.EncodeInts(d.Bytes, t, []int64{n})
	return d
}

// compress builds Compress: the slices along an axis for which a condition is true.
func compress(c *call) []*value {
	x, keep := c.x(0), c.x(1)
	axis := 0
	if c.hasAttr("axis") {
		axis = c.axis(c.intAttr("axis", 0), x.Rank())
	} else {
		x = x.Reshape(-1)
	}
	if keep.Rank() != 1 {
		c.fail("its condition is %s, want a vector", keep)
	}
	if keep.Dim(0) != x.Dim(axis) { // elements beyond a shorter condition are dropped
		x = x.Slice(axis, 0, keep.Dim(0))
	}
	y, count := x.Compress(axis, keep)
	return []*value{partlyValid(y, axis, count)}
}

// nonzero builds NonZero: the coordinates of the nonzero elements.
func nonzero(c *call) []*value {
	x := c.x(0)
	if x.Rank() == 0 {
		x = x.Reshape(1)
	}
	at, count := x.Nonzero()
	return []*value{partlyValid(at.Cast(ir.I64), 1, count)}
}

// unique builds Unique: the distinct elements, or slices along an axis, sorted or in the order of their first
// occurrence.
func unique(c *call) []*value {
	x, axis := c.x(0), 0
	if c.hasAttr("axis") {
		axis = c.axis(c.intAttr("axis", 0), x.Rank())
	} else {
		x = x.Reshape(-1)
	}
	return uniqueOf(x, axis, c.intAttr("sorted", 1) != 0)
}

// uniqueOf returns the results of Unique.
func uniqueOf(x tensor, axis int, sorted bool) []*value {
	u := x.Unique(axis)
	if !sorted {
		// Order values by their first occurrence, with the invalid ones last.
		places := x.Builder().Iota(ir.I32, 0, u.First.Dim(0))
		order := places.Lt(u.Count).Where(u.First, places.Lit(math.MaxInt32)).Argsort(0)
		u.Inverse = places.ScatterDistinct(0, order, places).IndexSelect(0, u.Inverse)
		u.Values, u.First, u.Counts = u.Values.IndexSelect(axis, order), u.First.IndexSelect(0, order),
			u.Counts.IndexSelect(0, order)
	}
	return []*value{partlyValid(u.Values, axis, u.Count), partlyValid(u.First.Cast(ir.I64), 0, u.Count),
		{tensor: u.Inverse.Cast(ir.I64)}, partlyValid(u.Counts.Cast(ir.I64), 0, u.Count)}
}

// maxBoxes is the largest number of boxes chosen per class, because each choice is an unrolled step.
const maxBoxes = 1024

// nonMaxSuppression chooses among boxes [B, N, 4] with scores [B, C, N]. For each class it repeatedly takes the box
// with the highest score, and drops the boxes that overlap it.
func nonMaxSuppression(c *call) []*value {
	boxes, scores := c.x(0), c.x(1)
	if boxes.Rank() != 3 || scores.Rank() != 3 || !boxes.Dim(2).Is(4) {
		c.fail("of boxes %s with scores %s: want [B, N, 4] and [B, C, N]", boxes, scores)
	}
	most := 0.0
	if c.has(2) {
		most = c.number(2)
	}
	overlap, least := 0.0, -math.MaxFloat32
	if c.has(3) {
		overlap = c.number(3)
	}
	if c.has(4) {
		least = c.number(4)
	}
	n := scores.Dim(2)
	if n.IsStatic() {
		most = min(most, float64(n.Add))
	}
	if !(most >= 1 && most <= maxBoxes) {
		c.fail("%v boxes of each class are chosen: want from 1 to %d", most, maxBoxes)
	}
	part := func(i int) tensor { return boxes.Index(2, i).Unsqueeze(1) } // [B, 1, N]
	y1, x1, y2, x2 := part(0), part(1), part(2), part(3)
	if c.intAttr("center_point_box", 0) != 0 {
		x, y, w, h := y1, x1, y2.MulScalar(0.5), x2.MulScalar(0.5)
		y1, x1, y2, x2 = y.Sub(h), x.Sub(w), y.Add(h), x.Add(w)
	}
	y1, x1, y2, x2 = y1.Min(y2), x1.Min(x2), y1.Max(y2), x1.Max(x2)
	area := y2.Sub(y1).Mul(x2.Sub(x1))
	place := c.b.Iota(ir.I32, 2, scores.Shape())
	// In each step, the box with the highest score, and whether its score is above the threshold: [B, C, 1] each.
	var chosen, valid []tensor
	for rest := scores; len(chosen) < int(most); {
		best := rest.ArgmaxKeep(2)
		of := func(t tensor) tensor { return t.Broadcast(scores.Shape()).Gather(2, best) }
		chosen, valid = append(chosen, best), append(valid, rest.Gather(2, best).Gt(rest.Lit(least)))
		height := y2.Min(of(y2)).Sub(y1.Max(of(y1))).Relu()
		width := x2.Min(of(x2)).Sub(x1.Max(of(x1))).Relu()
		common := height.Mul(width)
		dropped := common.Gt(area.Add(of(area)).Sub(common).MulScalar(overlap)).Or(place.Eq(best))
		rest = dropped.Where(rest.Lit(-math.MaxFloat32), rest)
	}
	box := chosen[0].Concat(2, chosen[1:]...)
	rows := c.b.Iota(ir.I32, 0, box.Shape()).Stack(3, c.b.Iota(ir.I32, 1, box.Shape()), box).Reshape(-1, 3)
	y, count := rows.Compress(0, valid[0].Concat(2, valid[1:]...).Reshape(-1))
	return []*value{partlyValid(y.Cast(ir.I64), 0, count)}
}
