// Package passes compiles a graph to a program of kernels.
//
// [Run] takes an ir.Graph through the pass table ([Passes]; docs/ARCHITECTURE.md shows the graph before and after each
// pass) and returns the [State] after the last pass: the simplified Graph, the Fusion decisions, the Kernels, and the
// Program with its buffers, steps and barriers.
//
//	s, err := passes.Run(g, passes.Options{})
//	passes.PrintPlan(os.Stdout, s.Program)
//
// Compilation has three parts. Graph passes rewrite the graph. Fusion groups nodes into clusters, and lowering makes
// each [Cluster] a kernel by evaluating it at symbolic coordinates; a merge is rejected if that evaluation fails.
// Kernel passes then change how operands are stored, and fuse or split kernels.
//
// This package is independent of devices. Device-dependent decisions are made by functions in [Options], which package
// vkc sets to those of codegen/device and codegen/schedule; without them the passes skip every rewrite that pays off
// only on some devices. The state after a pass can be printed (State.Text, or `vkc dump --after PASS`), and tests
// compare it.
package passes
