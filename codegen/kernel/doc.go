// Package kernel has the results of lowering a graph. A [Kernel] says what to compute, a [Schedule] says how, and a
// [Program] says where buffers live and in which order kernels run.
//
// Start from [Kernel], [Schedule] and [Program]. `vkc dump --stage kernels` and `--stage plan` print them, and
// docs/TOUR.md explains a small one.
//
// A [Kernel] is structured data, not source. Its body is a DAG of scalar expressions ([Expr]). Loads and stores are
// addressed by integer polynomials ([Index]) over the kernel's axes. Lowering turns views, transposes, broadcasts and
// gathers into parts of those polynomials.
//
// A [Program] is plain data. It can be written to a bundle, and run without the kernels that it was made from.
package kernel
