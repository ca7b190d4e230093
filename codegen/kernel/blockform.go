package kernel

import "github.com/vkc-go/vkc/ir"

// PackedPlanes is the number of quants per byte in packed multiplication.
const PackedPlanes = 4

// RoundedGroup is how many neighbours share a scale in rows that become bytes.
const RoundedGroup = ir.ByteGroup

// BlockRun describes how an invocation reads blocks along the contraction axis: Elems elements of one block at a time,
// in strips of quads. A strip shares a scale, so the scale is decoded once and applied to a whole sum:
//
//	sum(x * scale * (q - bias)) = scale * (sum(x * q) - bias * sum(x))
type BlockRun struct {
	DType  ir.DType
	Form   ir.BlockForm
	Elems  int // elements of a block that an invocation reads at once
	Strips int // strips in a run, each with its own scale
	Quads  int // quads in a strip
	// Joined says that the strip spans planes that share the scale, and the run covers all of them.
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

// BlockRun returns the run of a matvec over blocks. If rows are quantized to int8, with a scale per group, a strip must
// lie within one group.
func (k *Kernel) BlockRun(s MatVec) BlockRun {
	t, want := k.BlockRows(), s.TileK
	r := NewBlockRun(t, want)
	for s.RoundRows && 4*r.Quads > RoundedGroup {
		want /= 2
		r = NewBlockRun(t, want)
	}
	return r
}

// takeStrips divides the run into several strips. A run longer than a scale's range has a strip per scale. With int8
// rows, a strip is no longer than a group of A that shares a scale.
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

// alignedQuants reports whether the blocks' data is aligned to 16 bytes.
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

// ReadsPairs reports whether the quants of two consecutive quads can be loaded at once: the format allows loading four,
// and the blocks' data is aligned.
func (b Binding) ReadsPairs() bool {
	f, ok := ir.BlockFormatOf(b.DType)
	return ok && f.Wide && !f.FourOnly && b.alignedQuants()
}

// BlockRows returns the block format of the B operands of a matmul. They must all have one format, and be whole rows of
// blocks along the contraction axis. Otherwise it returns ir.Invalid.
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

// ByteRows splits an A operand of the form int8 times scale, the form that matmuls in precision int8 have.
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

// InGroups reports whether a value is constant within each [RoundedGroup] along the contraction axis: its indices
// depend on the axis only through the number of the group.
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
