package matvec

import (
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/matmul"
)

// plainReader is the part that quadReader and wordReader share: B has no blocks, or its blocks are decoded one element
// at a time.
type plainReader struct{ v *matVec }

func (plainReader) prepare()   {}
func (plainReader) parts() int { return 1 }

// quadReader reads a quad at a time: four consecutive elements of a column, as floats or integers.
type quadReader struct{ plainReader }

// activations reads a quad of every row.
func (r quadReader) activations(at position) activations {
	return r.v.ofRows(func(o *matmul.Operand) rowArrays {
		if r.v.S.ThreadM > 1 {
			return rowArrays{elements: r.v.eachRow(o, r.v.Quads.Typ(), func() expr.Expr {
				return r.v.Quad(o, at.k, emit.Inside)
			})}
		}
		r.v.BindRow(expr.Of("0u"))
		return rowArrays{elements: expr.Variable(r.v.namedQuad(o, at.k))}
	})
}

// addColumn implements bReader: it multiplies the rows by a quad of column j.
func (r quadReader) addColumn(at position, rows activations, j expr.Expr) {
	cols := map[*matmul.Operand]expr.Expr{}
	for _, o := range r.v.B {
		cols[o] = r.v.namedQuad(o, at.k)
	}
	r.v.eachSum(rows, j, func(p matmul.MatMul, a, sum expr.Expr) {
		if r.v.Quads == emit.FloatQuads {
			r.v.Update(sum, "+=", r.v.Dot(a, cols[p.B]))
		} else {
			r.v.AddQuads(sum, a, cols[p.B])
		}
	})
}

// namedQuad reads the quad of an operand at k, and names its value unless it is a plain name already.
func (v *matVec) namedQuad(o *matmul.Operand, k expr.Expr) expr.Expr {
	t := v.Quad(o, k, emit.Inside)
	if expr.IsPlain(t) {
		return t
	}
	return v.Variable(v.Quads.Typ(), o.QuadName(), t)
}

// wordReader reads 16 int8 elements of a column at a time, in four words, because a matmul of few rows is memory-bound.
type wordReader struct{ plainReader }

// activations reads sixteen int8 elements of every row.
func (r wordReader) activations(at position) activations {
	return r.v.ofRows(func(o *matmul.Operand) rowArrays {
		return rowArrays{elements: r.v.eachRow(o, "uvec4", func() expr.Expr { return r.words(o, at) })}
	})
}

// words returns sixteen int8 elements of an operand.
func (r wordReader) words(o *matmul.Operand, at position) expr.Expr {
	return r.v.BytesAt(o.Value, emit.Along{Axis: r.v.Fold, Extent: r.v.K.Fold}, at.k, 16)
}

// addColumn implements bReader: it multiplies the rows by sixteen elements of column j.
func (r wordReader) addColumn(at position, rows activations, j expr.Expr) {
	cols := map[*matmul.Operand]expr.Expr{}
	for _, o := range r.v.B {
		cols[o] = r.v.Variable("uvec4", o.Name+"_col", r.words(o, at))
	}
	r.v.eachSum(rows, j, func(p matmul.MatMul, a, sum expr.Expr) {
		for _, c := range "xyzw" {
			word := func(vector expr.Expr) expr.Expr {
				return r.v.Coerce("uint", r.v.Quads.Word, expr.Member(vector, string(c)))
			}
			r.v.AddQuads(sum, word(a), word(cols[p.B]))
		}
	})
}

// eachRow calls read for every row of an A, with the row axis bound, and returns the array of the values that read
// returned.
func (v *matVec) eachRow(o *matmul.Operand, typ string, read func() expr.Expr) expr.Array {
	return v.Filled(typ, o.Name+"_rows", v.S.ThreadM, "i", func(i expr.Expr) expr.Expr {
		v.BindRow(i)
		return read()
	})
}

// eachSum calls add for every row and matmul: with the matmul, the loaded quad a of the row, and the sum of column j.
func (v *matVec) eachSum(rows activations, j expr.Expr, add func(p matmul.MatMul, a, sum expr.Expr)) {
	v.Repeat("i", v.S.ThreadM, func(i expr.Expr) {
		for n, p := range v.MatMuls {
			add(p, rows[p.A].elements.At(i), v.SumsAt(expr.Flat(i, v.S.ThreadN, j))[n])
		}
	})
}
