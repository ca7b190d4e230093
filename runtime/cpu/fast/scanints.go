package fast

import (
	"slices"
	"unsafe"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// anyInt is the type of an integer in memory.
type anyInt interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32
}

// takesInts reports whether a node's argument has integers.
func takesInts(n *ir.Node) bool { return n.Arg(0).DType().IsInteger() }

// scanInts computes the running results of a reduction of integers, such as cumsum. It reads and writes the integers in
// the dtype that memory has, so that small ones need little memory.
func scanInts(c *interp.Call) error {
	to, size := bytesOfResult(c)
	from, signed := bytesLike(c, c.Args[0]), c.Node.DType().Kind() == ir.KindInt
	switch {
	case size == 1 && signed:
		return scanOf[int8](c, to, from)
	case size == 1:
		return scanOf[uint8](c, to, from)
	case size == 2 && signed:
		return scanOf[int16](c, to, from)
	case size == 2:
		return scanOf[uint16](c, to, from)
	case size == 4 && signed:
		return scanOf[int32](c, to, from)
	case size == 4:
		return scanOf[uint32](c, to, from)
	}
	return scanOf[int64](c, to, from)
}

// intScan is a scan of lists of n integers. A row has `inner` such lists side by side: element k of each list, then
// element k+1 of each, and so on.
type intScan[E anyInt] struct {
	by                 ir.Op // the reduction
	first              E     // the result for no elements
	exclusive, reverse bool
	restart            int // the number of elements after which the results restart; 0 means never
	n, inner           int
	to, from           []E
}

// scanOf computes the running results of integers of type E. If there are few rows of many elements, several tasks
// share a row: they first fold their parts, so that each task knows the fold of all elements before its part.
func scanOf[E anyInt](c *interp.Call, to, from []byte) error {
	t, attrs := c.Node.DType(), c.Node.Attrs()
	axis, err := ir.ResolveAxis(int64(attrs.Int("axis")), len(c.Dims))
	if err != nil || len(to) == 0 {
		return err
	}
	s := intScan[E]{by: c.Node.Op().Info().Running, exclusive: attrs.Bool("exclusive"), reverse: attrs.Bool("reverse"),
		restart: attrs.Int("restart"), n: c.Dims[axis], inner: volume(c.Dims[axis+1:]), to: intsIn[E](to),
		from: intsIn[E](from)}
	switch least, most := ir.IntRange(t); s.by {
	case ir.OpProd:
		s.first = 1
	case ir.OpReduceMax:
		s.first = E(least)
	case ir.OpReduceMin:
		s.first = E(most)
	}
	rows, parts, each := len(s.to)/(s.n*s.inner), 1, s.n
	if few := 16; rows < few && len(s.to) >= 2*chunk && s.restart == 0 && c.Workers() > 1 {
		each = max(1, chunk/s.inner)
		parts = ceil.Div(s.n, each)
	}
	before := make([]E, rows*parts*s.inner) // by row and part: the results before the part
	fillInts(before, s.first)
	work := elementWork * each * s.inner
	part := func(f func(row, lo, hi int, acc []E)) error {
		return c.ParallelRange(rows*parts, work, func(first, end int) {
			for task := first; task < end; task++ {
				lo := task % parts * each
				f(task/parts, lo, min(lo+each, s.n), before[task*s.inner:(task+1)*s.inner])
			}
		})
	}
	if parts > 1 {
		if err := part(s.fold); err != nil {
			return err
		}
		for row := range rows {
			s.accumulate(before[row*parts*s.inner : (row+1)*parts*s.inner])
		}
	}
	err = part(s.scan)
	if err != nil || int(unsafe.Sizeof(E(0))) == t.BlockBytes() {
		return err
	}
	return c.ParallelRange(len(s.to), elementWork, func(lo, hi int) { // an E has more bits than the dtype
		for i, x := range s.to[lo:hi] {
			s.to[lo+i] = E(ir.Wrap(int64(x), t))
		}
	})
}

// intsIn returns the integers in the memory of bytes.
func intsIn[E anyInt](list []byte) []E {
	return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(list))), len(list)/int(unsafe.Sizeof(E(0))))
}

// accumulate replaces the fold of each part of a row by the fold of all elements before the part or, with reverse,
// after it. A part has s.inner folds.
func (s *intScan[E]) accumulate(parts []E) {
	acc, old := slices.Repeat([]E{s.first}, s.inner), make([]E, s.inner)
	for i := 0; i < len(parts); i += s.inner {
		part := parts[i:][:s.inner]
		if s.reverse {
			part = parts[len(parts)-s.inner-i:][:s.inner]
		}
		copy(old, part)
		copy(part, acc)
		foldInts(s.by, acc, old)
	}
}

// fold folds elements lo to hi of the lists of a row into acc, which has a result for each list.
func (s *intScan[E]) fold(row, lo, hi int, acc []E) {
	x := s.from[(row*s.n+lo)*s.inner : (row*s.n+hi)*s.inner]
	if s.inner == 1 {
		for ; len(x) > 0; x = x[min(len(x), block):] {
			var room [block]E
			list := x[:min(len(x), block)]
			runningInts(s.by, acc[0], room[:len(list)], list)
			acc[0] = room[len(list)-1]
		}
		return
	}
	for ; len(x) > 0; x = x[s.inner:] {
		foldInts(s.by, acc, x[:s.inner])
	}
}

// scan sets elements lo to hi of a row's result to the running results. acc has the results before, and scan updates
// it.
func (s *intScan[E]) scan(row, lo, hi int, acc []E) {
	at := (row*s.n + lo) * s.inner
	to, from := s.to[at:][:(hi-lo)*s.inner], s.from[at:]
	if s.inner == 1 {
		s.list(to, from[:len(to)], acc[0])
		return
	}
	for i := range hi - lo {
		if s.restart > 0 && i%s.restart == 0 {
			fillInts(acc, s.first)
		}
		k := i
		if s.reverse {
			k = hi - lo - 1 - i
		}
		out, x := to[k*s.inner:(k+1)*s.inner], from[k*s.inner:(k+1)*s.inner]
		if s.exclusive {
			copy(out, acc)
			foldInts(s.by, acc, x)
		} else {
			foldInts(s.by, acc, x)
			copy(out, acc)
		}
	}
}

// list sets out to the running results of the integers x. acc is the result for the integers before.
func (s *intScan[E]) list(out, x []E, acc E) {
	if s.reverse { // scan a reversed copy, in place
		copy(out, x)
		slices.Reverse(out)
		defer slices.Reverse(out)
		x = out
	}
	size := len(x) // elements between restarts
	if s.restart > 0 {
		size = s.restart
	}
	for lo := 0; lo < len(x); lo += size {
		part := out[lo:min(lo+size, len(x))]
		runningInts(s.by, acc, part, x[lo:])
		if s.exclusive { // the result before is the result of an integer
			copy(part[1:], part)
			part[0] = acc
		}
	}
}

// runningInts sets out to the running results for acc and the elements x: element i is the fold of acc and x[0] to
// x[i].
func runningInts[E anyInt](by ir.Op, acc E, out, x []E) {
	x = x[:len(out)]
	switch by {
	case ir.OpSum:
		whole := 0
		acc, whole = runningWords(acc, out, x)
		out, x = out[whole:], x[whole:]
		for i, y := range x {
			acc += y
			out[i] = acc
		}
	case ir.OpProd:
		for i, y := range x {
			acc *= y
			out[i] = acc
		}
	case ir.OpReduceMax:
		for i, y := range x {
			acc = max(acc, y)
			out[i] = acc
		}
	case ir.OpReduceMin:
		for i, y := range x {
			acc = min(acc, y)
			out[i] = acc
		}
	}
}

// fillInts sets all integers of a list to x.
func fillInts[E anyInt](list []E, x E) {
	for i := range list {
		list[i] = x
	}
}

// foldInts folds each integer of x into the one of acc with the same index.
func foldInts[E anyInt](by ir.Op, acc, x []E) {
	x = x[:len(acc)]
	switch by {
	case ir.OpSum:
		whole := addWords(acc, x)
		for i, y := range x[whole:] {
			acc[whole+i] += y
		}
	case ir.OpProd:
		for i, y := range x {
			acc[i] *= y
		}
	case ir.OpReduceMax:
		for i, y := range x {
			acc[i] = max(acc[i], y)
		}
	case ir.OpReduceMin:
		for i, y := range x {
			acc[i] = min(acc[i], y)
		}
	}
}

// addWords adds the first integers of x to those of acc, if they have 8 or 16 bits. It returns their number.
func addWords[E anyInt](acc, x []E) (whole int) {
	to, from, highest := packedInts(acc, x)
	for i, y := range from {
		to[i] = addPacked(to[i], y, highest)
	}
	return len(to) * 8 / int(unsafe.Sizeof(E(0)))
}

// runningWords sets the first integers of out to running sums, as runningInts does, if integers have at most 32 bits.
// It returns the last of these sums, or acc, and how many integers it set.
func runningWords[E anyInt](acc E, out, x []E) (last E, whole int) {
	size := int(unsafe.Sizeof(E(0)))
	if f := runningSums[size]; f != nil && len(out)*size >= 32 {
		vectors := len(out) * size / 32
		whole = vectors * 32 / size
		_ = x[:whole] // the assembly checks no bounds
		acc = E(f((*byte)(unsafe.Pointer(&out[0])), (*byte)(unsafe.Pointer(&x[0])), uint64(acc), vectors))
	}
	if whole == len(out) {
		return acc, whole
	}
	to, from, highest := packedInts(out[whole:], x[whole:])
	if len(to) == 0 {
		return acc, whole
	}
	ones := highest >> (8*size - 1)                  // 1 in each integer of a word
	before := uint64(acc) & (1<<(8*size) - 1) * ones // the last sum, in each integer
	for i, y := range from {                         // sums within a word: of 2, then of 4, then of 8 integers
		if size == 1 {
			y = addPacked(y, y<<8, highest)
		}
		y = addPacked(y, y<<16, highest)
		y = addPacked(y, y<<32, highest)
		y = addPacked(y, before, highest)
		to[i] = y
		before = y >> (64 - 8*size) * ones
	}
	return E(before), whole + len(to)*8/size
}

// runningSums has assembly for running sums of integers, by their size in bytes, or nil without assembly. A function
// sets integer i of out to the sum of acc and integers 0 to i of x, for a number of vectors of 32 bytes, which is not
// 0. It returns the last sum.
var runningSums [9]func(out, x *byte, acc uint64, vectors int) uint64

// packedInts returns the first integers of two lists as words of 64 bits, each of several integers of 8 or 16 bits. It
// also returns a word with the highest bit of each integer set. The lists are empty for other sizes of integers.
func packedInts[E anyInt](a, b []E) (wordsA, wordsB []uint64, highest uint64) {
	size := int(unsafe.Sizeof(E(0)))
	n := len(a) * size / 8
	if size > 2 || n == 0 {
		return nil, nil, 1 << 63
	}
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(a))), n),
		unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), n),
		[]uint64{0x8080808080808080, 0x8000800080008000}[size-1]
}

// addPacked adds the integers of two words. It adds all bits but the highest ones, so that no carry leaves an integer,
// and then the highest ones without carry.
func addPacked(a, b, highest uint64) uint64 { return (a&^highest + b&^highest) ^ (a^b)&highest }
