package onnx

import (
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc/frontend"
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

// validPart says that only the first `count` elements of a value along an axis are valid. For example, NonZero returns
// a tensor of maximum size, and only the first coordinates in it are valid. ir.Found is the same for an output.
type validPart struct {
	axis  int
	count tensor
}

// partlyValid returns a value in which only the first `count` elements along an axis are valid.
func partlyValid(t tensor, axis int, count tensor) *value {
	return &value{tensor: t, valid: &validPart{axis, count}}
}

// cut returns the valid part of d, the computed value of a tensor. count is the computed value of f.count.
func (f *validPart) cut(d, count *ir.Data) (*ir.Data, error) {
	n, err := count.Ints()
	if err != nil {
		return nil, err
	}
	return d.Front(f.axis, n[0])
}

// elementOf returns v as a scalar of dtype t. For an integer dtype, an infinite v stands for the smallest or the
// largest number. unsigned says that t is i64 but holds uint64.
func elementOf(t ir.DType, unsigned bool, v float64) *ir.Data {
	d := &ir.Data{DType: t, Bytes: make([]byte, t.BlockBytes())}
	if t.IsFloat() {
		ir.EncodeFloats(d.Bytes, t, []float64{v})
		return d
	}
	bits := 8 * t.BlockBytes()
	smallest, most := int64(0), int64(1)<<bits-1 // for uint64, most is -1, which has the same bits
	if t.Kind() == ir.KindInt && !unsigned {
		smallest, most = -1<<(bits-1), 1<<(bits-1)-1
	}
	if t == ir.Bool {
		most = 1
	}
	n := int64(v)
	switch {
	case math.IsInf(v, -1):
		n = smallest
	case math.IsInf(v, 1):
		n = most
	}
	ir.EncodeInts(d.Bytes, t, []int64{n})
	return d
}

// foundExtent is an extent that is known only in a run: its value as a tensor, and its upper bound. Integers that are
// computed while the graph is built, such as the results of Shape, have a symbol for it. The graph lacks this symbol.
type foundExtent struct {
	count   tensor
	largest ir.Dim
}

// foundSymbols is the prefix of the names of symbols that foundSymbol returns.
const foundSymbols = "vkc_found_"

// foundSymbol returns a new symbol that stands for count, the number of valid elements along an axis. extent is the
// extent of the axis, which bounds the symbol.
func (im *importer) foundSymbol(count tensor, extent ir.Dim) ir.Dim {
	name := fmt.Sprint(foundSymbols, count.Node().ID())
	im.found[name] = foundExtent{count, extent}
	return ir.Symbol(name, int(extent.Max()))
}

// validExtent returns the number of valid elements of input 0 along an axis, as a scalar of a dtype.
func (c *call) validExtent(axis int, t ir.DType) tensor {
	if c.mask != nil && c.mask.axis == axis {
		return c.mask.count.Cast(t)
	}
	return c.lengthOf(c.shapeOf(c.in[0])[axis], t)
}

// lengthOf returns an extent as a scalar of a dtype.
func (c *call) lengthOf(d ir.Dim, t ir.DType) tensor {
	if d.IsStatic() {
		return c.b.Scalar(t, float64(d.Add))
	}
	return castTo(c.b.DimValue(d), t)
}

// isFound reports whether d depends on a number of elements that a run finds.
func (im *importer) isFound(d ir.Dim) bool {
	return slices.ContainsFunc(d.Symbols(), func(name string) bool { return im.found[name] != foundExtent{} })
}

// dimValue returns d as an i64 scalar.
func (im *importer) dimValue(d ir.Dim) tensor {
	if n, ok := im.found[d.Sym]; ok {
		count := n.count.Cast(ir.I64)
		return count.MulScalar(float64(d.Mul)).AddScalar(float64(d.Add))
	}
	if im.isFound(d) {
		im.fail("it computes %s from a number of elements that is known only in a run: vkc supports only sums and "+
			"multiples of it", d)
	}
	return im.b.DimValue(d).Cast(ir.I64)
}

// largestShape returns a shape with each extent at its maximum. At most one extent may be known only in a run: a
// multiple of a number of elements, plus a constant. part is the valid part of the axis with that extent, or nil.
func (c *call) largestShape(extents ir.Shape) (largest ir.Shape, part *validPart) {
	extents = slices.Clone(extents)
	for axis, d := range extents {
		if !c.isFound(d) {
			continue
		}
		n, ok := c.found[d.Sym]
		if !ok || part != nil {
			c.fail("it makes %s: vkc supports one axis of an extent that is known only in a run, a multiple of a "+
				"number of elements", extents)
		}
		part = &validPart{axis, n.count}
		if d.Mul != 1 || d.Add != 0 {
			part.count = c.dimValue(d).Cast(ir.I32)
		}
		extents[axis] = n.largest.Times(d.Mul).Plus(d.Add)
	}
	return extents, part
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

// unique builds Unique: the distinct elements, or the distinct slices along an axis. They are sorted, or in the order
// of their first occurrence.
func unique(c *call) []*value {
	x, axis := c.x(0), 0
	if c.hasAttr("axis") {
		axis = c.axis(c.intAttr("axis", 0), x.Rank())
	} else {
		x = x.Reshape(-1)
	}
	return c.uniqueOf(x.Unique(axis), axis, c.intAttr("sorted", 1) != 0)
}

// uniqueOf returns the four results of Unique along an axis. The values in u are sorted. If `sorted` is not set,
// uniqueOf reorders them by first occurrence.
func (c *call) uniqueOf(u frontend.Uniques, axis int, sorted bool) []*value {
	if !sorted {
		// Order values by their first occurrence, with the invalid ones last.
		places := c.coordinatesTo(u.First.Dim(0))
		order := places.Lt(u.Count).Where(u.First, places.Lit(math.MaxInt32)).Argsort(0)
		u.Inverse = places.ScatterDistinct(0, order, places).IndexSelect(0, u.Inverse)
		u.Values, u.First, u.Counts = u.Values.IndexSelect(axis, order), u.First.IndexSelect(0, order),
			u.Counts.IndexSelect(0, order)
	}
	return []*value{partlyValid(u.Values, axis, u.Count), partlyValid(u.First.Cast(ir.I64), 0, u.Count),
		{tensor: u.Inverse.Cast(ir.I64)}, partlyValid(u.Counts.Cast(ir.I64), 0, u.Count)}
}

// nonMaxSuppression chooses among boxes [B, N, 4] with scores [B, C, N], for B images, N boxes and C classes. For each
// class it repeatedly takes the box with the highest score, and drops the boxes that overlap it.
func nonMaxSuppression(c *call) []*value {
	boxes, scores := c.x(0), c.x(1)
	if boxes.Rank() != 3 || scores.Rank() != 3 || !boxes.Dim(2).Is(4) {
		c.fail("boxes %s with scores %s: want [B, N, 4] and [B, C, N]", boxes, scores)
	}
	number := func(i int, absent float64) float64 {
		if c.has(i) {
			return c.number(i)
		}
		return absent
	}
	centered, overlap, least := c.flag("center_point_box", false), number(3, 0), number(4, -math.MaxFloat32)
	most := int(min(max(number(2, 0), 0), float64(scores.Dim(2).Max()))) // boxes of each class
	if most == 0 {
		return []*value{{tensor: c.b.Full(ir.I64, 0, ir.D(0), ir.D(3))}}
	}
	y1, x1, y2, x2 := boxEdges(boxes, centered)
	area := y2.Sub(y1).Mul(x2.Sub(x1))
	place := c.b.Iota(ir.I32, 2, scores.Shape())
	perClass := slices.Clone(scores.Shape())
	perClass[2] = ir.D(most)
	// The loop carries the number of boxes that were taken, the scores without taken and dropped boxes, and the taken
	// boxes: [B, C, most], -1 for none.
	taken := c.b.While(ir.D(most), []tensor{c.b.Scalar(ir.I32, 0), scores, c.b.Full(ir.I32, -1, perClass)},
		func(carried []tensor) tensor { return carried[1].Gt(carried[1].Lit(least)).Any() },
		func(carried []tensor) []tensor {
			n, rest := carried[0], carried[1]
			best := rest.ArgmaxKeep(2)                                                         // [B, C, 1]
			of := func(t tensor) tensor { return t.Broadcast(scores.Shape()).Gather(2, best) } // t of the best box
			found := of(rest).Gt(rest.Lit(least))
			height := y2.Min(of(y2)).Sub(y1.Max(of(y1))).Relu() // of the overlap with the best box
			width := x2.Min(of(x2)).Sub(x1.Max(of(x1))).Relu()
			common := height.Mul(width)
			dropped := common.Gt(area.Add(of(area)).Sub(common).MulScalar(overlap)).Or(place.Eq(best))
			return []tensor{n.AddScalar(1), dropped.Where(rest.Lit(-math.MaxFloat32), rest),
				carried[2].DynamicUpdateSlice(2, found.Where(best, best.Lit(-1)), n)}
		})[2]
	// A row of the result has an image, a class and a box.
	rows := c.b.Iota(ir.I32, 0, taken.Shape()).Stack(3, c.b.Iota(ir.I32, 1, taken.Shape()), taken).Reshape(-1, 3)
	y, count := rows.Compress(0, taken.Ge(taken.Lit(0)).Reshape(-1))
	return []*value{partlyValid(y.Cast(ir.I64), 0, count)}
}

// boxEdges returns the edges of boxes [B, N, 4] as tensors [B, 1, N], with y1 <= y2 and x1 <= x2. A box is given by its
// center, width and height or, if centered is not set, by two opposite corners (y, x, y, x).
func boxEdges(boxes tensor, centered bool) (y1, x1, y2, x2 tensor) {
	part := func(i int) tensor { return boxes.Index(2, i).Unsqueeze(1) }
	y1, x1, y2, x2 = part(0), part(1), part(2), part(3)
	if centered {
		x, y, halfWidth, halfHeight := y1, x1, y2.MulScalar(0.5), x2.MulScalar(0.5)
		y1, x1, y2, x2 = y.Sub(halfHeight), x.Sub(halfWidth), y.Add(halfHeight), x.Add(halfWidth)
	}
	return y1.Min(y2), x1.Min(x2), y1.Max(y2), x1.Max(x2)
}
