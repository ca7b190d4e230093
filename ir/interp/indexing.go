package interp

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// clampIndex limits an index to 0..n-1.
func clampIndex(i int64, n int) int { return int(min(max(i, 0), int64(n-1))) }

// gather computes op gather. It and indexSelect see x as [outer, n, inner], where n is the indexed axis.
func gather(c *call) (value, error) {
	x, idx := c.args[0], c.args[1].ints()
	axis, err := c.axis()
	if err != nil {
		return value{}, err
	}
	n, picks, inner := x.dims[axis], c.dims[axis], elems(c.dims[axis+1:])
	if inner == 1 { // saves two divisions per element
		return c.pick(x, 1, func(i int) int { return i/picks*n + clampIndex(idx[i], n) })
	}
	return c.pick(x, 1, func(i int) int { // element i of the result is at [outer, ·, i%inner]
		outer := i / inner / picks
		return (outer*n+clampIndex(idx[i], n))*inner + i%inner
	})
}

// indexSelect computes op index_select: slices along an axis.
func indexSelect(c *call) (value, error) {
	x, idx := c.args[0], c.args[1].ints()
	axis, err := c.axis()
	if err != nil {
		return value{}, err
	}
	n, picks, inner := x.dims[axis], c.dims[axis], elems(c.dims[axis+1:])
	// Slice i of the result has coordinates [i/picks, i%picks] along the outer axes and the axis.
	return c.pick(x, inner, func(i int) int {
		return (i/picks*n + clampIndex(idx[i%picks], n)) * inner
	})
}

// embedding returns a row of the table per id. It decodes only these rows of a quantized table.
func embedding(c *call) (value, error) {
	table, ids := c.args[0], c.args[1].ints()
	vocab, width := table.dims[0], table.dims[1]
	if table.block == nil {
		return c.pick(table, width, func(i int) int { return clampIndex(ids[i], vocab) * width })
	}
	out := make([]float64, elems(c.dims))
	if len(out) == 0 {
		return c.floats(out), nil
	}
	decoded := make([]float32, width) // only the rows asked for: tables are large
	for i, id := range ids {
		if err := quant.DequantizeRow(decoded, table.typ, table.block.Bytes, clampIndex(id, vocab)); err != nil {
			return value{}, err
		}
		for j, x := range decoded {
			out[i*width+j] = float64(x)
		}
	}
	return c.floats(out), nil
}

// concat copies each argument to its part of the result.
func concat(c *call) (value, error) {
	axis, err := c.axis()
	if err != nil {
		return value{}, err
	}
	args := slices.Clone(c.args) // all or none as f32 or words, because moveRegion does not convert
	if slices.ContainsFunc(args, func(a value) bool { return a.f64 != nil || a.i64 != nil }) {
		for i := range args {
			args[i] = args[i].wide()
		}
	}
	out, err := makeLike(args[0], c.dims)
	if err != nil {
		return value{}, err
	}
	to := whole(storageDims(out, c.dims))
	for _, a := range args {
		st := storageDims(a, a.dims)
		if err := c.moveRegion(st, out, to, a, whole(st)); err != nil {
			return value{}, err
		}
		// The next argument begins after this one along the axis.
		to.off += a.dims[axis] * to.strides[axis]
	}
	return out, nil
}

// pad computes op pad: it copies x into a tensor filled with the value, or calls padFromSelf.
func pad(c *call) (value, error) {
	if mode := c.attrs().String_("mode"); mode != "constant" {
		return padFromSelf(c, mode)
	}
	x := c.args[0]
	out, err := makeLike(x, c.dims)
	if err != nil {
		return value{}, err
	}
	v := c.attrs().Float("value")
	// At most one of the lists is not nil.
	fill(out.f64, ir.RoundTo(v, x.typ))
	fill(out.f32, float32(ir.RoundTo(v, x.typ)))
	if out.i64 != nil {
		fill(out.i64, ir.FloatToInt(v, x.typ))
	}
	to := whole(c.dims)
	for i, low := range c.attrs().Ints("low") {
		to.off += int(low) * to.strides[i]
	}
	return out, c.moveRegion(x.dims, out, to, x, whole(x.dims))
}

// padFromSelf pads with elements of x, in mode replicate, wrap or reflect.
func padFromSelf(c *call, mode string) (value, error) {
	x, low := c.args[0], c.attrs().Ints("low")
	return c.remap(x, func(axis, i int) int {
		n := x.dims[axis]
		i -= int(low[axis])
		if mode == "replicate" || n == 1 {
			return clampIndex(int64(i), n)
		}
		if mode == "wrap" {
			return floorMod(i, n)
		}
		i = floorMod(i, 2*n-2) // one period of the reflection
		return min(i, 2*n-2-i)
	})
}

func fill[T any](s []T, v T) {
	for i := range s {
		s[i] = v
	}
}

// dynamicSlice copies the slice that begins at the clamped start.
func dynamicSlice(c *call) (value, error) {
	x := c.args[0]
	axis, err := c.axis()
	if err != nil {
		return value{}, err
	}
	from := whole(x.dims)
	from.off = clampIndex(c.args[1].first(), x.dims[axis]-c.dims[axis]+1) * from.strides[axis]
	return c.strided(x, c.dims, from)
}

// dynamicUpdateSlice writes the update over a copy of the base, or over the base itself if c.undo allows that. Before
// it writes in place, it appends a function to c.undo that restores the elements.
func dynamicUpdateSlice(c *call) (value, error) {
	axis, err := c.axis()
	if err != nil {
		return value{}, err
	}
	if c.args[0].block != nil {
		return updateBlocks(c, axis)
	}
	base, update := c.args[0], c.args[1]
	// Both must have elements of the same format.
	if base.f64 != nil || update.f64 != nil || base.i64 != nil || update.i64 != nil {
		base, update = base.wide(), update.wide()
	}
	sameStorage := (base.f32 != nil) == (update.f32 != nil) && (base.i32 != nil) == (update.i32 != nil)
	inPlace, out := c.undo != nil && sameStorage, base
	if !inPlace {
		if out, err = c.strided(base, c.dims, whole(base.dims)); err != nil {
			return value{}, err
		}
	}
	for _, run := range c.updateRuns(axis) {
		switch {
		case run.n == 0:
		case inPlace && out.f32 != nil: // updateRows also saves the elements for undo
			c.updateRows(out.f32, update.f32, axis, run)
		default:
			if err := c.updateRegion(out, update, axis, run, inPlace); err != nil {
				return value{}, err
			}
		}
	}
	return out, nil
}

// updateRegion writes a part of the update to out. In place, it records how to undo it.
func (c *call) updateRegion(out, update value, axis int, run updateRun, inPlace bool) error {
	to, from, dims := whole(c.dims), whole(update.dims), slices.Clone(update.dims)
	to.off, from.off, dims[axis] = run.to*to.strides[axis], run.from*from.strides[axis], run.n
	if inPlace {
		before, err := c.strided(out, dims, to) // the elements to restore
		if err != nil {
			return err
		}
		c.undo.add(func() { moveRegion(dims, out, to, before, whole(dims)) })
	}
	return c.moveRegion(dims, out, to, update, from)
}

// updateRows writes a part of the update to out, in place, and records how to undo it. At each coordinate of the axes
// before axis, the elements of the part are contiguous in both tensors.
func (c *call) updateRows(out, update []float32, axis int, run updateRun) {
	inner, n := elems(c.dims[axis+1:]), c.args[1].dims[axis] // n is the update's extent
	rows, size, apart := elems(c.dims[:axis]), run.n*inner, c.dims[axis]*inner
	before := c.undo.save(rows * size)
	for i := range rows {
		copy(before[i*size:], out[i*apart+run.to*inner:][:size])
		copy(out[i*apart+run.to*inner:], update[(i*n+run.from)*inner:][:size])
	}
	c.undo.add(func() {
		for i := range rows {
			copy(out[i*apart+run.to*inner:], before[i*size:][:size])
		}
	})
}

// updateRun is a part of the elements that dynamic_update_slice writes along its axis: n coordinates of the update,
// from coordinate from on, replace the coordinates of the base from to on.
type updateRun struct{ to, from, n int }

// updateRuns returns the parts to write. The second is empty unless the update wraps around the end of a ring.
func (c *call) updateRuns(axis int) [2]updateRun {
	extent, n, start := c.args[0].dims[axis], c.args[1].dims[axis], c.args[2].first()
	if !c.attrs().Bool("wrap") {
		return [2]updateRun{{clampIndex(start, extent-n+1), 0, n}}
	}
	at := int(start % int64(extent))
	if at < 0 { // % has the sign of start
		at += extent
	}
	first := min(n, extent-at)
	return [2]updateRun{{at, 0, first}, {0, first, n - first}}
}

// dequantize decodes blocks. float32 represents the elements exactly, so f32 and f64 need no rounding.
func dequantize(c *call) (value, error) {
	x := c.args[0]
	dec, err := x.block.decode()
	if err != nil {
		return value{}, err
	}
	switch c.node.DType() {
	case ir.F32, ir.F64:
		return value{typ: c.node.DType(), dims: c.dims, f32: dec}, nil
	}
	return c.floats(widen(dec)), nil
}
