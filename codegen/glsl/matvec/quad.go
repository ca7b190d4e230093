package matvec

import (
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/matmul"
)

// plainReader reads a B without blocks, or a B of blocks that are decoded element by element.
type plainReader struct{ *matVec }

func (plainReader) prepare()   {}
func (plainReader) parts() int { return 1 }

// quadReader reads four neighbours of a column at a time, as floats or integers.
type quadReader struct{ plainReader }

func newQuadReader(v *matVec) bReader {
	v.run.Elems = 4
	return quadReader{plainReader{v}}
}

func (r quadReader) addRun(at place) { r.addColumns(r, at) }

func (r quadReader) activations(at place) activations {
	return r.ofRows(func(o *matmul.Operand) rowArrays {
		if r.S.ThreadM > 1 {
			return rowArrays{elements: r.eachRow(o, r.Quads.Typ(), func() expr.Expr { return r.Quad(o, at.k, true) })}
		}
		r.BindRow(expr.Of("0u"))
		return rowArrays{elements: expr.Variable(r.namedQuad(o, at.k))}
	})
}

func (r quadReader) addColumn(at place, rows activations, j expr.Expr) {
	cols := map[*matmul.Operand]expr.Expr{}
	for _, o := range r.B {
		cols[o] = r.namedQuad(o, at.k)
	}
	r.eachSum(rows, j, func(p matmul.Product, a, sum expr.Expr) {
		if r.Quads == emit.FloatQuads {
			r.Update(sum, "+=", r.Dot(a, cols[p.B]))
		} else {
			r.AddQuads(sum, a, cols[p.B])
		}
	})
}

// namedQuad is quad with a name.
func (v *matVec) namedQuad(o *matmul.Operand, k expr.Expr) expr.Expr {
	t := v.Quad(o, k, true)
	if expr.IsPlain(t) {
		return t
	}
	return v.Variable(v.Quads.Typ(), o.QuadName(), t)
}

// wordReader reads int8 elements, four words of a column at a time, because a matmul of few rows is bound by memory.
type wordReader struct{ plainReader }

func newWordReader(v *matVec) bReader {
	v.run.Elems = 16
	return wordReader{plainReader{v}}
}

func (r wordReader) addRun(at place) { r.addColumns(r, at) }

func (r wordReader) activations(at place) activations {
	return r.ofRows(func(o *matmul.Operand) rowArrays {
		return rowArrays{elements: r.eachRow(o, "uvec4", func() expr.Expr { return r.words(o, at) })}
	})
}

// words prints sixteen int8 elements of an operand.
func (r wordReader) words(o *matmul.Operand, at place) expr.Expr {
	return r.BytesAt(o.Value, emit.Along{Axis: r.Fold, Extent: r.K.Fold}, at.k, 16)
}

func (r wordReader) addColumn(at place, rows activations, j expr.Expr) {
	cols := map[*matmul.Operand]expr.Expr{}
	for _, o := range r.B {
		cols[o] = r.Variable("uvec4", o.Name+"_col", r.words(o, at))
	}
	r.eachSum(rows, j, func(p matmul.Product, a, sum expr.Expr) {
		for _, c := range "xyzw" {
			word := func(vector expr.Expr) expr.Expr {
				return r.Coerce("uint", r.Quads.Word, expr.Member(vector, string(c)))
			}
			r.AddQuads(sum, word(a), word(cols[p.B]))
		}
	})
}

// eachRow reads a value of every row of an A, and returns the name of their array.
func (v *matVec) eachRow(o *matmul.Operand, typ string, read func() expr.Expr) expr.Array {
	return v.Filled(typ, o.Name+"_rows", v.S.ThreadM, "i", func(i expr.Expr) expr.Expr {
		v.BindRow(i)
		return read()
	})
}

// eachSum writes add for the sums of column j, with the row's loaded elements.
func (v *matVec) eachSum(rows activations, j expr.Expr, add func(p matmul.Product, a, sum expr.Expr)) {
	v.Repeat("i", v.S.ThreadM, func(i expr.Expr) {
		for n, p := range v.Products {
			add(p, rows[p.A].elements.At(i), v.SumsAt(expr.Plus(expr.Times(i, v.S.ThreadN), j))[n])
		}
	})
}
