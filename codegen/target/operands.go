package target

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// What stored operands are padded to: tiles of the fastest way, and its steps, in
// bytes.
const (
	storedDepthBytes = 128
	storedRows       = 256
)

// storedDepth is what the contraction of stored operands of dtype t is padded to.
func storedDepth(t ir.DType) int { return storedDepthBytes / t.BlockBytes() }

// minRereads is how many tiles of the result must take an operand before
// storing it is worth a thought.
const minRereads = 4

// storedEfficiency is the share of the peak that products of stored operands reach at least.
const storedEfficiency = 0.417

// StoreOperands returns the operands of a matrix product that a kernel of their
// own should store first, rounded and padded as matrix units like them best:
// those that are computed, as from f32, or whose rows do not begin at 16 bytes.
// Operands decoded from blocks never are: weights stay as they are.
func StoreOperands(k *kernel.Kernel, caps Caps) []kernel.StoredOperand {
	t := classOf(caps).tune(caps)
	dtype, ok := MatrixDType(k)
	if !ok || len(k.Parallel) < 2 || matShapeOf(k).M <= MaxMatVecRows {
		return nil
	}
	var list []kernel.StoredOperand
	padded, moved, stores := true, int64(0), 0
	seen := map[*kernel.Expr]bool{}
	r, sh := len(k.Parallel), matShapeOf(k)
	for _, p := range k.Products {
		for i, v := range []*kernel.Expr{p.A, p.B} {
			if seen[v] {
				continue
			}
			seen[v] = true
			rereads := ceilDiv([]int64{sh.N, sh.M}[i], 128)
			if OctetLoad(k, v, r-2+i, dtype) || readsBlocks(k, v) || rereads < minRereads {
				padded = false
				continue
			}
			o := kernel.StoredOperand{Operand: v}
			if d := k.Parallel[r-2+i]; d.IsStatic() && !DivisibleBy(d, storedRows) {
				o.Rows = roundUp(int(d.Add), storedRows)
			}
			list = append(list, o)
			if !k.IsFixed(v) { // else it is stored once, when the program is loaded
				moved, stores = moved+operandBytes(k, v, r-2+i, dtype), stores+1
			}
		}
	}
	unit := unitElems(dtype)
	if _, units := t.bestMatrixTime(k, caps, 1); !units || len(list) == 0 || !k.Fold.IsStatic() && !DivisibleBy(k.Fold, unit) {
		return nil
	}
	for i := range list {
		if k.Fold.IsStatic() && padded && !DivisibleBy(k.Fold, storedDepth(dtype)) {
			list[i].Depth = roundUp(int(k.Fold.Add), storedDepth(dtype))
		}
	}
	if !padded && !DivisibleBy(k.Fold, unit) {
		return nil // its rows would begin anywhere again
	}
	// Computing operands in every tile costs about half of a product's time.
	product := 2 * float64(sh.Batch) * float64(sh.M) * float64(sh.N) * float64(sh.K) * float64(len(k.Products)) / (storedEfficiency * t.MatrixF16 * 1e3)
	if float64(moved)/t.CopyGBps+t.LaunchNs*float64(stores) > 0.4*product {
		return nil
	}
	return list
}

// readsBlocks reports whether a value is decoded from a block format.
func readsBlocks(k *kernel.Kernel, v *kernel.Expr) bool {
	found := false
	kernel.Walk([]*kernel.Expr{v}, func(e *kernel.Expr) {
		found = found || e.Kind == kernel.ExprLoad && k.Bindings[e.Bind].DType.IsBlock()
	})
	return found
}

// operandBytes is what storing an operand moves: what it is computed from, once,
// and its elements of dtype t.
func operandBytes(k *kernel.Kernel, v *kernel.Expr, other int, t ir.DType) int64 {
	elems := k.Parallel[other].Max() * k.Fold.Max()
	for axis := range len(k.Parallel) - 2 {
		if v.Uses(axis) {
			elems *= k.Parallel[axis].Max()
		}
	}
	bytes := int64(t.BlockBytes()) * elems
	kernel.Walk([]*kernel.Expr{v}, func(e *kernel.Expr) {
		if e.Kind == kernel.ExprLoad {
			bytes += elems * int64(k.Bindings[e.Bind].DType.BlockBytes())
		}
	})
	return bytes
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
		if !known || first+rows*plain.Pitch.Offset() > k.Bindings[plain.Load.Bind].Elems {
			return false
		}
	}
	return true
}
