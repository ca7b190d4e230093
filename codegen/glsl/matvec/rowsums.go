package matvec

import (
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
)

// shareRowSums computes the sums over rows that a matvec also needs, such as for a normalization. All invocations of a
// workgroup share each row, and leave partial sums in shared memory, which may be read after the next barrier.
func (v *matVec) shareRowSums() {
	s := v.S
	for _, p := range v.K.Phases {
		array := v.Share("float", p.Name+"_parts", s.ThreadM*v.rowParts())
		v.rowSums = append(v.rowSums, array)
		v.Blank()
		v.Scope.Write(&syntax.Comment{Text: "// " + p.Name + ": sum over the row."})
		v.Repeat("i", s.ThreadM, func(i expr.Expr) { v.shareRowSum(p, array, i) })
	}
}

// shareRowSum computes the partial sums of phase p for row i and writes them to array.
func (v *matVec) shareRowSum(p kernel.Phase, array, i expr.Expr) {
	s := v.S
	v.BindRow(i)
	sum := v.Variable("float", p.Name, expr.Of("0.0"))
	v.eachQuad(int(v.K.Fold.Add)/4, func(_, n expr.Expr) {
		v.RunLanes(emit.Run{Axis: v.Fold, Width: 4, Base: expr.Times(n, 4)}, []*kernel.Expr{p.Value}, nil, func() {
			v.Update(sum, "+=", v.AsFloat(p.Value))
		})
	})
	v.SumLanes(sum, s.Subgroup/2)
	if s.Subgroup == 0 { // each invocation has a partial sum
		v.Assign(expr.At(array, expr.Flat(i, v.rowParts(), expr.Of("gl_LocalInvocationID.x"))), sum)
		return
	}
	v.OpenIf(expr.Of("gl_SubgroupInvocationID == 0u"))
	v.Assign(expr.At(array, expr.Flat(i, v.rowParts(), expr.Of("gl_SubgroupID"))), sum)
	v.Close()
}

// rowParts is the number of partial sums of a row: one per subgroup, or one per invocation if the schedule relies on no
// subgroup size.
func (v *matVec) rowParts() int { return v.S.Workgroup / max(v.S.Subgroup, 1) }

// bindRowSums adds up the partial sums of a row and binds the totals, so that stores can read them. It needs a barrier
// after shareRowSums.
func (v *matVec) bindRowSums(row expr.Expr) {
	parts := v.rowParts()
	for i, p := range v.K.Phases {
		first := expr.Times(row, parts)
		at := func(n expr.Expr) expr.Expr { return expr.At(v.rowSums[i], expr.Plus(first, n)) }
		sum := v.Variable("float", p.Name, at(expr.Of("0u")))
		if parts > 1 {
			n := v.OpenLoop("p", expr.Uint(1), expr.Uint(parts), 1)
			v.Update(sum, "+=", at(n))
			v.Close()
		}
		v.BindAcc(v.K.PhaseAcc(i), sum)
	}
}
