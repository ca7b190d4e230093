// Package quant decodes and encodes the GGML block formats: the storage types q4_0 to nvfp4 of package ir, as in GGUF
// files. The results are bit-identical to ggml's (without fused multiply-add), with two exceptions, for which this
// package searches for better blocks in the same layouts: the formats with a codebook (iq1, iq2 and iq3), with less
// squared error than ggml's, and blocks fitted to importance weights.
//
// Start from [Quantize] and [Dequantize], which process a tensor at a time, and [Supported]:
//
//	err := quant.Dequantize(values, ir.Q4_0, blocks)
//
// A format is one row of the codec table, and one small file with the two functions of that row for one block. Its
// other properties are in its row in package ir ([ir.BlockFormat]). Everything else (length checks, rows, parallelism,
// refusal of unrepresentable values) is shared code over the table. The searches for a group's scale are shared too:
// fitScale (levels times a scale), lineSearch (a scale and a minimum) and gridFormat (a codebook).
//
// Data is little-endian, and blocks are contiguous. A matrix row is a whole number of blocks, so each row can be
// decoded separately.
//
// Arithmetic is float32 in ggml's order. If code adds the result of a multiplication, even through a variable or an
// inlined call, it first converts the result explicitly to float32. The Go specification then forbids fusing the two,
// which would change bits on arm64, ppc64 and others.
package quant

//go:generate go run ./internal/gentables ../golden/quant/ggml-iq-grids.json tables_iq.go
//go:generate go run ../internal/quantreport -docs ../docs
