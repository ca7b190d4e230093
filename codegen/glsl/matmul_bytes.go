package glsl

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// packedQuad prints the word of four neighbours, where quad prints the vector.
func (m *matMul) packedQuad(o *matOperand, k text, all bool) text {
	a := along{m.fold, m.k.Fold}
	convert := func(word text) text { return m.coerce("uint", m.quads.word, word) }
	if !schedule.DivisibleBy(a.extent, 4) || o.value.Kind != kernel.ExprLoad || !m.isVector(o.value, a) {
		m.helper("pack_bytes", "ivec4")
		return convert(call("pack_bytes", m.quadAlong(o.value, m.fold, k, all, o.quadName())))
	}
	if all {
		return convert(m.bytesAt(o.value, a, k, 4))
	}
	name := m.variable(m.quads.word, o.quadName(), zero(m.quads.word))
	m.openIf(binary("<", k, m.dim(a.extent)))
	m.assign(name, convert(m.bytesAt(o.value, a, k, 4)))
	m.close()
	return name
}

// bytesAt prints 4 or 16 neighbouring int8 elements of a load, unchanged, as a uint or a uvec4.
func (m *matMul) bytesAt(v *kernel.Expr, a along, k text, bytes int) text {
	b := m.buffers[v.Bind]
	b.units[bytes] = true
	m.need(m.storageNeeds(b)...)
	at := binary("/", m.indexAt(v.Index, a.axis, k), uintLit(bytes))
	return elementAt(primary(b.name+"_"+planeUnits[bytes].view), b.subscript(at))
}

// addQuads multiplies two quads and adds to a sum.
func (m *matMul) addQuads(sum, a, b text) {
	switch {
	case m.quads.word != "":
		// The instruction that also accumulates would saturate.
		m.update(sum, "+=", m.coerce(m.quads.word, m.quads.scalar, call(m.dotBytes(), a, b)))
	case m.quads == intQuads:
		for _, c := range "xyzw" {
			m.update(sum, "+=", binary("*", member(a, string(c)), member(b, string(c))))
		}
	default:
		for _, c := range "xyzw" {
			m.addProduct("float", sum, member(a, string(c)), member(b, string(c)))
		}
	}
}

// dotBytes is the function that multiplies two words byte by byte and adds up the results.
func (m *matMul) dotBytes() string {
	if m.caps.Features.IntegerDotProduct {
		m.need(NeedIntDot)
		return "dotPacked4x8EXT"
	}
	m.helper("dot_bytes", m.quads.word)
	return "dot_bytes"
}

// quadsOf returns the quadKind of a kernel's operands. int8 elements stay packed, except in VarMatDirect, whose devices
// have no instructions for packed int8.
func quadsOf(k *kernel.Kernel, s kernel.Schedule) quadKind {
	t, ok := schedule.ByteProducts(k)
	if !ok {
		return floatQuads
	}
	q := intQuads
	switch {
	case s.Variant == kernel.VarMatDirect:
	case t == ir.I8:
		q.word = "int"
	default:
		q.word = "uint"
	}
	return q
}
