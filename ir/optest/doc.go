// Package optest tests a backend op by op: it generates cases for every op of the op table, runs them, and compares the
// results with the reference interpreter, package ir/interp, within the tolerance of the op's row.
//
//	report, err := optest.Run(ctx, backend, optest.Options{})
//	for _, s := range report.Summaries() { … }
//
// The cases cover the dtypes of each op, ranks 0 to 6, extents of 0, 1, primes and sizes beyond the tiles of kernels.
// They cover arguments that views before the op transpose, slice with and without steps, flip and broadcast. They cover
// extreme values: zeros of both signs, denormals, infinities, NaN, the largest finite floats and the limits of
// integers. For f16 and bf16, another op in the same kernel also reads the result and must see it rounded to its dtype.
// The cases are the same in every run.
//
// # Outcomes
//
// A case passes, fails, or is refused: the backend said clearly that it cannot run the graph (see Refused). A refusal
// never counts as a pass.
//
// # Overruns
//
// Writes outside of an output are only detected by a backend that checks for them: load with vkc.LoadOptions.Guards, as
// vkc verify --ops does.
//
// # What is not compared
//
// Devices may flush denormals, so a case with denormal arguments also accepts the result for zeros in their place.
// The sign of a zero is not compared. Arguments are left out if intermediate results exceed the range of the arithmetic
// although the result does not, because the op table does not specify how an op computes its result.
package optest
