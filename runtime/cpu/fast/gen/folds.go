package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// folds generates the two functions of each reducer, see foldList and foldEach. Results are float64.
func folds() {
	add := func(x, acc VecVirtual) { VADDPD(x, acc, acc) }
	addSquare := func(x, acc VecVirtual) { VFMADD231PD(x, x, acc) }
	// The instructions return their second source, which is the first operand here, if either is NaN.
	extreme := func(of func(ops ...Op)) func(x, acc VecVirtual) {
		return func(x, acc VecVirtual) {
			isNaN := YMM()
			VCMPPD(Imm(unordered), x, x, isNaN)
			of(acc, x, acc)
			VBLENDVPD(isNaN, x, acc, acc)
		}
	}
	for _, f := range []struct {
		name, what string
		step       func(x, acc VecVirtual)
	}{
		{"sum", "the sum of all", add},
		{"sumSquares", "the sum of the squares of all", addSquare},
		{"least", "the least, or NaN if one is NaN,", extreme(func(ops ...Op) { VMINPD(ops[0], ops[1], ops[2]) })},
		{"greatest", "the greatest, or NaN if one is NaN,", extreme(func(ops ...Op) { VMAXPD(ops[0], ops[1], ops[2]) })},
	} {
		foldList(f.name, f.what, f.step)
		foldEach(f.name, f.what, f.step)
	}
}

// foldList generates a function that folds the elements of a list into eight results: element i into result i%8.
func foldList(name, what string, step func(x, acc VecVirtual)) {
	TEXT(name+"List", NOSPLIT, "func(results *float64, x *float32, n int)")
	Doc(fmt.Sprintf("%sList sets each of 8 results to %s of itself and every eighth of n elements,", name, what),
		"of which there are a multiple of 8. Result i begins with element i.")
	out, x, n := Load(Param("results"), GP64()), Load(Param("x"), GP64()), Load(Param("n"), GP64())
	var acc [2]VecVirtual
	for i := range acc {
		acc[i] = YMM()
		VMOVUPD(Mem{Base: out, Disp: 32 * i}, acc[i])
	}
	at, y := GP64(), YMM()
	XORQ(at, at)
	Label("next")
	CMPQ(at, n)
	JGE(LabelRef("stop"))
	for i := range acc {
		VCVTPS2PD(Mem{Base: x, Index: at, Scale: 4, Disp: 16 * i}, y)
		step(y, acc[i])
	}
	ADDQ(Imm(8), at)
	JMP(LabelRef("next"))
	Label("stop")
	for i := range acc {
		VMOVUPD(acc[i], Mem{Base: out, Disp: 32 * i})
	}
	VZEROUPPER()
	RET()
}

// foldEach generates a function that folds element i of a list into result i.
func foldEach(name, what string, step func(x, acc VecVirtual)) {
	TEXT(name+"Each", NOSPLIT, "func(results *float64, x *float32, n int)")
	Doc(fmt.Sprintf("%sEach sets each of n results, a multiple of 8, to %s of itself and an element.", name, what))
	out, x, n := Load(Param("results"), GP64()), Load(Param("x"), GP64()), Load(Param("n"), GP64())
	at, y, acc := GP64(), YMM(), YMM()
	XORQ(at, at)
	Label("next")
	CMPQ(at, n)
	JGE(LabelRef("stop"))
	for i := range 2 {
		VCVTPS2PD(Mem{Base: x, Index: at, Scale: 4, Disp: 16 * i}, y)
		m := Mem{Base: out, Index: at, Scale: 8, Disp: 32 * i}
		VMOVUPD(m, acc)
		step(y, acc)
		VMOVUPD(acc, m)
	}
	ADDQ(Imm(8), at)
	JMP(LabelRef("next"))
	Label("stop")
	VZEROUPPER()
	RET()
}

// repeat generates the function that fills a list with one number.
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
