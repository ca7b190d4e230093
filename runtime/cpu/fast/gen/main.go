// Command gen writes the assembly of package fast, and the Go declarations of its functions. The functions that take
// most of a model's time exist for each width of vectors. It is a module of its own, so that vkc does not depend on
// avo, the assembler.
//
// A call of an instruction such as VSUBPS(y, x, to) generates that instruction. The destination is the last operand,
// and the sources are in the reverse order of Intel's manuals: to becomes x-y. A call such as YMM() returns a virtual
// register, for which avo finds a real one.
package main

import (
	"flag"
	"fmt"
	"log"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// sets has the sets of functions with a flag, each for files of its own. Without a flag, gen writes singleFunctions.
var sets = []struct {
	flag, what string
	generate   func()
}{
	{"ints", "the functions of 8-bit integers", integers},
	{"convs", "the functions of convolutions of floats", convs},
	{"panels", "the functions of int8 rows and blocks with VNNI", panels},
	{"memory", "the functions that read and write elements of tensors", memory},
	{"functions", "the mathematical functions, primitives of 64 bits and sorts", wideFunctions},
}

func main() {
	generate := singleFunctions
	for _, s := range sets {
		flag.BoolFunc(s.flag, s.what+", not the others", func(string) error {
			generate = s.generate
			return nil
		})
	}
	ofARM64 := flag.String("arm64", "", "write the functions for arm64 to the files `NAME`.s and .go, and no others")
	flag.Parse()
	if *ofARM64 != "" {
		if err := writeARM64(*ofARM64); err != nil {
			log.Fatal(err)
		}
		return
	}
	ConstraintExpr("amd64")
	generate()
	Generate()
}

// wideFunctions generates the mathematical functions, the functions of 64-bit elements, and sorts.
func wideFunctions() {
	avx2.functions()
	avx512.functions()
	doubles()
	avx2.doubleFunctions()
	avx512.doubleFunctions()
	avx2.sortLongs()
	avx512.sortLongs()
	for _, k := range keyTypes {
		k.sortKeys()
	}
	numbered()
	avx2.columnSorts()
	avx512.columnSorts()
	avx2.wideFolds()
	avx512.wideFolds()
	for _, w := range []width{avx2, avx512} {
		w.firstEquals(wides)
		w.rowPrograms(wides)
		w.rowFolds(wides)
	}
	search(wides)
}

// singleFunctions generates dot products, and functions of 32-bit elements.
func singleFunctions() {
	for _, w := range []width{avx2, avx512} {
		for _, f := range []format{f32, f16, bf16} {
			w.dots(1, 4, f)
		}
		w.dots(w.tile[0], w.tile[1], f32)
		w.weigh(4)
		w.weigh(1)
		w.widen(f16)
		w.widen(bf16)
		for _, f := range w.blocks() {
			w.decode(f)
			w.dotsOfBlocks(f)
		}
	}
	byteProducts()
	roundBytes(false)
	exps()
	primitives()
	wordPrimitives()
	for _, w := range []width{avx2, avx512} {
		w.folds()
		w.firstEquals(singles)
		w.rowPrograms(singles)
		w.moments()
		w.rowFolds(singles)
		w.fusedSteps()
	}
	search(singles)
	runningFolds()
	transposes()
	repeat()
}

// width is a size of vectors, with the instructions for it.
type width struct {
	suffix string // of the names of functions
	size   int    // the bytes of a vector
	// The number of rows of each matrix in the function that computes most of a matmul: its sums fill the registers.
	tile [2]int
}

var (
	avx2   = width{"", 32, [2]int{4, 3}}  // and FMA, F16C
	avx512 = width{"Z", 64, [2]int{4, 6}} // F, BW, DQ, VL, VNNI
)

// lanes returns the number of 32-bit elements in a vector.
func (w width) lanes() int { return w.size / 4 }

// vector returns a new vector.
func (w width) vector() VecVirtual {
	if w.size == 64 {
		return ZMM()
	}
	return YMM()
}

// zero returns a new vector of zeros.
func (w width) zero() VecVirtual {
	v := w.vector()
	VXORPS(v, v, v)
	return v
}

// zeros returns n new vectors of zeros.
func (w width) zeros(n int) []VecVirtual {
	list := make([]VecVirtual, n)
	for i := range list {
		list[i] = w.zero()
	}
	return list
}

// maskOf generates code that returns a vector of 32 bytes: all bits of the first n elements are 1, and the others 0. It
// loads the vector from a table, n elements before the end of the ones.
func (w width) maskOf(n Register) VecVirtual {
	if masks.Symbol.Name == "" {
		masks = GLOBL("masks", RODATA|NOPTR)
		for i := range w.lanes() {
			DATA(4*i, U32(1<<32-1))
		}
		for i := range w.lanes() {
			DATA(4*(w.lanes()+i), U32(0))
		}
	}
	at, from, mask := GP64(), GP64(), w.vector()
	MOVQ(U32(w.lanes()), at)
	SUBQ(n, at)
	LEAQ(masks, from)
	VMOVUPS(Mem{Base: from, Index: at, Scale: 4}, mask)
	return mask
}

var masks Mem // the table of maskOf: 8 words with all bits set, and then 8 zeros

// Instructions on bits have other names for 64 bytes.

func and(a, b Op, to VecVirtual) {
	if to.Size() == 64 {
		VPANDD(a, b, to)
	} else {
		VPAND(a, b, to)
	}
}

func or(a, b Op, to VecVirtual) {
	if to.Size() == 64 {
		VPORD(a, b, to)
	} else {
		VPOR(a, b, to)
	}
}

// ahead is the prefetch distance in bytes for weights. The processor does not prefetch weights itself: a function reads
// several rows of them in turns, and the processor takes each row for a short stream.
const ahead = 4096

// format is a format of floats in memory.
type format struct {
	name string // suffix of the names of functions
	typ  string // Go type of a pointer to the floats
	size uint8  // size of a float in bytes
}

var (
	f32  = format{"", "*float32", 4}
	f16  = format{"F16", "*byte", 2}
	bf16 = format{"BF16", "*byte", 2}
)

// unit returns the name of the unit in which the distance between rows is passed.
func (f format) unit() string {
	if f == f32 {
		return "elements"
	}
	return "bytes"
}

// load generates code that reads a vector of elements and converts them to float32.
func (f format) load(from Mem, y VecVirtual) {
	switch f {
	case f32:
		VMOVUPS(from, y)
	case f16:
		VCVTPH2PS(from, y)
	case bf16:
		VPMOVZXWD(from, y)
		VPSLLD(Imm(16), y, y)
	}
}

// dots generates the function that computes the dot products of each of `rows` rows of a with each of `cols` rows of b,
// which has format f. All of these functions of a width sum in the same order, so the bits of a dot product do not
// depend on which function computes it.
func (w width) dots(rows, cols int, f format) {
	name := fmt.Sprintf("dots%dx%d%s%s", rows, cols, f.name, w.suffix)
	TEXT(name, NOSPLIT, fmt.Sprintf("func(out, a *float32, lda int, b %s, ldb, n int)", f.typ))
	multiple := ""
	if f != f32 {
		multiple = fmt.Sprintf(", must be a multiple of %d", w.lanes())
	}
	Doc(fmt.Sprintf("%s sets out, row-major, to the dot products of %d rows of a with %d rows of b.", name, rows, cols),
		fmt.Sprintf("The rows are lda elements and ldb %s apart. n is the elements of a row%s.", f.unit(), multiple))
	out, n := Load(Param("out"), GP64()), Load(Param("n"), GP64())
	a := pointers(rows, "a", "lda", 4)
	unit := f.size // of ldb, in bytes
	if f != f32 {
		unit = 1
	}
	b := pointers(cols, "b", "ldb", unit)
	sums := w.zeros(rows * cols) // of row i and column j at i*cols+j; a vector has a sum per lane
	at := GP64()
	XORQ(at, at)
	left := n // the elements of a row that are not summed yet
	SUBQ(U32(w.lanes()), left)
	JL(LabelRef("rest"))
	Label("next")
	ofB := make([]Op, cols)
	for j := range cols {
		m := Mem{Base: b[j], Index: at, Scale: f.size}
		if rows == 1 && f == f32 { // a single instruction uses the elements, and reads them from memory
			ofB[j] = m
			continue
		}
		y := w.vector()
		f.load(m, y)
		if f != f32 {
			PREFETCHT0(Mem{Base: b[j], Index: at, Scale: f.size, Disp: ahead})
		}
		ofB[j] = y
	}
	x := w.vector()
	for i := range rows {
		VMOVUPS(Mem{Base: a[i], Index: at, Scale: 4}, x)
		for j := range cols {
			VFMADD231PS(ofB[j], x, sums[i*cols+j])
		}
	}
	ADDQ(Imm(uint64(w.lanes())), at)
	SUBQ(U32(w.lanes()), left)
	JGE(LabelRef("next"))
	Label("rest")
	if f == f32 {
		ADDQ(U32(w.lanes()), left)
		JZ(LabelRef("done"))
		some := w.partial(left)
		y := w.vector()
		for j := range cols { // reads rows of a again and again, because the mask leaves few registers
			some.load(Mem{Base: b[j], Index: at, Scale: 4}, y)
			for i := range rows {
				some.load(Mem{Base: a[i], Index: at, Scale: 4}, x)
				VFMADD231PS(y, x, sums[i*cols+j])
			}
		}
	}
	Label("done")
	putSums(out, sums)
	VZEROUPPER()
	RET()
}

// putSums generates code that stores the sum of the elements of each vector, a number per vector. The number of vectors
// is a multiple of 4.
func putSums(out Register, sums []VecVirtual) {
	for k := 0; k < len(sums); k += 4 {
		s, t := sums[k:k+4], like(sums[0])
		// add replaces a by sums of neighbouring elements, of a and of b in turns. lower and upper interleave the lower
		// and the upper elements of each 16 bytes of two vectors.
		add := func(lower, upper func(ops ...Op), a, b VecVirtual) {
			lower(b, a, t)
			upper(b, a, a)
			VADDPS(t, a, a)
		}
		add(VUNPCKLPS, VUNPCKHPS, s[0], s[1])
		add(VUNPCKLPS, VUNPCKHPS, s[2], s[3])
		add(VUNPCKLPD, VUNPCKHPD, s[0], s[2]) // each 16 bytes now have an element for each of the vectors
		if t.Size() == 64 {
			VEXTRACTF64X4(Imm(1), s[0], t.AsY())
			VADDPS(t.AsY(), s[0].AsY(), s[0].AsY())
			VEXTRACTF32X4(Imm(1), s[0].AsY(), t.AsX())
		} else {
			VEXTRACTF128(Imm(1), s[0], t.AsX())
		}
		VADDPS(t.AsX(), s[0].AsX(), s[0].AsX())
		VMOVUPS(s[0].AsX(), Mem{Base: out, Disp: 4 * k})
	}
}

// pointers generates code that computes the addresses of the first rows of a matrix. base and stride name the
// parameters with the matrix's address and the distance between rows, in units of size bytes.
func pointers(rows int, base, stride string, size uint8) []Register {
	first := Load(Param(base), GP64())
	list := []Register{first}
	if rows == 1 {
		return list
	}
	apart := Load(Param(stride), GP64())
	for range rows - 1 {
		next := GP64()
		LEAQ(Mem{Base: list[len(list)-1], Index: apart, Scale: size}, next)
		list = append(list, next)
	}
	return list
}

// weigh generates the assembly function that computes a weighted sum of rows, for as many columns as `vectors` vectors
// have. It adds the rows in order.
func (w width) weigh(vectors int) {
	name := fmt.Sprintf("weigh%d%s", vectors, w.suffix)
	TEXT(name, NOSPLIT, "func(out, weights, rows *float32, ld, n int)")
	Doc(fmt.Sprintf("%s sets %d elements of out to the weighted sums over n rows.", name, w.lanes()*vectors),
		"The rows are ld elements apart.")
	weights, rows := Load(Param("weights"), GP64()), Load(Param("rows"), GP64())
	apart, n := Load(Param("ld"), GP64()), Load(Param("n"), GP64())
	sums := w.zeros(vectors)
	Label("next")
	TESTQ(n, n)
	JZ(LabelRef("stop"))
	weight := w.vector()
	VBROADCASTSS(Mem{Base: weights}, weight)
	for i, s := range sums {
		VFMADD231PS(Mem{Base: rows, Disp: w.size * i}, weight, s)
	}
	ADDQ(Imm(4), weights)
	LEAQ(Mem{Base: rows, Index: apart, Scale: 4}, rows)
	DECQ(n)
	JMP(LabelRef("next"))
	Label("stop")
	out := Load(Param("out"), GP64())
	for i, s := range sums {
		VMOVUPS(s, Mem{Base: out, Disp: w.size * i})
	}
	VZEROUPPER()
	RET()
}

// widen generates the assembly function that converts floats of format f to float32.
func (w width) widen(f format) {
	name := "widen" + f.name + w.suffix
	TEXT(name, NOSPLIT, fmt.Sprintf("func(dst *float32, src %s, n int)", f.typ))
	Doc(fmt.Sprintf("%s widens n floats of src, a multiple of %d, into dst.", name, w.lanes()))
	dst, src, n := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("n"), GP64())
	at, y := GP64(), w.vector()
	XORQ(at, at)
	Label("next")
	CMPQ(at, n)
	JGE(LabelRef("stop"))
	f.load(Mem{Base: src, Index: at, Scale: f.size}, y)
	VMOVUPS(y, Mem{Base: dst, Index: at, Scale: 4})
	ADDQ(Imm(uint64(w.lanes())), at)
	JMP(LabelRef("next"))
	Label("stop")
	VZEROUPPER()
	RET()
}

// constant generates code that sets all elements of vector y to a number, and returns y.
func constant(y VecVirtual, x float32) VecVirtual {
	return word(y, math.Float32bits(x))
}

// word generates code that sets all elements of vector y to a 32-bit word, and returns y. If a register has the word
// already (see keepConstants), it returns that register instead, which must not be changed, and generates nothing.
func word(y VecVirtual, bits uint32) VecVirtual {
	if kept := keptWords[bits]; kept != nil {
		return kept
	}
	if _, ok := words[bits]; !ok {
		words[bits] = ConstData(fmt.Sprintf("c%08x", bits), U32(bits))
	}
	VBROADCASTSS(words[bits], y)
	return y
}

// operand returns an operand for an instruction: a number in all elements of a vector. It must be the first operand.
// AVX2 has too few registers for constants, so the operand is in memory there. With AVX-512 it is a register.
func (w width) operand(x float32) Op {
	bits := math.Float32bits(x)
	if w.size == 64 {
		return constant(w.vector(), x)
	}
	if _, ok := vectors[bits]; !ok {
		vectors[bits] = GLOBL(fmt.Sprintf("v%08x", bits), RODATA|NOPTR)
		for i := range w.lanes() {
			DATA(4*i, U32(bits))
		}
	}
	return vectors[bits]
}

// doubleOperand is operand for float64 numbers.
func (w width) doubleOperand(x float64) Op {
	bits := math.Float64bits(x)
	switch {
	case keptDoubles[bits] != nil:
		return keptDoubles[bits]
	case w.size == 64:
		return w.double(x)
	}
	if _, ok := doubleVectors[bits]; !ok {
		doubleVectors[bits] = GLOBL(fmt.Sprintf("w%016x", bits), RODATA|NOPTR)
		for i := range w.size / 8 {
			DATA(8*i, U64(bits))
		}
	}
	return doubleVectors[bits]
}

// keepDoubles is keepConstants for float64 numbers. Only doubleOperand uses the kept numbers.
func (w width) keepDoubles(list ...float64) (end func()) {
	if w.size == 64 {
		kept := map[uint64]VecVirtual{}
		for _, x := range list {
			if bits := math.Float64bits(x); kept[bits] == nil {
				kept[bits] = w.double(x)
			}
		}
		keptDoubles = kept
	}
	return func() { keptDoubles = nil }
}

var (
	doubleVectors = map[uint64]Mem{} // constants in memory: 4 in a vector
	keptDoubles   map[uint64]VecVirtual
)

// keepConstants generates code that loads constants into registers before a loop, if there are enough registers, for
// function word. The caller calls end after the loop: later code may use the registers otherwise.
func (w width) keepConstants(list ...float32) (end func()) {
	if w.size == 64 {
		kept := map[uint32]VecVirtual{}
		for _, x := range list {
			if bits := math.Float32bits(x); kept[bits] == nil {
				kept[bits] = w.constant(x)
			}
		}
		keptWords = kept
	}
	return func() { keptWords = nil }
}

var words, vectors = map[uint32]Mem{}, map[uint32]Mem{} // constants in memory: a word, and 8 in a vector

var keptWords map[uint32]VecVirtual // see keepConstants

func exps() {
	TEXT("expsVectors", NOSPLIT, "func(x *float32, shift float32, n int)")
	Doc("expsVectors replaces each of n elements, a multiple of 8, by exp(x-shift).")
	shift := YMM()
	from, _ := Param("shift").Resolve()
	VBROADCASTSS(from.Addr, shift)
	x, n := Load(Param("x"), GP64()), Load(Param("n"), GP64())
	at, y := GP64(), YMM()
	XORQ(at, at)
	Label("next")
	CMPQ(at, n)
	JGE(LabelRef("stop"))
	VMOVUPS(Mem{Base: x, Index: at, Scale: 4}, y)
	VSUBPS(shift, y, y)
	avx2.exp(y)
	VMOVUPS(y, Mem{Base: x, Index: at, Scale: 4})
	ADDQ(Imm(8), at)
	JMP(LabelRef("next"))
	Label("stop")
	VZEROUPPER()
	RET()
}

// primitive generates the function of a primitive for AVX2.
func primitive(name, what string, args int, body func(x, y, z VecVirtual)) {
	avx2.primitive(name, what, args, body)
}

// primitive generates the function of a primitive of float32 numbers, see primitiveOf. constants are numbers that the
// code of body uses: they are loaded before the loop if there are enough registers.
func (w width) primitive(name, what string, args int, body func(x, y, z VecVirtual), constants ...float32) {
	w.primitiveOf(4, name+"Vectors", what, args, body, constants...)
}

// primitiveOf generates the assembly function of a primitive, which sets out[i] to a function of x[i], y[i] and z[i]
// for n elements, a multiple of the lanes. size is the bytes of an element, 4 or 8, and args the number of lists that
// the function reads. body generates code that replaces vector x by the results.
func (w width) primitiveOf(size int, name, what string, args int, body func(x, y, z VecVirtual),
	constants ...float32) {
	name += w.suffix
	lanes := w.size / size
	TEXT(name, NOSPLIT, fmt.Sprintf("func(out, x, y, z *float%d, n int)", 8*size))
	Doc(fmt.Sprintf("%s sets each of n elements, a multiple of %d, to %s.", name, lanes, what))
	out, n := Load(Param("out"), GP64()), Load(Param("n"), GP64())
	var lists [3]Register
	var in [3]VecVirtual
	for i, param := range []string{"x", "y", "z"}[:args] {
		lists[i], in[i] = Load(Param(param), GP64()), w.vector()
	}
	at := GP64()
	XORQ(at, at)
	CMPQ(at, n)
	JGE(LabelRef("stop"))
	endConstants := w.keepConstants(constants...)
	defer endConstants()
	Label("next")
	for i := range args {
		VMOVUPS(Mem{Base: lists[i], Index: at, Scale: uint8(size)}, in[i])
	}
	body(in[0], in[1], in[2])
	VMOVUPS(in[0], Mem{Base: out, Index: at, Scale: uint8(size)})
	ADDQ(Imm(uint64(lanes)), at)
	CMPQ(at, n)
	JLT(LabelRef("next"))
	Label("stop")
	VZEROUPPER()
	RET()
}

// Predicates of VCMPPS. All except differ are false if an operand is NaN.
const (
	equal, less, atMost, atLeast, more, differ = 0x00, 0x11, 0x12, 0x1d, 0x1e, 0x04

	unordered, ordered             = 0x03, 0x07
	orderedDiffer                  = 0x0c
	notAtMost, notAtLeast, notLess = 0x16, 0x19, 0x15 // true if an operand is NaN
)

// comparisons has the comparisons of floats.
var comparisons = []struct {
	name, sign string
	predicate  uint64
}{
	{"equal", "==", equal}, {"differ", "!=", differ}, {"less", "<", less}, {"atMost", "<=", atMost},
	{"more", ">", more}, {"atLeast", ">=", atLeast},
}

// roundingModes has the names of the roundings to integers, in the order of the processor's modes.
var roundingModes = [][2]string{{"round", "the integer nearest to x, of two the even one"},
	{"floor", "the largest integer not above x"}, {"ceil", "the smallest integer not below x"},
	{"trunc", "the integer part of x"}}

// primitives generates the assembly functions of the primitives of floats.
func primitives() {
	primitive("add", "x+y", 2, func(x, y, _ VecVirtual) { VADDPS(y, x, x) })
	primitive("sub", "x-y", 2, func(x, y, _ VecVirtual) { VSUBPS(y, x, x) })
	primitive("mul", "x*y", 2, func(x, y, _ VecVirtual) { VMULPS(y, x, x) })
	primitive("div", "x/y", 2, func(x, y, _ VecVirtual) { VDIVPS(y, x, x) })
	// The instruction returns its second operand if either is NaN.
	extreme := func(of func(ops ...Op)) func(x, y, z VecVirtual) {
		return func(x, y, _ VecVirtual) {
			isNaN := YMM()
			VCMPPS(Imm(unordered), x, x, isNaN)
			of(y, x, y)
			VBLENDVPS(isNaN, x, y, x)
		}
	}
	primitive("min", "the lesser of x and y, NaN if either is", 2, extreme(func(ops ...Op) {
		VMINPS(ops[0], ops[1], ops[2])
	}))
	primitive("max", "the greater of x and y, NaN if either is", 2, extreme(func(ops ...Op) {
		VMAXPS(ops[0], ops[1], ops[2])
	}))
	for _, c := range comparisons {
		primitive(c.name, "1 where x "+c.sign+" y and else 0", 2, func(x, y, _ VecVirtual) {
			VCMPPS(Imm(c.predicate), y, x, x)
			VANDPS(constant(YMM(), 1), x, x)
		})
	}
	primitive("choose", "y where x is not 0 and else z", 3, func(x, y, z VecVirtual) {
		zero := YMM()
		VXORPS(zero, zero, zero)
		VCMPPS(Imm(differ), zero, x, x)
		VBLENDVPS(x, y, z, x)
	})
	primitive("neg", "-x", 1, func(x, _, _ VecVirtual) { VXORPS(word(YMM(), 1<<31), x, x) })
	primitive("abs", "|x|", 1, func(x, _, _ VecVirtual) { VANDPS(word(YMM(), 1<<31-1), x, x) })
	primitive("sqrt", "the root of x", 1, func(x, _, _ VecVirtual) { VSQRTPS(x, x) })
	for mode, r := range roundingModes {
		primitive(r[0], r[1], 1, func(x, _, _ VecVirtual) { VROUNDPS(Imm(uint64(mode)), x, x) })
	}
	primitive("toF16", "the f16 nearest to x, of two the even one", 1, func(x, _, _ VecVirtual) {
		half := XMM()
		VCVTPS2PH(Imm(0), x, half)
		VCVTPH2PS(half, x)
	})
	primitive("toBF16", "the bf16 nearest to x, of two the even one", 1, func(x, _, _ VecVirtual) {
		roundBF16(x)
		VPSRLD(Imm(16), x, x)
		VPSLLD(Imm(16), x, x)
	})
}

// roundBF16 generates code that changes x so that its upper halves are the nearest bf16, of two the even one.
func roundBF16(x VecVirtual) {
	isNaN, quiet, up := YMM(), YMM(), YMM()
	VCMPPS(Imm(unordered), x, x, isNaN)
	VPOR(word(YMM(), 1<<22), x, quiet)
	// To round, add half of the last bit's value, less 1 if the last bit is 0.
	VPSRLD(Imm(16), x, up)
	VPAND(word(YMM(), 1), up, up)
	VPADDD(word(YMM(), 0x7fff), up, up)
	VPADDD(x, up, up)
	VBLENDVPS(isNaN, quiet, up, x)
}
