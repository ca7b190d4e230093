package main

import (
	"fmt"
	"os"
	"strings"
)

// arm64 writes assembly for arm64. Its methods write one instruction each. Vector registers are V0 to V31, by number,
// and have 4 elements of 32 bits, unless the method says otherwise. Go's assembler does not know some of the
// instructions. These are words with the instruction's encoding.
type arm64 struct{ code, stubs strings.Builder }

// text begins an assembly function with that name and parameters, and its declaration in Go with the comment doc. All
// parameters take 8 bytes.
func (a *arm64) text(name, doc string, params ...string) {
	list := strings.Join(params, ", ")
	fmt.Fprintf(&a.stubs, "\n// %s %s\n//\n//go:noescape\nfunc %s(%s)\n", name, doc, name, list)
	fmt.Fprintf(&a.code, "\n// func %s(%s)\nTEXT ·%s(SB), NOSPLIT, $0-%d\n", name, list, name, 8*len(params))
}

// param loads parameter number i of a function into a register.
func (a *arm64) param(i int, name string, r int) { a.op("MOVD %s+%d(FP), R%d", name, 8*i, r) }

// op writes an instruction that Go's assembler knows.
func (a *arm64) op(format string, args ...any) {
	name, rest, _ := strings.Cut(fmt.Sprintf(format, args...), " ")
	fmt.Fprintf(&a.code, "\t%-8s %s\n", name, rest)
}

// label writes a label.
func (a *arm64) label(name string) { fmt.Fprintf(&a.code, "%s:\n", name) }

// word writes an instruction with registers d, n and m, by its encoding without the registers.
func (a *arm64) word(name string, encoding uint32, d, n, m int) {
	fmt.Fprintf(&a.code, "\tWORD     $0x%08x // %s V%d, V%d, V%d\n", encoding|uint32(m)<<16|uint32(n)<<5|uint32(d), name, d,
		n, m)
}

func (a *arm64) clear(v int)       { a.op("VEOR V%d.B16, V%d.B16, V%d.B16", v, v, v) }
func (a *arm64) fma(d, n, m int)   { a.op("VFMLA V%d.S4, V%d.S4, V%d.S4", m, n, d) } // d += n*m
func (a *arm64) fmul(d, n, m int)  { a.word("fmul.4s", 0x6e20dc00, d, n, m) }
func (a *arm64) faddp(d, n, m int) { a.word("faddp.4s", 0x6e20d400, d, n, m) } // adds neighbours of n, and then of m
func (a *arm64) addp(d, n, m int)  { a.word("addp.4s", 0x4ea0bc00, d, n, m) }
func (a *arm64) sdot(d, n, m int)  { a.word("sdot.4s", 0x4e809400, d, n, m) } // d += dot products of 4 bytes each
func (a *arm64) scvtf(v int)       { a.word("scvtf.4s", 0x4e21d800, v, v, 0) }

// widen converts the lower 4 elements of 16 bits of n to float32.
func (a *arm64) widen(f format, d, n int) {
	if f == bf16 {
		a.word("shll.4s", 0x2e613800, d, n, 0)
	} else {
		a.word("fcvtl.4s", 0x0e217800, d, n, 0)
	}
}

// extend converts the 16 signed bytes of n to float32, in vectors d to d+3. It changes t, which is another vector.
func (a *arm64) extend(d, n, t int) {
	a.word("sxtl.8h", 0x0f08a400, t, n, 0)
	a.word("sxtl.4s", 0x0f10a400, d, t, 0)
	a.word("sxtl2.4s", 0x4f10a400, d+1, t, 0)
	a.word("sxtl2.8h", 0x4f08a400, t, n, 0)
	a.word("sxtl.4s", 0x0f10a400, d+2, t, 0)
	a.word("sxtl2.4s", 0x4f10a400, d+3, t, 0)
	for i := range 4 {
		a.scvtf(d + i)
	}
}

// pointers sets registers to rows of a matrix: first, first+1, …, that are as many bytes apart as register `apart`
// says.
func (a *arm64) pointers(rows, first, apart int) {
	for i := range rows - 1 {
		a.op("ADD R%d, R%d, R%d", apart, first+i, first+i+1)
	}
}

// loop writes code that runs while register n is at least `least`. body must reduce it.
func (a *arm64) loop(name string, n, least int, body func()) {
	a.label(name)
	a.op("CMP $%d, R%d", least, n)
	a.op("BLT %sDone", name)
	body()
	a.op("JMP %s", name)
	a.label(name + "Done")
}

// sumUp sets vector d to the sums of the elements of vectors s to s+3.
func (a *arm64) sumUp(add func(d, n, m int), d, s int) {
	add(s, s, s+1)
	add(s+2, s+2, s+3)
	add(d, s, s+2)
}

// dots writes the function of width.dots for arm64.
func (a *arm64) dots(rows, cols int, f format) {
	typ := "*float32"
	if f != f32 {
		typ = "*byte"
	}
	name := fmt.Sprintf("dots%dx%d%s", rows, cols, f.name)
	a.text(name, fmt.Sprintf("sets out, row-major, to the dot products of %d rows of a with %d rows of b.\n"+
		"// The rows are lda elements and ldb %s apart. n is the elements of a row.", rows, cols, f.unit()),
		"out *float32", "a *float32", "lda int", "b "+typ, "ldb int", "n int")
	const out, n, apart, ofA = 0, 1, 2, 3
	ofB := ofA + rows
	a.param(0, "out", out)
	a.param(5, "n", n)
	a.param(1, "a", ofA)
	a.param(2, "lda", apart)
	a.op("LSL $2, R%d, R%d", apart, apart)
	a.pointers(rows, ofA, apart)
	a.param(3, "b", ofB)
	a.param(4, "ldb", apart)
	if f == f32 {
		a.op("LSL $2, R%d, R%d", apart, apart)
	}
	a.pointers(cols, ofB, apart)
	b := rows * cols // vectors: sums, columns, row
	x := b + cols
	for i := range rows * cols {
		a.clear(i)
	}
	step := func(load func(r, v int)) {
		for j := range cols {
			if f == f32 {
				load(ofB+j, b+j)
			} else {
				a.op("VLD1.P 8(R%d), [V%d.H4]", ofB+j, b+j)
				a.widen(f, b+j, b+j)
			}
		}
		for i := range rows {
			load(ofA+i, x)
			for j := range cols {
				a.fma(i*cols+j, x, b+j)
			}
		}
	}
	a.loop("next", n, 4, func() {
		step(func(r, v int) { a.op("VLD1.P 16(R%d), [V%d.S4]", r, v) })
		a.op("SUB $4, R%d", n)
	})
	if f == f32 {
		a.loop("rest", n, 1, func() { // the other elements of the vectors become 0
			step(func(r, v int) { a.op("FMOVS.P 4(R%d), F%d", r, v) })
			a.op("SUB $1, R%d", n)
		})
	}
	for i := range rows {
		a.sumUp(a.faddp, b, i*cols)
		a.op("VST1.P [V%d.S4], 16(R%d)", b, out)
	}
	a.op("RET")
}

// weigh writes the arm64 function that computes a weighted sum of rows, for columns of the given number of vectors.
func (a *arm64) weigh(vectors int) {
	a.text(fmt.Sprintf("weigh%d", vectors), fmt.Sprintf("sets %d elements of out to the weighted sums over n rows.\n"+
		"// The rows are ld elements apart.", 4*vectors), "out *float32", "weights *float32", "rows *float32", "ld int",
		"n int")
	const out, weights, rows, apart, n, at, weight, x = 0, 1, 2, 3, 4, 5, 16, 17
	for i, name := range []string{"out", "weights", "rows", "ld", "n"} {
		a.param(i, name, i)
	}
	a.op("LSL $2, R%d, R%d", apart, apart)
	for i := range vectors {
		a.clear(i)
	}
	a.loop("next", n, 1, func() {
		a.op("VLD1R.P 4(R%d), [V%d.S4]", weights, weight)
		a.op("MOVD R%d, R%d", rows, at)
		for i := range vectors {
			a.op("VLD1.P 16(R%d), [V%d.S4]", at, x)
			a.fma(i, x, weight)
		}
		a.op("ADD R%d, R%d, R%d", apart, rows, rows)
		a.op("SUB $1, R%d", n)
	})
	for i := range vectors {
		a.op("VST1.P [V%d.S4], 16(R%d)", i, out)
	}
	a.op("RET")
}

// widenAll writes the arm64 function that converts floats of format f to float32.
func (a *arm64) widenAll(f format) {
	a.text("widen"+f.name, "widens n floats of src, a multiple of 4, into dst.", "dst *float32", "src *byte", "n int")
	a.param(0, "dst", 0)
	a.param(1, "src", 1)
	a.param(2, "n", 2)
	a.loop("next", 2, 4, func() {
		a.op("VLD1.P 8(R1), [V0.H4]")
		a.widen(f, 0, 0)
		a.op("VST1.P [V0.S4], 16(R0)")
		a.op("SUB $4, R2")
	})
	a.op("RET")
}

// armBlocks is a format of blocks of 32 elements that begin with an f16 scale.
type armBlocks struct {
	name  string
	bytes int
	begin func(a *arm64) // loads constants into vectors 30 and 31
	// levels sets vectors d and d+1 to the levels as signed bytes. Register r is at the levels, and then moves past
	// them.
	levels func(a *arm64, r, d int)
}

var armFormats = []armBlocks{
	{"Q8_0", 34, func(*arm64) {}, func(a *arm64, r, d int) {
		a.op("VLD1.P 32(R%d), [V%d.B16, V%d.B16]", r, d, d+1)
	}},
	{"Q4_0", 18, func(a *arm64) {
		a.op("VMOVI $15, V30.B16")
		a.op("VMOVI $8, V31.B16")
	}, func(a *arm64, r, d int) {
		a.op("VLD1.P 16(R%d), [V%d.B16]", r, d)
		a.op("VUSHR $4, V%d.B16, V%d.B16", d, d+1)
		a.op("VAND V30.B16, V%d.B16, V%d.B16", d, d)
		a.op("VSUB V31.B16, V%d.B16, V%d.B16", d, d)
		a.op("VSUB V31.B16, V%d.B16, V%d.B16", d+1, d+1)
	}},
}

// block writes code that decodes a block at register r. The 8 vectors of floats are d to d+7.
func (f armBlocks) block(a *arm64, r, d int) {
	const scale, levels, t = 29, 26, 28
	a.op("VLD1R.P 2(R%d), [V%d.H4]", r, scale)
	a.widen(f16, scale, scale)
	f.levels(a, r, levels)
	a.extend(d, levels, t)
	a.extend(d+4, levels+1, t)
	for i := range 8 {
		a.fmul(d+i, d+i, scale)
	}
}

// decode writes the arm64 function that decodes blocks of format f to floats.
func (f armBlocks) decode(a *arm64) {
	a.text("decode"+f.name, "decodes n blocks of src into dst.", "dst *float32", "src *byte", "n int")
	a.param(0, "dst", 0)
	a.param(1, "src", 1)
	a.param(2, "n", 2)
	f.begin(a)
	a.loop("next", 2, 1, func() {
		f.block(a, 1, 0)
		for i := range 8 {
			a.op("VST1.P [V%d.S4], 16(R0)", i)
		}
		a.op("SUB $1, R2")
	})
	a.op("RET")
}

// dots writes the function of width.dotsOfBlocks for arm64.
func (f armBlocks) dots(a *arm64) {
	a.text("dots1x4"+f.name, "sets out to the dot products of a with 4 rows of b. The rows are ldb bytes apart.\n// n, the "+
		"elements of a row, must be a multiple of 32. lda is ignored.", "out *float32", "a *float32", "lda int", "b *byte",
		"ldb int", "n int")
	const out, n, ofA, apart, ofB = 0, 1, 2, 3, 4
	a.param(0, "out", out)
	a.param(5, "n", n)
	a.param(1, "a", ofA)
	a.param(4, "ldb", apart)
	a.param(3, "b", ofB)
	a.pointers(4, ofB, apart)
	f.begin(a)
	for i := range 4 {
		a.clear(i)
	}
	const x, decoded = 4, 12 // the block's elements of a, and of a row of b
	a.loop("next", n, 32, func() {
		for i := range 8 {
			a.op("VLD1.P 16(R%d), [V%d.S4]", ofA, x+i)
		}
		for j := range 4 {
			f.block(a, ofB+j, decoded)
			for i := range 8 {
				a.fma(j, x+i, decoded+i)
			}
		}
		a.op("SUB $32, R%d", n)
	})
	a.sumUp(a.faddp, 4, 0)
	a.op("VST1 [V4.S4], (R%d)", out)
	a.op("RET")
}

// byteDots writes the arm64 function that computes dot products of bytes with 4 rows of blocks. It needs the
// instructions for dot products of bytes.
func (f armBlocks) byteDots(a *arm64) {
	a.text("byteDots"+f.name, "sets out to the dot products of a with 4 rows of b, n blocks each, which are ldb bytes\n"+
		"// apart. Every 32 elements of a share an element of scales; sums is ignored.", "out *float32", "a *int8",
		"scales *float32", "sums *float32", "b *byte", "ldb int", "n int")
	const out, n, ofA, scales, apart, ofB = 0, 1, 2, 3, 4, 5
	a.param(0, "out", out)
	a.param(6, "n", n)
	a.param(1, "a", ofA)
	a.param(2, "scales", scales)
	a.param(5, "ldb", apart)
	a.param(4, "b", ofB)
	a.pointers(4, ofB, apart)
	f.begin(a)
	const result, factors, factor, x, levels, sums = 0, 1, 2, 3, 5, 8
	a.clear(result)
	a.loop("next", n, 1, func() {
		a.op("VLD1.P 32(R%d), [V%d.B16, V%d.B16]", ofA, x, x+1)
		a.op("VLD1R.P 4(R%d), [V%d.S4]", scales, factor)
		for j := range 4 {
			a.op("VLD1.P 2(R%d), V%d.H[%d]", ofB+j, factors, j)
			f.levels(a, ofB+j, levels)
			a.clear(sums + j)
			a.sdot(sums+j, levels, x)
			a.sdot(sums+j, levels+1, x+1)
		}
		a.sumUp(a.addp, sums, sums)
		a.scvtf(sums)
		a.widen(f16, factors, factors)
		a.fmul(factors, factors, factor)
		a.fma(result, sums, factors)
		a.op("SUB $1, R%d", n)
	})
	a.op("VST1 [V%d.S4], (R%d)", result, out)
	a.op("RET")
}

// writeARM64 writes the functions for arm64 to the files name.s and name.go.
func writeARM64(name string) error {
	var a arm64
	a.dots(4, 4, f32)
	for _, f := range []format{f32, f16, bf16} {
		a.dots(1, 4, f)
	}
	a.weigh(4)
	a.weigh(1)
	a.widenAll(f16)
	a.widenAll(bf16)
	for _, f := range armFormats {
		f.decode(&a)
		f.dots(&a)
		f.byteDots(&a)
	}
	const by = "// Code generated by command: go run . -arm64 %s. DO NOT EDIT.\n\n"
	if err := os.WriteFile(name+".s", fmt.Appendf(nil, by+"#include \"textflag.h\"\n%s", name, a.code.String()),
		0o644); err != nil {
		return err
	}
	return os.WriteFile(name+".go", fmt.Appendf(nil, by+"package fast\n%s", name, a.stubs.String()), 0o644)
}
