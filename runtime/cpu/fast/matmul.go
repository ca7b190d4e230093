package fast

import (
	"cmp"
	"sync/atomic"
	"unsafe"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// storedRows returns the index of the argument that the kernel can read in the format of its file, or -1 for none. This
// is the second matrix, if its elements are contiguous along the contracted axis, as they are with transpose_b, or if
// they are 16-bit floats, which packing makes contiguous.
func storedRows(n *ir.Node) int {
	if t := n.Arg(1).DType(); n.Attrs().Bool("transpose_b") || !t.IsBlock() && !t.IsInteger() {
		return 1
	}
	return -1
}

// packRows returns the function that packs a constant matrix b, or nil if the kernel reads it as it is.
func packRows(n *ir.Node) func(t interp.Tensor) []float32 {
	switch {
	case packedForm(n) != "":
		return func(t interp.Tensor) []float32 { return interleavedRows(t.Stored, t.Dims[0], t.Dims[1]) }
	case n.Attrs().Bool("transpose_b"):
		return nil
	}
	return packColumns
}

// packedForm implements Kernel.Form: constant blocks are interleaved if the matmul is computed in int8 by panels.
func packedForm(n *ir.Node) string {
	b := n.Arg(1)
	dims, err := b.Shape().Eval(nil)
	if err != nil || len(dims) != 2 || !n.Attrs().Bool("transpose_b") || !takesBytes(n, b.DType(), dims[1]) ||
		vector.panels[b.DType()] == nil {
		return ""
	}
	return "interleaved"
}

// packColumns transposes constant matrices b, so that their columns become rows. 16-bit floats stay in their format.
func packColumns(t interp.Tensor) []float32 {
	if t.Stored != nil {
		packed := make([]float32, (volume(t.Dims)+1)/2)
		pairs := unsafe.Slice((*[2]byte)(unsafe.Pointer(unsafe.SliceData(t.Stored.Bytes))), volume(t.Dims))
		transposeMatrices(as[[2]byte](packed), pairs, t.Dims)
		return packed
	}
	packed := make([]float32, len(t.Floats))
	transposeMatrices(packed, t.Floats, t.Dims)
	return packed
}

// transposeMatrices sets dst to the transposed matrices of src, which has extents dims.
func transposeMatrices[T float32 | [2]byte](dst, src []T, dims []int) {
	rows, cols := dims[len(dims)-2], dims[len(dims)-1]
	const square = 32 // so that the lines of both stay in the cache
	for at := 0; at < len(src); at += rows * cols {
		for i0 := 0; i0 < rows; i0 += square {
			for j0 := 0; j0 < cols; j0 += square {
				for i := i0; i < min(i0+square, rows); i++ {
					for j := j0; j < min(j0+square, cols); j++ {
						dst[at+j*rows+i] = src[at+i*cols+j]
					}
				}
			}
		}
	}
}

// A task computes a tile of the result, with these extents. A tile's columns of b and a few rows of a fit in the caches
// of a core.
const (
	tileRows = 64
	tileCols = 24 // a multiple of 3 and 4, the numbers of columns that the assembly computes at a time

	// Tasks that make panels have more rows, so that few tasks make the same panel. They have up to 16 panels, because
	// processors prefetch from the next panel.
	panelRows = 256
)

// takesMatmul reports whether the kernel can compute a matmul: its matrices must have floats or blocks, the first one
// must not be transposed, and their batch axes must be equal, unless b has none.
func takesMatmul(n *ir.Node) bool {
	a, b := n.Args()[0], n.Args()[1]
	if a.DType().IsInteger() || n.DType() == ir.F64 || n.Attrs().Bool("transpose_a") {
		return false
	}
	return b.Rank() == 2 || a.Rank() == b.Rank() && a.Shape()[:a.Rank()-2].Equal(b.Shape()[:b.Rank()-2])
}

// matmul computes a matmul, one tile per task. The weights b may be floats, blocks of a file (Stored), or packed
// before: as rows of floats, or as interleaved blocks. In precision int8, the rows of a are rounded first.
func matmul(c *interp.Call) error {
	a, b := c.Args[0], c.Args[1]
	rank := len(c.Dims)
	m, n, k := c.Dims[rank-2], c.Dims[rank-1], a.Dims[len(a.Dims)-1]
	count := len(c.Out) / (m * n) // number of matrices in the result
	if len(b.Dims) == 2 {         // all matrices of a are multiplied by the same b, like the rows of one matrix
		m, count = m*count, 1
	}
	p := tiledMatmul{m: m, n: n, k: k, b: b.Floats, stored: b.Stored, bRows: c.Node.Attrs().Bool("transpose_b")}
	if b.Packed != nil {
		p.bRows = true
		if p.b = b.Packed; b.Stored != nil {
			p.stored = &interp.Stored{DType: b.Stored.DType, Bytes: as[byte](b.Packed)}
		}
	}
	if p.stored != nil && takesBytes(c.Node, p.stored.DType, k) {
		p.interleaved = b.Packed != nil
		var err error
		if p.rounded, err = roundRows(c, a.Floats); err != nil {
			return err
		}
		defer idleRows.Put(p.rounded)
	}
	p.tileRows, p.tileCols = tileRows, tileCols
	if p.rounded != nil && vector.panels != nil {
		p.tileRows, p.tileCols = panelRows, panelCols*panelsPerTask(c.Workers(), m, n, k)
	}
	p.rowTiles, p.colTiles = ceil.Div(m, p.tileRows), ceil.Div(n, p.tileCols)
	// work is the vectors of multiply-adds of a task.
	tasks, work := count*p.rowTiles*p.colTiles, min(m, p.tileRows)*min(n, p.tileCols)*k/8
	if !c.Serial(tasks, work) {
		return p.parallel(c, tasks, work)
	}
	for task := range tasks {
		if err := cmp.Or(c.Context.Err(), p.task(c, 0, task)); err != nil {
			return err
		}
	}
	return nil
}

// panelsPerTask returns the number of panels in a task of a matmul of int8 rows: enough to be worth a task, and not too
// many for all workers to have some.
func panelsPerTask(workers, m, n, k int) int {
	const (
		worth = 1 << 17 // multiply-adds, about 3 µs
		most  = 16      // of tasks that make panels
	)
	shared := n / (8 * workers) / panelCols
	if m == 1 {
		return max(shared, worth/(panelCols*k), 1)
	}
	return min(max(shared, 1), most)
}

// parallel computes the tasks of a matmul on several workers, and returns the first error.
func (p tiledMatmul) parallel(c *interp.Call, tasks, work int) error {
	var failed atomic.Pointer[error]
	err := c.Parallel(tasks, work, func(worker, task int) {
		if err := p.task(c, worker, task); err != nil {
			failed.CompareAndSwap(nil, &err)
		}
	})
	if first := failed.Load(); first != nil {
		return *first
	}
	return err
}

// task computes a tile of a matrix of the result.
func (p *tiledMatmul) task(c *interp.Call, worker, task int) error {
	row, col, i := task%p.rowTiles, task/p.rowTiles%p.colTiles, task/p.rowTiles/p.colTiles
	m, n, k := p.m, p.n, p.k
	return p.tile(c, worker, c.Out[i*m*n:(i+1)*m*n], i*m, p.b, i*n*k, row*p.tileRows, col*p.tileCols)
}

// tiledMatmul is a matmul of matrices a and b with shapes [m, k] and [k, n], or [n, k] for b if bRows is true.
type tiledMatmul struct {
	m, n, k int
	bRows   bool
	b       []float32      // the second matrices, if they are decoded
	stored  *interp.Stored // b in the format of its file; nil if b is decoded
	rounded *byteRows      // a's rows rounded to int8; nil unless the matmul is computed in int8

	interleaved bool // b has interleavedRows

	tileRows, tileCols int
	rowTiles, colTiles int // number of tiles
}

// tile computes the tile of a result, out, that begins at (row, col). The result's matrices begin at row `before` of a
// and at element `first` of b.
func (p *tiledMatmul) tile(c *interp.Call, worker int, out []float32, before int, b []float32, first, row,
	col int) error {
	rows, cols := min(p.tileRows, p.m-row), min(p.tileCols, p.n-col)
	out, a := out[row*p.n+col:], c.Args[0].Floats[(before+row)*p.k:(before+row+rows)*p.k]
	at := first + col*p.k // offset of the tile's first element of b, if bRows is true
	switch {
	case p.bRows && p.stored == nil:
		multiply(out, p.n, a, b[at:at+cols*p.k], rows, cols, p.k)
		return nil
	case p.rounded != nil:
		room := c.Room(worker, bytesRoom(p.stored.DType, p.interleaved, rows, p.k))
		multiplyBytes(out, p.n, p.rounded, before+row, p.stored, p.interleaved, at, rows, cols, p.k, room)
		return nil
	case p.stored != nil && rows < fewRows && multiplyStored(out, p.n, a, p.stored, at, rows, cols, p.k):
		return nil
	}
	rowsOfB := c.Room(worker, cols*p.k)
	if p.stored != nil {
		if err := decode(rowsOfB, p.stored, at); err != nil {
			return err
		}
	} else {
		for k := range p.k {
			for j, x := range b[first+k*p.n+col : first+k*p.n+col+cols] {
				rowsOfB[j*p.k+k] = x
			}
		}
	}
	multiply(out, p.n, a, rowsOfB, rows, cols, p.k)
	return nil
}

// fewRows is the minimum number of rows of a for which b is decoded once for all of them, to memory. With fewer rows,
// it is faster to decode b for each row, in registers.
const fewRows = 4
