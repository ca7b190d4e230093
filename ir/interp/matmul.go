package interp

// A matmul is computed in tiles of this size. Each result element is one chain of additions along K, in order, so its
// bits do not depend on the tiles or on the number of rows.

const (
	tileRows = 64 // rows of a per task
	tileCols = 16 // columns of the result per task
)

// matrices is one operand of a batched matmul: matrices of equal extents, stored one after the other.
type matrices[T float32 | float64] struct {
	elems []T
	size  int // elements of one matrix
}

// at returns the elements of matrix i.
func (m matrices[T]) at(i int) []T { return m.elems[i*m.size : (i+1)*m.size] }

// matmul computes op matmul. It decodes quantized operands first.
func matmul(c *call) (value, error) {
	if c.args[1].i64 != nil { // integers
		return matmulInts(c)
	}
	for i, x := range c.args {
		if x.block == nil {
			continue
		}
		var err error
		if c.args[i].f32, err = x.block.decode(); err != nil {
			return value{}, err
		}
	}
	b := c.args[1]
	if b.f32 != nil {
		return matmulFloats(c, b.f32)
	}
	return matmulFloats(c, b.f64)
}

func matmulFloats[T float32 | float64](c *call, bElems []T) (value, error) {
	out, err := matmulWith(c, bElems)
	return c.floats(out), err
}

// matmulInts multiplies matrices of 8-bit integers. A product of two elements is below 2^16, so float64 represents sums
// of up to 2^37 of them exactly. The result only needs wrapping.
func matmulInts(c *call) (value, error) {
	c.args[0].f64 = fromInts(c.args[0].i64) // matmulWith reads floats
	sums, err := matmulWith(c, fromInts(c.args[1].i64))
	if err != nil {
		return value{}, err
	}
	out := make([]int64, len(sums))
	for i, s := range sums {
		out[i] = int64(s)
	}
	return c.ints(out), nil
}

// fromInts converts integers to floats.
func fromInts(list []int64) []float64 {
	out := make([]float64, len(list))
	for i, x := range list {
		out[i] = float64(x)
	}
	return out
}

// matmulState is a batched matmul: for each outer coordinate i, matrix i of out is matrix aIndex[i] of a times matrix
// bIndex[i] of b.
type matmulState[T float32 | float64] struct {
	m, n, k        int
	a              matrices[float64] // [M, K] each
	b              matrices[T]       // [N, K] each if bRows, else [K, N]
	bRows          bool
	aIndex, bIndex []int // by outer coordinate
	out            []float64
}

// matmulWith returns the elements of the matmul before rounding. bElems are the elements of b.
func matmulWith[T float32 | float64](c *call, bElems []T) ([]float64, error) {
	a, b := c.args[0], c.args[1]
	rank := len(c.dims)
	p := matmulState[T]{m: c.dims[rank-2], n: c.dims[rank-1], bRows: c.attrs().Bool("transpose_b")}
	p.k = a.dims[len(a.dims)-1]
	if c.attrs().Bool("transpose_a") {
		p.k = a.dims[len(a.dims)-2]
		// multiply takes rows of both operands along the contraction axis.
		a = transposedMatrices(a)
	}
	p.a = matrices[float64]{a.floats(), p.m * p.k}
	p.b = matrices[T]{bElems, p.k * p.n}
	outer := c.dims[:rank-2]
	p.aIndex = outerIndex(a.dims[:len(a.dims)-2], outer)
	p.bIndex = outerIndex(b.dims[:len(b.dims)-2], outer)
	p.out = make([]float64, elems(c.dims))
	if len(p.out) == 0 {
		return p.out, nil
	}
	return p.out, p.run(c)
}

// transposedMatrices returns x with its two innermost axes swapped.
func transposedMatrices(x value) value {
	rank := len(x.dims)
	r, n := x.dims[rank-2], x.dims[rank-1]
	src := x.floats()
	dst := make([]float64, len(src))
	for i := range src {
		matrix, row, col := i/(r*n), i/n%r, i%n
		dst[matrix*r*n+col*r+row] = src[i]
	}
	x.f64, x.f32 = dst, nil
	return x
}

// outerIndex returns which matrix of an argument a matmul multiplies at each coordinate of the outer axes, in
// row-major order. dims are the outer extents of the argument, which broadcast to outer.
func outerIndex(dims, outer []int) []int {
	index := make([]int, elems(outer))
	all := make([]int, elems(dims))
	for i := range all {
		all[i] = i
	}
	copyRegion(outer, index, whole(outer), all, region{strides: broadcastStrides(dims, outer)})
	return index
}

// run computes the matmul in tiles, which are independent tasks.
func (p *matmulState[T]) run(c *call) error {
	rowTiles := (p.m + tileRows - 1) / tileRows
	colTiles := (p.n + tileCols - 1) / tileCols
	panels := make([][]float64, c.workers)
	work := min(p.m, tileRows) * min(p.n, tileCols) * p.k
	return parallel(c.ctx, c.workers, len(p.aIndex)*rowTiles*colTiles, work, func(worker, task int) {
		if panels[worker] == nil {
			panels[worker] = make([]float64, tileCols*p.k)
		}
		// Tasks are numbered [matrix, tile of rows, tile of columns].
		col, row, i := task%colTiles, task/colTiles%rowTiles, task/colTiles/rowTiles
		p.computeTile(i, row*tileRows, col*tileCols, panels[worker])
	})
}

// computeTile computes a tile of matrix i of out. (row, col) is the tile's first element. It first copies the tile's
// columns of b, converted to float64, to the scratch memory panel, one after the other.
func (p *matmulState[T]) computeTile(i, row, col int, panel []float64) {
	rows, cols := min(tileRows, p.m-row), min(tileCols, p.n-col)
	a := p.a.at(p.aIndex[i])[row*p.k : (row+rows)*p.k]
	b := p.b.at(p.bIndex[i])
	out := p.out[i*p.m*p.n+row*p.n+col:]
	if p.bRows && rows < 4 { // converting b first would cost more than it saves
		multiply(out, p.n, a, b[col*p.k:(col+cols)*p.k], rows, cols, p.k)
		return
	}
	panel = panel[:cols*p.k]
	if p.bRows {
		for j, x := range b[col*p.k : (col+cols)*p.k] {
			panel[j] = float64(x)
		}
	} else {
		for k := range p.k {
			for j, x := range b[k*p.n+col : k*p.n+col+cols] {
				panel[j*p.k+k] = float64(x)
			}
		}
	}
	multiply(out, p.n, a, panel, rows, cols, p.k)
}

// multiply sets out[i*n+j] to the dot product of row i of a and row j of b. a has `rows` rows and b has `cols` rows, of
// k elements. It computes blocks of 4x2 and 1x4 products together, which reads each element fewer times.
func multiply[T float32 | float64](out []float64, n int, a []float64, b []T, rows, cols, k int) {
	aRow := func(i int) []float64 { return a[i*k : (i+1)*k] }
	bRow := func(j int) []T { return b[j*k : (j+1)*k] }
	i := 0
	for ; i+4 <= rows; i += 4 {
		o0, o1, o2, o3 := out[i*n:], out[(i+1)*n:], out[(i+2)*n:], out[(i+3)*n:] // four rows of the result
		j := 0
		for ; j+2 <= cols; j += 2 {
			o0[j], o1[j], o2[j], o3[j], o0[j+1], o1[j+1], o2[j+1], o3[j+1] =
				dot4x2(aRow(i), aRow(i+1), aRow(i+2), aRow(i+3), bRow(j), bRow(j+1))
		}
		for ; j < cols; j++ {
			o0[j], o1[j] = dot(aRow(i), bRow(j)), dot(aRow(i+1), bRow(j))
			o2[j], o3[j] = dot(aRow(i+2), bRow(j)), dot(aRow(i+3), bRow(j))
		}
	}
	for ; i < rows; i++ {
		o := out[i*n:]
		j := 0
		for ; j+4 <= cols; j += 4 {
			o[j], o[j+1], o[j+2], o[j+3] = dot1x4(aRow(i), bRow(j), bRow(j+1), bRow(j+2), bRow(j+3))
		}
		for ; j < cols; j++ {
			o[j] = dot(aRow(i), bRow(j))
		}
	}
}

// dot, dot1x4 and dot4x2 compute 1, 4 and 8 dot products together. They convert each x*y to float64, because that keeps
// the compiler from using a fused multiply-add, which would give different bits on different machines.

// dot returns the sum of the products of two rows, added in order. The conversion keeps the compiler from fusing a
// multiplication with an addition.
func dot[T float32 | float64](a []float64, b []T) (s float64) {
	b = b[:len(a)]
	for k, x := range a {
		s += float64(x * float64(b[k]))
	}
	return s
}

// dot1x4 returns the dot products of a and four rows.
func dot1x4[T float32 | float64](a []float64, b0, b1, b2, b3 []T) (s0, s1, s2, s3 float64) {
	b0, b1, b2, b3 = b0[:len(a)], b1[:len(a)], b2[:len(a)], b3[:len(a)]
	for k, x := range a {
		s0 += float64(x * float64(b0[k]))
		s1 += float64(x * float64(b1[k]))
		s2 += float64(x * float64(b2[k]))
		s3 += float64(x * float64(b3[k]))
	}
	return
}

// dot4x2 returns the dot products of four rows a and two rows b.
func dot4x2[T float32 | float64](a0, a1, a2, a3 []float64,
	b0, b1 []T) (s00, s10, s20, s30, s01, s11, s21, s31 float64) {
	n := len(a0)
	a1, a2, a3, b0, b1 = a1[:n], a2[:n], a3[:n], b0[:n], b1[:n]
	for k, x0 := range a0 {
		x1, x2, x3 := a1[k], a2[k], a3[k]
		// The conversions of the products prevent fused multiply-adds.
		y0, y1 := float64(b0[k]), float64(b1[k])
		s00 += float64(x0 * y0)
		s10 += float64(x1 * y0)
		s20 += float64(x2 * y0)
		s30 += float64(x3 * y0)
		s01 += float64(x0 * y1)
		s11 += float64(x1 * y1)
		s21 += float64(x2 * y1)
		s31 += float64(x3 * y1)
	}
	return
}
