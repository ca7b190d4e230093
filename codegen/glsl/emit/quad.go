package emit

import (
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// Along is an axis along which an operand is read four neighbours at a time, with the axis's extent.
type Along struct {
	Axis   int
	Extent ir.Dim
}

// Quad returns a vec4 with elements k to k+3 of an operand along an axis. The other axes are bound. base names the
// variable, if it needs one. inside says that k is always within the extent; otherwise quads beyond the end are 0.
func (e *Emitter) Quad(v *kernel.Expr, a Along, k expr.Expr, base string, inside bool) expr.Expr {
	return e.QuadOf(FloatQuads, v, a, k, base, inside)
}

// Inside is the last argument of Quad if the quad always begins within the extent.
const Inside = true

// QuadOf returns a vector of kind q with elements k to k+3 of an operand along an axis. The other axes are bound. base
// names the variable, if it needs one. inside says that k is always within the extent; otherwise quads beyond the end
// are zero.
func (e *Emitter) QuadOf(q QuadKind, v *kernel.Expr, a Along, k expr.Expr, base string, inside bool) expr.Expr {
	whole := schedule.DivisibleBy(a.Extent, 4)
	if whole && inside && e.IsVector(v, a) {
		return e.vectorQuad(q, v, a, k)
	}
	var name expr.Expr
	switch {
	case !whole: // a quad may cross the end
		name = e.Unset(q.Vector, base)
		e.setPartialQuad(q, v, a, k, name)
	case inside:
		name = e.Unset(q.Vector, base)
		e.setWholeQuad(q, v, a, k, name)
	default: // the whole quad may be beyond the end
		name = e.Variable(q.Vector, base, expr.Call(q.Vector, q.Zero))
		e.OpenIf(expr.Binary("<", k, e.Dim(a.Extent)))
		e.setWholeQuad(q, v, a, k, name)
		e.Close()
	}
	return name
}

// IsVector reports whether one load of a vector, or one call of a block's decoder, returns four neighbours of an
// operand.
func (j *Job) IsVector(v *kernel.Expr, a Along) bool {
	v = kernel.Widened(v)
	if v.Kind != kernel.ExprLoad || !j.K.LoadsVector(v, a.Axis, 4) {
		return false
	}
	t := j.K.Bindings[v.Bind].DType
	return t.IsBlock() || (Scalars[t].Carrier == "float" || t == ir.I8 || t == ir.U8) && Scalars[t].decode == ""
}

// IndexAt returns an index with the coordinate along an axis set to at. The other axes are bound.
func (e *Emitter) IndexAt(x kernel.Index, axis int, at expr.Expr) expr.Expr {
	e.OpenScope()
	defer e.Close()
	e.BindAxis(axis, at)
	e.Plan(nil, []kernel.Index{x})
	return e.IndexExpr(x)
}

// vectorQuad returns four neighbours as one load.
func (e *Emitter) vectorQuad(q QuadKind, v *kernel.Expr, a Along, k expr.Expr) expr.Expr {
	v = kernel.Widened(v)
	typ, value := e.loadVector(e.Buffers[v.Bind], 4, e.IndexAt(v.Index, a.Axis, k))
	if typ != q.Vector {
		value = expr.Call(q.Vector, value)
	}
	return value
}

// setWholeQuad sets the variable name to four neighbours that all exist.
func (e *Emitter) setWholeQuad(q QuadKind, v *kernel.Expr, a Along, k, name expr.Expr) {
	if e.IsVector(v, a) {
		e.Assign(name, e.vectorQuad(q, v, a, k))
		return
	}
	e.RunLanes(Run{Axis: a.Axis, Width: 4, Base: k}, []*kernel.Expr{v}, nil, func() {
		e.Assign(expr.At(name, Lane), e.as(q.Scalar, v))
	})
}

// setPartialQuad sets the variable name to four neighbours. Some of them may be beyond the end: for these the shader
// reads the last element again and uses 0 instead.
func (e *Emitter) setPartialQuad(q QuadKind, v *kernel.Expr, a Along, k, name expr.Expr) {
	end := e.Dim(a.Extent)
	e.OpenLanes(4)
	at := expr.Binary("+", k, Lane)
	cappedName := "at_k"
	if a.Axis < e.K.FoldAxis() {
		cappedName = "at_" + e.ParaName(a.Axis)
	}
	e.BindAxisLater(a.Axis, cappedName, e.capped(at, a.Extent))
	value := e.as(q.Scalar, v)
	e.Assign(expr.At(name, Lane), e.Choose(q.Scalar, "neighbour", expr.Binary("<", at, end), value, q.Zero))
	e.Close()
}

// AsFloat returns a value as a float, the type of matmul sums.
func (e *Emitter) AsFloat(v *kernel.Expr) expr.Expr { return e.as("float", v) }

// as returns a value in a compute type.
func (e *Emitter) as(typ string, v *kernel.Expr) expr.Expr {
	return e.Coerce(e.ComputeType(v.DType), typ, e.Eval(v))
}

// WholeStep reports whether a step of step elements, beginning at from, is provably within an extent.
func WholeStep(d ir.Dim, from expr.Expr, step int) bool {
	first, known := expr.LiteralOf(from)
	return schedule.DivisibleBy(d, step) || known && first.V+int64(step) <= d.Min()
}

// Limit returns min(x, last coordinate of d), or x if tiles of the given size divide the extent. The extent must not be
// 0.
func (e *Emitter) Limit(x expr.Expr, d ir.Dim, tile int) expr.Expr {
	if schedule.DivisibleBy(d, tile) {
		return x
	}
	return e.capped(x, d)
}

// capped returns min(x, last coordinate of the extent). x may be a sum, which cannot wrap around. If a number in the
// sum alone reaches the last coordinate, it returns that coordinate without min.
func (e *Emitter) capped(x expr.Expr, d ir.Dim) expr.Expr {
	last := e.Coordinate(kernel.DimIndex(d).Minus(kernel.Const(1)))
	if end, known := expr.LiteralOf(last); known && hasSummand(x, end.V) {
		return last
	}
	return expr.Call("min", x, last)
}

// hasSummand reports whether x is a number that is not below least, or a sum with such a number.
func hasSummand(x expr.Expr, least int64) bool {
	if x.Op == syntax.Binary && x.Text == "+" {
		return hasSummand(x.Args[0], least) || hasSummand(x.Args[1], least)
	}
	n, ok := expr.LiteralOf(x)
	return ok && n.V >= least
}

// QuadKind is a type that holds four neighbours of an operand in ordinary arithmetic, without cooperative matrices.
type QuadKind struct {
	Vector string // the vector type that four neighbours are assembled in
	// Scalar is the type of an element and of sums. int8 elements are added in int, and uint8 sums wrap around, as op
	// matmul defines.
	Scalar string
	Zero   expr.Expr
	// Word is the type of a word with four packed int8 elements, or "" if elements are held in a vector.
	Word string
}

// Typ is the GLSL type of a quad: Word, or Vector if there is none.
func (q QuadKind) Typ() string {
	if q.Word != "" {
		return q.Word
	}
	return q.Vector
}

var (
	// FloatQuads are vectors of floats.
	FloatQuads = QuadKind{Vector: "vec4", Scalar: "float", Zero: expr.Of("0.0")}
	// IntQuads are vectors of ints.
	IntQuads = QuadKind{Vector: "ivec4", Scalar: "int", Zero: expr.Of("0")}
)
