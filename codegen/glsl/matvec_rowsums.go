package glsl

import "github.com/vkc-go/vkc/codegen/kernel"

// shareRowSums adds up the rows if a matvec also has row sums, and leaves the partial sums in shared memory for after
// the next barrier. All invocations of a workgroup share each row. A workgroup has whole rows, for any columns.
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

func (v *matVec) shareRowSum(p kernel.Phase, array, i text) {
	s := v.s
	v.bindRow(i)
	sum := v.variable("float", p.Name, primary("0.0"))
	v.eachQuad(int(v.k.Fold.Add)/4, func(_, n text) {
		v.lanes(v.fold, 4, times(n, 4), []*kernel.Expr{p.Value}, nil, func() {
			v.update(sum, "+=", v.asFloat(p.Value))
		})
	})
	for m := s.Subgroup / 2; m > 0; m /= 2 {
		v.line("%s += subgroupShuffleXor(%s, %du);", sum, sum, m)
	}
	if s.Subgroup == 0 {
		v.assign(elementAt(array, plus(times(i, v.rowParts()), primary("gl_LocalInvocationID.x"))), sum)
		return
	}
	v.openIf(primary("gl_SubgroupInvocationID == 0u"))
	v.assign(elementAt(array, plus(times(i, v.rowParts()), primary("gl_SubgroupID"))), sum)
	v.close()
}

// rowParts is the number of partial sums of a row: one per subgroup, or one per invocation if the schedule relies on no
// subgroup size.
func (v *matVec) rowParts() int { return v.s.Workgroup / max(v.s.Subgroup, 1) }

// bindRowSums binds the row's sums for its stores. All invocations have called shareRowSums before.
func (v *matVec) bindRowSums(row text) {
	parts := v.rowParts()
	for i, p := range v.k.Phases {
		first := times(row, parts)
		at := func(n text) text { return elementAt(v.rowSums[i], plus(first, n)) }
		sum := v.variable("float", p.Name, at(primary("0u")))
		if parts > 1 {
			n := v.loop("p", uintLit(1), uintLit(parts), 1)
			v.update(sum, "+=", at(n))
			v.close()
		}
		v.bindAcc(v.k.PhaseAcc(i), sum)
	}
}
