package target

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// What stored operands are padded to: tiles of the fastest way, and 8 of its
// smaller steps; see unrollCost.
const (
	storedDepth = 256
	storedRows  = 256
)

// maxDecoded bounds the bytes of weights decoded to 16 bits, which are
// temporaries like all stored operands.
const maxDecoded = 256 << 20

// minRereads is how many tiles of the result must take an operand before
// storing it is worth a thought.
const minRereads = 4

// StoreOperands returns the operands of a matrix product that a kernel of their
// own should store first, rounded and padded as matrix units like them best:
// those that are computed, as from f32, or whose rows do not begin at 16 bytes;
// and those decoded from blocks, where so many rows share them that decoding
// them once is faster than in every tile.
func StoreOperands(k *kernel.Kernel, caps Caps) []kernel.StoredOperand {
	t := classOf(caps).tune(caps)
	dtype, ok := MatrixDType(k)
	if !ok || !t.splits || len(k.Parallel) < 2 || matShapeOf(k).M <= MaxMatVecRows {
		return nil
	}
	list, blocks, padded := storable(k, dtype)
	sh := matShapeOf(k)
	product := 2 * float64(sh.Batch) * float64(sh.M) * float64(sh.N) * float64(sh.K) * float64(len(k.Products)) / (250 * 1e3)
	if len(list) > 0 && t.storeTime(k, list) > 0.4*product {
		return nil // computing operands in every tile costs about half of a product's time
	}
	if len(blocks) > 0 {
		if t.decodeFirst(k, list, blocks, caps) {
			list = append(list, blocks...)
		} else {
			padded = false
		}
	}
	return shapeStored(k, list, padded)
}

// operand is an operand of a product, and the axis that it has besides the
// contraction.
type operand struct {
	value *kernel.Expr
	axis  int
}

// storable returns the operands that are better stored, those of blocks apart;
// all says that there are no others.
func storable(k *kernel.Kernel, dtype ir.DType) (list, blocks []operand, all bool) {
	seen := map[*kernel.Expr]bool{}
	r, sh := len(k.Parallel), matShapeOf(k)
	all = true
	for _, p := range k.Products {
		for i, v := range []*kernel.Expr{p.A, p.B} {
			if seen[v] {
				continue
			}
			seen[v] = true
			rereads := ceilDiv([]int64{sh.N, sh.M}[i], 128)
			switch o := (operand{v, r - 2 + i}); {
			case readsBlocks(k, v):
				blocks = append(blocks, o)
			case OctetLoad(k, v, o.axis, dtype) || rereads < minRereads:
				all = false
			default:
				list = append(list, o)
			}
		}
	}
	return list, blocks, all
}

// shapeStored pads operands that are to be stored, along the contraction if all
// operands are.
func shapeStored(k *kernel.Kernel, list []operand, all bool) []kernel.StoredOperand {
	if len(list) == 0 || !DivisibleBy(k.Fold, OctetElems) && (!all || !k.Fold.IsStatic()) {
		return nil // rows would begin anywhere again
	}
	var stored []kernel.StoredOperand
	for _, o := range list {
		st := kernel.StoredOperand{Operand: o.value}
		if d := k.Parallel[o.axis]; d.IsStatic() && !DivisibleBy(d, storedRows) {
			st.Rows = roundUp(int(d.Add), storedRows)
		}
		if all && k.Fold.IsStatic() && !DivisibleBy(k.Fold, storedDepth) {
			st.Depth = roundUp(int(k.Fold.Add), storedDepth)
		}
		stored = append(stored, st)
	}
	return stored
}

// decodeFirst reports whether decoding operands of blocks once pays, where those
// in list are stored as well. 512x4096x14336 by q4_0, microseconds on an H100:
// tiles that decode what they multiply 385, tiles of f16 221.
func (t tuning) decodeFirst(k *kernel.Kernel, list, blocks []operand, caps Caps) bool {
	r, bytes := len(k.Parallel), int64(0)
	if k.Guard != nil || !k.Fold.IsStatic() || !k.Parallel[r-2].IsStatic() || !k.Parallel[r-1].IsStatic() {
		return false // there may be few rows
	}
	for _, o := range blocks {
		v := Unrounded(o.value, ir.F32)
		if v.Kind != kernel.ExprLoad || !aligned(v.Index, k.FoldAxis(), OctetElems) {
			return false // they would be decoded across
		}
		bytes += 2 * operandElems(k, o)
	}
	if bytes > maxDecoded {
		return false
	}
	decoding, _, ok := t.bestSplit(withStored(k, list), caps)
	plain, _, okPlain := t.bestSplit(withStored(k, slices.Concat(list, blocks)), caps)
	return ok && okPlain && plain+t.storeTime(k, blocks) < 0.8*decoding
}

// withStored is a product as it will be with operands stored, for estimates:
// they lie along the contraction in buffers of their own.
func withStored(k *kernel.Kernel, list []operand) *kernel.Kernel {
	out, b := *k, kernel.NewBuilder()
	out.Bindings, out.Products = slices.Clone(k.Bindings), slices.Clone(k.Products)
	fold := k.FoldAxis()
	for _, o := range list {
		at := kernel.Axis(o.axis, k.Parallel[o.axis]).Mul(kernel.DimIndex(k.Fold)).Plus(kernel.Axis(fold, k.Fold))
		t := k.Products[0].Operands
		load := b.Load(len(out.Bindings), t, at, "stored")
		out.Bindings = append(out.Bindings, kernel.Binding{Name: "stored", DType: t, Read: true, Elems: operandElems(k, o)})
		for i := range out.Products {
			if p := &out.Products[i]; p.A == o.value {
				p.A = load
			} else if p.B == o.value {
				p.B = load
			}
		}
	}
	return &out
}

// readsBlocks reports whether a value is decoded from a block format.
func readsBlocks(k *kernel.Kernel, v *kernel.Expr) bool {
	found := false
	kernel.Walk([]*kernel.Expr{v}, func(e *kernel.Expr) {
		found = found || e.Kind == kernel.ExprLoad && k.Bindings[e.Bind].DType.IsBlock()
	})
	return found
}

// storeTime estimates how long storing operands takes, in nanoseconds.
func (t tuning) storeTime(k *kernel.Kernel, list []operand) float64 {
	time := 0.0
	for _, o := range list {
		time += t.launchTime + float64(operandBytes(k, o))/t.memoryRate
	}
	return time
}

// operandBytes is what storing an operand moves: what it is computed from, once,
// and its 16-bit elements.
func operandBytes(k *kernel.Kernel, o operand) int64 {
	elems := operandElems(k, o)
	bytes := 2 * elems
	kernel.Walk([]*kernel.Expr{o.value}, func(e *kernel.Expr) {
		if e.Kind == kernel.ExprLoad {
			t := k.Bindings[e.Bind].DType
			bytes += elems / int64(t.BlockElems()) * int64(t.BlockBytes())
		}
	})
	return bytes
}

// operandElems is how many elements an operand has, those of a batch that shares
// it counted once.
func operandElems(k *kernel.Kernel, o operand) int64 {
	dims := []ir.Dim{k.Parallel[o.axis], k.Fold}
	for axis := range len(k.Parallel) - 2 {
		if o.value.Uses(axis) {
			dims = append(dims, k.Parallel[axis])
		}
	}
	return points(dims)
}

// spare reports whether the operands along an axis of the result lie in buffers
// that go on for whole tiles, as stored operands do.
func spare(k *kernel.Kernel, axis int, tile int) bool {
	t, ok := MatrixDType(k)
	if !ok {
		return false
	}
	rows := ceilDiv(k.Parallel[axis].Max(), int64(tile)) * int64(tile)
	for _, p := range k.Products {
		v := p.A
		if axis == len(k.Parallel)-1 {
			v = p.B
		}
		plain, ok := PlainOperand(k, v, axis, t)
		if !ok || !plain.Along || !plain.Pitch.IsConst() {
			return false
		}
		first, known := plain.Base.Upper()
		if plain.Run == 0 && !plain.Base.IsConst() || !known || first+rows*plain.Pitch.Offset() > k.Bindings[plain.Load.Bind].Elems {
			return false
		}
	}
	return true
}
