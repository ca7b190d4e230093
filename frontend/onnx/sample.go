package onnx

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

var sampleOps = table{
	"AffineGrid":   manyOp(affineGrid),
	"Col2Im":       tensorOp(col2im),
	"DeformConv":   tensorOp(deformConv),
	"ImageDecoder": controlOp(imageDecoder),
	"MaxRoiPool":   tensorOp(maxRoiPool),
	"GridSample":   tensorOp(gridSample),
	"RoiAlign":     tensorOp(roiAlign),
}

// image is a tensor [N, C, spatial …] to be sampled at coordinates that are computed in a run.
type image struct {
	flat tensor // [N, C, all positions]
	axes []imageAxis
}

// imageAxis is a spatial axis of an image.
type imageAxis struct {
	extent ir.Dim
	size   tensor // the number of valid elements, a scalar in the dtype of coordinates
	last   tensor // size-1
}

// newImage returns x [N, C, spatial …] as an image. x has the spatial axes of input 0. t is the dtype of coordinates.
func (c *call) newImage(x tensor, t ir.DType) *image {
	s := x.Shape()
	if x.Rank() < 3 || slices.ContainsFunc(s[2:], func(d ir.Dim) bool { return d.Is(0) }) {
		c.fail("input %s: want [N, C, …] with elements", x)
	}
	p := &image{}
	for i, d := range s[2:] {
		size := c.validExtent(2+i, t)
		p.axes = append(p.axes, imageAxis{d, size, size.SubScalar(1)})
	}
	p.flat = x.Reshape(s[0], s[1], c.numel(s[2:]))
	return p
}

// clamp moves coordinates outside of the axis to its ends.
func (a *imageAxis) clamp(x tensor) tensor { return x.Max(x.Lit(0)).Min(a.last) }

// at returns the elements [N, C, P] at P points. coords has the points' coordinates along each spatial axis: integral
// floats [N, P]. Coordinates outside of the image are clamped.
func (p *image) at(coords []tensor) tensor {
	flat := tensor{} // row-major index of the element
	for i, a := range p.axes {
		k := a.clamp(coords[i]).Cast(ir.I32)
		if i == 0 {
			flat = k
		} else {
			flat = flat.Mul(flat.Builder().DimValue(a.extent)).Add(k)
		}
	}
	s := p.flat.Shape()
	return p.flat.Gather(2, flat.Unsqueeze(1).Broadcast(s[0], s[1], flat.Dim(1)))
}

// inside returns 1 for the points inside of the image, and 0 for others, [N, 1, P]. coords is as in at.
func (p *image) inside(coords []tensor) tensor {
	in := tensor{}
	for i, a := range p.axes {
		one := coords[i].Ge(coords[i].Lit(0)).And(coords[i].Le(a.last))
		if i == 0 {
			in = one
		} else {
			in = in.And(one)
		}
	}
	return in.Cast(p.flat.DType()).Unsqueeze(1)
}

// gridSample builds GridSample: it samples an image at the points of a grid [N, …, axes]. A point has a coordinate for
// each axis, from the innermost axis to the outermost. Coordinates are from -1 to 1 within the image.
func gridSample(c *call) tensor {
	x, grid := c.x(0), c.x(1)
	p := c.newImage(x, grid.DType())
	n := len(p.axes)
	if grid.Rank() != x.Rank() || !grid.Dim(-1).Is(n) {
		c.fail("grid %s for %s", grid, x)
	}
	corners := c.intAttr("align_corners", 0) != 0
	padding := c.choice("padding_mode", "zeros", "border", "reflection")
	mode := c.choice("mode", "linear", "nearest", "cubic")
	to := grid.Shape()[1 : grid.Rank()-1]
	points := c.numel(to)
	coords := make([]tensor, n)
	for i, a := range p.axes {
		g := grid.Index(-1, n-1-i).Reshape(grid.Dim(0), points)
		center := a.last.MulScalar(0.5)
		half := a.size.MulScalar(0.5)
		if corners {
			half = center // -1 and 1 are the centers of the outermost elements
		}
		coords[i] = g.Mul(half).Add(center)
	}
	// padded maps coordinates outside of the image into it, according to the padding mode.
	padded := func(at []tensor) []tensor {
		out := slices.Clone(at)
		for i, a := range p.axes {
			switch padding {
			case "border":
				out[i] = a.clamp(at[i])
			case "reflection":
				out[i] = a.reflected(at[i], corners)
			}
		}
		return out
	}
	sample := func(at []tensor) tensor {
		at = padded(at)
		y := p.at(at)
		if padding == "zeros" {
			y = y.Mul(p.inside(at)) // 0 outside of the image
		}
		return y
	}
	var y tensor
	switch mode {
	case "nearest":
		for i := range coords {
			coords[i] = coords[i].Round()
		}
		y = sample(coords)
	case "linear":
		y = blended(padded(coords), 0, 2, linearShares, tensor.Add, sample) // neighbours 0 and 1
	case "cubic":
		y = blended(coords, -1, 4, cubicShares, tensor.Add, sample) // neighbours -1 to 2
	}
	return y.Reshape(x.Dim(0), x.Dim(1), to)
}

// reflected mirrors coordinates at the edges of an axis until they are inside. If corners is set, the edges are the
// centers of the outermost elements, and otherwise the outer sides of these elements.
func (a *imageAxis) reflected(x tensor, corners bool) tensor {
	low, span := -0.5, a.size
	if corners {
		low, span = 0, a.last
	}
	d, twice := x.SubScalar(low), span.MulScalar(2)
	d = d.Mod(twice.Max(twice.Lit(1))) // from 0 to 2*span; Max because the span may be 0
	return a.clamp(d.Min(twice.Sub(d)).AddScalar(low))
}

// linearShares returns the weights of linear interpolation for the fraction f of the distance to the next element.
func linearShares(f tensor) []tensor { return []tensor{f.Neg().AddScalar(1), f} }

// cubicShares returns the weights of cubic convolution (Keys 1981) with a = -0.75, for the fraction f of the distance
// to the next element.
func cubicShares(f tensor) []tensor {
	const a = -0.75
	near := func(d tensor) tensor { // distance up to 1
		return d.Affine(a+2, -(a + 3)).Mul(d).Mul(d).AddScalar(1)
	}
	far := func(d tensor) tensor { // distance up to 2
		return d.Affine(a, -5*a).Mul(d).AddScalar(8 * a).Mul(d).AddScalar(-4 * a)
	}
	g := f.Neg().AddScalar(1)
	return []tensor{far(f.AddScalar(1)), near(f), near(g), far(g.AddScalar(1))}
}

// blended interpolates at coords. Along each axis it uses `taps` neighboring elements, from floor(coordinate)+first on.
// shares returns their weights for the fraction of the coordinate. sample returns the elements at integral coordinates.
// join combines two weighted elements, by a sum or maximum.
func blended(coords []tensor, first, taps int, shares func(f tensor) []tensor, join func(a, b tensor) tensor,
	sample func([]tensor) tensor) tensor {
	n := len(coords)
	floor, share := make([]tensor, n), make([][]tensor, n)
	for i, x := range coords {
		floor[i] = x.Floor()
		share[i] = shares(x.Sub(floor[i]))
	}
	total := 1
	for range n {
		total *= taps
	}
	var sum tensor
	for k := range total {
		at, weight := make([]tensor, n), tensor{}
		// The digits of k in base taps select a neighbour along each axis.
		for i, rest := 0, k; i < n; i, rest = i+1, rest/taps {
			at[i] = floor[i].AddScalar(float64(first + rest%taps))
			if i == 0 {
				weight = share[i][rest%taps]
			} else {
				weight = weight.Mul(share[i][rest%taps])
			}
		}
		part := sample(at).Mul(weight.Unsqueeze(1))
		if k == 0 {
			sum = part
		} else {
			sum = join(sum, part)
		}
	}
	return sum
}

// maxSamples is the largest number of samples in a cell of RoiAlign with a given sampling_ratio.
const maxSamples = 64

// roiAlign builds RoiAlign: it divides each region of an image into cells, and returns the average or maximum of
// samples in each cell (He et al. 2017, arXiv:1703.06870). With a sampling_ratio of 0, the size of a cell sets how many
// samples it has (see cellsOf).
func roiAlign(c *call) tensor {
	x, rois, batch := c.x(0), c.x(1), c.x(2)
	h, w, ratio := c.intAttr("output_height", 1), c.intAttr("output_width", 1), c.intAttr("sampling_ratio", 0)
	if ratio < 0 || ratio*ratio > maxSamples || h < 1 || w < 1 || x.Rank() != 4 || rois.Rank() != 2 {
		c.fail("sampling_ratio %d of %s: want a number from 0 to 8", ratio, x)
	}
	offset := 0.0
	if c.choice("coordinate_transformation_mode", "half_pixel", "output_half_pixel") == "half_pixel" {
		offset = 0.5
	}
	scale := c.floatAttr("spatial_scale", 1)
	edge := func(i int) tensor { return rois.Slice(1, i, i+1).Affine(scale, -offset) } // [R, 1]
	x0, y0, x1, y1 := edge(0), edge(1), edge(2), edge(3)
	width, height := x1.Sub(x0), y1.Sub(y0)
	if offset == 0 {
		width, height = width.Max(width.Lit(1)), height.Max(height.Lit(1))
	}
	largest := c.choice("mode", "avg", "max") == "max"
	p := c.newImage(x.IndexSelect(0, batch), x.DType())
	if ratio == 0 {
		return c.adaptiveRoiAlign(p, c.cellsOf(p.axes[0], y0, height, h), c.cellsOf(p.axes[1], x0, width, w), largest)
	}
	// The samples of a region form a grid of h*ratio rows and w*ratio columns.
	rows, columns := h*ratio, w*ratio
	grid := func(axis, n int) tensor {
		t := c.b.Iota(x.DType(), axis, rows, columns).Reshape(1, rows*columns)
		return t.Affine(1/float64(n), 0.5/float64(n))
	}
	ys := y0.Add(height.Mul(grid(0, rows)))
	xs := x0.Add(width.Mul(grid(1, columns)))
	inside := p.axes[0].near(ys).And(p.axes[1].near(xs)).Cast(x.DType()).Unsqueeze(1)
	coords := []tensor{p.axes[0].clamp(ys), p.axes[1].clamp(xs)}
	cell := func(v tensor) tensor { return v.Reshape(rois.Dim(0), x.Dim(1), h, ratio, w, ratio) }
	if largest { // the maximum of the weighted elements, not of the samples
		return cell(blended(coords, 0, 2, linearShares, tensor.Max, p.at).Mul(inside)).ReduceMax(3, 5)
	}
	return cell(blended(coords, 0, 2, linearShares, tensor.Add, p.at).Mul(inside)).Mean(3, 5)
}

// near returns whether coordinates are at most one element outside of the axis. In RoiAlign, samples elsewhere are 0.
func (a *imageAxis) near(x tensor) tensor { return x.Ge(x.Lit(-1)).And(x.Le(a.size)) }

// cells are the cells of R regions along an axis. Linear interpolation at a cell's samples gives weights to the
// elements of the axis. sum, most and least are [R, cells, extent].
type cells struct {
	sum         tensor // the sum of an element's weights, divided by the number of samples
	most, least tensor // the largest and smallest weight of an element; -Inf and Inf if no sample is next to it
	outside     tensor // [R, cells]: whether a sample is outside of the axis, or there is none
}

// cellsOf divides R regions into n cells along an axis. start and length are [R, 1]. The number of samples of a cell is
// its length rounded up. So samples are 1/2 to 1 apart, unless there is just one, and at most 5 are next to an element.
func (c *call) cellsOf(a imageAxis, start, length tensor, n int) *cells {
	size := length.DivScalar(float64(n))
	samples := size.Ceil() // none for a region with negative extents
	step := size.Div(samples.Max(samples.Lit(1)))
	start = start.Add(size.Mul(c.b.Iota(start.DType(), 1, 1, n)))
	sample := func(k, start, step tensor) tensor { return start.Add(k.AddScalar(0.5).Mul(step)) }
	none, last := samples.Le(samples.Lit(0)), samples.SubScalar(1)
	within := a.near(sample(last.Lit(0), start, step)).And(a.near(sample(last, start, step)))
	all := &cells{outside: none.Or(within.Not())}
	start, step, samples, last = start.Unsqueeze(2), step.Unsqueeze(2), samples.Unsqueeze(2), last.Unsqueeze(2)
	element := c.b.Iota(start.DType(), 2, 1, 1, a.extent)
	// first is the number of the first sample that is less than 1 from the element.
	first := element.SubScalar(1).Sub(start).Div(step).SubScalar(0.5).Floor()
	first = first.Min(last).Max(first.Lit(0))
	for i := range 6 { // one more than 5, because first is rounded down
		k := first.AddScalar(float64(i))
		at := sample(k, start, step)
		place := a.clamp(at)
		weight := place.Sub(element).Abs().Neg().AddScalar(1)
		counts := k.Lt(samples).And(a.near(at)).And(weight.Ge(weight.Lit(0)))
		// A sample at an element also gives its other neighbor a weight of 0.
		lower := place.Eq(place.Floor()).Where(weight.Lit(0), weight)
		sum := counts.Where(weight, weight.Lit(0))
		most, least := counts.Where(weight, weight.Lit(math.Inf(-1))), counts.Where(lower, weight.Lit(math.Inf(1)))
		if i == 0 {
			all.sum, all.most, all.least = sum, most, least
		} else {
			all.sum, all.most, all.least = all.sum.Add(sum), all.most.Max(most), all.least.Min(least)
		}
	}
	all.sum = all.sum.Div(samples.Max(samples.Lit(1)))
	return all
}

// adaptiveRoiAlign returns the mean of each cell's samples or, if largest is set, the largest weighted element. The
// result is [R, C, cells of rows, cells of columns]. A weight is the product of a weight along the rows and a weight
// along the columns, so one axis is computed after the other.
func (c *call) adaptiveRoiAlign(p *image, rows, columns *cells, largest bool) tensor {
	s := p.flat.Shape()
	x := p.flat.Reshape(s[0], s[1], p.axes[0].extent, p.axes[1].extent)
	if !largest {
		x = x.MatMulT(columns.sum.Unsqueeze(1)) // [R, C, H, columns]
		return rows.sum.Unsqueeze(1).MatMul(x)  // [R, C, rows, columns]
	}
	join := func(x tensor, by *cells) tensor { // [R, C, N, extent] to [R, C, N, cells]
		most, least, x := by.most.Unsqueeze(1, 2), by.least.Unsqueeze(1, 2), x.Unsqueeze(3)
		none := x.Lit(math.Inf(-1))
		y := most.Ge(most.Lit(0)).Where(most.Mul(x).Max(least.Mul(x)), none).ReduceMax(4)
		return y.Eq(none).Where(y.Lit(0), y) // all samples are outside
	}
	y := join(join(x, columns).SwapAxes(2, 3), rows).SwapAxes(2, 3)
	outside := rows.outside.Unsqueeze(1, 3).Or(columns.outside.Unsqueeze(1, 2))
	return outside.Where(y.Max(y.Lit(0)), y)
}

// affineGrid builds AffineGrid, which returns a grid for GridSample: the affine map theta of each element's position in
// an image. A position has coordinates from -1 to 1, from the innermost axis to the outermost.
func affineGrid(c *call) []*value {
	theta := c.x(0)
	size, part := c.largestShape(c.extents(1))
	n := len(size) - 2
	if n < 2 || n > 3 {
		c.fail("size is %s, want [N, C, H, W] or [N, C, D, H, W]", size)
	}
	dims := size[2:]
	align := c.intAttr("align_corners", 0) != 0
	points := c.numel(dims)
	coords := make([]tensor, n+1)
	for axis, d := range dims {
		length := castTo(c.b.DimValue(d), ir.F32)
		if part != nil && part.axis == axis+2 {
			length = castTo(part.count, ir.F32)
		}
		place := c.b.Iota(ir.F32, axis, dims).MulScalar(2)
		if align { // the outermost elements are at -1 and 1; a single element is at -1
			length = length.SubScalar(1)
			place = place.Div(length.Max(length.Lit(1)))
		} else {
			place = place.AddScalar(1).Div(length)
		}
		coords[n-1-axis] = place.SubScalar(1).Reshape(points)
	}
	coords[n] = c.b.Full(ir.F32, 1, points) // for the offset of the map
	y := castTo(stacked(coords, 1), theta.DType()).MatMulT(theta)
	v := &value{tensor: y.Reshape(slices.Concat(ir.Shape{theta.Shape()[0]}, dims, ir.ShapeOf(n)))}
	if part != nil && part.axis >= 2 {
		v.valid = &validPart{part.axis - 1, part.count}
	}
	return []*value{v}
}

// col2im builds Col2Im: an image as the sum of its windows. Each column of x [N, C*block, L] is a flattened window. It
// is a transposed convolution of each channel with one-hot windows.
func col2im(c *call) tensor {
	x, image, block := c.x(0), c.ints(1), c.ints(2)
	n, s := len(block), x.Shape()
	positions := volume(block) // elements of a window
	if positions < 1 || len(image) != n || n < 1 || n > 3 || x.Rank() != 3 || !s[1].IsStatic() ||
		s[1].Static()%positions != 0 {
		c.fail("input %s, image %v and block %v: want [N, C*block, L] and 1 to 3 axes", x, image, block)
	}
	stride, dilation, pads := c.perAxis("strides", n, 1), c.perAxis("dilations", n, 1), c.perAxis("pads", 2*n, 0)
	to, rest := ir.Shape{s[0], s[1]}, make([]int, n) // rest has the elements of the image after the last window
	for i := range n {
		room := image[i] + pads[i] + pads[n+i] - dilation[i]*(block[i]-1) - 1
		if room < 0 {
			c.fail("a block of %v does not fit into the image %v", block, image)
		}
		to = append(to, ir.D(room/stride[i]+1))
		rest[i] = room % stride[i]
	}
	channels := s[1].Static() / positions
	// Position p of a column goes to position p of the window.
	ones := make([]float32, channels*positions*positions)
	for ch := range channels {
		for p := range positions {
			ones[(ch*positions+p)*positions+p] = 1
		}
	}
	w := castTo(c.b.Const(ones, append([]int{channels * positions, 1}, block...)...), x.DType())
	return x.Reshape(to).ConvTranspose(w, frontend.Stride(stride...), frontend.PaddingLowHigh(pads[:n:n], pads[n:]),
		frontend.Dilation(dilation...), frontend.OutputPadding(rest...), frontend.Groups(channels))
}

// maxRoiPool builds MaxRoiPool: the largest element of each cell of regions. Input 1 has, for each region, the number
// of its image and its corners x, y, x, y: [R, 5]. Corners are rounded to elements. Cells that end within an element
// overlap.
func maxRoiPool(c *call) tensor {
	x, rois, shape := c.x(0), c.x(1), c.mustInts("pooled_shape")
	if x.Rank() != 4 || rois.Rank() != 2 || !rois.Dim(1).Is(5) || len(shape) != 2 || shape[0] < 1 || shape[1] < 1 {
		c.fail("input %s with regions %s and pooled_shape %v: want [N, C, H, W], [R, 5] and two numbers", x, rois,
			shape)
	}
	scale := c.floatAttr("spatial_scale", 1)
	corner := func(i int) tensor { // halves are rounded away from 0
		v := castTo(rois.Index(1, i), ir.F32).MulScalar(scale)
		return v.Abs().AddScalar(0.5).Floor().Mul(v.Sign())
	}
	// cells returns which elements of an axis belong to each cell, [R, cells, extent].
	cells := func(first, last tensor, count int, extent ir.Dim) tensor {
		size := last.Sub(first).AddScalar(1).Max(first.Lit(1)).DivScalar(float64(count)).Reshape(-1, 1, 1)
		at, i := c.b.Iota(ir.F32, 2, 1, 1, extent), c.b.Iota(ir.F32, 1, 1, count, 1)
		first = first.Reshape(-1, 1, 1)
		begin, end := i.Mul(size).Floor().Add(first), i.AddScalar(1).Mul(size).Ceil().Add(first)
		return at.Ge(begin).And(at.Lt(end))
	}
	rows := cells(corner(2), corner(4), shape[0], x.Dim(2))
	columns := cells(corner(1), corner(3), shape[1], x.Dim(3))
	y := x.IndexSelect(0, rois.Index(1, 0).Cast(ir.I32)) // [R, C, H, W]
	none := y.Lit(math.Inf(-1))
	y = columns.Unsqueeze(1, 2).Where(y.Unsqueeze(3), none).ReduceMax(4) // [R, C, H, columns]
	y = rows.Unsqueeze(1, 3).Where(y.SwapAxes(2, 3).Unsqueeze(2), none).ReduceMax(4)
	return y.Eq(none).Where(y.Lit(0), y)
}
