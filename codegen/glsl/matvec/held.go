package matvec

import (
	"github.com/vkc-go/vkc/codegen/glsl/blocks"
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
)

// heldBlocks holds the preloaded blocks of a workgroup's first pass over columns, keyed by the buffer of each B.
type heldBlocks map[*emit.Buffer]heldRuns

// heldRuns names the two register arrays of one B: the raw words of the quants, and the scales. An element of each
// belongs to one run (the elements of a block that an invocation reads at once) of one column.
type heldRuns struct {
	words, scales expr.Array
}

// holdBlocks loads the blocks of the workgroup's first columns into registers before the workgroup quantizes the row,
// so that the two overlap. A no-op data dependency of the multiplication keeps compilers from sinking the loads to
// their use.
func (v *matVec) holdBlocks(rows resident) {
	v.held = heldBlocks{}
	count := v.S.ThreadN * len(rows)
	for _, o := range v.B {
		v.held[v.blockBuffer(o)] = heldRuns{v.Array("uvec4", o.Name+"_words", count),
			v.Array(blocks.ScaleType(v.run.Form), o.Name+"_scale", count)}
	}
	asked := v.Variable("uint", "asked", expr.Of("0u"))
	v.Repeat("j", v.S.ThreadN, func(j expr.Expr) {
		v.bindColumn(j)
		for i, run := range rows {
			for _, o := range v.B {
				b, s := v.blockBuffer(o), run.parts[0]
				held, slot := v.held[b], heldSlot(rows, i, j)
				words, scale := held.words.At(slot), held.scales.At(slot)
				at := v.Variable("uint", "at", v.blockOf(o, s.block))
				v.Assign(words, expr.Call(blocks.HeldWords(v.Emitter, b), at, s.e))
				v.Assign(scale, expr.Call("scale_"+b.Base, at, within(s.e, s.at)))
				if v.run.Form.Affine {
					scale = expr.Member(scale, "x")
				}
				v.Line("%s ^= %s.x ^ %[2]s.y ^ %[2]s.z ^ %[2]s.w ^ floatBitsToUint(%[3]s);", asked, words, scale)
			}
		}
	})
	v.dependOn(asked)
}

// heldSlot returns the index, in the arrays of heldRuns, of run i of column j.
func heldSlot(rows resident, i int, j expr.Expr) expr.Expr {
	return expr.Plus(expr.Times(j, len(rows)), expr.Uint(i))
}

// decodeHeld decodes the preloaded quants of a strip to an array of uvec4, and returns that array.
func (v *matVec) decodeHeld(b *emit.Buffer, held heldRuns, at place) expr.Array {
	words, decode := held.words.At(at.slot), blocks.HeldQuants(v.Emitter, b)
	return v.Filled("uvec4", "quants", v.run.Quads/4, "w", func(w expr.Expr) expr.Expr {
		return expr.Call(decode, words, w)
	})
}
