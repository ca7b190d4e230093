package fast

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// prepareSort returns the function that computes sort, argsort or top_k_indices.
func prepareSort(n *ir.Node) func(c *interp.Call) error {
	if t := n.Arg(0).DType(); t == ir.F64 || t == ir.I64 {
		return (&sorting[float64]{}).compute
	}
	return (&sorting[float32]{}).compute
}

// sorting is the kernel of a sort, argsort or top_k_indices.
type sorting[T number] struct{ last atomic.Pointer[network] }

// sorter sorts rows of a tensor, one after the other. A row is the elements along the sorted axis. An element has a
// key, an unsigned integer in the same order as the elements, and an entry: the 32 highest bits in which keys differ,
// and below them the element's coordinate.
type sorter[T number] struct {
	dtype          ir.DType
	flip           uint64 // is xored with keys; all ones reverse the order
	row, sorted    []T    // the elements, and the results if memory does not have them as T
	keys           []uint64
	entries, spare []uint64
	counts         []uint32 // by part and digit, see radixPass
	// byKeys is set for a sort of long rows of 64 bits. Entries are then whole keys, and the results are computed from
	// them, because the elements of such a row are far apart in memory.
	byKeys bool
	// A long row is split into parts. run calls f for each, with the part's range of the first n elements.
	parts int
	run   func(n int, f func(part, lo, hi int)) error
}

// longRow is the least length of a row that several workers sort together. They take it in parts.
const longRow, longParts = 1 << 15, 8

// compute implements interp.Kernel.Compute. It sorts rows of a moderate length side by side (columnSort), and others
// one after the other (sortRun).
func (f *sorting[T]) compute(c *interp.Call) error {
	x, attrs := c.Args[0], c.Node.Attrs()
	axis, err := ir.ResolveAxis(int64(attrs.Int("axis")), len(x.Dims))
	if err != nil || volume(c.Dims) == 0 {
		return err
	}
	r := sortRun[T]{call: c, from: newReader[T](x, x.Dims, nil), n: x.Dims[axis], inner: volume(x.Dims[axis+1:]),
		count: c.Dims[axis]}
	if attrs.Bool("descending") || c.Node.Op() == ir.OpTopKIndices && attrs.Bool("largest") {
		r.flip = math.MaxUint64
	}
	rows, ofValues := volume(x.Dims)/r.n, c.Node.Op() == ir.OpSort
	columns := columnSort[T]{call: c, dtype: x.DType, from: r.from, results: resultsOf[T](c), inner: r.inner,
		rows: rows, flip: int64(r.flip), indices: !ofValues}
	if columns.fits(r.n) {
		columns.network = f.last.Load()
		if columns.network == nil || columns.n != r.n || columns.count != r.count {
			columns.network = newNetwork(r.n, r.count, x.DType.BlockBytes() < 8)
			f.last.Store(columns.network)
		}
		return columns.compute()
	}
	if ofValues {
		r.values = resultsOf[T](c)
	}
	return r.compute(rows)
}

// sortRun is a run that sorts one row after the other. The elements of a row are `inner` apart in memory.
type sortRun[T number] struct {
	call            *interp.Call
	from            readerOf[T]
	values          results[T] // for op sort; the other ops store indices
	n, inner, count int        // elements of a row, their distance, and results of a row
	flip            uint64     // see sorter
}

// compute sorts all rows. Each worker sorts rows of its own, unless there are only a few long rows: then all workers
// share each row.
func (r *sortRun[T]) compute(rows int) error {
	c, t := r.call, r.call.Args[0].DType
	byKeys := t.BlockBytes() == 8 && r.values.list != nil && r.n >= longRow
	if rows < longParts && r.n >= longRow {
		s := newSorter[T](t, r.n, r.flip, longParts)
		s.byKeys = byKeys
		s.run = func(n int, f func(part, lo, hi int)) error {
			return c.Parallel(longParts, 8*elementWork*n/longParts, func(_, part int) {
				f(part, part*n/longParts, (part+1)*n/longParts)
			})
		}
		for row := range rows {
			if err := r.sort(s, row); err != nil {
				return err
			}
		}
		return nil
	}
	return c.ParallelRange(rows, 8*elementWork*r.n, func(lo, hi int) {
		s := newSorter[T](t, r.n, r.flip, 1)
		s.byKeys = byKeys
		s.run = func(n int, f func(part, lo, hi int)) error {
			f(0, 0, n)
			return nil
		}
		for row := lo; row < hi; row++ {
			_ = r.sort(s, row) // nothing fails without parallel parts
		}
	})
}

// sort sorts a row and stores its results.
func (r *sortRun[T]) sort(s *sorter[T], row int) error {
	outer, column := row/r.inner, row%r.inner
	if err := s.sort(&r.from, outer*r.n*r.inner+column, r.inner, r.count); err != nil {
		return err
	}
	to := outer*r.count*r.inner + column // the row's first result
	if s.byKeys {
		return s.putKeys(r.values.list[to:], r.inner)
	}
	return s.run(r.count, func(_, lo, hi int) { r.store(s, to, lo, hi) })
}

// store stores results lo to hi-1 of a sorted row. `to` is the position of the row's first result.
func (r *sortRun[T]) store(s *sorter[T], to, lo, hi int) {
	entries, at := s.entries[lo:hi], to+lo*r.inner
	if list, ok := any(r.values.list).([]float32); ok && list != nil {
		s.putValues(list[at:], entries, r.inner)
		return
	}
	if r.values.store != nil { // the results have another dtype in memory
		list := s.sorted[lo:hi]
		for i, e := range entries {
			list[i] = s.row[uint32(e)]
		}
		width := 1 // of neighbours in memory
		if r.inner == 1 {
			width = len(list)
		}
		for i := 0; i < len(list); i += width {
			r.values.store(at+i*r.inner, list[i:i+width])
		}
		return
	}
	for i, e := range entries {
		if k := uint32(e); r.values.list == nil {
			r.call.Words[at+i*r.inner] = int32(k)
		} else {
			r.values.list[at+i*r.inner] = s.row[k]
		}
	}
}

// newSorter returns a sorter of rows of n elements.
func newSorter[T number](t ir.DType, n int, flip uint64, parts int) *sorter[T] {
	size := max(16, 1<<bits.Len(uint(n-1))) // for sortLongs
	return &sorter[T]{dtype: t, flip: flip, parts: parts, row: make([]T, n), sorted: make([]T, n),
		keys: make([]uint64, n), entries: make([]uint64, size)[:n], spare: make([]uint64, n)}
}

// sort reads a row, which has elements first, first+step and so on, and sorts its entries, or at least the first count
// ones. If count is small, it selects these. If s.byKeys is true, it sorts whole keys. Otherwise it sorts entries, and
// then entries with equal bits of keys by their whole keys.
func (s *sorter[T]) sort(from *readerOf[T], first, step, count int) error {
	err := s.run(len(s.row), func(_, lo, hi int) {
		from.part(s.row[lo:hi], first+lo*step, step)
		s.setKeys(lo, hi)
	})
	if err != nil {
		return err
	}
	const few = 64
	if few*count <= len(s.keys) {
		s.first(count)
		return nil
	}
	differ := make([]uint64, s.parts)
	err = s.run(len(s.keys), func(part, lo, hi int) {
		for _, key := range s.keys[lo:hi] {
			differ[part] |= key ^ s.keys[0]
		}
	})
	if err != nil {
		return err
	}
	all := uint64(0) // the bits in which keys differ
	for _, bits := range differ {
		all |= bits
	}
	if s.byKeys {
		copy(s.entries, s.keys)
		return s.radixSort(0, bits.Len64(all))
	}
	shift := max(0, bits.Len64(all)-32)
	err = s.run(len(s.keys), func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			s.entries[i] = s.keys[i]>>shift<<32 | uint64(i)
		}
	})
	if err != nil {
		return err
	}
	if err := s.sortEntries(bits.Len64(all >> shift)); err != nil || shift == 0 {
		return err
	}
	// Only the highest bits of keys were sorted. Entries with equal ones are neighbours.
	for lo := 0; lo < len(s.entries); {
		hi := lo + 1
		for hi < len(s.entries) && s.entries[hi]>>32 == s.entries[lo]>>32 {
			hi++
		}
		if hi-lo > 1 {
			slices.SortFunc(s.entries[lo:hi], func(a, b uint64) int {
				return cmp.Or(cmp.Compare(s.keys[uint32(a)], s.keys[uint32(b)]), cmp.Compare(a, b))
			})
		}
		lo = hi
	}
	return nil
}

// putValues stores the sorted elements of 32 bits, step elements apart in list. It computes them from the keys in the
// entries, because the elements of a long row are far apart in memory. Only zeros and NaN come from the row, because
// their keys do not have all of their bits.
func (s *sorter[T]) putValues(list []float32, entries []uint64, step int) {
	row, flip := any(s.row).([]float32), uint32(s.flip)
	sign, ofFloats := uint32(1<<31), s.dtype.IsFloat()
	if s.dtype == ir.U32 {
		sign = 0
	}
	for i, e := range entries {
		key := uint32(e>>32) ^ flip
		x := math.Float32frombits(key ^ sign)
		switch {
		case !ofFloats:
		case key == 1<<31 || key == math.MaxUint32:
			x = row[uint32(e)]
		case key < 1<<31: // a negative number
			x = math.Float32frombits(^key)
		}
		list[i*step] = x
	}
}

// putKeys stores the sorted elements of 64 bits, step elements apart in list. It computes them from the keys. Only
// zeros and NaN come from the row, in its order, because their keys do not have all of their bits.
func (s *sorter[T]) putKeys(list []T, step int) error {
	ofFloats := s.dtype.IsFloat()
	err := s.run(len(s.entries), func(_, lo, hi int) {
		for i, key := range s.entries[lo:hi] {
			bits := key ^ s.flip ^ 1<<63 // undoes setKeys
			if ofFloats && bits>>63 != 0 {
				bits = ^bits ^ 1<<63
			}
			list[(lo+i)*step] = T(math.Float64frombits(bits))
		}
	})
	if err != nil || !ofFloats {
		return err
	}
	// The keys of zeros and of NaN.
	for key, is := range map[uint64]func(x T) bool{
		1<<63 ^ s.flip:          func(x T) bool { return x == 0 },
		math.MaxUint64 ^ s.flip: func(x T) bool { return x != x },
	} {
		at, found := slices.BinarySearch(s.entries, key)
		if !found {
			continue
		}
		for _, x := range s.row {
			if is(x) {
				list[at*step] = x
				at++
			}
		}
	}
	return nil
}

// first sets the first entries to the coordinates of the elements with the least keys.
func (s *sorter[T]) first(count int) {
	known := s.spare[:0] // the keys of these elements
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
			known[at], s.entries[at] = known[at-1], s.entries[at-1]
		}
		known[at], s.entries[at] = key, uint64(i)
	}
}

// setKeys sets the keys of elements lo to hi of the row: unsigned integers with the same order as the elements, or the
// reversed order if s.flip is set. The two zeros have equal keys, and NaN the largest.
func (s *sorter[T]) setKeys(lo, hi int) {
	keys := s.keys[lo:hi]
	switch row := any(s.row[lo:hi]).(type) {
	case []float64:
		if !s.dtype.IsFloat() {
			for i, x := range row { // the inverted sign bit sorts negative integers first
				keys[i] = math.Float64bits(x) ^ 1<<63 ^ s.flip
			}
			return
		}
		for i, x := range row {
			keys[i] = doubleKey(x) ^ s.flip
		}
	case []float32:
		flip := uint32(s.flip)
		if s.dtype.IsFloat() {
			for i, x := range row {
				keys[i] = uint64(floatKey(x) ^ flip)
			}
			return
		}
		if s.dtype != ir.U32 {
			flip ^= 1 << 31 // for signed integers, as above
		}
		for i, x := range row {
			keys[i] = uint64(uint32(word(x)) ^ flip)
		}
	}
}

// floatKey returns the key of a float.
func floatKey(x float32) uint32 {
	if x != x {
		return math.MaxUint32
	}
	bits := math.Float32bits(x + 0) // the sum of -0 and 0 is 0
	return bits ^ (uint32(int32(bits)>>31) | 1<<31)
}

// doubleKey returns the key of a float64.
func doubleKey(x float64) uint64 {
	if x != x {
		return math.MaxUint64
	}
	bits := math.Float64bits(x + 0) // the sum of -0 and 0 is 0
	return bits ^ (uint64(int64(bits)>>63) | 1<<63)
}

// digitBits is the number of bits that a pass of a radix sort sorts by.
const digitBits = 11

// sortEntries sorts entries by their high halves, in which only the lowest `bits` bits differ. Before, they are in the
// order of their low halves. It sorts short rows by comparisons, and others by one digit after the other, from the
// lowest to the highest (radix sort). Each pass keeps the order of entries with equal digits.
func (s *sorter[T]) sortEntries(bits int) error {
	if sortNetwork(s.entries) {
		return nil
	}
	if len(s.entries) < 1<<digitBits {
		slices.Sort(s.entries)
		return nil
	}
	return s.radixSort(32, 32+bits)
}

// radixSort sorts entries by some of their bits.
func (s *sorter[T]) radixSort(from, to int) error {
	if s.counts == nil {
		s.counts = make([]uint32, s.parts<<digitBits)
	}
	for shift := from; shift < to; shift += digitBits {
		if err := s.radixPass(shift); err != nil {
			return err
		}
	}
	return nil
}

// radixPass sorts entries by the digit of their keys that begins at bit shift. The sort is stable.
func (s *sorter[T]) radixPass(shift int) error {
	const digits = 1 << digitBits
	err := s.run(len(s.entries), func(part, lo, hi int) {
		counts := (*[digits]uint32)(s.counts[part*digits:])
		clear(counts[:])
		for _, e := range s.entries[lo:hi] {
			counts[e>>shift%digits]++
		}
	})
	if err != nil {
		return err
	}
	// Counts become the positions of the first entries, by digit and then by part.
	at := uint32(0)
	for d := range digits {
		for i := d; i < len(s.counts); i += digits {
			s.counts[i], at = at, at+s.counts[i]
		}
	}
	spare := s.spare[:len(s.entries)]
	err = s.run(len(s.entries), func(part, lo, hi int) {
		starts := (*[digits]uint32)(s.counts[part*digits:])
		for _, e := range s.entries[lo:hi] {
			next := &starts[e>>shift%digits]
			spare[*next] = e
			*next++
		}
	})
	s.entries, s.spare = spare, s.entries
	return err
}

// sortNetwork sorts entries with assembly, and reports whether it could. The processor must have the vector
// instructions, and the capacity of entries must be a power of 2, from 16 to 4096. sortNetwork overwrites the elements
// between the length and the capacity.
func sortNetwork(entries []uint64) bool {
	const limit = 4096
	if n := cap(entries); vector == nil || vector.sort == nil || n > limit || n&(n-1) != 0 {
		return false
	}
	all := entries[:cap(entries)]
	const sign = 1 << 63 // the assembly compares signed integers
	for i := range entries {
		all[i] ^= sign
	}
	for i := len(entries); i < len(all); i++ {
		all[i] = math.MaxInt64
	}
	vector.sort((*int64)(unsafe.Pointer(&all[0])), len(all))
	for i := range entries {
		all[i] ^= sign
	}
	return true
}
