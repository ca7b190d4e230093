package keval

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
)

// CheckHazards returns an error if two steps have no barrier between them and one writes memory that the other
// accesses. kernels has the kernel of each step.
func CheckHazards(p *kernel.Program, kernels []*kernel.Kernel) error {
	first := 0
	for i, st := range p.Steps {
		// Steps before a barrier are done, and a loop's body begins with one.
		if st.Barrier || p.Begins(i) {
			first = i
		}
		for j := first; j < i; j++ {
			if a, b, ok := conflict(p, kernels, j, i); ok {
				return fmt.Errorf("no barrier between step %d (%s) and step %d (%s), which share buffers %d and %d",
					j, p.Steps[j].Name, i, st.Name, a, b)
			}
		}
	}
	return nil
}

// conflict returns two buffers that share bytes, one of step i and one of step j, at least one of them written. ok is
// false if there are none, or if the two steps write different elements.
func conflict(p *kernel.Program, kernels []*kernel.Kernel, i, j int) (a, b int, ok bool) {
	for m, x := range p.Steps[i].Binds {
		for n, y := range p.Steps[j].Binds {
			if (x.Write || y.Write) && p.Overlap(x.Buffer, y.Buffer) &&
				!(x.Buffer == y.Buffer && kernel.WriteApart(kernels[i], m, kernels[j], n)) {
				return x.Buffer, y.Buffer, true
			}
		}
	}
	return 0, 0, false
}

// checkKernel checks that a kernel agrees with its step, and that its properties are consistent.
func checkKernel(k *kernel.Kernel, st kernel.Step) (err error) {
	defer bailout.Caught(&err)
	if len(st.Binds) != len(k.Bindings) {
		fail("%d buffers for %d bindings", len(st.Binds), len(k.Bindings))
	}
	for i, b := range k.Bindings {
		if b.Read != st.Binds[i].Read || b.Write != st.Binds[i].Write {
			fail("binding %d (%s): the kernel and the step differ on how it is used", i, b.Name)
		}
	}
	switch {
	case k.Family == kernel.FamilyCustom:
		return checkCustom(k)
	case k.Family == kernel.FamilyMatMul && len(k.Parallel) < 2:
		fail("a matmul of %d axes", len(k.Parallel))
	case k.Family == kernel.FamilyAttention:
		bailout.Check(k.CheckAttention())
	case k.Family == kernel.FamilyRecurrence:
		bailout.Check(k.CheckRecurrence())
	}
	kernel.Walk(k.Roots(), func(e *kernel.Expr) { checkExpr(k, e) })
	checkFolds(k)
	checkStores(k)
	return nil
}

// checkExpr fails if an expression's binding, dtype or arguments are invalid.
func checkExpr(k *kernel.Kernel, e *kernel.Expr) {
	switch e.Kind {
	case kernel.ExprLoad:
		if e.Bind < 0 || e.Bind >= len(k.Bindings) {
			fail("e%d loads from binding %d of %d", e.ID, e.Bind, len(k.Bindings))
		}
		want := k.Bindings[e.Bind].DType
		// A load from blocks decodes them.
		if want.IsBlock() {
			want = ir.F32
		}
		if e.DType != want {
			fail("e%d is %s, its binding %s", e.ID, e.DType, k.Bindings[e.Bind].DType)
		}
	case kernel.ExprAcc:
		if e.Acc < 0 || e.Acc >= results(k) {
			fail("e%d: no phase or product %d", e.ID, e.Acc)
		}
	case kernel.ExprRandom:
		if len(e.Args) != 2 || e.DType != ir.U32 || e.Word > kernel.WordSecond {
			fail("e%d: word %d of a random stream of %d arguments as %s", e.ID, e.Word, len(e.Args), e.DType)
		}
		for _, a := range e.Args {
			if a.DType != ir.U32 && a.DType != ir.I64 {
				fail("e%d: a seed or offset of %s", e.ID, a.DType)
			}
		}
	case kernel.ExprApply:
		if in := e.Op.Info(); in.Class != ir.ClassElementwise || len(e.Args) < in.MinArgs() ||
			len(e.Args) > in.MaxArgs() {
			fail("e%d: %s of %d arguments", e.ID, e.Op, len(e.Args))
		}
		if t := e.DType; t.IsFloat() && t.BlockBytes() < ir.F32.BlockBytes() && e.Op != ir.OpCast &&
			!e.Op.Info().IsExact(t, e.Attrs) {
			fail("e%d: %s gives %s, which devices compute in f32: compute it in f32 and cast", e.ID, e.Op, t)
		}
	}
}

// results is the number of results of a kernel's phases and matmuls, or of its attention or recurrence.
func results(k *kernel.Kernel) int {
	switch k.Family {
	case kernel.FamilyAttention:
		// the largest score, the sum of weights, and an element of the result
		return 3
	case kernel.FamilyRecurrence:
		// an element of y and of the state
		return 2
	default:
		return len(k.Phases) + len(k.MatMuls)
	}
}

// checkFolds fails if a kernel has phases, matmuls or extents that its family does not allow. An operand of a matmul or
// phase must not use results that are computed later.
func checkFolds(k *kernel.Kernel) {
	if perElement(k.Family) && (len(k.Phases) != 1 || len(k.MatMuls) > 0) {
		fail("a %s of %d phases and %d products, want one phase", k.Family, len(k.Phases), len(k.MatMuls))
	}
	if k.Family == kernel.FamilySort && k.Take.Max() > k.Fold.Max() {
		fail("a sort that takes %s of %s", k.Take, k.Fold)
	}
	if k.Limit != nil && !perElement(k.Family) {
		fail("a limit in a %s kernel", k.Family)
	}
	for i, p := range k.Phases {
		// A phase may only use the results of earlier ones.
		for j := i; j < len(k.Phases); j++ {
			if p.Value.UsesAcc(k.PhaseAcc(j)) {
				fail("phase %d (%s) uses the result of phase %d", i, p.Name, j)
			}
		}
	}
	if k.RowSums() {
		bailout.Check(k.CheckRowSums())
	}
	bailout.Check(k.CheckCols())
	row, col := len(k.Parallel)-2, len(k.Parallel)-1
	for i, p := range k.MatMuls {
		switch {
		case p.A.Uses(col) || p.B.Uses(row):
			fail("product %d (%s): an operand uses the other one's axis", i, p.Name)
		case p.A.UsesAnyAcc() || p.B.UsesAnyAcc():
			fail("product %d (%s) uses a result", i, p.Name)
		}
	}
}

// checkStores fails if a kernel stores nothing, or stores something that its family does not allow.
func checkStores(k *kernel.Kernel) {
	for i, s := range k.Stores {
		fold := k.Family != kernel.FamilyMap && (s.Value.Uses(k.FoldAxis()) || s.Index.Uses(k.FoldAxis()))
		if fold && (!s.PerElement || k.Family == kernel.FamilyAttention) {
			fail("store %d uses the fold axis outside of its loop", i)
		}
		checkPerElement(k, i, s)
	}
	switch k.Family {
	case kernel.FamilyGroup:
		bailout.Check(k.CheckGroup())
	case kernel.FamilyQuantize:
		bailout.Check(k.CheckQuantize())
	default:
		if len(k.Stores) == 0 {
			fail("nothing is stored")
		}
	}
}

// checkPerElement fails if store i is per row element in a family without such stores, or must be and is not.
func checkPerElement(k *kernel.Kernel, i int, s kernel.Store) {
	switch k.Family {
	case kernel.FamilyRow, kernel.FamilyQuantize, kernel.FamilyRecurrence:
	case kernel.FamilyScan, kernel.FamilySort:
		if !s.PerElement {
			fail("store %d of a %s is not per row element", i, k.Family)
		}
	case kernel.FamilyAttention:
		value := k.AttentionAxes().Value
		// Result 2 is the weighted sum of the values, which has the value axis (see kernel.Attention).
		if !s.PerElement && (s.Value.Uses(value) || s.Index.Uses(value) || s.Value.UsesAcc(2)) {
			fail("store %d uses an element of the row's result outside of the loop over it", i)
		}
	default:
		if s.PerElement {
			fail("store %d is per row element in a %s kernel", i, k.Family)
		}
	}
}
