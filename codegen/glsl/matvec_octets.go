package glsl

import (
	"fmt"
	"strings"

	"github.com/vkc-go/vkc/codegen/target"
	"github.com/vkc-go/vkc/ir"
)

// withOctets returns a run whose quants are decoded by eight.
func (v *matVec) withOctets(r blockRun) blockRun {
	form := octetForms[r.DType]
	r.Form = form.of(r.Form)
	r.paired = r.ints && r.Joined
	switch {
	case form.masks == thirdMasks:
		r.less = 3
	case form.masks == signMasks && r.ints && v.s.ThreadM < target.ManyRows:
		r.less = 1
	}
	return r
}

// octetTable is a table in shared memory, every entry as often as there are
// copies.
type octetTable struct {
	name   string
	typ    string
	copies int
}

// word prints word i of the table, counted over all copies, the first of two.
func (t octetTable) word(i text) string {
	copies := uintLit(int64(t.copies))
	word := fmt.Sprintf("%s[%s][%s]", t.name, binary("/", i, copies).s, binary("%", i, copies).s)
	if t.typ == "uvec2" {
		word += ".x"
	}
	return word
}

// shareOctets fills the tables of octets in shared memory and makes the text have
// the functions that read them.
func (v *matVec) shareOctets(t ir.DType) {
	size, _ := target.OctetTableOf(t)
	v.octets = &octetTable{name: "octet_table", typ: map[int]string{4: "uint", 8: "uvec2"}[size.Bytes], copies: v.s.Copies}
	entry := strings.ReplaceAll(octetForms[t].entry, "CODEBOOK", v.codebook(v.blockBuffer(v.b[0])))
	v.fillTable(v.octets, size.Entries, "entry", entry)
	signs := octetTable{name: "sign_table", copies: size.SignCopies()}
	switch size.Signs {
	case 128:
		v.helper("spread_bits", "float")
		v.helper("even_signs", "float")
		signs.typ = "uvec2"
		v.fillTable(&signs, size.Signs, "signs", "255u * uvec2(spread_bits(n), spread_bits(even_signs(n) >> 4))")
	case 16:
		v.helper("spread_bits", "float")
		signs.typ = "uint"
		v.fillTable(&signs, size.Signs, "signs", "255u * spread_bits(n)")
	}
	if !v.s.RoundRows || v.s.Turns > 0 { // or rows are rounded before the first looks something up
		v.line("barrier();")
	}
}

// fillTable declares a table of entries, of which value prints entry n, fills it,
// and adds the function that reads an entry. An invocation makes an entry once
// and stores it in several copies, each beginning at another so that they hit
// different banks.
func (v *matVec) fillTable(t *octetTable, entries int, reader, value string) {
	t.name = v.fresh(v.root, t.name)
	v.shared = append(v.shared, fmt.Sprintf("shared %s %s[%d][%d];", t.typ, t.name, entries, t.copies))
	makers := 1 // of an entry
	for 2*makers <= t.copies && 2*makers*entries <= v.s.Workgroup {
		makers *= 2
	}
	each := t.copies / makers
	v.line("")
	i := v.loop("i", v.self, uintLit(int64(entries*makers)), v.s.Workgroup)
	v.line("uint n = %s;", remainder(i, entries, entries*makers).s)
	v.line("%s %s = %s;", t.typ, reader, value)
	first := plus(primary("n"), times(quotient(i, entries, entries*makers), each))
	v.repeat("c", each, func(c text) {
		v.line("%s[n][%s] = %s;", t.name, binary("%", plus(first, c), uintLit(int64(t.copies))).s, reader)
	})
	v.close()
	v.decoders = append(v.decoders, fmt.Sprintf("%s octet_%s(uint n) {\n    return %s[n][gl_LocalInvocationIndex %% %du];\n}\n", t.typ, reader, t.name, t.copies))
}

// readOctets reads the quants of a strip and returns the names of them and of
// their masks.
func (v *matVec) readOctets(r blockRun, b *buffer, block text, s strip) (octets, masks string) {
	octets = v.fresh(v.scope, "octets")
	v.line("uvec2 %s[%d];", octets, r.Quads/2)
	if r.less > 0 {
		masks = v.fresh(v.scope, "masks")
		v.line("uvec2 %s[%d];", masks, r.Quads/2)
	}
	reader := v.octetReader(b, r.less, r.paired)
	step := 8
	if r.Joined {
		step = 4
	}
	v.repeat("o", r.Quads/2, func(o text) {
		args := []text{block, within(s.e, plus(s.at, times(o, step)))}
		if r.less > 0 {
			args = append(args, primary(masks+"["+o.s+"]"))
		}
		v.line("%s[%s] = %s;", octets, o.s, call(reader, args...).s)
	})
	return octets, masks
}

// addOctets adds the products of a strip's octets of a block to dots, and takes
// off those of the masks.
func (v *matVec) addOctets(r blockRun, b *buffer, block text, s strip, dots, rows string) {
	octets, masks := v.readOctets(r, b, block, s)
	less := ""
	if r.less > 0 {
		less = v.array("int", "less", v.s.ThreadM)
		v.repeat("i", v.s.ThreadM, func(i text) { v.line("%s = 0;", elementOf(less, v.s.ThreadM, i).s) })
	}
	v.repeat("t", r.Quads, func(t text) {
		product := v.octetProduct(r, r.octetElement(octets, t))
		v.repeat("i", v.s.ThreadM, func(i text) {
			x, sum := elementOf(rows, v.s.ThreadM*r.Quads, plus(times(i, r.Quads), t)), elementOf(dots, v.s.ThreadM, i)
			v.line("%s = %s;", sum.s, product(sum, x).s)
			if r.less > 0 {
				sum = elementOf(less, v.s.ThreadM, i)
				v.line("%s = %s;", sum.s, v.octetProduct(r, r.octetElement(masks, t))(sum, x).s)
			}
		})
	})
	switch {
	case r.less == 1:
		v.repeat("i", v.s.ThreadM, func(i text) {
			v.line("%s -= %s;", elementOf(dots, v.s.ThreadM, i).s, elementOf(less, v.s.ThreadM, i).s)
		})
	case r.less > 1:
		v.repeat("i", v.s.ThreadM, func(i text) {
			v.line("%s -= %d * %s;", elementOf(dots, v.s.ThreadM, i).s, r.less, elementOf(less, v.s.ThreadM, i).s)
		})
	}
}

// octetProduct is bytesProduct, but for bytes up to 255, which integers multiply
// with signed ones as they are.
func (v *matVec) octetProduct(r blockRun, quants text) func(sum, x text) text {
	if octetForms[r.DType].masks == thirdMasks {
		return func(sum, x text) text { return binary("+", sum, call("dotPacked4x8EXT", quants, x)) }
	}
	return v.bytesProduct(r, quants)
}

// octetElement prints quad t of what readOctets has read.
func (r blockRun) octetElement(name string, t text) text {
	if half := r.Quads / 2; r.Joined {
		return primary(name + "[" + remainder(t, half, r.Quads).s + "][" + quotient(t, half, r.Quads).s + "]")
	}
	return primary(name + "[" + quotient(t, 2, r.Quads).s + "][" + remainder(t, 2, r.Quads).s + "]")
}

// pairStrip sorts the bytes of a strip of row i, whose words are of one plane and
// then of the other, as octets are: a byte of either plane next to each other, of
// those that are even and of those that are odd.
func (v *matVec) pairStrip(r blockRun, rows string, i text) {
	if !r.paired {
		return
	}
	half := r.Quads / 2
	v.repeat("t", half, func(t text) {
		first := elementOf(rows, v.s.ThreadM*r.Quads, plus(times(i, r.Quads), t))
		second := elementOf(rows, v.s.ThreadM*r.Quads, plus(times(i, r.Quads), plus(t, uintLit(int64(half)))))
		odd := v.variable("int", "odd", primary(first.s+" >> 8 & 0x00ff00ff | "+second.s+" & 0xff00ff00"))
		v.line("%s = %s & 0x00ff00ff | (%s & 0x00ff00ff) << 8;", first.s, first.s, second.s)
		v.line("%s = %s;", second.s, odd)
	})
}
