package glsl

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
)

// prefetched are words of B that invocations loaded early and did not use.
type prefetched struct {
	name  text
	count int
}

// prefetchSectors loads the first blocks of B that a workgroup will read, so that they are in flight while the
// workgroup prepares the row. The words are volatile, because compilers otherwise sink the loads to their use.
func (v *matVec) prefetchSectors() prefetched {
	p := prefetched{count: v.s.Prefetch}
	if p.count == 0 {
		return p
	}
	p.name = primary(v.fresh(v.scope, "early"))
	o := v.b[0]
	b := v.blockBuffer(o)
	i := schedule.LargestPlane(b.DType)
	blocks := int(v.k.Fold.Add) / b.DType.BlockElems()
	bytes := kernel.PlanesOf(b.DType)[i].Bytes
	sectors := blocks * bytes / schedule.SectorBytes // of a column
	all := schedule.PrefetchSectors(v.k, v.s)
	b.early = true
	base := kernel.PlaneBase(b.DType, i, b.Elems/int64(b.DType.BlockElems()))
	v.line("uint %s%s; // blocks, asked for while the row is made ready", p.name, arraySize(p.count))
	v.repeat("n", p.count, func(n text) {
		sector := plus(v.self, times(n, v.s.Workgroup))
		if p.count*v.s.Workgroup > all { // the last column may not exist
			sector = call("min", sector, uintLit(all-1))
		}
		sector = v.variable("uint", "sector", sector)
		col := v.variable("uint", "col", v.clampTo(plus(v.col0, binary("/", sector, uintLit(sectors))), v.col,
			v.s.TileN))
		v.bindAxis(v.col, col)
		first := times(v.blockOf(o, primary("0u")), bytes/4)
		within := times(binary("%", sector, uintLit(sectors)), schedule.SectorBytes/4)
		v.line("%s = %s_early[%s];", elementOf(p.name, p.count, n), b.name,
			plus(plus(uintLit(base/4), first), within))
	})
	return p
}

// awaitPrefetch declares the number `nothing`, which is 0 and depends on every prefetched word.
func (v *matVec) awaitPrefetch(p prefetched) text {
	if p.count == 0 {
		return nil
	}
	all := v.variable("uint", "all", primary("0u"))
	v.repeat("n", p.count, func(n text) { v.update(all, "|=", elementOf(p.name, p.count, n)) })
	return v.variable("float", "nothing", primary("float("+all.Text+" & gl_NumWorkGroups.x >> 31)"))
}
