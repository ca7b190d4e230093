package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// fusedOp is an operation of a step, in the order of fusedOps in package fast. It generates code that changes the
// vector x of the results so far. y is the step's operand, in memory or in a register, and nil if there is none.
type fusedOp struct {
	name    string
	operand bool
	of      func(w width, x VecVirtual, y Op)
}

// inRegister generates code that returns y in a register.
func (w width) inRegister(y Op) VecVirtual {
	if m, ok := y.(Mem); ok {
		v := w.vector()
		VMOVUPS(m, v)
		return v
	}
	return y.(VecVirtual)
}

// extreme generates code that sets x to the greater or lesser of x and y, or to NaN if either is NaN. The instruction
// `of` returns its second operand if either is NaN.
func extreme(of func(ops ...Op)) func(w width, x VecVirtual, y Op) {
	return func(w width, x VecVirtual, y Op) {
		if w.size == 64 {
			isNumber := K()
			VCMPPS(Imm(ordered), x, x, isNumber)
			of(y, x, isNumber, x)
			return
		}
		isNaN, z := YMM(), w.inRegister(y)
		VCMPPS(Imm(unordered), x, x, isNaN)
		of(z, x, z)
		VBLENDVPS(isNaN, x, z, x)
	}
}

// saturating generates code that rounds x, adds y, and converts the sum to an integer from lo to hi. NaN becomes 0.
func saturating(lo, hi float32) func(w width, x VecVirtual, y Op) {
	return func(w width, x VecVirtual, y Op) {
		w.round(x, x)
		VADDPS(y, x, x)
		isNumber := w.compare(ordered, x, x)
		c := w.vector()
		VMAXPS(constant(c, lo), x, x)
		VMINPS(constant(c, hi), x, x)
		if w.size == 64 {
			VCVTTPS2DQ_Z(x, isNumber, x)
			return
		}
		VCVTTPS2DQ(x, x)
		VPAND(isNumber, x, x)
	}
}

// backwards returns an operation with exchanged operands.
func backwards(of func(ops ...Op)) func(w width, x VecVirtual, y Op) {
	return func(w width, x VecVirtual, y Op) { of(x, w.inRegister(y), x) }
}

var fusedOps = []fusedOp{
	{"+", true, func(_ width, x VecVirtual, y Op) { VADDPS(y, x, x) }},
	{"*", true, func(_ width, x VecVirtual, y Op) { VMULPS(y, x, x) }},
	{"nan_max", true, extreme(func(ops ...Op) { VMAXPS(ops...) })},
	{"nan_min", true, extreme(func(ops ...Op) { VMINPS(ops...) })},
	{"-", true, func(_ width, x VecVirtual, y Op) { VSUBPS(y, x, x) }},
	{"/", true, func(_ width, x VecVirtual, y Op) { VDIVPS(y, x, x) }},
	{"backwards -", true, backwards(func(ops ...Op) { VSUBPS(ops...) })},
	{"backwards /", true, backwards(func(ops ...Op) { VDIVPS(ops...) })},
	{"rounded to u8", true, saturating(0, 255)},
	{"rounded to i8", true, saturating(-128, 127)},
	{"float of words", false, func(_ width, x VecVirtual, _ Op) { VCVTDQ2PS(x, x) }},
}

// fusedSteps generates the function that computes primitives one after the other, in registers: all steps for some
// vectors, then all steps for the next vectors. It takes four vectors at a time, then single ones, and then the
// elements after the last whole vector. A step is three words: its op, the address of its operand's list, and a mask
// that gives the index in the list from the index of the vectors' first element. Op 0 loads the results, op 1 stores
// them, and the others are fusedOps.
func (w width) fusedSteps() {
	TEXT("fusedSteps"+w.suffix, NOSPLIT, "func(steps *int, count, n int)")
	Doc("fusedSteps"+w.suffix+" applies count steps to n elements, see fusedStep. It reads operands that are the same for all",
		"elements as vectors, of which they have four.")
	steps, count := Load(Param("steps"), GP64()), Load(Param("count"), GP64())
	n, at, left, step, more := Load(Param("n"), GP64()), GP64(), GP64(), GP64(), GP64()
	op, list, from := GP64(), GP64(), GP64()
	XORQ(at, at)
	for _, tile := range []struct {
		name    string
		vectors int
		after   string
	}{{"four", 4, "one"}, {"one", 1, "some"}, {"some", 0, ""}} {
		Label(tile.name)
		MOVQ(n, left)
		SUBQ(at, left)
		vectors, part := tile.vectors, &partial{width: w}
		if vectors > 0 {
			CMPQ(left, U32(vectors*w.lanes()))
			JL(LabelRef(tile.after))
		} else {
			TESTQ(left, left)
			JZ(LabelRef("stop"))
			vectors, part = 1, w.partial(left)
		}
		x := make([]VecVirtual, vectors)
		for i := range x {
			x[i] = w.zero()
		}
		MOVQ(steps, step)
		MOVQ(count, more)
		next := func() { // goes to the next step, or to the end of this tile
			ADDQ(Imm(24), step)
			DECQ(more)
			JNZ(LabelRef(tile.name + "step"))
			JMP(LabelRef(tile.name + "end"))
		}
		Label(tile.name + "step")
		MOVQ(Mem{Base: step}, op)
		MOVQ(Mem{Base: step, Disp: 8}, list)
		MOVQ(Mem{Base: step, Disp: 16}, from)
		ANDQ(at, from)
		operand := func(i int) Mem { return Mem{Base: list, Index: from, Scale: 4, Disp: i * w.size} }
		CMPQ(op, Imm(1))
		JE(LabelRef(tile.name + "store"))
		JA(LabelRef(tile.name + "compute"))
		for i := range x {
			part.load(operand(i), x[i])
		}
		next()
		Label(tile.name + "store")
		for i := range x {
			part.store(x[i], operand(i))
		}
		next()
		Label(tile.name + "compute")
		const firstOp = 2
		for k, f := range fusedOps {
			other := fmt.Sprintf("%sop%d", tile.name, firstOp+k+1)
			isLast := k == len(fusedOps)-1 // the op is this one if it is none of the others
			if !isLast {
				CMPQ(op, Imm(uint64(firstOp+k)))
				JNE(LabelRef(other))
			}
			for i := range x {
				var y Op = operand(i)
				if f.operand && part.mask != nil { // an instruction would read beyond the part
					v := w.vector()
					part.load(operand(i), v)
					y = v
				}
				f.of(w, x[i], y)
			}
			next()
			if !isLast {
				Label(other)
			}
		}
		Label(tile.name + "end")
		if tile.vectors == 0 {
			break
		}
		ADDQ(U32(vectors*w.lanes()), at)
		JMP(LabelRef(tile.name))
	}
	Label("stop")
	VZEROUPPER()
	RET()
}
