package view

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"regexp"
	"slices"
)

// difference compares two graphs. removed lists the nodes of before that after does not have, and added the reverse.
// Nodes are equal if they and their arguments have equal ops, attributes and types.
func difference(before, after []Node) (removed, added []int) {
	b, a := signatures(before, named, named), signatures(after, named, named)
	return extra(b, a), extra(a, b)
}

// extra returns the indices of the elements of list that other does not have. Each element of other accounts for one
// equal element of list.
func extra(list, other []uint64) (indices []int) {
	unmatched := map[uint64]int{}
	for _, s := range other {
		unmatched[s]++
	}
	for i, s := range list {
		unmatched[s]--
		if unmatched[s] < 0 {
			indices = append(indices, i)
		}
	}
	return indices
}

var seed = maphash.MakeSeed()

// nodeKey has the properties of a node that a signature distinguishes.
type nodeKey struct{ Op, Type, Attrs, Name Ref }

func named(n Node) nodeKey    { return nodeKey{n.Op, n.Type, n.Attrs, n.Name} }
func unnamed(n Node) nodeKey  { return nodeKey{Op: n.Op, Type: n.Type, Attrs: n.Attrs} }
func typeOnly(n Node) nodeKey { return nodeKey{Type: n.Type} }

// signatures returns a hash of each node: of the properties of the node that keyOf returns, and of those of its
// arguments that argKeyOf returns.
func signatures(nodes []Node, keyOf, argKeyOf func(Node) nodeKey) []uint64 {
	sums := make([]uint64, len(nodes))
	var h maphash.Hash
	h.SetSeed(seed)
	for i, n := range nodes {
		h.Reset()
		maphash.WriteComparable(&h, keyOf(n))
		for _, a := range n.Args {
			maphash.WriteComparable(&h, argKeyOf(nodes[a]))
		}
		sums[i] = h.Sum64()
	}
	return sums
}

// Limits of the search for groups.
const (
	minGroup   = 3  // the smallest number of computed nodes of a copy
	maxPeriods = 64 // the number of distances that the search tries
)

// findGroups finds ranges of nodes that repeat, such as the layers of a model. Names of weights do not count.
func findGroups(nodes []Node, strings []string) []Group {
	var computed []int // indices of nodes
	for i, n := range nodes {
		if !n.Leaf {
			computed = append(computed, i)
		}
	}
	all := signatures(nodes, unnamed, typeOnly)
	sums := make([]uint64, len(computed))
	for i, n := range computed {
		sums[i] = all[n]
	}
	runs := findRuns(sums)
	var groups []Group
	for _, r := range runs {
		groups = append(groups, r.group(nodes, strings, computed))
	}
	slices.SortFunc(groups, func(a, b Group) int { return cmp.Compare(a.Starts[0], b.Starts[0]) })
	return groups
}

// run is a range of a sequence that repeats with a period.
type run struct{ from, to, period int }

// covered returns the number of elements of the run that whole copies cover.
func (r run) covered() int { return (r.to - r.from) / r.period * r.period }

// findRuns finds ranges of a sequence that repeat a subsequence at least twice in a row. The ranges do not overlap.
// They are in order of covered length, longest first, then of the length of the subsequence (the period), shortest
// first.
func findRuns(sums []uint64) []run {
	var found []run
	for _, p := range likelyPeriods(sums) {
		from := 0
		for i := p; i <= len(sums); i++ {
			if i < len(sums) && sums[i] == sums[i-p] {
				continue
			}
			if r := (run{from, i, p}); r.to-r.from >= 2*p {
				found = append(found, r)
			}
			from = i - p + 1
		}
	}
	slices.SortFunc(found, func(a, b run) int {
		return cmp.Or(cmp.Compare(b.covered(), a.covered()), cmp.Compare(a.period, b.period),
			cmp.Compare(a.from, b.from))
	})
	return withoutOverlaps(found, len(sums))
}

// likelyPeriods returns the most frequent distances between equal elements, the most frequent first.
func likelyPeriods(sums []uint64) []int {
	last, votes := map[uint64]int{}, map[int]int{}
	for i, s := range sums {
		if at, ok := last[s]; ok && i-at >= minGroup {
			votes[i-at]++
		}
		last[s] = i
	}
	periods := make([]int, 0, len(votes))
	for p := range votes {
		periods = append(periods, p)
	}
	slices.SortFunc(periods, func(a, b int) int {
		return cmp.Or(cmp.Compare(votes[b], votes[a]), cmp.Compare(a, b))
	})
	return periods[:min(len(periods), maxPeriods)]
}

// withoutOverlaps returns ranges of a sequence of n elements that do not overlap. An earlier range of found comes
// first: a later one loses its ends to it, or is left out if it is then no range or has a hole.
func withoutOverlaps(found []run, n int) []run {
	var list []run
	taken := make([]bool, n)
	for _, r := range found {
		for r.from < r.to && taken[r.from] {
			r.from++
		}
		for r.to > r.from && taken[r.to-1] {
			r.to--
		}
		if r.to-r.from < 2*r.period || slices.Contains(taken[r.from:r.to], true) {
			continue
		}
		for i := r.from; i < r.to; i++ {
			taken[i] = true
		}
		list = append(list, r)
	}
	return list
}

// numbered matches the part of a weight's name that numbers its layer.
var numbered = regexp.MustCompile(`^.*?[._/]?\d+`)

// group makes a group of a run. A run can be cut into copies at any element. It is cut so that the weights of most
// copies have a common prefix with a number, such as blk.0.
func (r run) group(nodes []Node, strings []string, computed []int) Group {
	var best Group
	most := -1
	for shift := range r.period {
		copies := (r.to - r.from - shift) / r.period
		if copies < 2 {
			break
		}
		g := Group{Size: r.period}
		score := copies
		for i := range copies {
			from := r.from + shift + i*r.period
			g.Starts = append(g.Starts, computed[from])
			name := commonName(nodes, strings, computed[from:from+r.period])
			if name != "" {
				score += 2 // a common name counts more than one more copy
			}
			g.Names = append(g.Names, cmp.Or(name, fmt.Sprint(i)))
		}
		// The last start is the end of the last copy.
		g.Starts = append(g.Starts, computed[r.from+shift+copies*r.period-1]+1)
		if score > most {
			best, most = g, score
		}
	}
	return best
}

// commonName returns the prefix with a number, such as "blk.0", that all weights read by some nodes have in common. It
// returns "" if there is none. list has the indices of the nodes.
func commonName(nodes []Node, strings []string, list []int) string {
	common := ""
	for _, i := range list {
		for _, a := range nodes[i].Args {
			name := strings[nodes[a].Name]
			if !nodes[a].Leaf || !nodes[a].Fixed || name == "" {
				continue
			}
			prefix := numbered.FindString(name)
			if prefix == "" || common != "" && prefix != common {
				return ""
			}
			common = prefix
		}
	}
	return common
}
