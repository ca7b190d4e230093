package layout

import (
	"cmp"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
)

// spans is a set of byte ranges: disjoint, sorted, with adjacent ranges merged.
type spans [][2]int64

// add adds the range from `from` up to, but excluding, `to`.
func (s *spans) add(from, to int64) {
	first := s.endingFrom(from)
	last := first
	for ; last < len(*s) && (*s)[last][0] <= to; last++ { // this range overlaps the new one, or is adjacent to it
		from, to = min(from, (*s)[last][0]), max(to, (*s)[last][1])
	}
	*s = slices.Replace(*s, first, last, [2]int64{from, to})
}

// endingFrom returns the index of the first range that ends at offset `at` or later.
func (s spans) endingFrom(at int64) int {
	i, _ := slices.BinarySearchFunc(s, at, func(r [2]int64, at int64) int { return cmp.Compare(r[1], at) })
	return i
}

// overlaps returns the end of the first range of the set that overlaps the given range, if there is one.
func (s spans) overlaps(from, to int64) (end int64, ok bool) {
	i := s.endingFrom(from + 1) // ranges that end at `from` do not overlap
	if i == len(s) || s[i][0] >= to {
		return 0, false
	}
	return s[i][1], true
}

// arenaUse records which bytes of the arena are used at which times. It is a segment tree over times: each tree node
// stands for a range of times, node 1 for all times, and nodes 2n and 2n+1 for the halves of node n. So the cost of
// adding a buffer grows only with the logarithm of its lifetime.
type arenaUse struct {
	times []int   // sorted
	all   []spans // by tree node: bytes used at all of its times
	some  []spans // by tree node: bytes used at some of its times
}

// newArenaUse makes the tree for lifetimes that begin and end at the given times.
func newArenaUse(times []int) *arenaUse {
	times = slices.Compact(slices.Sorted(slices.Values(times)))
	nodes := 4 * len(times) // more than the tree has
	return &arenaUse{times: times, all: make([]spans, nodes), some: make([]spans, nodes)}
}

// visit calls inside for the tree nodes that together stand for exactly the times from life[0] to life[1], and above
// for the ancestors of these nodes.
func (s *arenaUse) visit(life [2]int, inside, above func(node int)) {
	var walk func(node, first, last int)
	walk = func(node, first, last int) {
		switch {
		case s.times[last] < life[0] || life[1] < s.times[first]: // outside
		case life[0] <= s.times[first] && s.times[last] <= life[1]:
			inside(node)
		default:
			above(node)
			middle := (first + last) / 2
			walk(2*node, first, middle)
			walk(2*node+1, middle+1, last)
		}
	}
	if len(s.times) > 0 {
		walk(1, 0, len(s.times)-1)
	}
}

// take marks the bytes from `from` up to, but excluding, `to` as used at all times from life[0] to life[1].
func (s *arenaUse) take(life [2]int, from, to int64) {
	s.visit(life, func(node int) {
		s.all[node].add(from, to)
		s.some[node].add(from, to)
	}, func(node int) { s.some[node].add(from, to) })
}

// lowest returns the lowest offset at which the given number of bytes is free from time life[0] to life[1].
func (s *arenaUse) lowest(life [2]int, bytes int64) int64 {
	var taken []spans
	// A tree node inside of the lifetime counts with the bytes used at some of its times. An ancestor of such a node
	// also stands for other times, so it counts only with the bytes used at all of its times.
	s.visit(life, func(node int) {
		taken = append(taken, s.some[node])
	}, func(node int) { taken = append(taken, s.all[node]) })
	at := int64(0)
	for moved := true; moved; { // the last move may have led into another span
		moved = false
		for _, t := range taken {
			if end, ok := t.overlaps(at, at+bytes); ok {
				at, moved = end, true
			}
		}
	}
	return at
}

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
