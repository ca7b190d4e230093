package glsl

// rowTiles are rows of A in shared memory, for the steps of the contraction that
// the lanes of a sum take at a time. From memory, lanes that take long runs of
// blocks read rows far apart, which holds them up (M-matvec-blocks).
type rowTiles struct {
	arrays map[*matOperand]string // of vec4, row after row
	first  text                   // element of the contraction that they begin with
	quads  int                    // of a row
}

// inTiles writes body for every LanesPerRow-th step from this invocation's first
// on, rows being in shared memory.
func (v *matVec) inTiles(r blockRun, steps int64, body func(step text)) {
	lanes := v.s.LanesPerRow
	v.staged = &rowTiles{arrays: map[*matOperand]string{}, quads: lanes * r.Elems / 4}
	for _, o := range v.a {
		v.staged.arrays[o] = v.share("vec4", o.name+"_tile", v.s.ThreadM*lanes*v.s.TileK/4)
	}
	first := v.loop("first", primary("0u"), uintLit(steps), lanes)
	v.staged.first = v.named("k0", times(first, r.Elems))
	v.fillTiles(steps%int64(lanes) != 0, uintLit(steps*int64(r.Elems)))
	v.line("barrier();")
	step := primary(v.variable("uint", "step", plus(first, v.part)))
	v.openBelow(steps%int64(lanes) != 0, step, uintLit(steps))
	body(step)
	v.close()
	v.line("barrier();")
	v.close()
	v.staged = nil
}

// fillTiles copies what the steps from first on need of all rows; partial says
// that the contraction may end before.
func (v *matVec) fillTiles(partial bool, end text) {
	n := v.loop("n", v.self, uintLit(int64(v.staged.quads)), v.s.Workgroup)
	k := primary(v.variable("uint", "k", plus(v.staged.first, times(n, 4))))
	v.openBelow(partial, k, end)
	place := primary(v.variable("uint", "place", spread(n)))
	v.repeat("i", v.s.ThreadM, func(i text) {
		v.bindRow(i)
		for _, o := range v.a {
			v.line("%s[%s] = %s;", v.staged.arrays[o], plus(times(i, v.staged.quads), place).s, v.quad(o, k, true).s)
		}
	})
	v.close()
	v.close()
}

// spread prints the place of quad n of a row: eight lanes at the same quad of
// runs of 8 or 16 hit different banks.
func spread(n text) text {
	return binary("^", n, binary("&", binary("^", binary(">>", n, primary("3")), binary(">>", n, primary("6"))), primary("7u")))
}

// rowReader returns what prints quad t of row i of an A, of the strip that begins
// at place k of the contraction.
func (v *matVec) rowReader(r blockRun, k text) func(o *matOperand, i, t text) text {
	if v.staged == nil {
		return func(o *matOperand, i, t text) text {
			v.bindRow(i)
			return v.quad(o, plus(k, times(t, 4)), true)
		}
	}
	first := primary(v.variable("uint", "first_quad", binary("/", binary("-", k, v.staged.first), uintLit(4))))
	place := func(t text) text { return spread(within(first, t)) }
	if r.Quads <= 8 { // which differ in the bits that spread changes, and leave the others
		at := primary(v.variable("uint", "place", spread(first)))
		place = func(t text) text {
			if t.s == "0u" {
				return at
			}
			return binary("^", at, t)
		}
	}
	return func(o *matOperand, i, t text) text {
		return primary(v.staged.arrays[o] + "[" + plus(times(i, v.staged.quads), place(t)).s + "]")
	}
}
