package ir

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
)

// init adds the rows of the views to the op table.
func init() {
	x := []ArgInfo{{Name: "x"}}
	rows(
		OpInfo{Op: OpReshape, Name: "reshape", Class: ClassView, Moves: true, Args: x,
			Attrs: []AttrInfo{{Name: "shape", Kind: AttrShape, Doc: "the new shape, with as many elements"}},
			Infer: inferReshape, Doc: "The same elements in row-major order under another shape; blocks keep theirs."},
		OpInfo{Op: OpTranspose, Name: "transpose", Class: ClassView, Moves: true, Args: x,
			Attrs: []AttrInfo{{Name: "perm", Kind: AttrInts, Doc: "result axis i is axis perm[i] of x"}},
			Infer: inferTranspose, Doc: "Permutes the axes."},
		OpInfo{Op: OpSlice, Name: "slice", Class: ClassView, Moves: true, Args: x,
			Attrs: []AttrInfo{
				{Name: "starts", Kind: AttrInts, Doc: "first coordinate per axis"},
				{Name: "limits", Kind: AttrShape, Doc: "end (exclusive) per axis; may hold symbols"},
				{Name: "steps", Kind: AttrInts, Default: []int64{}, Doc: "step per axis, at least 1; empty means 1 everywhere"},
			},
			Infer: inferSlice, Doc: "The elements from starts to limits in steps, along each axis."},
		OpInfo{Op: OpBroadcast, Name: "broadcast", Class: ClassView, Moves: true, Args: x,
			Attrs: []AttrInfo{{Name: "shape", Kind: AttrShape, Doc: "the new shape; axes align at the innermost, extents equal or 1"}},
			Infer: inferBroadcast, Doc: "Repeats x along axes of extent 1 and along new outer axes."},
		OpInfo{Op: OpSqueeze, Name: "squeeze", Class: ClassView, Moves: true, Args: x,
			Attrs: []AttrInfo{{Name: "axes", Kind: AttrInts, Doc: "axes of extent 1 to drop"}},
			Infer: inferSqueeze, Doc: "Drops axes of extent 1."},
		OpInfo{Op: OpUnsqueeze, Name: "unsqueeze", Class: ClassView, Moves: true, Args: x,
			Attrs: []AttrInfo{{Name: "axes", Kind: AttrInts, Doc: "positions of the new axes in the result"}},
			Infer: inferUnsqueeze, Doc: "Inserts axes of extent 1."},
		OpInfo{Op: OpFlip, Name: "flip", Class: ClassView, Moves: true, Args: x,
			Attrs: []AttrInfo{{Name: "axes", Kind: AttrInts, Doc: "axes to reverse; empty means all"}},
			Infer: inferFlip, Doc: "Reverses the order along axes."},
		OpInfo{Op: OpRoll, Name: "roll", Class: ClassView, Moves: true, Args: x,
			Attrs: []AttrInfo{{Name: "shifts", Kind: AttrInts, Doc: "number of places that the elements move, per " +
				"axis; negative numbers move to lower coordinates"}},
			Infer: inferRoll, Doc: "Moves the elements along the axes. Elements that leave one end come in at the " +
				"other: result[i] = x[(i-shift) mod n]."},
	)
}

// rejectBlocks returns an error for block dtypes, because their elements cannot be moved individually.
func (c *Call) rejectBlocks() error {
	if c.DType(0).IsBlock() {
		return fmt.Errorf("%s is %s: the op would split its blocks: apply dequantize first (fusion keeps it free)",
			c.arg(0), c.DType(0))
	}
	return nil
}

// inferReshape is the type rule of reshape: both shapes must have as many elements.
func inferReshape(c *Call) (Type, error) {
	to := c.Attrs.Shape("shape")
	if to.Equal(c.Shape(0)) {
		return Type{c.DType(0), to}, nil // also for blocks, which do not change
	}
	if err := c.rejectBlocks(); err != nil {
		return Type{}, err
	}
	if !c.Shape(0).SameNumel(to) {
		return Type{}, fmt.Errorf("cannot reshape %s %s to %s: the element counts differ", c.arg(0), c.Shape(0), to)
	}
	return Type{c.DType(0), to}, nil
}

// SameNumel reports whether two shapes have the same number of elements for all values of their symbols. It compares
// the two numbers as polynomials.
func (s Shape) SameNumel(t Shape) bool {
	p, q := numelPolynomial(s), numelPolynomial(t)
	return maps.EqualFunc(p, q, func(x, y *big.Int) bool { return x.Cmp(y) == 0 })
}

// numelPolynomial expands the number of elements to a polynomial: it maps each term's symbols, sorted and each followed
// by a space, to the coefficient. [T+1, B] gives "B T ": 1 and "B ": 1.
func numelPolynomial(s Shape) map[string]*big.Int {
	number := big.NewInt(1)
	var factors []Dim // those that are not numbers
	for _, d := range s {
		for _, f := range d.Factors() {
			if f.IsStatic() {
				number.Mul(number, big.NewInt(f.Add))
			} else {
				factors = append(factors, f)
			}
		}
	}
	p := map[string]*big.Int{}
	addTo(p, "", number, 1)
	for _, d := range factors {
		product := map[string]*big.Int{}
		for symbols, c := range p {
			addTo(product, symbols, c, d.Add)
			all := append(strings.Fields(symbols), d.Sym)
			slices.Sort(all)
			addTo(product, strings.Join(all, " ")+" ", c, d.Mul)
		}
		p = product
	}
	return p
}

// addTo adds c*n to the coefficient of a term in p.
func addTo(p map[string]*big.Int, symbols string, c *big.Int, n int64) {
	term := new(big.Int).Mul(c, big.NewInt(n))
	if have := p[symbols]; have != nil {
		term.Add(term, have)
	}
	p[symbols] = term
	if term.Sign() == 0 {
		delete(p, symbols)
	}
}

// inferTranspose is the type rule of transpose.
func inferTranspose(c *Call) (Type, error) {
	perm, s := c.Attrs.Ints("perm"), c.Shape(0)
	if len(perm) != len(s) {
		return Type{}, fmt.Errorf("perm %v does not permute rank %d", perm, len(s))
	}
	if err := c.rejectBlocks(); err != nil {
		return Type{}, err
	}
	out := make(Shape, len(s))
	seen := make([]bool, len(s))
	for i, p := range perm {
		if p < 0 || p >= int64(len(s)) || seen[p] {
			return Type{}, fmt.Errorf("perm %v does not permute rank %d", perm, len(s))
		}
		seen[p] = true
		out[i] = s[p]
	}
	return Type{c.DType(0), out}, nil
}

// inferSlice is the type rule of slice.
func inferSlice(c *Call) (Type, error) {
	s, starts, limits, steps := c.Shape(0), c.Attrs.Ints("starts"), c.Attrs.Shape("limits"), c.Attrs.Ints("steps")
	if len(starts) != len(s) || len(limits) != len(s) || len(steps) != 0 && len(steps) != len(s) {
		return Type{}, fmt.Errorf("starts %v, limits %s and steps %v do not fit rank %d", starts, limits, steps, len(s))
	}
	out := make(Shape, len(s))
	for i := range s {
		step := int64(1)
		if len(steps) > 0 {
			step = steps[i]
		}
		d, err := sliceDim(s[i], starts[i], limits[i], step)
		if err != nil {
			return Type{}, fmt.Errorf("axis %d of %s %s: %w", i, c.arg(0), s, err)
		}
		if c.DType(0).IsBlock() && i == len(s)-1 && d != s[i] {
			return Type{}, fmt.Errorf("%s is %s: only whole rows can be sliced", c.arg(0), c.DType(0))
		}
		out[i] = d
	}
	return Type{c.DType(0), out}, nil
}

// sliceDim returns the number of coordinates from start up to, not including, limit in steps, on an axis of extent d.
func sliceDim(d Dim, start int64, limit Dim, step int64) (Dim, error) {
	switch {
	case step < 1:
		return Dim{}, fmt.Errorf("step %d is under 1 (use flip to reverse)", step)
	case start < 0 || start > maxElems:
		return Dim{}, fmt.Errorf("start %d is outside 0..%d", start, int64(maxElems))
	case !sliceLimitFits(d, limit):
		return Dim{}, fmt.Errorf("limit %s can pass the extent %s", limit, d)
	case limit.IsStatic() && start > limit.Add:
		return Dim{}, fmt.Errorf("start %d is past limit %s", start, limit)
	}
	n := limit.Plus(-start)
	if step == 1 {
		return n, nil
	}
	if n.IsStatic() {
		q := n.Add / step
		if n.Add%step != 0 {
			q++ // not (n+step-1)/step, which overflows for a huge step
		}
		return Dim{Add: q}, nil
	}
	if step > maxElems {
		return Dim{}, fmt.Errorf("step %d is over %d", step, int64(maxElems))
	}
	return n.Plus(step - 1).FloorQuo(step)
}

// sliceLimitFits reports whether limit <= d for every value of the symbols.
func sliceLimitFits(d, limit Dim) bool {
	if d.Sym == limit.Sym { // both are linear in the symbol: compare them at its bound and at 0
		return limit.Max() <= d.Max() && limit.Add <= d.Add
	}
	if more, err := d.Less(limit); err == nil {
		return more.Add >= 0
	}
	return limit.Max() <= d.Min()
}

// inferBroadcast is the type rule of broadcast: x must broadcast to the shape.
func inferBroadcast(c *Call) (Type, error) {
	to := c.Attrs.Shape("shape")
	if err := c.rejectBlocks(); err != nil {
		return Type{}, err
	}
	out, err := BroadcastShapes(c.Shape(0), to)
	if err != nil || !out.Equal(to) {
		return Type{}, fmt.Errorf("%s %s does not broadcast to %s", c.arg(0), c.Shape(0), to)
	}
	return Type{c.DType(0), to}, nil
}

// inferSqueeze is the type rule of squeeze: the removed axes must have extent 1.
func inferSqueeze(c *Call) (Type, error) {
	s := c.Shape(0)
	drop, err := ResolveAxes(c.Attrs.Ints("axes"), len(s))
	if err != nil {
		return Type{}, err
	}
	if len(c.Attrs.Ints("axes")) == 0 { // ResolveAxes returns all axes for an empty list
		clear(drop)
	}
	if err := c.rejectBlocks(); err != nil {
		return Type{}, err
	}
	out := Shape{}
	for i, d := range s {
		switch {
		case !drop[i]:
			out = append(out, d)
		case !d.Is(1):
			return Type{}, fmt.Errorf("axis %d of %s %s is not 1", i, c.arg(0), s)
		}
	}
	return Type{c.DType(0), out}, nil
}

// inferUnsqueeze is the type rule of unsqueeze. The axes are positions in the result.
func inferUnsqueeze(c *Call) (Type, error) {
	s, axes := c.Shape(0), c.Attrs.Ints("axes")
	rank := len(s) + len(axes)
	if rank > MaxRank {
		return Type{}, fmt.Errorf("rank %d is over the limit of %d", rank, MaxRank)
	}
	add, err := ResolveAxes(axes, rank)
	if err != nil {
		return Type{}, err
	}
	if len(axes) == 0 { // ResolveAxes returns all axes for an empty list
		clear(add)
	}
	if err := c.rejectBlocks(); err != nil {
		return Type{}, err
	}
	out := make(Shape, 0, rank)
	for i, next := 0, 0; i < rank; i++ {
		if add[i] {
			out = append(out, D(1))
			continue
		}
		out = append(out, s[next])
		next++
	}
	return Type{c.DType(0), out}, nil
}

// inferFlip checks the axes. The result has the argument's type.
func inferFlip(c *Call) (Type, error) {
	if err := c.rejectBlocks(); err != nil {
		return Type{}, err
	}
	_, err := ResolveAxes(c.Attrs.Ints("axes"), len(c.Shape(0)))
	return Type{c.DType(0), c.Shape(0)}, err
}

// inferRoll is the type rule of roll.
func inferRoll(c *Call) (Type, error) {
	if err := c.rejectBlocks(); err != nil {
		return Type{}, err
	}
	shifts, s := c.Attrs.Ints("shifts"), c.Shape(0)
	if len(shifts) != len(s) {
		return Type{}, fmt.Errorf("shifts %v does not fit rank %d", shifts, len(s))
	}
	for _, n := range shifts {
		if n < -maxElems || n > maxElems {
			return Type{}, fmt.Errorf("shifts %v is out of range: the limit is %d", shifts, int64(maxElems))
		}
	}
	return Type{c.DType(0), s}, nil
}
