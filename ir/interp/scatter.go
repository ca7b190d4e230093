package interp

import "slices"

// scatterRuns changes runs of consecutive elements of dst, in order. to returns the destination of run i of src, and
// false if it has none.
func scatterRuns[T any](dst, src []T, run int, to func(i int) (int, bool), change func(old, update T) T) {
	for i := 0; run > 0 && i*run < len(src); i++ {
		at, ok := to(i)
		if !ok {
			continue
		}
		for j, update := range src[i*run : (i+1)*run] {
			dst[at+j] = change(dst[at+j], update)
		}
	}
}

// scatterInto returns argument 0 changed by the runs of argument 2.
func (c *call) scatterInto(run int, mode string, to func(i int) (int, bool)) (value, error) {
	if base, updates := c.args[0], c.args[2]; c.undo != nil { // only ops without a mode have undo
		switch {
		case base.n != nil && updates.n != nil:
			overwrite(c.undo, base.n, updates.n, run, to)
			return base, nil
		case base.i != nil && updates.i != nil:
			overwrite(c.undo, base.i, updates.i, run, to)
			return base, nil
		}
	}
	base, updates := c.args[0].wide(), c.args[2].wide()
	out, err := strided(base, c.dims, whole(c.dims))
	if err != nil {
		return value{}, err
	}
	if out.f != nil {
		scatterRuns(out.f, updates.f, run, to, changeBy[float64](mode))
		return c.floats(out.f), nil
	}
	scatterRuns(out.i, updates.i, run, to, changeBy[int64](mode))
	return c.ints(out.i), nil
}

// changeBy returns the function that combines an element and an update in the given mode. Without a mode the update
// replaces the element.
func changeBy[T float64 | int64](mode string) func(old, update T) T {
	switch mode {
	case "add":
		return func(old, update T) T { return old + update }
	case "mul":
		return func(old, update T) T { return old * update }
	case "min":
		return func(old, update T) T { return min(old, update) }
	case "max":
		return func(old, update T) T { return max(old, update) }
	}
	return func(_, update T) T { return update }
}

// scatter computes scatter, and scatter_add, which has a mode.
func scatter(c *call) (value, error) {
	axis, err := c.axis()
	if err != nil {
		return value{}, err
	}
	idx := c.args[1].i
	n, picks, inner := c.dims[axis], c.args[2].dims[axis], elems(c.dims[axis+1:])
	return c.scatterInto(1, c.attrs().String_("mode"), func(i int) (int, bool) {
		outer := i / inner / picks
		return (outer*n+int(idx[i]))*inner + i%inner, inRange(idx[i], n)
	})
}

func inRange(i int64, n int) bool { return i >= 0 && i < int64(n) }

func indexAdd(c *call) (value, error) {
	axis, err := c.axis()
	if err != nil {
		return value{}, err
	}
	idx := c.args[1].i
	n, inner := c.dims[axis], elems(c.dims[axis+1:])
	return c.scatterInto(inner, "add", func(i int) (int, bool) {
		at := idx[i%len(idx)]
		return (i/len(idx)*n + int(at)) * inner, inRange(at, n)
	})
}

// coordinateRows reads rows of R indices as coordinates of the R outermost axes of a tensor.
type coordinateRows struct {
	indices []int64
	dims    []int // of the R axes
	run     int   // elements that one row of indices gathers
}

func newCoordinateRows(x, indices value) coordinateRows {
	r := indices.dims[len(indices.dims)-1]
	return coordinateRows{indices.i, x.dims[:r], elems(x.dims[r:])}
}

// at returns the start of the slice that row i gathers, clamped to the tensor, and whether it is in range without
// clamping.
func (r coordinateRows) at(i int) (int, bool) {
	off, ok := 0, true
	for axis, n := range r.dims {
		x := r.indices[i*len(r.dims)+axis]
		ok = ok && inRange(x, n)
		off = off*n + clampIndex(x, n)
	}
	return off * r.run, ok
}

func gatherND(c *call) (value, error) {
	rows := newCoordinateRows(c.args[0], c.args[1])
	return c.pick(c.args[0], rows.run, func(i int) int {
		off, _ := rows.at(i)
		return off
	})
}

func scatterND(c *call) (value, error) {
	rows := newCoordinateRows(c.args[0], c.args[1])
	if c.args[0].typ.IsBlock() {
		return scatterBlocks(c, rows)
	}
	return c.scatterInto(rows.run, c.attrs().String_("mode"), rows.at)
}

// overwrite copies runs of src to the offsets of dst given by to, and records how to undo that.
func overwrite[T any](u *undo, dst, src []T, run int, to func(i int) (int, bool)) {
	old, places := make([]T, 0, len(src)), make([]int, 0, len(src)/max(run, 1))
	for i := 0; run > 0 && i*run < len(src); i++ {
		if at, ok := to(i); ok {
			old, places = append(old, dst[at:at+run]...), append(places, at)
			copy(dst[at:at+run], src[i*run:])
		}
	}
	*u = append(*u, func() {
		// In reverse, so that an offset written twice gets back its original value.
		for i, at := range slices.Backward(places) {
			copy(dst[at:], old[i*run:(i+1)*run])
		}
	})
}
