package ir

import (
	"fmt"
	"slices"
)

// init adds the rows of the ops that normalize or rotate rows to the op table.
func init() {
	tol := Tolerance{Eps: 256, Abs: 1e-6, Sum: true}
	eps := AttrInfo{Name: "eps", Kind: AttrFloat, Default: 1e-5, Doc: "added to the mean square or variance"}
	axis := []AttrInfo{{Name: "axis", Kind: AttrInt, Default: int64(-1), Doc: "the axis to normalize along"}}
	below := scalarOf(OpSub, element, result(0))
	inverse := func(square *Scalar) *Scalar {
		return named("scale", scalarOf(OpRsqrt, scalarOf(OpAdd, square, attrOf("eps"))))
	}
	steps, deviation, _ := deviations()
	variance := scalarOf(OpSub, meanOf(2), scalarOf(OpSqr, meanOf(1)))
	l2 := scalarOf(OpDiv, element, scalarOf(OpMax, scalarOf(OpSqrt, result(0)), attrOf("eps")))
	rows(
		OpInfo{Op: OpSoftmax, Name: "softmax", Class: ClassRow,
			Fold: foldOf(scalarOf(OpMul, scalarOf(OpExp, below), scalarOf(OpRecip, result(1))), exponentials()...), Args: []ArgInfo{{Name: "x"}}, Attrs: axis,
			Infer: inferAlongAxis, Tol: tol,
			Doc: "exp(x-max)/sum(exp(x-max)) along an axis."},
		OpInfo{Op: OpLogSoftmax, Name: "log_softmax", Class: ClassRow,
			Fold: foldOf(scalarOf(OpSub, below, scalarOf(OpLog, result(1))), exponentials()...), Args: []ArgInfo{{Name: "x"}}, Attrs: axis,
			Infer: inferAlongAxis, Tol: tol,
			Doc: "x-max-log(sum(exp(x-max))) along an axis."},
		OpInfo{Op: OpRMSNorm, Name: "rms_norm", Class: ClassRow,
			Fold: foldOf(scalarOf(OpMul, element, inverse(meanOf(0))), sumOf("sum_sq", scalarOf(OpSqr, element))),
			Args: []ArgInfo{{Name: "x"}, {Name: "weight", Optional: true}}, Attrs: []AttrInfo{eps}, Infer: inferNorm, Tol: tol,
			Doc: "x*rsqrt(mean(x^2)+eps)*weight along the innermost axis (Zhang and Sennrich 2019)."},
		OpInfo{Op: OpLayerNorm, Name: "layer_norm", Class: ClassRow,
			Fold: foldOf(scalarOf(OpMul, deviation, inverse(variance)), steps...),
			Args: []ArgInfo{{Name: "x"}, {Name: "weight", Optional: true}, {Name: "bias", Optional: true}}, Attrs: []AttrInfo{eps}, Infer: inferNorm, Tol: tol,
			Doc: "(x-mean)*rsqrt(var+eps)*weight+bias along the innermost axis (Ba et al. 2016); the variance is the biased one."},
		OpInfo{Op: OpRope, Cost: 40, Name: "rope", Class: ClassRow,
			Args: []ArgInfo{{Name: "x"}, {Name: "positions"}, {Name: "turns", Optional: true}},
			Attrs: []AttrInfo{
				{Name: "axis", Kind: AttrInt, Default: int64(-2), Doc: "the axis of x that positions runs along"},
				{Name: "base", Kind: AttrFloat, Default: 10000.0, Doc: "pair i turns by position*base^(-2i/dims)"},
				{Name: "dims", Kind: AttrInt, Default: int64(0), Doc: "number of innermost elements to rotate; 0 " +
					"means all"},
				ropeMode("dims/2"),
			}, Infer: inferRope, Tol: Tolerance{Eps: 1024, Abs: 1e-5, Sum: true},
			Doc: "Rotary position embedding (Su et al. 2021): rotates pairs of innermost elements by an angle proportional to the position. Positions are a vector [T], or one vector for each index of x's outermost axes: [B, T] for x[B, H, T, D]. By default pair i rotates by base^(-2i/dims) radians per position. With turns, u32[pairs, 2], pair i rotates by a fraction turns[i] of a full turn. The fraction has 64 bits, high word first."},
		OpInfo{Op: OpGroupNorm, Name: "group_norm", Class: ClassRow,
			Args:  []ArgInfo{{Name: "x"}, {Name: "weight", Optional: true}, {Name: "bias", Optional: true}},
			Attrs: []AttrInfo{{Name: "groups", Kind: AttrInt, Doc: "number of groups of consecutive channels; it divides C"}, eps}, Infer: inferGroupNorm, Tol: tol,
			Doc: "(x-mean)*rsqrt(var+eps)*weight+bias of x[N, C, …] per group of channels (Wu and He 2018). The mean and the biased variance are over a group's channels and all axes after them. weight and bias are [C]. One group is layer normalization of an image, and C groups are instance normalization."},
		OpInfo{Op: OpL2Normalize, Name: "l2_normalize", Class: ClassRow,
			Fold: foldOf(l2, sumOf("sum_sq", scalarOf(OpSqr, element))), Args: []ArgInfo{{Name: "x"}},
			Attrs: append([]AttrInfo{{Name: "eps", Kind: AttrFloat, Default: 1e-12, Doc: "the least divisor"}}, axis...), Infer: inferAlongAxis, Tol: tol,
			Doc: "x/max(norm2(x), eps) along an axis."},
	)
}

// ropeMode returns the attribute that says which elements form pairs. pairs is the name for the number of pairs in the
// op's documentation.
func ropeMode(pairs string) AttrInfo {
	return AttrInfo{Name: "mode", Kind: AttrString, Default: "interleaved", Enum: []string{"interleaved", "half"},
		Doc: "pairs are (2i, 2i+1), or (i, i+" + pairs + ")"}
}

// inferGroupNorm is the type rule of group_norm: the groups must divide the channels.
func inferGroupNorm(c *Call) (Type, error) {
	t, err := c.channels(1)
	if err != nil {
		return Type{}, err
	}
	groups := int64(c.Attrs.Int("groups"))
	if channels := t.Shape[1]; groups < 1 || !channels.IsStatic() || channels.Add%groups != 0 {
		return Type{}, fmt.Errorf("the %s channels of %s do not split into %d groups", channels, t.Shape, groups)
	}
	return t, nil
}

// channels checks that argument 0 is x[N, C, …] of floats, and that the arguments from params on have a float per
// channel.
func (c *Call) channels(params int) (Type, error) {
	if err := c.wantKinds(0, KindFloat); err != nil {
		return Type{}, err
	}
	s := c.Shape(0)
	if len(s) < 2 {
		return Type{}, fmt.Errorf("%s is %s, want [N, C, …]", c.arg(0), s)
	}
	for i := params; i < len(c.Args); i++ {
		if err := c.wantKinds(i, KindFloat); err != nil {
			return Type{}, err
		}
		if p := c.Shape(i); len(p) != 1 || p[0] != s[1] {
			return Type{}, fmt.Errorf("%s is %s, want [%s], one element per channel of %s %s", c.arg(i), p, s[1],
				c.arg(0), s)
		}
	}
	return Type{c.DType(0), s}, nil
}

// inferAlongAxis is the type rule of ops on rows of floats along an axis. The result has the argument's type.
func inferAlongAxis(c *Call) (Type, error) {
	if err := c.wantKinds(0, KindFloat); err != nil {
		return Type{}, err
	}
	_, err := c.axis("axis", len(c.Shape(0)))
	return Type{c.DType(0), c.Shape(0)}, err
}

// inferNorm is the type rule of rms_norm and layer_norm: parameters are vectors along the innermost axis.
func inferNorm(c *Call) (Type, error) {
	if err := c.wantKinds(0, KindFloat); err != nil {
		return Type{}, err
	}
	s := c.Shape(0)
	if len(s) == 0 {
		return Type{}, fmt.Errorf("%s is a scalar: there is no axis to normalize along", c.arg(0))
	}
	for i := 1; i < len(c.Args); i++ {
		if err := c.wantKinds(i, KindFloat); err != nil {
			return Type{}, err
		}
		if p := c.Shape(i); len(p) != 1 || p[0] != s[len(s)-1] {
			return Type{}, fmt.Errorf("%s is %s, want [%s], the innermost axis of %s", c.arg(i), p, s[len(s)-1],
				c.arg(0))
		}
	}
	return Type{c.DType(0), s}, nil
}

// inferRope is the type rule of rope: there is a position for each coordinate of the axis, perhaps per outer
// coordinate.
func inferRope(c *Call) (Type, error) {
	if err := c.wantKinds(0, KindFloat); err != nil {
		return Type{}, err
	}
	s := c.Shape(0)
	axis, err := c.axis("axis", len(s))
	if err != nil {
		return Type{}, err
	}
	if axis == len(s)-1 {
		return Type{}, fmt.Errorf("axis %d is the innermost, which holds the pairs", axis)
	}
	p := c.Args[1].typ
	outer := len(p.Shape) - 1
	if !p.DType.IsInteger() || outer < 0 || outer > axis ||
		!p.Shape.Equal(append(slices.Clone(s[:outer]), s[axis])) {
		return Type{}, fmt.Errorf("%s is %s, want i32[%s] along axis %d of %s, or with its outer axes before it",
			c.arg(1), p, s[axis], axis, c.arg(0))
	}
	inner := s[len(s)-1]
	dims := int64(c.Attrs.Int("dims"))
	if dims == 0 {
		dims = inner.Add
	}
	if !inner.IsStatic() || dims < 0 || dims%2 != 0 || dims > inner.Add {
		return Type{}, fmt.Errorf("cannot rotate %d of %s innermost elements: want an even number, at most all", dims,
			inner)
	}
	if want := (Type{U32, Shape{D(int(dims / 2)), D(2)}}); len(c.Args) > 2 && !c.Args[2].typ.Equal(want) {
		return Type{}, fmt.Errorf("%s is %s, want %s: two words for each pair that turns", c.arg(2), c.Args[2].typ,
			want)
	}
	return Type{c.DType(0), s}, nil
}
