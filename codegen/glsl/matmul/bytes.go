package matmul

import (
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// packedQuad returns the word with elements k to k+3 of an int8 operand along the contraction axis. inside says that k
// is always within that axis; otherwise the word is 0 if k is beyond the end.
func (m *Base) packedQuad(o *Operand, k expr.Expr, inside bool) expr.Expr {
	a := emit.Along{Axis: m.Fold, Extent: m.K.Fold}
	convert := func(word expr.Expr) expr.Expr { return m.Coerce("uint", m.Quads.Word, word) }
	// The four bytes are not one word of memory.
	if !schedule.DivisibleBy(a.Extent, 4) || o.Value.Kind != kernel.ExprLoad || !m.IsVector(o.Value, a) {
		m.Helper("pack_bytes", "ivec4")
		return convert(expr.Call("pack_bytes", m.quadAlong(o.Value, m.Fold, k, inside, o.QuadName())))
	}
	if inside {
		return convert(m.BytesAt(o.Value, a, k, 4))
	}
	name := m.Variable(m.Quads.Word, o.QuadName(), emit.Zero(m.Quads.Word))
	m.OpenIf(expr.Binary("<", k, m.Dim(a.Extent)))
	m.Assign(name, convert(m.BytesAt(o.Value, a, k, 4)))
	m.Close()
	return name
}

// BytesAt returns 4 or 16 neighbouring int8 elements of a load along an axis, from element k on, as a uint or a uvec4.
func (m *Base) BytesAt(v *kernel.Expr, a emit.Along, k expr.Expr, bytes int) expr.Expr {
	b := m.Buffers[v.Bind]
	b.Units[bytes] = true
	m.NeedStorage(b)
	at := expr.Binary("/", m.IndexAt(v.Index, a.Axis, k), expr.Uint(bytes))
	return expr.At(expr.Of(b.Name+"_"+emit.PlaneUnits[bytes].View), b.Subscript(at))
}

// addRow multiplies a quad of an invocation's row i by the quads of its columns, and adds the results to the sums of
// every matmul. rows has the quad of each operand A, and col returns the quad of column j of an operand B.
func (m *Base) addRow(i expr.Expr, columns int, rows map[*Operand]expr.Expr,
	col func(o *Operand, j expr.Expr) expr.Expr) {
	m.Repeat("j", columns, func(j expr.Expr) {
		for _, p := range m.MatMuls {
			m.AddQuads(p.Sums.At(expr.Flat(i, columns, j)), rows[p.A], col(p.B, j))
		}
	})
}

// AddQuads writes sum += the dot product of two quads.
func (m *Base) AddQuads(sum, a, b expr.Expr) {
	switch {
	case m.Quads.Word != "":
		// There is an instruction that also accumulates, but it saturates.
		m.Update(sum, "+=", m.Coerce(m.Quads.Word, m.Quads.Scalar, expr.Call(m.dotBytes(), a, b)))
	case m.Quads == emit.IntQuads:
		for _, c := range "xyzw" {
			m.Update(sum, "+=", expr.Binary("*", expr.Member(a, string(c)), expr.Member(b, string(c))))
		}
	default:
		for _, c := range "xyzw" {
			m.AddProduct("float", sum, expr.Member(a, string(c)), expr.Member(b, string(c)))
		}
	}
}

// dotBytes returns the function that multiplies two words as four int8 each, and adds up the results.
func (m *Base) dotBytes() string {
	if m.Caps.Features.IntegerDotProduct {
		m.Need(emit.NeedIntDot)
		return "dotPacked4x8EXT"
	}
	m.Helper("dot_bytes", m.Quads.Word)
	return "dot_bytes"
}

// quadsOf returns how a kernel's code holds a quad: four neighbouring elements of an operand. Floats are in a vec4, and
// int8 elements in one packed word (QuadKind.Word). But VarMatDirect holds int8 elements in an ivec4, because it is for
// devices without instructions for packed int8.
func quadsOf(k *kernel.Kernel, v kernel.Variant) emit.QuadKind {
	t, ok := schedule.ByteMatMuls(k)
	if !ok {
		return emit.FloatQuads
	}
	q := emit.IntQuads
	switch {
	case v == kernel.VarMatDirect: // an ivec4 without a word
	case t == ir.I8:
		q.Word = "int"
	default:
		q.Word = "uint"
	}
	return q
}
