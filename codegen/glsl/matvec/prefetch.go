package matvec

import (
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
)

// prefetched names the register array of words of B that an invocation loaded early and did not yet use. count is its
// length, 0 for no prefetch.
type prefetched struct {
	name  expr.Array
	count int
}

// prefetchSectors loads the first blocks of B that a workgroup will read, so that they are in flight while the
// workgroup prepares the row. The words are volatile, because compilers otherwise sink the loads to their use.
func (v *matVec) prefetchSectors() prefetched {
	p := prefetched{count: v.S.Prefetch}
	if p.count == 0 {
		return p
	}
	p.name = expr.Array{Name: expr.Of(v.Fresh(v.Scope, "early")), Len: p.count}
	o := v.B[0]
	b := v.blockBuffer(o)
	i := schedule.LargestPlane(b.DType)
	blocks := int(v.K.Fold.Add) / b.DType.BlockElems()
	bytes := kernel.PlanesOf(b.DType)[i].Bytes
	sectors := blocks * bytes / schedule.SectorBytes // of a column
	all := schedule.PrefetchSectors(v.K, v.S)
	b.Early = true
	base := kernel.PlaneBase(b.DType, i, b.Elems/int64(b.DType.BlockElems()))
	v.Line("uint %s%s; // blocks, asked for while the row is made ready", p.name.Name, emit.ArraySize(p.count))
	v.Repeat("n", p.count, func(n expr.Expr) {
		sector := expr.Plus(v.self, expr.Times(n, v.S.Workgroup))
		if p.count*v.S.Workgroup > all { // the last column may not exist
			sector = expr.Call("min", sector, expr.Uint(all-1))
		}
		sector = v.Variable("uint", "sector", sector)
		col := v.Variable("uint", "col", v.ClampTo(expr.Plus(v.Col0, expr.Binary("/", sector, expr.Uint(sectors))),
			v.Col, v.S.TileN))
		v.BindAxis(v.Col, col)
		first := expr.Times(v.blockOf(o, expr.Of("0u")), bytes/4)
		within := expr.Times(expr.Binary("%", sector, expr.Uint(sectors)), schedule.SectorBytes/4)
		v.Line("%s = %s_early[%s];", p.name.At(n), b.Name, expr.Plus(expr.Plus(expr.Uint(base/4), first), within))
	})
	return p
}

// awaitPrefetch declares the GLSL variable `nothing`: a 0 that depends on every prefetched word. Adding it to a sum
// keeps compilers from dropping the loads. It returns nil without a prefetch.
func (v *matVec) awaitPrefetch(p prefetched) expr.Expr {
	if p.count == 0 {
		return nil
	}
	all := v.Variable("uint", "all", expr.Of("0u"))
	v.Repeat("n", p.count, func(n expr.Expr) { v.Update(all, "|=", p.name.At(n)) })
	return v.Variable("float", "nothing", expr.Of("float("+all.Text+" & gl_NumWorkGroups.x >> 31)"))
}
