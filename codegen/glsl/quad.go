package glsl

import (
	"strings"
	"unicode"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// along is an axis of an operand that is read four neighbours at a time.
type along struct {
	axis   int
	extent ir.Dim
}

// quad prints a vec4 of an operand, elements k … k+3 along an axis. The other axes are bound. Unless all says that k is
// always within the extent, vectors beyond its end are 0.
func (e *emitter) quad(v *kernel.Expr, a along, k text, base string, all bool) text {
	return e.quadOf(floatQuads, v, a, k, base, all)
}

// quadOf is quad for vectors of any kind.
func (e *emitter) quadOf(q quadKind, v *kernel.Expr, a along, k text, base string, all bool) text {
	whole := schedule.DivisibleBy(a.extent, 4)
	if whole && all && e.isVector(v, a) {
		return e.vectorQuad(q, v, a, k)
	}
	var name text
	switch {
	case !whole:
		name = e.unset(q.vector, base)
		e.partialQuad(q, v, a, k, name)
	case all:
		name = e.unset(q.vector, base)
		e.wholeQuad(q, v, a, k, name)
	default:
		name = e.variable(q.vector, base, call(q.vector, q.zero))
		e.openIf(binary("<", k, e.dim(a.extent)))
		e.wholeQuad(q, v, a, k, name)
		e.close()
	}
	return name
}

// isVector reports whether four neighbours of an operand are one load of a vector, or one call of a block's decoder.
func (e *emitter) isVector(v *kernel.Expr, a along) bool {
	v = kernel.Widened(v)
	if v.Kind != kernel.ExprLoad || !e.k.LoadsVector(v, a.axis, 4) {
		return false
	}
	t := e.k.Bindings[v.Bind].DType
	return t.IsBlock() || (scalars[t].carrier == "float" || t == ir.I8 || t == ir.U8) && scalars[t].decode == ""
}

// indexAt prints an index at a coordinate along an axis. The other axes are bound.
func (e *emitter) indexAt(x kernel.Index, axis int, at text) text {
	e.openScope()
	defer e.close()
	e.bindAxis(axis, at)
	e.plan(nil, []kernel.Index{x})
	return e.indexText(x)
}

// vectorQuad prints four neighbours as one load.
func (e *emitter) vectorQuad(q quadKind, v *kernel.Expr, a along, k text) text {
	v = kernel.Widened(v)
	typ, value := e.loadVector(e.buffers[v.Bind], 4, e.indexAt(v.Index, a.axis, k))
	if typ != q.vector {
		value = call(q.vector, value)
	}
	return value
}

// wholeQuad sets a vector to four neighbours that all exist.
func (e *emitter) wholeQuad(q quadKind, v *kernel.Expr, a along, k, name text) {
	if e.isVector(v, a) {
		e.assign(name, e.vectorQuad(q, v, a, k))
		return
	}
	e.lanes(a.axis, 4, k, []*kernel.Expr{v}, nil, func() {
		e.assign(elementAt(name, lane), e.as(q.scalar, v))
	})
}

// partialQuad sets a vector to four neighbours. Some may lie beyond the end: there the shader reads the last element
// again and sets 0 instead.
func (e *emitter) partialQuad(q quadKind, v *kernel.Expr, a along, k, name text) {
	end := e.dim(a.extent)
	e.openLanes(4)
	at := binary("+", k, lane)
	e.bindAxisLater(a.axis, e.partialName(a.axis), e.capped(at, a.extent))
	value := e.as(q.scalar, v)
	e.assign(elementAt(name, lane), e.choose(q.scalar, "neighbour", binary("<", at, end), value, q.zero))
	e.close()
}

// partialName is the name of a limited coordinate along an axis.
func (e *emitter) partialName(axis int) string {
	if axis < e.k.FoldAxis() {
		return "at_" + e.paraName(axis)
	}
	return "at_k"
}

// asFloat prints a value as an f32, the type of matmul sums.
func (e *emitter) asFloat(v *kernel.Expr) text { return e.as("float", v) }

// as prints a value in a compute type.
func (e *emitter) as(typ string, v *kernel.Expr) text {
	e.plan([]*kernel.Expr{v}, nil)
	return e.coerce(e.computeType(v.DType), typ, e.value(v))
}

// wholeStep reports whether a step from a position on stays within an extent: step divides the extent, or that many
// elements are left.
func wholeStep(d ir.Dim, from text, step int) bool {
	first, known := literalOf(from)
	return schedule.DivisibleBy(d, step) || known && first.v+int64(step) <= d.Min()
}

// limit keeps a coordinate below an extent, unless tiles of this size divide the extent. The extent is not 0.
func (e *emitter) limit(x text, d ir.Dim, tile int) text {
	if schedule.DivisibleBy(d, tile) {
		return x
	}
	return e.capped(x, d)
}

// capped limits a coordinate to the last one of an extent. If x is a sum of coordinates, which cannot wrap, and one
// summand alone reaches the last coordinate, no comparison is needed.
func (e *emitter) capped(x text, d ir.Dim) text {
	last := e.coordinate(kernel.DimIndex(d).Minus(kernel.Const(1)))
	if end, known := literalOf(last); known && strings.IndexFunc(x.String(), notInSums) < 0 {
		for _, summand := range strings.Split(x.String(), " + ") {
			if n, ok := literalOf(primary(summand)); ok && n.v >= end.v {
				return last
			}
		}
	}
	return call("min", x, last)
}

// notInSums reports whether r cannot occur in a sum of names and numbers.
func notInSums(r rune) bool {
	return r != ' ' && r != '+' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
}

// quadKind says how shaders hold four neighbours of an operand that are multiplied without cooperative matrices.
type quadKind struct {
	vector string // the type of four neighbours that are assembled one by one
	// scalar is the type of an element, and of sums. int8 elements are added in int, and unsigned sums wrap around as
	// op matmul says.
	scalar string
	zero   text
	// word is the type of four int8 elements packed in one register, or "" for a vector.
	word string
}

// typ is the type of a quad.
func (q quadKind) typ() string {
	if q.word != "" {
		return q.word
	}
	return q.vector
}

var (
	floatQuads = quadKind{vector: "vec4", scalar: "float", zero: primary("0.0")}
	intQuads   = quadKind{vector: "ivec4", scalar: "int", zero: primary("0")}
)
