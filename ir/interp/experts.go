package interp

import (
	"maps"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// matmulID multiplies a row of x by the matrix of an expert, for each id.
func matmulID(c *call) (value, error) {
	x, w, ids := c.args[0], c.args[1], c.args[2].i64
	if w.block != nil {
		dec, err := w.block.decode()
		if err != nil {
			return value{}, err
		}
		w.f32 = dec
	}
	if w.f32 != nil {
		return multiplyRows(c, x, w.f32, w.dims, ids)
	}
	return multiplyRows(c, x, w.f64, w.dims, ids)
}

// multiplyRows multiplies each row of x by the matrix of weights w that its id selects. w is [experts, n, k] in dims.
func multiplyRows[T float32 | float64](c *call, x value, w []T, dims []int, ids []int64) (value, error) {
	experts, n, k := dims[0], dims[1], dims[2]
	rows, shared := x.floats(), c.dims[1]/max(x.dims[1], 1) // shared is the number of ids for each row
	out := make([]float64, elems(c.dims))
	err := c.parallelRange(len(ids), n*k, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			row, e := i/shared, clampIndex(ids[i], experts)
			multiply(out[i*n:(i+1)*n], n, rows[row*k:(row+1)*k], w[e*n*k:(e+1)*n*k], 1, n, k)
		}
	})
	return c.floats(out), err
}

// expertGroups writes the positions of each id in argument 0 to one or more groups of the result. Groups are sorted by
// id. A group is the id and up to `rows` positions; -1 fills the rest.
func expertGroups(c *call) (value, error) {
	ids := c.args[0].i64
	experts, rows := c.attrs().Int("experts"), c.attrs().Int("rows")
	positions := map[int][]int64{} // by id; a map, since few of many experts may have any
	for i, id := range ids {
		e := clampIndex(id, experts)
		positions[e] = append(positions[e], int64(i))
	}
	out := make([]int64, elems(c.dims))
	for i := range out {
		out[i] = -1
	}
	rest := out
	for _, e := range slices.Sorted(maps.Keys(positions)) {
		for i, p := range positions[e] {
			// The group is full: go on to the next one.
			if i > 0 && i%rows == 0 {
				rest = rest[1+rows:]
			}
			rest[0], rest[1+i%rows] = int64(e), p
		}
		// An id's last group may be partly filled.
		rest = rest[1+rows:]
	}
	return value{typ: ir.I32, dims: c.dims, i64: out}, nil
}
