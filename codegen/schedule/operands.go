package schedule

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// The padding of stored operands: tiles of the fastest variant, and its steps in bytes.
const (
	storedDepthBytes = 128
	storedRows       = 256
)

// storedDepth is the multiple to which the contraction of stored operands of dtype t is padded.
func storedDepth(t ir.DType) int { return storedDepthBytes / t.BlockBytes() }

// minRereads is the minimum number of result tiles that read an operand for storing it to be considered.
const minRereads = 4

// waysToStore lists ways to store operands of a matmul beforehand: without operands dequantized from blocks, which
// every tile then dequantizes, and with them.
func (h heuristics) waysToStore(k *kernel.Kernel) (ways [][]kernel.StoredOperand) {
	for _, decoded := range []bool{false, true} {
		list := h.storedOperands(k, decoded)
		if len(list) > 0 && (len(ways) == 0 || len(list) > len(ways[0])) {
			ways = append(ways, list)
		}
	}
	return ways
}

// storedOperands returns the layout for operands that do not suit matrix units: computed operands, such as conversions
// from f32, and operands with rows that are not aligned to 16 bytes. It excludes operands dequantized from blocks
// unless decoded is set. A matmul that is split into bf16 gets all operands stored, along the axis of their current
// layout.
func (h heuristics) storedOperands(k *kernel.Kernel, decoded bool) (list []kernel.StoredOperand) {
	dtype, ok := MatrixDType(k)
	apart := k.Products[0].BF16x3
	if apart {
		dtype, ok = ir.BF16, k.Fold.IsStatic() && k.Fold.Add > 0
	}
	if !ok {
		return nil
	}
	padded, seen := true, map[*kernel.Expr]bool{}
	r, sh := len(k.Parallel), matShapeOf(k)
	for _, p := range k.Products {
		for i, v := range []*kernel.Expr{p.A, p.B} {
			if seen[v] {
				continue
			}
			seen[v] = true
			rereads := ceilDiv([]int64{sh.N, sh.M}[i], 128)
			stays := octetLoad(k, v, r-2+i, dtype) || !decoded && k.ReadsBlocks(v) || rereads < minRereads
			if !apart && stays {
				padded = false
				continue
			}
			d := k.Parallel[r-2+i]
			whole := DivisibleBy(d, storedRows)
			o := kernel.StoredOperand{Operand: v, Across: apart && whole && !FoldContiguous(k, v, r-2+i)}
			if d.IsStatic() && !whole {
				o.Rows = roundUp(int(d.Add), storedRows)
			}
			list = append(list, o)
		}
	}
	if !DivisibleBy(k.Fold, unitElems(dtype)) && !(padded && k.Fold.IsStatic()) {
		return nil // its rows would still not be aligned
	}
	for i := range list {
		if k.Fold.IsStatic() && padded && !DivisibleBy(k.Fold, storedDepth(dtype)) {
			list[i].Depth = roundUp(int(k.Fold.Add), storedDepth(dtype))
		}
	}
	return list
}

// spare reports whether the operands along an axis of the result are in buffers padded to whole tiles, like stored
// operands.
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
