// Package passes compiles a graph to a program of kernels.
//
// [Run] takes an ir.Graph through the pass table ([Passes]; docs/ARCHITECTURE.md shows the graph before and after each
// pass) and returns the [State] after the last pass: the simplified Graph, the Fusion decisions, the Kernels, and the
// Program with its buffers, steps and barriers.
//
//	s, err := passes.Run(g, passes.Options{})
//	layout.Print(os.Stdout, s.Program)
//
// This package has only the table. The passes are in packages of their own, in the order in which they run:
//
//   - passes/rewrite takes the graph to a graph,
//   - passes/lower fuses nodes and makes kernels,
//   - passes/rules takes kernels to kernels,
//   - passes/layout makes buffers, steps and barriers.
//
// Facts about graphs that several parts need are in passes/analysis, and the kernels with their values in passes/plan.
// Package passes/partition divides a graph among devices before all of these.
//
// The passes are independent of devices. The [kernel.Pricer] in [Options] makes the decisions that depend on one.
// Without it the passes skip every rewrite that pays off only on some devices. The state after a pass can be printed
// (State.Text, or `vkc dump --after PASS`), and tests compare it.
package passes
