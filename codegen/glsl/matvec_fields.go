package glsl

import (
	"github.com/vkc-go/vkc/codegen/kernel"
)

// fieldRow is what a run with fields needs of a row: the bytes of each plane, what
// their dot products are multiplied by, and the scaled sums of the bytes.
type fieldRow struct{ bytes, scales, sums string }

// readFieldRow reads the row of an A along a run whose planes begin at places of
// the contraction 32 apart, the first at k.
func (v *matVec) readFieldRow(r blockRun, o *matOperand, k text) fieldRow {
	row := fieldRow{v.fresh(v.scope, o.name+"_bytes"), v.fresh(v.scope, o.name+"_scales"), v.fresh(v.scope, o.name+"_sums")}
	v.line("int %s[%d];", row.bytes, kernel.FieldPlanes*r.Quads)
	v.line("vec4 %s, %s;", row.scales, row.sums)
	v.repeat("p", kernel.FieldPlanes, func(p text) {
		rows, sums, scales := v.readRowStrips(r, plus(k, times(p, r.StripStride())))
		v.repeat("t", r.Quads, func(t text) {
			v.line("%s = %s;", elementOf(row.bytes, kernel.FieldPlanes*r.Quads, plus(times(p, r.Quads), t)).s, elementOf(rows[o], r.Quads, t).s)
		})
		v.line("%s[%s] = %s / float(1u << 2u * %s);", row.scales, p.s, scales[o], p.s)
		bias := ""
		if n := fieldForms[r.DType].bias; n > 1 {
			bias = finiteLit(float64(n), 32, "").s + " * "
		}
		v.line("%s[%s] = %s%s * float(%s);", row.sums, p.s, bias, scales[o], sums[o])
	})
	return row
}

// readFieldRows reads the rows of all A.
func (v *matVec) readFieldRows(r blockRun, k text) map[*matOperand]fieldRow {
	rows := map[*matOperand]fieldRow{}
	for _, o := range v.a {
		rows[o] = v.readFieldRow(r, o, k)
	}
	return rows
}

// addFieldRun is addRun of fields.
func (v *matVec) addFieldRun(r blockRun, block, e, k text) {
	rows := v.readFieldRows(r, k)
	v.repeat("j", v.s.ThreadN, func(j text) {
		v.bindColumn(j)
		v.addFields(r, block, e, j, rows)
	})
}

// addFields adds the products of a run of one column with a row.
func (v *matVec) addFields(r blockRun, block, e, j text, rows map[*matOperand]fieldRow) {
	for n, p := range v.products {
		b, row := v.blockBuffer(p.b), rows[p.a]
		v.fieldFunctions(b, v.s.Subnormals)
		at := primary(v.variable("uint", numberedName("at", n, len(v.products)), v.blockOf(p.b, block)))
		quants := v.variable("uvec4", "quants", call("fields_"+b.base, at, e))
		dots := v.fieldDots("dots", quants, "0x03030303u << 2u * ", row, r.Quads)
		if fieldForms[r.DType].high != "" {
			bits := v.variable("uvec4", "bits", call("high_fields_"+b.base, at, e))
			high := v.fieldDots("high", bits, "0x01010101u << ", row, r.Quads)
			v.line("%s += %s << ivec4(2, 3, 4, 5);", dots, high) // 4 times as much, and so as those are
		}
		sum := v.sumsAt(j)[n]
		v.line("%s += scaled_%s(%s, %s, %s * vec4(%s), %s);", sum.s, b.base, at.s, e.s, row.scales, dots, row.sums)
	}
}

// fieldDots multiplies the fields of four words, of which plane p has those under
// a mask, with a row, and returns the name of the dot products of every plane.
func (v *matVec) fieldDots(name, words, mask string, row fieldRow, quads int) string {
	dots := v.variable("ivec4", name, primary("ivec4(0)"))
	v.repeat("p", kernel.FieldPlanes, func(p text) {
		v.repeat("t", quads, func(t text) {
			x := elementOf(row.bytes, kernel.FieldPlanes*quads, plus(times(p, quads), t))
			v.line("%s[%s] += dotPacked4x8EXT(%s[%s] & (%s%s), %s);", dots, p.s, words, t.s, mask, p.s, x.s)
		})
	})
	return dots
}
