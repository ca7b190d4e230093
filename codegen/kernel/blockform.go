package kernel

import "github.com/vkc-go/vkc/ir"

// BlockForm is how the elements of a block format come out of its bytes:
//
//	element = scale * (quant - bias) [+ offset]
//
// Elements come in quads, four neighbours of which the first is a multiple of
// four. Planes quads, Stride apart, share the same bytes: q4_0 keeps element i
// and i+16 in one byte, so it has 2 planes 16 apart.
type BlockForm struct {
	Planes, Stride int
	Run            int  // elements that share a scale, from a multiple of it on
	Bias           int  // of quants
	Affine         bool // there is an offset
	Signed         bool // quants are bytes with a sign
	Levels         bool // quants are floats, and no bytes
	Halved         bool // quants are half of what scale and bias go with
	// Wide says that quants can be had for four quads in a row too, from the first
	// of a multiple of as many on, and, but for FourOnly, for two. What the blocks
	// hold must be aligned to sixteen bytes, as it is in planes.
	Wide, FourOnly bool
	// Packed says that four quants to a byte can be multiplied as they stand in it.
	Packed bool
	// Digits says that a byte is a fraction in base 3, of which eight quants come by
	// multiplication; those of other formats come from a table.
	Digits bool
}

// blockForms has a row for every format that kernels can read.
var blockForms = map[ir.DType]BlockForm{
	ir.Q4_0:    {Planes: 2, Stride: 16, Run: 32, Bias: 8, Wide: true},
	ir.Q4_1:    {Planes: 2, Stride: 16, Run: 32, Affine: true, Wide: true},
	ir.Q5_0:    {Planes: 2, Stride: 16, Run: 32, Bias: 16},
	ir.Q5_1:    {Planes: 2, Stride: 16, Run: 32, Affine: true},
	ir.Q8_0:    {Planes: 1, Stride: 4, Run: 32, Signed: true, Wide: true},
	ir.Q8_1:    {Planes: 1, Stride: 4, Run: 32, Signed: true},
	ir.Q2_K:    {Planes: 4, Stride: 32, Run: 16, Affine: true, Wide: true, Packed: true},
	ir.Q3_K:    {Planes: 4, Stride: 32, Run: 16, Bias: 4, Wide: true, Packed: true},
	ir.Q4_K:    {Planes: 2, Stride: 32, Run: 32, Affine: true, Wide: true},
	ir.Q5_K:    {Planes: 2, Stride: 32, Run: 32, Affine: true, Wide: true},
	ir.Q6_K:    {Planes: 4, Stride: 32, Run: 16, Bias: 32, Wide: true},
	ir.Q8_K:    {Planes: 1, Stride: 4, Run: 256, Signed: true},
	ir.IQ1_S:   {Planes: 2, Stride: 4, Run: 32, Bias: 9},
	ir.IQ1_M:   {Planes: 2, Stride: 4, Run: 16, Bias: 9},
	ir.IQ2_XXS: {Planes: 2, Stride: 4, Run: 32, Signed: true},
	ir.IQ2_XS:  {Planes: 2, Stride: 4, Run: 16, Signed: true},
	ir.IQ2_S:   {Planes: 2, Stride: 4, Run: 16, Signed: true},
	ir.IQ3_XXS: {Planes: 2, Stride: 4, Run: 32, Signed: true},
	ir.IQ3_S:   {Planes: 2, Stride: 4, Run: 32, Signed: true},
	ir.IQ4_NL:  {Planes: 2, Stride: 16, Run: 32, Levels: true},
	ir.IQ4_XS:  {Planes: 2, Stride: 16, Run: 32, Levels: true},
	ir.MXFP4:   {Planes: 2, Stride: 16, Run: 32, Levels: true},
	ir.TQ1_0:   {Planes: 1, Stride: 4, Run: 256, Bias: 1, Wide: true, FourOnly: true, Digits: true},
	ir.TQ2_0:   {Planes: 4, Stride: 32, Run: 256, Bias: 1, Wide: true, Packed: true},
}

// BlockFormOf returns the form of a block format, and whether kernels read it.
func BlockFormOf(t ir.DType) (BlockForm, bool) {
	f, ok := blockForms[t]
	return f, ok
}

// Superblock is the number of elements that planes of quads cover.
func (f BlockForm) Superblock() int { return f.Planes * f.Stride }

// Interleaved reports whether the planes of a quad lie apart and have scales of
// their own; else they follow each other.
func (f BlockForm) Interleaved() bool { return f.Stride > 4 }

// NeedsSums reports whether products of quants, by a scale, lack sums of what the
// quants are multiplied by.
func (f BlockForm) NeedsSums() bool { return f.Affine || f.Bias != 0 }

// PackedPlanes is how many quants a byte has where they are multiplied packed.
const PackedPlanes = 4

// RoundedGroup is how many neighbours share a scale in rows that become bytes.
const RoundedGroup = 32

// BlockRun is how an invocation walks over blocks that lie along the
// contraction: Elems elements of one block at a time, in strips of quads that
// share a scale, so that a scale is unpacked once and applied to a whole sum:
//
//	sum(x * scale * (q - bias)) = scale * (sum(x * q) - bias * sum(x))
type BlockRun struct {
	DType  ir.DType
	Form   BlockForm
	Elems  int // of a block, that an invocation takes at once
	Strips int // of them, a scale each
	Quads  int // of a strip
	// Joined says that the strip is planes one after another: they share the
	// scale, and the run has all of them.
	Joined bool
}

// NewBlockRun returns the run for about want elements at once.
func NewBlockRun(t ir.DType, want int) BlockRun {
	f := blockForms[t]
	r := BlockRun{DType: t, Form: f, Strips: 1}
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
	return r.Form.ReadsPairs(b) && r.Quads == 2 && r.Form.Planes == 1
}

// ReadsPairs reports whether quants of two quads in a row can be had at once:
// where those of four can, and wherever what the blocks hold is aligned as well.
func (f BlockForm) ReadsPairs(b Binding) bool { return f.Wide && !f.FourOnly && b.alignedQuants() }

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
