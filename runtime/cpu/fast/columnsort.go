package fast

import (
	"cmp"
	"math/bits"
	"slices"
	"sync"
	"unsafe"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// Rows of a moderate length are sorted side by side: a line of lineBytes has the elements of several rows at one
// coordinate. A sorting network compares lines and exchanges their elements, so each instruction sorts several rows.

// lineBytes is the size of a line.
const lineBytes = 64

// longestColumn is the greatest length of rows that are sorted side by side. With 2048 elements, the lines fit in an L2
// cache. A radix sort takes as long for much longer rows.
const longestColumn = 4096

// exchanges has the assembly that sorts pairs of lines, lane by lane. pairs has the lines' offsets in bytes.
type exchanges struct {
	words func(x *int32, pairs *uint32, n int)
	longs func(x *int64, pairs *uint32, n int)
}

// keyFunctions has the assembly that makes keys of n floats, xored with flip, and floats of keys. special is not 0 if
// some floats are NaN or -0. The numbered functions put a coordinate into the bits below each key.
type keyFunctions struct {
	floats        func(dst *int32, src *float32, flip int32, n int) (special int)
	floatsOf      func(dst *float32, src *int32, flip int32, n int)
	doubles       func(dst *int64, src *float64, flip int64, n int) (special int)
	doublesOf     func(dst *float64, src *int64, flip int64, n int)
	numberedWords func(dst, keys, coordinates *int32, shift uint64, mask int32, n int)
	numberedLongs func(dst *int64, keys, coordinates *int32, n int)
}

// sortingNetwork returns the pairs of a network that sorts n lines, as offsets in bytes: Batcher's merge exchange
// (Knuth, The Art of Computer Programming, vol. 3, algorithm 5.2.2M). It leaves out pairs that do not change the first
// count lines of the result.
func sortingNetwork(n, count int) []uint32 {
	var pairs [][2]int
	top := 1 << bits.Len(uint(max(n, 2)-1)) >> 1 // the largest power of two below n; p, q, r and d are Knuth's
	for p := top; p > 0; p >>= 1 {
		for q, r, d := top, 0, p; ; d, q, r = q-p, q>>1, p {
			for i := range n - d {
				if i&p == r {
					pairs = append(pairs, [2]int{i, i + d})
				}
			}
			if q == p {
				break
			}
		}
	}
	// Go from the last pair to the first. A pair is needed if it changes one of the first count lines, or a line of
	// a pair that is needed later.
	needed := make([]bool, n)
	for i := range count {
		needed[i] = true
	}
	var list []uint32
	for _, p := range slices.Backward(pairs) {
		if needed[p[0]] || needed[p[1]] {
			needed[p[0]], needed[p[1]] = true, true
			list = append(list, uint32(p[1]*lineBytes), uint32(p[0]*lineBytes))
		}
	}
	slices.Reverse(list)
	return list
}

// network is the network for rows of n elements, of which count are results.
type network struct {
	n, count int
	pairs    []uint32
	rooms    sync.Pool // has columnRooms that no worker uses
}

// newNetwork returns the network for rows of n elements with count results. If prunes is true, it sorts only the first
// count lines, and otherwise all n: sortLongs reads them all.
func newNetwork(n, count int, prunes bool) *network {
	sorted := n
	if prunes {
		sorted = count
	}
	return &network{n: n, count: count, pairs: sortingNetwork(n, sorted)}
}

// columnSort sorts rows side by side: it computes a sort, argsort or top_k_indices.
type columnSort[T number] struct {
	*network
	call    *interp.Call
	dtype   ir.DType
	from    readerOf[T]
	results results[T]
	inner   int // the distance between the elements of a row
	rows    int
	flip    int64 // is xored with keys; -1 reverses the order
	indices bool  // whether the results are coordinates
}

// columnRoom has the memory of one worker. Lists are by coordinate and lane, except order.
type columnRoom[T number] struct {
	lines       []T     // the elements, and then the results of a sort
	keys        []T     // the keys of the elements
	flips       []T     // what is xored with keys of integers
	longs       []int64 // the entries of 64 bits
	coordinates []int32
	masks       []T // the bits of coordinates in words
	indices     []T // the results of argsort, as words
	order       []T // by row: elements or results
}

// lanes returns the number of rows that are sorted together.
func (s *columnSort[T]) lanes() int {
	if s.indices && s.spareBits() == 0 {
		return lineBytes / 8
	}
	return lineBytes / int(unsafe.Sizeof(T(0)))
}

// spareBits returns the number of low bits in a key's word that are free for a coordinate, or 0 if there are none.
func (s *columnSort[T]) spareBits() int {
	switch t := s.dtype; {
	case unsafe.Sizeof(T(0)) == 8 || t.BlockBytes() > 2:
		return 0
	case t.IsFloat():
		return 13 // the last bits of a float32 that f16 or a smaller format represents
	}
	return 16
}

// fits reports whether the rows can be sorted side by side.
func (s *columnSort[T]) fits(n int) bool {
	return vector != nil && vector.exchange.words != nil && n > 1 && n <= longestColumn && s.rows >= s.lanes()
}

// along reports whether the elements of a line are neighbours in memory.
func (s *columnSort[T]) along() bool { return s.inner >= s.lanes() }

// compute sorts all rows.
func (s *columnSort[T]) compute() error {
	lanes, within := s.lanes(), s.rows
	if s.along() {
		within = s.inner
	}
	groups := ceil.Div(within, lanes)
	return s.call.ParallelRange(s.rows/within*groups, elementWork*s.n*lanes, func(lo, hi int) {
		r, ok := s.rooms.Get().(*columnRoom[T])
		if !ok {
			r = s.newRoom(lanes)
		}
		defer s.rooms.Put(r)
		for g := lo; g < hi; g++ {
			first := g % groups * lanes
			s.group(r, g/groups*within+first, min(lanes, within-first), lanes)
		}
	})
}

// newRoom returns the memory of a worker, which sorts as many columns at a time as there are lanes.
func (s *columnSort[T]) newRoom(lanes int) *columnRoom[T] {
	size := s.n * lanes
	r := &columnRoom[T]{lines: make([]T, size), keys: make([]T, size), order: make([]T, size)}
	if !s.dtype.IsFloat() {
		r.flips = slices.Repeat([]T{bitsAs[T](s.flip ^ s.sign())}, size)
	}
	if !s.indices {
		return r
	}
	r.indices, r.coordinates = make([]T, size), make([]int32, size)
	for i := range r.coordinates {
		r.coordinates[i] = int32(i / lanes) // the row
	}
	if spare := s.spareBits(); spare > 0 {
		r.masks = slices.Repeat([]T{bitsAs[T](1<<spare - 1)}, size)
	} else {
		r.longs = make([]int64, size)
	}
	return r
}

// sign returns the bit to flip in the keys of an unsigned dtype: it becomes the sign of the word, so that signed
// comparisons sort the keys.
func (s *columnSort[T]) sign() int64 {
	switch {
	case s.dtype == ir.U32:
		return 1 << 31
	case s.dtype == ir.U16 && s.indices: // a coordinate moves the key to the upper half of its word (see spareBits)
		return 1 << 15
	}
	return 0
}

// bitsAs returns the element with the lowest bits of x.
func bitsAs[T number](x int64) T {
	if unsafe.Sizeof(T(0)) == 4 {
		return T(bitsOfWord(int32(x)))
	}
	return T(bitsOfLong(x))
}

// group sorts `rows` rows from number first on.
func (s *columnSort[T]) group(r *columnRoom[T], first, rows, lanes int) {
	s.readLines(r, first, rows, lanes)
	if special := s.setKeys(r); s.indices {
		s.sortCoordinates(r, rows, lanes)
		s.putLines(r, r.indices, first, rows, lanes)
	} else {
		s.sortKeys(r, lanes, special)
		s.putLines(r, r.lines, first, rows, lanes)
	}
}

// at returns the number of the first element of a row. Rows have n elements.
func (s *columnSort[T]) at(row, n int) int { return row/s.inner*n*s.inner + row%s.inner }

// readLines sets the lines to the elements of `rows` rows from number first on.
func (s *columnSort[T]) readLines(r *columnRoom[T], first, rows, lanes int) {
	if s.along() {
		for k := range s.n {
			s.from.part(r.lines[k*lanes:][:rows], s.at(first, s.n)+k*s.inner, 1)
		}
		return
	}
	order := r.order[:rows*s.n]
	if s.inner == 1 {
		s.from.part(order, first*s.n, 1) // reads memory in order, which a transpose would not
	} else {
		for row := range rows {
			s.from.part(order[row*s.n:][:s.n], s.at(first+row, s.n), s.inner)
		}
	}
	moveTile(r.lines, order, lanes, s.n, s.n, rows)
}

// putLines stores lines of results of `rows` rows from number first on.
func (s *columnSort[T]) putLines(r *columnRoom[T], lines []T, first, rows, lanes int) {
	if s.along() {
		for k := range s.count {
			s.results.copy(s.at(first, s.count)+k*s.inner, lines[k*lanes:][:rows])
		}
		return
	}
	order := r.order[:rows*s.count]
	moveTile(order, lines, s.count, lanes, rows, s.count)
	if s.inner == 1 {
		s.results.copy(first*s.count, order)
		return
	}
	for i := range order {
		row, k := first+i/s.count, i%s.count
		s.results.copy(s.at(row, s.count)+k*s.inner, order[i:i+1])
	}
}

// copy stores a list of results from number `at` on.
func (r *results[T]) copy(at int, list []T) {
	if r.list != nil {
		copy(r.list[at:], list)
		return
	}
	r.store(at, list)
}

// setKeys sets the keys: signed integers in the same order as the elements. special reports whether there are
// elements that their keys do not give back: NaN and -0.
func (s *columnSort[T]) setKeys(r *columnRoom[T]) (special bool) {
	switch keys := any(r.keys).(type) {
	case []float32:
		lines := any(r.lines).([]float32)
		if s.dtype.IsFloat() {
			return vector.keys.floats(&wordsOf(keys)[0], &lines[0], int32(s.flip), len(keys)) != 0
		}
		primitives["^ words"].apply(keys, lines, any(r.flips).([]float32), lines)
	case []float64:
		lines := any(r.lines).([]float64)
		if s.dtype.IsFloat() {
			return vector.keys.doubles(&longsIn(keys)[0], &lines[0], s.flip, len(keys)) != 0
		}
		widePrimitives["^ words"].apply(keys, lines, any(r.flips).([]float64), lines)
	}
	return false
}

// sortKeys sorts the keys, and sets the lines to their elements. special says that some keys do not give back their
// elements, which are NaN or -0.
func (s *columnSort[T]) sortKeys(r *columnRoom[T], lanes int, special bool) {
	var old []T
	if special {
		old = slices.Clone(r.lines)
	}
	switch keys := any(r.keys).(type) {
	case []float32:
		lines := any(r.lines).([]float32)
		s.exchangeWords(keys)
		if s.dtype.IsFloat() {
			vector.keys.floatsOf(&lines[0], &wordsOf(keys)[0], int32(s.flip), len(keys))
		} else {
			primitives["^ words"].apply(lines, keys, any(r.flips).([]float32), keys)
		}
	case []float64:
		lines := any(r.lines).([]float64)
		s.exchangeLongs(longsIn(keys))
		if s.dtype.IsFloat() {
			vector.keys.doublesOf(&lines[0], &longsIn(keys)[0], s.flip, len(keys))
		} else {
			widePrimitives["^ words"].apply(lines, keys, any(r.flips).([]float64), keys)
		}
	}
	if special {
		for lane := range lanes {
			restore(r.lines, old, lane, lanes, func(x T) bool { return x == 0 })
			restore(r.lines, old, lane, lanes, func(x T) bool { return x != x })
		}
	}
}

// restore gives the sorted elements of one lane for which is(x) is true their bits in `old` again, in the order of the
// row. old has the elements before they were sorted.
func restore[T number](sorted, old []T, lane, lanes int, is func(x T) bool) {
	to := lane
	for from := lane; from < len(old); from += lanes {
		if !is(old[from]) {
			continue
		}
		for !is(sorted[to]) {
			to += lanes
		}
		sorted[to] = old[from]
		to += lanes
	}
}

func (s *columnSort[T]) exchangeWords(list []float32) {
	vector.exchange.words(&wordsOf(list)[0], unsafe.SliceData(s.pairs), len(s.pairs)/2)
}

func (s *columnSort[T]) exchangeLongs(list []int64) {
	vector.exchange.longs(&list[0], unsafe.SliceData(s.pairs), len(s.pairs)/2)
}

// longsIn returns the bits of 64-bit elements, in the same memory.
func longsIn(list []float64) []int64 {
	return unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(list))), len(list))
}

// sortCoordinates sets indices to the coordinates of the elements in their order. It sorts the keys with coordinates in
// the lowest bits, so that equal elements stay in order.
func (s *columnSort[T]) sortCoordinates(r *columnRoom[T], rows, lanes int) {
	keys, ok := any(r.keys).([]float32)
	if !ok {
		s.sortLongs(r, lanes)
		return
	}
	words, size := wordsOf(keys), len(keys)
	if spare := s.spareBits(); spare > 0 {
		// The coordinate goes into the lowest bits of the key's word. The mask removes the key again after sorting.
		shift, mask := uint64(spare), int32(-1)<<spare
		if s.dtype.IsFloat() {
			shift = 0 // the lowest bits of a narrow float as a float32 are 0 already
		}
		vector.keys.numberedWords(&words[0], &words[0], &r.coordinates[0], shift, mask, size)
		s.exchangeWords(keys)
		primitives["& words"].apply(any(r.indices).([]float32), keys, any(r.masks).([]float32), keys)
		return
	}
	// Without spare bits, the key and the coordinate become a word of 64 bits.
	vector.keys.numberedLongs(&r.longs[0], &words[0], &r.coordinates[0], size)
	s.exchangeLongs(r.longs)
	lowWordsOf(wordsOf(any(r.indices).([]float32)), bitsOfLongs(r.longs))
}

// sortLongs sets indices to the coordinates of 64-bit keys in their order. It sorts entries of 64 bits, with the
// highest bits of a key and, below them, its coordinate. The bits that are equal in all keys are left out, so an entry
// has all other bits of the key in most cases.
func (s *columnSort[T]) sortLongs(r *columnRoom[T], lanes int) {
	const sign = 1 << 63
	keys, differ := longsIn(any(r.keys).([]float64)), uint64(0)
	for _, key := range keys {
		differ |= uint64(key ^ keys[0])
	}
	low := bits.Len(uint(s.n - 1)) // bits of a coordinate
	high := bits.Len64(differ)     // bits of a key, up to the highest one that differs
	lost := max(0, high+low-63)    // bits of a key that an entry, a positive int64, has no space for
	for i, key := range keys {
		r.longs[i] = int64((uint64(key)^sign)&(1<<high-1)>>lost<<low) | int64(r.coordinates[i])
	}
	s.exchangeLongs(r.longs)
	indices := longsIn(any(r.indices).([]float64))
	for i, x := range r.longs {
		indices[i] = x & (1<<low - 1)
	}
	if lost == 0 {
		return
	}
	// Entries with equal bits of keys are neighbours. Sort them by the whole keys.
	for lane := range lanes {
		for from := 0; from < s.n; {
			to := from + 1
			for to < s.n && r.longs[to*lanes+lane]>>low == r.longs[from*lanes+lane]>>low {
				to++
			}
			if to > from+1 {
				sortByKeys(indices, keys, from, to, lane, lanes)
			}
			from = to
		}
	}
}

// sortByKeys sorts the coordinates of one lane from number from to to-1 by their keys, and equal ones by coordinate.
func sortByKeys(coordinates, keys []int64, from, to, lane, lanes int) {
	list := make([]int64, 0, to-from)
	for i := from; i < to; i++ {
		list = append(list, coordinates[i*lanes+lane])
	}
	slices.SortFunc(list, func(a, b int64) int {
		return cmp.Or(cmp.Compare(keys[int(a)*lanes+lane], keys[int(b)*lanes+lane]), cmp.Compare(a, b))
	})
	for i, x := range list {
		coordinates[(from+i)*lanes+lane] = x
	}
}
