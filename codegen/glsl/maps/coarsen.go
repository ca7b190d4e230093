package maps

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// pointsEach is the number of points along an outer axis that each invocation computes, if more than 1.
func pointsEach(e *emit.Emitter) int { return e.Sched.(kernel.Points).Coarsen }

// coarsen rewrites e.K so that an invocation computes several points along an axis, because these points share values.
// The axis becomes shorter: the invocation at coordinate s has the points s*pointsEach + point, for each coordinate
// `point` of the fold axis, which maps do not use otherwise. coarsen returns the shared values.
func coarsen(e *emit.Emitter) []*kernel.Expr {
	rep, ok := schedule.RepetitionOf(e.K)
	if !ok {
		e.Fail("no outer axis to take several points along")
		return nil
	}
	factor := ir.D(pointsEach(e))
	steps, ok := e.K.Parallel[rep.Axis].Quo(int64(pointsEach(e)))
	if !ok {
		e.Fail("%d points at a time do not divide an axis of %s", pointsEach(e), e.K.Parallel[rep.Axis])
		return nil
	}
	parallel := slices.Clone(e.K.Parallel)
	parallel[rep.Axis] = steps
	var shared []*kernel.Expr
	e.K = kernel.Map(e.K, kernel.Edit{Parallel: parallel, SameBindings: true,
		At: func(axis int, extent ir.Dim) kernel.Index {
			if axis == rep.Axis {
				return kernel.Axis(axis, steps).Mul(kernel.DimIndex(factor)).Plus(kernel.Axis(e.K.FoldAxis(), factor))
			}
			return kernel.Axis(axis, extent)
		},
		Stores: func(m *kernel.Mapping) []kernel.Store {
			stores := m.Stores()
			// The values as expressions of the new kernel.
			for _, v := range rep.Shared {
				shared = append(shared, m.Value(v))
			}
			return stores
		}})
	return shared
}

// runCoarsened writes the loop over the points of an invocation. It computes the shared values before the loop, and
// keeps them for each lane (element) of the run.
func runCoarsened(e *emit.Emitter, r emit.Run, shared []*kernel.Expr) {
	if r.Width > 1 {
		keepShared(e, r, shared)
	}
	e.BindAxis(e.K.FoldAxis(), e.OpenFor(emit.Unroll, "point", expr.Of("0u"), expr.Uint(pointsEach(e)), expr.Uint(1)))
	e.RunLanes(r, e.K.Roots(), e.K.Stores, nil)
	e.Close()
}

// keepShared writes code before the loop over points. The code computes the values that the points share, for each lane
// of the run, and stores them in one array per value. keepShared binds the values to these arrays. A value that is the
// same in all lanes needs no array: the emitter computes it before the loop over points and its inner loop over lanes.
func keepShared(e *emit.Emitter, r emit.Run, shared []*kernel.Expr) {
	shared = slices.DeleteFunc(slices.Clone(shared), func(v *kernel.Expr) bool { return !v.Uses(r.Axis) })
	var names []expr.Expr
	for _, v := range shared {
		typ := e.ComputeType(v.DType)
		e.NeedType(typ)
		names = append(names, e.Unset(typ, "kept_"+e.ValueName(v), r.Width))
	}
	if len(shared) == 0 {
		return
	}
	e.RunLanes(r, shared, nil, func() {
		for i, value := range e.EvalAll(shared...) {
			e.Assign(expr.At(names[i], emit.Lane), value)
		}
	})
	for i, v := range shared {
		e.BindValue(v, expr.At(names[i], emit.Lane))
	}
}
