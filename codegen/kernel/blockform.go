package kernel

import "github.com/vkc-go/vkc/ir"

// PackedFields is the number of bit fields of a byte, each with a 2-bit quant, in formats that are multiplied packed
// (see ir.BlockPacked).
const PackedFields = 4

// RoundedGroup is the number of consecutive elements that share a scale if a row is quantized to int8.
const RoundedGroup = ir.ByteGroup

// BlockRun describes how an invocation reads blocks along the contraction axis. A run is the Elems elements of one
// block that it reads at once. A run consists of strips, and a strip of quads (four elements). The elements of a strip
// share a scale, so the scale is decoded once and applied to a whole sum:
//
//	sum(x * scale * (q - bias)) = scale * (sum(x * q) - bias * sum(x))
type BlockRun struct {
	DType  ir.DType
	Form   ir.BlockForm
	Elems  int // elements of a run
	Strips int // strips in a run, each with its own scale
	Quads  int // quads in a strip
	// SharedScale says that all bit fields of the run share a scale, so that one strip covers them.
	SharedScale bool
}

// NewBlockRun returns a run of about `want` elements of the format t, as the format's bit fields and scales allow.
func NewBlockRun(t ir.DType, want int) BlockRun {
	r := BlockRun{DType: t, Strips: 1}
	if row, ok := ir.BlockFormatOf(t); ok {
		r.Form = row.BlockForm
	}
	f := r.Form
	// perField is the number of quads of each field in the run. most is the largest number of quads of a field that
	// share a scale. perField divides most, so that a strip has one scale.
	perField, most := max(want/4/f.Fields, 1), f.Run/4
	if f.FieldsApart() {
		r.Strips, most = f.Fields, min(most, f.Stride/4)
	} else {
		most /= f.Fields
	}
	for most%perField != 0 {
		perField--
	}
	r.Quads = perField * f.Fields / r.Strips
	r.Elems = 4 * perField * f.Fields
	switch {
	case !f.FieldsApart():
		r.takeStrips(min(want, t.BlockElems()))
	case r.Elems == f.Superblock() && r.Elems <= f.Run && r.Elems <= RoundedGroup:
		r.SharedScale, r.Strips, r.Quads = true, 1, r.Elems/4
	}
	return r
}

// BlockRun returns the run of a matvec over blocks, about s.TileK elements. If rows are quantized to int8, a strip must
// also lie within one group of elements that share a row scale.
func (k *Kernel) BlockRun(s MatVec) BlockRun {
	t, want := k.BlockRows(), s.TileK
	r := NewBlockRun(t, want)
	for s.RoundRows && 4*r.Quads > RoundedGroup {
		want /= 2
		r = NewBlockRun(t, want)
	}
	return r
}

// takeStrips divides the run into strips. If the run has exactly the elements of one scale, it is first extended to
// about want elements, with a strip per scale. A strip is no longer than RoundedGroup, the range of a scale of int8
// rows.
func (r *BlockRun) takeStrips(want int) {
	if r.Elems == r.Form.Run {
		for n := want / r.Elems; n > 1; n-- {
			if r.DType.BlockElems()%(n*r.Elems) == 0 {
				r.Strips, r.Elems = n, n*r.Elems
				break
			}
		}
	}
	if groups := 4 * r.Quads / RoundedGroup; groups > 1 && 4*r.Quads%RoundedGroup == 0 {
		r.Strips, r.Quads = r.Strips*groups, r.Quads/groups
	}
}

// Scales is the number of different scales that the strips of a run have.
func (r BlockRun) Scales() int {
	return max(min(r.Strips, max(r.Elems, r.Form.Superblock())/max(r.Form.Run, 1)), 1)
}

// StripStride is the number of elements from the beginning of a strip to the beginning of the next.
func (r BlockRun) StripStride() int {
	if r.Form.FieldsApart() {
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
	return f.Wide && r.Quads%4 == 0 && b.alignedQuants() && (!r.SharedScale || f.Stride == 16) &&
		(f.FieldsApart() || f.Fields == 1)
}

// Pairs reports whether the quants of a strip are read eight bytes at a time.
func (r BlockRun) Pairs(b Binding) bool {
	return b.ReadsPairs() && r.Quads == 2 && r.Form.Fields == 1
}

// ReadsPairs reports whether the quants of two consecutive quads can be loaded at once. That needs aligned blocks, and
// a format that allows loading two quads at once, not only four.
func (b Binding) ReadsPairs() bool {
	f, ok := ir.BlockFormatOf(b.DType)
	return ok && f.Wide && !f.FourOnly && b.alignedQuants()
}

// BlockRows returns the common block format of a matmul's B operands. It returns ir.Invalid if an operand is not loaded
// from blocks, if formats differ, or if rows along the contraction axis are not whole blocks.
func (k *Kernel) BlockRows() ir.DType {
	t := ir.Invalid
	for _, p := range k.MatMuls {
		x := Widened(p.B) // a cast to f32 does not count
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

// ByteRows splits an A operand of the form int8 * scale into its two factors. Matmuls in precision int8 have that form.
func (k *Kernel) ByteRows(v *Expr) (bytes, scale *Expr, ok bool) {
	if v.Kind != ExprApply || v.Op != ir.OpMul {
		return nil, nil, false
	}
	for i, x := range v.Args {
		if x.Kind != ExprApply || x.Op != ir.OpCast || x.DType != ir.F32 {
			continue
		}
		load := x.Args[0]
		if load.Kind == ExprLoad && load.DType == ir.I8 && !k.Bindings[load.Bind].Write {
			return load, v.Args[1-i], true // the other argument is the scale
		}
	}
	return nil, nil, false
}

// HalfRows matches a value v that is the f32 sum of two loaded f16 values, and returns their loads. It returns false
// for any other value.
func (k *Kernel) HalfRows(v *Expr) (high, low *Expr, ok bool) {
	if v.Kind != ExprApply || v.Op != ir.OpAdd || v.DType != ir.F32 {
		return nil, nil, false
	}
	var loads [2]*Expr
	for i, x := range v.Args {
		if x.Kind != ExprApply || x.Op != ir.OpCast {
			return nil, nil, false
		}
		load := x.Args[0]
		if load.Kind != ExprLoad || load.DType != ir.F16 || k.Bindings[load.Bind].Write {
			return nil, nil, false
		}
		loads[i] = load
	}
	return loads[0], loads[1], true
}

// InGroups reports whether a value is constant within each group of [RoundedGroup] elements along the contraction axis:
// its indices depend on the axis only through the number of the group.
func (k *Kernel) InGroups(value *Expr) bool {
	constant, fold := true, k.FoldAxis()
	usesFold := func(f *Factor) bool {
		return f.Kind == FactorAxis && f.Axis == fold || f.X.Uses(fold) || f.D.Uses(fold) ||
			f.Value != nil && f.Value.Uses(fold)
	}
	isGroupNumber := func(f *Factor) bool { // or the number of several groups
		return f.Kind == FactorDiv && f.X.Equal(Axis(fold, k.Fold)) && f.D.IsConst() && f.D.Offset()%RoundedGroup == 0
	}
	Walk([]*Expr{value}, func(e *Expr) {
		for _, t := range e.Index.Terms() {
			for _, f := range t.Factors {
				constant = constant && (!usesFold(f) || isGroupNumber(f))
			}
		}
	})
	return constant
}
