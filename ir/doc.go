// Package ir represents tensor programs as graphs. A graph says what is computed, independent of devices and kernels.
//
// Start from [Graph], a list of nodes in dependency order, and [Node], one op with its arguments, attributes and result
// [Type]. Most programs build graphs with package frontend, and read them with [ReadJSON] (graph.json) or [Parse] (the
// text form, which [Graph.String] prints). A graph is immutable once built: [Rewrite] makes a new one.
//
//	g, err := ir.Parse(`graph "double" {
//	  %0 = input {name="x", dtype=f32, shape=[4]} : f32[4]
//	  %1 = add %0, %0 : f32[4]
//	  output "y" %1
//	}`)
//	fmt.Println(g.HashString()) // covers the computation, not its names
//
// # Ops
//
// Each [Op] has one declaration, an [OpInfo] in the ops_*.go file of its class: its arguments and attributes, the rules
// for its shape and dtype, its scalar reference, its GLSL, its tolerance and a line of documentation. The verifier,
// graph.json, the interpreter, the code generator and docs/OPS.md all use that row. [RegisterCustom] adds an op from
// another package.
//
// # Shapes and values
//
// A [Shape] is a list of [Dim], row-major. A Dim is a number, or a linear expression over a bounded symbol (T <= 512,
// T+1) or over a sum, product or quotient of symbols (S+T, B*T, floor((T+1)/2)). Each run supplies the values of
// symbols.
//
// [Data] is a tensor on the host, with elements in the encoding of their [DType]; DTypes include GGML's block formats.
package ir
