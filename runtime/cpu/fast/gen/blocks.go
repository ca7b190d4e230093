package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// blocks is a block format.
type blocks struct {
	name            string
	bytes, elements int // the size of a block, and its number of elements
	// begin generates code that prepares what all elements of block src need, in registers or in room, which is
	// roomBytes of local memory. It returns the generator of code that decodes elements of the block.
	begin func(src Register, room Mem) blockDecoder
}

// blockDecoder generates code that sets vector y to the elements of a block from element `at` on. It is called for one
// vector after the other, from the start of the block.
type blockDecoder func(at int, y VecVirtual)

// roomBytes is the local memory of a block: for factors, and for the levels of 256 elements.
const roomBytes = 64 + 256

// blocks returns the formats.
func (w width) blocks() []blocks {
	if w.size == 64 {
		return []blocks{w.q8_0(), tableQ4_0, tableQ4_K, bytesQ6_K}
	}
	return []blocks{w.q8_0(), w.q4_0(), q4_K, q6_K}
}

// oneScale returns the decoder of a format with blocks of 32 elements: integers, times one f16 scale at the start of
// the block. bytes is the size of a block. levels generates code that loads a vector of the integers as int32.
func (w width) oneScale(name string, bytes int, levels func(src Register, at int, y VecVirtual)) blocks {
	return blocks{name, bytes, 32, func(src Register, _ Mem) blockDecoder {
		scale := w.vector()
		half(Mem{Base: src}, scale)
		return func(at int, y VecVirtual) {
			levels(src, at, y)
			VCVTDQ2PS(y, y)
			VMULPS(scale, y, y)
		}
	}}
}

func (w width) q8_0() blocks {
	return w.oneScale("Q8_0", 34, func(src Register, at int, y VecVirtual) {
		VPMOVSXBD(Mem{Base: src, Disp: 2 + at}, y)
	})
}

func (w width) q4_0() blocks {
	return w.oneScale("Q4_0", 18, func(src Register, at int, y VecVirtual) {
		VPMOVZXBD(Mem{Base: src, Disp: 2 + at%16}, y)
		nibble(y, at >= 16)
		VPSUBD(word(like(y), 8), y, y) // the smallest level is -8
	})
}

// like returns a new vector of the size of another.
func like(y VecVirtual) VecVirtual {
	if y.Size() == 64 {
		return ZMM()
	}
	return YMM()
}

// nibble generates code that extracts 4 bits of the byte in each 32-bit word: the upper or the lower ones.
func nibble(y VecVirtual, upper bool) {
	if upper {
		VPSRLD(Imm(4), y, y)
	} else {
		and(word(like(y), 15), y, y)
	}
}

// A q4_K block has 8 groups of 32 elements: a level of 4 bits times the group's scale, minus the group's minimum. After
// 16 bytes of scales and minima (see factorsQ4_K), each 32 bytes have the levels of two groups, in their lower and in
// their upper bits.
var q4_K = blocks{"Q4_K", 144, 256, func(src Register, room Mem) blockDecoder {
	storeFactorsQ4_K(src, room)
	return func(at int, y VecVirtual) {
		group, factor := at/32, like(y)
		VPMOVZXBD(Mem{Base: src, Disp: 16 + group/2*32 + at%32}, y)
		nibble(y, group%2 == 1)
		VCVTDQ2PS(y, y)
		VBROADCASTSS(room.Offset(4*group), factor)
		VMULPS(factor, y, y)
		VBROADCASTSS(room.Offset(32+4*group), factor)
		VSUBPS(factor, y, y)
	}
}}

// storeFactorsQ4_K generates code that stores 8 scales of a block in room, and then 8 minima.
func storeFactorsQ4_K(block Register, room Mem) {
	scales, minima := factorsQ4_K(block)
	VMOVUPS(scales, room)
	VMOVUPS(minima, room.Offset(32))
}

// A vector of 64 bytes holds the values of all 16 levels of 4 bits. Looking a level up there gives the same bits as
// computing the element.

// levelTable has the values of the 16 levels of some elements. bytes has, for each vector of elements, the words with
// the elements' levels in the lower bits.
type levelTable struct {
	values VecVirtual
	bytes  [2]VecVirtual
}

// look generates code that sets y to 16 elements: their levels are the lower or the upper 4 bits of 16 bytes. The
// lower bits must come first, because their code loads the bytes. vector is the number of the elements' vector among
// those for the same bits.
func (l *levelTable) look(bytes Mem, upper bool, vector int, y VecVirtual) {
	b := l.bytes[vector]
	if upper {
		VPSRLD(Imm(4), b, b)
	} else {
		b = ZMM()
		VPMOVZXBD(bytes, b)
		l.bytes[vector] = b
	}
	VPERMPS(l.values, b, y)
}

// numbers returns the address of constant memory with 16 consecutive numbers.
func numbers(name string, first float32) Mem {
	if _, ok := fills[name]; !ok {
		fills[name] = GLOBL(name, RODATA|NOPTR)
		for i := range 16 {
			DATA(4*i, F32(first+float32(i)))
		}
	}
	return fills[name]
}

// tableQ4_0 is q4_0 for vectors of 64 bytes.
var tableQ4_0 = blocks{"Q4_0", 18, 32, func(src Register, _ Mem) blockDecoder {
	scale := ZMM()
	half(Mem{Base: src}, scale)
	VMULPS(numbers("around", -8), scale, scale)
	table := &levelTable{values: scale}
	return func(at int, y VecVirtual) { table.look(Mem{Base: src, Disp: 2}, at == 16, 0, y) }
}}

// tableQ4_K is q4_K for vectors of 64 bytes.
var tableQ4_K = blocks{"Q4_K", 144, 256, func(src Register, room Mem) blockDecoder {
	storeFactorsQ4_K(src, room)
	table := &levelTable{}
	return func(at int, y VecVirtual) {
		group := at / 32
		if at%32 == 0 { // make the table of the next group
			table.values = ZMM()
			factor := ZMM()
			VBROADCASTSS(room.Offset(4*group), table.values)
			VMULPS(numbers("upward", 0), table.values, table.values)
			VBROADCASTSS(room.Offset(32+4*group), factor)
			VSUBPS(factor, table.values, table.values)
		}
		table.look(Mem{Base: src, Disp: 16 + group/2*32 + at%32}, group%2 == 1, at%32/16, y)
	}
}}

// bytesQ6_K is q6_K for vectors of 64 bytes: begin computes 64 levels at a time, as bytes, and stores them in room.
var bytesQ6_K = blocks{"Q6_K", 210, 256, func(src Register, room Mem) blockDecoder {
	storeScalesQ6_K(src, room)
	for part := range 4 {
		w, high := ZMM(), ZMM()
		VMOVDQU32(Mem{Base: src, Disp: part / 2 * 64}, w)
		VBROADCASTI64X4(Mem{Base: src, Disp: 128 + part/2*32}, high)
		if part%2 == 0 {
			VPSLLVW(halves(4, 2), high, high)
		} else {
			VPSRLW(Imm(4), w, w)
			VPSRLVW(halves(0, 2), high, high)
		}
		VPANDD(filledWide(0x0f), w, w)
		VPANDD(filledWide(0x30), high, high)
		VPORD(high, w, w)
		VPSUBB(filledWide(32), w, w) // the smallest level is -32
		VMOVDQU32(w, room.Offset(64+64*part))
	}
	return func(at int, y VecVirtual) {
		VPMOVSXBD(room.Offset(64+at), y)
		VCVTDQ2PS(y, y)
		VMULPS_BCST(room.Offset(at/16*4), y, y)
	}
}}

// filledWide returns the address of 64 bytes of constant memory that repeat a byte.
func filledWide(x byte) Mem {
	name := fmt.Sprintf("wide%x", x)
	if _, ok := fills[name]; !ok {
		fills[name] = GLOBL(name, RODATA|NOPTR)
		for i := range 64 {
			DATA(i, U8(x))
		}
	}
	return fills[name]
}

// halves returns the address of 64 bytes of constant memory: 16 times the 16-bit number lower, then 16 times upper.
func halves(lower, upper uint16) Mem {
	name := fmt.Sprintf("halves%d_%d", lower, upper)
	if _, ok := fills[name]; !ok {
		fills[name] = GLOBL(name, RODATA|NOPTR)
		for i := range 32 {
			DATA(2*i, U16([]uint16{lower, upper}[i/16]))
		}
	}
	return fills[name]
}

// factorsQ4_K generates code that decodes the 8 scales and the 8 minima of a block. They are integers of 6 bits times
// an f16 of the block, and packed in 3 words of 4 bytes each. The first 4 scales are the low 6 bits of the bytes of
// word 0, and the first 4 minima the low 6 bits of the bytes of word 1. The other 4 have their high 2 bits in the
// high bits of these bytes. Their low 4 bits are in word 2: the low 4 bits of a byte for a scale, and the high 4 bits
// for a minimum.
func factorsQ4_K(block Register) (scales, minima VecVirtual) {
	var factors [2]VecVirtual
	words := func(i int) Mem { return Mem{Base: block, Disp: 4 + 4*i} }
	for i := range factors {
		first, last, top := GP64(), GP64(), GP32() // four factors each, in bytes, and the high bits of the last four
		MOVL(words(i), first.As32())
		ANDL(U32(0x3f3f3f3f), first.As32())
		MOVL(words(2), last.As32())
		if i == 1 {
			SHRL(Imm(4), last.As32())
		}
		ANDL(U32(0x0f0f0f0f), last.As32())
		MOVL(words(i), top)
		SHRL(Imm(2), top)
		ANDL(U32(0x30303030), top)
		ORL(top, last.As32())
		SHLQ(Imm(32), last)
		ORQ(last, first)
		y, d := YMM(), YMM()
		VMOVQ(first, y.AsX())
		VPMOVZXBD(y.AsX(), y)
		VCVTDQ2PS(y, y)
		half(Mem{Base: block, Disp: 2 * i}, d)
		VMULPS(d, y, y)
		factors[i] = y
	}
	return factors[0], factors[1]
}

// A q6_K block has two halves of four runs of 32 elements. An element is a level of 6 bits times a scale. The low 4
// bits of a half's levels are in 64 bytes, two levels in each. The high 2 bits are in 32 bytes, four levels in each.
var q6_K = blocks{"Q6_K", 210, 256, func(src Register, room Mem) blockDecoder {
	storeScalesQ6_K(src, room)
	return func(at int, y VecVirtual) {
		run, high, factor := at/32%4, like(y), like(y)
		VPMOVZXBD(Mem{Base: src, Disp: at/128*64 + run%2*32 + at%32}, y)
		nibble(y, run >= 2)
		VPMOVZXBD(Mem{Base: src, Disp: 128 + at/128*32 + at%32}, high)
		VPSRLD(Imm(uint64(2*run)), high, high)
		and(word(like(y), 3), high, high)
		VPSLLD(Imm(4), high, high)
		or(high, y, y)
		VPSUBD(word(like(y), 32), y, y) // the smallest level is -32
		VCVTDQ2PS(y, y)
		VBROADCASTSS(room.Offset(at/16*4), factor)
		VMULPS(factor, y, y)
	}
}}

// storeScalesQ6_K generates code that stores the 16 scales of a block, each of 16 elements, in room.
func storeScalesQ6_K(block Register, room Mem) {
	d, y := scaleQ6_K(block), YMM()
	for i := range 2 {
		VPMOVSXBD(Mem{Base: block, Disp: 192 + 8*i}, y)
		VCVTDQ2PS(y, y)
		VMULPS(d, y, y)
		VMOVUPS(y, room.Offset(32*i))
	}
}

// scaleQ6_K generates code that sets all elements of a vector to a block's scale, the f16 at its end.
func scaleQ6_K(block Register) VecVirtual {
	bits, d := GP32(), YMM()
	MOVWLZX(Mem{Base: block, Disp: 208}, bits)
	VMOVD(bits, d.AsX())
	VCVTPH2PS(d.AsX(), d.AsX())
	VBROADCASTSS(d.AsX(), d)
	return d
}

// half generates code that sets all elements of y to the f16 in memory. At least 8 bytes must be readable there.
func half(from Mem, y VecVirtual) {
	VCVTPH2PS(from, y.AsX())
	VBROADCASTSS(y.AsX(), y)
}

// decode generates the assembly function that decodes blocks of format f to floats.
func (w width) decode(f blocks) {
	name := "decode" + f.name + w.suffix
	TEXT(name, NOSPLIT, "func(dst *float32, src *byte, n int)")
	Doc(name + " decodes n blocks of src into dst.")
	dst, src, n := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("n"), GP64())
	room := AllocLocal(roomBytes)
	Label("next")
	TESTQ(n, n)
	JZ(LabelRef("stop"))
	decode := f.begin(src, room)
	for at := 0; at < f.elements; at += w.lanes() {
		y := w.vector()
		decode(at, y)
		VMOVUPS(y, Mem{Base: dst, Disp: 4 * at})
	}
	ADDQ(U32(f.bytes), src)
	ADDQ(U32(4*f.elements), dst)
	DECQ(n)
	JMP(LabelRef("next"))
	Label("stop")
	VZEROUPPER()
	RET()
}

// dotsOfBlocks generates the function that computes the dot products of a row of floats with 4 rows of blocks. The
// results have the same bits as dot products with decoded rows.
func (w width) dotsOfBlocks(f blocks) {
	name := "dots1x4" + f.name + w.suffix
	TEXT(name, NOSPLIT, "func(out, a *float32, lda int, b *byte, ldb, n int)")
	Doc(name+" sets out to the dot products of a with 4 rows of b.", fmt.Sprintf("The rows are ldb bytes apart. "+
		"n, the elements of a row, must be a multiple of %d. lda is ignored.", f.elements))
	a, n := Load(Param("a"), GP64()), Load(Param("n"), GP64())
	b := pointers(4, "b", "ldb", 1)
	room := AllocLocal(roomBytes)
	sums := w.zeros(4)
	Label("next")
	TESTQ(n, n)
	JZ(LabelRef("stop"))
	for j, row := range b {
		PREFETCHT0(Mem{Base: row, Disp: ahead})
		decode := f.begin(row, room)
		for at := 0; at < f.elements; at += w.lanes() {
			y := w.vector()
			decode(at, y)
			VFMADD231PS(Mem{Base: a, Disp: 4 * at}, y, sums[j])
		}
		ADDQ(U32(f.bytes), row)
	}
	ADDQ(U32(4*f.elements), a)
	SUBQ(U32(f.elements), n)
	JMP(LabelRef("next"))
	Label("stop")
	putSums(Load(Param("out"), GP64()), sums)
	VZEROUPPER()
	RET()
}
