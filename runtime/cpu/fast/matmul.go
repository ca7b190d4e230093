package fast

import (
	"cmp"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// storedRows returns the index of the argument that the kernel can read in the format of its file, or -1 for none. That
// is argument 1, the matrix b, if its elements are contiguous along the contracted axis, as they are with transpose_b.
// It is also b if its elements are narrow floats, because packing makes these contiguous.
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
		vector.panels.of(b.DType()) == nil {
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

// transposeMatrices sets dst to the transposed matrices of src, which has extents dims. It transposes a matrix square
// by square, so that the lines of dst and src stay in the cache.
func transposeMatrices[T float32 | [2]byte](dst, src []T, dims []int) {
	rows, cols := dims[len(dims)-2], dims[len(dims)-1]
	const square = 32
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

// matmuls computes matmuls of the same first argument, a. A task computes a tile of one of the results. The second
// argument b has floats, blocks of a file (Stored), or what packRows made of it: rows of floats, or interleaved blocks.
// In precision int8, the rows of a are rounded first.
func matmuls(calls []*interp.Call) error {
	j, ok := idleJobs.Get().(*matmulJob)
	if !ok {
		j = &matmulJob{}
	}
	defer j.end()
	tasks, work := 0, 0 // work is for all tasks
	for _, c := range calls {
		p := newTiledMatmul(c)
		if p.stored.Bytes != nil && takesBytes(c.Node, p.stored.DType, p.k) {
			if j.rounded == nil {
				var err error
				if j.rounded, err = roundRows(c, c.Args[0].Floats); err != nil {
					return err
				}
			}
			p.rounded = j.rounded
		}
		p.divide()
		j.list, tasks, work = append(j.list, p), tasks+p.tasks, work+p.tasks*p.work
	}
	work = ceil.Div(work, tasks)
	if c := calls[0]; !c.Serial(tasks, work) {
		return j.parallel(c, tasks, work)
	}
	for i := range j.list {
		p := &j.list[i]
		for task := range p.tasks {
			if err := cmp.Or(p.call.Context.Err(), p.task(0, task)); err != nil {
				return err
			}
		}
	}
	return nil
}

// matmulJob is the matmuls of one job.
type matmulJob struct {
	list    []tiledMatmul
	rounded *byteRows // the first argument's rows rounded to int8; nil unless a matmul is computed in int8
	failed  atomic.Pointer[error]
}

// idleJobs has *matmulJob that are not in use.
var idleJobs sync.Pool

// end gives memory back: from then on another call may use it.
func (j *matmulJob) end() {
	if j.rounded != nil {
		idleRows.Put(j.rounded)
	}
	clear(j.list)
	j.list, j.rounded = j.list[:0], nil
	j.failed.Store(nil)
	idleJobs.Put(j)
}

// parallel computes all tasks on several workers, and returns the first error. work is the mean work of a task.
func (j *matmulJob) parallel(c *interp.Call, tasks, work int) error {
	err := c.Parallel(tasks, work, func(worker, task int) {
		p := &j.list[0] // find the task's matmul, and its number there
		for i := 1; task >= p.tasks; i++ {
			task -= p.tasks
			p = &j.list[i]
		}
		if err := p.task(worker, task); err != nil {
			j.failed.CompareAndSwap(nil, new(err))
		}
	})
	if first := j.failed.Load(); first != nil {
		return *first
	}
	return err
}

// groupsPerTask returns the number of groups of columns, such as panels, in a task of a matmul [m, k] x [k, n] of int8
// rows: enough to be worth a task, but so few that each worker has several tasks. A group has cols columns.
func groupsPerTask(cols, workers, m, n, k int) int {
	const (
		worth = 1 << 16 // multiply-adds, about 2 µs
		most  = 16      // groups of a task that makes panels
	)
	shared := n / (8 * workers) / cols // for 8 tasks per worker
	if m == 1 {
		return max(shared, worth/(cols*k), 1)
	}
	return min(max(shared, 1), most)
}

// task computes a tile of a matrix of the result.
func (p *tiledMatmul) task(worker, task int) error {
	row, col, i := task%p.rowTiles, task/p.rowTiles%p.colTiles, task/p.rowTiles/p.colTiles
	m, n, k := p.m, p.n, p.k
	return p.tile(worker, p.call.Out[i*m*n:(i+1)*m*n], i*m, p.b, i*n*k, row*p.tileRows, col*p.tileCols)
}

// tiledMatmul is a matmul of matrices a and b with shapes [m, k] and [k, n], or [n, k] for b if bRows is true.
type tiledMatmul struct {
	call    *interp.Call
	count   int // number of matrices in the result
	m, n, k int
	bRows   bool
	b       []float32     // the second matrices, if they are decoded
	stored  interp.Stored // b in the format of its file; Bytes is nil if b is decoded
	rounded *byteRows     // a's rows rounded to int8; nil unless the matmul is computed in int8

	interleaved bool // b has interleavedRows, if the matmul is computed in int8

	tileRows, tileCols int
	rowTiles, colTiles int // number of tiles
	tasks, work        int // number of tasks, and the vectors of multiply-adds of one
}

// newTiledMatmul returns the matmul of a call, not divided into tasks yet.
func newTiledMatmul(c *interp.Call) tiledMatmul {
	a, b := c.Args[0], c.Args[1]
	rank := len(c.Dims)
	m, n, k := c.Dims[rank-2], c.Dims[rank-1], a.Dims[len(a.Dims)-1]
	count := len(c.Out) / (m * n)
	if len(b.Dims) == 2 { // all matrices of a are multiplied by the same b, so they are like one matrix
		m, count = m*count, 1
	}
	p := tiledMatmul{call: c, count: count, m: m, n: n, k: k, b: b.Floats, bRows: c.Node.Attrs().Bool("transpose_b"),
		interleaved: b.Packed != nil}
	if b.Stored != nil {
		p.stored = *b.Stored
	}
	if b.Packed != nil {
		p.bRows, p.b = true, b.Packed
		if b.Stored != nil {
			p.stored.Bytes = as[byte](b.Packed)
		}
	}
	return p
}

// divide divides the matmul into tasks.
func (p *tiledMatmul) divide() {
	p.tileRows, p.tileCols = tileRows, tileCols
	switch {
	case p.rounded != nil && vector.panels != nil:
		p.tileRows, p.tileCols = panelRows, panelCols*groupsPerTask(panelCols, p.call.Workers(), p.m, p.n, p.k)
	case p.rounded != nil && p.m == 1:
		p.tileCols = tileCols * groupsPerTask(tileCols, p.call.Workers(), p.m, p.n, p.k)
	}
	p.rowTiles, p.colTiles = ceil.Div(p.m, p.tileRows), ceil.Div(p.n, p.tileCols)
	p.tasks, p.work = p.count*p.rowTiles*p.colTiles, min(p.m, p.tileRows)*min(p.n, p.tileCols)*p.k/8
}

// tile computes the tile of a matrix of the result, out, that begins at (row, col). The factors of that matrix begin at
// row `before` of a and at element `first` of b.
func (p *tiledMatmul) tile(worker int, out []float32, before int, b []float32, first, row, col int) error {
	c := p.call
	rows, cols := min(p.tileRows, p.m-row), min(p.tileCols, p.n-col)
	out, a := out[row*p.n+col:], c.Args[0].Floats[(before+row)*p.k:(before+row+rows)*p.k]
	at := first + col*p.k // offset of the tile's first element of b, if bRows is true
	switch {
	case p.bRows && p.stored.Bytes == nil:
		multiply(out, p.n, a, b[at:at+cols*p.k], rows, cols, p.k)
		return nil
	case p.rounded != nil:
		room := c.Room(worker, bytesRoom(p.stored.DType, p.interleaved, rows, p.k))
		multiplyBytes(out, p.n, p.rounded, before+row, &p.stored, p.interleaved, at, rows, cols, p.k, room)
		return nil
	case p.stored.Bytes != nil && rows < fewRows && multiplyStored(out, p.n, a, &p.stored, at, rows, cols, p.k):
		return nil
	}
	rowsOfB := c.Room(worker, cols*p.k)
	if p.stored.Bytes != nil {
		if err := decode(rowsOfB, &p.stored, at); err != nil {
			return err
		}
	} else { // transpose the tile's columns of b
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
