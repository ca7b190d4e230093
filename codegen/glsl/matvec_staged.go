package glsl

// stagedRows are float rows in shared memory, for the steps that the lanes of a sum take together. Lanes that take long
// runs of blocks would read rows from memory far apart, which is slow (M-matvec-blocks).
type stagedRows struct {
	memoryRows
	arrays map[*matOperand]text // of vec4, row after row
	first  text                 // the element of the contraction axis that they begin with
	each   int                  // quads of a row
}

// throughTiles writes body for every LanesPerRow-th step from this invocation's first step on, with rows in shared
// memory.
func (v *matVec) throughTiles(r *stagedRows, steps int64, body func(step text)) {
	lanes := v.s.LanesPerRow
	r.each = lanes * v.run.Elems / 4
	for _, o := range v.a {
		r.arrays[o] = v.share("vec4", o.name+"_tile", v.s.ThreadM*lanes*v.s.TileK/4)
	}
	partial := steps%int64(lanes) != 0
	first := v.loop("first", primary("0u"), uintLit(steps), lanes)
	r.first = v.named("k0", times(first, v.run.Elems))
	r.fill(partial, uintLit(steps*int64(v.run.Elems)))
	v.barrier()
	step := v.variable("uint", "step", plus(first, v.part))
	v.openBelow(partial, step, uintLit(steps))
	body(step)
	v.close()
	v.barrier()
	v.close()
}

// fill copies the part of all rows for the steps from first on. partial says that the contraction axis may end before.
func (r *stagedRows) fill(partial bool, end text) {
	n := r.v.loop("n", r.v.self, uintLit(r.each), r.v.s.Workgroup)
	k := r.v.variable("uint", "k", plus(r.first, times(n, 4)))
	r.v.openBelow(partial, k, end)
	place := r.v.variable("uint", "place", spread(n))
	r.v.repeat("i", r.v.s.ThreadM, func(i text) {
		r.v.bindRow(i)
		for _, o := range r.v.a {
			r.v.assign(elementAt(r.arrays[o], plus(times(i, r.each), place)), r.v.quad(o, k, true))
		}
	})
	r.v.close()
	r.v.close()
}

// spread prints the slot of quad n of a row. Eight lanes that read the same quad of runs of 8 or 16 then use different
// banks.
func spread(n text) text {
	return binary("^", n,
		binary("&", binary("^", binary(">>", n, primary("3")), binary(">>", n, primary("6"))), primary("7u")))
}

func (r *stagedRows) quadsAt(k text) func(o *matOperand, i, t text) text {
	first := r.v.variable("uint", "first_quad", binary("/", binary("-", k, r.first), uintLit(4)))
	place := func(t text) text { return spread(within(first, t)) }
	if r.v.run.Quads <= 8 { // quads differ only in the bits that spread changes
		at := r.v.variable("uint", "place", spread(first))
		place = func(t text) text {
			if t.Is("0u") {
				return at
			}
			return binary("^", at, t)
		}
	}
	return func(o *matOperand, i, t text) text {
		return elementAt(r.arrays[o], plus(times(i, r.each), place(t)))
	}
}

func (r *stagedRows) strip(o *matOperand, k text) rowArrays { return r.v.floatStrip(o, k, r.quadsAt) }
