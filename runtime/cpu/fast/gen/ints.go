package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// group is four bytes of neighbouring elements along the contraction axis, which an instruction multiplies and adds.
type group struct {
	name  string // in the names of functions
	elems string // what they are
	// multiplyAdd generates code that adds the dot products of groups of a and of b to 32-bit sums.
	multiplyAdd func(a, b, sum VecVirtual)
}

// Pairs of 16-bit integers represent products of all 8-bit integers.
var pairsOfWords = group{"pairs", "2 signed 16-bit integers", func(a, b, sum VecVirtual) {
	p := like(sum)
	VPMADDWD(a, b, p)
	VPADDD(p, sum, sum)
}}

var quadsOfBytes = group{"quads", "4 8-bit integers, signed ones of a and unsigned ones of b",
	func(a, b, sum VecVirtual) { VPDPBUSD(a, b, sum) }}

// intColumns is the number of vectors of columns that a function computes.
const intColumns = 2

// integers generates the functions of matmuls and convolutions of 8-bit integers. There is one for each number of rows
// whose sums fit in registers.
func integers() {
	for _, rows := range []int{4, 2, 1} {
		avx2.ints(rows, pairsOfWords)
	}
	for _, rows := range []int{8, 4, 2, 1} {
		avx512.ints(rows, pairsOfWords)
		avx512.ints(rows, quadsOfBytes)
	}
}

// ints generates the function that computes dot products of several rows of a with columns of b. A row of a is an array
// of groups. Group i of all columns is an array at offset offsets[i] of b. So b may be a packed matrix or, for a
// convolution, the image itself.
func (w width) ints(rows int, g group) {
	name := fmt.Sprintf("%s%d%s", g.name, rows, w.suffix)
	TEXT(name, NOSPLIT, "func(out *int32, ldo int, a *byte, lda int, b *byte, offsets *int, n int, sums *int32)")
	Doc(fmt.Sprintf("%s sets out to the dot products of %d rows of a with %d columns of b, plus the row's element of sums.",
		name, rows, w.lanes()*intColumns),
		"A row has n groups of "+g.elems+". Group i of the first column is offsets[i] bytes from b.",
		"Rows of a are lda bytes apart, and rows of out ldo elements.")
	a, b := pointers(rows, "a", "lda", 1), Load(Param("b"), GP64())
	offsets, n, sumOf := Load(Param("offsets"), GP64()), Load(Param("n"), GP64()), Load(Param("sums"), GP64())
	sums := make([][intColumns]VecVirtual, rows)
	for i := range sums {
		for j := range sums[i] {
			sums[i][j] = w.vector()
			VPBROADCASTD(Mem{Base: sumOf, Disp: 4 * i}, sums[i][j])
		}
	}
	at, from := GP64(), GP64()
	XORQ(at, at)
	Label("next")
	CMPQ(at, n)
	JGE(LabelRef("stop"))
	MOVQ(Mem{Base: offsets, Index: at, Scale: 8}, from)
	var of [intColumns]VecVirtual
	for j := range of {
		of[j] = w.vector()
		VMOVUPS(Mem{Base: b, Index: from, Scale: 1, Disp: w.size * j}, of[j])
	}
	x := w.vector()
	for i := range rows {
		VPBROADCASTD(Mem{Base: a[i], Index: at, Scale: 4}, x)
		for j := range of {
			g.multiplyAdd(x, of[j], sums[i][j])
		}
	}
	INCQ(at)
	JMP(LabelRef("next"))
	Label("stop")
	out, apart := Load(Param("out"), GP64()), Load(Param("ldo"), GP64())
	for i := range rows {
		for j := range of {
			VMOVUPS(sums[i][j], Mem{Base: out, Disp: w.size * j})
		}
		LEAQ(Mem{Base: out, Index: apart, Scale: 4}, out)
	}
	VZEROUPPER()
	RET()
}
