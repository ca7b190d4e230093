package glsl

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// packedReader multiplies packed 2-bit quants without unpacking them to bytes: it masks the same sixteen bytes for each
// of four planes. For a row it needs the int8 elements of each plane, the factors of their sums, and the rows' scaled
// sums.
type packedReader struct{ v *matVec }

func newPackedReader(v *matVec) bReader { return packedReader{v} }

func (packedReader) parts() int         { return 1 }
func (r packedReader) addRun(run place) { r.v.addColumns(r, run) }

func (r packedReader) prepare() {
	for _, o := range r.v.b {
		packedFunctions(r.v.emitter, r.v.blockBuffer(o), r.v.s.Subnormals)
	}
	r.v.prepareArithmetic()
}

func (r packedReader) form() *ir.BlockPacked {
	f, _ := ir.BlockFormatOf(r.v.run.DType)
	return f.Packed
}

// activations reads the rows along a run. Its planes begin 32 elements apart.
func (r packedReader) activations(run place) activations {
	return r.v.ofRows(func(o *matOperand) rowArrays {
		n := kernel.PackedPlanes * r.v.run.Quads
		row := rowArrays{r.v.array("int", o.name+"_bytes", n), primary(r.v.fresh(r.v.scope, o.name+"_scales")),
			primary(r.v.fresh(r.v.scope, o.name+"_sums"))}
		r.v.line("vec4 %s, %s;", row.scales, row.sums)
		r.v.repeat("p", kernel.PackedPlanes, func(p text) {
			plane := r.v.rows.strip(o, r.v.partOf(run, p).k)
			r.v.repeat("t", r.v.run.Quads, func(t text) {
				r.v.assign(elementOf(row.elements, n, plus(times(p, r.v.run.Quads), t)),
					elementOf(plane.elements, r.v.run.Quads, t))
			})
			r.v.line("%s[%s] = %s / float(1u << 2u * %s);", row.scales, p, plane.scales, p)
			bias := ""
			if n := r.form().Bias; n > 1 {
				bias = finiteLit(float64(n), 32, "").String() + " * "
			}
			r.v.line("%s[%s] = %s%s * float(%s);", row.sums, p, bias, plane.scales, plane.sums)
		})
		return row
	})
}

func (r packedReader) addColumn(run place, rows activations, j text) {
	for n, p := range r.v.products {
		b, row := r.v.blockBuffer(p.b), rows[p.a]
		at := r.v.variable("uint", numberedName("at", n, len(r.v.products)), r.v.blockOf(p.b, run.block))
		quants := r.v.variable("uvec4", "quants", call("fields_"+b.base, at, run.e))
		dots := r.dots("dots", quants, "0x03030303u << 2u * ", row)
		if r.form().High != "" {
			bits := r.v.variable("uvec4", "bits", call("high_fields_"+b.base, at, run.e))
			high := r.dots("high", bits, "0x01010101u << ", row)
			r.v.line("%s += %s << ivec4(2, 3, 4, 5);", dots, high) // 4 times as much, in the same unit as dots
		}
		r.v.line("%s += scaled_%s(%s, %s, %s * vec4(%s), %s);", r.v.sumsAt(j)[n], b.base, at, run.e,
			row.scales, dots, row.sums)
	}
}

// dots multiplies the quants of four words by a row, and returns the name of the sums of every plane. mask selects the
// quants of a plane.
func (r packedReader) dots(name string, words text, mask string, row rowArrays) text {
	dots, quads := r.v.variable("ivec4", name, primary("ivec4(0)")), r.v.run.Quads
	r.v.repeat("p", kernel.PackedPlanes, func(p text) {
		r.v.repeat("t", quads, func(t text) {
			x := elementOf(row.elements, kernel.PackedPlanes*quads, plus(times(p, quads), t))
			r.v.line("%s[%s] += dotPacked4x8EXT(%s[%s] & (%s%s), %s);", dots, p, words, t, mask, p, x)
		})
	})
	return dots
}
