package ir

import (
	"fmt"
	"math"
	"slices"
)

// init adds the rows of the scans and sorts to the op table.
func init() {
	x := []ArgInfo{{Name: "x"}}
	axis := AttrInfo{Name: "axis", Kind: AttrInt, Default: int64(-1), Doc: "axis to scan along"}
	descending := AttrInfo{Name: "descending", Kind: AttrBool, Default: false, Doc: "largest first"}
	along := []AttrInfo{axis,
		{Name: "exclusive", Kind: AttrBool, Default: false, Doc: "whether each result excludes its own element. The first result is then the reduction over no elements."},
		{Name: "reverse", Kind: AttrBool, Default: false, Doc: "go from the end of the axis"},
		{Name: "restart", Kind: AttrInt, Default: int64(0), Doc: "number of elements after which the scan restarts; " +
			"0 means never"},
	}
	exact, sum := Tolerance{}, Tolerance{Eps: 64, Abs: 1e-6, Sum: true}
	rows(
		OpInfo{Op: OpCumSum, Name: "cumsum", Class: ClassScan, Args: x, Running: OpSum,
			Attrs: along, Infer: inferRunning, Tol: sum,
			Doc: "Running sum along an axis: result i is x[0]+…+x[i]; integers wrap."},
		OpInfo{Op: OpCumProd, Name: "cumprod", Class: ClassScan, Args: x, Running: OpProd,
			Attrs: along, Infer: inferRunning, Tol: sum,
			Doc: "Running product along an axis: result i is x[0]*…*x[i]; integers wrap."},
		OpInfo{Op: OpCumMax, Name: "cummax", Class: ClassScan, Args: x, Running: OpReduceMax,
			Attrs: along, Infer: inferRunning, Tol: exact,
			Doc: "Largest element so far along an axis, NaN after the first one."},
		OpInfo{Op: OpCumMin, Name: "cummin", Class: ClassScan, Args: x, Running: OpReduceMin,
			Attrs: along, Infer: inferRunning, Tol: exact,
			Doc: "Smallest element so far along an axis, NaN after the first one."},
		OpInfo{Op: OpSort, Name: "sort", Class: ClassScan, Args: x, Attrs: []AttrInfo{axis, descending},
			Infer: inferScan, Tol: exact,
			Doc: "The elements in order along an axis, smallest first. Equal elements keep their order in both directions."},
		OpInfo{Op: OpArgsort, Name: "argsort", Class: ClassScan, Args: x, Attrs: []AttrInfo{axis, descending},
			Infer: inferArgsort, Tol: exact,
			NoGrad: noIndices, Doc: "Coordinates (i32) that gather x into the order of sort."},
		OpInfo{Op: OpTopKIndices, Name: "top_k_indices", Class: ClassScan, Args: x,
			Attrs: []AttrInfo{
				{Name: "k", Kind: AttrInt, Doc: "number of elements to select, at most the extent of the axis"}, axis,
				{Name: "largest", Kind: AttrBool, Default: true, Doc: "the largest in descending order, else the smallest in ascending order"},
			}, Infer: inferTopK, Tol: exact,
			NoGrad: noIndices, Doc: "The first k of argsort along an axis; gather x with them for the values."},
	)
}

// inferScan is the type rule of scans: numbers of any dtype, and an axis. The result has the argument's type.
func inferScan(c *Call) (Type, error) {
	if err := c.wantKinds(0, KindFloat, KindInt, KindUint); err != nil {
		return Type{}, err
	}
	_, err := c.axis("axis", len(c.Shape(0)))
	return Type{c.DType(0), c.Shape(0)}, err
}

// inferRunning is inferScan, with a check of attribute restart.
func inferRunning(c *Call) (Type, error) {
	if n := c.Attrs.Int("restart"); n < 0 {
		return Type{}, fmt.Errorf("restart is %d, want 0 or more", n)
	}
	return inferScan(c)
}

// inferArgsort is the type rule of argsort: i32 coordinates in x's shape.
func inferArgsort(c *Call) (Type, error) {
	t, err := inferScan(c)
	if err != nil {
		return Type{}, err
	}
	axis, err := c.axis("axis", len(t.Shape))
	if err == nil && t.Shape[axis].Max() > math.MaxInt32 {
		err = fmt.Errorf("axis %d of %s is too long for i32 coordinates", axis, t.Shape)
	}
	return Type{I32, t.Shape}, err
}

// inferTopK is the type rule of top_k_indices: k coordinates along the axis.
func inferTopK(c *Call) (Type, error) {
	t, err := inferArgsort(c)
	if err != nil {
		return Type{}, err
	}
	axis, err := c.axis("axis", len(t.Shape))
	if err != nil {
		return Type{}, err
	}
	k := c.Attrs.Int("k")
	switch d := t.Shape[axis]; {
	case k < 0:
		return Type{}, fmt.Errorf("k is %d, want 0 or more", k)
	case int64(k) > d.Min():
		return Type{}, fmt.Errorf("k %d can pass the extent %s of axis %d", k, d, axis)
	}
	out := slices.Clone(t.Shape)
	out[axis] = D(k)
	return Type{I32, out}, nil
}
