package layout

import (
	"math"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// countAccesses returns the number of loads and stores of each binding by one point of a kernel.
func countAccesses(k *kernel.Kernel) map[int]int64 {
	n := k.Loads()
	for _, s := range k.Stores {
		n[s.Bind]++
	}
	return n
}

// mapBytes estimates the bytes that a map or quantizing kernel moves to and from a buffer of dtype t. accesses is the
// number of loads and stores per point, or per element of a block. The result can be less than the buffer's size, for
// example if the kernel writes only a slice of a large state. Kernels of other families read whole buffers. For them it
// returns math.MaxInt64, so that the caller's minimum is the buffer's size.
func mapBytes(k *kernel.Kernel, t ir.DType, accesses int64) int64 {
	// The limits on points and accesses below prevent overflows.
	points := ir.Shape(k.Parallel).MaxElems()
	if k.Family == kernel.FamilyQuantize && points <= math.MaxInt32 {
		points *= k.Fold.Max()
	} else if k.Family != kernel.FamilyMap {
		return math.MaxInt64
	}
	if accesses == 0 || points > math.MaxInt32 || accesses > math.MaxInt16 {
		return math.MaxInt64
	}
	blocks := points*accesses/int64(max(t.BlockElems(), 1)) + 1
	return blocks * int64(t.BlockBytes())
}

// windowBytes estimates the bytes that a kernel reads from a binding of `all` bytes. It is less than all only for the
// keys and values of an attention with a window.
func windowBytes(k *kernel.Kernel, bind int, all int64) int64 {
	a, used := k.Attention, false
	if a == nil || a.Window == 0 {
		return all
	}
	kernel.Walk([]*kernel.Expr{a.K, a.V}, func(e *kernel.Expr) {
		used = used || e.Kind == kernel.ExprLoad && e.Bind == bind
	})
	if !used {
		return all
	}
	seen := k.KeysSeen(k.Parallel[k.AttentionAxes().Query].Max())
	return int64(float64(all) * float64(seen) / float64(max(k.Fold.Max(), 1)))
}

// kernelFlops returns the number of a kernel's arithmetic operations, with every symbol at its bound.
func kernelFlops(k *kernel.Kernel) int64 {
	points := ir.Shape(k.Parallel).MaxElems()
	if k.Family == kernel.FamilyAttention {
		ax := k.AttentionAxes()
		// Each row multiplies and adds the vectors of a query and a key, and a value, for each key that it sees.
		value, splits := k.Parallel[ax.Value].Max(), k.Parallel[ax.Split].Max()
		return 2 * (points / max(value*splits, 1)) * k.KeysSeen(1) * (k.Attention.VectorElems() + value)
	}
	if r := k.Recurrence; r != nil {
		perKey := int64(5) // two multiplications and an addition for the state, and a multiply-add for y
		if r.A != nil {
			perKey += 4
		}
		return points * k.Fold.Max() * r.Keys.Max() * perKey
	}
	if k.Family == kernel.FamilyMatMul {
		return 2 * points * k.Fold.Max() * int64(len(k.MatMuls))
	}
	perPoint, perElement := int64(0), int64(len(k.Phases)) // operations; elements are along the fold axis
	if k.Family == kernel.FamilyGroup {
		perElement++
	}
	kernel.Walk(k.Roots(), func(e *kernel.Expr) {
		switch {
		case e.Kind != kernel.ExprApply:
		case k.Family == kernel.FamilyScan, k.Family == kernel.FamilySort,
			k.Family == kernel.FamilyRow && e.Uses(k.FoldAxis()):
			perElement++
		default:
			perPoint++
		}
	})
	return points * (perPoint + perElement*k.Fold.Max())
}
