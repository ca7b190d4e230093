package matvec

import (
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/matmul"
)

// partials is the shared memory for the partial sums of a matvec: either one array per matmul, or the memory of the
// lookup table, after its last read. The lookup table may fill all shared memory, so the two cannot be separate.
type partials struct {
	arrays []expr.Expr
	table  *lookupTable
	each   int // number of partial sums of a matmul, if they are in the table
}

// newPartials declares the shared memory for partial sums. A matvec with a lookup table reuses the memory of the table
// instead, after a barrier. It cannot if its workgroup goes on to further columns (Coarsen), because it then reads the
// table again.
func (v *matVec) newPartials() partials {
	size := v.partsPerResult() * v.partPitch()
	if v.lookup != nil && v.S.Coarsen == 0 {
		v.Barrier()
		return partials{table: v.lookup, each: size}
	}
	var p partials
	for n := range v.MatMuls {
		p.arrays = append(p.arrays, v.Share(v.Quads.Scalar, matmul.Numbered("partial", n, len(v.MatMuls)), size))
	}
	return p
}

// load returns partial sum number place of matmul n as a float.
func (p partials) load(n int, place expr.Expr) expr.Expr {
	if p.table == nil {
		return p.at(n, place)
	}
	return expr.Call("uintBitsToFloat", p.at(n, place))
}

// at returns the shared-memory word of partial sum number place of matmul n.
func (p partials) at(n int, place expr.Expr) expr.Expr {
	if p.table == nil {
		return expr.At(p.arrays[n], place)
	}
	return p.table.word(expr.Plus(place, expr.Uint(n*p.each)))
}

// word converts a float to the element type of the shared array: the words of the lookup table are of type uint.
func (p partials) word(sum expr.Expr) expr.Expr {
	if p.table == nil {
		return sum
	}
	return expr.Call("floatBitsToUint", sum)
}
