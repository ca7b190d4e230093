package ir

import (
	"fmt"
	"slices"
	"strings"
)

// BlockFormat is a row of the table of block formats: all that vkc knows of one but for its codec, a row of package
// quant. Ops, kernels, GLSL and files follow from it. What a row leaves out is a fast path that the format lacks.
type BlockFormat struct {
	Name         string // as in text IR and on the command line
	Elems, Bytes int    // of a block, as it lies in GGUF files: little-endian and without padding
	GGML         int    // the type number in GGUF files
	// FileType is the number that general.file_type has in files whose elements are mostly of this format, 0 for none.
	FileType int
	// Fallback is what rows are quantized to that are no whole blocks of this format; Invalid is as for most.
	Fallback DType
	// Activations says that rows are computed in this format, and no program takes weights in it.
	Activations bool

	BlockForm
	Parts  []BlockPart // from byte 0 on, in order
	Decode BlockDecode
	// Encode is the GLSL function quantize_NAME, which makes a block of its elements as op quantize does: exactly as
	// package quant, with functions of the generator's library. It leaves the block in 16-bit units, the first in
	// halves[0]. Empty says that op quantize does not make the format.
	//
	// Where invocations share a block, it makes the levels of one's elements. They exchange fits and codes of groups,
	// and levels, through shared memory (group_fits, group_codes and block_levels of the library). Pack is then the
	// function pack_NAME, which makes word i of the block of those, and of what quantize_NAME returns.
	Encode, Pack string
	Octets       *BlockOctets // nil for none
	Packed       *BlockPacked // nil for none
}

// BlockForm is how the elements of a block format come out of its bytes:
//
//	element = scale * (quant - bias) [+ offset]
//
// Elements come in quads, four neighbours of which the first is a multiple of
// four. Planes quads, Stride apart, share the same bytes: q4_0 keeps element i
// and i+16 in one byte, so it has 2 planes 16 apart.
type BlockForm struct {
	Planes, Stride int
	Run            int  // elements that share a scale, from a multiple of it on
	Bias           int  // of quants
	Affine         bool // there is an offset
	Signed         bool // quants are bytes with a sign
	Levels         bool // quants are floats, and no bytes: the row has Decode.Levels
	Halved         bool // quants are half of what scale and bias go with
	// Wide says that quants can be had for four quads in a row too, from the first
	// of a multiple of as many on, and, but for FourOnly, for two. What the blocks
	// hold must be aligned to sixteen bytes, as it is in planes.
	Wide, FourOnly bool
}

// EncodeRun is how many elements of a block an invocation of op quantize takes: those that share a scale, as they are
// fitted together, but no more than registers hold.
func (f BlockForm) EncodeRun() int { return min(f.Run, 32) }

// Superblock is the number of elements that planes of quads cover.
func (f BlockForm) Superblock() int { return f.Planes * f.Stride }

// Interleaved reports whether the planes of a quad lie apart and have scales of
// their own; else they follow each other.
func (f BlockForm) Interleaved() bool { return f.Stride > 4 }

// NeedsSums reports whether products of quants, by a scale, lack sums of what the
// quants are multiplied by.
func (f BlockForm) NeedsSums() bool { return f.Affine || f.Bias != 0 }

// BlockPart is what is read together of a block, such as quants, their high bits, signs or scales. It begins at byte
// At, and ends where the next part begins.
type BlockPart struct {
	At   int
	Name string
}

// BlockDecode has bodies of GLSL functions over the bytes of one block, through which every kernel decodes.
//
// A snippet reads its block only by WORD(at), SHORT(at), BYTE(at) and HALF(at):
// four, two, one byte, or a half as a float, at a byte of the block; and by
// WORDS(at), sixteen bytes, where blocks are multiples of that. How blocks
// lie in memory is thus the business of those readers alone. Where each part of the blocks lies in a plane of its own,
// the number that at begins with, or 0, says in which part it is. CODEBOOK is the array of the format's codebook
// (quant.Codebook).
type BlockDecode struct {
	// Scale returns the scale of element e of the block; of affine formats a
	// vec2 of scale and offset.
	Scale string
	// PlaneScale is the same where parts lie in planes, by readers of what is
	// aligned there, such as PAIRS(at) of eight bytes; empty is no different.
	PlaneScale string

	// Quants returns the four quants of plane p as the bytes of a uint, signed
	// ones or not; e is the first element of the quad in plane 0. Of wide formats it
	// is of type QUANTS, uint, uvec2 or uvec4, by WORDS(at), four bytes, eight or
	// sixteen.
	Quants string
	// Quants4 is the same for four quads where it is another text.
	Quants4 string
	// Levels returns them as a vec4 instead, where they are no bytes.
	Levels string
}

// ReadsOnce reports whether quants are decoded of what one reading of WORDS(at) has of the block.
func (d BlockDecode) ReadsOnce() bool {
	all := 0
	for _, reader := range []string{"WORDS(", "WORD(", "SHORT(", "BYTE(", "HALF("} {
		all += strings.Count(d.Quants, reader)
	}
	return all == 1 && strings.Contains(d.Quants, "WORDS(") && d.Quants4 == ""
}

// BlockOctets is how eight quants are decoded at once where parts lie in planes, by a table in shared memory or by
// multiplication: two quads, of neighbours or, where quants are floats, of the first plane and the second.
type BlockOctets struct {
	// Entries is how many entries the table has, Bytes how long one is, 4 or 8; 0 where there is no table.
	Entries, Bytes int
	// Signs is how many signs a further table turns into masks: 7, of which the eighth is even, 4, or 0 for no such
	// table.
	Signs int
	Entry string // GLSL of entry n, from CODEBOOK
	// Quants has the body of a function that returns the bytes of the octet that begins at element e, by entry_NAME(n).
	// Where there are masks, it declares quads and masks instead, the latter by signs_NAME(n), and where quants are
	// floats, even and odd quants of both planes.
	Quants string
	Masks  OctetMasks
	Signed bool // quants are bytes with a sign
	Halved bool // quants are half of what the format's are
}

// OctetMasks says what the masks of an octet are.
type OctetMasks int

// The kinds of masks.
const (
	NoMasks   OctetMasks = iota
	SignMasks            // ones for each negative quant, whose other bits are of its absolute value
	// OddMasks are those where the format's quants are odd, and entries their
	// halves rounded down: all bits of those change with the sign.
	OddMasks
	// ThirdMasks are bytes of which three times as much are to be taken off: the
	// digits in base 3 before those wanted. A byte is a fraction in that base, and
	// there is no table.
	ThirdMasks
)

// BlockPacked is how a format with four quants of two bits to a byte is multiplied
// by rows of bytes as it stands: the quants of plane p are masked, not shifted,
// so that integer dot products with them are 4^p times what they should be, which
// the scales of the rows make up for. One invocation takes sixteen bytes, the
// same sixteen places of four planes.
//
// Pairs of scales, one in each half of a word x, become floats at once: SMALL(x) returns both, divided
// by UNIT; UNIT_16 and PER_UNIT are that by 16, and 32 by that.
type BlockPacked struct {
	// Quants and High return the sixteen bytes that hold the quants of element e of
	// plane 0 and its neighbours, and those whose bit p is 4 more for plane p; High
	// is empty where there are none.
	Quants, High string
	// Result returns the products of a run with a row, added up and scaled: of dots,
	// the scaled dot products of every plane, and sums, the scaled sums of the row.
	Result string
	Bias   int // of a quant; sums are so many times as large
}

// blockFormats is the table, whose rows lie by families in files of their own.
var blockFormats = func() (table [numDTypes]*BlockFormat) {
	for _, family := range []map[DType]BlockFormat{legacyBlocks, kBlocks, codebookBlocks, ternaryBlocks, fp4Blocks} {
		for t, f := range family {
			f.BlockForm.Levels = f.Decode.Levels != ""
			table[t] = &f
		}
	}
	return table
}()

// BlockFormatOf returns the row of a block format, which callers must not change, and false for other dtypes.
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

// What texts of several rows have in common.
const (
	// eightOf is an entry of two words of a codebook.
	eightOf = `uvec2(CODEBOOK[2u * n], CODEBOOK[2u * n + 1u])`
	// nibblesOf is one of iq1: half of each byte is a nibble.
	nibblesOf = `CODEBOOK[2u * n] >> 1 | CODEBOOK[2u * n + 1u] << 3`
	// levelsOf is the levels of a byte's nibbles.
	levelsOf = `uint(int(CODEBOOK[n & 15u])) & 0xffu | (uint(int(CODEBOOK[n >> 4])) & 0xffu) << 8`
)

// nibbleLevels is the levels of the nibbles of plane p in four bytes.
func nibbleLevels(word string) string {
	return fmt.Sprintf(`
uint four = %s >> 4u * p;
return vec4(CODEBOOK[four & 15u], CODEBOOK[four >> 8 & 15u], CODEBOOK[four >> 16 & 15u], CODEBOOK[four >> 24 & 15u]);`,
		word)
}

// twoPlanes is the levels of four bytes, those of the nibbles of a byte next to
// each other: of bytes 0 and 2, and of 1 and 3.
func twoPlanes(word string) string {
	return fmt.Sprintf(`
uint four = %s;
uint even = entry_NAME(four & 255u) + (entry_NAME(four >> 16 & 255u) << 16);
uint odd = entry_NAME(four >> 8 & 255u) + (entry_NAME(four >> 24) << 16);`, word)
}
