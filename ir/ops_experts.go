package ir

import (
	"fmt"
	"slices"
)

// init adds the rows of the ops for a mixture of experts to the op table.
func init() {
	rows(
		OpInfo{Op: OpMatMulID, Name: "matmul_id", Class: ClassContraction,
			Args:  []ArgInfo{{Name: "x"}, {Name: "weights"}, {Name: "ids", Picks: "weights"}, {Name: "groups", Optional: true}},
			Attrs: []AttrInfo{precisionAttr}, Infer: inferMatMulID, Tol: Tolerance{Eps: 64, Abs: 1e-5, Sum: true},
			Doc: "Matmul of each row by a matrix that an index picks, for mixtures of experts. result[t, u, n] = the sum over k of x[t, u, k] * weights[ids[t, u], n, k]. x is [T, U, K] or [T, 1, K], weights is [E, N, K] and may be quantized, and ids is [T, U]. Sums are accumulated in f32 and have x's dtype. Out-of-range ids are clamped; constant ones are refused. Leave out groups, the last argument. Passes add it for speed: it is the result of expert_groups of the same ids, a list of the rows by matrix, and has no effect on the values."},
		OpInfo{Op: OpExpertGroups, Name: "expert_groups", Class: ClassIndexing, Args: []ArgInfo{{Name: "ids"}},
			Attrs: []AttrInfo{
				{Name: "experts", Kind: AttrInt, Doc: "number of experts; ids are clamped to 0 … experts-1"},
				{Name: "rows", Kind: AttrInt, Doc: "maximum number of positions in a group"},
			}, Infer: inferExpertGroups,
			NoGrad: noIndices, Doc: "Groups the row-major positions of ids by id, with at most rows positions in a group. Row g of the result [G, 1+rows] is the id of group g and its positions in ascending order, padded with -1. Groups are ordered by id, then by position. G is the largest possible number of groups. Unused groups are all -1."},
	)
}

// inferMatMulID is the type rule of matmul_id: [T, U, N] for weights [E, N, K] of E experts and ids [T, U] of the U
// experts that each of T rows uses.
func inferMatMulID(c *Call) (Type, error) {
	x, w, ids := c.Shape(0), c.Shape(1), c.Shape(2)
	if err := c.wantKinds(0, KindFloat); err != nil {
		return Type{}, err
	}
	if !c.DType(1).IsBlock() {
		if err := c.wantSame(0, 1); err != nil {
			return Type{}, err
		}
	}
	if err := c.wantIndices(2); err != nil {
		return Type{}, err
	}
	if len(x) != 3 || len(w) != 3 || len(ids) != 2 {
		return Type{}, fmt.Errorf("%s is %s, %s %s and %s %s: want [T, U or 1, K], [E, N, K] and [T, U]", c.arg(0), x,
			c.arg(1), w, c.arg(2), ids)
	}
	if x[0] != ids[0] || x[1] != ids[1] && !x[1].Is(1) {
		return Type{}, fmt.Errorf("%s is %s and %s %s: want [T, U or 1, K] and [T, U]", c.arg(0), x, c.arg(2), ids)
	}
	if x[2] != w[2] {
		return Type{}, fmt.Errorf("%s is %s and %s %s: contraction extents %s and %s differ", c.arg(0), x, c.arg(1), w,
			x[2], w[2])
	}
	if !w[0].IsStatic() || !ids[1].IsStatic() {
		return Type{}, fmt.Errorf("%s is %s and %s %s: the number of experts and the number used per row must not be "+
			"symbolic",
			c.arg(1), w, c.arg(2), ids)
	}
	if err := wantSomething(w, 0); err != nil {
		return Type{}, err
	}
	if err := c.wantInRange(2, w[0].Add); err != nil {
		return Type{}, err
	}
	if len(c.Args) > 3 {
		g := c.Args[3]
		if g.Op() != OpExpertGroups || g.Arg(0) != c.Args[2] || int64(g.Attrs().Int("experts")) != w[0].Add ||
			g.DType() != I32 {
			return Type{}, fmt.Errorf("groups is %s, want expert_groups of the same ids for %s experts", g.Op(), w[0])
		}
	}
	return Type{c.DType(0), append(slices.Clone(ids), w[1])}, nil
}

// wantInRange returns an error if argument i is a constant with an element outside of 0 to n-1.
func (c *Call) wantInRange(i int, n int64) error {
	a := c.Args[i]
	if a.Op() != OpConst {
		return nil
	}
	d := a.Attrs().Data("data")
	values := make([]int64, d.Elems())
	DecodeInts(values, d.DType, d.Bytes)
	for j, v := range values {
		if v < 0 || v >= n {
			return fmt.Errorf("element %d of %s is %d, want 0 to %d", j, c.arg(i), v, n-1)
		}
	}
	return nil
}

// maxGroupRows is the largest number of rows in a group of expert_groups.
const maxGroupRows = 1 << 10

// inferExpertGroups is the type rule of expert_groups: [G, 1+rows], for the largest possible number of groups G.
func inferExpertGroups(c *Call) (Type, error) {
	if err := c.wantIndices(0); err != nil {
		return Type{}, err
	}
	experts, rows := int64(c.Attrs.Int("experts")), int64(c.Attrs.Int("rows"))
	switch {
	case experts < 1 || experts > maxElems:
		return Type{}, fmt.Errorf("experts is %d, want at least 1", experts)
	case rows < 1 || rows > maxGroupRows:
		return Type{}, fmt.Errorf("rows is %d, want 1 to %d", rows, maxGroupRows)
	}
	n := c.Shape(0).MaxElems()
	// Each expert has at most one partial group, and only if it has a row.
	groups := (n + (rows-1)*min(experts, n)) / rows
	return Type{I32, Shape{{Add: groups}, {Add: 1 + rows}}}, nil
}
