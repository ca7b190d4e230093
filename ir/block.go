package ir

import (
	"fmt"
	"slices"
	"strings"
)

// BlockFormat is a row of the table of block formats. It describes a format completely, except for its codec, which is
// a row of package quant. Ops, kernels, GLSL and files derive from the row. An empty field means that the format lacks
// that fast path.
type BlockFormat struct {
	Name         string // as in text IR and on the command line
	Elems, Bytes int    // of a block in GGUF files, little-endian and without padding
	GGML         int    // the type number in GGUF files
	// FileType is the value of general.file_type in files with mostly this format, 0 for none.
	FileType int
	// Fallback is the format for rows whose length is not a multiple of the block; Invalid means the usual one.
	Fallback DType
	// Activations means that activations are quantized to this format. Weights cannot have it.
	Activations bool

	BlockForm
	Parts  []BlockPart // from byte 0 on, in order
	Decode BlockDecode
	// Encode is the GLSL function quantize_NAME, which quantizes elements to a block exactly as package quant does,
	// with functions of the generator's library. It returns the block in 16-bit units, the first in halves[0]. If it is
	// empty, op quantize does not support the format.
	//
	// If several invocations share a block, the function computes the levels of its own invocation's elements. The
	// invocations exchange the scales and codes of groups, and the levels, through shared memory (group_fits,
	// group_codes and block_levels of the library). Pack is then the function pack_NAME, which assembles word i of the
	// block from these and from quantize_NAME's result.
	Encode, Pack string
	Octets       *BlockOctets // nil for none
	Packed       *BlockPacked // nil for none
}

// BlockForm describes how a block format encodes its elements:
//
//	element = scale * (quant - bias) [+ offset]
//
// Elements come in quads: four neighbours, where the index of the first is a multiple of four. A byte is divided into
// Fields bit fields, each with the quant of another quad; the quads are Stride elements apart. For example, a byte of
// q4_0 has elements i and i+16: it has 2 fields, and the stride is 16.
type BlockForm struct {
	Fields, Stride int
	Run            int  // aligned group of elements that share a scale
	Bias           int  // of quants
	Affine         bool // there is an offset
	Signed         bool // quants are bytes with a sign
	Levels         bool // quants are floats rather than bytes: the row has Decode.Levels
	Halved         bool // quants are halved; scale and bias are for the full value
	// Wide means that four consecutive quads can be decoded at once, if the number of the first is a multiple of four.
	// Two can too, unless FourOnly is set. That requires 16-byte alignment, which blocks have when their parts are in
	// planes.
	Wide, FourOnly bool
}

// EncodeRun is the number of elements that one invocation of op quantize encodes: all elements that share a scale,
// because the invocation fits the scale to them, but at most 32, because it keeps them in registers.
func (f BlockForm) EncodeRun() int { return min(f.Run, 32) }

// Superblock returns the length of an aligned group of elements that share bytes only with one another: 32 for q4_0,
// which has 2 fields with a stride of 16.
func (f BlockForm) Superblock() int { return f.Fields * f.Stride }

// FieldsApart reports whether the quads that share bytes are more than one quad apart, and have separate scales.
// Otherwise they are adjacent.
func (f BlockForm) FieldsApart() bool { return f.Stride > 4 }

// NeedsSums reports whether a matmul on quants needs the sums of the other operand, to account for bias or offset.
func (f BlockForm) NeedsSums() bool { return f.Affine || f.Bias != 0 }

// BlockPart is a part of a block that is read as a unit: quants, their high bits, signs or scales. It extends from byte
// At to the next part.
type BlockPart struct {
	At   int
	Name string
}

// BlockDecode holds bodies of GLSL functions that decode a block. Every kernel decodes through them.
//
// A snippet reads its block only by readers, which take a byte offset: WORD(at) reads four bytes, SHORT(at) two,
// BYTE(at) one, HALF(at) a half as a float and, if the block size is a multiple of 16, WORDS(at) sixteen bytes. So only
// these readers depend on the memory layout of blocks. The layout is GGUF's, or "parts in planes": all scales in one
// array, all quants in another, and so on. In planes, the constant at the start of at, or 0, identifies the part.
// CODEBOOK is the array of the format's codebook (quant.Codebook).
type BlockDecode struct {
	// Scale returns the scale of element e of the block. For affine formats it returns a vec2 of scale and offset.
	Scale string
	// PlaneScale is a variant for parts in planes, with aligned readers such as PAIRS(at), which reads eight bytes. If
	// it is empty, Scale is used.
	PlaneScale string

	// Quants returns the four quants of bit field p as the bytes of a uint, signed or unsigned; e is the first element
	// of the quad in field 0. For wide formats the result has type QUANTS (uint, uvec2 or uvec4), and the snippet reads
	// with WORDS(at), which reads four, eight or sixteen bytes.
	Quants string
	// Quants4 is the same for four quads, if it needs different code.
	Quants4 string
	// Levels returns the quants as a vec4 if they are floats.
	Levels string
}

// ReadsOnce reports whether a single WORDS(at) reads everything that decoding the quants needs.
func (d BlockDecode) ReadsOnce() bool {
	all := 0
	for _, reader := range []string{"WORDS(", "WORD(", "SHORT(", "BYTE(", "HALF("} {
		all += strings.Count(d.Quants, reader)
	}
	return all == 1 && strings.Contains(d.Quants, "WORDS(") && d.Quants4 == ""
}

// BlockOctets describes how to decode an octet, eight quants at once, from blocks that are stored as planes. The code
// uses a table in shared memory or a multiplication. If quants are integers, an octet is two neighbouring quads. If
// they are floats, it is the two quads in the low and in the high bits of the same four bytes.
type BlockOctets struct {
	// Entries is the number of table entries, Bytes the size of one, 4 or 8; 0 if there is no table.
	Entries, Bytes int
	// Signs is the number of signs per entry of a second table that expands them to masks: 7, where the eighth makes
	// the parity even, 4, or 0 for no table.
	Signs int
	Entry string // GLSL expression for entry n, with CODEBOOK
	// Quants is the body of a function that returns the bytes of the octet at element e, with entry_NAME(n). If there
	// are masks, it declares quads and masks instead, the masks with signs_NAME(n). If quants are floats, it declares
	// the even and odd quants of both bit fields.
	Quants string
	Masks  OctetMasks
	Signed bool // quants are bytes with a sign
	Halved bool // quants are half of the format's
}

// OctetMasks says how masks change the quants of an octet after the table look-up.
type OctetMasks int

// The kinds of masks.
const (
	NoMasks   OctetMasks = iota
	SignMasks            // all ones for a negative quant; the quant's bits are its absolute value
	// OddMasks are for formats with odd quants. A table entry is half of a quant, rounded down, and a negative sign
	// inverts all bits of the entry.
	OddMasks
	// ThirdMasks are bytes; three times a mask is subtracted from the quant to remove the base-3 digits before the
	// wanted one. A byte is a base-3 fraction, and there is no table.
	ThirdMasks
)

// BlockPacked describes how to multiply a format with four 2-bit quants per byte by int8 rows without unpacking. The
// quants of bit field p are masked and not shifted, so their integer dot products are too large by a factor of 4^p, and
// the rows' scales compensate. One invocation processes sixteen bytes, which hold the same sixteen positions of four
// fields.
//
// Result may use SMALL(x): it converts two scales, one in each half of word x, to float and divides both by UNIT, a
// number that depends on the device. UNIT_16 is UNIT/16, and PER_UNIT is 32/UNIT.
type BlockPacked struct {
	// Quants returns the sixteen bytes with the quants at element e of field 0 and its neighbours. High returns the
	// bytes in which bit p adds 4 to the quant of field p; it is empty if there are none.
	Quants, High string
	// Result returns the scaled dot product of a run with a row, given dots, the scaled dot products of all fields, and
	// sums, the scaled sums of the row.
	Result string
	Bias   int // subtracted from each quant; sums are multiplied by it
}

// blockFormats is the table; each family of formats has its own file.
var blockFormats = func() (table [numDTypes]*BlockFormat) {
	for _, family := range []map[DType]BlockFormat{legacyBlocks, kBlocks, codebookBlocks, ternaryBlocks, fp4Blocks} {
		for t, f := range family {
			f.BlockForm.Levels = f.Decode.Levels != ""
			table[t] = &f
		}
	}
	return table
}()

// BlockFormatOf returns the row of a block format, which callers must not modify, and false for other dtypes.
func BlockFormatOf(t DType) (*BlockFormat, bool) {
	if t >= numDTypes || blockFormats[t] == nil {
		return nil, false
	}
	return blockFormats[t], true
}

// BlockFormats returns all block formats, in the order of their dtypes.
func BlockFormats() []DType {
	return slices.DeleteFunc(DTypes(), func(t DType) bool { return !t.IsBlock() })
}

// GLSL that several rows share.
const (
	// eightOf is table entry n of a format with two words (eight quants) per codebook entry.
	eightOf = `uvec2(CODEBOOK[2u * n], CODEBOOK[2u * n + 1u])`
	// nibblesOf is table entry n of iq1: both words of the codebook entry in one. Half a byte's value fits in 4 bits.
	nibblesOf = `CODEBOOK[2u * n] >> 1 | CODEBOOK[2u * n + 1u] << 3`
	// levelsOf is table entry n of a format with 4-bit quants: the levels of the two nibbles of byte n, low one first.
	levelsOf = `uint(int(CODEBOOK[n & 15u])) & 0xffu | (uint(int(CODEBOOK[n >> 4])) & 0xffu) << 8`
)

// nibbleLevels returns GLSL for a vec4 of levels: nibble p of each of the four bytes that the expression word reads.
func nibbleLevels(word string) string {
	return fmt.Sprintf(`
uint four = %s >> 4u * p;
return vec4(CODEBOOK[four & 15u], CODEBOOK[four >> 8 & 15u], CODEBOOK[four >> 16 & 15u], CODEBOOK[four >> 24 & 15u]);`,
		word)
}

// twoNibbles returns GLSL for the levels of the four bytes that the expression word reads, with two neighbouring
// nibbles each: even has the levels of bytes 0 and 2, odd has bytes 1 and 3.
func twoNibbles(word string) string {
	return fmt.Sprintf(`
uint four = %s;
uint even = entry_NAME(four & 255u) + (entry_NAME(four >> 16 & 255u) << 16);
uint odd = entry_NAME(four >> 8 & 255u) + (entry_NAME(four >> 24) << 16);`, word)
}
