package export

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// swapped returns a value with its two innermost axes transposed.
func (w *writer) swapped(x string, rank int) string {
	perm := make([]int64, rank)
	for i := range perm {
		perm[i] = int64(i)
	}
	perm[rank-1], perm[rank-2] = perm[rank-2], perm[rank-1]
	return w.emit("Transpose", []string{x}, attribute{"perm", perm})
}

// matmul writes op matmul: as MatMulNBits for a weight in blocks, as MatMulInteger for 8-bit integers, as Gemm for
// transposed matrices, and otherwise as MatMul.
func matmul(c *call) string {
	a, b, attrs := c.node.Arg(0), c.node.Arg(1), c.node.Attrs()
	ta, tb, t := attrs.Bool("transpose_a"), attrs.Bool("transpose_b"), c.node.DType()
	// MatMulNBits takes a weight in blocks along the contraction, which is then the innermost axis.
	if f, ok := scaled[b.DType()]; ok && isLeaf(b) && tb && !ta && b.Rank() == 2 && (t == ir.F32 || t == ir.F16) {
		return c.matmulNBits(f)
	}
	op, of := "MatMul", t
	if t == ir.I32 { // only a matmul of 8-bit integers has such a result
		op, of = "MatMulInteger", a.DType()
	}
	x, y := c.as(0, of), c.as(1, of)
	if op == "MatMul" && a.Rank() == 2 && b.Rank() == 2 && (ta || tb) {
		return c.emit("Gemm", []string{x, y}, attribute{"transA", boolInt(ta)}, attribute{"transB", boolInt(tb)})
	}
	if ta {
		x = c.swapped(x, a.Rank())
	}
	if tb {
		y = c.swapped(y, b.Rank())
	}
	return c.emit(op, []string{x, y})
}

// isLeaf reports whether a node is a weight or constant.
func isLeaf(n *ir.Node) bool { return n.Op() == ir.OpWeight || n.Op() == ir.OpConst }

// matmulNBits multiplies by a weight in blocks, with the same numbers.
func (c *call) matmulNBits(f levels) string {
	b, t := c.node.Arg(1), c.node.DType()
	n, k := b.Shape()[0].Add, b.Shape()[1].Add
	in := []string{c.as(0, t), c.packed(b, f), c.scales(b, t, n, k/blockSize)}
	return c.emit(microsoft+":MatMulNBits", in, attribute{"K", k}, attribute{"N", n}, attribute{"bits", int64(f.bits)},
		attribute{"block_size", int64(blockSize)})
}

// decoded returns the value of a node of a block format, dequantized to float dtype t.
func (c *call) decoded(n *ir.Node, t ir.DType) string {
	if !isLeaf(n) { // an op's result was written in f32
		if t == ir.F32 {
			return c.names[n]
		}
		return c.cast(c.names[n], t)
	}
	f, ok := scaled[n.DType()]
	if !ok || t != ir.F32 && t != ir.F16 {
		return c.weight(n, t) // decoded when the file is written
	}
	rank := n.Rank()
	rows := extents(n.Shape())
	rows[rank-1] /= blockSize
	return c.dequantized(c.signed(n, f), c.scales(n, t, rows...), rank)
}

// dequantized returns levels times scales. Each scale is for a block along the innermost axis of levels. rank is the
// rank of levels.
func (c *call) dequantized(levels, scales string, rank int) string {
	return c.emit("DequantizeLinear", []string{levels, scales}, attribute{"axis", int64(rank - 1)},
		attribute{"block_size", int64(blockSize)})
}

// embedding writes op embedding as Gather of rows. For a table in blocks it gathers the levels and the scales, so that
// only the gathered rows are decoded.
func embedding(c *call) string {
	table, t := c.node.Arg(0), c.node.DType()
	ids := c.index(1, table.Shape()[0])
	rows := func(x string) string { return c.emit("Gather", []string{x, ids}, attribute{"axis", int64(0)}) }
	f, ok := scaled[table.DType()]
	if !ok || !isLeaf(table) || t != ir.F32 && t != ir.F16 {
		return rows(c.as(0, t))
	}
	v, width := table.Shape()[0].Add, table.Shape()[1].Add
	return c.dequantized(rows(c.signed(table, f)), rows(c.scales(table, t, v, width/blockSize)), c.node.Rank())
}

// matmulID writes op matmul_id: each row times the matrix that an index selects for it.
func matmulID(c *call) string {
	x, weights := c.as(0, c.node.DType()), c.as(1, c.node.DType())
	picked := c.emit("Gather", []string{weights, c.index(2, c.node.Arg(1).Shape()[0])}, attribute{"axis", int64(0)})
	y := c.emit("MatMul", []string{c.unsqueezed(x, 2), c.swapped(picked, 4)})
	return c.emit("Squeeze", []string{y, c.ints(2)})
}

// windowAttrs returns ONNX's attributes strides, dilations and pads, in this order, of a convolution or pooling over a
// number of axes. stride is the default of strides: ones for a convolution, and the kernel's shape for a pooling.
func (c *call) windowAttrs(axes int, stride []int64) []attribute {
	a := c.node.Attrs()
	filled := func(name string, otherwise int64) []int64 {
		if list := a.Ints(name); len(list) > 0 {
			return list
		}
		return slices.Repeat([]int64{otherwise}, axes)
	}
	if list := a.Ints("stride"); len(list) > 0 {
		stride = list
	}
	return []attribute{{"strides", stride}, {"dilations", filled("dilation", 1)},
		{"pads", slices.Concat(filled("padding_low", 0), filled("padding_high", 0))}}
}

// conv writes op conv, as ConvInteger for integers. ConvInteger pads with 0, so for another value an op Pad comes
// before it.
func conv(c *call) string {
	w, t := c.node.Arg(1), c.node.DType()
	axes := w.Rank() - 2
	attrs := append(c.windowAttrs(axes, slices.Repeat([]int64{1}, axes)),
		attribute{"group", int64(c.node.Attrs().Int("groups"))},
		attribute{"kernel_shape", extents(w.Shape()[2:])})
	if t != ir.I32 {
		return c.emit("Conv", []string{c.as(0, t), c.as(1, t)}, attrs...)
	}
	x := c.arg(0)
	if v := c.node.Attrs().Int("padding_value"); v != 0 {
		pads := attrs[2].value.([]int64) // after strides and dilations, see windowAttrs
		around := slices.Concat([]int64{0, 0}, pads[:axes], []int64{0, 0}, pads[axes:])
		x = c.emit("Pad", []string{x, c.ints(around...), c.scalar(c.node.Arg(0).DType(), float64(v))})
		attrs[2].value = make([]int64, 2*axes)
	}
	return c.emit("ConvInteger", []string{x, c.arg(1)}, attrs...)
}

// convTranspose writes op conv_transpose.
func convTranspose(c *call) string {
	w, t := c.node.Arg(1), c.node.DType()
	axes := w.Rank() - 2
	attrs := append(c.windowAttrs(axes, slices.Repeat([]int64{1}, axes)),
		attribute{"group", int64(c.node.Attrs().Int("groups"))},
		attribute{"kernel_shape", extents(w.Shape()[2:])})
	if list := c.node.Attrs().Ints("output_padding"); len(list) > 0 {
		attrs = append(attrs, attribute{"output_padding", list})
	}
	return c.emit("ConvTranspose", []string{c.as(0, t), c.as(1, t)}, attrs...)
}

// pool writes a pooling op. ONNX's poolings want two axes before the window's axes.
func pool(c *call) string {
	a, x, t := c.node.Attrs(), c.arg(0), c.node.DType()
	kernel := a.Ints("kernel")
	x, back := c.images(x, len(kernel))
	attrs := append(c.windowAttrs(len(kernel), kernel), attribute{"kernel_shape", kernel},
		attribute{"ceil_mode", boolInt(a.Bool("ceil_mode"))})
	op, as := "MaxPool", t
	switch {
	case c.node.Op() == ir.OpAvgPool:
		op, attrs = "AveragePool", append(attrs, attribute{"count_include_pad", boolInt(a.Bool("count_include_pad"))})
	case t == ir.I64:
		return c.fail("ONNX's MaxPool has no int64")
	case t.IsInteger() && t.BlockBytes() > 1:
		as = ir.F64 // MaxPool takes 8-bit integers and floats only
	}
	if t == ir.BF16 || t.IsFloat() && t.BlockBytes() == 1 {
		as = ir.F32 // dtypes that MaxPool does not take
	}
	if as != t {
		x = c.cast(x, as)
	}
	y := c.emit(op, []string{x}, attrs...)
	if as != t {
		y = c.cast(y, t)
	}
	return back(y)
}

// images returns x, the op's first argument, with exactly two axes before its innermost `axes` axes, as ONNX Runtime
// requires. back reshapes a result to the op's own shape.
func (c *call) images(x string, axes int) (image string, back func(y string) string) {
	s := c.node.Arg(0).Shape()
	outer := len(s) - axes
	if outer == 2 {
		return x, func(y string) string { return y }
	}
	n, err := s[:outer].Numel()
	if err != nil {
		c.fail("%v", err)
	}
	x = c.reshaped(x, slices.Concat(ir.Shape{n, ir.D(1)}, s[outer:]))
	return x, func(y string) string { return c.reshaped(y, c.node.Shape()) }
}

// resize writes the resize ops. The result's size is attribute size. If the op has scales, pairs of a numerator and a
// denominator, ONNX gets these, and resize refuses scales from which ONNX would make another size.
func resize(c *call) string {
	a, rank := c.node.Attrs(), c.node.Rank()
	size, scales := a.Shape("size"), a.Ints("scales")
	if y := nearest(c); y != "" {
		return y
	}
	mode, coordinates := "nearest", "asymmetric"
	switch c.node.Op() {
	case ir.OpResizeLinear:
		mode, coordinates = "linear", "half_pixel"
	case ir.OpResizeCubic:
		mode, coordinates = "cubic", "half_pixel"
	}
	if mode != "nearest" && a.Bool("align_corners") {
		coordinates = "align_corners"
	}
	var axes []int64
	for i := range size {
		axes = append(axes, int64(2+i)) // images leaves two axes before these
	}
	x, back := c.images(c.arg(0), len(size))
	in := []string{x, "", "", c.shape(size)}
	if len(scales) > 0 {
		var factors []float64
		for i, to := range size {
			from := c.node.Arg(0).Shape()[rank-len(size)+i]
			grown, err := from.Times(scales[2*i]).FloorQuo(scales[2*i+1])
			if err != nil || grown != to {
				return c.fail("ONNX's Resize makes %s elements of %s by a scale of %d/%d, but the graph has %s", grown,
					from, scales[2*i], scales[2*i+1], to)
			}
		}
		for i := 0; i < len(scales); i += 2 {
			factors = append(factors, float64(scales[i])/float64(scales[i+1]))
		}
		in = []string{x, "", c.floats(ir.F32, factors, len(factors))}
	}
	return back(c.emit("Resize", in, attribute{"mode", mode}, attribute{"coordinate_transformation_mode", coordinates},
		attribute{"nearest_mode", "floor"}, attribute{"cubic_coeff_a", -0.75}, attribute{"axes", axes}))
}

// nearest writes op resize_nearest as a Gather along each axis, if ONNX's Resize would take other elements because it
// rounds coordinates to f32. Otherwise, or if an extent is symbolic, it returns "".
func nearest(c *call) string {
	size, scales := c.node.Attrs().Shape("size"), c.node.Attrs().Ints("scales")
	if c.node.Op() != ir.OpResizeNearest {
		return ""
	}
	before := c.node.Arg(0).Shape()[c.node.Rank()-len(size):]
	if !before.IsStatic() || !size.IsStatic() {
		return ""
	}
	y, rounded := c.arg(0), false
	sources := make([][]int64, len(size))
	for axis, to := range size {
		from := before[axis].Add
		num, den, scale := to.Add, from, float32(to.Add)/float32(from)
		if len(scales) > 0 {
			num, den = scales[2*axis], scales[2*axis+1]
			scale = float32(float64(num) / float64(den))
		}
		for i := range to.Add {
			exact, inONNX := min(i*den/num, from-1), min(int64(float32(i)/scale), from-1)
			sources[axis] = append(sources[axis], exact)
			rounded = rounded || exact != inONNX
		}
	}
	if !rounded {
		return ""
	}
	for axis, list := range sources {
		y = c.emit("Gather", []string{y, c.ints(list...)},
			attribute{"axis", int64(c.node.Rank() - len(size) + axis)})
	}
	return y
}

// fourier writes ops fft and rfft as DFT, which requires an axis for batches.
func fourier(c *call) string {
	s, x, t := c.node.Shape(), c.arg(0), c.node.DType()
	real := c.node.Op() == ir.OpRFFT
	if real {
		x = c.unsqueezed(x, -1) // DFT wants real and imaginary parts, or one part
	}
	alone := len(s) == 2
	if alone {
		x = c.unsqueezed(x, 0)
	}
	if t != ir.F64 {
		x = c.cast(x, ir.F32)
	}
	y := c.emit("DFT", []string{x, "", c.scalar(ir.I64, -2)}, attribute{"onesided", boolInt(real)},
		attribute{"inverse", boolInt(c.node.Attrs().Bool("inverse"))})
	if t != ir.F64 {
		y = c.cast(y, t)
	}
	if alone {
		y = c.emit("Squeeze", []string{y, c.ints(0)})
	}
	return y
}
