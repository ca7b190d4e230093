package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// memory generates the functions that read and write elements of at most 16 bits in the format of tensors.
func memory() {
	for _, f := range []struct {
		name, what string
		size       int
		of         func(ops ...Op)
	}{
		{"U8", "unsigned bytes", 1, func(ops ...Op) { VPMOVZXBD(ops[0], ops[1]) }},
		{"I8", "signed bytes", 1, func(ops ...Op) { VPMOVSXBD(ops[0], ops[1]) }},
		{"U16", "unsigned integers of 16 bits", 2, func(ops ...Op) { VPMOVZXWD(ops[0], ops[1]) }},
		{"I16", "signed integers of 16 bits", 2, func(ops ...Op) { VPMOVSXWD(ops[0], ops[1]) }},
	} {
		convert("wordsOf"+f.name, "words equal to n "+f.what, "float32", "byte", 4, f.size, func(from, to Mem) {
			y := YMM()
			f.of(from, y)
			VMOVDQU(y, to)
		})
	}
	for _, f := range []struct {
		name, what, dst, src string
		of                   func(ops ...Op)
	}{
		{"doublesOfFloats", "n floats as float64", "float64", "float32", func(ops ...Op) { VCVTPS2PD(ops[0], ops[1]) }},
		{"longsOfWords", "n words as long words", "float64", "int32", func(ops ...Op) { VPMOVSXDQ(ops[0], ops[1]) }},
		{"longsOfUnsigned", "n unsigned words as long words", "float64", "int32",
			func(ops ...Op) { VPMOVZXDQ(ops[0], ops[1]) }},
	} {
		convert(f.name, f.what, f.dst, f.src, 8, 4, func(from, to Mem) {
			for half := range 2 {
				y := YMM()
				f.of(from.Offset(16*half), y)
				VMOVUPD(y, to.Offset(32*half))
			}
		})
	}
	convert("floatsOfDoubles", "the floats nearest to n float64 numbers, of two the even one", "float32", "float64", 4, 8,
		func(from, to Mem) {
			for half := range 2 {
				x := XMM()
				VCVTPD2PSY(from.Offset(32*half), x)
				VMOVUPS(x, to.Offset(16*half))
			}
		})
	for _, size := range []int{1, 2, 4, 8} {
		replacements(size)
	}
	for _, size := range []int{1, 2, 4} {
		runningIntegers(size)
	}
	convert("oddFloatsOfDoubles", "n float64 numbers, rounded to odd", "float32", "float64", 4, 8, oddFloats)
	convert("wordsOfLongs", "the low words of n long words", "int32", "float64", 4, 8, func(from, to Mem) {
		y, high := YMM(), YMM()
		VMOVUPS(from, y)
		VMOVUPS(from.Offset(32), high)
		VSHUFPS(Imm(0x88), high, y, y) // the low words, in the order of halves 0, 2, 1 and 3
		VPERMQ(Imm(0xd8), y, y)
		VMOVUPS(y, to)
	})
	convert("bytesOfWords", "the low bytes of n words", "byte", "float32", 1, 4, func(from, to Mem) {
		y, high := YMM(), XMM()
		VMOVDQU(from, y)
		VPSHUFB(lowBytes(), y, y)
		VEXTRACTI128(Imm(1), y, high)
		VPUNPCKLDQ(high, y.AsX(), high)
		VMOVQ(high, to)
	}, lowBytesOf32)
	halves := func(y VecVirtual, to Mem) { // stores the low halves of words that are below 1<<16
		VPACKUSDW(y, y, y)
		VPERMQ(Imm(0x08), y, y)
		VMOVDQU(y.AsX(), to)
	}
	convert("halvesOfWords", "the low halves of n words", "byte", "float32", 2, 4, func(from, to Mem) {
		y := YMM()
		VPAND(from, word(YMM(), 0xffff), y)
		halves(y, to)
	})
	convert("narrowF16", "n floats, rounded to f16", "byte", "float32", 2, 4, func(from, to Mem) {
		y := YMM()
		VMOVUPS(from, y)
		VCVTPS2PH(Imm(0), y, to)
	})
	convert("narrowBF16", "n floats, rounded to bf16", "byte", "float32", 2, 4, func(from, to Mem) {
		y := YMM()
		VMOVUPS(from, y)
		roundBF16(y)
		VPSRLD(Imm(16), y, y)
		halves(y, to)
	})
}

// oddFloats generates code that converts 8 float64 numbers to float32. Numbers that float32 cannot represent become the
// neighbour with an odd last bit.
func oddFloats(from, to Mem) {
	sign := avx2.double(math.Copysign(0, -1))
	for half := range 2 {
		x, wide, narrow, size := YMM(), YMM(), XMM(), YMM()
		VMOVUPD(from.Offset(32*half), x)
		VCVTPD2PSY(x, narrow)
		VCVTPS2PD(narrow, wide)
		differs, past := YMM(), YMM()
		VCMPPD(Imm(orderedDiffer), x, wide, differs)
		VANDNPD(x, sign, size)
		VANDNPD(wide, sign, wide)
		VCMPPD(Imm(more), size, wide, past) // past has -1 where the float is farther from 0
		for _, mask := range []VecVirtual{differs, past} {
			high := XMM()
			VEXTRACTF128(Imm(1), mask, high)
			VSHUFPS(Imm(0x88), high, mask.AsX(), mask.AsX())
		}
		VPADDD(past.AsX(), narrow, narrow)
		VPSRLD(Imm(31), differs.AsX(), differs.AsX())
		VPOR(differs.AsX(), narrow, narrow)
		VMOVUPS(narrow, to.Offset(16*half))
	}
}

// replacements generates the functions of scatters that replace elements of `size` bytes.
func replacements(size int) {
	name := fmt.Sprint("replace", 8*size)
	TEXT(name, NOSPLIT, "func(dst, from *byte, ids *uint32, rows, cols, apart, limit, stride, step int)")
	Doc(fmt.Sprintf("%s copies elements of %d bytes from a matrix of rows by cols, whose rows are apart elements from", name,
		size), "each other, in order. An element of column i goes to place id*stride+i*step in dst, where id is the element of",
		"ids at the same place. It is left out if id is not below limit, which is not 0.")
	load := func(name string) Register { return Load(Param(name), GP64()) }
	const rowsAhead = 2 // the logarithm of the number of rows
	dst, from, ids, rows, cols, apart := load("dst"), load("from"), load("ids"), load("rows"), load("cols"), load("apart")
	everywhere := func(name string) VecVirtual {
		y, at := YMM(), load(name)
		VMOVQ(at, y.AsX())
		VPBROADCASTD(y.AsX(), y)
		return y
	}
	most, stride, step, first := everywhere("limit"), everywhere("stride"), everywhere("step"), YMM()
	ones, next := YMM(), YMM()
	VPCMPEQD(ones, ones, ones)
	VPADDD(ones, most, most) // limit-1
	VPMULLD(zeroToSeven(), step, first)
	VPSLLD(Imm(3), step, next)
	places, col, at, place, id := AllocLocal(32), YMM(), GP64(), GP64(), GP64()
	move := func(i int) {
		MOVL(places.Offset(4*i), place.As32())
		src, to := Mem{Base: from, Index: at, Scale: uint8(size), Disp: size * i}, Mem{Base: dst, Index: place, Scale: uint8(size)}
		switch size {
		case 1:
			MOVB(src, id.As8())
			MOVB(id.As8(), to)
		case 2:
			MOVW(src, id.As16())
			MOVW(id.As16(), to)
		case 4:
			MOVL(src, id.As32())
			MOVL(id.As32(), to)
		default:
			MOVQ(src, id)
			MOVQ(id, to)
		}
	}
	mask, end, nextIDs, nextFrom := GP32(), GP64(), GP64(), GP64()
	Label("row")
	// Rows may be far apart: the processor does not foresee those that follow.
	MOVQ(apart, nextIDs)
	SHLQ(Imm(rowsAhead), nextIDs)
	LEAQ(Mem{Base: from, Index: nextIDs, Scale: uint8(size)}, nextFrom)
	LEAQ(Mem{Base: ids, Index: nextIDs, Scale: 4}, nextIDs)
	XORQ(at, at)
	VMOVDQU(first, col)
	Label("eight")
	LEAQ(Mem{Base: at, Disp: 8}, end)
	CMPQ(end, cols)
	JG(LabelRef("some"))
	y, below := YMM(), YMM()
	VMOVDQU(Mem{Base: ids, Index: at, Scale: 4}, y)
	VPMINUD(most, y, below)
	VPCMPEQD(y, below, below)
	VMOVMSKPS(below, mask)
	VPMULLD(stride, y, y)
	VPADDD(col, y, y)
	VPADDD(next, col, col)
	VMOVDQU(y, places)
	PREFETCHT0(Mem{Base: nextIDs, Index: at, Scale: 4})
	PREFETCHT0(Mem{Base: nextFrom, Index: at, Scale: uint8(size)})
	CMPL(mask, Imm(0xff))
	JNE(LabelRef("part"))
	for i := range 8 {
		move(i)
	}
	Label("done")
	MOVQ(end, at)
	JMP(LabelRef("eight"))
	Label("part")
	for i := range 8 {
		label := fmt.Sprint("out", i)
		BTL(Imm(uint64(i)), mask)
		JCC(LabelRef(label))
		move(i)
		Label(label)
	}
	JMP(LabelRef("done"))
	Label("some") // one at a time
	CMPQ(at, cols)
	JGE(LabelRef("next"))
	MOVL(Mem{Base: ids, Index: at, Scale: 4}, place.As32())
	VMOVD(place.As32(), y.AsX())
	VPMINUD(most.AsX(), y.AsX(), below.AsX())
	VPCMPEQD(y.AsX(), below.AsX(), below.AsX())
	VMOVMSKPS(below.AsX(), mask)
	VPMULLD(stride.AsX(), y.AsX(), y.AsX())
	VPADDD(col.AsX(), y.AsX(), y.AsX())
	VMOVD(y.AsX(), places)
	VPADDD(step, col, col)
	BTL(Imm(0), mask)
	JCC(LabelRef("one"))
	move(0)
	Label("one")
	INCQ(at)
	JMP(LabelRef("some"))
	Label("next")
	LEAQ(Mem{Base: ids, Index: apart, Scale: 4}, ids)
	LEAQ(Mem{Base: from, Index: apart, Scale: uint8(size)}, from)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// runningIntegers generates the function of running sums of integers of `size` bytes.
func runningIntegers(size int) {
	name := fmt.Sprint("running", 8*size)
	TEXT(name, NOSPLIT, "func(out, x *byte, acc uint64, vectors int) uint64")
	Doc(fmt.Sprintf("%s sets each integer of out, of %d bytes, to the sum of acc, the integer of x and those before, for a", name,
		size), "number of vectors of 32 bytes, which is not 0. It returns the last sum.")
	add := map[int]func(ops ...Op){1: func(ops ...Op) { VPADDB(ops...) }, 2: func(ops ...Op) { VPADDW(ops...) },
		4: func(ops ...Op) { VPADDD(ops...) }}[size]
	last := GLOBL(name+"Last", RODATA|NOPTR) // a shuffle that repeats the last integer of each half
	for i := range 32 {
		DATA(i, U8(16-size+i%size))
	}
	out, x, vectors := Load(Param("out"), GP64()), Load(Param("x"), GP64()), Load(Param("vectors"), GP64())
	acc, repeat, first := YMM(), YMM(), GP64()
	Load(Param("acc"), first)
	VMOVQ(first, acc.AsX())
	switch size {
	case 1:
		VPBROADCASTB(acc.AsX(), acc)
	case 2:
		VPBROADCASTW(acc.AsX(), acc)
	default:
		VPBROADCASTD(acc.AsX(), acc)
	}
	VMOVDQU(last, repeat)
	Label("next")
	y, before := YMM(), YMM()
	VMOVDQU(Mem{Base: x}, y)
	for shift := size; shift < 16; shift *= 2 { // in each half
		VPSLLDQ(Imm(uint64(shift)), y, before)
		add(before, y, y)
	}
	VPSHUFB(repeat, y, before)
	VPERM2I128(Imm(0x08), before, before, before) // 0, and the sum of the lower half
	add(before, y, y)
	add(acc, y, before)
	VMOVDQU(before, Mem{Base: out})
	VPERMQ(Imm(0xff), y, y) // the sum of the vector, apart from acc, so that the next vector need not wait for it
	VPSHUFB(repeat, y, y)
	add(y, acc, acc)
	ADDQ(Imm(32), x)
	ADDQ(Imm(32), out)
	DECQ(vectors)
	JNZ(LabelRef("next"))
	VMOVQ(acc.AsX(), first)
	Store(first, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// zeroToSeven returns the words 0 to 7.
func zeroToSeven() Mem {
	if sevenWords.Symbol.Name == "" {
		sevenWords = GLOBL("zeroToSeven", RODATA|NOPTR)
		for i := range 8 {
			DATA(4*i, U32(i))
		}
	}
	return sevenWords
}

var sevenWords Mem

// lowBytesOf32 generates code that stores the low bytes of 32 words.
func lowBytesOf32(from, to Mem) {
	var y [4]VecVirtual
	for i := range y {
		y[i] = YMM()
		VMOVDQU(from.Offset(32*i), y[i])
		VPSHUFB(lowBytes(), y[i], y[i])
	}
	VPUNPCKLDQ(y[1], y[0], y[0])
	VPUNPCKLDQ(y[3], y[2], y[2])
	VPUNPCKLQDQ(y[2], y[0], y[0]) // the lower halves of all words, and then the upper halves
	VMOVDQU(halvesInTurns(), y[1])
	VPERMD(y[0], y[1], y[0])
	VMOVDQU(y[0], to)
}

// halvesInTurns returns the permutation that takes elements of the lower and of the upper half in turns.
func halvesInTurns() Mem {
	m := GLOBL("inTurns", RODATA|NOPTR)
	for i := range 8 {
		DATA(4*i, U32(i/2+i%2*4))
	}
	return m
}

// lowBytes returns the mask of the shuffle that moves the low bytes of 4 words to the start of each half of a vector.
func lowBytes() Mem {
	if lowBytesMask.Symbol.Name != "" {
		return lowBytesMask
	}
	m := GLOBL("lowBytes", RODATA|NOPTR)
	lowBytesMask = m
	for half := range 2 {
		for i := range 16 {
			b := uint8(0x80) // zero
			if i < 4 {
				b = uint8(4 * i)
			}
			DATA(16*half+i, U8(b))
		}
	}
	return m
}

var lowBytesMask Mem

// convert generates an assembly function that converts n elements, a multiple of 8. body generates code that converts
// 8, and many, if given, 32. to and from are the sizes of an element in bytes.
func convert(name, what, dstType, srcType string, to, from int, body func(from, to Mem), many ...func(from, to Mem)) {
	TEXT(name, NOSPLIT, fmt.Sprintf("func(dst *%s, src *%s, n int)", dstType, srcType))
	Doc(fmt.Sprintf("%s sets dst to %s; n is a multiple of 8.", name, what))
	dst, src, n, at := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("n"), GP64()), GP64()
	XORQ(at, at)
	from8, to8 := Mem{Base: src, Index: at, Scale: uint8(from)}, Mem{Base: dst, Index: at, Scale: uint8(to)}
	if len(many) > 0 {
		end := GP64()
		Label("many")
		LEAQ(Mem{Base: at, Disp: 32}, end)
		CMPQ(end, n)
		JG(LabelRef("next"))
		many[0](from8, to8)
		MOVQ(end, at)
		JMP(LabelRef("many"))
	}
	Label("next")
	CMPQ(at, n)
	JGE(LabelRef("stop"))
	body(from8, to8)
	ADDQ(Imm(8), at)
	JMP(LabelRef("next"))
	Label("stop")
	VZEROUPPER()
	RET()
}
