package main

import (
	"fmt"
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The functions of this file multiply int8 rows by 16 rows of blocks at a time: lane i of a vector, which has 32 bits,
// belongs to row i of blocks. A vector of levels has four neighbouring levels in each lane. VPDPBUSD multiplies these
// by the same four elements of the int8 row, and adds the products to a vector of sums. A vector of scales has a
// scale in each lane. So no sum crosses a vector.
//
// The functions read interleaved blocks: the first block of each of 16 rows, then the second block of each, and so on.
// Of these 16 blocks, memory has word 0 of each, then word 1 of each, and so on; an f16 takes the place of a word. So a
// vector holds a word of 16 rows, and memory is read in order. Several int8 rows can share the decoded levels: a panel
// is the levels of 16 rows of blocks in memory, in the order in which vectors hold them.
//
// VPDPBUSD takes levels as unsigned bytes: a level plus f.lowest. That adds f.lowest times the sum of the int8 row's
// elements to the result, so the sums of integers begin with minus that. All functions of a format add the same numbers
// in the same order. So results do not depend on the function.

// panelFormat is a block format.
type panelFormat struct {
	name            string
	bytes, elements int
	share           int  // elements that share a scale: 16 or 32
	minima          bool // whether each 32 elements have a minimum, which is subtracted from the levels times the scale
	lowest          int  // minus the lowest level: a level is an unsigned byte minus this
	halfAt          int  // the offset of the block's f16, if its size is no multiple of 4
	// block generates code that decodes a block. It calls emit for each `share` elements, in order.
	block func(from source, emit func(part))
}

// part is elements that share a scale, of each of 16 rows of blocks.
type part struct {
	scale, minimum VecVirtual             // minimum is nil if the format has none
	levels         func(i int) VecVirtual // generates code that sets a new vector to the levels 4*i to 4*i+3
}

// source generates code that reads a block of each of 16 rows, from an offset in the block on.
type source interface {
	words(disp int) [4]VecVirtual // 16 bytes of each row: vector i has word i of all rows
	halves(disp int) VecVirtual   // an f16 of each row, as float32
}

// interleaved is a pointer to interleaved blocks.
type interleaved struct{ at Register }

func (b interleaved) words(disp int) (v [4]VecVirtual) {
	for i := range v {
		v[i] = ZMM()
		VMOVDQU32(Mem{Base: b.at, Disp: panelRows*disp + 64*i}, v[i])
	}
	return v
}

func (b interleaved) halves(disp int) VecVirtual {
	v := ZMM()
	VCVTPH2PS(Mem{Base: b.at, Disp: panelRows * disp}, v)
	return v
}

// panelRows is the number of rows of blocks of a panel.
const panelRows = 16

// columns are pointers to 16 rows of blocks.
type columns struct {
	every4        [4]Register // to rows 0, 4, 8 and 12
	apart, apart3 Register    // the distance of rows in bytes, and three times that
}

// newColumns generates code that computes pointers from parameters b and ldb.
func newColumns() columns {
	c := columns{apart: Load(Param("ldb"), GP64()), apart3: GP64()}
	c.every4[0] = Load(Param("b"), GP64())
	LEAQ(Mem{Base: c.apart, Index: c.apart, Scale: 2}, c.apart3)
	for i := range 3 {
		c.every4[i+1] = GP64()
		LEAQ(Mem{Base: c.every4[i], Index: c.apart, Scale: 4}, c.every4[i+1])
	}
	return c
}

// at returns an address in row j.
func (c columns) at(j, disp int) Mem {
	return rowAt(c.every4[j/4], c.apart, c.apart3, j%4, disp)
}

// rowAt returns the address disp bytes into row j (0 to 3). first holds the address of row 0, apart the distance of
// neighbouring rows in bytes, and apart3 three times that: an address can scale a register by 1 or 2, but not by 3.
func rowAt(first, apart, apart3 Register, j, disp int) Mem {
	switch j {
	case 1, 2:
		return Mem{Base: first, Index: apart, Scale: uint8(j), Disp: disp}
	case 3:
		return Mem{Base: first, Index: apart3, Scale: 1, Disp: disp}
	}
	return Mem{Base: first, Disp: disp}
}

// next generates code that moves the pointers to the next block.
func (c columns) next(bytes int) {
	for _, r := range c.every4 {
		ADDQ(U32(bytes), r)
	}
}

// words generates code that loads 4 words of each of 16 columns, from byte disp of a column on, and transposes them:
// word i of all columns is vector i.
func (c columns) words(disp int) [4]VecVirtual {
	var v, t [4]VecVirtual
	for i := range v {
		v[i] = ZMM()
		VBROADCASTI32X4(c.at(i, disp), v[i])
		for j := 1; j < 4; j++ {
			VINSERTI32X4(Imm(uint64(j)), c.at(4*j+i, disp), v[i], v[i])
		}
	}
	for i := range t {
		t[i] = ZMM()
	}
	VPUNPCKLDQ(v[1], v[0], t[0])
	VPUNPCKHDQ(v[1], v[0], t[1])
	VPUNPCKLDQ(v[3], v[2], t[2])
	VPUNPCKHDQ(v[3], v[2], t[3])
	VPUNPCKLQDQ(t[2], t[0], v[0])
	VPUNPCKHQDQ(t[2], t[0], v[1])
	VPUNPCKLQDQ(t[3], t[1], v[2])
	VPUNPCKHQDQ(t[3], t[1], v[3])
	return v
}

// halves generates code that loads an f16 of each row.
func (c columns) halves(disp int) VecVirtual {
	halves, upper := YMM(), YMM()
	for i, v := range []VecVirtual{halves, upper} {
		VPXOR(v, v, v)
		for j := range 8 {
			VPINSRW(Imm(uint64(j)), c.at(8*i+j, disp), v.AsX(), v.AsX())
		}
	}
	VINSERTI128(Imm(1), upper.AsX(), halves, halves)
	return halves
}

// bits32 generates code that returns n bits of each word, from bit number `from` on, as the low bits of a vector.
func bits32(word VecVirtual, from, n int) VecVirtual {
	y := ZMM()
	switch {
	case from == 0:
		VPANDD(wideWord(1<<n-1), word, y)
	case from+n == 32: // the shift leaves no other bits
		VPSRLD(Imm(uint64(from)), word, y)
	default:
		VPSRLD(Imm(uint64(from)), word, y)
		VPANDD(wideWord(1<<n-1), y, y)
	}
	return y
}

// wideWord returns the address of 64 bytes of constant memory that repeat a word.
func wideWord(x uint32) Mem {
	name := fmt.Sprintf("words%x", x)
	if _, ok := fills[name]; !ok {
		fills[name] = GLOBL(name, RODATA|NOPTR)
		for i := range 16 {
			DATA(4*i, U32(x))
		}
	}
	return fills[name]
}

// nibbles generates code that extracts the lower or the upper 4 bits of bytes.
func nibbles(bytes VecVirtual, upper bool) VecVirtual {
	y := ZMM()
	if upper {
		VPSRLD(Imm(4), bytes, y)
		bytes = y
	}
	VPANDD(filledWide(0x0f), bytes, y)
	return y
}

// panelFormats has the block formats of panels.
var panelFormats = []panelFormat{
	{name: "Q8_0", bytes: 34, elements: 32, share: 32, lowest: 128, block: partsQ8_0},
	{name: "Q4_0", bytes: 18, elements: 32, share: 32, lowest: 8, block: partsQ4_0},
	{name: "Q4_K", bytes: 144, elements: 256, share: 32, minima: true, block: partsQ4_K},
	{name: "Q6_K", bytes: 210, elements: 256, share: 16, lowest: 32, halfAt: 208, block: partsQ6_K},
}

// partsQ8_0 decodes a block of Q8_0: an f16 scale, and 32 signed bytes.
func partsQ8_0(c source, emit func(part)) {
	scale, words := c.halves(0), append4(c.words(2), c.words(18))
	emit(part{scale: scale, levels: func(i int) VecVirtual {
		VPXORD(filledWide(0x80), words[i], words[i])
		return words[i]
	}})
}

// partsQ4_0 decodes a block of Q4_0: an f16 scale, and 32 levels of 4 bits, two in each byte.
func partsQ4_0(c source, emit func(part)) {
	scale, words := c.halves(0), c.words(2)
	emit(part{scale: scale, levels: func(i int) VecVirtual { return nibbles(words[i%4], i >= 4) }})
}

// partsQ4_K decodes a block of Q4_K, see q4_K.
func partsQ4_K(c source, emit func(part)) {
	head := c.words(0) // an f16 for scales and one for minima, and then words as factorsQ4_K describes them
	var factors [2]VecVirtual
	for i := range factors {
		f := ZMM()
		if i == 1 {
			VPSRLD(Imm(16), head[0], head[0])
		}
		VPMOVDW(head[0], f.AsY())
		VCVTPH2PS(f.AsY(), f)
		factors[i] = f
	}
	for pair := range 4 {
		words := append4(c.words(16+32*pair), c.words(32+32*pair))
		for upper := range 2 {
			g := 2*pair + upper
			var of [2]VecVirtual // the scale and the minimum
			for i := range of {
				of[i] = bits32(head[1+i], 8*(g%4), 6)
				if g >= 4 {
					of[i] = bits32(head[3], 8*(g-4)+4*i, 4)
					top := bits32(head[1+i], 8*(g-4)+6, 2)
					VPSLLD(Imm(4), top, top)
					VPORD(top, of[i], of[i])
				}
				VCVTDQ2PS(of[i], of[i])
				VMULPS(factors[i], of[i], of[i])
			}
			emit(part{of[0], of[1], func(i int) VecVirtual { return nibbles(words[i], upper == 1) }})
		}
	}
}

// partsQ6_K decodes a block of Q6_K, see q6_K.
func partsQ6_K(c source, emit func(part)) {
	scales, room := c.words(192), AllocLocal(5*64)
	for i, s := range append(scales[:], c.halves(208)) {
		VMOVDQU32(s, room.Offset(64*i))
	}
	for half := range 2 {
		low := append(append4(c.words(64*half), c.words(64*half+16)),
			append4(c.words(64*half+32), c.words(64*half+48))...)
		high := append4(c.words(128+32*half), c.words(144+32*half))
		for of16 := range 8 {
			run, at := of16/2, 8*half+of16
			scale := ZMM()
			VMOVDQU32(room.Offset(64*(at/4)), scale)
			if at%4 < 3 {
				VPSLLD(Imm(uint64(24-8*(at%4))), scale, scale)
			}
			VPSRAD(Imm(24), scale, scale)
			VCVTDQ2PS(scale, scale)
			VMULPS(room.Offset(64*4), scale, scale)
			emit(part{scale: scale, levels: func(i int) VecVirtual {
				i += of16 % 2 * 4
				y, t := nibbles(low[run%2*8+i], run >= 2), ZMM()
				switch run { // move the bit pair to bits 4 and 5
				case 0:
					VPSLLD(Imm(4), high[i], t)
				case 1:
					VPSLLD(Imm(2), high[i], t)
				case 2:
					t = high[i]
				case 3:
					VPSRLD(Imm(2), high[i], t)
				}
				if run == 2 {
					t = ZMM()
					VPANDD(filledWide(0x30), high[i], t)
				} else {
					VPANDD(filledWide(0x30), t, t)
				}
				VPORD(t, y, y)
				return y
			}})
		}
	}
}

// append4 returns the vectors of two lists.
func append4(a, b [4]VecVirtual) []VecVirtual { return append(a[:], b[:]...) }

// The record of a group of 32 elements of an int8 row has words at these offsets.
const (
	recordScale  = 0
	recordSum    = 4 // the group's sum times the scale
	recordAll    = 8 // -128 times the sum, and then those of the first and the last 16 elements, as integers
	recordHalves = 12
	recordBytes  = 20
)

// recordOf returns the offset of the number that begins the sum of part i of a group.
func (f panelFormat) recordOf(i int) int {
	if f.share == 32 {
		return recordAll
	}
	return recordHalves + 4*i
}

// panels generates the assembly functions of matmuls that unpack blocks into panels.
func panels() {
	for _, f := range panelFormats {
		f.interleave()
		f.row()
		f.pack()
	}
	for _, rows := range []int{8, 4, 2, 1} {
		for _, f := range []panelFormat{{name: "Scales", share: 32}, {name: "Minima", share: 32, minima: true},
			{name: "Halves", share: 16}} {
			f.tile(rows)
		}
	}
	roundBytes(true)
}

// addPart generates code that adds the products of a part to the results: sum, the sum of integers, times the scale
// of the blocks and the scale in the int8 row's record, and the minimum times the row's sum in the record.
func addPart(result, sum, scale, minimum VecVirtual, record func(disp int) Mem) {
	factor := ZMM()
	if minimum != nil {
		VFNMADD231PS_BCST(record(recordSum), minimum, result)
	}
	VMULPS_BCST(record(recordScale), scale, factor)
	VCVTDQ2PS(sum, sum)
	VFMADD231PS(factor, sum, result)
}

// interleave generates the assembly function that interleaves the blocks of 16 rows, so that one instruction reads the
// same word of all rows.
func (f panelFormat) interleave() {
	name := "blocksInterleave" + f.name + avx512.suffix
	TEXT(name, NOSPLIT, "func(out, b *byte, ldb, n int)")
	Doc(fmt.Sprintf("%s interleaves 16 rows of b, n blocks each, which are ldb bytes apart.", name))
	out, n, b := Load(Param("out"), GP64()), Load(Param("n"), GP64()), newColumns()
	Label("next")
	TESTQ(n, n)
	JZ(LabelRef("stop"))
	half := -1 // the offset of the f16 in a block whose size is no multiple of 4
	if f.bytes%4 != 0 {
		half = f.halfAt
		VMOVDQU(b.halves(half), Mem{Base: out, Disp: panelRows * half})
	}
	for at := 0; at < f.bytes; at += 16 {
		if at == half {
			at += 2
		}
		if at == f.bytes {
			break
		}
		for i, v := range b.words(at) {
			VMOVDQU32(v, Mem{Base: out, Disp: panelRows*at + 64*i})
		}
	}
	b.next(f.bytes)
	ADDQ(U32(panelRows*f.bytes), out)
	DECQ(n)
	JMP(LabelRef("next"))
	Label("stop")
	VZEROUPPER()
	RET()
}

// row generates the function that multiplies one row.
func (f panelFormat) row() {
	name := "blocksRow" + f.name + avx512.suffix
	TEXT(name, NOSPLIT, "func(out *float32, a *int8, records *float32, b *byte, n, panels int)")
	Doc(fmt.Sprintf("%s sets out to the dot products of a with interleaved rows b: 16 times panels, n blocks each.",
		name), "records has five words for each 32 elements of a.")
	b := interleaved{Load(Param("b"), GP64())}
	out, panels, result := Load(Param("out"), GP64()), Load(Param("panels"), GP64()), ZMM()
	a, records, n := GP64(), GP64(), GP64()
	Label("panel")
	Load(Param("a"), a)
	Load(Param("records"), records)
	Load(Param("n"), n)
	VPXORD(result, result, result)
	Label("next")
	TESTQ(n, n)
	JZ(LabelRef("stop"))
	for line := 0; line < panelRows*f.bytes; line += 64 {
		PREFETCHT1(Mem{Base: b.at, Disp: line + ahead}) // the processor prefetches within a page only
	}
	at := 0 // the number of parts
	f.block(b, func(p part) {
		group, inGroup := at*f.share/32, at*f.share%32/f.share // of 32 elements; the part's number in it
		record := func(disp int) Mem { return Mem{Base: records, Disp: recordBytes*group + disp} }
		sum := ZMM()
		// A level is its byte minus f.lowest. So the sum begins with -f.lowest times the sum of the elements of a. The
		// record has -128 times that sum.
		if f.lowest == 0 {
			VPXORD(sum, sum, sum)
		} else {
			VPBROADCASTD(record(f.recordOf(inGroup)), sum)
			if f.lowest < 128 {
				VPSRAD(Imm(uint64(7-bits.TrailingZeros(uint(f.lowest)))), sum, sum)
			}
		}
		for i := range f.share / 4 {
			VPDPBUSD_BCST(Mem{Base: a, Disp: at*f.share + 4*i}, p.levels(i), sum)
		}
		addPart(result, sum, p.scale, p.minimum, record)
		at++
	})
	ADDQ(U32(panelRows*f.bytes), b.at)
	ADDQ(U32(f.elements), a)
	ADDQ(U32(f.elements/32*recordBytes), records)
	DECQ(n)
	JMP(LabelRef("next"))
	Label("stop")
	VMOVDQU32(result, Mem{Base: out})
	ADDQ(Imm(64), out)
	DECQ(panels)
	JNZ(LabelRef("panel"))
	VZEROUPPER()
	RET()
}

// partBytes returns the size of a part in a panel.
func (f panelFormat) partBytes() int {
	n := 64 * (f.share/4 + 1)
	if f.minima {
		n += 64
	}
	return n
}

// pack generates the assembly function that makes a panel of interleaved blocks. A byte of a panel is a level plus 128,
// for any format.
func (f panelFormat) pack() {
	name := "blocksPack" + f.name + avx512.suffix
	TEXT(name, NOSPLIT, "func(panel, b *byte, n int)")
	Doc(fmt.Sprintf("%s makes the panel of 16 interleaved rows of n blocks.", name))
	panel, n, b := Load(Param("panel"), GP64()), Load(Param("n"), GP64()), interleaved{Load(Param("b"), GP64())}
	Label("next")
	TESTQ(n, n)
	JZ(LabelRef("stop"))
	at := 0
	f.block(b, func(p part) {
		store := func(v VecVirtual) {
			VMOVDQU32(v, Mem{Base: panel, Disp: at})
			at += 64
		}
		for i := range f.share / 4 {
			v := p.levels(i)
			if f.lowest < 128 {
				VPADDB(filledWide(byte(128-f.lowest)), v, v)
			}
			store(v)
		}
		store(p.scale)
		if f.minima {
			store(p.minimum)
		}
	})
	ADDQ(U32(panelRows*f.bytes), b.at)
	ADDQ(U32(at), panel)
	DECQ(n)
	JMP(LabelRef("next"))
	Label("stop")
	VZEROUPPER()
	RET()
}

// tile generates the assembly function that multiplies several rows of bytes by a panel.
func (f panelFormat) tile(rows int) {
	name := fmt.Sprintf("panel%s%d%s", f.name, rows, avx512.suffix)
	TEXT(name, NOSPLIT, "func(out *float32, ldo int, a *int8, lda int, records *float32, ldr int, panel *byte, n int)")
	Doc(fmt.Sprintf("%s sets out to the dot products of %d rows of a with a panel, n groups of 32 elements each.", name,
		rows), "Rows of out and of records are ldo and ldr words apart, and rows of a lda bytes.")
	a, every4 := fourths(rows, "a", "lda", 1)
	records, ofRecords := fourths(rows, "records", "ldr", 4)
	panel, n := Load(Param("panel"), GP64()), Load(Param("n"), GP64())
	results, sums := make([]VecVirtual, rows), make([]VecVirtual, rows)
	for i := range rows {
		results[i], sums[i] = ZMM(), ZMM()
		VPXORD(results[i], results[i], results[i])
	}
	Label("next")
	TESTQ(n, n)
	JZ(LabelRef("stop"))
	levels, scale := ZMM(), ZMM()
	record := func(i, disp int) Mem { return rowAt(records[i/4], ofRecords[0], ofRecords[1], i%4, disp) } // of row i
	for part := range 32 / f.share {
		for i := range rows { // the sums begin with -128 times the sum of the elements of a, see pack
			VPBROADCASTD(record(i, f.recordOf(part)), sums[i])
		}
		at := part * f.partBytes()
		for k := range f.share / 4 {
			VMOVDQU32(Mem{Base: panel, Disp: at}, levels)
			at += 64
			for i := range rows {
				VPDPBUSD_BCST(rowAt(a[i/4], every4[0], every4[1], i%4, part*f.share+4*k), levels, sums[i])
			}
		}
		VMOVDQU32(Mem{Base: panel, Disp: at}, scale)
		var minimum VecVirtual
		if f.minima {
			minimum = levels
			VMOVDQU32(Mem{Base: panel, Disp: at + 64}, levels)
		}
		for i := range rows {
			addPart(results[i], sums[i], scale, minimum, func(disp int) Mem { return record(i, disp) })
		}
	}
	ADDQ(U32(32/f.share*f.partBytes()), panel)
	for i := range a {
		ADDQ(Imm(32), a[i])
		ADDQ(Imm(recordBytes), records[i])
	}
	DECQ(n)
	JMP(LabelRef("next"))
	Label("stop")
	out, apart := Load(Param("out"), GP64()), Load(Param("ldo"), GP64())
	for i := range rows {
		VMOVDQU32(results[i], Mem{Base: out})
		LEAQ(Mem{Base: out, Index: apart, Scale: 4}, out)
	}
	VZEROUPPER()
	RET()
}

// fourths generates code that computes pointers to every fourth row of a matrix. It returns these, and registers
// with the distance of rows in bytes and with three times that. With both, one instruction can address any of the
// four rows from a pointer on.
func fourths(rows int, base, stride string, size int) (first []Register, apart [2]Register) {
	first = []Register{Load(Param(base), GP64())}
	if rows == 1 {
		return first, apart
	}
	apart = [2]Register{Load(Param(stride), GP64()), GP64()}
	if size > 1 {
		SHLQ(Imm(uint64(bits.TrailingZeros(uint(size)))), apart[0])
	}
	LEAQ(Mem{Base: apart[0], Index: apart[0], Scale: 2}, apart[1])
	for i := 4; i < rows; i += 4 {
		next := GP64()
		LEAQ(Mem{Base: first[len(first)-1], Index: apart[0], Scale: 4}, next)
		first = append(first, next)
	}
	return first, apart
}
