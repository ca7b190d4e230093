package interp

import (
	"unsafe"

	"github.com/vkc-go/vkc/ir"
)

// scatterRuns combines runs of `run` consecutive elements of src with runs of dst, in order. Run i of src changes the
// run that starts at element to(i) of dst, or none if to returns false.
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

// scatterInto returns argument 0 with the runs of argument 2 scattered into it. See scatterRuns for run and to, and
// changeBy for mode. It writes a state in place if the updates are few.
func (c *call) scatterInto(run int, mode string, to func(i int) (int, bool)) (value, error) {
	base, updates := c.args[0], c.args[2].wide()
	// Writing in place saves every changed element, so copying the base is faster for many updates.
	if c.undo != nil && updateCost*elems(updates.dims) <= elems(base.dims) {
		round := func(list []float64) { roundFloats(list, base.typ) }
		switch {
		case base.f32 != nil:
			changeInPlace(c.undo, base.f32, updates.f64, run, to, changeBy[float64](mode), round)
		case base.f64 != nil:
			changeInPlace(c.undo, base.f64, updates.f64, run, to, changeBy[float64](mode), round)
		case base.i32 != nil:
			c.changeWords(base, updates.i64, run, mode, to)
		default:
			changeInPlace(c.undo, base.i64, updates.i64, run, to, changeBy[int64](mode),
				func(list []int64) { wrapInts(list, base.typ) })
		}
		return base, nil
	}
	base = base.wide()
	out, err := c.strided(base, c.dims, whole(c.dims))
	if err != nil {
		return value{}, err
	}
	if out.f64 != nil {
		scatterRuns(out.f64, updates.f64, run, to, changeBy[float64](mode))
		return c.floats(out.f64), nil
	}
	scatterRuns(out.i64, updates.i64, run, to, changeBy[int64](mode))
	return c.ints(out.i64), nil
}

// updateCost is the cost of updating an element in place, relative to copying an element.
const updateCost = 8

// changeInPlace changes runs of dst by the updates src, as scatterRuns does, and rounds each element once, after its
// last change. It adds to u a function that restores dst.
func changeInPlace[D float32 | float64 | int64 | int32 | uint32 | byte, S float64 | int64 | byte](u *undo, dst []D,
	src []S, run int, to func(i int) (int, bool), change func(old, update S) S, round func(list []S)) {
	// The runs that change, numbered in the order of their first update: their offsets in dst, and their elements
	// before and after the updates.
	offsets := make([]int, 0, len(src)/max(run, 1))
	before, after := make([]D, 0, len(src)), make([]S, 0, len(src))
	numbers := map[int]int{} // of runs, by offset
	for i := 0; run > 0 && i*run < len(src); i++ {
		at, ok := to(i)
		if !ok {
			continue
		}
		k, again := numbers[at]
		if !again {
			k = len(offsets)
			numbers[at], offsets = k, append(offsets, at)
			before = append(before, dst[at:at+run]...)
			for _, x := range before[k*run:] {
				after = append(after, S(x))
			}
		}
		for j, update := range src[i*run : (i+1)*run] {
			after[k*run+j] = change(after[k*run+j], update)
		}
	}
	round(after)
	for k, at := range offsets {
		for j, x := range after[k*run : (k+1)*run] {
			dst[at+j] = D(x)
		}
	}
	u.add(func() {
		for k, at := range offsets {
			copy(dst[at:], before[k*run:(k+1)*run])
		}
	})
}

// changeBy returns the function that combines an element and an update in the given mode. Mode "" replaces the element.
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

// scatter computes scatter, which replaces elements, and scatter_add, which has a mode.
func scatter(c *call) (value, error) {
	axis, err := c.axis()
	if err != nil {
		return value{}, err
	}
	idx := c.args[1].ints()
	n, picks, inner := c.dims[axis], c.args[2].dims[axis], elems(c.dims[axis+1:])
	if inner == 1 { // saves two divisions per update
		return c.scatterInto(1, c.attrs().String_("mode"), func(i int) (int, bool) {
			return i/picks*n + int(idx[i]), inRange(idx[i], n)
		})
	}
	return c.scatterInto(1, c.attrs().String_("mode"), func(i int) (int, bool) {
		outer := i / inner / picks
		return (outer*n+int(idx[i]))*inner + i%inner, inRange(idx[i], n)
	})
}

func inRange(i int64, n int) bool { return i >= 0 && i < int64(n) }

// indexAdd computes op index_add: it adds slices along an axis.
func indexAdd(c *call) (value, error) {
	axis, err := c.axis()
	if err != nil {
		return value{}, err
	}
	idx := c.args[1].ints()
	n, inner := c.dims[axis], elems(c.dims[axis+1:])
	return c.scatterInto(inner, "add", func(i int) (int, bool) {
		at := idx[i%len(idx)] // slice i is [i/len(idx), i%len(idx)] along the outer axes and the axis
		return (i/len(idx)*n + int(at)) * inner, inRange(at, n)
	})
}

// coordinateRows reads the rows of an index tensor: each has the coordinates of a slice along the outermost axes of a
// tensor.
type coordinateRows struct {
	indices []int64
	dims    []int // extents of the indexed axes
	run     int   // elements of a slice
}

func newCoordinateRows(x, indices value) coordinateRows {
	r := indices.dims[len(indices.dims)-1]
	return coordinateRows{indices.ints(), x.dims[:r], elems(x.dims[r:])}
}

// at returns the first element of the slice that row i of the indices selects. It clamps indices, and returns false if
// that changed one.
func (r coordinateRows) at(i int) (int, bool) {
	off, ok := 0, true
	for axis, n := range r.dims {
		x := r.indices[i*len(r.dims)+axis]
		ok = ok && inRange(x, n)
		off = off*n + clampIndex(x, n)
	}
	return off * r.run, ok
}

// gatherND picks a slice of the first argument for each row of coordinates.
func gatherND(c *call) (value, error) {
	rows := newCoordinateRows(c.args[0], c.args[1])
	return c.pick(c.args[0], rows.run, func(i int) int {
		off, _ := rows.at(i)
		return off
	})
}

// scatterND writes a slice of the updates for each row of coordinates.
func scatterND(c *call) (value, error) {
	rows := newCoordinateRows(c.args[0], c.args[1])
	if c.args[0].typ.IsBlock() {
		return scatterBlocks(c, rows)
	}
	return c.scatterInto(rows.run, c.attrs().String_("mode"), rows.at)
}

// changeWords writes updates to the words of a state in place.
func (c *call) changeWords(base value, updates []int64, run int, mode string, to func(i int) (int, bool)) {
	round := func(list []int64) { wrapInts(list, base.typ) }
	if base.typ == ir.U32 {
		list := unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(base.i32))), len(base.i32))
		changeInPlace(c.undo, list, updates, run, to, changeBy[int64](mode), round)
		return
	}
	changeInPlace(c.undo, base.i32, updates, run, to, changeBy[int64](mode), round)
}
