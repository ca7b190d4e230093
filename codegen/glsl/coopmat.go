package glsl

import (
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// coopMat is a matmul on cooperative matrices of subgroup scope. A workgroup computes TileM x TileN results in steps of
// TileK. It stages a tile of each operand in shared memory, as 16-bit or int8 elements, along the axis along which the
// operand is contiguous. Its subgroups multiply fragments of the tiles. While they multiply one stage, they prefetch
// the next one into registers. At the end the results replace the tiles in shared memory, and invocations finish four
// neighbouring columns at a time from there.
type coopMat struct {
	*staging
	fragRow text // the origin of the subgroup's fragments in the tile
	fragCol text
}

// emitCoopMat writes a matmul on cooperative matrices of subgroup scope.
func emitCoopMat(e *emitter) {
	self := e.selfIndex()
	m := newMatMul(e)
	if e.err != nil {
		return
	}
	e.need(NeedCoopMat, NeedMemoryModel)
	c := &coopMat{staging: m.newStaging(self)}
	c.placeSubgroup()
	sums := c.fragment(c.sums, "Accumulator")
	c.declareZeros(sums, call(sums, c.quads.zero), c.rows()*c.cols())
	c.accumulate()
	c.pass()
}

// placeSubgroup assigns a part of the tile to a subgroup.
func (c *coopMat) placeSubgroup() {
	id, s := primary("gl_SubgroupID"), c.s
	count := s.SubgroupsM * s.SubgroupsN
	c.fragRow = c.named("frag_row", times(quotient(id, s.SubgroupsN, count), s.TileM/s.SubgroupsM))
	c.fragCol = c.named("frag_col", times(remainder(id, s.SubgroupsN, count), s.TileN/s.SubgroupsN))
}

// rows and cols are the numbers of result fragments of a subgroup.
func (c *coopMat) rows() int { return c.s.TileM / c.s.SubgroupsM / c.s.FragM }
func (c *coopMat) cols() int { return c.s.TileN / c.s.SubgroupsN / c.s.FragN }

// accumulate steps through the contraction axis.
func (c *coopMat) accumulate() {
	c.stages(func(_, stage text) { c.multiply(stage) })
}

// multiply multiplies the tiles of a stage and adds to the sums.
func (c *coopMat) multiply(stage text) {
	rows, cols := c.rows(), c.cols()
	c.comment("Multiply the tiles in shared memory.")
	steps := c.s.TileK / c.s.FragK
	c.repeat("part", steps, func(step text) {
		as := map[*matOperand]text{}
		for _, st := range c.operands[:len(c.a)] {
			as[st.matOperand] = c.array(c.fragment(c.dtype, "A"), "frag_"+st.name, rows)
		}
		c.repeat("i", rows, func(i text) {
			for _, st := range c.operands[:len(c.a)] {
				c.loadFragment(st, elementOf(as[st.matOperand], rows, i), stage,
					plus(c.fragRow, times(i, c.s.FragM)), step)
			}
		})
		c.repeat("j", cols, func(j text) {
			bs := map[*matOperand]text{}
			for _, st := range c.operands[len(c.a):] {
				bs[st.matOperand] = c.unset(c.fragment(c.dtype, "B"), "frag_"+st.name)
				c.loadFragment(st, bs[st.matOperand], stage, plus(c.fragCol, times(j, c.s.FragN)), step)
			}
			c.repeat("i", rows, func(i text) {
				for _, p := range c.products {
					sum := elementOf(p.sums, rows*cols, plus(times(i, cols), j))
					c.multiplyAdd(sum, elementOf(as[p.a], rows, i), bs[p.b])
				}
			})
		})
	})
}

// loadFragment loads a fragment from a row or column of the tile and a step of the contraction axis.
func (c *coopMat) loadFragment(st *staged, name, stage, at, step text) {
	line, octet := at, times(step, c.s.FragK/c.unit)
	if !st.along {
		line, octet = times(step, c.s.FragK), c.overOctet(at)
	}
	offset := plus(plus(plus(stage, uintLit(st.base)), times(line, schedule.StagedPitch(st.inner, c.unit))), octet)
	c.loadStaged(st, name, offset)
}

// pass stores the results. It writes as many adjacent fragments as fit, for all subgroups at once, to shared memory in
// 32 bits, and finishes the results from there. Every subgroup has a part of its own.
func (c *coopMat) pass() {
	s := c.s
	wide, per16 := c.cols(), schedule.UnitsOf16(c.k, s)
	for wide > 1 && (c.cols()%wide != 0 || c.resultRoom(wide)*per16 > schedule.MatrixUnits(c.k, s)) {
		wide--
	}
	pitch := schedule.CoopMatResultPitch(s, wide)
	quads := wide * s.FragN / 4
	total := s.FragM * quads
	c.comment("Results pass through shared memory, %d by %d of each subgroup at a time.", s.FragM, wide*s.FragN)
	place := c.named("place", times(primary("gl_SubgroupID"), len(c.products)*schedule.CoopMatResult(s, wide)))
	c.repeat("i", c.rows(), func(i text) {
		c.repeat("j", c.cols()/wide, func(j text) {
			for n, p := range c.products {
				for f := range wide {
					sum := elementOf(p.sums, c.rows()*c.cols(),
						plus(times(i, c.cols()), plus(times(j, wide), uintLit(f))))
					at := plus(place, uintLit(n*schedule.CoopMatResult(s, wide)+f*s.FragN/4))
					if c.sums == ir.F16 {
						sum = call(c.fragment(ir.F32, "Accumulator"), sum)
					}
					c.storeMatrix(sum, c.tiles, times(at, per16), pitch*per16, "Row")
				}
			}
			c.line("subgroupBarrier();")
			row := plus(plus(c.row0, c.fragRow), times(i, s.FragM))
			col := plus(plus(c.col0, c.fragCol), times(j, wide*s.FragN))
			c.finishFragments(row, col, place, quads, total, wide)
			c.line("subgroupBarrier();")
		})
	})
}

func (c *coopMat) resultRoom(wide int) int {
	return c.s.SubgroupsM * c.s.SubgroupsN * len(c.products) * schedule.CoopMatResult(c.s, wide)
}

// finishFragments stores the results that a subgroup has in shared memory. It unrolls every loop: for a loop inside a
// loop over fragments, a driver may keep both loops, and the fragments in memory.
func (c *coopMat) finishFragments(row, col, place text, quads, total, wide int) {
	s := c.s
	c.eachSlot(primary("gl_SubgroupInvocationID"), total, s.Subgroup, func(_, slot text) {
		line := c.named("line", quotient(slot, quads, total))
		quad := c.named("quad", remainder(slot, quads, total))
		var sums []text
		for n, p := range c.products {
			at := plus(plus(place, uintLit(n*schedule.CoopMatResult(s, wide))),
				plus(times(line, schedule.CoopMatResultPitch(s, wide)), quad))
			sums = append(sums, c.variable(c.quads.vector, p.sums.Text+"4", c.resultQuad(at)))
		}
		row = c.named("row", plus(row, line))
		col = c.named("col4", plus(col, times(quad, 4)))
		c.finishQuad(row, col, sums)
	})
}

// resultQuad prints four results from 16 bytes of shared memory.
func (c *coopMat) resultQuad(at text) text {
	element := func(at text) text { return elementAt(c.tiles, at) }
	switch {
	case c.quads == floatQuads:
		return call("uintBitsToFloat", element(at))
	case schedule.UnitsOf16(c.k, c.s) == 1:
		return call(c.quads.vector, element(at))
	}
	low := c.named("half", times(at, 2))
	return call(c.quads.vector, element(low), element(plus(low, uintLit(1))))
}
