package matvec

import (
	"fmt"
	"strings"

	"github.com/vkc-go/vkc/codegen/glsl/blocks"
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// lookupReader decodes an octet at once: eight quants of a strip. Formats such as IQ2 store a table index for each
// octet, and the reader looks up the octet in shared memory. Octets of base-3 digits are decoded by multiplication
// instead.
type lookupReader struct {
	*stripReader
	// An octet may have a mask, which changes the signs of quants, for example. With a maskFactor, the reader
	// multiplies quants and masks by the elements x of a row separately: the sum over an octet is dot(quants, x) -
	// maskFactor * dot(masks, x), in integers. If it is 0, the GLSL function that decodes the octet applies the mask.
	maskFactor int
}

// newLookupReader returns the reader of blocks in a format with lookup tables or base-3 digits.
func newLookupReader(v *matVec) bReader {
	f, _ := ir.BlockFormatOf(v.run.DType)
	v.run.Form = blocks.OctetForm(f)
	v.paired = v.S.IntDot && v.run.SharedScale
	r := &lookupReader{stripReader: &stripReader{v: v}}
	r.addDots = r.addOctets
	switch {
	case f.Octets.Masks == ir.ThirdMasks:
		r.maskFactor = 3
	case f.Octets.Masks == ir.SignMasks && v.S.IntDot && v.S.ThreadM < schedule.ManyRows:
		r.maskFactor = 1
	}
	return r
}

// prepare defines the function that reads a block's scale. A table has the values of the quants.
func (r *lookupReader) prepare() {
	for _, o := range r.v.B {
		blocks.Scale(r.v.Emitter, r.v.blockBuffer(o))
	}
	r.v.prepareArithmetic()
}

// lookupTable is a table in shared memory. Every entry is stored in several adjacent copies, so that invocations which
// read the same entry use different banks.
type lookupTable struct {
	name   expr.Expr
	typ    string
	copies int
}

// word returns word i of the table, if the words are numbered entry by entry, and within an entry copy by copy. Of an
// entry of two words it returns the first.
func (t lookupTable) word(i expr.Expr) expr.Expr {
	copies := expr.Uint(t.copies)
	word := expr.At(expr.At(t.name, expr.Binary("/", i, copies)), expr.Binary("%", i, copies))
	if t.typ == "uvec2" {
		return expr.Member(word, "x")
	}
	return word
}

// shareLookup fills the lookup tables in shared memory and adds the functions that read them.
func (v *matVec) shareLookup() {
	t := v.run.DType
	size, _ := schedule.LookupTableOf(t)
	f, _ := ir.BlockFormatOf(t)
	v.lookup = &lookupTable{name: expr.Of("octet_table"), typ: map[int]string{4: "uint", 8: "uvec2"}[size.Bytes],
		copies: v.S.Copies}
	entry := strings.ReplaceAll(f.Octets.Entry, "CODEBOOK", blocks.Codebook(v.Emitter, v.blockBuffer(v.B[0])))
	v.fillTable(v.lookup, size.Entries, "entry", entry)
	signs := lookupTable{name: expr.Of("sign_table"), copies: size.Signs.Copies}
	if size.Signs.Entries > 0 {
		v.Helper("spread_bits", "float")
		sign := "255u * spread_bits(n)" // a byte 0xff for each set bit of n
		signs.typ = "uint"
		if size.Signs.Bytes == 8 {
			v.Helper("even_signs", "float")
			signs.typ, sign = "uvec2", "255u * uvec2(spread_bits(n), spread_bits(even_signs(n) >> 4))"
		}
		v.fillTable(&signs, size.Signs.Entries, "signs", sign)
	}
	if !v.S.RoundRows || v.S.Coarsen > 0 { // otherwise the barrier after the quantization of rows is enough
		v.Barrier()
	}
}

// fillTable declares a table, fills it, and adds the GLSL function octet_<name>(n), which returns entry n. value is the
// GLSL expression of entry n. An invocation computes an entry once and stores it in several copies. Invocations start
// with different copies, so that their stores use different banks.
func (v *matVec) fillTable(t *lookupTable, entries int, name, value string) {
	t.name = v.Share(t.typ, t.name.Text, entries, t.copies)
	makers := 1 // invocations that compute the same entry
	for 2*makers <= t.copies && 2*makers*entries <= v.S.Workgroup {
		makers *= 2
	}
	each := t.copies / makers
	v.Blank()
	i := v.OpenLoop("i", v.self, expr.Uint(entries*makers), v.S.Workgroup)
	v.Exactly("uint", "n", expr.Remainder(i, entries, entries*makers))
	v.Exactly(t.typ, name, expr.Of(value))
	first := expr.Plus(expr.Of("n"), expr.Times(expr.Quotient(i, entries, entries*makers), each))
	v.Repeat("c", each, func(c expr.Expr) {
		v.Assign(expr.At(expr.At(t.name, expr.Of("n")), expr.Binary("%", expr.Plus(first, c), expr.Uint(t.copies))),
			expr.Of(name))
	})
	v.Close()
	v.AddFunction(fmt.Sprintf("%s octet_%s(uint n)", t.typ, name),
		fmt.Sprintf("    return %s[n][gl_LocalInvocationIndex %% %du];\n", t.name, t.copies))
}

// readOctets reads the quants of a strip into the array octets, and the octets' masks into masks if the format has any.
func (r *lookupReader) readOctets(b *emit.Buffer, block expr.Expr, at position) (octets, masks expr.Expr) {
	half := r.v.run.Quads / 2
	octets = r.v.Unset("uvec2", "octets", half)
	if r.maskFactor > 0 {
		masks = r.v.Unset("uvec2", "masks", half)
	}
	reader := blocks.OctetReader(r.v.Emitter, b, r.maskFactor > 0, r.v.paired)
	// An octet is eight neighbours. If the strip covers two fields, it is four neighbours of each.
	step := 8
	if r.v.run.SharedScale {
		step = 4
	}
	r.v.Repeat("o", half, func(o expr.Expr) {
		args := []expr.Expr{block, plusOffset(at.e, expr.Plus(at.at, expr.Times(o, step)))}
		if r.maskFactor > 0 {
			args = append(args, expr.At(masks, o))
		}
		r.v.Assign(expr.At(octets, o), expr.Call(reader, args...))
	})
	return octets, masks
}

// addOctets multiplies a strip's octets by all rows and adds the results to dots. If the reader has a maskFactor, it
// also multiplies the masks by the rows, and subtracts maskFactor times the results.
func (r *lookupReader) addOctets(b *emit.Buffer, block expr.Expr, at position, dots, rows expr.Array) {
	octets, masks := r.readOctets(b, block, at)
	var maskDots expr.Array
	m := r.v.S.ThreadM
	if r.maskFactor > 0 {
		maskDots = r.v.Filled("int", "less", m, "i", func(i expr.Expr) expr.Expr { return expr.Int(0) })
	}
	r.v.Repeat("t", r.v.run.Quads, func(t expr.Expr) {
		quad := r.v.octetFactor(r.v.octetElement(octets, t))
		r.v.Repeat("i", m, func(i expr.Expr) {
			x := r.v.quadOfStrip(rows, i, t)
			r.v.Assign(dots.At(i), quad.dotOnto(dots.At(i), x))
			if r.maskFactor > 0 {
				mask := r.v.octetFactor(r.v.octetElement(masks, t))
				r.v.Assign(maskDots.At(i), mask.dotOnto(maskDots.At(i), x))
			}
		})
	})
	if r.maskFactor > 0 {
		r.v.Repeat("i", m, func(i expr.Expr) {
			r.v.Update(dots.At(i), "-=", expr.Binary("*", expr.Int(int64(r.maskFactor)), maskDots.At(i)))
		})
	}
}

// octetFactor is bytesFactor for quads of octets. ThirdMasks are bytes of up to 255, so the dot product takes these as
// unsigned.
func (v *matVec) octetFactor(quants expr.Expr) dotFactor {
	if f, _ := ir.BlockFormatOf(v.run.DType); f.Octets.Masks == ir.ThirdMasks {
		return dotFactor{"dotPacked4x8EXT", quants}
	}
	return v.bytesFactor(quants)
}

// octetElement returns quad t of a strip from the octets that readOctets returned. An octet has two quads: neighbours,
// or, if the strip covers two fields, one of each field.
func (v *matVec) octetElement(name, t expr.Expr) expr.Expr {
	octet, word := expr.Quotient(t, 2, v.run.Quads), expr.Remainder(t, 2, v.run.Quads)
	if v.run.SharedScale {
		half := v.run.Quads / 2
		octet, word = expr.Remainder(t, half, v.run.Quads), expr.Quotient(t, half, v.run.Quads)
	}
	return expr.At(expr.At(name, octet), word)
}

// pairStrip reorders the int8 elements of row i of a strip as the octets need them: alternately from field 0 and field
// 1. The strip's words first hold all of field 0 and then all of field 1. Afterwards word t of the first half has the
// even bytes of both fields, and word t of the second half has the odd bytes.
func (v *matVec) pairStrip(rows expr.Array, i expr.Expr) {
	if !v.paired {
		return
	}
	half := v.run.Quads / 2
	v.Repeat("t", half, func(t expr.Expr) {
		first, second := v.quadOfStrip(rows, i, t), v.quadOfStrip(rows, i, expr.Plus(t, expr.Uint(half)))
		odd := v.Variable("int", "odd", expr.Of(fmt.Sprintf("%s >> 8 & 0x00ff00ff | %s & 0xff00ff00", first, second)))
		v.Assign(first, expr.Format("%s & 0x00ff00ff | (%s & 0x00ff00ff) << 8", first, second))
		v.Assign(second, odd)
	})
}
