package matvec

import (
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/matmul"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/internal/ceil"
)

// residentRows are the elements of A that stay in an invocation's registers while a workgroup makes several passes,
// each over a few columns. So a pass reads only B. The elements are grouped in runs, as the blocks of B are read.
type residentRows []*residentRun

// residentRun is one run along the contraction axis: the elements that are multiplied by one run of a block of B.
type residentRun struct {
	inside expr.Expr // the condition that the run exists, or nil if it always does
	parts  []residentPart
}

// residentPart is a part of a residentRun (see [bReader]), with the rows' registers for that part.
type residentPart struct {
	position
	rows activations
}

// unrollColumns computes the workgroup's columns in passes of a few columns each.
func (v *matVec) unrollColumns() {
	early := v.prefetchSectors()
	v.shareTables()
	var rows residentRows
	if v.S.TileK > 0 {
		rows = v.loadResident()
	}
	var zero expr.Expr // depends on the prefetched sectors; nil if there are none
	if early.Len > 0 {
		zero = v.zeroFrom(early)
	}
	shared := v.newPartials()
	first, columns := 0, v.groups*v.S.ThreadN // columns of a pass
	if v.preload != nil {                     // the first pass uses preloaded blocks, and comes before the loop
		v.Blank()
		v.OpenScope()
		v.addPass(rows, zero, shared)
		v.Close()
		v.preload, first = nil, columns
	}
	if first < v.S.TileN {
		v.Blank()
		v.firstCol = v.OpenLoop("first_col", expr.Uint(first), expr.Uint(v.S.TileN), columns)
		v.addPass(rows, zero, shared)
		v.Close()
		v.firstCol = nil
	}
	v.storeShared(shared)
}

// addPass computes the partial sums of a pass and writes them to shared memory. rows is nil if the rows of A do not
// stay in registers. zero, if not nil, is a number 0 that depends on the prefetched sectors.
func (v *matVec) addPass(rows residentRows, zero expr.Expr, shared partials) {
	v.DeclareSums(v.S.ThreadM * v.S.ThreadN)
	if rows == nil {
		v.stream()
	} else {
		v.addResident(rows)
		if zero != nil {
			v.Update(v.SumsAt(expr.Of("0u"))[0], "+=", zero)
		}
		v.scaleUpSums()
	}
	v.sharePartialSums(shared)
}

// loadResident loads the rows of all runs of an invocation into registers.
func (v *matVec) loadResident() residentRows {
	v.reader.prepare()
	v.Blank()
	r := v.reader
	rows := v.placeResident(r.parts())
	if v.S.Prefetch.Blocks() {
		v.prefetchBlocks(rows)
	}
	v.rows.prepareRows()
	if tile := schedule.ResidentTile(v.K, v.S); tile > 0 {
		v.loadThroughTile(rows, tile)
	} else {
		rows.each(func(p *residentPart) { p.rows = r.activations(p.position) })
	}
	return rows
}

// placeResident computes the positions of all runs of an invocation, and divides each run into the given number of
// parts.
func (v *matVec) placeResident(parts int) residentRows {
	var rows residentRows
	lanes := v.S.LanesPerRow
	steps, _ := v.K.Fold.Quo(int64(v.run.Elems))
	for first := int64(0); first < steps.Add; first += int64(lanes) {
		step := expr.Plus(v.part, expr.Uint(first))
		run := &residentRun{}
		// Some invocations have no run here. They load the last one again, and addResident skips it.
		if first+int64(lanes) > steps.Add {
			step = v.Variable("uint", "step", step)
			run.inside = v.Variable("bool", "inside", expr.Binary("<", step, expr.Uint(steps.Add)))
			step = expr.Call("min", step, expr.Uint(steps.Add-1))
		}
		at := v.placeOf(v.Named("step", step), int(steps.Add))
		for p := range parts {
			run.parts = append(run.parts, residentPart{position: v.partOf(at, expr.Uint(p))})
		}
		rows = append(rows, run)
	}
	return rows
}

// each calls do for every part of every run.
func (h residentRows) each(do func(*residentPart)) {
	for _, run := range h {
		for i := range run.parts {
			do(&run.parts[i])
		}
	}
}

// loadThroughTile fills the strips of rows through shared memory, in tiles of the given number of quads. Neighbours
// then read neighbouring quads of A, and each reads all its quads before it stores the first. Direct loads of strips
// would be far apart and take longer (M-matvec-blocks).
func (v *matVec) loadThroughTile(rows residentRows, tile int) {
	s := v.S
	rows.each(func(p *residentPart) { p.rows = v.ofRows(v.declareFloats) })
	array := v.Share("vec4", "tile", tile)
	// share is the number of quads that an invocation moves per tile.
	quads, share := int(v.K.Fold.Add)/4, tile/s.Workgroup
	for _, o := range v.A {
		v.Repeat("i", s.ThreadM, func(i expr.Expr) {
			tiles := ceil.Div(quads, tile)
			own := v.readQuads(o, i, 1, tiles*share)
			v.Repeat("c", tiles, func(c expr.Expr) {
				v.Repeat("q", share, func(q expr.Expr) {
					place := v.Variable("uint", "place", expr.Plus(v.self, expr.Times(q, s.Workgroup)))
					v.Assign(expr.At(array, swizzled(place)), own.At(expr.Flat(c, share, q)))
				})
				v.Barrier()
				rows.each(func(p *residentPart) { v.takeStrip(p.rows[o], p.k, array, i, c, tile) })
				v.Barrier()
			})
		})
	}
}

// takeStrip copies row i of the strip at element k from shared memory into registers (row), if the strip is in tile
// number c of the row. array has that tile. tile is the number of quads of a tile.
func (v *matVec) takeStrip(row rowArrays, k, array, i, c expr.Expr, tile int) {
	first := expr.Binary("/", k, expr.Uint(4))
	v.OpenIf(expr.Binary("==", expr.Binary("/", first, expr.Uint(tile)), c))
	at := v.Variable("uint", "at", expr.Binary("%", first, expr.Uint(tile)))
	v.fillStrip(row, i, func(t expr.Expr) expr.Expr { return expr.At(array, swizzled(plusOffset(at, t))) })
	v.Close()
}

// addResident multiplies every column of a pass by the rows in registers, and adds to the sums.
func (v *matVec) addResident(rows residentRows) {
	v.Blank()
	v.Repeat("j", v.S.ThreadN, func(j expr.Expr) {
		v.bindColumn(j)
		for i, run := range rows {
			v.OpenIf(run.inside)
			for _, p := range run.parts {
				v.OpenScope()
				p.slot = preloadSlot(rows, i, j)
				v.reader.addColumn(p.position, p.rows, j)
				v.Close()
			}
			v.Close()
		}
	})
}

// readQuads loads row i of an A cooperatively: each invocation reads atOnce consecutive quads per step. It returns the
// array with the invocation's quads, which has at least minLen elements.
func (v *matVec) readQuads(o *matmul.Operand, i expr.Expr, atOnce, minLen int) expr.Array {
	shares := int(v.K.Fold.Add) / 4 / atOnce // of all invocations
	own := v.Array("vec4", "own", max(ceil.Div(shares, v.S.Workgroup)*atOnce, minLen))
	v.BindRow(i)
	v.eachQuad(shares, func(q, n expr.Expr) {
		v.Repeat("h", atOnce, func(h expr.Expr) {
			to, from := expr.Flat(q, atOnce, h), expr.Flat(n, atOnce, h)
			v.Assign(own.At(to), v.Quad(o, expr.Times(from, 4), emit.Inside))
		})
	})
	return own
}

// eachQuad divides the quads of a row among the invocations and calls body for each quad of this invocation. q counts
// the invocation's own quads, and n is the quad's number in the row.
func (v *matVec) eachQuad(quads int, body func(q, n expr.Expr)) {
	lanes := v.S.Workgroup
	v.Repeat("q", ceil.Div(quads, lanes), func(q expr.Expr) {
		n := v.Variable("uint", "n", expr.Plus(v.self, expr.Times(q, lanes)))
		v.OpenBelow(quads%lanes != 0, n, expr.Uint(quads))
		body(q, n)
		v.Close()
	})
}
