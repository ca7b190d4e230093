package target

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// flashShape is the size of an attention at the bound of every symbol.
type flashShape struct {
	Batch, Groups, Heads, Queries, Keys int64 // Heads share a group
	Dot, Value                          int
}

func flashShapeOf(k *kernel.Kernel) flashShape {
	ax := k.AttentionAxes()
	return flashShape{Batch: points(k.Parallel[1:ax.Group]), Groups: k.Parallel[ax.Group].Max(), Heads: k.Parallel[ax.Head].Max(),
		Queries: k.Parallel[ax.Query].Max(), Keys: k.Fold.Max(), Dot: int(k.Attention.Dot.Add), Value: int(k.Parallel[ax.Value].Add)}
}

// attentions: the largest tile of rows that gives the device enough workgroups
// and is mostly filled. Heads that share keys share a tile where one head's
// queries would not fill it.
func (t tuning) attentions(k *kernel.Kernel) []Candidate {
	return t.flashTileCandidates(k)
}

func (t tuning) flashTileCandidates(k *kernel.Kernel) []Candidate {
	sh := flashShapeOf(k)
	var fitting, rest []Candidate
	tiles := append(append([]tile{}, t.flashTiles...), genericTuning(Caps{}).flashTiles...)
	for i, tl := range tiles {
		heads := flashHeads(sh, tl.M)
		rows := sh.Queries * int64(heads)
		groups := min(sh.Batch, unknownExtent>>24) * sh.Groups * sh.Heads / int64(heads) * ceilDiv(rows, int64(tl.M))
		reason := fmt.Sprintf("%d queries of %d heads a tile, %d keys: %d workgroups", tl.M/heads, heads, tl.N, groups)
		filled := 2*rows > int64(tl.M)
		for _, subgroup := range []int{t.subgroup, 0} {
			c := Candidate{tl.flashSchedule(heads, subgroup), reason}
			if groups >= t.fill && filled && i < len(t.flashTiles) {
				fitting = append(fitting, c)
			} else {
				rest = append(rest, c)
			}
			if t.subgroup == 0 {
				break
			}
		}
	}
	return append(fitting, smallestFirst(rest, sh)...)
}

// smallestFirst puts the candidates whose tile holds all rows at hand with the
// least waste before the others, which keep their order.
func smallestFirst(list []Candidate, sh flashShape) []Candidate {
	var fit, rest []Candidate
	for i := len(list) - 1; i >= 0; i-- {
		if c := list[i]; int64(c.Schedule.TileM) >= min(sh.Queries*int64(c.Schedule.Heads), 16) {
			fit = append(fit, c)
		} else {
			rest = append(rest, c)
		}
	}
	return append(fit, rest...)
}

func (t tile) flashSchedule(heads, subgroup int) kernel.Schedule {
	if lanes := t.N / t.ThreadN; !powerOfTwo(lanes) || lanes > subgroup {
		subgroup = 0
	}
	return kernel.Schedule{Variant: kernel.VarFlashTile, Workgroup: t.workgroup(), Vec: 4, Heads: heads,
		TileM: t.M, TileN: t.N, TileK: t.K, ThreadM: t.ThreadM, ThreadN: t.ThreadN, Subgroup: subgroup}
}

// flashHeads is how many heads share a tile of that many rows: all that share
// a key head if they divide it and the queries of one would not fill it.
func flashHeads(sh flashShape, rows int) int {
	if sh.Heads > 1 && sh.Queries < int64(rows) && int64(rows)%sh.Heads == 0 {
		return int(sh.Heads)
	}
	return 1
}

// AttentionGrid puts tiles of queries in x, heads in y, and batch and splits in
// z; where those are too long, all in x.
func AttentionGrid(k *kernel.Kernel, s kernel.Schedule, caps Caps) (MatGrid, error) {
	ax := k.AttentionAxes()
	queries := []AxisTiles{{ax.Query, max(s.TileM/max(s.Heads, 1), 1)}}
	var heads []AxisTiles
	if s.Heads == 1 {
		heads = append(heads, AxisTiles{ax.Head, 1})
	}
	heads = append(heads, AxisTiles{ax.Group, 1})
	var outer []AxisTiles
	for i := ax.Group - 1; i >= 0; i-- {
		outer = append(outer, AxisTiles{i, 1})
	}
	for _, g := range []MatGrid{{queries, heads, outer}, {join(queries, heads), nil, outer}, {join(queries, heads, outer), nil, nil}} {
		if g.fits(k, caps) {
			return g, nil
		}
	}
	return MatGrid{}, fmt.Errorf("target: kernel %s: an attention over %v in tiles of %d rows has more workgroups than %s allows; split the batch",
		k.Name, k.Parallel, s.TileM, caps.Name)
}

// flashTileShared is what the flash_tile variant shares: tiles of queries and
// keys, the weights, a step of values, and what lanes of a row pass on where
// subgroups are not relied on.
func flashTileShared(k *kernel.Kernel, s kernel.Schedule) int {
	sh := flashShapeOf(k)
	n := (s.TileM+s.TileN)*TilePitch(s.TileK)*16 + s.TileM*(s.TileN+1)*4 + s.TileK*ValueQuads(sh.Value)*16
	if s.Subgroup == 0 {
		n += s.TileM * (s.TileN / max(s.ThreadN, 1)) * 4
	}
	return n
}

// ValueQuads is how many vectors of four hold that many elements.
func ValueQuads(n int) int { return (n + 3) / 4 }

func checkFlashTile(k *kernel.Kernel, s kernel.Schedule, caps Caps) error {
	sh := flashShapeOf(k)
	switch {
	case s.TileM < 1 || s.TileN < 1 || s.ThreadM < 1 || s.ThreadN < 1 || s.Heads < 1:
		return fmt.Errorf("tiles, thread tiles and heads must be at least 1")
	case s.TileK < 4 || s.TileK%4 != 0:
		return fmt.Errorf("steps of %d along the dot axis are no multiple of 4, the vectors in which operands are staged", s.TileK)
	case s.TileM%s.ThreadM != 0 || s.TileN%s.ThreadN != 0 || s.TileN%s.TileK != 0:
		return fmt.Errorf("thread tiles or steps do not divide the tile")
	case s.Workgroup != s.TileM/s.ThreadM*(s.TileN/s.ThreadN):
		return fmt.Errorf("the tile takes %d invocations", s.TileM/s.ThreadM*(s.TileN/s.ThreadN))
	case s.Heads != 1 && (int64(s.Heads) != sh.Heads || s.TileM%s.Heads != 0):
		return fmt.Errorf("%d heads a tile, want 1 or the %d that share keys, which must divide %d rows", s.Heads, sh.Heads, s.TileM)
	}
	lanes := s.TileN / s.ThreadN
	if s.Subgroup > 0 && (lanes > s.Subgroup || !powerOfTwo(lanes)) {
		return fmt.Errorf("%d lanes of a row are no power of two within a subgroup of %d", lanes, s.Subgroup)
	}
	if n := s.ThreadM * (s.ThreadN + 4*FlashQuads(sh.Value, lanes)); n > maxAccumulators {
		return fmt.Errorf("%d sums per invocation, more than %d spill", n, maxAccumulators)
	}
	_, err := AttentionGrid(k, s, caps)
	return err
}

// FlashQuads is how many vectors of four of a row's result each of its lanes
// keeps.
func FlashQuads(value, lanes int) int { return (ValueQuads(value) + lanes - 1) / lanes }
