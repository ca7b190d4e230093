package layout

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// placeTemps assigns each temporary a range of the arena: largest first, at the lowest offset that no temporary live at
// the same level occupies.
func (pl *planner) placeTemps() {
	var temps []int
	for i, b := range pl.p.Buffers {
		if b.Kind == kernel.BufTemp {
			temps = append(temps, i)
			pl.p.TempBytes += align(b.Bytes, kernel.ArenaAlign)
		}
	}
	slices.SortStableFunc(temps, func(a, b int) int { return int(pl.p.Buffers[b].Bytes - pl.p.Buffers[a].Bytes) })
	var levels []int
	for _, t := range temps {
		levels = append(levels, pl.lifetime[t][0], pl.lifetime[t][1])
	}
	taken := newShelves(levels)
	for _, t := range temps {
		size := align(pl.p.Buffers[t].Bytes, kernel.ArenaAlign)
		at := taken.lowest(pl.lifetime[t], size)
		taken.take(pl.lifetime[t], at, at+size)
		pl.p.Buffers[t].Offset = at
		pl.p.ArenaBytes = max(pl.p.ArenaBytes, at+size)
	}
}
