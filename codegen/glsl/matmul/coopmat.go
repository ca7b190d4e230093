package matmul

import (
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// coopMat is a matmul on cooperative matrices of subgroup scope. A workgroup computes TileM x TileN results in steps of
// TileK. It copies a tile of each operand to shared memory, as 16-bit or int8 elements, in lines along the axis along
// which the operand is contiguous. Its subgroups multiply fragments of the tiles. While they multiply the tiles of a
// step, they prefetch the next tiles into registers. At the end the results replace the tiles in shared memory, from
// where invocations store four neighbouring columns at a time.
type coopMat struct {
	*staging
	s       kernel.CoopMat
	fragRow expr.Expr // the first row and column of the subgroup's fragments in the tile
	fragCol expr.Expr
}

// EmitCoopMat writes a matmul on cooperative matrices of subgroup scope.
func EmitCoopMat(e *emit.Emitter) {
	s := e.Sched.(kernel.CoopMat)
	self := e.SelfIndex()
	m := New(e, s.Tile, s.Band)
	if e.Err != nil {
		return
	}
	e.Need(emit.NeedCoopMat, emit.NeedMemoryModel)
	c := &coopMat{staging: m.newStaging(self), s: s}
	// The subgroup computes this part of the tile.
	id, count := expr.Of("gl_SubgroupID"), s.SubgroupsM*s.SubgroupsN
	c.fragRow = c.Named("frag_row", expr.Times(expr.Quotient(id, s.SubgroupsN, count), s.TileM/s.SubgroupsM))
	c.fragCol = c.Named("frag_col", expr.Times(expr.Remainder(id, s.SubgroupsN, count), s.TileN/s.SubgroupsN))
	sums := emit.Fragment(c.s.Fragment, c.sums, "Accumulator")
	c.DeclareZeros(sums, expr.Call(sums, c.Quads.Zero), c.rows()*c.cols())
	c.stagedLoop(func(_, stage expr.Expr) { c.multiply(stage) })
	c.storeResults()
}

// rows and cols are the numbers of a subgroup's result fragments along the rows and columns.
func (c *coopMat) rows() int { return c.s.TileM / c.s.SubgroupsM / c.s.FragM }
func (c *coopMat) cols() int { return c.s.TileN / c.s.SubgroupsN / c.s.FragN }

// multiply multiplies the tiles of a stage and adds to the sums.
func (c *coopMat) multiply(stage expr.Expr) {
	rows, cols := c.rows(), c.cols()
	c.Comment("Multiply the tiles in shared memory.")
	steps := c.s.TileK / c.s.FragK
	c.Repeat("part", steps, func(step expr.Expr) {
		fragmentsOfA := map[*Operand]expr.Array{}
		for _, st := range c.operands[:len(c.A)] {
			fragmentsOfA[st.Operand] = c.Array(emit.Fragment(c.s.Fragment, c.dtype, "A"), "frag_"+st.Name, rows)
		}
		c.Repeat("i", rows, func(i expr.Expr) {
			for _, st := range c.operands[:len(c.A)] {
				line := expr.Plus(c.fragRow, expr.Times(i, c.s.FragM))
				c.loadFragment(st, fragmentsOfA[st.Operand].At(i), stage, line, step)
			}
		})
		c.Repeat("j", cols, func(j expr.Expr) {
			fragmentsOfB := map[*Operand]expr.Expr{}
			for _, st := range c.operands[len(c.A):] {
				fragmentsOfB[st.Operand] = c.Unset(emit.Fragment(c.s.Fragment, c.dtype, "B"), "frag_"+st.Name)
				line := expr.Plus(c.fragCol, expr.Times(j, c.s.FragN))
				c.loadFragment(st, fragmentsOfB[st.Operand], stage, line, step)
			}
			c.Repeat("i", rows, func(i expr.Expr) {
				for _, p := range c.MatMuls {
					sum := p.Sums.At(expr.Flat(i, cols, j))
					c.MultiplyAdd(sum, fragmentsOfA[p.A].At(i), fragmentsOfB[p.B])
				}
			})
		})
	})
}

// loadFragment loads a fragment from an operand's tile in shared memory into the variable name. The fragment begins at
// row or column at of the tile, and at element step*FragK along the contraction axis.
func (c *coopMat) loadFragment(st *staged, name, stage, at, step expr.Expr) {
	line, octet := at, expr.Times(step, c.s.FragK/c.unit)
	if !st.Along {
		line, octet = expr.Times(step, c.s.FragK), c.overOctet(at)
	}
	offset := expr.Plus(stage, expr.Uint(st.base), expr.Times(line, schedule.StagedPitch(st.perLine, c.unit)), octet)
	c.loadStaged(st, name, offset)
}

// storeResults stores the results by way of shared memory, from which an invocation can read four neighbours of a row.
// Every subgroup has its own part of that memory, from index place on. It writes `wide` adjacent fragments there at a
// time, as 32-bit elements.
func (c *coopMat) storeResults() {
	s, wide := c.s, c.resultWidth()
	c.Comment("Results pass through shared memory, %d by %d of each subgroup at a time.", s.FragM, wide*s.FragN)
	place := c.Named("place", expr.Times(expr.Of("gl_SubgroupID"), len(c.MatMuls)*schedule.CoopMatResult(s, wide)))
	c.Repeat("i", c.rows(), func(i expr.Expr) {
		c.Repeat("j", c.cols()/wide, func(j expr.Expr) {
			c.shareFragments(i, j, place, wide)
			c.Do("subgroupBarrier")
			row := expr.Plus(c.Row0, c.fragRow, expr.Times(i, s.FragM))
			col := expr.Plus(c.Col0, c.fragCol, expr.Times(j, wide*s.FragN))
			c.finishFragments(row, col, place, wide)
			c.Do("subgroupBarrier")
		})
	})
}

// resultWidth returns the number of adjacent fragments that pass through shared memory at a time. It divides the number
// of columns of fragments. The results replace the tiles in shared memory, so they must not take more memory.
func (c *coopMat) resultWidth() int {
	// most is in units of 16 bytes, for the results of one matmul and subgroup.
	most := schedule.MatrixUnits(c.K, c.s) / schedule.UnitsOf16(c.K, c.s) /
		(c.s.SubgroupsM * c.s.SubgroupsN * len(c.MatMuls))
	wide := c.cols()
	for wide > 1 && (c.cols()%wide != 0 || schedule.CoopMatResult(c.s, wide) > most) {
		wide--
	}
	return wide
}

// shareFragments stores `wide` adjacent fragments of each matmul's results in shared memory, from index place on. They
// are in row i of the subgroup's fragments, and j*wide fragments are before them.
func (c *coopMat) shareFragments(i, j, place expr.Expr, wide int) {
	s, per16 := c.s, schedule.UnitsOf16(c.K, c.s)
	pitch := schedule.CoopMatResultPitch(s, wide)
	for n, p := range c.MatMuls {
		for f := range wide {
			sum := p.Sums.At(expr.Flat(i, c.cols(), expr.Flat(j, wide, expr.Uint(f))))
			at := expr.Plus(place, expr.Uint(n*schedule.CoopMatResult(s, wide)+f*s.FragN/4))
			if c.sums == ir.F16 { // shared memory has 32-bit elements here
				sum = expr.Call(emit.Fragment(s.Fragment, ir.F32, "Accumulator"), sum)
			}
			c.StoreMatrix(sum, c.tiles, expr.Times(at, per16), pitch*per16, "Row")
		}
	}
}

// finishFragments stores `wide` adjacent fragments to the result, from the given row and column on. The subgroup has
// them in shared memory from index place on. It unrolls every loop: a driver may keep a loop inside the loop over
// fragments, and then keeps the fragments in memory.
func (c *coopMat) finishFragments(row, col, place expr.Expr, wide int) {
	s := c.s
	quads := wide * s.FragN / 4 // of a row
	total := s.FragM * quads
	c.EachSlot(expr.Of("gl_SubgroupInvocationID"), total, s.Subgroup, func(_, slot expr.Expr) {
		line := c.Named("line", expr.Quotient(slot, quads, total))
		quad := c.Named("quad", expr.Remainder(slot, quads, total))
		var sums []expr.Expr
		for n, p := range c.MatMuls {
			at := expr.Plus(place, expr.Uint(n*schedule.CoopMatResult(s, wide)),
				expr.Flat(line, schedule.CoopMatResultPitch(s, wide), quad))
			sums = append(sums, c.Variable(c.Quads.Vector, p.Sums.Name.Text+"4", c.resultQuad(at)))
		}
		row = c.Named("row", expr.Plus(row, line))
		col = c.Named("col4", expr.Plus(col, expr.Times(quad, 4)))
		c.FinishQuad(row, col, sums)
	})
}

// resultQuad returns four results, loaded from unit number at (16 bytes) of shared memory.
func (c *coopMat) resultQuad(at expr.Expr) expr.Expr {
	element := func(at expr.Expr) expr.Expr { return expr.At(c.tiles, at) }
	switch {
	case c.Quads == emit.FloatQuads:
		return expr.Call("uintBitsToFloat", element(at))
	case schedule.UnitsOf16(c.K, c.s) == 1:
		return expr.Call(c.Quads.Vector, element(at))
	}
	low := c.Named("half", expr.Times(at, 2))
	return expr.Call(c.Quads.Vector, element(low), element(expr.Plus(low, expr.Uint(1))))
}
