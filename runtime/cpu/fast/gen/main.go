// Command gen writes ../dots_amd64.s and ../dots_amd64.go: dot products on AVX2 and FMA.
// It is a module of its own, so that vkc does not depend on the assembler.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("amd64")
	dots(1, 4)
	dots(4, 3)
	axpy()
	Generate()
}

// dots makes the products of rows of a with rows of b. Each product is one chain of vectors
// whatever rows and cols, so its bits do not depend on which of the functions computes it.
func dots(rows, cols int) {
	TEXT(fmt.Sprintf("dots%dx%d", rows, cols), NOSPLIT, "func(out, a *float32, lda int, b *float32, ldb, n int)")
	Doc(fmt.Sprintf("dots%dx%d sets out, row-major, to the dot products of %d rows of a with %d rows of b.", rows,
		cols, rows, cols), "The rows are lda and ldb elements apart. n, the elements of a row, must be a multiple of 8.")
	out, n := Load(Param("out"), GP64()), Load(Param("n"), GP64())
	a := pointers(rows, "a", "lda")
	b := pointers(cols, "b", "ldb")
	sums := make([]VecVirtual, rows*cols)
	for i := range sums {
		sums[i] = YMM()
		VXORPS(sums[i], sums[i], sums[i])
	}
	at := GP64()
	XORQ(at, at)
	next, done := fmt.Sprintf("next%dx%d", rows, cols), fmt.Sprintf("done%dx%d", rows, cols)
	Label(next)
	CMPQ(at, n)
	JGE(LabelRef(done))
	ofB := make([]Op, cols)
	for j := range cols {
		ofB[j] = Mem{Base: b[j], Index: at, Scale: 4}
		if rows > 1 { // then worth a register
			y := YMM()
			VMOVUPS(ofB[j], y)
			ofB[j] = y
		}
	}
	x := YMM()
	for i := range rows {
		VMOVUPS(Mem{Base: a[i], Index: at, Scale: 4}, x)
		for j := range cols {
			VFMADD231PS(ofB[j], x, sums[i*cols+j])
		}
	}
	ADDQ(Imm(8), at)
	JMP(LabelRef(next))
	Label(done)
	high := XMM()
	for k, s := range sums {
		VEXTRACTF128(Imm(1), s, high)
		VADDPS(high, s.AsX(), s.AsX())
		VHADDPS(s.AsX(), s.AsX(), s.AsX())
		VHADDPS(s.AsX(), s.AsX(), s.AsX())
		VMOVSS(s.AsX(), Mem{Base: out, Disp: 4 * k})
	}
	VZEROUPPER()
	RET()
}

// pointers loads a parameter and returns the addresses of that many of its rows.
func pointers(rows int, base, stride string) []Register {
	first := Load(Param(base), GP64())
	list := []Register{first}
	if rows == 1 {
		return list
	}
	apart := Load(Param(stride), GP64())
	for range rows - 1 {
		next := GP64()
		LEAQ(Mem{Base: list[len(list)-1], Index: apart, Scale: 4}, next)
		list = append(list, next)
	}
	return list
}

func axpy() {
	TEXT("axpyVectors", NOSPLIT, "func(y *float32, a float32, x *float32, n int)")
	Doc("axpyVectors adds a*x to y. n, their elements, must be a multiple of 8.")
	y, x, n := Load(Param("y"), GP64()), Load(Param("x"), GP64()), Load(Param("n"), GP64())
	a, sum := YMM(), YMM()
	factor, _ := Param("a").Resolve()
	VBROADCASTSS(factor.Addr, a)
	at := GP64()
	XORQ(at, at)
	Label("next")
	CMPQ(at, n)
	JGE(LabelRef("stop"))
	VMOVUPS(Mem{Base: y, Index: at, Scale: 4}, sum)
	VFMADD231PS(Mem{Base: x, Index: at, Scale: 4}, a, sum)
	VMOVUPS(sum, Mem{Base: y, Index: at, Scale: 4})
	ADDQ(Imm(8), at)
	JMP(LabelRef("next"))
	Label("stop")
	VZEROUPPER()
	RET()
}
