package fast

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// prepareSort returns the function that computes sort, argsort or top_k_indices.
func prepareSort(n *ir.Node) func(c *interp.Call) error {
	if t := n.Arg(0).DType(); t == ir.F64 || t == ir.I64 {
		return sortRows[float64]
	}
	return sortRows[float32]
}

// sorter sorts the rows of a tensor for one worker. A row is the elements along the sorted axis.
type sorter[T number] struct {
	dtype          ir.DType
	flip           uint64 // is xored with keys; all ones reverse the order
	row            []T
	keys           []uint64
	order          []uint32 // the coordinates in the order of the keys
	entries, spare []uint64 // see sortEntries
}

// sortRows computes sort, argsort and top_k_indices.
func sortRows[T number](c *interp.Call) error {
	x, attrs := c.Args[0], c.Node.Attrs()
	axis, err := ir.ResolveAxis(int64(attrs.Int("axis")), len(x.Dims))
	if err != nil || volume(c.Dims) == 0 {
		return err
	}
	n, inner, count := x.Dims[axis], volume(x.Dims[axis+1:]), c.Dims[axis]
	flip := uint64(0)
	if attrs.Bool("descending") || c.Node.Op() == ir.OpTopKIndices && attrs.Bool("largest") {
		flip = math.MaxUint64
	}
	from, values := newReader[T](x, x.Dims, nil), results[T]{}
	if c.Node.Op() == ir.OpSort {
		values = resultsOf[T](c)
	}
	return c.ParallelRange(volume(x.Dims)/n, 8*elementWork*n, func(lo, hi int) {
		s := sorter[T]{x.DType, flip, make([]T, n), make([]uint64, n), make([]uint32, n), make([]uint64, n),
			make([]uint64, n)}
		for r := lo; r < hi; r++ {
			from.part(s.row, r/inner*n*inner+r%inner, inner)
			s.sort(count)
			to := r/inner*count*inner + r%inner
			for i, k := range s.order[:count] {
				switch at := to + i*inner; {
				case c.Node.Op() != ir.OpSort:
					c.Words[at] = int32(k)
				case values.list != nil:
					values.list[at] = s.row[k]
				default:
					values.store(at, s.row[k:k+1])
				}
			}
		}
	})
}

// sort sets the first elements of order, at least count, to the coordinates of the row's elements in their order.
func (s *sorter[T]) sort(count int) {
	s.setKeys()
	const few = 8
	if few*count <= len(s.keys) {
		s.first(count)
		return
	}
	for i, key := range s.keys {
		s.entries[i] = key<<32 | uint64(i)
	}
	s.entries, s.spare = sortEntries(s.entries, s.spare)
	for i, e := range s.entries {
		s.order[i] = uint32(e)
	}
	if s.dtype.BlockBytes() < 8 {
		return
	}
	// The order is that of the low halves of keys. A stable sort by the high halves completes it.
	for i, k := range s.order {
		s.entries[i] = s.keys[k]>>32<<32 | uint64(i)
	}
	s.entries, s.spare = sortEntries(s.entries, s.spare)
	for i, e := range s.entries {
		s.spare[i] = uint64(s.order[uint32(e)])
	}
	for i, k := range s.spare {
		s.order[i] = uint32(k)
	}
}

// first sets the first elements of order to the coordinates of the elements with the least keys.
func (s *sorter[T]) first(count int) {
	known := s.entries[:0] // the keys of these elements
	for i, key := range s.keys {
		at := len(known)
		if at == count {
			if key >= known[at-1] {
				continue
			}
			at--
		} else {
			known = known[:at+1]
		}
		for ; at > 0 && known[at-1] > key; at-- {
			known[at], s.order[at] = known[at-1], s.order[at-1]
		}
		known[at], s.order[at] = key, uint32(i)
	}
}

// setKeys sets the keys of the row's elements. Keys have the same order as the elements: the two zeros are equal, and
// NaN is largest.
func (s *sorter[T]) setKeys() {
	switch row := any(s.row).(type) {
	case []float64:
		for i, x := range row {
			switch bits := math.Float64bits(x); {
			case !s.dtype.IsFloat():
				s.keys[i] = bits ^ 1<<63 ^ s.flip
			case x != x:
				s.keys[i] = math.MaxUint64 ^ s.flip
			case x == 0:
				s.keys[i] = 1<<63 ^ s.flip
			case bits>>63 != 0:
				s.keys[i] = ^bits ^ s.flip
			default:
				s.keys[i] = (bits | 1<<63) ^ s.flip
			}
		}
	case []float32:
		flip := uint32(s.flip)
		for i, x := range row {
			switch key := uint32(word(x)); {
			case s.dtype.IsFloat():
				s.keys[i] = uint64(floatKey(x) ^ flip)
			case s.dtype == ir.U32:
				s.keys[i] = uint64(key ^ flip)
			default:
				s.keys[i] = uint64(key ^ 1<<31 ^ flip)
			}
		}
	}
}

// floatKey returns the key of a float.
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

// sortEntries sorts entries, which come in the order of their low halves. The high half of an entry is a key. The
// result is in one of the two lists; the function returns that one first. It sorts long lists by one byte of the key
// after the other, from the lowest to the highest (radix sort). Each pass keeps the order of entries with equal bytes.
func sortEntries(entries, spare []uint64) (sorted, free []uint64) {
	if len(entries) < 64 {
		slices.Sort(entries)
		return entries, spare
	}
	var counts [4][256]uint32
	for _, e := range entries {
		for i := range counts {
			counts[i][byte(e>>(32+8*i))]++
		}
	}
	for i := range counts {
		starts, at := &counts[i], uint32(0)
		if int(starts[byte(entries[0]>>(32+8*i))]) == len(entries) {
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
