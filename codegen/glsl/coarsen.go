package glsl

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// coarsen divides the axis along which points share values. An invocation takes several points. Their number becomes
// the fold axis, which maps do not have otherwise. It returns the shared values.
func coarsen(e *emitter) []*kernel.Expr {
	rep, ok := schedule.RepetitionOf(e.k)
	if !ok {
		e.fail("no outer axis to take several points along")
		return nil
	}
	factor := ir.D(e.sched.Coarsen)
	steps, ok := e.k.Parallel[rep.Axis].Quo(int64(e.sched.Coarsen))
	if !ok {
		e.fail("%d points at a time do not divide an axis of %s", e.sched.Coarsen, e.k.Parallel[rep.Axis])
		return nil
	}
	parallel := slices.Clone(e.k.Parallel)
	parallel[rep.Axis] = steps
	var shared []*kernel.Expr
	e.k = kernel.Map(e.k, kernel.Edit{Parallel: parallel, SameBindings: true,
		At: func(axis int, extent ir.Dim) kernel.Index {
			if axis == rep.Axis {
				return kernel.Axis(axis, steps).Mul(kernel.DimIndex(factor)).Plus(kernel.Axis(e.k.FoldAxis(), factor))
			}
			return kernel.Axis(axis, extent)
		},
		Stores: func(m *kernel.Mapping) []kernel.Store {
			stores := m.Stores()
			for _, v := range rep.Shared {
				shared = append(shared, m.Value(v))
			}
			return stores
		}})
	return shared
}

// runCoarsened writes the points of a run, one after another. Their shared values are computed before, and kept for
// each lane.
func runCoarsened(e *emitter, r run, shared []*kernel.Expr) {
	if r.width > 1 {
		keepShared(e, r, shared)
	}
	e.bindAxis(e.k.FoldAxis(), e.openFor(unroll, "point", primary("0u"), uintLit(e.sched.Coarsen), uintLit(1)))
	e.runLanes(r, e.k.Roots(), e.k.Stores, nil)
	e.close()
}

// keepShared computes the shared values of every lane into arrays.
func keepShared(e *emitter, r run, shared []*kernel.Expr) {
	var names []text
	for _, v := range shared {
		typ := e.computeType(v.DType)
		e.needType(typ)
		names = append(names, e.unset(typ, "kept_"+e.valueName(v), r.width))
	}
	if len(shared) == 0 {
		return
	}
	e.runLanes(r, shared, nil, func() {
		for i, value := range e.eval(shared...) {
			e.assign(elementAt(names[i], lane), value)
		}
	})
	for i, v := range shared {
		e.bindValue(v, elementAt(names[i], lane))
	}
}
