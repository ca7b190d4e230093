// Package gguf reads and writes GGUF files, the model format of GGML.
//
//	f, err := gguf.Open("model.gguf")
//	layers, err := f.Uint("llama.block_count")
//	w, err := f.Weight("blk.0.attn_q.weight")
//
// Start from [File], which is also an ir.WeightSource, and [Writer].
//
// A file is memory-mapped and its tensors alias the mapping, so opening a large model reads only its header. Files are
// untrusted: every count, length and offset is checked against the size of the file before it is used.
//
// ggml's docs/gguf.md describes the format. A file has a header (magic, version, the counts of tensors and metadata
// pairs), the metadata, one record per tensor, padding to the alignment, and then the tensor data, with each tensor at
// a multiple of the alignment. All numbers are little-endian.
package gguf

import "fmt"

const (
	magic = "GGUF"

	minVersion   = 2 // version 1 had 32-bit lengths and is no longer written by anything
	writeVersion = 3 // version 3 has the layout of version 2; it adds big-endian files

	alignmentKey     = "general.alignment"
	defaultAlignment = 32

	maxDims       = 4 // GGML_MAX_DIMS
	maxKeyBytes   = 65535
	maxNameBytes  = 1024 // ggml allows 64; some converters write longer names
	maxArrayDepth = 4    // the format allows arrays of arrays; no known file has them
)

// ValueType is the type of a metadata value, as numbered in the file.
type ValueType uint32

// The metadata value types, and the Go type for values of each.
const (
	TypeUint8   ValueType = iota // uint8
	TypeInt8                     // int8
	TypeUint16                   // uint16
	TypeInt16                    // int16
	TypeUint32                   // uint32
	TypeInt32                    // int32
	TypeFloat32                  // float32
	TypeBool                     // bool
	TypeString                   // string
	TypeArray                    // a slice of another type; []any for an array of arrays
	TypeUint64                   // uint64
	TypeInt64                    // int64
	TypeFloat64                  // float64

	numValueTypes
)

// valueTypes has each type's name, the size in bytes of its smallest value, and its codec. The size limits how many
// values the rest of a file can hold.
var valueTypes = [numValueTypes]struct {
	name     string
	minBytes int
	codec    codec // nil for arrays, which use the codec of their elements
}{
	TypeUint8:   {"uint8", 1, fixed[uint8]{}},
	TypeInt8:    {"int8", 1, fixed[int8]{}},
	TypeUint16:  {"uint16", 2, fixed[uint16]{}},
	TypeInt16:   {"int16", 2, fixed[int16]{}},
	TypeUint32:  {"uint32", 4, fixed[uint32]{}},
	TypeInt32:   {"int32", 4, fixed[int32]{}},
	TypeFloat32: {"float32", 4, fixed[float32]{}},
	TypeBool:    {"bool", 1, fixed[bool]{}},
	TypeString:  {"string", 8, text{}},
	TypeArray:   {"array", 12, nil},
	TypeUint64:  {"uint64", 8, fixed[uint64]{}},
	TypeInt64:   {"int64", 8, fixed[int64]{}},
	TypeFloat64: {"float64", 8, fixed[float64]{}},
}

// String returns the name of the type, such as "uint32".
func (t ValueType) String() string {
	if t < numValueTypes {
		return valueTypes[t].name
	}
	return fmt.Sprintf("type(%d)", uint32(t))
}

// KV is one metadata pair. Value has the Go type listed with the ValueType constants. An array is a slice of that type,
// and an array of arrays is []any.
type KV struct {
	Key   string
	Value any
}

// checkAlignment checks that a is a power of two of at most 1 MiB.
func checkAlignment(a uint32) error {
	if a == 0 || a&(a-1) != 0 || a > 1<<20 {
		return fmt.Errorf("%s is %d: want a power of two of at most 2^20", alignmentKey, a)
	}
	return nil
}
