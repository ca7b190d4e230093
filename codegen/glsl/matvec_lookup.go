package glsl

import (
	"fmt"
	"strings"

	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// lookupReader decodes eight quants of a strip (an octet) at once. It uses lookup tables in shared memory, or
// multiplication if the octets are digits.
type lookupReader struct {
	*stripReader
	// less says how many times the sums over the octets' masks are subtracted from the sums over the octets, in
	// integers; 0 for none.
	less int
}

func newLookupReader(v *matVec) bReader {
	f, _ := ir.BlockFormatOf(v.run.DType)
	v.run.Form = octetForm(f)
	v.paired = v.s.IntDot && v.run.Joined
	r := &lookupReader{stripReader: &stripReader{v: v}}
	r.addDots = r.addOctets
	switch {
	case f.Octets.Masks == ir.ThirdMasks:
		r.less = 3
	case f.Octets.Masks == ir.SignMasks && v.s.IntDot && v.s.ThreadM < schedule.ManyRows:
		r.less = 1
	}
	return r
}

func (r *lookupReader) prepare() {
	for _, o := range r.v.b {
		blockScale(r.v.emitter, r.v.blockBuffer(o))
	}
	r.v.prepareArithmetic()
}

// lookupTable is a table in shared memory. Every entry is stored once per copy.
type lookupTable struct {
	name   text
	typ    string
	copies int
}

// word prints word i of the table, counted over all copies: the first word of an entry of two.
func (t lookupTable) word(i text) text {
	copies := uintLit(t.copies)
	word := elementAt(elementAt(t.name, binary("/", i, copies)), binary("%", i, copies))
	if t.typ == "uvec2" {
		return member(word, "x")
	}
	return word
}

// shareLookup fills the lookup tables in shared memory and adds the functions that read them.
func (v *matVec) shareLookup() {
	t := v.run.DType
	size, _ := schedule.LookupTableOf(t)
	f, _ := ir.BlockFormatOf(t)
	v.lookup = &lookupTable{name: primary("octet_table"), typ: map[int]string{4: "uint", 8: "uvec2"}[size.Bytes],
		copies: v.s.Copies}
	entry := strings.ReplaceAll(f.Octets.Entry, "CODEBOOK", codebook(v.emitter, v.blockBuffer(v.b[0])))
	v.fillTable(v.lookup, size.Entries, "entry", entry)
	signs := lookupTable{name: primary("sign_table"), copies: size.Signs.Copies}
	if size.Signs.Entries > 0 {
		v.helper("spread_bits", "float")
		entry := "255u * spread_bits(n)"
		signs.typ = "uint"
		if size.Signs.Bytes == 8 {
			v.helper("even_signs", "float")
			signs.typ, entry = "uvec2", "255u * uvec2(spread_bits(n), spread_bits(even_signs(n) >> 4))"
		}
		v.fillTable(&signs, size.Signs.Entries, "signs", entry)
	}
	if !v.s.RoundRows || v.s.Coarsen > 0 { // else the barrier after the quantization of rows does
		v.barrier()
	}
}

// fillTable declares and fills a table, and adds the function that reads an entry. value prints entry n. An invocation
// computes an entry once and stores it in several copies. Each begins at another copy, so that the stores use different
// banks.
func (v *matVec) fillTable(t *lookupTable, entries int, reader, value string) {
	t.name = v.share(t.typ, t.name.Text, entries, t.copies)
	makers := 1 // of an entry
	for 2*makers <= t.copies && 2*makers*entries <= v.s.Workgroup {
		makers *= 2
	}
	each := t.copies / makers
	v.line("")
	i := v.loop("i", v.self, uintLit(entries*makers), v.s.Workgroup)
	v.line("uint n = %s;", remainder(i, entries, entries*makers))
	v.line("%s %s = %s;", t.typ, reader, value)
	first := plus(primary("n"), times(quotient(i, entries, entries*makers), each))
	v.repeat("c", each, func(c text) {
		v.line("%s[n][%s] = %s;", t.name, binary("%", plus(first, c), uintLit(t.copies)), reader)
	})
	v.close()
	v.addFunction(fmt.Sprintf("%s octet_%s(uint n)", t.typ, reader),
		fmt.Sprintf("    return %s[n][gl_LocalInvocationIndex %% %du];\n", t.name, t.copies))
}

// readOctets reads the quants of a strip, and returns the names of the octets and of their masks.
func (r *lookupReader) readOctets(b *buffer, block text, at place) (octets, masks text) {
	half := r.v.run.Quads / 2
	octets = r.v.unset("uvec2", "octets", half)
	if r.less > 0 {
		masks = r.v.unset("uvec2", "masks", half)
	}
	reader := octetReader(r.v.emitter, b, r.less, r.v.paired)
	step := 8
	if r.v.run.Joined {
		step = 4
	}
	r.v.repeat("o", half, func(o text) {
		args := []text{block, within(at.e, plus(at.at, times(o, step)))}
		if r.less > 0 {
			args = append(args, elementAt(masks, o))
		}
		r.v.assign(elementAt(octets, o), call(reader, args...))
	})
	return octets, masks
}

// addOctets multiplies a strip's octets by the rows and adds to dots. It subtracts the sums over the masks.
func (r *lookupReader) addOctets(b *buffer, block text, at place, dots, rows text) {
	octets, masks := r.readOctets(b, block, at)
	var less text
	m := r.v.s.ThreadM
	if r.less > 0 {
		less = r.v.array("int", "less", m)
		r.v.repeat("i", m, func(i text) { r.v.assign(elementOf(less, m, i), intLit(0)) })
	}
	r.v.repeat("t", r.v.run.Quads, func(t text) {
		product := r.v.octetProduct(r.v.octetElement(octets, t))
		r.v.repeat("i", m, func(i text) {
			x, sum := r.v.quadOfStrip(rows, i, t), elementOf(dots, m, i)
			r.v.assign(sum, product(sum, x))
			if r.less > 0 {
				sum = elementOf(less, m, i)
				r.v.assign(sum, r.v.octetProduct(r.v.octetElement(masks, t))(sum, x))
			}
		})
	})
	if r.less > 0 {
		r.v.repeat("i", m, func(i text) {
			r.v.update(elementOf(dots, m, i), "-=", binary("*", intLit(int64(r.less)), elementOf(less, m, i)))
		})
	}
}

// octetProduct is bytesProduct for unsigned levels up to 255 too: integer dot instructions take them unchanged.
func (v *matVec) octetProduct(quants text) func(sum, x text) text {
	if f, _ := ir.BlockFormatOf(v.run.DType); f.Octets.Masks == ir.ThirdMasks {
		return func(sum, x text) text { return binary("+", sum, call("dotPacked4x8EXT", quants, x)) }
	}
	return v.bytesProduct(quants)
}

// octetElement prints quad t of readOctets' octets.
func (v *matVec) octetElement(name, t text) text {
	octet, word := quotient(t, 2, v.run.Quads), remainder(t, 2, v.run.Quads)
	if half := v.run.Quads / 2; v.run.Joined {
		octet, word = remainder(t, half, v.run.Quads), quotient(t, half, v.run.Quads)
	}
	return elementAt(elementAt(name, octet), word)
}

// pairStrip interleaves the int8 elements of row i of a strip in the order of octets. The strip's words hold one plane
// and then the other. Afterwards the bytes of both planes alternate: first the even bytes, then the odd bytes.
func (v *matVec) pairStrip(rows, i text) {
	if !v.paired {
		return
	}
	half := v.run.Quads / 2
	v.repeat("t", half, func(t text) {
		first, second := v.quadOfStrip(rows, i, t), v.quadOfStrip(rows, i, plus(t, uintLit(half)))
		odd := v.variable("int", "odd", primary(fmt.Sprintf("%s >> 8 & 0x00ff00ff | %s & 0xff00ff00", first, second)))
		v.line("%s = %s & 0x00ff00ff | (%s & 0x00ff00ff) << 8;", first, first, second)
		v.assign(second, odd)
	})
}
