package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// foldOf describes how elements are folded: the functions of a reducer, see foldRows and foldEach.
type foldOf struct {
	name, what string
	// step folds a vector x of float64 elements into results acc, and merge folds results x into results acc.
	step, merge func(x, acc VecVirtual)
	// narrow is an instruction that folds float32 elements into float32 results, or nil if these would be less exact. It
	// may ignore NaN: foldNarrow makes the result NaN if an element is.
	narrow func(ops ...Op)
	words  func(ops ...Op) // the same for words, as long as results are elements
	// ofWords says that functions for words exist too.
	ofWords bool
	// running is the name of the scan, or "", and first its result for no elements.
	running string
	first   float64
}

// folded is a type of elements that are folded, each as 64 bits.
type folded struct {
	bytes int                         // of an element
	load  func(from Op, y VecVirtual) // generates code that loads the elements of half a block
}

var (
	foldedFloats  = folded{4, func(from Op, y VecVirtual) { VCVTPS2PD(from, y) }}
	foldedWords   = folded{4, func(from Op, y VecVirtual) { VCVTDQ2PD(from, y) }}
	foldedDoubles = folded{8, func(from Op, y VecVirtual) { VMOVUPD(from, y) }} // also long words
)

// half returns half i of the block that begins at m.
func (t folded) half(w width, m Mem, i int) Mem { return m.Offset(t.bytes / 4 * w.size / 2 * i) }

// prefetch generates code that prefetches a block.
func (t folded) prefetch(w width, m Mem, prefetch func(m Op)) {
	for line := 0; line < t.bytes/4*w.size; line += 64 {
		prefetch(m.Offset(line))
	}
}

// pointer is the type of a list of elements.
func (t folded) pointer() string { return fmt.Sprintf("*float%d", 8*t.bytes) }

// folds generates the functions of each reducer for one width and elements of 32 bits. Results are float64.
func (w width) folds() {
	for _, f := range w.floatFolds() {
		w.foldRows(f, foldedFloats)
		w.foldEach(f, foldedFloats)
		if f.ofWords {
			f.name, f.narrow = f.name+"Words", nil
			w.foldRows(f, foldedWords)
			w.foldEach(f, foldedWords)
		}
	}
}

// wideFolds generates the functions of each reducer for elements of 64 bits: float64, and long words.
func (w width) wideFolds() {
	for _, f := range w.floatFolds() {
		f.name, f.narrow, f.words = f.name+"Doubles", nil, nil
		w.foldRows(f, foldedDoubles)
		w.foldEach(f, foldedDoubles)
	}
	for _, f := range w.longFolds() {
		w.foldRows(f, foldedDoubles)
		w.foldEach(f, foldedDoubles)
	}
}

// longFolds returns the folds of long words.
func (w width) longFolds() []foldOf {
	add := func(x, acc VecVirtual) { VPADDQ(x, acc, acc) }
	// extreme returns a step: with AVX-512 the instruction `of`, and otherwise a comparison that sets mask where x
	// replaces acc.
	extreme := func(of func(ops ...Op), compare func(x, acc, mask VecVirtual)) func(x, acc VecVirtual) {
		return func(x, acc VecVirtual) {
			if w.size == 64 {
				of(x, acc, acc)
				return
			}
			mask := w.vector()
			compare(x, acc, mask)
			w.blendDoubles(mask, x, acc, acc)
		}
	}
	least := extreme(VPMINSQ, func(x, acc, mask VecVirtual) { VPCMPGTQ(x, acc, mask) })
	greatest := extreme(VPMAXSQ, func(x, acc, mask VecVirtual) { VPCMPGTQ(acc, x, mask) })
	return []foldOf{
		{name: "sumLongs", what: "the sum", step: add, merge: add},
		{name: "leastLongs", what: "the least", step: least, merge: least},
		{name: "greatestLongs", what: "the greatest", step: greatest, merge: greatest},
	}
}

// floatFolds returns the folds of floats.
func (w width) floatFolds() []foldOf {
	add := func(x, acc VecVirtual) { VADDPD(x, acc, acc) }
	multiply := func(x, acc VecVirtual) { VMULPD(x, acc, acc) }
	addSquare := func(x, acc VecVirtual) { VFMADD231PD(x, x, acc) }
	// The instructions return their second source, which is the first operand here, if either is NaN.
	extreme := func(of func(ops ...Op)) func(x, acc VecVirtual) {
		return func(x, acc VecVirtual) {
			isNaN := w.compareDoubles(unordered, x, x)
			of(acc, x, acc)
			w.blendDoubles(isNaN, x, acc, acc)
		}
	}
	least := extreme(func(ops ...Op) { VMINPD(ops...) })
	greatest := extreme(func(ops ...Op) { VMAXPD(ops...) })
	return []foldOf{
		{name: "sum", what: "the sum", step: add, merge: add, ofWords: true, running: "Sum"},
		{name: "product", what: "the product", step: multiply, merge: multiply, running: "Product", first: 1},
		{name: "sumSquares", what: "the sum of the squares", step: addSquare, merge: add},
		{name: "least", what: "the least, or NaN if one is NaN,", step: least, merge: least,
			narrow: func(ops ...Op) { VMINPS(ops...) }, words: func(ops ...Op) { VPMINSD(ops...) }, ofWords: true,
			running: "Least", first: math.Inf(1)},
		{name: "greatest", what: "the greatest, or NaN if one is NaN,", step: greatest, merge: greatest,
			narrow: func(ops ...Op) { VMAXPS(ops...) }, words: func(ops ...Op) { VPMAXSD(ops...) }, ofWords: true,
			running: "Greatest", first: math.Inf(-1)},
	}
}

// foldRows generates an assembly function that folds each of several rows into one result.
func (w width) foldRows(f foldOf, t folded) {
	name := f.name + "Rows" + w.suffix
	TEXT(name, NOSPLIT, "func(results *float64, x, ahead "+t.pointer()+", first float64, rows, n, apart int)")
	Doc(fmt.Sprintf("%s sets each of the results to %s of itself and the n elements of a row, a positive multiple", name,
		f.what), fmt.Sprintf("of %d. The rows are apart elements from each other. first is the result for no elements.",
		w.lanes()), "It prefetches ahead, which has as many elements as x.")
	out, x, rows := Load(Param("results"), GP64()), Load(Param("x"), GP64()), Load(Param("rows"), GP64())
	n, apart, ahead := Load(Param("n"), GP64()), Load(Param("apart"), GP64()), Load(Param("ahead"), GP64())
	begin, y := w.vector(), w.vector()
	from, _ := Param("first").Resolve()
	VBROADCASTSD(from.Addr, begin)
	at := GP64()
	Label("row")
	TESTQ(rows, rows)
	JZ(LabelRef("stop"))
	XORQ(at, at)
	var acc VecVirtual
	switch {
	case f.narrow != nil:
		acc = w.foldNarrow(f, x, ahead, at, n)
	case f.words != nil:
		acc = w.foldWords(f, x, ahead, at, n)
	default:
		acc = w.foldWide(f, x, ahead, at, n, begin, t)
	}
	w.foldLanes(acc, y, f.merge)
	VBROADCASTSD(Mem{Base: out}, y)
	f.merge(acc, y)
	VMOVSD(y.AsX(), Mem{Base: out})
	ADDQ(Imm(8), out)
	LEAQ(Mem{Base: x, Index: apart, Scale: uint8(t.bytes)}, x)
	LEAQ(Mem{Base: ahead, Index: apart, Scale: uint8(t.bytes)}, ahead)
	DECQ(rows)
	JMP(LabelRef("row"))
	Label("stop")
	VZEROUPPER()
	RET()
}

// foldWide generates the loop over the n elements of a row at x, converted to float64, and returns a vector that has a
// result per lane. n is a positive multiple of w.lanes(). begin has the result for no elements, in each lane. The loop
// prefetches the elements at ahead, and counts the elements in `at`, which is 0 before. It has two accumulators, one for
// each half of a vector of float32, so that a step need not wait for the step before.
func (w width) foldWide(f foldOf, x, ahead, at, n Register, begin VecVirtual, t folded) VecVirtual {
	acc, y := [2]VecVirtual{w.vector(), w.vector()}, w.vector()
	for _, a := range acc {
		VMOVAPD(begin, a)
	}
	Label("next")
	t.prefetch(w, Mem{Base: ahead, Index: at, Scale: uint8(t.bytes)}, PREFETCHT1)
	for i, a := range acc {
		t.load(t.half(w, Mem{Base: x, Index: at, Scale: uint8(t.bytes)}, i), y)
		f.step(y, a)
	}
	ADDQ(Imm(uint64(w.lanes())), at)
	CMPQ(at, n)
	JLT(LabelRef("next"))
	f.merge(acc[1], acc[0])
	return acc[0]
}

// foldNarrow generates the loop over a row's elements as float32 numbers, for folds whose result is an element, such as
// a maximum. It returns the results as float64 numbers, by lane. See foldWide for the parameters.
func (w width) foldNarrow(f foldOf, x, ahead, at, n Register) VecVirtual {
	acc, other, y := w.vector(), w.vector(), w.vector()
	isNaN := w.zero() // keeps the last NaN of each lane, which f.narrow may drop
	// The loop folds these first elements once more, which changes nothing.
	VMOVUPS(Mem{Base: x}, acc)
	Label("next")
	PREFETCHT1(Mem{Base: ahead, Index: at, Scale: 4})
	VMOVUPS(Mem{Base: x, Index: at, Scale: 4}, y)
	w.blend(w.compare(unordered, y, y), y, isNaN, isNaN)
	f.narrow(acc, y, acc)
	ADDQ(Imm(uint64(w.lanes())), at)
	CMPQ(at, n)
	JLT(LabelRef("next"))
	w.blend(w.compare(unordered, isNaN, isNaN), isNaN, acc, acc)
	halves := w.halves(acc)
	VCVTPS2PD(halves[0], other)
	VCVTPS2PD(halves[1], y)
	f.merge(y, other)
	return other
}

// foldWords generates the loop over a row's elements as 32-bit integers, for folds whose result is an element. It
// returns the results as float64 numbers, by lane. See foldWide for the parameters.
func (w width) foldWords(f foldOf, x, ahead, at, n Register) VecVirtual {
	acc, other, y := w.vector(), w.vector(), w.vector()
	// The loop folds these first elements once more, which changes nothing.
	VMOVUPS(Mem{Base: x}, acc)
	Label("next")
	PREFETCHT1(Mem{Base: ahead, Index: at, Scale: 4})
	f.words(Mem{Base: x, Index: at, Scale: 4}, acc, acc)
	ADDQ(Imm(uint64(w.lanes())), at)
	CMPQ(at, n)
	JLT(LabelRef("next"))
	halves := w.halves(acc)
	VCVTDQ2PD(halves[0], other)
	VCVTDQ2PD(halves[1], y)
	f.merge(y, other)
	return other
}

// foldLanes generates code that folds the lanes of acc into each of its lanes. y is a vector to use.
func (w width) foldLanes(acc, y VecVirtual, merge func(x, acc VecVirtual)) {
	if w.size == 64 {
		VSHUFF64X2(Imm(0x4e), acc, acc, y) // exchange the halves
		merge(y, acc)
	}
	for _, lanes := range []uint64{0x4e, 0xb1} { // exchange pairs, then neighbours
		VPERMPD(Imm(lanes), acc, y)
		merge(y, acc)
	}
}

// foldEach generates an assembly function that folds element i of each of several rows into result i, for all i. It
// keeps the results of a vector of columns in registers.
func (w width) foldEach(f foldOf, t folded) {
	name := f.name + "Each" + w.suffix
	TEXT(name, NOSPLIT, "func(results *float64, x "+t.pointer()+", rows, n, apart int)")
	Doc(fmt.Sprintf("%s sets each of n results, a multiple of %d, to %s of itself and", name, w.lanes(), f.what),
		"an element of each of some rows, at least one, which are apart elements from each other. It prefetches as many rows",
		"after these.")
	out, x, n := Load(Param("results"), GP64()), Load(Param("x"), GP64()), Load(Param("n"), GP64())
	rows, apart := Load(Param("rows"), GP64()), Load(Param("apart"), GP64())
	from, row, ahead, y, acc := GP64(), GP64(), GP64(), w.vector(), [2]VecVirtual{w.vector(), w.vector()}
	SHLQ(Imm(log2(t.bytes)), apart)
	MOVQ(apart, ahead)
	IMULQ(rows, ahead)
	Label("next")
	for i := range acc {
		VMOVUPD(Mem{Base: out, Disp: w.size * i}, acc[i])
	}
	MOVQ(x, from)
	MOVQ(rows, row)
	Label("row")
	t.prefetch(w, Mem{Base: from, Index: ahead, Scale: 1}, PREFETCHT0)
	for i := range acc {
		t.load(t.half(w, Mem{Base: from}, i), y)
		f.step(y, acc[i])
	}
	ADDQ(apart, from)
	DECQ(row)
	JNZ(LabelRef("row"))
	for i := range acc {
		VMOVUPD(acc[i], Mem{Base: out, Disp: w.size * i})
	}
	ADDQ(U32(2*w.size), out)
	ADDQ(U32(t.bytes/4*w.size), x)
	SUBQ(Imm(uint64(w.lanes())), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// repeat generates the assembly function that fills a list with one number.
func repeat() {
	TEXT("repeatVectors", NOSPLIT, "func(out *float32, x float32, n int)")
	Doc("repeatVectors sets n elements, a multiple of 8, to x.")
	y := YMM()
	x, _ := Param("x").Resolve()
	VBROADCASTSS(x.Addr, y)
	out, n := Load(Param("out"), GP64()), Load(Param("n"), GP64())
	at := GP64()
	XORQ(at, at)
	Label("next")
	CMPQ(at, n)
	JGE(LabelRef("stop"))
	VMOVUPS(y, Mem{Base: out, Index: at, Scale: 4})
	ADDQ(Imm(8), at)
	JMP(LabelRef("next"))
	Label("stop")
	VZEROUPPER()
	RET()
}

// searched is a type of elements that argmax and argmin compare.
type searched struct {
	floats
	name     string
	narrow   func(x VecVirtual) // converts a float64 result to an element; nil if it is one
	equal    func(ops ...Op)
	signs    func(ops ...Op)                // moves the signs of a vector's lanes to a register
	beats    func(old, y, beats VecVirtual) // sets beats to ones where y is greater than old, see search
	beatenBy func(old, y, beats VecVirtual) // the same where y is less
}

// searchedTypes returns the floats of a size, and the words.
func searchedTypes(t floats) [2]searched {
	compare, equalWords, moreWords, signs := VCMPPS, VPCMPEQD, VPCMPGTD, VMOVMSKPS
	names := [2]string{"Floats", "Words"}
	narrow := [2]func(x VecVirtual){func(x VecVirtual) { VCVTSD2SS(x.AsX(), x.AsX(), x.AsX()) },
		func(x VecVirtual) { VCVTTPD2DQX(x.AsX(), x.AsX()) }}
	if t.areWide() {
		compare, equalWords, moreWords, signs = VCMPPD, VPCMPEQQ, VPCMPGTQ, VMOVMSKPD
		names, narrow = [2]string{"Doubles", "Longs"}, [2]func(x VecVirtual){}
	}
	beats := func(predicate uint64) func(old, y, beats VecVirtual) {
		return func(old, y, beats VecVirtual) {
			known := YMM()
			compare(Imm(predicate), old, y, beats)
			// A NaN beats all numbers, by the predicate, and is never replaced.
			compare(Imm(ordered), old, old, known)
			VANDPS(known, beats, beats)
		}
	}
	return [2]searched{
		{t, names[0], narrow[0], func(ops ...Op) { compare(append([]Op{Imm(equal)}, ops...)...) },
			func(ops ...Op) { signs(ops[0], ops[1]) }, beats(notAtMost), beats(notAtLeast)},
		{t, names[1], narrow[1], func(ops ...Op) { equalWords(ops...) }, func(ops ...Op) { signs(ops[0], ops[1]) },
			func(old, y, beats VecVirtual) { moreWords(old, y, beats) },
			func(old, y, beats VecVirtual) { moreWords(y, old, beats) }},
	}
}

// search generates the assembly functions that argmax and argmin call for each row of elements, if the elements along
// their axis are in different rows.
func search(t floats) {
	for _, of := range searchedTypes(t) {
		of.searchAt("greatest", "greater", of.beats)
		of.searchAt("least", "less", of.beatenBy)
	}
}

// searchAt generates one of these functions.
func (t searched) searchAt(name, what string, compare func(old, y, beats VecVirtual)) {
	name += t.name + "At"
	TEXT(name, NOSPLIT, "func(best "+t.pointer()+", at *int32, x "+t.pointer()+", k int32, n int)")
	Doc(fmt.Sprintf("%s replaces each of n best elements, a multiple of 8, by an element of x that is %s,", name, what),
		"or the first NaN. It sets the coordinates of replaced ones to k.")
	k := YMM()
	from, _ := Param("k").Resolve()
	VBROADCASTSS(from.Addr, k)
	best, at, x := Load(Param("best"), GP64()), Load(Param("at"), GP64()), Load(Param("x"), GP64())
	n, i := Load(Param("n"), GP64()), GP64()
	XORQ(i, i)
	Label("next")
	CMPQ(i, n)
	JGE(LabelRef("stop"))
	old, y, beats := YMM(), YMM(), YMM()
	place := func(list Register) Mem { return Mem{Base: list, Index: i, Scale: uint8(t.bytes)} }
	VMOVUPS(place(best), old)
	VMOVUPS(place(x), y)
	compare(old, y, beats)
	VBLENDVPS(beats, y, old, old)
	VMOVUPS(old, place(best))
	var mask, places, coordinate Op = beats, y, k // with 32 bits for an element
	if t.areWide() {
		high := XMM()
		VEXTRACTF128(Imm(1), beats, high)
		VSHUFPS(Imm(0x88), high, beats.AsX(), beats.AsX())
		mask, places, coordinate = beats.AsX(), y.AsX(), k.AsX()
	}
	// A store of some lanes takes longer.
	VMOVUPS(Mem{Base: at, Index: i, Scale: 4}, places)
	VBLENDVPS(mask, coordinate, places, places)
	VMOVUPS(places, Mem{Base: at, Index: i, Scale: 4})
	ADDQ(Imm(uint64(avx2.size/t.bytes)), i)
	JMP(LabelRef("next"))
	Label("stop")
	VZEROUPPER()
	RET()
}

// firstEquals generates the assembly functions that find the first element of each row that equals the row's result.
func (w width) firstEquals(t floats) {
	for _, of := range searchedTypes(t) {
		name := "firstEqual" + of.name + w.suffix
		TEXT(name, NOSPLIT, "func(at *int32, results *float64, x "+t.pointer()+", rows, n int)")
		Doc(fmt.Sprintf("%s sets each of at to the index of the first of a row's n elements that equals the row's", name),
			"result, or to -1.")
		r := w.rowLoop(t)
		out, results := Load(Param("at"), GP64()), Load(Param("results"), GP64())
		some, y, mask, result := w.parts(t, r.rest), w.vector(), GP32(), w.vector()
		find := func(p parts) {
			for i, x := range p.load(r.block(r.x)) {
				found := mask
				if i > 0 {
					found = GP32()
				}
				if w.size == 64 {
					equals := K()
					of.equal(y, x, equals)
					KMOVW(equals, found)
				} else {
					of.equal(y, x, x)
					of.signs(x, found)
				}
				if i > 0 {
					SHLL(Imm(uint64(i*w.size/t.bytes)), found)
					ORL(found, mask)
				}
			}
		}
		Label("row")
		TESTQ(r.rows, r.rows)
		JZ(LabelRef("stop"))
		if of.narrow == nil {
			r.broadcastElement(Mem{Base: results}, y)
		} else {
			VMOVSD(Mem{Base: results}, result.AsX())
			of.narrow(result)
			VBROADCASTSS(result.AsX(), y)
		}
		XORQ(r.at, r.at)
		Label("next")
		CMPQ(r.at, r.whole)
		JGE(LabelRef("rest"))
		find(r.all())
		TESTL(mask, mask)
		JNZ(LabelRef("found"))
		ADDQ(Imm(uint64(w.lanes())), r.at)
		JMP(LabelRef("next"))
		Label("rest")
		find(some)
		BZHIL(r.rest.(GPVirtual).As32(), mask, mask) // only lanes of the row
		JNZ(LabelRef("found"))
		MOVL(I32(-1), Mem{Base: out})
		JMP(LabelRef("done"))
		Label("found")
		TZCNTL(mask, mask) // the first lane
		ADDL(r.at.(GPVirtual).As32(), mask)
		MOVL(mask, Mem{Base: out})
		Label("done")
		ADDQ(Imm(4), out)
		ADDQ(Imm(8), results)
		r.toNextRow(r.x)
		DECQ(r.rows)
		JMP(LabelRef("row"))
		Label("stop")
		VZEROUPPER()
		RET()
	}
}

// runningFolds generates the functions of scans such as cumsum. Results are float64.
func runningFolds() {
	for _, f := range avx2.floatFolds() {
		if f.running != "" {
			f.runningList()
			f.runningEach()
		}
	}
}

// runningList generates the function of running results of a list.
func (f foldOf) runningList() {
	name := "running" + f.running
	TEXT(name, NOSPLIT, "func(out, x *float32, acc float64, n int) float64")
	Doc(name+" sets each of n elements of out, a multiple of 4, to "+f.what+" of acc, the",
		"element of x and those before. It returns the last result.")
	acc, first := YMM(), avx2.double(f.first)
	begin, _ := Param("acc").Resolve()
	VBROADCASTSD(begin.Addr, acc)
	out, x, n, i := Load(Param("out"), GP64()), Load(Param("x"), GP64()), Load(Param("n"), GP64()), GP64()
	XORQ(i, i)
	Label("next")
	CMPQ(i, n)
	JGE(LabelRef("stop"))
	y, before, total, narrow := YMM(), YMM(), YMM(), XMM()
	VCVTPS2PD(Mem{Base: x, Index: i, Scale: 4}, y)
	VPERMPD(Imm(0x90), y, before) // elements 0, 0, 1 and 2
	VBLENDPD(Imm(1), first, before, before)
	f.merge(before, y)
	VPERM2F128(Imm(0x20), y, first, before) // the low half is above the result for no elements
	f.merge(before, y)
	VPERMPD(Imm(0xff), y, total)
	f.merge(acc, y)
	f.merge(total, acc)
	VCVTPD2PSY(y, narrow)
	VMOVUPS(narrow, Mem{Base: out, Index: i, Scale: 4})
	ADDQ(Imm(4), i)
	JMP(LabelRef("next"))
	Label("stop")
	Store(acc.AsX(), ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// runningEach generates the function that folds an element into each of several results.
func (f foldOf) runningEach() {
	name := "running" + f.running + "Each"
	TEXT(name, NOSPLIT, "func(acc *float64, out, x *float32, n int)")
	Doc(name+" sets each of n results acc, a multiple of 8, to "+f.what+" of itself and an",
		"element of x. It sets out to the results.")
	acc, to, from := Load(Param("acc"), GP64()), Load(Param("out"), GP64()), Load(Param("x"), GP64())
	count, at := Load(Param("n"), GP64()), GP64()
	XORQ(at, at)
	Label("next")
	CMPQ(at, count)
	JGE(LabelRef("stop"))
	for k := range 2 {
		x, y, narrow := YMM(), YMM(), XMM()
		VCVTPS2PD(Mem{Base: from, Index: at, Scale: 4, Disp: 16 * k}, x)
		VMOVUPD(Mem{Base: acc, Index: at, Scale: 8, Disp: 32 * k}, y)
		f.merge(x, y)
		VMOVUPD(y, Mem{Base: acc, Index: at, Scale: 8, Disp: 32 * k})
		VCVTPD2PSY(y, narrow)
		VMOVUPS(narrow, Mem{Base: to, Index: at, Scale: 4, Disp: 16 * k})
	}
	ADDQ(Imm(8), at)
	JMP(LabelRef("next"))
	Label("stop")
	VZEROUPPER()
	RET()
}

// transposes generates the functions that transpose blocks of elements.
func transposes() {
	transposeSquares()
	transposeRows(1, func(ops ...Op) { VPUNPCKLBW(ops...) }, func(ops ...Op) { VPUNPCKHBW(ops...) })
	transposeRows(2, func(ops ...Op) { VPUNPCKLWD(ops...) }, func(ops ...Op) { VPUNPCKHWD(ops...) })
	transposeRows(8, func(ops ...Op) { VPUNPCKLQDQ(ops...) }, func(ops ...Op) { VPUNPCKHQDQ(ops...) })
}

// transposeSquares generates the assembly function that transposes squares of 8 by 8 elements of 32 bits.
func transposeSquares() {
	TEXT("transpose8", NOSPLIT, "func(dst, src *float32, to, from, n int)")
	Doc("transpose8 transposes n squares of 8 by 8 elements. The squares are neighbours in the rows of dst, which are to",
		"elements apart, and one below the other in src, whose rows are from elements apart.")
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	to, from, n := Load(Param("to"), GP64()), Load(Param("from"), GP64()), Load(Param("n"), GP64())
	SHLQ(Imm(2), to)
	SHLQ(Imm(2), from)
	// An address has at most a register times 1, 2, 4 or 8. So rows 0 to 3 are addressed from a row with the distance
	// and three times the distance, and rows 4 to 7 likewise from row 4, which is low in src and high in dst.
	to3, from3, high, low := GP64(), GP64(), GP64(), GP64()
	LEAQ(Mem{Base: to, Index: to, Scale: 2}, to3)
	LEAQ(Mem{Base: from, Index: from, Scale: 2}, from3)
	Label("next")
	TESTQ(n, n)
	JZ(LabelRef("stop"))
	LEAQ(Mem{Base: src, Index: from, Scale: 4}, low)
	LEAQ(Mem{Base: dst, Index: to, Scale: 4}, high)
	rowOf := func(base, base4, step, step3 Register, i int) Mem {
		if i >= 4 {
			base, i = base4, i-4
		}
		return []Mem{{Base: base}, {Base: base, Index: step, Scale: 1}, {Base: base, Index: step, Scale: 2},
			{Base: base, Index: step3, Scale: 1}}[i]
	}
	var a, b [8]VecVirtual
	for i := range 4 { // a[i] has the low halves of rows i and i+4, and a[i+4] the high halves
		for half := range 2 {
			y, m := YMM(), rowOf(src, low, from, from3, i)
			m.Disp += 16 * half
			VMOVUPS(m, y.AsX())
			m = rowOf(src, low, from, from3, i+4)
			m.Disp += 16 * half
			VINSERTF128(Imm(1), m, y, y)
			a[i+4*half] = y
		}
	}
	for half := range 2 { // transposes squares of 4 by 4 in both halves of the vectors, which gives four rows of dst
		h := 4 * half
		for i := range b[:4] {
			b[h+i] = YMM()
		}
		VUNPCKLPS(a[h+1], a[h], b[h])
		VUNPCKHPS(a[h+1], a[h], b[h+1])
		VUNPCKLPS(a[h+3], a[h+2], b[h+2])
		VUNPCKHPS(a[h+3], a[h+2], b[h+3])
		for i, of := range [4]func(){
			func() { VUNPCKLPD(b[h+2], b[h], a[h]) }, func() { VUNPCKHPD(b[h+2], b[h], a[h]) },
			func() { VUNPCKLPD(b[h+3], b[h+1], a[h]) }, func() { VUNPCKHPD(b[h+3], b[h+1], a[h]) },
		} {
			of()
			VMOVUPS(a[h], rowOf(dst, high, to, to3, h+i))
		}
	}
	ADDQ(Imm(32), dst)
	LEAQ(Mem{Base: src, Index: from, Scale: 8}, src)
	DECQ(n)
	JMP(LabelRef("next"))
	Label("stop")
	VZEROUPPER()
	RET()
}

// transposeRows generates the function that transposes blocks of 8 rows of 16 bytes, of elements of a size. low and
// high are the instructions that interleave the elements of the low and of the high halves of two vectors.
//
// The number of an element in the block has the bits of its row, and below them the bits of its column. A step
// interleaves each row with the fourth row after it. So it moves the highest bit to the lowest place. After three steps
// the bits of the column are above the bits of the row.
func transposeRows(size int, low, high func(ops ...Op)) {
	const rows, bytes = 8, 16
	name := fmt.Sprint("transposeRows", 8*size)
	TEXT(name, NOSPLIT, "func(dst, src *byte, to, from, n int)")
	Doc(fmt.Sprintf("%s transposes n blocks of 8 by %d elements. The blocks are one below the other in src, whose rows are",
		name, bytes/size), "from bytes apart. They are neighbours in the rows of dst, which are to bytes apart.")
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	to, from, n := Load(Param("to"), GP64()), Load(Param("from"), GP64()), Load(Param("n"), GP64())
	at := GP64()
	Label("next")
	TESTQ(n, n)
	JZ(LabelRef("stop"))
	var v [rows]VecVirtual
	for i := range v {
		v[i] = XMM()
		VMOVDQU(Mem{Base: src}, v[i])
		ADDQ(from, src)
	}
	for range 3 {
		var next [rows]VecVirtual
		for i := range rows / 2 {
			next[2*i], next[2*i+1] = XMM(), XMM()
			low(v[i+rows/2], v[i], next[2*i])
			high(v[i+rows/2], v[i], next[2*i+1])
		}
		v = next
	}
	MOVQ(dst, at)
	for i := range rows * bytes / 8 { // parts of 8 bytes; a column has as many as an element has bytes
		if i > 0 && i%size == 0 {
			ADDQ(to, at)
		}
		switch part := i % size; {
		case size == 1 && i%2 == 0:
			VMOVQ(v[i/2], Mem{Base: at})
		case size == 1:
			VMOVHPS(v[i/2], Mem{Base: at})
		case i%2 == 0:
			VMOVDQU(v[i/2], Mem{Base: at, Disp: 8 * part})
		}
	}
	ADDQ(U32(rows*size), dst)
	DECQ(n)
	JMP(LabelRef("next"))
	Label("stop")
	RET()
}
