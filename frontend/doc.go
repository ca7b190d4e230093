// Package frontend builds tensor programs: methods on tensors make an ir.Graph.
//
//	g, err := frontend.Build("mlp", func(b *frontend.Builder) {
//		n := b.Sym("N", 64)
//		x := b.Input("x", ir.F32, n, 8)
//		w := b.Weight("w", ir.F32, 16, 8)
//		b.Output("y", x.MatMulT(w).Relu())
//	})
//
// Building a graph computes nothing: a Tensor is a handle to a node's future value. Its dtype and shape are known at
// once, so every mistake is reported at the line that makes it.
//
// # Shapes
//
// Shapes are row-major, with the innermost axis last. Methods accept numbers and symbols as dims, as in b.Input("x",
// ir.F32, n, 8); see Dim. Axes count from 0, or from the end if negative. Operands of elementwise methods broadcast as
// in NumPy: aligned at the innermost axis, with extents that are equal or 1. Dtypes are never converted implicitly; use
// Tensor.Cast.
//
// # Errors
//
// Methods return only a Tensor, so that they chain. A wrong call (shapes that do not fit, a name used twice) panics
// with an *Error that names the op, the operands and the caller's line. Build recovers it and returns it as its error.
// It recovers no other panic.
//
// # Cost
//
// Nodes are cheap, and a graph is compiled as a whole: elementwise chains, views (Reshape, Transpose, Slice, …), casts
// and Dequantize are fused into the kernels around them. Write whatever is most readable.
package frontend
