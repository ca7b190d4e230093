package matvec

import (
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/matmul"
)

// wholeReader decodes the elements of blocks completely: it multiplies them by their scale before it multiplies them by
// the rows. That takes one multiplication per decoded element, instead of one per strip of every row. With many rows it
// is cheaper.
type wholeReader struct{ *stripReader }

// wholeStrip names the arrays that hold a strip of one B. They have one element (for quants, several) per column.
type wholeStrip struct {
	at     expr.Array // the index of the column's block in the buffer
	scale  expr.Array
	quants expr.Array // empty if quants are loaded when they are used
}

// addRun implements runReader: it adds a run strip by strip. The loop is rolled, because a strip with many rows takes
// thousands of instructions.
func (r wholeReader) addRun(run position) {
	p := expr.Of("0u")
	if r.v.run.Strips == 1 {
		r.v.OpenScope()
	} else {
		p = r.v.OpenLoop("p", p, expr.Uint(r.v.run.Strips), 1)
	}
	r.addStrip(r.v.partOf(run, p))
	r.v.Close()
}

// addStrip multiplies a strip. It first reads all columns into registers. Then it reads one quad of all rows at a time
// and multiplies it by all columns. So a longer strip takes no more registers for rows.
func (r wholeReader) addStrip(at position) {
	blocks := map[*matmul.Operand]wholeStrip{}
	for _, o := range r.v.B {
		blocks[o] = r.readColumns(o, at)
	}
	read := r.v.rows.(floatSource).quadsAt(at.k) // schedules with DecodeWhole leave the rows as floats
	r.v.Repeat("t", r.v.run.Quads, func(t expr.Expr) {
		rows := r.v.ofRows(func(o *matmul.Operand) rowArrays {
			name := r.v.Filled("vec4", o.Name+"_rows", r.v.S.ThreadM, "i", func(i expr.Expr) expr.Expr {
				return read(o, i, t)
			})
			return rowArrays{elements: name}
		})
		r.v.Repeat("j", r.v.S.ThreadN, func(j expr.Expr) {
			cols := map[*matmul.Operand]expr.Expr{}
			for _, o := range r.v.B {
				cols[o] = r.decode(o, blocks[o], at, t, j)
			}
			r.v.eachSum(rows, j, func(p matmul.MatMul, a, sum expr.Expr) {
				r.v.Update(sum, "+=", r.v.Dot(a, cols[p.B]))
			})
		})
	})
}

// readColumns reads one strip of each of the invocation's columns of a B into arrays: the index of the block, the scale
// from wholeScale, and the quants if they are read 16 bytes at a time.
func (r wholeReader) readColumns(o *matmul.Operand, at position) wholeStrip {
	b, cols, perColumn := r.v.blockBuffer(o), r.v.S.ThreadN, r.v.run.Quads/4
	typ := "float"
	if r.v.run.Form.NeedsSums() {
		typ = "vec2" // with a number to add
	}
	w := wholeStrip{at: r.v.Array("uint", o.Name+"_at", cols), scale: r.v.Array(typ, o.Name+"_scale", cols)}
	if r.v.run.Wide(b.Binding) {
		w.quants = r.v.Array("uvec4", o.Name+"_quants", cols*perColumn)
	}
	r.v.Repeat("j", cols, func(j expr.Expr) {
		r.v.bindColumn(j)
		block := w.at.At(j)
		r.v.Assign(block, r.v.blockOf(o, at.block))
		if w.quants.Len > 0 {
			r.v.Repeat("w", perColumn, func(i expr.Expr) {
				r.v.Assign(w.quants.At(expr.Flat(j, perColumn, i)), r.v.wideCall(b, block, at, i))
			})
		}
		scale := r.v.scaleOf(b, block, at)
		r.v.Assign(w.scale.At(j), r.v.wholeScale(scale))
	})
	return w
}

// wholeScale returns the factor that decodes unpacked quants. If the format has an offset or a bias, it returns a vec2:
// the factor, and the number to add afterwards.
func (v *matVec) wholeScale(scale expr.Expr) expr.Expr {
	f, x := v.run.Form, scale
	if f.Affine {
		x = expr.Member(scale, "x")
	}
	// Quants that became subnormal halves are 2^24 times too small.
	if v.subnormal() {
		x = expr.Binary("*", expr.Of("16777216.0"), x)
	}
	switch {
	case f.Affine:
		return expr.Call("vec2", x, expr.Member(scale, "y"))
	case f.Bias != 0:
		return expr.Call("vec2", x, expr.Binary("*", v.FloatLit(float64(-f.Bias)), scale))
	}
	return x
}

// decode decodes quad t of column j and returns its vec4 variable.
func (r wholeReader) decode(o *matmul.Operand, w wholeStrip, at position, t, j expr.Expr) expr.Expr {
	b, perColumn := r.v.blockBuffer(o), r.v.run.Quads/4
	block, scale := w.at.At(j), w.scale.At(j)
	var levels expr.Expr
	switch {
	case r.v.run.Form.Levels:
		levels = expr.Call("levels_"+b.Base, r.v.quadArgs(block, at, t)...)
	case w.quants.Len > 0:
		four := w.quants.At(expr.Flat(j, perColumn, expr.Quotient(t, 4, r.v.run.Quads)))
		levels = expr.Call(r.v.unpack(), expr.At(four, expr.Remainder(t, 4, r.v.run.Quads)))
	default:
		levels = expr.Call(r.v.unpack(), expr.Call("quants_"+b.Base, r.v.quadArgs(block, at, t)...))
	}
	if r.v.run.Form.NeedsSums() {
		return r.v.Variable("vec4", o.QuadName(),
			expr.Binary("+", expr.Binary("*", expr.Member(scale, "x"), levels), expr.Member(scale, "y")))
	}
	return r.v.Variable("vec4", o.QuadName(), expr.Binary("*", scale, levels))
}
