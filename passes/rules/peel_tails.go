package rules

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/plan"
)

// tailMargin is the factor by which peeling tails must be faster to be worth it.
const tailMargin = 1.05

// PeelTails computes the last rows of a matmul, its last columns, or both, in separate kernels, the tails. A tail does
// not fill a tile of the main kernel, which would spend most of its work there on padding. Or it does not fill a wave
// of workgroups, so that cores would be idle.
func PeelTails(o *Optimizer, id plan.KernelID) (list []Proposal) {
	k := o.Plan.Kernel(id)
	if k.Family != kernel.FamilyMatMul || k.Guard != nil { // with groups of rows, the last rows are unknown
		return nil
	}
	tails := slices.DeleteFunc(o.sizes(k).Tails, func(t kernel.Tail) bool {
		return t.Axis < 0 || t.Axis >= len(k.Parallel) || !k.Parallel[t.Axis].IsStatic() || t.From < 1 ||
			t.From >= k.Parallel[t.Axis].Add
	})
	for _, t := range tails {
		whole, tail := cutTail(k, t)
		what := fmt.Sprintf("cut axis %d at %d", t.Axis, t.From)
		p := propose(what, id, whole, tail)
		p.Margin = tailMargin
		list = append(list, p)
		for _, other := range tails {
			if other.Axis != t.Axis && !t.Only && !other.Only {
				rest, second := cutTail(whole, other)
				both := propose(fmt.Sprintf("%s, then axis %d at %d", what, other.Axis, other.From), id,
					rest, tail, second)
				both.Margin = tailMargin
				list = append(list, both)
			}
		}
	}
	return list
}

// cutTail splits a matmul into the kernel before t.From along t.Axis, and the tail from there on.
func cutTail(k *kernel.Kernel, t kernel.Tail) (whole, tail *kernel.Kernel) {
	whole = rangeOf(k, t.Axis, 0, t.From)
	tail = rangeOf(k, t.Axis, t.From, k.Parallel[t.Axis].Add)
	if t.Swap {
		tail = transposed(tail)
	}
	tail.Name += "_tail"
	return whole, tail
}

// rangeOf returns the part of matmul k with the results at coordinates from first up to, but excluding, end along an
// axis.
func rangeOf(k *kernel.Kernel, axis int, first, end int64) *kernel.Kernel {
	parallel := slices.Clone(k.Parallel)
	parallel[axis] = ir.D(int(end - first))
	return kernel.Map(k, kernel.Edit{Parallel: parallel, At: func(a int, extent ir.Dim) kernel.Index {
		if a == axis { // k's coordinate is the part's plus first
			return kernel.Axis(a, parallel[a]).Plus(kernel.Const(first))
		}
		return kernel.Axis(a, extent)
	}})
}

// transposed returns the matmul that computes the transposed result: it exchanges rows and columns, and A and B.
func transposed(k *kernel.Kernel) *kernel.Kernel {
	row, col := len(k.Parallel)-2, len(k.Parallel)-1
	parallel := slices.Clone(k.Parallel)
	parallel[row], parallel[col] = parallel[col], parallel[row]
	out := kernel.Map(k, kernel.Edit{Parallel: parallel, At: func(a int, d ir.Dim) kernel.Index {
		switch a {
		case row:
			a = col
		case col:
			a = row
		}
		return kernel.Axis(a, d)
	}})
	for i := range out.MatMuls { // the transposed result of A*B is B'*A'
		p := &out.MatMuls[i]
		p.A, p.B = p.B, p.A
	}
	return out
}
