// Package quant decodes and encodes the GGML block formats bit for bit as ggml
// does (without fused multiply-add): the storage types q4_0 to nvfp4 of package
// ir, as they lie in GGUF files. Two kinds of blocks are found in this package's
// own way, in the same layouts: those of the formats with a codebook (iq1, iq2 and
// iq3, for less squared error than ggml's), and those fitted to importance weights.
//
// Start from [Quantize] and [Dequantize], for a tensor at a time, and [Supported]:
//
//	err := quant.Dequantize(values, ir.Q4_0, blocks)
//
// A format is one row of the codec table and one small file that holds the two
// functions of that row, for one block each. All else that is known of it is its row in
// package ir ([ir.BlockFormat]). Everything else (length checks,
// rows, parallelism, refusal of values a format cannot hold) is written once,
// over the table. So are the searches for a group's scale: fitScale (levels times a
// scale), lineSearch (a scale and a minimum) and gridFormat (a codebook).
//
// Data is little-endian and blocks lie back to back. A matrix row is a whole
// number of blocks, so rows can be decoded on their own.
//
// Arithmetic is float32 in ggml's order. A product that feeds a sum, even through
// a variable or an inlined call, is wrapped in an explicit float32 conversion: the
// Go specification then forbids fusing the two, which would change bits on arm64,
// ppc64 and others.
package quant

//go:generate go run ./internal/gentables ../golden/quant/ggml-iq-grids.json tables_iq.go
//go:generate go run ../internal/quantreport -docs ../docs
