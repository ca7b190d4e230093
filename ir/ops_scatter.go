package ir

import (
	"fmt"
	"slices"
)

// init adds the rows of the ops that read or write at computed coordinates to the op table.
func init() {
	axis := AttrInfo{Name: "axis", Kind: AttrInt, Default: int64(0), Doc: "the axis that is indexed"}
	unique := AttrInfo{Name: "unique", Kind: AttrBool, Default: false,
		Doc: "whether the caller guarantees that no two indices are equal. In-place updates of a state then skip the check for equal indices. If two indices are equal after all, any of their updates may remain."}
	unordered := AttrInfo{Name: "unordered", Kind: AttrBool, Default: false,
		Doc: "whether floats may be added in any order. Float atomics may then be used, and the last bits may differ between runs."}
	mode := AttrInfo{Name: "mode", Kind: AttrString, Default: "add", Enum: []string{"add", "mul", "min", "max"},
		Doc: "how an element is combined with its updates: sum, product, smallest or largest"}
	scatter := []ArgInfo{{Name: "base"}, {Name: "indices"}, {Name: "updates"}}
	sum := Tolerance{Eps: 64, Abs: 1e-6, Sum: true}
	number := []Kind{KindFloat, KindInt, KindUint}
	const dropped = " An index out of range changes nothing. Updating a state in this way happens in place."
	const inOrder = " All updates of one element are added. Floats are added in f32 or wider and rounded once at the " +
		"end, so the bits are the same in every run. Integers wrap."
	const wide = " If base is f16, bf16 or 8 bits, updates may be f32."
	const others = wide + " Mode mul multiplies the element by its updates. Modes min and max keep the smallest or " +
		"largest value, or NaN if there is one."
	rows(
		OpInfo{Op: OpScatter, Name: "scatter", Class: ClassIndexing, Args: scatter, Attrs: []AttrInfo{axis, unique},
			Infer: inferScatter(nil),
			Doc:   "base with element updates[i,j,…] written at the same coordinates, except that along the axis the coordinate is indices[i,j,…]. If several updates have one target, the last in row-major order wins." + dropped},
		OpInfo{Op: OpScatterAdd, Name: "scatter_add", Class: ClassIndexing, Args: scatter,
			Attrs: []AttrInfo{axis, unique, mode, unordered}, Infer: inferScatter(number), Tol: sum,
			Doc: "base with element updates[i,j,…] added at the same coordinates, except that along the axis the coordinate is indices[i,j,…]." + dropped + inOrder + others},
		OpInfo{Op: OpIndexAdd, Name: "index_add", Class: ClassIndexing, Args: scatter,
			Attrs: []AttrInfo{axis, unique, unordered}, Infer: inferIndexAdd, Tol: sum,
			Doc: "base with slices along the axis added to it: slice i of updates to slice indices[i]. indices is a vector." + dropped + inOrder + wide},
		OpInfo{Op: OpGatherND, Name: "gather_nd", Class: ClassIndexing, Moves: true,
			Args:  []ArgInfo{{Name: "x"}, {Name: "indices"}},
			Infer: inferGatherND, Picks: always,
			Doc: "The elements or slices of x at the coordinates in the rows of indices[…, R]. Each row holds coordinates of x's R outermost axes: result[i,…] = x[indices[i,…,0], …, indices[i,…,R-1], …]. Out-of-range indices are clamped."},
		OpInfo{Op: OpScatterND, Name: "scatter_nd", Class: ClassIndexing, Args: scatter, Attrs: []AttrInfo{unique},
			Infer: inferScatterND(nil),
			Doc:   "base with the elements or slices of updates written at the coordinates in the rows of indices[…, R]. Each row holds coordinates of base's R outermost axes. If several updates have one target, the last in row-major order wins. Coordinates out of range change nothing. Updating a state in this way happens in place. Blocks can be written into a state by whole rows, if R is less than the rank of base, for example one new row per sequence of a KV cache."},
		OpInfo{Op: OpScatterNDAdd, Name: "scatter_nd_add", Class: ClassIndexing, Args: scatter,
			Attrs: []AttrInfo{unique, mode, unordered}, Infer: inferScatterND(number), Tol: sum,
			Doc: "base with the elements or slices of updates added at the coordinates in the rows of indices[…, R]. Each row holds coordinates of base's R outermost axes. Coordinates out of range change nothing. Updating a state in this way happens in place." + inOrder + others},
	)
}

// wantScatter checks the dtypes of base, indices and updates. kinds are the allowed kinds of a scatter that combines
// elements. nil is for scatters that overwrite them, which take all dtypes.
func (c *Call) wantScatter(kinds []Kind) error {
	if err := c.rejectBlocks(); err != nil {
		return err
	}
	if kinds != nil {
		if err := c.wantKinds(0, kinds...); err != nil {
			return err
		}
	}
	if err := c.wantIndices(1); err != nil {
		return err
	}
	if base := c.DType(0); kinds != nil && base.IsFloat() && base.BlockBytes() < F32.BlockBytes() && c.DType(2) == F32 {
		return nil // scatter accumulates without rounding the updates first
	}
	return c.wantSame(0, 2)
}

// wantRows checks the arguments of a scatter that overwrites whole rows, which may have any dtype, also blocks.
func (c *Call) wantRows() error {
	if err := c.wantIndices(1); err != nil {
		return err
	}
	return c.wantSame(0, 2)
}

// inferScatter returns the type rule of scatter or scatter_add: indices and updates have one shape. See wantScatter for
// kinds.
func inferScatter(kinds []Kind) func(*Call) (Type, error) {
	return func(c *Call) (Type, error) {
		base, idx, upd := c.Shape(0), c.Shape(1), c.Shape(2)
		axis, err := c.axis("axis", len(base))
		if err == nil {
			err = c.wantScatter(kinds)
		}
		if err != nil {
			return Type{}, err
		}
		if !idx.Equal(upd) || len(upd) != len(base) {
			return Type{}, fmt.Errorf("%s is %s, %s %s and %s %s: want one rank, and an index for each update",
				c.arg(0), base, c.arg(1), idx, c.arg(2), upd)
		}
		for i := range base {
			if i != axis && upd[i] != base[i] {
				return Type{}, fmt.Errorf("%s is %s and %s %s: they may differ only along axis %d", c.arg(0), base,
					c.arg(2), upd, axis)
			}
		}
		return Type{c.DType(0), base}, nil
	}
}

// inferIndexAdd is the type rule of index_add: updates have base's shape, with the extent of the vector of indices on
// the axis.
func inferIndexAdd(c *Call) (Type, error) {
	base, idx, upd := c.Shape(0), c.Shape(1), c.Shape(2)
	axis, err := c.axis("axis", len(base))
	if err == nil {
		err = c.wantScatter([]Kind{KindFloat, KindInt, KindUint})
	}
	if err != nil {
		return Type{}, err
	}
	if len(idx) != 1 {
		return Type{}, fmt.Errorf("%s is %s, want a vector", c.arg(1), idx)
	}
	want := slices.Clone(base)
	want[axis] = idx[0]
	if !upd.Equal(want) {
		return Type{}, fmt.Errorf("%s is %s, want %s: %s %s with one slice per index along axis %d", c.arg(2), upd,
			want, c.arg(0), base, axis)
	}
	return Type{c.DType(0), base}, nil
}

// pickedShape returns the shape of the elements of argument 0 that indices, argument 1, select. Each row of indices[…,
// R] has coordinates for the first R axes; axes is R.
func (c *Call) pickedShape() (picked Shape, axes int, err error) {
	x, idx := c.Shape(0), c.Shape(1)
	if len(idx) == 0 || !idx[len(idx)-1].IsStatic() {
		return nil, 0, fmt.Errorf("%s is %s, want […, R] with a number R", c.arg(1), idx)
	}
	axes = idx[len(idx)-1].Static()
	if axes < 1 || axes > len(x) {
		return nil, 0, fmt.Errorf("%s is %s: its rows of %d do not index 1 to %d axes of %s %s", c.arg(1), idx, axes,
			len(x), c.arg(0), x)
	}
	return slices.Concat(idx[:len(idx)-1], x[axes:]), axes, nil
}

// inferGatherND is the type rule of gather_nd.
func inferGatherND(c *Call) (Type, error) {
	if err := c.rejectBlocks(); err != nil {
		return Type{}, err
	}
	if err := c.wantIndices(1); err != nil {
		return Type{}, err
	}
	x := c.Shape(0)
	out, axes, err := c.pickedShape()
	for axis := 0; axis < axes && err == nil; axis++ {
		err = wantSomething(x, axis)
	}
	return Type{c.DType(0), out}, err
}

// inferScatterND returns the type rule of scatter_nd or scatter_nd_add. See wantScatter for kinds.
func inferScatterND(kinds []Kind) func(*Call) (Type, error) {
	return func(c *Call) (Type, error) {
		base, upd := c.Shape(0), c.Shape(2)
		want, axes, err := c.pickedShape()
		if err == nil && kinds == nil && axes < len(base) { // whole rows may be blocks
			err = c.wantRows()
		} else if err == nil {
			err = c.wantScatter(kinds)
		}
		if err == nil && !upd.Equal(want) {
			err = fmt.Errorf("%s is %s, want %s: %s %s at %s %s", c.arg(2), upd, want, c.arg(0), base, c.arg(1),
				c.Shape(1))
		}
		return Type{c.DType(0), base}, err
	}
}
