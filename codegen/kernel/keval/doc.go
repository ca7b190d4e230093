// Package keval runs lowered kernels on host memory, one scalar at a time. Tests
// compare random graphs with the reference by it before any GLSL exists:
//
//	m, err := keval.New(program, kernels, keval.Options{})
//	out, err := m.Run(inputs, symbols)
//
// Start from [Machine]. It is the definition of what a kernel and a buffer plan mean, written to be
// checked by eye, and is as strict as it can be:
//
//   - every load must lie inside its buffer's memory and every store inside its
//     elements at the symbols' run-time values; a load past those gives a value
//     that must not reach a store;
//   - temporaries share one arena at their planned offsets, and a load must
//     find what its own buffer stored there, not an older or a newer tenant;
//   - a step must store each element of a buffer at most once, and a step that
//     reads and writes one buffer may only read what the same point writes;
//   - steps that no barrier separates must not touch each other's memory;
//   - after a run every element of every output has been stored.
//
// Values are computed by the op rows' scalar references and rounded to the
// dtype of each expression, so an elementwise chain gives the reference's
// bits. Folds are summed in float64.
package keval
