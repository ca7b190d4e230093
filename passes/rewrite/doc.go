// Package rewrite has the passes that replace nodes of an op graph. After each pass the graph computes the same values,
// up to the tolerances of its ops.
//
// Passes named Find recognize patterns, such as an attention written as matmuls and a softmax. [Decompose] replaces ops
// without a kernel by ops that have one. Other passes fold constants, remove duplicates, and insert copies so that
// outputs and states do not share buffers. A [kernel.Pricer], a cost model of the device, decides between forms that
// differ only in speed.
package rewrite
