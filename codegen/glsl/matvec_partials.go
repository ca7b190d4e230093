package glsl

import "fmt"

// partials is the shared memory for the partial sums of a matvec: an array for each matmul, or the memory of the lookup
// table once the table is no longer read. The table may be as large as all shared memory.
type partials struct {
	arrays []string
	table  *lookupTable
	each   int // the size of a matmul's partials in the table
}

func (v *matVec) newPartials() partials {
	results, parts := v.partials()
	if v.lookup != nil && v.s.Coarsen == 0 {
		v.line("barrier();")
		return partials{table: v.lookup, each: parts * (results + 1)}
	}
	var p partials
	for n := range v.products {
		p.arrays = append(p.arrays,
			v.share(v.quads.scalar, numberedName("partial", n, len(v.products)), parts*(results+1)))
	}
	return p
}

// load prints the partial sum of matmul n at a slot.
func (p partials) load(n int, place text) text {
	if p.table == nil {
		return primary(p.arrays[n] + "[" + place.String() + "]")
	}
	return call("uintBitsToFloat", primary(p.table.word(plus(place, uintLit(n*p.each)))))
}

// store prints the statement that stores a partial sum.
func (p partials) store(n int, place, sum text) string {
	if p.table == nil {
		return fmt.Sprintf("%s[%s] = %s;", p.arrays[n], place, sum)
	}
	return fmt.Sprintf("%s = floatBitsToUint(%s);", p.table.word(plus(place, uintLit(n*p.each))), sum)
}
