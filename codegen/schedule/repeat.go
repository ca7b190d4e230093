package schedule

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// maxShared is the maximum number of shared values that an invocation keeps while it computes several points.
const maxShared = 4

// Repetition says that the points of a map along one axis share values. An invocation that computes several such points
// computes the shared values once. For example, the sines and cosines of a rotary embedding are the same for all heads.
type Repetition struct {
	Axis   int
	Shared []*kernel.Expr // the largest expensive subexpressions that do not depend on Axis
}

// RepetitionOf finds the axis, other than the innermost, along which the most points of a map share expensive values.
// The map's axes must be collapsed. If no points share such values, it returns the outermost axis, with no shared
// values.
func RepetitionOf(k *kernel.Kernel) (r Repetition, ok bool) {
	inner := len(k.Parallel) - 1
	if k.Family != kernel.FamilyMap || k.Guard != nil || inner < 1 {
		return r, false
	}
	for a := range inner {
		shared := sharedAlong(k, a)
		if n := len(shared); n == 0 || n > maxShared {
			continue
		}
		if len(r.Shared) == 0 || k.Parallel[a].Max() > k.Parallel[r.Axis].Max() {
			r = Repetition{Axis: a, Shared: shared}
		}
	}
	return r, true
}

// sharedAlong returns the largest subexpressions that contain an expensive operation and do not depend on an axis.
func sharedAlong(k *kernel.Kernel, axis int) []*kernel.Expr {
	var list []*kernel.Expr
	seen := map[*kernel.Expr]bool{}
	var visit func(e *kernel.Expr)
	visit = func(e *kernel.Expr) {
		if seen[e] {
			return
		}
		seen[e] = true
		// The largest one: its parts need no visit.
		if !e.Uses(axis) {
			if e.Kind == kernel.ExprApply && isCostly(e) {
				list = append(list, e)
			}
			return
		}
		for _, a := range e.Args {
			visit(a)
		}
	}
	for _, s := range k.Stores {
		visit(s.Value)
	}
	return list
}

// isCostly reports whether computing a value takes much longer than loading one, because it calls a function with
// accurate argument reduction.
func isCostly(e *kernel.Expr) bool {
	return kernel.Any([]*kernel.Expr{e}, func(v *kernel.Expr) bool {
		return v.Kind == kernel.ExprApply && (v.Op == ir.OpSin || v.Op == ir.OpCos || v.Op == ir.OpTan)
	})
}

// repeatedMaps lists maps that compute several points along an axis in each invocation. The points share expensive
// values. Or, if that is faster on the device, the invocation first loads the indices of several points, so that these
// loads are in flight together.
func (h heuristics) repeatedMaps(k *kernel.Kernel) []Candidate {
	r, ok := RepetitionOf(k)
	why := "share costly values"
	if len(r.Shared) == 0 {
		ok, why = ok && h.coarsenGathers && gathersLittle(k), "are waited for together"
	}
	if !ok {
		return nil
	}
	var all []Candidate
	for coarsen := maxCoarsen; coarsen > 1; coarsen /= 2 {
		for _, c := range h.maps(k) {
			s := c.Schedule.(kernel.Points)
			s.Coarsen = coarsen
			if points(k.Parallel)/int64(s.Vec*s.Workgroup*coarsen) < h.fill {
				break // there are too few points for these workgroups
			}
			all = append(all, Candidate{s, fmt.Sprintf("%d points %s", coarsen, why)})
		}
	}
	return all
}

// gathersLittle reports whether a map gathers by loaded indices from a dtype with less than four bytes per element:
// then even four neighbours are less than 16 bytes, the longest load.
func gathersLittle(k *kernel.Kernel) bool {
	return kernel.Any(k.Roots(), func(e *kernel.Expr) bool {
		if e.Kind != kernel.ExprLoad || len(e.Index.Values()) == 0 {
			return false
		}
		t := k.Bindings[e.Bind].DType
		return t.IsBlock() || t.BlockBytes() < 4
	})
}

// maxCoarsen is the maximum number of points along an axis per invocation. More do not help (M-rope-coarsening).
const maxCoarsen = 4

// checkCoarsen returns an error if a map's invocations cannot compute s.Coarsen points along an outer axis.
func checkCoarsen(k *kernel.Kernel, s kernel.Points) error {
	if s.Coarsen < 2 {
		return nil
	}
	r, ok := RepetitionOf(k)
	if !ok || !DivisibleBy(k.Parallel[r.Axis], s.Coarsen) {
		return fmt.Errorf("%d points at a time divide no outer axis", s.Coarsen)
	}
	return nil
}
