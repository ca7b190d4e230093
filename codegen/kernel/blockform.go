package kernel

import "github.com/vkc-go/vkc/ir"

// PackedPlanes is how many quants a byte has where they are multiplied packed.
const PackedPlanes = 4

// RoundedGroup is how many neighbours share a scale in rows that become bytes.
const RoundedGroup = ir.ByteGroup

// BlockRun is how an invocation walks over blocks that lie along the
// contraction: Elems elements of one block at a time, in strips of quads that
// share a scale, so that a scale is unpacked once and applied to a whole sum:
//
//	sum(x * scale * (q - bias)) = scale * (sum(x * q) - bias * sum(x))
type BlockRun struct {
	DType  ir.DType
	Form   ir.BlockForm
	Elems  int // of a block, that an invocation takes at once
	Strips int // of them, a scale each
	Quads  int // of a strip
	// Joined says that the strip is planes one after another: they share the
	// scale, and the run has all of them.
	Joined bool
}

// NewBlockRun returns the run for about want elements at once.
func NewBlockRun(t ir.DType, want int) BlockRun {
	r := BlockRun{DType: t, Strips: 1}
	if row, ok := ir.BlockFormatOf(t); ok {
		r.Form = row.BlockForm
	}
	f := r.Form
	perPlane, most := max(want/4/f.Planes, 1), f.Run/4
	if f.Interleaved() {
		r.Strips, most = f.Planes, min(most, f.Stride/4)
	} else {
		most /= f.Planes
	}
	for most%perPlane != 0 {
		perPlane--
	}
	r.Quads = perPlane * f.Planes / r.Strips
	r.Elems = 4 * perPlane * f.Planes
	switch {
	case !f.Interleaved():
		r.takeStrips(min(want, t.BlockElems()))
	case r.Elems == f.Superblock() && r.Elems <= f.Run && r.Elems <= RoundedGroup:
		r.Joined, r.Strips, r.Quads = true, 1, r.Elems/4
	}
	return r
}

// BlockRun returns the run of a matvec over blocks: rows that become bytes have a
// scale for every group of them, and strips then lie in one.
func (k *Kernel) BlockRun(s Schedule) BlockRun {
	t, want := k.BlockRows(), s.TileK
	r := NewBlockRun(t, want)
	for s.RoundRows && 4*r.Quads > RoundedGroup {
		want /= 2
		r = NewBlockRun(t, want)
	}
	return r
}

// takeStrips makes the run several strips, one after another: of other scales
// where it is to be longer than a scale goes, or no longer than bytes of A share
// theirs.
func (r *BlockRun) takeStrips(want int) {
	if r.Elems == r.Form.Run {
		for n := want / r.Elems; n > 1; n-- {
			if r.DType.BlockElems()%(n*r.Elems) == 0 {
				r.Strips, r.Elems = n, n*r.Elems
				break
			}
		}
	}
	if long := 4 * r.Quads / RoundedGroup; long > 1 && 4*r.Quads%RoundedGroup == 0 {
		r.Strips, r.Quads = r.Strips*long, r.Quads/long
	}
}

// Scales is how many different scales the strips have.
func (r BlockRun) Scales() int {
	return max(min(r.Strips, max(r.Elems, r.Form.Superblock())/max(r.Form.Run, 1)), 1)
}

// StripStride is how many elements strips begin after one another.
func (r BlockRun) StripStride() int {
	if r.Form.Interleaved() {
		return r.Form.Stride
	}
	return 4 * r.Quads
}

// aligned reports whether what blocks hold is aligned to sixteen bytes.
func (b Binding) alignedQuants() bool {
	return b.Layout == LayoutPlanes || b.DType.BlockBytes()%16 == 0
}

// Wide reports whether the quants of a strip are read sixteen bytes at a time.
func (r BlockRun) Wide(b Binding) bool {
	f := r.Form
	return f.Wide && r.Quads%4 == 0 && b.alignedQuants() && (!r.Joined || f.Stride == 16) &&
		(f.Interleaved() || f.Planes == 1)
}

// Pairs reports whether the quants of a strip are read eight bytes at a time.
func (r BlockRun) Pairs(b Binding) bool {
	return b.ReadsPairs() && r.Quads == 2 && r.Form.Planes == 1
}

// ReadsPairs reports whether quants of two quads in a row can be had at once:
// where those of four can, and wherever what the blocks hold is aligned as well.
func (b Binding) ReadsPairs() bool {
	f, ok := ir.BlockFormatOf(b.DType)
	return ok && f.Wide && !f.FourOnly && b.alignedQuants()
}

// BlockRows returns the format of the B operands of a product where all are
// blocks of one, rows of whole blocks along the contraction, as they stand in
// memory, and ir.Invalid where they are not.
func (k *Kernel) BlockRows() ir.DType {
	t := ir.Invalid
	for _, p := range k.Products {
		x := Widened(p.B)
		if x.Kind != ExprLoad {
			return ir.Invalid
		}
		b := k.Bindings[x.Bind]
		n := b.DType.BlockElems()
		if !b.DType.IsBlock() || b.Write || t != ir.Invalid && b.DType != t || !x.Index.Adjacent(k.FoldAxis(), n) {
			return ir.Invalid
		}
		t = b.DType
	}
	if t == ir.Invalid {
		return t
	}
	if _, whole := k.Fold.Quo(int64(t.BlockElems())); !whole {
		return ir.Invalid
	}
	return t
}

// ByteRows takes apart an A of a matrix product that is bytes times a scale,
// which is what a product in precision int8 becomes.
func (k *Kernel) ByteRows(v *Expr) (bytes, scale *Expr, ok bool) {
	if v.Kind != ExprApply || v.Op != ir.OpMul {
		return nil, nil, false
	}
	for i, x := range v.Args {
		if x.Kind != ExprApply || x.Op != ir.OpCast || x.DType != ir.F32 {
			continue
		}
		if x = x.Args[0]; x.Kind == ExprLoad && x.DType == ir.I8 && !k.Bindings[x.Bind].Write {
			return x, v.Args[1-i], true
		}
	}
	return nil, nil, false
}

// InGroups reports whether a value is the same for a whole [RoundedGroup] along the
// contraction: whether its places depend on that only as on whole groups.
func (k *Kernel) InGroups(value *Expr) bool {
	same, fold := true, k.FoldAxis()
	Walk([]*Expr{value}, func(e *Expr) {
		for _, t := range e.Index.Terms() {
			for _, f := range t.Factors {
				if f.Kind == FactorAxis && f.Axis == fold || f.X.Uses(fold) || f.D.Uses(fold) ||
					f.Value != nil && f.Value.Uses(fold) {
					same = same && f.Kind == FactorDiv && f.X.Equal(Axis(fold, k.Fold)) && f.D.IsConst() &&
						f.D.Offset()%RoundedGroup == 0
				}
			}
		}
	})
	return same
}
