// Package keval interprets lowered kernels on host memory, one scalar at a time. With it, tests compare random graphs
// with the reference interpreter without generating GLSL:
//
//	m, err := keval.New(program, kernels, keval.Options{})
//	out, err := m.Run(inputs, symbols)
//
// Start from [Machine]. It defines the meaning of kernels and buffer plans. Its code is meant to be checked by reading.
// It is strict:
//
//   - Every load must be inside its buffer's memory, and every store inside the buffer's elements at the symbols'
//     run-time values. A load beyond those elements gives an undefined value that must not reach a store.
//   - Temporaries share one arena at their planned offsets. A load must find a value that its own buffer stored
//     there, not an older or newer tenant.
//   - A step must store each element of a buffer at most once. A step that reads and writes one buffer may only read
//     the elements that the same point writes.
//   - Steps without a barrier between them must not access each other's memory.
//   - After a run, every element of every output has been stored.
//
// Values are computed by the scalar references of the op table and rounded to each expression's dtype, so an
// elementwise chain has the reference's bits. Folds sum in float64.
package keval
