package frontend

import (
	"fmt"
	"math"

	"github.com/vkc-go/vkc/ir"
)

// matmulIn returns the matmul of t and u in the precision that an op's attribute names.
func (t Tensor) matmulIn(u Tensor, precision string) Tensor {
	return t.apply(ir.OpMatMul, []Tensor{u}, attr("precision", precision))
}

// matmulGrad is the rule of matmul: without transposed operands, the gradient is g b^T for a, and a^T g for b.
// Transposes are views, so these are usual matmuls. The gradient for a multiplies by a quantized b directly.
func matmulGrad(c GradCall, i int) Tensor {
	a, b, g, precision := c.Args[0], c.Args[1], c.Grad, c.Attrs.String_("precision")
	ta, tb := c.Attrs.Bool("transpose_a"), c.Attrs.Bool("transpose_b")
	if i == 0 {
		out := g.apply(ir.OpMatMul, []Tensor{b}, attr("transpose_b", !tb), attr("precision", precision))
		if ta {
			return out.T()
		}
		return out
	}
	if a.DType().IsBlock() {
		a = a.Dequantize(c.Result.DType())
	}
	if ta {
		a = a.T()
	}
	if b.Rank() == 2 { // one matrix for all batches: their rows form one matmul
		rows, err := a.Shape()[:a.Rank()-1].Numel()
		if err == nil {
			a, g = a.Reshape(rows, a.Dim(-1)), g.Reshape(rows, g.Dim(-1))
		}
	}
	if tb {
		return g.T().matmulIn(a, precision)
	}
	return a.T().matmulIn(g, precision)
}

// matmulIDGrad is the rule of matmul_id. For the rows, the gradient is matmul_id of g with the transposed matrices. For
// the matrices, it is one matmul per expert, over the rows routed to it.
func matmulIDGrad(c GradCall, i int) Tensor {
	x, w, ids, g, precision := c.Args[0], c.Args[1], c.Args[2], c.Grad, c.Attrs.String_("precision")
	if i == 0 {
		if w.DType().IsBlock() {
			w = w.Dequantize(x.DType())
		}
		return g.apply(ir.OpMatMulID, []Tensor{w.T(), ids}, attr("precision", precision))
	}
	experts, used := w.Dim(0), ids.Dim(1)
	rows, err := ids.Shape().Numel()
	if err != nil {
		fail("grad", fmt.Errorf("matmul_id by ids %s: %w", ids, err), x, w, ids)
	}
	chosen := ids.clamped(experts).Reshape(1, rows, 1)
	isExpert := chosen.Eq(x.b.Iota(chosen.DType(), 0, experts, 1, 1))       // [E, rows, 1]: the row is routed to E
	gradOfExpert := isExpert.Where(g.Reshape(1, rows, g.Dim(-1)), g.Lit(0)) // [E, rows, N]
	x = x.Broadcast(x.Dim(0), used, x.Dim(2)).Reshape(rows, x.Dim(2))
	return gradOfExpert.T().matmulIn(x, precision)
}

// cropOrPad cuts t, or appends zeros to it, along the axes from the third on, so that they have the extents of s.
func (t Tensor) cropOrPad(s ir.Shape) Tensor {
	for i := 2; i < t.Rank(); i++ {
		if over, err := t.Dim(i).Less(s[i]); err == nil && over.IsStatic() && over.Add > 0 { // t is longer
			t = t.Slice(i, 0, s[i])
		} else {
			t = t.padSlice(i, 0, s[i])
		}
	}
	return t
}

// windowAttrs returns the attributes of a convolution with window w. groups and precision come from the attributes of
// another convolution.
func windowAttrs(w ir.Window, of ir.Attrs) []ir.Attr {
	return []ir.Attr{attr("stride", w.Stride), attr("dilation", w.Dilation), attr("padding_low", w.Low),
		attr("padding_high", w.High), attr("groups", of.Int("groups")), attr("precision", of.String_("precision"))}
}

// kernelGrad returns the gradient of the weights w [O, C/groups, …] of a convolution from wide [N, C, …] to narrow [N,
// O, …]. It is a convolution of wide with narrow as the kernel: batch and channels are exchanged, and so are strides
// and dilations.
func kernelGrad(wide, narrow Tensor, win ir.Window, of ir.Attrs, to ir.Shape) Tensor {
	n, spatial, groups := wide.Dim(0), wide.Shape()[2:], of.Int("groups")
	for _, d := range narrow.Shape()[2:] {
		if !d.IsStatic() {
			fail("grad", fmt.Errorf("the extent %s: %w", d, errSymbolicWindow), wide, narrow)
		}
	}
	perm := []int{2, 1, 0} // exchanges the batch and the channels of a group
	for i := range spatial {
		perm = append(perm, 3+i)
	}
	perGroup, _ := wide.Dim(1).Quo(int64(groups))
	wide = wide.Reshape(n, groups, perGroup, spatial).Transpose(perm...) // [C/groups, groups, N, …]
	wide = wide.Reshape(perGroup, n.Times(int64(groups)), spatial)
	high := make([]int64, len(spatial)) // elements past the last window are not read
	for i, d := range spatial {
		need := (narrow.Dim(2+i).Add-1)*win.Stride[i] + win.Reach(i)
		high[i] = max(0, need-win.Low[i]-d.Add)
	}
	swapped := ir.Window{Stride: win.Dilation, Dilation: win.Stride, Low: win.Low, High: high}
	out := wide.apply(ir.OpConv, []Tensor{narrow.SwapAxes(0, 1)}, windowAttrs(swapped, of)...) // [C/groups, O, …]
	return out.SwapAxes(0, 1).cropOrPad(to)
}

// convGrad is the gradient rule of conv: a transposed convolution of the gradient for x, and kernelGrad for the
// weights.
func convGrad(c GradCall, i int) Tensor {
	x, w, win := c.Args[0], c.Args[1], ir.WindowOf(c.Result.node)
	if x.Shape().MaxElems() == 0 { // the results do not depend on w
		return c.Args[i].zeros()
	}
	if i == 1 {
		return kernelGrad(x, c.Grad, win, c.Attrs, w.Shape())
	}
	for axis, n := range c.Grad.Shape()[2:] {
		if end := n.Plus(-1).Times(win.Stride[axis]).Plus(win.Reach(axis) - win.Low[axis]); end.Max() < 1 {
			return x.zeros() // the windows read padding only
		}
	}
	// Without high padding, the transposed convolution has all positions that the windows read. Then cropOrPad cuts the
	// padding off, and appends zeros for elements of x after the last window, which have no gradient.
	win.High = make([]int64, len(win.High))
	return c.Grad.apply(ir.OpConvTranspose, []Tensor{w}, windowAttrs(win, c.Attrs)...).cropOrPad(x.Shape())
}

// convTransposeGrad is the gradient rule of conv_transpose: a convolution of the gradient for x, and kernelGrad for the
// weights.
func convTransposeGrad(c GradCall, i int) Tensor {
	x, w, win := c.Args[0], c.Args[1], ir.WindowOf(c.Result.node)
	if x.Shape().MaxElems() == 0 { // the results do not depend on w
		return c.Args[i].zeros()
	}
	if i == 1 {
		return kernelGrad(c.Grad, x, win, c.Attrs, w.Shape())
	}
	return c.Grad.apply(ir.OpConv, []Tensor{w}, windowAttrs(win, c.Attrs)...).cropOrPad(x.Shape())
}

// windows returns the combination, by function fold, of the elements of each window of a pooling of x. It computes it
// for one axis after the other. pad is the value of padding elements.
func (c GradCall) windows(x Tensor, pad float64, fold func(a, b Tensor) Tensor) Tensor {
	win := ir.WindowOf(c.Result.node)
	outer := x.Rank() - len(win.Kernel)
	for i := range win.Kernel {
		x = slide(x, outer+i, win, i, c.Result.Dim(outer+i), pad, fold)
	}
	return x
}

// slide returns the combination, by function fold, of the elements of each of n windows along an axis of x. It combines
// strided slices: slice k has element k of every window. i is the number of the axis in win. pad is the value of
// padding elements.
func slide(x Tensor, axis int, win ir.Window, i int, n ir.Dim, pad float64, fold func(a, b Tensor) Tensor) Tensor {
	low, high := make([]int, x.Rank()), make([]int, x.Rank())
	low[axis] = int(win.Low[i])
	end := n.Times(win.Stride[i]).Plus(win.Reach(i) - 1) // end of the last slice
	if more, err := end.Less(x.Dim(axis)); err == nil && more.IsStatic() {
		high[axis] = max(0, int(more.Add-win.Low[i]))
	} else {
		fail("grad", fmt.Errorf("windows of stride %d along the extent %s", win.Stride[i], x.Dim(axis)), x)
	}
	x = x.Pad(low, high, pad)
	var out Tensor
	for k := range win.Kernel[i] {
		at := k * win.Dilation[i]
		part := x.SliceStep(axis, int(at), n.Times(win.Stride[i]).Plus(at), int(win.Stride[i]))
		if k == 0 {
			out = part
		} else {
			out = fold(out, part)
		}
	}
	return out
}

// avgPool defines avg_pool by other ops: sums over windows, divided by the number of elements in each window.
func avgPool(c GradCall) Tensor {
	x, win := c.Args[0].wide(), ir.WindowOf(c.Result.node)
	outer := x.Rank() - len(win.Kernel)
	sums := c.windows(x, 0, Tensor.Add)
	for i := range win.Kernel {
		d, along := x.Dim(outer+i), win // the elements that count along axis i, and their windows
		if c.Attrs.Bool("count_include_pad") {
			d = d.Plus(win.Low[i] + win.High[i])
			along.Low = make([]int64, len(win.Low))
		}
		ones := x.Lit(1).Broadcast(d)
		count := slide(ones, 0, along, i, c.Result.Dim(outer+i), 0, Tensor.Add)
		sums = sums.Div(count.alongAxis(outer+i, x.Rank()))
	}
	return sums
}

// resized builds a resize from a matmul for each axis. The matrix for an axis is the resize of an identity matrix: its
// rows are the results for unit vectors.
func resized(c GradCall) Tensor {
	x, size := c.Args[0].wide(), c.Attrs.Shape("size")
	for i, to := range size {
		axis := x.Rank() - len(size) + i
		if num, den := ir.ResizeScale(c.Attrs, i, x.Dim(axis), to); x.Dim(axis) == to && num == den {
			continue // the axis stays
		}
		attrs := []ir.Attr{attr("size", ir.Shape{to})}
		if scales := c.Attrs.Ints("scales"); len(scales) > 0 {
			attrs = append(attrs, attr("scales", scales[2*i:2*i+2]))
		}
		if c.Result.node.Op() != ir.OpResizeNearest {
			attrs = append(attrs, attr("align_corners", c.Attrs.Bool("align_corners")))
		}
		matrix := x.b.Eye(x.DType(), x.Dim(axis), x.Dim(axis)).unary(c.Result.node.Op(), attrs...)
		last := x.Rank() - 1
		if last == 0 {
			x = x.Unsqueeze(0).MatMul(matrix).Squeeze(0)
		} else {
			x = x.SwapAxes(axis, last).MatMul(matrix).SwapAxes(axis, last)
		}
	}
	return x
}

// init adds the gradient rules of matmuls, convolutions and pooling.
func init() {
	gradRows(map[ir.Op]gradRule{
		ir.OpMatMul:        each(matmulGrad),
		ir.OpMatMulID:      each(matmulIDGrad),
		ir.OpConv:          each(convGrad),
		ir.OpConvTranspose: each(convTransposeGrad),
		ir.OpAvgPool:       definedBy(avgPool),
		ir.OpMaxPool: definedBy(func(c GradCall) Tensor {
			return c.windows(c.Args[0], math.Inf(-1), Tensor.Max)
		}),
		ir.OpResizeNearest: definedBy(resized),
		ir.OpResizeLinear:  definedBy(resized),
		ir.OpResizeCubic:   definedBy(resized),
	})
}
