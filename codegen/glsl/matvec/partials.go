package matvec

import (
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/matmul"
)

// partials is the shared memory for the partial sums of a matvec: an array for each matmul, or the memory of the lookup
// table once the table is no longer read. The table may be as large as all shared memory.
type partials struct {
	arrays []expr.Expr
	table  *lookupTable
	each   int // the size of a matmul's partials in the table
}

func (v *matVec) newPartials() partials {
	results, parts := v.partials()
	if v.lookup != nil && v.S.Coarsen == 0 {
		v.Barrier()
		return partials{table: v.lookup, each: parts * (results + 1)}
	}
	var p partials
	for n := range v.Products {
		p.arrays = append(p.arrays,
			v.Share(v.Quads.Scalar, matmul.Numbered("partial", n, len(v.Products)), parts*(results+1)))
	}
	return p
}

// load prints the partial sum of matmul n at a slot.
func (p partials) load(n int, place expr.Expr) expr.Expr {
	if p.table == nil {
		return p.at(n, place)
	}
	return expr.Call("uintBitsToFloat", p.at(n, place))
}

// at prints a slot of matmul n, and word converts a partial sum to what a slot holds.
func (p partials) at(n int, place expr.Expr) expr.Expr {
	if p.table == nil {
		return expr.At(p.arrays[n], place)
	}
	return p.table.word(expr.Plus(place, expr.Uint(n*p.each)))
}

func (p partials) word(sum expr.Expr) expr.Expr {
	if p.table == nil {
		return sum
	}
	return expr.Call("floatBitsToUint", sum)
}
