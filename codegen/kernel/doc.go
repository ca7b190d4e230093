// Package kernel holds what the passes lower a graph to: kernels, which say
// what to compute, schedules, which say how, and the program, which says where
// everything lives and in what order it runs.
//
// Start from [Kernel], [Schedule] and [Program]. `vkc dump --stage kernels` and
// `--stage plan` print them, and docs/TOUR.md explains a small one.
//
// A [Kernel] is structured data, never text. Its body is a DAG of scalar
// expressions ([Expr]) whose loads and stores are addressed by integer
// polynomials ([Index]) over the kernel's axes; views, transposes, broadcasts
// and gathers have already become part of those polynomials. A [Program] is
// plain data that can be written to a bundle and run without any of the
// kernels it was made from.
package kernel
