package layout

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
)

// placeTemps assigns each temporary a range of bytes in the arena. It takes the largest temporary first, and puts each
// at the lowest offset where it overlaps no temporary that is live at the same time.
func (pl *planner) placeTemps() {
	var temps []int
	for i, b := range pl.p.Buffers {
		if b.Kind == kernel.BufTemp {
			temps = append(temps, i)
			pl.p.TempBytes += ceil.Multiple(b.Bytes, kernel.ArenaAlign)
		}
	}
	slices.SortStableFunc(temps, func(a, b int) int { return int(pl.p.Buffers[b].Bytes - pl.p.Buffers[a].Bytes) })
	var times []int
	for _, t := range temps { // the times at which lifetimes begin or end
		times = append(times, pl.lifetime[t][0], pl.lifetime[t][1])
	}
	taken := newArenaUse(times)
	for _, t := range temps {
		size := ceil.Multiple(pl.p.Buffers[t].Bytes, kernel.ArenaAlign)
		at := taken.lowest(pl.lifetime[t], size)
		taken.take(pl.lifetime[t], at, at+size)
		pl.p.Buffers[t].Offset = at
		pl.p.ArenaBytes = max(pl.p.ArenaBytes, at+size)
	}
}
