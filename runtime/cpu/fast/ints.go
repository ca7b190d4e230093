package fast

import (
	"encoding/binary"
	"unsafe"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// Matmuls and convolutions of 8-bit integers have exact sums, which wrap past 32 bits. An instruction multiplies and
// adds groups of four bytes. So both operands are packed into groups of neighbouring elements along the contraction
// axis: the rows of a one after the other, and b in columns. For a convolution, a is the weights and b is the image.

// intForm is a form of 8-bit integers in groups.
type intForm struct {
	elems int       // of a group: 4 bytes, or 2 words of 16 bits
	dots  []intDots // for descending numbers of rows, the last one for 1
	cols  int       // columns of b that the functions compute
}

// intDots is the function that computes the dot products of several rows of a with cols columns of b, plus the row's
// element of sums.
type intDots struct {
	rows int
	of   func(out *int32, ldo int, a *byte, lda int, b *byte, offsets *int, n int, sums *int32)
}

// shift is what is added to elements of b in groups of four, which makes signed bytes unsigned. The rows' sums correct
// the results.
const shift = 128

// formOf returns the form for elements of a dtype, or nil if there is no assembly. Bytes must be signed. Words hold
// both.
func formOf(t ir.DType) *intForm {
	switch {
	case vector == nil:
		return nil
	case t == ir.I8 && vector.quads != nil:
		return &intForm{4, vector.quads, vector.lanes * intColumns}
	}
	return &intForm{2, vector.pairs, vector.lanes * intColumns}
}

// intColumns is the number of vectors of columns that the functions compute.
const intColumns = 2

// groupBytes is the bytes of a group.
const groupBytes = 4

// groups returns the number of groups for n elements.
func (f *intForm) groups(n int) int { return (n + f.elems - 1) / f.elems }

// ofA packs elements of a row of a, which lie step apart in src. It returns the row's summand of the results.
func (f *intForm) ofA(dst []byte, src []int64, n, step int) int32 {
	dst = dst[:f.groups(n)*groupBytes]
	if f.elems == 2 {
		for i := range n {
			binary.LittleEndian.PutUint16(dst[2*i:], uint16(src[i*step]))
		}
		clear(dst[2*n:])
		return 0
	}
	sum := int32(0)
	for i := range n {
		x := src[i*step]
		dst[i] = byte(x)
		sum += int32(x)
	}
	clear(dst[n:])
	return -shift * sum
}

// element stores an element of b in a group, as its element i.
func (f *intForm) element(group []byte, i int, x int64) {
	if f.elems == 2 {
		binary.LittleEndian.PutUint16(group[2*i:], uint16(x))
	} else {
		group[i] = byte(x + shift)
	}
}

// multiply computes the dot products of `rows` rows of a with cols columns of b. See intDots.
func (f *intForm) multiply(out []int32, a []byte, lda int, b []byte, offsets []int, rows int, sums []int32) {
	i := 0
	for _, d := range f.dots {
		for ; i+d.rows <= rows; i += d.rows {
			d.of(&out[i*f.cols], f.cols, &a[i*lda], lda, &b[0], &offsets[0], len(offsets), &sums[i])
		}
	}
}

// integers reports whether a matmul or a convolution is of 8-bit integers.
func integers(n *ir.Node) bool {
	return vector != nil && n.DType() == ir.I32 && n.Arg(0).DType() == n.Arg(1).DType()
}

// as returns the memory of a list of words as elements of another type.
func as[T byte | int32](list []float32) []T {
	if len(list) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&list[0])), len(list)*4/int(unsafe.Sizeof(*new(T))))
}

// intMatmul has the sizes of a matmul of integers: matrices a and b with shapes [m, k] and [k, n].
type intMatmul struct {
	*intForm
	m, n, k                int
	aRow, aCol, bRow, bCol int // strides
}

// newIntMatmul returns the sizes for a node and the extents of its arguments.
func newIntMatmul(n *ir.Node, a, b []int) intMatmul {
	p := intMatmul{intForm: formOf(n.Arg(0).DType())}
	p.m, p.k, p.n = a[len(a)-2], a[len(a)-1], b[len(b)-1]
	p.aRow, p.aCol, p.bRow, p.bCol = p.k, 1, p.n, 1
	if n.Attrs().Bool("transpose_a") {
		p.m, p.k, p.aRow, p.aCol = p.k, p.m, 1, p.k
	}
	if n.Attrs().Bool("transpose_b") {
		p.n, p.bRow, p.bCol = b[len(b)-2], 1, p.k
	}
	return p
}

// panels returns the number of panels of a matrix b, and the bytes of each: a panel has the groups of cols columns.
func (p *intMatmul) panels() (count, bytes int) {
	return (p.n + p.cols - 1) / p.cols, p.groups(p.k) * p.cols * groupBytes
}

// pack packs a panel of b.
func (p *intMatmul) pack(dst []byte, b []int64, panel int) {
	first := panel * p.cols
	cols := min(p.cols, p.n-first)
	clear(dst)
	for k := range p.k {
		row := dst[k/p.elems*p.cols*groupBytes:][:p.cols*groupBytes]
		for j := range cols {
			p.element(row[j*groupBytes:][:groupBytes], k%p.elems, b[k*p.bRow+(first+j)*p.bCol])
		}
	}
}

// matmulInts computes a matmul of integers.
func matmulInts(c *interp.Call) error {
	a, b := c.Args[0], c.Args[1]
	outer := c.Dims[:len(c.Dims)-2]
	p := newIntMatmul(c.Node, a.Dims, b.Dims)
	if p.k == 0 {
		return nil
	}
	aOf, bOf := matricesOf(a.Dims, outer), matricesOf(b.Dims, outer)
	count, size := p.panels()
	lda := p.groups(p.k) * groupBytes
	aCount, bCount := volume(a.Dims[:len(a.Dims)-2]), volume(b.Dims[:len(b.Dims)-2])
	rows := aCount * p.m
	memory, free := scratchWords((rows*lda+bCount*count*size)/4 + rows)
	defer free()
	packedA, packedB := as[byte](memory[:rows*lda/4]), as[byte](memory[rows*lda/4+rows:])
	sums := as[int32](memory[rows*lda/4:][:rows])
	err := c.ParallelRange(rows, p.k, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			from := a.Ints[i/p.m*p.m*p.k+i%p.m*p.aRow:]
			sums[i] = p.ofA(packedA[i*lda:], from, p.k, p.aCol)
		}
	})
	if err == nil {
		err = c.Parallel(bCount*count, size, func(_, task int) {
			p.pack(packedB[task*size:][:size], b.Ints[task/count*p.k*p.n:], task%count)
		})
	}
	if err != nil {
		return err
	}
	offsets := make([]int, p.groups(p.k))
	for i := range offsets {
		offsets[i] = i * p.cols * groupBytes
	}
	rowTiles := (p.m + tileRows - 1) / tileRows
	work := min(p.m, tileRows) * p.cols * p.k / 16
	return c.Parallel(volume(outer)*count*rowTiles, work, func(worker, task int) {
		row, panel, i := task%rowTiles*tileRows, task/rowTiles%count, task/rowTiles/count
		n, first := min(tileRows, p.m-row), aOf(i)*p.m+row
		tile := as[int32](c.Room(worker, n*p.cols))
		p.multiply(tile, packedA[first*lda:], lda, packedB[(bOf(i)*count+panel)*size:], offsets, n, sums[first:])
		cols := min(p.cols, p.n-panel*p.cols)
		for r := range n {
			to := c.Ints[(i*p.m+row+r)*p.n+panel*p.cols:][:cols]
			for j, x := range tile[r*p.cols:][:cols] {
				to[j] = int64(x)
			}
		}
	})
}

// matricesOf returns the function from the index of a result's matrix to the index of an argument's matrix, which is
// broadcast. dims are the argument's extents, and outer those of the result without a matrix.
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
