package ir

import (
	"fmt"
	"slices"
)

// init adds the rows of ops that are defined by other ops to the op table.
func init() {
	x := []ArgInfo{{Name: "x"}}
	k := []AttrInfo{{Name: "k", Kind: AttrInt, Default: int64(0),
		Doc: "the diagonal at the triangle's edge: k to the right of the main diagonal"}}
	rows(
		OpInfo{Op: OpBatchNorm, Name: "batch_norm", Class: ClassComposite,
			Args:  []ArgInfo{{Name: "x"}, {Name: "mean"}, {Name: "variance"}, {Name: "weight", Optional: true}, {Name: "bias", Optional: true}},
			Attrs: []AttrInfo{{Name: "eps", Kind: AttrFloat, Default: 1e-5, Doc: "added to the variance"}}, Infer: inferBatchNorm, Tol: Tolerance{Eps: 64, Abs: 1e-6, Sum: true},
			Doc: "(x-mean)*rsqrt(variance+eps)*weight+bias of x[N, C, …] with stored statistics (Ioffe and Szegedy 2015). The four parameters are [C]. Decomposes to sub, add, rsqrt and mul on the parameters reshaped to [C, 1, …]."},
		OpInfo{Op: OpTril, Name: "tril", Class: ClassComposite, Args: x, Attrs: k, Infer: inferTriangle,
			Doc: "Lower triangle of the two innermost axes: x where column-row <= k, else 0 (false). Decomposes to where(le(iota-iota, k), x, 0)."},
		OpInfo{Op: OpTriu, Name: "triu", Class: ClassComposite, Args: x, Attrs: k, Infer: inferTriangle,
			Doc: "Upper triangle of the two innermost axes: x where column-row >= k, else 0 (false). Decomposes to where(ge(iota-iota, k), x, 0)."},
		OpInfo{Op: OpOneHot, Name: "one_hot", Class: ClassComposite, Args: []ArgInfo{{Name: "indices"}},
			Attrs: []AttrInfo{
				{Name: "depth", Kind: AttrInt, Doc: "the extent of the new innermost axis"},
				{Name: "dtype", Kind: AttrDType, Default: F32, Doc: "the result dtype"},
			}, Infer: inferOneHot,
			NoGrad: noFloatsIn, Doc: "1 at coordinate indices[…] of a new innermost axis and 0 elsewhere; an index out of range gives zeros. Decomposes to cast(eq(unsqueeze(indices), iota))."},
		OpInfo{Op: OpRopeTables, Name: "rope_tables", Class: ClassComposite,
			Args:  []ArgInfo{{Name: "x"}, {Name: "cos"}, {Name: "sin"}},
			Attrs: []AttrInfo{ropeMode("pairs")}, Infer: inferRopeTables, Tol: Tolerance{Eps: 64, Abs: 1e-6, Sum: true},
			Doc: "Rotary position embedding (Su et al. 2021) by tables: pair (a, b) of innermost elements becomes (a*cos-b*sin, a*sin+b*cos). The innermost axis of the tables has one value per pair. Their outer axes broadcast to x: [T, pairs] for x[B, H, T, D]. The op rotates the first 2*pairs elements of x and copies the others. Decomposes to y*cos+flip(y)*sin*sign. y has the rotated elements of x, reshaped to [..., pairs, 2], or to [..., 2, pairs] for mode half: a pair lies along the axis of extent 2. flip exchanges the elements of each pair. sign is -1 for the first element and 1 for the second."},
	)
}

func inferBatchNorm(c *Call) (Type, error) { return c.channels(1) }

// inferTriangle is the type rule of tril and triu: the type of the argument, which has rows and columns.
func inferTriangle(c *Call) (Type, error) {
	if err := c.rejectBlocks(); err != nil {
		return Type{}, err
	}
	s := c.Shape(0)
	if len(s) < 2 {
		return Type{}, fmt.Errorf("%s is %s, want [..., rows, columns]", c.arg(0), s)
	}
	if k := int64(c.Attrs.Int("k")); k < -maxElems || k > maxElems {
		return Type{}, fmt.Errorf("diagonal %d is out of range: the limit is %d", k, int64(maxElems))
	}
	return Type{c.DType(0), s}, nil
}

// inferOneHot is the type rule of one_hot: it appends an axis of extent depth.
func inferOneHot(c *Call) (Type, error) {
	if err := c.wantIndices(0); err != nil {
		return Type{}, err
	}
	depth, t := c.Attrs.Int("depth"), c.Attrs.DType("dtype")
	switch {
	case depth < 0:
		return Type{}, fmt.Errorf("depth is %d, want 0 or more", depth)
	case t.IsBlock():
		return Type{}, fmt.Errorf("%s cannot hold single elements", t)
	}
	return Type{t, append(slices.Clone(c.Shape(0)), D(depth))}, nil
}

// inferRopeTables is the type rule of rope_tables: the tables must broadcast to x, with one element per pair of
// elements that the op rotates.
func inferRopeTables(c *Call) (Type, error) {
	for i := range c.Args {
		if err := c.wantKinds(i, KindFloat); err != nil {
			return Type{}, err
		}
	}
	x, tables := c.Shape(0), c.Shape(1)
	if len(x) == 0 || len(tables) == 0 || len(x) == MaxRank {
		return Type{}, fmt.Errorf("%s is %s and %s %s: want [..., elements] of at most %d axes and [..., pairs]",
			c.arg(0), x, c.arg(1), tables, MaxRank-1)
	}
	elements, pairs := x[len(x)-1], tables[len(tables)-1]
	if !elements.IsStatic() || !pairs.IsStatic() || pairs.Add > elements.Add/2 {
		return Type{}, fmt.Errorf("%s %s turns %s pairs of the %s innermost elements of %s %s: want a number of "+
			"pairs, at most half the number of elements", c.arg(1), tables, pairs, elements, c.arg(0), x)
	}
	turned := append(slices.Clone(x[:len(x)-1]), pairs)
	for i := 1; i < len(c.Args); i++ {
		s := c.Shape(i)
		all, err := BroadcastShapes(turned, s)
		if err != nil || !all.Equal(turned) || len(s) == 0 || s[len(s)-1] != pairs {
			return Type{}, fmt.Errorf("%s is %s, want a shape that broadcasts to %s: the pairs of %s %s", c.arg(i),
				s, turned, c.arg(0), x)
		}
	}
	return Type{c.DType(0), x}, nil
}
