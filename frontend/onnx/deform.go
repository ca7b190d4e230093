package onnx

// deformConv builds a deformable convolution (Dai et al. 2017, arXiv:1703.06211; Zhu et al. 2018, arXiv:1811.11168).
// The offsets say by how much each point of a window moves. The image's value there is interpolated linearly, and is 0
// beyond the edges. A mask, if given, multiplies the values. taps is the number of points of a window.
func deformConv(c *call) tensor {
	x, w, offset := c.x(0), c.x(1), c.x(2)
	kernel := c.kernelOf(w)
	n, taps := len(kernel), volume(kernel)
	if x.Rank() != n+2 || offset.Rank() != n+2 || !offset.Shape()[2:].IsStatic() {
		c.fail("weights %s and offsets %s for %s", w, offset, x)
	}
	groups, offsetGroups := c.intAttr("group", 1), c.intAttr("offset_group", 1)
	inputs, outputs := w.Dim(1).Static()*groups, w.Dim(0).Static() // channels
	if groups < 1 || offsetGroups < 1 || !x.Dim(1).Is(inputs) || inputs%offsetGroups != 0 || outputs%groups != 0 ||
		!offset.Dim(1).Is(offsetGroups*taps*n) {
		c.fail("%d groups, and %d groups of offsets %s, do not fit %s with weights %s", groups, offsetGroups, offset,
			x, w)
	}
	win := c.window(x.Shape(), kernel)
	windows := offset.Shape()[2:] // the number of windows along each axis
	for i, d := range x.Shape()[2:] {
		reach := win.dilation[i]*(kernel[i]-1) + 1 // the extent of a window with its gaps
		room := d.Plus(int64(win.low[i] + win.high[i] - reach))
		if want := int(room.Add)/win.stride[i] + 1; room.IsStatic() && !windows[i].Is(want) {
			c.fail("offsets %s for axis %d of %s: want one for each of the %d windows", offset, i+2, x, want)
		}
	}
	points := c.numel(windows)
	// The channels that share offsets become an image of their own.
	images := x.Dim(0).Times(int64(offsetGroups))
	p := c.newImage(x.Reshape(images, inputs/offsetGroups, x.Shape()[2:]), x.DType())
	offset = offset.Reshape(images, taps, n, points)
	coords := make([]tensor, n) // by axis: the coordinate of each point of each window
	for i := range coords {
		start := c.b.Iota(x.DType(), i, windows).Affine(float64(win.stride[i]), float64(-win.low[i]))
		tap := c.b.Iota(x.DType(), i, w.Shape()[2:]).MulScalar(float64(win.dilation[i]))
		coords[i] = offset.Index(2, i).Add(start.Reshape(1, 1, points)).Add(tap.Reshape(1, taps, 1)).
			Reshape(images, points.Times(int64(taps)))
	}
	y := blended(coords, 0, 2, linearShares, tensor.Add, func(at []tensor) tensor {
		return p.at(at).Mul(p.inside(at))
	})
	if c.has(4) {
		y = y.Mul(c.x(4).Reshape(images, 1, points.Times(int64(taps))))
	}
	// The convolution is a matmul over the channels of a group and the elements of a window.
	depth := inputs / groups * taps
	y = w.Reshape(groups, outputs/groups, depth).MatMul(y.Reshape(x.Dim(0), groups, depth, points))
	y = y.Reshape(x.Dim(0), outputs, windows)
	if c.has(3) {
		y = y.Add(channels(c.x(3), y.Rank()))
	}
	return y
}
