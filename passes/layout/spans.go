package layout

import (
	"cmp"
	"slices"
)

// spans is a set of byte ranges: disjoint, sorted, with adjacent ranges merged.
type spans [][2]int64

// add puts a range into the set.
func (s *spans) add(from, to int64) {
	first, _ := slices.BinarySearchFunc(*s, from, func(r [2]int64, at int64) int { return cmp.Compare(r[1], at) })
	last := first
	for ; last < len(*s) && (*s)[last][0] <= to; last++ {
		from, to = min(from, (*s)[last][0]), max(to, (*s)[last][1])
	}
	*s = slices.Replace(*s, first, last, [2]int64{from, to})
}

// overlaps returns the end of the first range of the set that overlaps the given range, if there is one.
func (s spans) overlaps(from, to int64) (end int64, ok bool) {
	i, _ := slices.BinarySearchFunc(s, from+1, func(r [2]int64, at int64) int { return cmp.Compare(r[1], at) })
	if i == len(s) || s[i][0] >= to {
		return 0, false
	}
	return s[i][1], true
}

// shelves records the used bytes of the arena by level. It is a segment tree, so the cost of a buffer does not depend
// on its lifetime.
type shelves struct {
	levels []int   // in order
	all    []spans // by tree node: spans taken at all of its levels
	some   []spans // spans taken at some of its levels
}

func newShelves(levels []int) *shelves {
	levels = slices.Compact(slices.Sorted(slices.Values(levels)))
	return &shelves{levels: levels, all: make([]spans, 4*len(levels)), some: make([]spans, 4*len(levels))}
}

// visit calls inside for the tree nodes that together cover the levels from life[0] to life[1], and above for their
// ancestors.
func (s *shelves) visit(life [2]int, inside, above func(node int)) {
	var walk func(node, first, last int)
	walk = func(node, first, last int) {
		switch {
		case s.levels[last] < life[0] || life[1] < s.levels[first]:
		case life[0] <= s.levels[first] && s.levels[last] <= life[1]:
			inside(node)
		default:
			above(node)
			middle := (first + last) / 2
			walk(2*node, first, middle)
			walk(2*node+1, middle+1, last)
		}
	}
	if len(s.levels) > 0 {
		walk(1, 0, len(s.levels)-1)
	}
}

// take marks a range as used from level life[0] to life[1].
func (s *shelves) take(life [2]int, from, to int64) {
	s.visit(life, func(node int) {
		s.all[node].add(from, to)
		s.some[node].add(from, to)
	}, func(node int) { s.some[node].add(from, to) })
}

// lowest returns the lowest free offset for a number of bytes from level life[0] to life[1].
func (s *shelves) lowest(life [2]int, bytes int64) int64 {
	var taken []spans
	s.visit(life, func(node int) {
		taken = append(taken, s.some[node])
	}, func(node int) { taken = append(taken, s.all[node]) })
	at := int64(0)
	for moved := true; moved; {
		moved = false
		for _, t := range taken {
			if end, ok := t.overlaps(at, at+bytes); ok {
				at, moved = end, true
			}
		}
	}
	return at
}
