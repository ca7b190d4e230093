package matvec

import (
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/matmul"
)

// stagedRows is a source of float rows that the workgroup copies to shared memory, a tile at a time. A tile covers the
// steps that the lanes of a sum take together. Without it, lanes with long runs of blocks would read rows far apart in
// memory, which is slow (M-matvec-blocks).
type stagedRows struct {
	memoryRows
	arrays map[*matmul.Operand]expr.Expr // vec4 arrays, row after row
	first  expr.Expr                     // the tile's first element along the contraction axis
	each   int                           // quads per row of a tile
}

// throughTiles calls body for this invocation's steps: of n = LanesPerRow invocations, invocation i takes steps i, i+n,
// i+2n, ... Before each step the workgroup copies the rows that the step reads to shared memory.
func (v *matVec) throughTiles(r *stagedRows, steps int64, body func(step expr.Expr)) {
	lanes := v.S.LanesPerRow
	r.each = lanes * v.run.Elems / 4
	for _, o := range v.A {
		r.arrays[o] = v.Share("vec4", o.Name+"_tile", v.S.ThreadM*lanes*v.S.TileK/4)
	}
	partial := steps%int64(lanes) != 0 // the last tile is not full
	first := v.OpenLoop("first", expr.Of("0u"), expr.Uint(steps), lanes)
	r.first = v.Named("k0", expr.Times(first, v.run.Elems))
	r.fill(partial, expr.Uint(steps*int64(v.run.Elems)))
	v.Barrier()
	step := v.Variable("uint", "step", expr.Plus(first, v.part))
	v.OpenBelow(partial, step, expr.Uint(steps))
	body(step)
	v.Close()
	v.Barrier()
	v.Close()
}

// fill copies a tile of all rows to shared memory: r.each quads along the contraction axis, from element r.first on. If
// partial is true, the tile may reach beyond the end of the axis. fill then copies only elements before end.
func (r *stagedRows) fill(partial bool, end expr.Expr) {
	n := r.v.OpenLoop("n", r.v.self, expr.Uint(r.each), r.v.S.Workgroup)
	k := r.v.Variable("uint", "k", expr.Plus(r.first, expr.Times(n, 4)))
	r.v.OpenBelow(partial, k, end)
	place := r.v.Variable("uint", "place", swizzled(n))
	r.v.Repeat("i", r.v.S.ThreadM, func(i expr.Expr) {
		r.v.BindRow(i)
		for _, o := range r.v.A {
			r.v.Assign(expr.At(r.arrays[o], expr.Flat(i, r.each, place)), r.v.Quad(o, k, emit.Inside))
		}
	})
	r.v.Close()
	r.v.Close()
}

// swizzled returns the shared-memory slot of quad n of a row: n with its low three bits XORed by higher bits. If eight
// lanes read the same quad of their own runs of 8 or 16 quads, they then use different banks.
func swizzled(n expr.Expr) expr.Expr {
	return expr.Binary("^", n,
		expr.Binary("&", expr.Binary("^", expr.Binary(">>", n, expr.Of("3")), expr.Binary(">>", n, expr.Of("6"))),
			expr.Of("7u")))
}

// quadsAt implements floatSource: it reads from shared memory.
func (r *stagedRows) quadsAt(k expr.Expr) stripQuad {
	first := r.v.Variable("uint", "first_quad", expr.Binary("/", expr.Binary("-", k, r.first), expr.Uint(4)))
	place := func(t expr.Expr) expr.Expr { return swizzled(plusOffset(first, t)) }
	if r.v.run.Quads <= 8 { // t is in the low three bits, so it may be XORed after swizzled
		at := r.v.Variable("uint", "place", swizzled(first))
		place = func(t expr.Expr) expr.Expr {
			if t.Is("0u") {
				return at
			}
			return expr.Binary("^", at, t)
		}
	}
	return func(o *matmul.Operand, i, t expr.Expr) expr.Expr {
		return expr.At(r.arrays[o], expr.Flat(i, r.each, place(t)))
	}
}

func (r *stagedRows) strip(o *matmul.Operand, k expr.Expr) rowArrays {
	return r.v.floatStrip(o, k, r)
}
