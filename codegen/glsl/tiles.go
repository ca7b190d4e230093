package glsl

import (
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// placeFactors calls place for each axis that a dimension of the grid covers. at is the workgroup's tile along the
// axis, and count is the number of tiles.
func (e *emitter) placeFactors(dim int, factors []schedule.AxisTiles,
	place func(f schedule.AxisTiles, at, count text)) {
	id := primary("gl_WorkGroupID." + gridAxis[dim])
	for i, f := range factors {
		at, count := id, e.tiles(f)
		if i < len(factors)-1 {
			at, id = binary("%", id, count), binary("/", id, count)
		}
		place(f, at, count)
	}
}

// wholeTiles is the number of tiles along an axis of static extent.
func (e *emitter) wholeTiles(f schedule.AxisTiles) int64 {
	return (e.k.Parallel[f.Axis].Add + int64(f.Tile) - 1) / int64(f.Tile)
}

// tiles prints the number of tiles along an axis.
func (e *emitter) tiles(f schedule.AxisTiles) text {
	d := e.k.Parallel[f.Axis]
	if d.IsStatic() {
		return uintLit(e.wholeTiles(f))
	}
	if f.Tile == 1 {
		return e.dim(d)
	}
	return binary("/", e.dim(d.Plus(int64(f.Tile)-1)), uintLit(f.Tile))
}

// tileStages describes double-buffered tiles in shared memory. While invocations multiply one stage, they prefetch the
// next tiles into registers.
type tileStages struct {
	apart    int                  // the distance between stages, in elements of the shared array
	fetch    func(at text)        // reads the tiles of a step into registers
	put      func(stage text)     // stores them in a stage
	multiply func(at, stage text) // multiplies the tiles of a step
}

// ahead steps through an extent. The tiles of its first step are in shared memory.
func (e *emitter) ahead(name string, extent ir.Dim, step int, s tileStages) {
	one := extent.IsStatic() && extent.Add <= int64(step)
	stage := primary("0u")
	if !one {
		stage = e.variable("uint", "stage", stage)
	}
	at := e.loop(name+"0", primary("0u"), e.dim(extent), step)
	ifMore := func(func(next text)) {}
	if !one {
		// If tiles are whole, the last step fetches its own tiles again, in vain. Without a branch around the loads,
		// the loads overlap with the multiplication.
		next, again := plus(at, uintLit(step)), extent.IsStatic() && schedule.DivisibleBy(extent, step)
		if again {
			next = call("min", next, uintLit(extent.Add-int64(step)))
		}
		next = e.variable("uint", name+"1", next)
		ifMore = func(body func(next text)) {
			e.openBelow(!again, next, e.dim(extent))
			body(next)
			e.close()
		}
	}
	ifMore(s.fetch)
	s.multiply(at, stage)
	ifMore(func(text) {
		e.assign(stage, binary("-", uintLit(s.apart), stage))
		s.put(stage)
	})
	e.barrier()
	e.close()
}

// placeInTile declares the column and row of an invocation in its tile. A row has across invocations.
func (e *emitter) placeInTile(self text, across int, column, row string) (x, y text) {
	all := e.sched.Workgroup
	x, y = remainder(self, across, all), quotient(self, across, all)
	if e.sched.Paired {
		blocks := quotient(self, 4, all)
		x = plus(remainder(self, 2, all), times(remainder(blocks, across/2, all/4), 2))
		y = plus(remainder(quotient(self, 2, all), 2, all/2), times(quotient(blocks, across/2, all/4), 2))
	}
	return e.variable("uint", column, x), e.variable("uint", row, y)
}

// selfIndex numbers the invocations of a workgroup. Each subgroup is a consecutive run.
func (e *emitter) selfIndex() text {
	if e.sched.Subgroup == 0 {
		return e.variable("uint", "self", primary("gl_LocalInvocationIndex"))
	}
	e.need(NeedSubgroupBasic, NeedSubgroupShuffle)
	e.subgroupSize = e.sched.Subgroup
	return e.variable("uint", "self", plus(times(primary("gl_SubgroupID"), e.sched.Subgroup),
		primary("gl_SubgroupInvocationID")))
}
