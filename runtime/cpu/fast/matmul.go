package fast

import (
	"sync/atomic"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// storedRows returns the argument index of b if its rows are contiguous along the contraction axis, else -1.
func storedRows(n *ir.Node) int {
	if n.Attrs().Bool("transpose_b") {
		return 1
	}
	return -1
}

// Extents of a task's tile: its panel of b and a few rows of a stay in the caches of a core.
const (
	tileRows = 64
	tileCols = 24 // a multiple of the columns of either assembly
)

// matrices accepts a matmul of floats and blocks. Batch axes must be equal, or belong to a alone.
func matrices(n *ir.Node) bool {
	a, b := n.Args()[0], n.Args()[1]
	if a.DType().IsInteger() || n.DType() == ir.F64 || n.Attrs().Bool("transpose_a") {
		return false
	}
	return b.Rank() == 2 || a.Rank() == b.Rank() && a.Shape()[:a.Rank()-2].Equal(b.Shape()[:b.Rank()-2])
}

func matmul(c *interp.Call) error {
	a, b := c.Args[0], c.Args[1]
	rank := len(c.Dims)
	m, n, k := c.Dims[rank-2], c.Dims[rank-1], a.Dims[len(a.Dims)-1]
	count := len(c.Out) / (m * n) // the number of matrices
	if len(b.Dims) == 2 {         // the rows of all matrices of a are multiplied by the one b
		m, count = m*count, 1
	}
	p := product{m: m, n: n, k: k, stored: b.Stored, bRows: c.Node.Attrs().Bool("transpose_b")}
	if b.Stored != nil && takesBytes(c, b.Stored, k) {
		var err error
		if p.rounded, err = roundRows(c, a.Floats); err != nil {
			return err
		}
		defer idleRows.Put(p.rounded)
	}
	rowTiles, colTiles := (m+tileRows-1)/tileRows, (n+tileCols-1)/tileCols
	var failed atomic.Pointer[error]
	err := c.Parallel(count*rowTiles*colTiles, min(m, tileRows)*min(n, tileCols)*k/8, func(worker, task int) {
		row, col, i := task%rowTiles, task/rowTiles%colTiles, task/rowTiles/colTiles
		err := p.tile(c.Out[i*m*n:(i+1)*m*n], a.Floats, i*m, b.Floats, i*n*k, row*tileRows, col*tileCols,
			func(n int) []float32 { return c.Room(worker, n) })
		if err != nil {
			failed.CompareAndSwap(nil, &err)
		}
	})
	if first := failed.Load(); first != nil {
		return *first
	}
	return err
}

// product is a matmul of [m, k] x [k, n]. bRows says that b is [n, k].
type product struct {
	m, n, k int
	bRows   bool
	stored  *interp.Stored // b's elements in the format of their file, if they are not decoded
	rounded *byteRows      // a's rows as int8, for an int8 matmul
}

// tile computes the tile that begins at (row, col). The matrices begin at row before of a and at element first of b.
// room provides a buffer for columns of b.
func (p *product) tile(out, a []float32, before int, b []float32, first, row, col int,
	room func(n int) []float32) error {
	rows, cols := min(tileRows, p.m-row), min(tileCols, p.n-col)
	out, a = out[row*p.n+col:], a[(before+row)*p.k:(before+row+rows)*p.k]
	at := first + col*p.k // offset of the columns' first element if b is [n, k]
	switch {
	case p.bRows && p.stored == nil:
		multiply(out, p.n, a, b[at:at+cols*p.k], rows, cols, p.k)
		return nil
	case p.rounded != nil:
		multiplyBytes(out, p.n, p.rounded, before+row, p.stored, at, rows, cols, p.k)
		return nil
	case p.stored != nil && rows < fewRows && multiplyStored(out, p.n, a, p.stored, at, rows, cols, p.k):
		return nil
	}
	some := room(cols * p.k)
	if p.stored != nil {
		if err := decode(some, p.stored, at); err != nil {
			return err
		}
	} else {
		for k := range p.k {
			for j, x := range b[first+k*p.n+col : first+k*p.n+col+cols] {
				some[j*p.k+k] = x
			}
		}
	}
	multiply(out, p.n, a, some, rows, cols, p.k)
	return nil
}

// With at least fewRows rows of a, decoding b once for all of them is faster than decoding it for each row.
const fewRows = 4
