package ir

import (
	"fmt"
	"math"
)

// init adds the rows of the reductions to the op table.
func init() {
	x := []ArgInfo{{Name: "x"}}
	attrs := []AttrInfo{
		{Name: "axes", Kind: AttrInts, Default: []int64{}, Doc: "axes to fold; empty means all"},
		{Name: "keepdims", Kind: AttrBool, Default: false, Doc: "keep folded axes with extent 1"},
	}
	arg := []AttrInfo{
		{Name: "axis", Kind: AttrInt, Doc: "the axis to search"},
		{Name: "keepdims", Kind: AttrBool, Default: false, Doc: "keep the axis with extent 1"},
	}
	correction := AttrInfo{Name: "correction", Kind: AttrInt, Default: int64(0),
		Doc: "number that is subtracted from the count in the divisor: 0 for a population, 1 for a sample " +
			"(Bessel)", Samples: []any{int64(1)}}
	float := []Kind{KindFloat}
	sum := Tolerance{Eps: 64, Abs: 1e-6, Sum: true}
	exact := Tolerance{}
	number := []Kind{KindFloat, KindInt, KindUint}
	norm2 := Fold{Steps: []Step{sumOf("sum_sq", scalarOf(OpSqr, element))}, Finish: scalarOf(OpSqrt, result(0)),
		Homogeneous: true}
	root := scalarOf(OpMul, result(0), scalarOf(OpPow, result(1), scalarOf(OpRecip, attrOf("p"))))
	finite := scalarOf(OpWhere, test(OpEq, result(0), numberOf(0)), result(0), root)
	normP := foldOf(scalarOf(OpWhere, test(OpIsInf, result(0)), // of no elements the largest is -inf
		scalarOf(OpMax, result(0), numberOf(0)), finite), powers()...)
	lse := scalarOf(OpAdd, result(0), scalarOf(OpLog, result(1)))
	lse = scalarOf(OpWhere, test(OpIsInf, result(0)), result(0), lse)
	deviations, _, squares := deviations()
	rows(
		OpInfo{Op: OpSum, Name: "sum", Class: ClassReduce, Args: x,
			Fold: basic(OpSum, "row_sum"), Attrs: attrs, Infer: inferReduce(number), Tol: sum,
			Doc: "Sum over axes; integers wrap. Over no elements: 0."},
		OpInfo{Op: OpMean, Name: "mean", Class: ClassReduce, Args: x,
			Fold: foldOf(meanOf(0), sumOf("row_sum", nil)), Attrs: attrs,
			Infer: inferReduce([]Kind{KindFloat}), Tol: sum,
			Doc: "Arithmetic mean over axes. Over no elements: NaN."},
		OpInfo{Op: OpProd, Name: "prod", Class: ClassReduce, Args: x,
			Fold: basic(OpProd, "row_prod"), Attrs: attrs,
			Infer: inferReduce(number), Tol: sum,
			Doc: "Product over axes; integers wrap. Over no elements: 1."},
		OpInfo{Op: OpReduceMax, Name: "reduce_max", Class: ClassReduce, Args: x,
			Fold: basic(OpReduceMax, "row_max"), Attrs: attrs,
			Infer: inferReduce(number), Tol: exact,
			Doc: "Largest element over axes, NaN if there is one. Over no elements: the smallest value of the dtype."},
		OpInfo{Op: OpReduceMin, Name: "reduce_min", Class: ClassReduce, Args: x,
			Fold: basic(OpReduceMin, "row_min"), Attrs: attrs,
			Infer: inferReduce(number), Tol: exact,
			Doc: "Smallest element over axes, NaN if there is one. Over no elements: the largest value of the dtype."},
		OpInfo{Op: OpArgmax, Name: "argmax", Class: ClassReduce, Args: x,
			Fold: basic(OpArgmax, "row_argmax"), Attrs: arg, Infer: inferArg, Tol: exact, Picks: always,
			NoGrad: noIndices, Doc: "Coordinate (i32) of the first largest element along an axis; a NaN counts as largest."},
		OpInfo{Op: OpArgmin, Name: "argmin", Class: ClassReduce, Args: x,
			Fold: basic(OpArgmin, "row_argmin"), Attrs: arg, Infer: inferArg, Tol: exact, Picks: always,
			NoGrad: noIndices, Doc: "Coordinate (i32) of the first smallest element along an axis; a NaN counts as smallest."},
		OpInfo{Op: OpAny, Name: "any", Class: ClassReduce, Args: x,
			Fold: basic(OpAny, "row_any"), Attrs: attrs,
			Infer: inferReduce([]Kind{KindBool}), Tol: exact,
			NoGrad: noFloats, Doc: "Whether any element over axes is true. Over no elements: false."},
		OpInfo{Op: OpAll, Name: "all", Class: ClassReduce, Args: x,
			Fold: basic(OpAll, "row_all"), Attrs: attrs,
			Infer: inferReduce([]Kind{KindBool}), Tol: exact,
			NoGrad: noFloats, Doc: "Whether all elements over axes are true. Over no elements: true."},
		OpInfo{Op: OpNorm1, Name: "norm1", Class: ClassReduce, Args: x,
			Fold: foldOf(result(0), sumOf("sum_abs", magnitude)), Attrs: attrs,
			Infer: inferReduce(float), Tol: sum,
			Doc: "Sum of absolute values over axes. Over no elements: 0."},
		OpInfo{Op: OpNorm2, Name: "norm2", Class: ClassReduce, Args: x,
			Fold: &norm2, Attrs: attrs,
			Infer: inferReduce(float), Tol: sum,
			Doc: "Square root of the sum of squares over axes. Over no elements: 0."},
		OpInfo{Op: OpNormP, Name: "norm_p", Class: ClassReduce, Args: x,
			Fold: normP, Attrs: append([]AttrInfo{{Name: "p", Kind: AttrFloat, Doc: "the power, above 0", Samples: []any{3.0, 0.5}}}, attrs...),
			Infer: inferNormP, Tol: Tolerance{Eps: 2048, Abs: 1e-5, Sum: true},
			Doc: "sum(|x|^p)^(1/p) over axes. Over no elements: 0."},
		OpInfo{Op: OpLogSumExp, Name: "logsumexp", Class: ClassReduce, Args: x,
			Fold: foldOf(lse, exponentials()...), Attrs: attrs, Infer: inferReduce(float),
			Tol: Tolerance{Eps: 256, Abs: 1e-5, Sum: true},
			Doc: "max+log(sum(exp(x-max))) over axes. If max is infinite, it is the result. Over no elements: -inf."},
		OpInfo{Op: OpVariance, Name: "variance", Class: ClassReduce, Args: x,
			Fold:  foldOf(scalarOf(OpDiv, squares, &Scalar{Leaf: LeafCount, Attr: "correction"}), deviations...),
			Attrs: append([]AttrInfo{correction}, attrs...), Infer: inferVariance, Tol: Tolerance{Eps: 256, Abs: 1e-6, Sum: true},
			Doc: "sum((x-mean)^2)/max(n-correction, 0) over axes of n elements. Where the divisor is 0, the result is NaN or inf."},
	)
}

// inferVariance infers the type of a variance of floats, as inferReduce does. It also checks attribute correction.
func inferVariance(c *Call) (Type, error) {
	if k := c.Attrs.Int("correction"); k < 0 || k > maxElems {
		return Type{}, fmt.Errorf("correction %d is outside 0..%d", k, int64(maxElems))
	}
	return inferReduce([]Kind{KindFloat})(c)
}

// inferNormP infers the type of a norm of floats, as inferReduce does. It also checks attribute p.
func inferNormP(c *Call) (Type, error) {
	if p := c.Attrs.Float("p"); !(p > 0) || math.IsInf(p, 1) {
		return Type{}, fmt.Errorf("p is %v: want a finite number above 0", p)
	}
	return inferReduce([]Kind{KindFloat})(c)
}

// inferReduce returns the type rule of a reduction over attribute axes, of an argument with a dtype of these kinds.
func inferReduce(kinds []Kind) func(*Call) (Type, error) {
	return func(c *Call) (Type, error) {
		if err := c.wantKinds(0, kinds...); err != nil {
			return Type{}, err
		}
		fold, err := ResolveAxes(c.Attrs.Ints("axes"), len(c.Shape(0)))
		if err != nil {
			return Type{}, err
		}
		return Type{c.DType(0), foldShape(c.Shape(0), fold, c.Attrs.Bool("keepdims"))}, nil
	}
}

// inferArg is the type rule of argmax and argmin: i32 coordinates along one axis.
func inferArg(c *Call) (Type, error) {
	if err := c.wantKinds(0, KindFloat, KindInt, KindUint); err != nil {
		return Type{}, err
	}
	s := c.Shape(0)
	axis, err := c.axis("axis", len(s))
	if err != nil {
		return Type{}, err
	}
	if s[axis].Max() == 0 {
		return Type{}, fmt.Errorf("axis %d of %s is empty: it has no extreme element", axis, s)
	}
	fold := make([]bool, len(s))
	fold[axis] = true
	return Type{I32, foldShape(s, fold, c.Attrs.Bool("keepdims"))}, nil
}

// foldShape returns s without the axes marked in fold, or with extent 1 for them if keep is set.
func foldShape(s Shape, fold []bool, keep bool) Shape {
	out := Shape{}
	for i, d := range s {
		switch {
		case !fold[i]:
			out = append(out, d)
		case keep:
			out = append(out, D(1))
		}
	}
	return out
}
