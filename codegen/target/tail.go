package target

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// tailGain is how much faster a product must be expected to be with its tail
// cut off.
const tailGain = 1.05

// CutTail returns which of the last rows or columns of a matrix product, those
// that do not fill a tile, another kernel should compute: in tiles of their own
// they may take less time than another round of large ones, most of each beyond
// the result. A product of a row more than tiles have is so for most sizes.
func CutTail(k *kernel.Kernel, caps Caps) kernel.Tail {
	t := classOf(caps).tune(caps)
	if k.Family != kernel.FamilyMatMul || len(k.Parallel) < 2 || !k.Fold.IsStatic() || matShapeOf(k).M <= MaxMatVecRows {
		return kernel.Tail{}
	}
	whole, ok := t.bestMatrixTime(k, caps, 1)
	if !ok {
		return kernel.Tail{}
	}
	if time, cut := t.bestCut(k, caps, len(k.Parallel)-2, len(k.Parallel)-1); time < whole/tailGain {
		return cut
	}
	return kernel.Tail{}
}

// bestCut estimates the time of a product that may be cut along some axes, one
// after the other, and which cut is the first.
func (t tuning) bestCut(k *kernel.Kernel, caps Caps, axes ...int) (best float64, cut kernel.Tail) {
	best, _ = t.bestMatrixTime(k, caps, 1)
	for i, axis := range axes {
		d := k.Parallel[axis]
		if !d.IsStatic() {
			continue
		}
		others := slices.Delete(slices.Clone(axes), i, i+1)
		for _, from := range t.lastTiles(k, axis) {
			time, _ := t.bestCut(withExtent(k, axis, from), caps, others...)
			tail := withExtent(k, axis, d.Add-from)
			if time += t.tailTime(tail, caps); time < best {
				best, cut = time, kernel.Tail{Axis: axis, From: from, Swap: likesSwap(tail)}
			}
		}
	}
	return best, cut
}

// lastTiles lists where the last, partial tile along the rows or columns begins,
// in tiles of any size.
func (t tuning) lastTiles(k *kernel.Kernel, axis int) []int64 {
	var list []int64
	for _, tl := range t.matrixTilesOf(k) {
		tile := int64(tl.N)
		if axis == len(k.Parallel)-2 {
			tile = int64(tl.M)
		}
		extent := k.Parallel[axis].Add
		if from := extent / tile * tile; from > 0 && from < extent && !slices.Contains(list, from) {
			list = append(list, from)
		}
	}
	return list
}

// withExtent is a product of fewer rows or columns, as far as estimates go.
func withExtent(k *kernel.Kernel, axis int, extent int64) *kernel.Kernel {
	out := *k
	out.Parallel = slices.Clone(k.Parallel)
	out.Parallel[axis] = ir.D(int(extent))
	return &out
}

// likesSwap reports whether a product of few columns is one of few rows with its
// sides exchanged: of these a tile would be mostly nothing.
func likesSwap(k *kernel.Kernel) bool {
	sh, p := matShapeOf(k), k.Products[0]
	return sh.N <= MaxMatVecRows && sh.M > MaxMatVecRows && len(k.Products) == 1 && !p.ByteRows && !readsBlocks(k, p.B)
}

// tailTime estimates the time of what was cut off, split if that helps. A few
// rows are not multiplied on matrix units, and take as long as reading the other
// operand does.
func (t tuning) tailTime(k *kernel.Kernel, caps Caps) float64 {
	if matShapeOf(k).M <= MaxMatVecRows || likesSwap(k) {
		return t.LaunchNs + t.readTime(k)
	}
	best, _ := t.bestMatrixTime(k, caps, 1)
	for n := 2; n <= maxParts && partsFit(k, n); n *= 2 {
		if time, ok := t.bestMatrixTime(k, caps, n); ok {
			best = min(best, time)
		}
	}
	return t.LaunchNs + best
}
