package schedule

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// The padding of materialized operands: storedRows is the tile of the fastest variant, and storedDepthBytes its step
// along the contraction axis in bytes.
const (
	storedDepthBytes = 128
	storedRows       = 256
)

// storedDepth returns the number of elements that divides the contraction axis of a materialized operand of dtype t
// after padding.
func storedDepth(t ir.DType) int { return storedDepthBytes / t.BlockBytes() }

// minRereads is the minimum number of result tiles that must read an operand before materializing it is considered.
// rereadTile is the extent of such a tile.
const minRereads, rereadTile = 4, 128

// waysToStore lists the sets of operands that could be materialized before a matmul runs, each set once:
//
//  1. the operands that many tiles read, without operands in block formats: every tile then decodes these itself;
//  2. as 1, with operands in block formats;
//  3. each operand alone, and then all together, even if few tiles read them. That can pay off because a weight is
//     materialized at load, and because another kernel may store its result as the operand;
//  4. all together, with operands in block formats. The device materializes these at load if it has room for them.
//
// For a matmul that is split into bf16 terms, the only set has all operands.
func waysToStore(k *kernel.Kernel) (ways [][]kernel.StoredOperand) {
	add := func(list []kernel.StoredOperand) {
		listed := func(way []kernel.StoredOperand) bool { return slices.Equal(way, list) }
		if len(list) > 0 && !slices.ContainsFunc(ways, listed) {
			ways = append(ways, list)
		}
	}
	add(storedOperands(k, minRereads, blocksStay))
	if k.MatMuls[0].BF16x3 {
		return ways
	}
	add(storedOperands(k, minRereads, blocksDecoded))
	// Operands that are padded along the contraction axis (Depth) can only be stored together.
	if list := storedOperands(k, 0, blocksStay); len(list) > 0 && list[0].Depth == 0 {
		for i := range list {
			add(list[i : i+1])
		}
		add(list)
	}
	add(storedOperands(k, 0, blocksDecoded))
	return ways
}

// Arguments of storedOperands.
const (
	blocksStay    = false
	blocksDecoded = true
)

// storedOperands returns the layouts of operands that cooperative matrices cannot load directly: computed operands,
// such as conversions from f32, and operands with rows that are not aligned to 16 bytes. It leaves out operands in
// block formats unless decoded is set, and operands that fewer than `rereads` tiles read. For a matmul that is split
// into bf16 terms, it returns all operands, along the axis of their present layout.
func storedOperands(k *kernel.Kernel, rereads int64, decoded bool) (list []kernel.StoredOperand) {
	dtype, ok := MatrixDType(k)
	inTerms := k.MatMuls[0].BF16x3
	if inTerms {
		dtype, ok = ir.BF16, k.Fold.IsStatic() && k.Fold.Add > 0
	}
	if !ok {
		return nil
	}
	whole, seen := true, map[*kernel.Expr]bool{} // whole: all operands are stored
	rowAxis, sh := len(k.Parallel)-2, matShapeOf(k)
	for _, p := range k.MatMuls {
		for i, v := range []*kernel.Expr{p.A, p.B} {
			if seen[v] {
				continue
			}
			seen[v] = true
			other := rowAxis + i                // of the operand, in addition to the contraction axis
			tiles := ceil.Div(sh.N, rereadTile) // tiles next to each other read the same rows of A
			if i == 1 {
				tiles = ceil.Div(sh.M, rereadTile) // and tiles below each other the same columns of B
			}
			stays := octetLoad(k, v, other, dtype) || !decoded && k.ReadsBlocks(v) || tiles < rereads
			if !inTerms && stays {
				whole = false
				continue
			}
			list = append(list, storedOperand(k, v, other, inTerms))
		}
	}
	padded := whole && k.Fold.IsStatic() // the contraction axis can be padded
	if !padded && !DivisibleBy(k.Fold, unitElems(dtype)) {
		return nil // the rows of the operands would still not be aligned
	}
	if padded && !DivisibleBy(k.Fold, storedDepth(dtype)) {
		for i := range list {
			list[i].Depth = ceil.Multiple(int(k.Fold.Add), storedDepth(dtype))
		}
	}
	return list
}

// storedOperand returns the layout of operand v, with its other axis padded to whole tiles. inTerms says that the
// operand is split into bf16 terms. Such an operand keeps the axis of its present layout if that needs no padding.
func storedOperand(k *kernel.Kernel, v *kernel.Expr, other int, inTerms bool) kernel.StoredOperand {
	d := k.Parallel[other]
	divides := DivisibleBy(d, storedRows)
	o := kernel.StoredOperand{Operand: v, Across: inTerms && divides && !FoldContiguous(k, v, other)}
	if d.IsStatic() && !divides {
		o.Rows = ceil.Multiple(int(d.Add), storedRows)
	}
	return o
}

// paddedToTiles reports whether a kernel may read whole tiles along an axis of the result without bounds checks: the
// buffers of its operands are padded to multiples of the tile, in elements.
func paddedToTiles(k *kernel.Kernel, axis int, tile int) bool {
	t, ok := MatrixDType(k)
	if !ok {
		return false
	}
	rows := ceil.Multiple(k.Parallel[axis].Max(), int64(tile))
	for _, p := range k.MatMuls {
		v := p.A
		if axis == len(k.Parallel)-1 {
			v = p.B
		}
		plain, ok := PlainOperand(k, v, axis, t)
		if !ok || !plain.Along || !plain.Pitch.IsConst() {
			return false
		}
		first, known := plain.Base.Upper() // the largest position of a line's beginning
		if !known || first+rows*plain.Pitch.Offset() > k.Bindings[plain.Load.Bind].Elems {
			return false
		}
	}
	return true
}
