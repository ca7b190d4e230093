package glsl

// partials is the shared memory for the partial sums of a matvec: an array for each matmul, or the memory of the lookup
// table once the table is no longer read. The table may be as large as all shared memory.
type partials struct {
	arrays []text
	table  *lookupTable
	each   int // the size of a matmul's partials in the table
}

func (v *matVec) newPartials() partials {
	results, parts := v.partials()
	if v.lookup != nil && v.s.Coarsen == 0 {
		v.barrier()
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
		return p.at(n, place)
	}
	return call("uintBitsToFloat", p.at(n, place))
}

// at prints a slot of matmul n, and word converts a partial sum to what a slot holds.
func (p partials) at(n int, place text) text {
	if p.table == nil {
		return elementAt(p.arrays[n], place)
	}
	return p.table.word(plus(place, uintLit(n*p.each)))
}

func (p partials) word(sum text) text {
	if p.table == nil {
		return sum
	}
	return call("floatBitsToUint", sum)
}
