// Package rewrite has the passes that take an op graph to an op graph. Every pass keeps what the graph computes, up to
// the tolerances of its ops.
//
// Find passes recognize patterns, such as an attention spelled out in ops. [Decompose] replaces ops without a kernel by
// ops that have one. The others fold constants, remove duplicates, and give outputs and states values of their own.
// A [kernel.Pricer] decides between forms that differ only in speed.
package rewrite
