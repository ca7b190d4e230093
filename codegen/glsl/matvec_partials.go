package glsl

import "fmt"

// partials is where the partial sums of a matvec meet in shared memory: an array
// for each product, or the room of the lookup table, which may be as large as
// shared memory is, where nothing reads it any more.
type partials struct {
	arrays []string
	table  *lookupTable
	each   int // of a product, in the table
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

// load prints the partial sum of product n at a place.
func (p partials) load(n int, place text) text {
	if p.table == nil {
		return primary(p.arrays[n] + "[" + place.String() + "]")
	}
	return call("uintBitsToFloat", primary(p.table.word(plus(place, uintLit(n*p.each)))))
}

// store prints the statement that stores one.
func (p partials) store(n int, place, sum text) string {
	if p.table == nil {
		return fmt.Sprintf("%s[%s] = %s;", p.arrays[n], place, sum)
	}
	return fmt.Sprintf("%s = floatBitsToUint(%s);", p.table.word(plus(place, uintLit(n*p.each))), sum)
}
