package matvec

import (
	"github.com/vkc-go/vkc/codegen/glsl/blocks"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/matmul"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// packedReader multiplies 2-bit quants without unpacking them to bytes. A byte holds four quants, one in each of its
// four bit fields. The reader masks the same sixteen bytes once per field, so it needs no shifts. For each row it needs
// the int8 elements that belong to each field, one scale per field, and the scaled sum of the elements.
type packedReader struct{ v *matVec }

func (packedReader) parts() int { return 1 }

// prepare defines the functions that decode a whole word of quants.
func (r packedReader) prepare() {
	for _, o := range r.v.B {
		blocks.PackedFunctions(r.v.Emitter, r.v.blockBuffer(o), r.v.S.Subnormals)
	}
	r.v.prepareArithmetic()
}

func (r packedReader) form() *ir.BlockPacked {
	f, _ := ir.BlockFormatOf(r.v.run.DType)
	return f.Packed
}

// activations reads the rows along a run, field after field. The fields begin 32 elements apart.
func (r packedReader) activations(run position) activations {
	return r.v.ofRows(func(o *matmul.Operand) rowArrays {
		n := kernel.PackedFields * r.v.run.Quads
		row := rowArrays{r.v.Array("int", o.Name+"_bytes", n),
			expr.Variable(expr.Of(r.v.Fresh(r.v.Scope, o.Name+"_scales"))),
			expr.Variable(expr.Of(r.v.Fresh(r.v.Scope, o.Name+"_sums")))}
		r.v.Variables("vec4", syntax.Var{Name: row.scales.Name.Text}, syntax.Var{Name: row.sums.Name.Text})
		r.v.Repeat("p", kernel.PackedFields, func(p expr.Expr) {
			field := r.v.rows.strip(o, r.v.partOf(run, p).k)
			r.v.Repeat("t", r.v.run.Quads, func(t expr.Expr) {
				r.v.Assign(row.elements.At(expr.Flat(p, r.v.run.Quads, t)), field.elements.At(t))
			})
			// The quants of field p are masked and not shifted, so they are 4^p times too large.
			r.v.Assign(expr.At(row.scales.Name, p), expr.Format("%s / float(1u << 2u * %s)", field.scales.Name, p))
			bias := "" // a factor of the sum
			if n := r.form().Bias; n > 1 {
				bias = expr.Float(float64(n), 32, "").String() + " * "
			}
			r.v.Assign(expr.At(row.sums.Name, p),
				expr.Format("%s%s * float(%s)", bias, field.scales.Name, field.sums.Name))
		})
		return row
	})
}

// addColumn multiplies the packed quants of column j, field by field, and adds to the sums.
func (r packedReader) addColumn(run position, rows activations, j expr.Expr) {
	for n, p := range r.v.MatMuls {
		b, row := r.v.blockBuffer(p.B), rows[p.A]
		at := r.v.Variable("uint", matmul.Numbered("at", n, len(r.v.MatMuls)), r.v.blockOf(p.B, run.block))
		quants := r.v.Variable("uvec4", "quants", expr.Call("fields_"+b.Base, at, run.e))
		dots := r.dots("dots", quants, "0x03030303u << 2u * ", row)
		if r.form().High != "" {
			bits := r.v.Variable("uvec4", "bits", expr.Call("high_fields_"+b.Base, at, run.e))
			high := r.dots("high", bits, "0x01010101u << ", row)
			// 4 times as much, in the same unit as dots
			r.v.Update(dots, "+=", expr.Format("%s << ivec4(2, 3, 4, 5)", high))
		}
		r.v.Update(r.v.SumsAt(j)[n], "+=", expr.Call("scaled_"+b.Base, at, run.e,
			expr.Binary("*", row.scales.Name, expr.Call("vec4", dots)), row.sums.Name))
	}
}

// dots multiplies the quants in four words by a row, and returns an ivec4: the sum of each field. mask is GLSL that
// selects the quants of a field, without its last operand: the number of the field.
func (r packedReader) dots(name string, words expr.Expr, mask string, row rowArrays) expr.Expr {
	dots, quads := r.v.Variable("ivec4", name, expr.Of("ivec4(0)")), r.v.run.Quads
	r.v.Repeat("p", kernel.PackedFields, func(p expr.Expr) {
		r.v.Repeat("t", quads, func(t expr.Expr) {
			x := row.elements.At(expr.Flat(p, quads, t))
			r.v.Update(expr.At(dots, p), "+=",
				expr.Format("dotPacked4x8EXT(%s[%s] & (%s%s), %s)", words, t, mask, p, x))
		})
	})
	return dots
}
