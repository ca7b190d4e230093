// Package passes turns a graph into a program of kernels.
//
// [Run] takes an ir.Graph through the pass table ([Passes]; docs/ARCHITECTURE.md
// shows what each pass does, before and after) and returns the [State] that the
// last pass left: the simplified Graph, the Fusion decisions, the Kernels, and
// the Program with its buffers, steps and barriers.
//
//	s, err := passes.Run(g, passes.Options{})
//	passes.PrintPlan(os.Stdout, s.Program)
//
// It happens in three parts. Passes on the graph rewrite it. Fusion groups nodes
// into clusters, and lowering makes each [Cluster] a kernel, by evaluating it at
// symbolic coordinates; a merge whose evaluation fails is refused. Passes on the
// kernels then change how operands are stored and what is fused or split.
//
// Nothing here knows a device. Whatever depends on one is asked of a function in
// [Options], which package vkc fills in with those of codegen/device and codegen/schedule; without
// them the passes do nothing that only pays on some devices. What a pass leaves
// can be printed (State.Text, or `vkc dump --after PASS`), and tests compare it.
package passes
