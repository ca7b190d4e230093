package fast

import (
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// Extents of a task's tile: its panel of b and a few rows of a stay in the caches of a core.
const (
	tileRows = 64
	tileCols = 24 // a multiple of the columns of either assembly
)

// matrices accepts a product of floats, or of floats by blocks, whose outer axes are equal or a's alone.
func matrices(n *ir.Node) bool {
	a, b := n.Args()[0], n.Args()[1]
	if !isNarrow(a.DType()) || !isNarrow(b.DType()) && !b.DType().IsBlock() || n.Attrs().Bool("transpose_a") {
		return false
	}
	return b.Rank() == 2 || a.Rank() == b.Rank() && a.Shape()[:a.Rank()-2].Equal(b.Shape()[:b.Rank()-2])
}

func matmul(c *interp.Call) error {
	a, b := c.Args[0], c.Args[1]
	rank := len(c.Dims)
	m, n, k := c.Dims[rank-2], c.Dims[rank-1], a.Dims[len(a.Dims)-1]
	count := len(c.Out) / (m * n) // of products
	if len(b.Dims) == 2 {         // then the rows of all of a's matrices meet the one b
		m, count = m*count, 1
	}
	p := product{m: m, n: n, k: k, bRows: c.Node.Attrs().Bool("transpose_b")}
	rowTiles, colTiles := (m+tileRows-1)/tileRows, (n+tileCols-1)/tileCols
	panels := make([][]float32, c.Workers())
	return c.Parallel(count*rowTiles*colTiles, min(m, tileRows)*min(n, tileCols)*k/8, func(worker, task int) {
		row, col, i := task%rowTiles, task/rowTiles%colTiles, task/rowTiles/colTiles
		if panels[worker] == nil && !p.bRows {
			panels[worker] = make([]float32, tileCols*k)
		}
		p.tile(c.Out[i*m*n:(i+1)*m*n], a.Floats[i*m*k:(i+1)*m*k], b.Floats[i*n*k:(i+1)*n*k], row*tileRows,
			col*tileCols, panels[worker])
	})
}

// product is the extents of [m, k] x [k, n]; bRows is whether b is [n, k].
type product struct {
	m, n, k int
	bRows   bool
}

// tile computes the tile whose first element is (row, col).
func (p *product) tile(out, a, b []float32, row, col int, panel []float32) {
	rows, cols := min(tileRows, p.m-row), min(tileCols, p.n-col)
	if p.bRows {
		panel = b[col*p.k : (col+cols)*p.k]
	} else {
		for k := range p.k {
			for j, x := range b[k*p.n+col : k*p.n+col+cols] {
				panel[j*p.k+k] = x
			}
		}
	}
	multiply(out[row*p.n+col:], p.n, a[row*p.k:(row+rows)*p.k], panel, rows, cols, p.k)
}
