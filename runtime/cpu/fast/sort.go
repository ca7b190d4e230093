package fast

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// takesSort reports whether the kernel can sort: a 32-bit key must represent the order of the elements.
func takesSort(n *ir.Node) bool {
	t := n.Arg(0).DType()
	return isNarrow(t) || !t.IsFloat() && !t.IsBlock() && t.BlockBytes() <= 4
}

// sortRows computes sort, argsort and top_k_indices. It sorts 64-bit entries: each has an element's key in the high
// half, and its coordinate in the low half.
func sortRows(c *interp.Call) error {
	x, attrs := c.Args[0], c.Node.Attrs()
	axis, err := ir.ResolveAxis(int64(attrs.Int("axis")), len(x.Dims))
	if err != nil || volume(c.Dims) == 0 {
		return err
	}
	n, inner, results := x.Dims[axis], volume(x.Dims[axis+1:]), c.Dims[axis]
	least, _ := ir.IntRange(x.DType)
	flip := uint32(0) // is xored with keys; all ones reverse the order
	if attrs.Bool("descending") || c.Node.Op() == ir.OpTopKIndices && attrs.Bool("largest") {
		flip = math.MaxUint32
	}
	return c.ParallelRange(volume(x.Dims)/n, 8*elementWork*n, func(lo, hi int) {
		entries, spare := make([]uint64, n), make([]uint64, n)
		for r := lo; r < hi; r++ {
			from := r/inner*n*inner + r%inner
			for i := range entries {
				key := flip
				if at := from + i*inner; x.Floats != nil {
					key ^= floatKey(x.Floats[at])
				} else {
					key ^= uint32(x.Words[at]) - uint32(least)
				}
				entries[i] = uint64(key)<<32 | uint64(i)
			}
			entries, spare = sortEntries(entries, spare)
			to := r/inner*results*inner + r%inner
			for i, e := range entries[:results] {
				at := to + i*inner
				switch k := int(uint32(e)); {
				case c.Node.Op() != ir.OpSort:
					c.Words[at] = int32(k)
				case x.Floats != nil:
					c.Out[at] = x.Floats[from+k*inner]
				default:
					c.Words[at] = x.Words[from+k*inner]
				}
			}
		}
	})
}

// floatKey returns the key of a float. Keys have the same order as the floats: the two zeros are equal, and NaN is
// largest.
func floatKey(x float32) uint32 {
	switch bits := math.Float32bits(x); {
	case x != x:
		return math.MaxUint32
	case x == 0:
		return 1 << 31
	case bits>>31 != 0:
		return ^bits
	default:
		return bits | 1<<31
	}
}

// sortEntries sorts entries, which come in the order of their low halves. The result is in one of the two lists; the
// function returns that one first. It sorts long lists by one byte of the key after the other, from the lowest to the
// highest (radix sort). Each pass keeps the order of entries with equal bytes.
func sortEntries(entries, spare []uint64) (sorted, free []uint64) {
	if len(entries) < 64 {
		slices.Sort(entries)
		return entries, spare
	}
	var counts [4][256]int
	for _, e := range entries {
		for i := range counts {
			counts[i][byte(e>>(32+8*i))]++
		}
	}
	for i := range counts {
		starts, at := &counts[i], 0
		if starts[byte(entries[0]>>(32+8*i))] == len(entries) {
			continue // all entries have the same byte
		}
		for b, n := range starts {
			starts[b], at = at, at+n
		}
		for _, e := range entries {
			b := byte(e >> (32 + 8*i))
			spare[starts[b]] = e
			starts[b]++
		}
		entries, spare = spare, entries
	}
	return entries, spare
}
