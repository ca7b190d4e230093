package glsl

import "github.com/vkc-go/vkc/codegen/kernel"

// shareRowSums adds up the rows, where a matvec has sums along them besides its products,
// and leaves their parts in shared memory, for after the next barrier. All invocations of
// a workgroup share each: it has whole rows, whatever its columns.
func (v *matVec) shareRowSums() {
	s := v.s
	for _, p := range v.k.Phases {
		array := v.share("float", p.Name+"_parts", s.ThreadM*v.rowParts())
		v.rowSums = append(v.rowSums, array)
		v.line("")
		v.line("// %s: sum over the row.", p.Name)
		v.repeat("i", s.ThreadM, func(i text) { v.shareRowSum(p, array, i) })
	}
}

func (v *matVec) shareRowSum(p kernel.Phase, array string, i text) {
	s := v.s
	v.bindRow(i)
	sum := v.variable("float", p.Name, primary("0.0"))
	v.eachQuad(int(v.k.Fold.Add)/4, func(_, n text) {
		v.lanes(v.fold, 4, times(n, 4), []*kernel.Expr{p.Value}, nil, func() {
			v.line("%s += %s;", sum, v.asFloat(p.Value))
		})
	})
	for m := s.Subgroup / 2; m > 0; m /= 2 {
		v.line("%s += subgroupShuffleXor(%s, %du);", sum, sum, m)
	}
	if s.Subgroup == 0 {
		v.line("%s[%s] = %s;", array, plus(times(i, v.rowParts()), primary("gl_LocalInvocationID.x")), sum)
		return
	}
	v.openGuard("if (%s)", "gl_SubgroupInvocationID == 0u")
	v.line("%s[%s] = %s;", array, plus(times(i, v.rowParts()), primary("gl_SubgroupID")), sum)
	v.close()
}

// rowParts is how many parts a row's sum is left in: one for each subgroup, or for
// each invocation where there are none to rely on.
func (v *matVec) rowParts() int { return v.s.Workgroup / max(v.s.Subgroup, 1) }

// bindRowSums gives the stores of a row what shareRowSums has left, once all
// invocations have done so.
func (v *matVec) bindRowSums(row text) {
	parts := v.rowParts()
	for i, p := range v.k.Phases {
		first := times(row, parts)
		at := func(n text) string { return v.rowSums[i] + "[" + plus(first, n).String() + "]" }
		sum := v.variable("float", p.Name, primary(at(primary("0u"))))
		if parts > 1 {
			n := v.loop("p", uintLit(1), uintLit(parts), 1)
			v.line("%s += %s;", sum, at(n))
			v.close()
		}
		v.bindAcc(v.k.PhaseAcc(i), sum)
	}
}
