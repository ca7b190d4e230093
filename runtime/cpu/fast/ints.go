package fast

import (
	"encoding/binary"
	"unsafe"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// Matmuls and convolutions of 8-bit integers have exact sums, which wrap past 32 bits. An instruction multiplies two
// groups of four bytes, element by element, and adds up the products. So both operands are packed into groups of
// neighbouring elements along the contraction axis: the rows of a one after the other, and b in columns. For a
// convolution, a is the weights and b is the image.

// intForm describes how 8-bit integers are packed in groups.
type intForm struct {
	elems int       // elements of a group: 4 bytes, or 2 words of 16 bits
	dots  []intDots // for descending numbers of rows, the last one for 1
	cols  int       // number of columns of b that the functions compute
	shift int32     // is added to elements of b to make signed bytes unsigned; the sums of a's rows correct the results
}

// intDots is an assembly function. For each of `rows` rows of a and each column of `panels` panels of b, which have
// intForm.cols columns each, it sets an element of out to the dot product plus the row's element of sums. Group i of
// b's first column is offsets[i] bytes after b. ldo is the distance between rows of out in elements, lda the distance
// between rows of a in bytes, and n the number of groups of a row.
type intDots struct {
	rows int
	of   func(out *int32, ldo int, a *byte, lda int, b *byte, offsets *int, n int, sums *int32, panels int)
}

// formOf returns the form for elements of an 8-bit dtype, or nil if there is no assembly. Groups of four bytes need
// signed elements. Groups of two 16-bit words can hold signed and unsigned elements.
func formOf(t ir.DType) *intForm {
	switch {
	case !multipliesInts():
		return nil
	case t == ir.I8 && vector.quads != nil:
		return &intForm{4, vector.quads, vector.lanes * intColumns, 128}
	}
	return &intForm{2, vector.pairs, vector.lanes * intColumns, 0}
}

// multipliesInts reports whether there is assembly for matmuls of 8-bit integers.
func multipliesInts() bool { return vector != nil && vector.pairs != nil }

// intColumns is the number of vectors of columns that the functions compute.
const intColumns = 2

// groupBytes is the size of a group in bytes.
const groupBytes = 4

// groups returns the number of groups for n elements.
func (f *intForm) groups(n int) int { return ceil.Div(n, f.elems) }

// packA packs n elements of a row of a, which lie step apart in src, into dst, and returns their sum. It fills the last
// group with zeros.
func (f *intForm) packA(dst []byte, src []int32, n, step int) int32 {
	dst, sum := dst[:f.groups(n)*groupBytes], int32(0)
	if f.elems == 2 { // 16-bit integers
		for i := range n {
			binary.LittleEndian.PutUint16(dst[2*i:], uint16(src[i*step]))
			sum += src[i*step]
		}
		clear(dst[2*n:])
		return sum
	}
	if step == 1 {
		sum = narrowWords(dst[:n], src, 0)
	} else {
		for i := range n {
			x := src[i*step]
			dst[i] = byte(x)
			sum += x
		}
	}
	clear(dst[n:])
	return sum
}

// packRow packs a row of a, src, into dst. It subtracts offset from each element, so that unsigned bytes become signed.
// It returns the sum of the results.
func (f *intForm) packRow(dst []byte, src []int32, offset int32) int32 {
	if offset == 0 {
		return f.packA(dst, src, len(src), 1)
	}
	sum := narrowWords(dst[:len(src)], src, -offset)
	clear(dst[len(src) : f.groups(len(src))*groupBytes])
	return sum
}

// packB packs elements of b into groups: element i of group j is src[i][j]. The last lists may be nil, because the
// elements of a are 0 there.
func (f *intForm) packB(groups []byte, src [4][]int32) {
	for i := range src {
		if src[i] == nil {
			src[i] = src[0] // any elements
		}
	}
	n := len(groups) / groupBytes
	for _, x := range src[:f.elems] {
		_ = x[:n] // the assembly checks no bounds
	}
	if mergeGroups(groups, &src, f.elems, f.shift) {
		return
	}
	for i, x := range src[:f.elems] {
		for at := range n {
			f.putB(groups[at*groupBytes:], i, x[at])
		}
	}
}

// intSource has the 8-bit integers of an argument, as words or in the format of tensors.
type intSource struct {
	words []int32
	load  func(dst []float32, from, step int) // nil if there are words
	bytes []byte                              // the elements, or nil if there are words
}

// sourceOf returns the elements of an argument.
func sourceOf(t interp.Tensor) intSource {
	if t.Stored != nil {
		return intSource{load: loader[float32](t.Stored), bytes: t.Stored.Bytes}
	}
	return intSource{words: t.Words}
}

// wordsFrom returns all elements of an argument.
func wordsFrom(t interp.Tensor) []int32 {
	n := volume(t.Dims)
	if t.Stored == nil {
		return t.Words
	}
	return sourceOf(t).list(0, n, make([]int32, n))
}

// copy sets dst to elements from number at on.
func (s intSource) copy(dst []int32, at int) {
	if s.load == nil {
		copy(dst, s.words[at:])
	} else {
		s.load(bitsOf(dst), at, 1)
	}
}

// list returns n elements from number at on. It may use room, which has as many.
func (s intSource) list(at, n int, room []int32) []int32 {
	if s.load == nil {
		return s.words[at : at+n]
	}
	s.load(bitsOf(room[:n]), at, 1)
	return room[:n]
}

// putB stores element i of a group of b.
func (f *intForm) putB(group []byte, i int, x int32) {
	if f.elems == 2 {
		binary.LittleEndian.PutUint16(group[2*i:], uint16(x))
		return
	}
	group[i] = byte(x + f.shift)
}

// multiply computes the dot products of `rows` rows of a with panels of cols columns of b. intDots describes the
// parameters.
func (f *intForm) multiply(out []int32, ldo int, a []byte, lda int, b []byte, offsets []int, rows int, sums []int32,
	panels int) {
	i := 0
	for _, d := range f.dots {
		for ; i+d.rows <= rows; i += d.rows {
			d.of(&out[i*ldo], ldo, &a[i*lda], lda, &b[0], &offsets[0], len(offsets), &sums[i], panels)
		}
	}
}

// ofIntegers reports whether a node is a matmul or a convolution of 8-bit integers that this package's kernels compute.
func ofIntegers(n *ir.Node) bool {
	return (n.Op() == ir.OpMatMul || n.Op() == ir.OpConv) && multipliesInts() && n.DType() == ir.I32 &&
		n.Arg(0).DType() == n.Arg(1).DType()
}

// completeInts sets the functions of the kernel of node n, a matmul or convolution of 8-bit integers. after is nil or
// the epilogue.
func completeInts(k *interp.Kernel, n *ir.Node, after *epilogue) {
	if n.Op() == ir.OpConv {
		k.Pack = packConvInts(n)
		k.Compute = func(c *interp.Call) error { return convInts(c, n, after) }
		return
	}
	k.Pack = packInts(n)
	k.Compute = func(c *interp.Call) error { return matmulInts(c, n, after) }
}

// as returns the memory of a list of words as elements of another type.
func as[T byte | [2]byte | int32](list []float32) []T {
	if len(list) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&list[0])), len(list)*4/int(unsafe.Sizeof(*new(T))))
}

// intMatmul has the sizes of a matmul of integers: matrices a and b with shapes [m, k] and [k, n].
type intMatmul struct {
	*intForm
	m, n, k                int
	aRow, aCol, bRow, bCol int // strides between rows and columns of the matrices, in elements
}

// newIntMatmul returns the sizes and strides of a matmul of integers, node n. a and b have the extents of its
// arguments. If a is nil, field m stays 0.
func newIntMatmul(n *ir.Node, a, b []int) intMatmul {
	p := intMatmul{intForm: formOf(n.Arg(0).DType())}
	b = b[len(b)-2:]
	p.k, p.n, p.bRow, p.bCol = b[0], b[1], b[1], 1
	if n.Attrs().Bool("transpose_b") {
		p.n, p.k, p.bRow, p.bCol = b[0], b[1], 1, b[1]
	}
	if a != nil {
		p.m = volume(a[len(a)-2:]) / max(p.k, 1)
	}
	p.aRow, p.aCol = p.k, 1
	if n.Attrs().Bool("transpose_a") {
		p.aRow, p.aCol = 1, p.m
	}
	return p
}

// panels returns the number of panels of a packed matrix b, and the size of each in bytes. A panel has the groups of
// cols columns.
func (p *intMatmul) panels() (count, bytes int) {
	return ceil.Div(p.n, p.cols), p.groups(p.k) * p.cols * groupBytes
}

// rowBytes returns the size of a packed row of a.
func (p *intMatmul) rowBytes() int { return p.groups(p.k) * groupBytes }

// cutRows divides memory: it returns memory for n packed rows, for their sums, and the rest.
func (p *intMatmul) cutRows(memory []float32, n int) (rows []byte, sums []int32, rest []float32) {
	words := n * p.rowBytes() / 4
	return as[byte](memory[:words]), as[int32](memory[words:][:n]), memory[words+n:]
}

// starts returns the offsets in a panel of the groups of its first column, in bytes.
func (p *intMatmul) starts() []int {
	list := make([]int, p.groups(p.k))
	for i := range list {
		list[i] = i * p.cols * groupBytes
	}
	return list
}

// pack packs panel number panel of matrix b into dst. In a panel, f.elems consecutive rows of a column form a group.
func (p *intMatmul) pack(dst []byte, b []int32, panel int) {
	first := panel * p.cols
	cols := min(p.cols, p.n-first)
	clear(dst)
	memory := make([]int32, p.elems*cols)
	for k := 0; k < p.k; k += p.elems {
		var rows [4][]int32 // of b; nil after the last row
		for i := range min(p.elems, p.k-k) {
			from := b[(k+i)*p.bRow+first*p.bCol:]
			if p.bCol == 1 {
				rows[i] = from
				continue
			}
			rows[i] = memory[i*cols:][:cols] // the matrix is transposed: collect the row
			for j := range rows[i] {
				rows[i][j] = from[j*p.bCol]
			}
		}
		p.packB(dst[k/p.elems*p.cols*groupBytes:][:cols*groupBytes], rows)
	}
}

// packInts returns the function that packs the second argument of a matmul of integers, into words that the kernel
// keeps.
func packInts(n *ir.Node) func(t interp.Tensor) []float32 {
	return func(t interp.Tensor) []float32 {
		p := newIntMatmul(n, nil, t.Dims)
		if p.k == 0 || p.n == 0 {
			return nil
		}
		count, size := p.panels()
		matrices, words := volume(t.Dims[:len(t.Dims)-2]), wordsFrom(t)
		packed := make([]float32, matrices*count*size/4)
		for i := range matrices * count {
			p.pack(as[byte](packed)[i*size:][:size], words[i/count*p.k*p.n:], i%count)
		}
		return packed
	}
}

// matmulInts computes a matmul of integers, node n, followed by the epilogue after: it packs the rows of a and,
// unless they are packed already, the columns of b, and then multiplies them tile by tile.
func matmulInts(c *interp.Call, n *ir.Node, after *epilogue) error {
	a, b := c.Args[0], c.Args[1]
	outer, run := c.Dims[:len(c.Dims)-2], after.run(c, c.Args, c.Dims)
	p := newIntMatmul(n, a.Dims, b.Dims)
	if p.k == 0 {
		return run.zeros(c)
	}
	defer run.end()
	aOf, bOf := matricesOf(a.Dims, outer), matricesOf(b.Dims, outer)
	count, size := p.panels()
	rowBytes := p.rowBytes()
	rowsOfA, toPack := volume(a.Dims[:len(a.Dims)-2])*p.m, 0
	if b.Packed == nil {
		toPack = volume(b.Dims[:len(b.Dims)-2]) * count
	}
	memory, free := scratchWords(rowsOfA*(rowBytes/4+1) + toPack*size/4)
	defer free()
	packedA, sums, memory := p.cutRows(memory, rowsOfA)
	packedB := as[byte](memory)
	source := sourceOf(a)
	if p.aCol > 1 { // the elements of a row are apart, so read all rows at once
		source = intSource{words: wordsFrom(a)}
	}
	columns := []int32(nil)
	if b.Packed == nil {
		columns = wordsFrom(b)
	}
	err := c.Parallel(rowsOfA, p.k, func(worker, i int) {
		matrix, row := i/p.m, i%p.m
		list := source.list(matrix*p.m*p.k+row*p.aRow, (p.k-1)*p.aCol+1, as[int32](c.Room(worker, p.k)))
		sums[i] = -p.shift * p.packA(packedA[i*rowBytes:], list, p.k, p.aCol)
	})
	if err == nil {
		err = c.Parallel(toPack, size, func(_, task int) {
			p.pack(packedB[task*size:][:size], columns[task/count*p.k*p.n:], task%count)
		})
	}
	if err != nil {
		return err
	}
	if b.Packed != nil {
		packedB = as[byte](b.Packed)
	}
	return p.tiles(c, volume(outer), func(worker, matrix, row, rows, first, panels int) {
		at := aOf(matrix)*p.m + row
		cols, line := min(panels*p.cols, p.n-first), (matrix*p.m+row)*p.n+first
		room := c.Room(worker, rows*(p.cols+cols))
		lines, stride := run.lines(room[rows*p.cols:], line, cols, p.n)
		from := packedB[(bOf(matrix)*count+first/p.cols)*size:]
		p.tile(wordsOf(lines), stride, packedA[at*rowBytes:], from, sums[at:], rows, cols, as[int32](room))
		run.apply(worker, lines, stride, line, cols, p.n, rows)
	})
}

// tiles calls f for all tiles of the given number of matrices, on several workers. A tile has `rows` rows from number
// row on, and the columns of `panels` panels, from column first on. Tiles are smaller if there are too few for the
// workers.
func (p *intMatmul) tiles(c *interp.Call, matrices int, f func(worker, matrix, row, rows, first, panels int)) error {
	count, _ := p.panels()
	panels, high := min(count, tilePanels), min(p.m, tileRows)
	for panels > 1 && matrices*ceil.Div(p.m, high)*ceil.Div(count, panels) < tasksPerWorker*c.Workers() {
		panels = (panels + 1) / 2
	}
	down, across := ceil.Div(p.m, high), ceil.Div(count, panels)
	return c.Parallel(matrices*down*across, high*panels*p.cols*p.k/16, func(worker, task int) {
		row, panel := task%down*high, task/down%across*panels
		f(worker, task/down/across, row, min(high, p.m-row), panel*p.cols, min(panels, count-panel))
	})
}

// tilePanels is the number of panels in a tile: its rows are long enough for an epilogue.
const tilePanels = 8

// tile writes a tile of the result, `rows` rows of cols columns, to out. Rows of out are stride elements apart. a and
// sums begin at the tile's first row, and b at the panel of its first column. sums has a number that is added to each
// element of a row: it corrects for the shift of b (see intForm). part is scratch memory for the results of a panel.
func (p *intMatmul) tile(out []int32, stride int, a, b []byte, sums []int32, rows, cols int, part []int32) {
	rowBytes, offsets := p.rowBytes(), p.starts()
	for at := 0; at < cols; at += p.cols {
		panel := b[at*rowBytes:]
		if cols-at >= p.cols {
			p.multiply(out[at:], stride, a, rowBytes, panel, offsets, rows, sums, 1)
			continue
		}
		// The last panel is partial.
		p.multiply(part, p.cols, a, rowBytes, panel, offsets, rows, sums, 1)
		moveRows(bitsOf(out[at:]), stride, bitsOf(part), p.cols, cols-at, rows)
	}
}

// matricesOf returns a function: given the index of a matrix of the result, it returns the index of the argument's
// matrix that belongs to it, because an argument's matrices are broadcast. dims has all extents of the argument, and
// outer the result's extents without the last two.
func matricesOf(dims, outer []int) func(i int) int {
	steps := stepsOf(dims[:len(dims)-2], outer)
	return func(i int) (at int) {
		for axis := len(outer) - 1; axis >= 0; axis-- {
			at += i % outer[axis] * steps[axis]
			i /= outer[axis]
		}
		return at
	}
}
