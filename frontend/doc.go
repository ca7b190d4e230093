// Package frontend builds tensor programs: an ir.Graph made by calling methods
// on tensors.
//
//	g, err := frontend.Build("mlp", func(b *frontend.Builder) {
//		n := b.Sym("N", 64)
//		x := b.Input("x", ir.F32, n, 8)
//		w := b.Weight("w", ir.F32, 16, 8)
//		b.Output("y", x.MatMulT(w).Relu())
//	})
//
// Nothing is computed while the graph is built: a Tensor is a handle to the
// value a node will have. Its dtype and shape are known at once, so every
// mistake is found on the line that makes it.
//
// # Shapes
//
// Shapes are row-major, the innermost axis last. Where a method takes dims,
// numbers and symbols stand side by side, as in b.Input("x", ir.F32, n, 8); see
// Dim. Axes count from 0, or from the end if negative. Operands of elementwise
// methods broadcast as in NumPy: aligned at the innermost axis, extents equal
// or 1. Dtypes never convert by themselves; use Tensor.Cast.
//
// # Errors
//
// Methods return a Tensor and nothing else, so that they chain. A mistake in
// their use (shapes that do not fit, a name used twice) panics with an *Error
// that names the op, the operands and the caller's line, and Build returns it
// as its error. No other panic is caught.
//
// # Free and not free
//
// Nodes are cheap and a graph is compiled as a whole: elementwise chains,
// views (Reshape, Transpose, Slice, …), casts and Dequantize become part of the
// kernels around them rather than kernels of their own. Write what reads best.
package frontend
