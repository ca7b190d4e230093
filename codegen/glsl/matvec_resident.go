package glsl

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
)

// resident are the runs of A that an invocation multiplies by the blocks of all its columns. They stay in registers
// over all passes of the workgroup. A pass covers some columns, so it reads only B.
type resident []*residentRun

// residentRun is one run along the contraction axis.
type residentRun struct {
	inside text // the condition that the run exists, or nil if it always does
	parts  []residentPart
}

// residentPart is a part of a residentRun, with its part of the rows.
type residentPart struct {
	place
	rows activations
}

// unrollColumns computes the workgroup's columns in passes of a few columns each.
func (v *matVec) unrollColumns() {
	early := v.prefetchSectors()
	v.shareTables()
	var rows resident
	if v.s.TileK > 0 {
		rows = v.loadResident()
	}
	nothing := v.awaitPrefetch(early)
	shared := v.newPartials()
	pass := func() {
		v.declareSums(v.s.ThreadM * v.s.ThreadN)
		if rows == nil {
			v.stream()
		} else {
			v.addResident(rows)
			if nothing != nil {
				v.update(v.sumsAt(primary("0u"))[0], "+=", nothing)
			}
			v.liftSums()
		}
		v.shareParts(shared)
		v.close()
	}
	first, columns := 0, v.groups*v.s.ThreadN
	if v.held != nil {
		v.line("")
		v.openScope()
		pass()
		v.held, first = nil, columns
	}
	if first < v.s.TileN {
		v.line("")
		v.firstCol = v.loop("first_col", uintLit(first), uintLit(v.s.TileN), columns)
		pass()
		v.firstCol = nil
	}
	v.meet(shared)
}

// loadResident loads an invocation's runs of all rows.
func (v *matVec) loadResident() resident {
	v.reader.prepare()
	v.line("")
	r := v.reader.(columnReader)
	rows := v.placeResident(r.parts())
	switch {
	case v.s.Held:
		v.holdBlocks(rows)
	case v.s.Ahead > 0:
		v.prefetchBlocks(rows)
	}
	v.rows.ready()
	if tile := schedule.ResidentTile(v.k, v.s); tile > 0 {
		v.loadThroughTile(rows, tile)
	} else {
		rows.each(func(p *residentPart) { p.rows = r.activations(p.place) })
	}
	return rows
}

// prefetchBlocks loads one word of every 16 bytes that the first columns read. So the blocks are on their way to the
// cache while the workgroup prepares the row. The loads take few registers. They have no effect on the result, but only
// the device can tell.
func (v *matVec) prefetchBlocks(rows resident) {
	asked := v.variable("uint", "asked", primary("0u"))
	v.repeat("j", v.s.ThreadN, func(j text) {
		v.bindColumn(j)
		rows.each(func(s *residentPart) {
			for _, o := range v.b {
				b, at := v.blockBuffer(o), v.variable("uint", "at", v.blockOf(o, s.block))
				for t := 0; t < v.run.Quads; t += 4 {
					v.update(asked, "^=", call("quants_"+b.base, v.quadArgs(at, s.place, uintLit(t))...))
				}
				if b.DType.BlockElems() > kernel.RoundedGroup { // the scales take longer than the wait
					continue
				}
				scale := call("scale_"+b.base, at, within(s.e, s.at))
				if v.run.Form.Affine {
					scale = member(scale, "x")
				}
				v.line("%s ^= floatBitsToUint(%s);", asked, scale)
			}
		})
	})
	v.dependOn(asked)
}

// dependOn adds a no-op data dependency of the multiplication on a word, so that compilers keep its loads.
func (v *matVec) dependOn(asked text) {
	v.line("ones += int(gl_NumWorkGroups.x >> 31 & %s); // + 0", asked)
}

// placeResident computes the positions of an invocation's runs, each of parts parts.
func (v *matVec) placeResident(parts int) resident {
	var rows resident
	lanes := v.s.LanesPerRow
	steps, _ := v.k.Fold.Quo(int64(v.run.Elems))
	for first := int64(0); first < steps.Add; first += int64(lanes) {
		step, run := plus(v.part, uintLit(first)), &residentRun{}
		if first+int64(lanes) > steps.Add {
			step = v.variable("uint", "step", step)
			run.inside = v.variable("bool", "inside", binary("<", step, uintLit(steps.Add)))
			step = call("min", step, uintLit(steps.Add-1))
		}
		at := v.placeOf(v.named("step", step), int(steps.Add))
		for p := range parts {
			run.parts = append(run.parts, residentPart{place: v.partOf(at, uintLit(p))})
		}
		rows = append(rows, run)
	}
	return rows
}

// each calls do for every part.
func (h resident) each(do func(*residentPart)) {
	for _, run := range h {
		for i := range run.parts {
			do(&run.parts[i])
		}
	}
}

// loadThroughTile loads the strips through shared memory, tile quads at a time. Neighbours then read neighbouring quads
// of the rows, and each reads all its quads before it stores the first. Direct loads of strips are far apart and take
// longer (M-matvec-blocks).
func (v *matVec) loadThroughTile(rows resident, tile int) {
	s := v.s
	rows.each(func(p *residentPart) { p.rows = v.ofRows(v.declareFloats) })
	array := v.share("vec4", "tile", tile)
	quads, share := int(v.k.Fold.Add)/4, tile/s.Workgroup
	for _, o := range v.a {
		v.repeat("i", s.ThreadM, func(i text) {
			tiles := (quads + tile - 1) / tile
			own, each := v.readQuads(o, i, 1, tiles*share)
			v.repeat("c", tiles, func(c text) {
				v.repeat("q", share, func(q text) {
					place := v.variable("uint", "place", plus(v.self, times(q, s.Workgroup)))
					v.assign(elementAt(array, spread(place)), elementOf(own, each, plus(times(c, share), q)))
				})
				v.barrier()
				rows.each(func(p *residentPart) { v.takeStrip(p.rows[o], p.k, array, i, c, tile) })
				v.barrier()
			})
		})
	}
}

// takeStrip copies row i of the strip at k from tile c, if the strip is in that tile.
func (v *matVec) takeStrip(row rowArrays, k, array, i, c text, tile int) {
	first := binary("/", k, uintLit(4))
	v.openIf(binary("==", binary("/", first, uintLit(tile)), c))
	at := v.variable("uint", "at", binary("%", first, uintLit(tile)))
	v.fillStrip(row, i, func(t text) text { return elementAt(array, spread(within(at, t))) })
	v.close()
}

// addResident multiplies every column by the rows in registers, and adds to the sums.
func (v *matVec) addResident(rows resident) {
	v.line("")
	v.repeat("j", v.s.ThreadN, func(j text) {
		v.bindColumn(j)
		for i, run := range rows {
			v.openIf(run.inside)
			for _, p := range run.parts {
				v.openScope()
				p.slot = heldSlot(rows, i, j)
				v.reader.(columnReader).addColumn(p.place, p.rows, j)
				v.close()
			}
			v.close()
		}
	})
}

// readQuads loads row i of an A. Each invocation takes atOnce neighbouring quads at a time, and keeps its quads in an
// array of each vectors, at least room.
func (v *matVec) readQuads(o *matOperand, i text, atOnce, room int) (own text, each int) {
	shares := int(v.k.Fold.Add) / 4 / atOnce
	each = max((shares+v.s.Workgroup-1)/v.s.Workgroup*atOnce, room)
	own = v.array("vec4", "own", each)
	v.bindRow(i)
	v.eachQuad(shares, func(q, n text) {
		v.repeat("h", atOnce, func(h text) {
			to, from := plus(times(q, atOnce), h), plus(times(n, atOnce), h)
			v.assign(elementOf(own, each, to), v.quad(o, times(from, 4), true))
		})
	})
	return own, each
}

// eachQuad writes body for each of an invocation's quads of a row. q is its number among the invocation's own, and n is
// its number in the row.
func (v *matVec) eachQuad(quads int, body func(q, n text)) {
	lanes := v.s.Workgroup
	v.repeat("q", (quads+lanes-1)/lanes, func(q text) {
		n := v.variable("uint", "n", plus(v.self, times(q, lanes)))
		v.openBelow(quads%lanes != 0, n, uintLit(quads))
		body(q, n)
		v.close()
	})
}
