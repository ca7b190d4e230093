// Package optest proves a backend op by op: it generates cases for every op of
// the op table, runs them, and compares the results with the reference of package
// ir/interp at the tolerance of the op's row.
//
//	report, err := optest.Run(ctx, backend, optest.Options{})
//	for _, s := range report.Summaries() { … }
//
// The cases go over the dtypes that an op takes, ranks 0 to 6, extents of 0, 1,
// primes and ones past the tiles of kernels, arguments that are transposed, sliced,
// stepped, flipped and broadcast (by views before the op), and extreme values:
// zeros of both signs, denormals, infinities, NaN, the largest finite floats and the
// limits of integers. Every op of f16 and bf16 is also read by another op in the same
// kernel, to which its value must be one of that dtype. They are the same in every run.
//
// # Outcomes
//
// A case passes, fails, or is refused: the backend said clearly that it cannot
// run the graph (see Refused). A refusal never counts as a pass.
//
// # Overruns
//
// What writes outside of an output is seen where the backend looks for it: load
// with vkc.LoadOptions.Guards, as vkc verify --ops does.
//
// # What is not compared
//
// Devices may flush denormals, so a case with denormal arguments also takes the
// result for zeros in their place, and devices may compute f64 in f32, so an f64
// result past f32's range may also be infinite. The sign of a zero is not compared. Arguments
// whose intermediate results leave f32's range, while the result does not, are left
// out, since the op table does not say how an op gets to its result.
package optest
