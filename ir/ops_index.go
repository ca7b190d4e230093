package ir

import (
	"fmt"
	"slices"
)

// init adds the rows of the ops that move elements by indices to the op table.
func init() {
	axis := AttrInfo{Name: "axis", Kind: AttrInt, Default: int64(0), Doc: "the axis that is indexed"}
	exact := Tolerance{}
	rows(
		OpInfo{Op: OpGather, Name: "gather", Class: ClassIndexing, Moves: true,
			Args: []ArgInfo{{Name: "x"}, {Name: "indices", Picks: "x"}}, Attrs: []AttrInfo{axis}, Infer: inferGather, Tol: exact,
			Doc: "result[i,j,…] = x at the same coordinates, except that along the axis the coordinate is indices[i,j,…]. Out-of-range indices are clamped."},
		OpInfo{Op: OpIndexSelect, Name: "index_select", Class: ClassIndexing, Moves: true,
			Args: []ArgInfo{{Name: "x"}, {Name: "indices", Picks: "x"}}, Attrs: []AttrInfo{axis}, Infer: inferIndexSelect, Tol: exact,
			Doc: "Slices of x along the axis, picked by a vector of indices. Out-of-range indices are clamped."},
		OpInfo{Op: OpEmbedding, Name: "embedding", Class: ClassIndexing, Moves: true,
			Args:  []ArgInfo{{Name: "table"}, {Name: "ids", Picks: "table"}},
			Attrs: []AttrInfo{{Name: "dtype", Kind: AttrDType, Default: F32, Doc: "the result dtype of a quantized table; others keep their own"}}, Infer: inferEmbedding, Tol: Tolerance{Eps: 2},
			Doc: "Rows of a [V, D] table, one per id, in the shape of ids with D appended. The table may be quantized. Out-of-range ids are clamped."},
		OpInfo{Op: OpConcat, Name: "concat", Class: ClassIndexing, Moves: true,
			Args:  []ArgInfo{{Name: "x", Variadic: true}},
			Attrs: []AttrInfo{axis}, Infer: inferConcat, Tol: exact,
			Doc: "Joins tensors along an axis."},
		OpInfo{Op: OpPad, Name: "pad", Class: ClassIndexing, Moves: true, Args: []ArgInfo{{Name: "x"}},
			Attrs: []AttrInfo{
				{Name: "low", Kind: AttrInts, Doc: "elements added before, per axis"},
				{Name: "high", Kind: AttrInts, Doc: "elements added after, per axis"},
				{Name: "value", Kind: AttrFloat, Default: 0.0, Doc: "the value of the added elements, with mode constant"},
				{Name: "mode", Kind: AttrString, Default: "constant", Enum: []string{"constant", "reflect", "replicate", "wrap"}, Doc: "what the added elements are. constant: the value. reflect: x mirrored at its first and last element, repeatedly. replicate: the nearest element of x. wrap: x repeated."},
			}, Infer: inferPad, Tol: exact, Picks: func(a Attrs) bool { return a.String_("mode") != "constant" },
			Doc: "Adds elements around x. Mode reflect gives x[0], x[1], …, x[n-1], x[n-2], …, x[1], x[0], … in both directions."},
		OpInfo{Op: OpDynamicSlice, Name: "dynamic_slice", Class: ClassIndexing, Moves: true,
			Args:  []ArgInfo{{Name: "x"}, {Name: "start"}},
			Attrs: []AttrInfo{axis, {Name: "size", Kind: AttrShape, Doc: "the extent along the axis, as a shape of one axis"}}, Infer: inferDynamicSlice, Tol: exact,
			Doc: "The elements of x along the axis, from coordinate start on. start is an integer scalar, clamped so that size fits."},
		OpInfo{Op: OpDynamicUpdateSlice, Name: "dynamic_update_slice", Class: ClassIndexing,
			Args:  []ArgInfo{{Name: "base"}, {Name: "update"}, {Name: "start"}},
			Attrs: []AttrInfo{axis, {Name: "wrap", Kind: AttrBool, Default: false, Doc: "whether the axis is a ring. Its extent must be known when the graph is built. start is taken modulo the extent, and elements past the end continue at the beginning."}}, Infer: inferDynamicUpdateSlice, Tol: exact,
			Doc: "base with update written over it along the axis, from coordinate start on. start is an integer scalar, clamped so that update fits, unless the axis wraps. Updating a state in this way happens in place. Blocks can be written into a state by whole rows, along any axis except the innermost."},
		OpInfo{Op: OpDequantize, Name: "dequantize", Class: ClassIndexing, Args: []ArgInfo{{Name: "x"}},
			Attrs: []AttrInfo{{Name: "dtype", Kind: AttrDType, Default: F32, Doc: "the result dtype"}}, Infer: inferDequantize, Tol: Tolerance{Eps: 2},
			NoGrad: "its argument is in blocks", Doc: "The elements of x, decoded from its blocks to floats."},
	)
}

// wantIndices returns an error unless argument i has an integer dtype.
func (c *Call) wantIndices(i int) error {
	if t := c.DType(i); !t.IsInteger() || t.StorageOnly() {
		return fmt.Errorf("%s is %s, want an integer dtype", c.arg(i), c.DType(i))
	}
	return nil
}

// wantSomething rejects an indexed axis that is always empty, because clamping an index needs at least one element.
func wantSomething(s Shape, axis int) error {
	if s[axis].Max() == 0 {
		return fmt.Errorf("axis %d of %s is empty: no index is in range", axis, s)
	}
	return nil
}

// indexedAxis returns attribute axis, for an op that indexes argument 0 along it by argument 1.
func (c *Call) indexedAxis() (axis int, err error) {
	if axis, err = c.axis("axis", len(c.Shape(0))); err == nil {
		err = c.wantIndices(1)
	}
	if err == nil {
		err = c.rejectBlocks()
	}
	return axis, err
}

// inferGather is the type rule of gather: the result has the shape of the indices.
func inferGather(c *Call) (Type, error) {
	x, idx := c.Shape(0), c.Shape(1)
	axis, err := c.indexedAxis()
	if err != nil {
		return Type{}, err
	}
	if len(idx) != len(x) {
		return Type{}, fmt.Errorf("%s is %s and %s %s: want one rank", c.arg(0), x, c.arg(1), idx)
	}
	for i := range x {
		if i != axis && idx[i] != x[i] {
			return Type{}, fmt.Errorf("%s is %s and %s %s: they may differ only along axis %d", c.arg(0), x, c.arg(1),
				idx, axis)
		}
	}
	return Type{c.DType(0), idx}, wantSomething(x, axis)
}

// inferIndexSelect is the type rule of index_select: the indexed axis gets the extent of the vector of indices.
func inferIndexSelect(c *Call) (Type, error) {
	x, idx := c.Shape(0), c.Shape(1)
	axis, err := c.indexedAxis()
	if err != nil {
		return Type{}, err
	}
	if len(idx) != 1 {
		return Type{}, fmt.Errorf("%s is %s, want a vector", c.arg(1), idx)
	}
	out := slices.Clone(x)
	out[axis] = idx[0]
	return Type{c.DType(0), out}, wantSomething(x, axis)
}

// inferEmbedding is the type rule of embedding: the ids' shape with the table's row length appended.
func inferEmbedding(c *Call) (Type, error) {
	if err := c.wantIndices(1); err != nil {
		return Type{}, err
	}
	t := c.Shape(0)
	if len(t) != 2 {
		return Type{}, fmt.Errorf("%s is %s, want [V, D]", c.arg(0), t)
	}
	dt := c.DType(0)
	if dt.IsBlock() {
		dt = c.Attrs.DType("dtype")
		if !dt.IsFloat() {
			return Type{}, fmt.Errorf("%s, a table of %s, cannot give rows of %s: want a float dtype", c.arg(0),
				c.DType(0), dt)
		}
	}
	return Type{dt, append(slices.Clone(c.Shape(1)), t[1])}, wantSomething(t, 0)
}

// inferConcat is the type rule of concat: extents along the axis add up, and the others must be equal.
func inferConcat(c *Call) (Type, error) {
	first := c.Shape(0)
	axis, err := c.axis("axis", len(first))
	if err != nil {
		return Type{}, err
	}
	out := slices.Clone(first)
	for i := 1; i < len(c.Args); i++ {
		s := c.Shape(i)
		if c.DType(i) != c.DType(0) {
			return Type{}, fmt.Errorf("%s is %s, %s is %s: cast one of them", c.arg(i), c.DType(i), c.arg(0),
				c.DType(0))
		}
		if len(s) != len(first) {
			return Type{}, fmt.Errorf("%s is %s, %s is %s: want one rank", c.arg(i), s, c.arg(0), first)
		}
		for j := range s {
			if j != axis && s[j] != first[j] {
				return Type{}, fmt.Errorf("%s is %s, %s is %s: they may differ only along axis %d", c.arg(i), s,
					c.arg(0), first, axis)
			}
		}
		if out[axis], err = out[axis].Sum(s[axis]); err != nil {
			return Type{}, fmt.Errorf("axis %d: %w", axis, err)
		}
	}
	if c.DType(0).IsBlock() && axis == len(first)-1 {
		return Type{}, fmt.Errorf("%s is %s: only whole rows can be joined", c.arg(0), c.DType(0))
	}
	return Type{c.DType(0), out}, nil
}

// inferPad is the type rule of pad: attributes low and high are the numbers of elements to add before and after each
// axis. An element of a block cannot be moved alone, so block dtypes are refused.
func inferPad(c *Call) (Type, error) {
	x, low, high := c.Shape(0), c.Attrs.Ints("low"), c.Attrs.Ints("high")
	if err := c.rejectBlocks(); err != nil {
		return Type{}, err
	}
	if len(low) != len(x) || len(high) != len(x) {
		return Type{}, fmt.Errorf("low %v and high %v do not fit rank %d", low, high, len(x))
	}
	out := make(Shape, len(x))
	for i, d := range x {
		if low[i] < 0 || high[i] < 0 || low[i] > maxElems || high[i] > maxElems {
			return Type{}, fmt.Errorf("padding %d, %d of axis %d is out of range: use slice to take elements away",
				low[i], high[i], i)
		}
		if n := low[i] + high[i]; n > 0 && d.Max() == 0 && c.Attrs.String_("mode") != "constant" {
			return Type{}, fmt.Errorf("axis %d of %s is empty: there is no element to pad with", i, x)
		}
		out[i] = d.Plus(low[i] + high[i])
	}
	return Type{c.DType(0), out}, nil
}

// inferDynamicSlice is the type rule of dynamic_slice: the axis gets the extent of attribute size.
func inferDynamicSlice(c *Call) (Type, error) {
	x, size := c.Shape(0), c.Attrs.Shape("size")
	axis, err := c.indexedAxis()
	if err != nil {
		return Type{}, err
	}
	if len(c.Shape(1)) != 0 {
		return Type{}, fmt.Errorf("%s is %s, want a scalar", c.arg(1), c.Shape(1))
	}
	if len(size) != 1 {
		return Type{}, fmt.Errorf("size %s is not one extent", size)
	}
	if !sliceLimitFits(x[axis], size[0]) {
		return Type{}, fmt.Errorf("size %s can pass the extent %s of axis %d of %s", size[0], x[axis], axis, c.arg(0))
	}
	out := slices.Clone(x)
	out[axis] = size[0]
	return Type{c.DType(0), out}, nil
}

// inferDynamicUpdateSlice is the type rule of dynamic_update_slice: the update must fit in the base along the axis.
func inferDynamicUpdateSlice(c *Call) (Type, error) {
	base, upd := c.Shape(0), c.Shape(1)
	axis, err := c.axis("axis", len(base))
	if err == nil {
		err = c.wantSame(0, 1)
	}
	if err == nil {
		err = c.wantIndices(2)
	}
	if err == nil && axis == len(base)-1 {
		err = c.rejectBlocks()
	}
	if err != nil {
		return Type{}, err
	}
	if len(c.Shape(2)) != 0 {
		return Type{}, fmt.Errorf("%s is %s, want a scalar", c.arg(2), c.Shape(2))
	}
	if len(upd) != len(base) {
		return Type{}, fmt.Errorf("%s is %s and %s %s: want one rank", c.arg(0), base, c.arg(1), upd)
	}
	for i := range base {
		if i != axis && upd[i] != base[i] {
			return Type{}, fmt.Errorf("%s is %s and %s %s: they may differ only along axis %d", c.arg(0), base,
				c.arg(1), upd, axis)
		}
	}
	if !sliceLimitFits(base[axis], upd[axis]) {
		return Type{}, fmt.Errorf("%s %s can be longer than %s %s along axis %d", c.arg(1), upd, c.arg(0), base, axis)
	}
	if c.Attrs.Bool("wrap") && (!base[axis].IsStatic() || base[axis].Is(0)) {
		return Type{}, fmt.Errorf("axis %d of %s %s cannot wrap: want a fixed extent above 0", axis, c.arg(0),
			base)
	}
	return Type{c.DType(0), base}, nil
}

// inferDequantize is the type rule of dequantize: blocks become a float dtype.
func inferDequantize(c *Call) (Type, error) {
	if !c.DType(0).IsBlock() {
		return Type{}, fmt.Errorf("%s is %s, which is not quantized: use cast", c.arg(0), c.DType(0))
	}
	if to := c.Attrs.DType("dtype"); !to.IsFloat() {
		return Type{}, fmt.Errorf("dtype is %s, want a float", to)
	}
	return Type{c.Attrs.DType("dtype"), c.Shape(0)}, nil
}
