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
//   - passes/rewrite replaces nodes of the graph,
//   - passes/lower fuses nodes into kernels,
//   - passes/rules replaces kernels by faster ones,
//   - passes/layout assigns memory and makes steps and barriers.
//
// Package passes/analysis has questions about graphs that both rewrite and lower ask. Package passes/plan has the graph
// of kernels and buffers that lower makes and rules changes. Package passes/partition divides a graph among devices
// before all of these.
//
// The passes do not know the device. Decisions that depend on it are made by the [kernel.Pricer] in [Options], a cost
// model. Without a pricer the passes skip every rewrite that pays off only on some devices. [State.Text] and `vkc dump
// --after PASS` print the state after a pass, and tests compare it.
package passes
