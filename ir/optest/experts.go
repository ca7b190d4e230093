package optest

import (
	"fmt"

	"github.com/vkc-go/vkc/ir"
)

// experts adds the cases of matmul_id, where ids select a matrix for each row. Some ids are out of range.
func (s *suite) experts() {
	for _, m := range []struct{ tokens, used, row, experts, n, k int }{
		{1, 1, 1, 1, 1, 1}, {1, 2, 1, 4, 17, 8}, {5, 2, 2, 3, 7, 11}, {3, 1, 1, 2, 64, 5},
		{67, 2, 1, 4, 13, 19}, {67, 2, 2, 4, 32, 32}, {131, 3, 1, 5, 67, 36}, {40, 2, 1, 1, 8, 16},
		// no tokens, and no columns
		{0, 2, 1, 4, 3, 5}, {3, 2, 1, 4, 5, 0},
	} {
		for _, l := range []layout{plain, viewed} {
			name := fmt.Sprintf("%dx%d of %d, %d rows/%dx%d/%s", m.tokens, m.used, m.experts, m.row, m.n,
				m.k, layoutNames[l])
			s.add(ir.OpMatMulID, name, func(b *builder, t ir.DType) *ir.Node {
				x, w := b.arg(t, []int{m.tokens, m.row, m.k}, l, small), b.arg(t, []int{m.experts, m.n, m.k}, l, small)
				return b.op(ir.OpMatMulID, []*ir.Node{x, w, b.indices(ir.I32, m.experts, m.tokens, m.used)})
			}).allDTypesIf(l == plain && (m.n == 7 || m.n == 13)).smoke = m.n == 7 || m.n == 13
		}
	}
	for _, q := range ir.DTypes() {
		if !q.IsBlock() {
			continue
		}
		for _, tokens := range []int{1, 35} {
			s.add(ir.OpMatMulID, fmt.Sprintf("%s/%d tokens", q, tokens), func(b *builder, t ir.DType) *ir.Node {
				x, w := b.input(t, []int{tokens, 1, 256}, small), b.leaf(ir.OpWeight, q, []int{3, 13, 256}, small, 0)
				return b.op(ir.OpMatMulID, []*ir.Node{x, w, b.indices(ir.I64, 3, tokens, 2)})
			}).types = []ir.DType{ir.F32, ir.F16}
		}
	}
	for _, n := range []int{0, 1, 7, 300, 5000} {
		for _, experts := range []int{1, 3, 200} {
			for _, rows := range []int{1, 16} {
				s.add(ir.OpExpertGroups, fmt.Sprintf("%d of %d/%d rows", n, experts, rows),
					func(b *builder, t ir.DType) *ir.Node {
						return b.op(ir.OpExpertGroups, []*ir.Node{b.indices(t, experts, n)}, attr("experts", experts),
							attr("rows", rows))
					}).allDTypesIf(n == 300 && rows == 16)
			}
		}
	}
}
