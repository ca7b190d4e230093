package target

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// directs: tiles of the direct variant, for devices whose tuning has one. Rows
// are spread evenly over as few tiles as hold them, products share the columns
// of an invocation, and workgroups shrink until there are enough.
func (t tuning) directs(k *kernel.Kernel) []Candidate {
	sh := matShapeOf(k)
	if t.direct.M == 0 || sh.M < 2 || !cheapOperands(k) {
		return nil // nothing is gained where a row is alone: matvec does as well
	}
	rows := int(ceilDiv(max(sh.M, 1), ceilDiv(max(sh.M, 1), int64(t.direct.M))))
	columns := max(t.direct.ThreadN/len(k.Products), 1)
	var all []Candidate
	for wg := t.direct.workgroup(); wg >= smallest; wg /= 2 {
		groups := min(sh.Batch, unknownExtent>>24) * ceilDiv(sh.M, int64(rows)) * ceilDiv(sh.N, int64(wg*columns))
		if groups < t.fill && wg > smallest {
			continue
		}
		all = append(all, Candidate{
			kernel.Schedule{Variant: kernel.VarMatDirect, Workgroup: wg, Vec: 4, TileM: rows, ThreadM: rows, TileN: wg * columns, ThreadN: columns, TileK: t.direct.K},
			fmt.Sprintf("%dx%dx%d straight from memory, %dx%d an invocation: %d workgroups", sh.M, sh.N, sh.K, rows, columns, groups),
		})
	}
	return all
}

// cheapOperands reports whether all operands are mere loads, at places linear
// in the coordinates that they depend on. The direct variant computes operands
// more often than the tile variant: an A once for a few columns only.
func cheapOperands(k *kernel.Kernel) bool {
	cheap := func(v *kernel.Expr) bool {
		for v.Kind == kernel.ExprApply && len(v.Args) == 1 && v.DType.IsFloat() && v.Args[0].DType.IsFloat() {
			v = v.Args[0]
		}
		if v.Kind != kernel.ExprLoad {
			return false
		}
		r := len(k.Parallel)
		for _, axis := range []int{r - 2, r - 1, k.FoldAxis()} {
			if _, ok := v.Index.Stride(axis); !ok {
				return false
			}
		}
		return true
	}
	for _, p := range k.Products {
		if !cheap(p.A) || !cheap(p.B) {
			return false
		}
	}
	return true
}

// checkDirect: an invocation has all rows of the tile, and columns a workgroup
// apart.
func checkDirect(k *kernel.Kernel, s kernel.Schedule) error {
	if s.TileM != s.ThreadM {
		return fmt.Errorf("invocations of %d rows do not share the %d of the tile", s.ThreadM, s.TileM)
	}
	return checkTile(k, s)
}
