package glsl

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/target"
	"github.com/vkc-go/vkc/ir"
)

// coopMat is a product on matrix units. A workgroup computes TileM x TileN
// results in steps of TileK: it stages that much of each operand in shared
// memory in 16 bits, along whichever axis the operand lies in memory, and its
// subgroups multiply fragments of it. While one stage is multiplied the next is
// already on its way from memory, in registers. At the end the f32 results
// take the place of the tiles in shared memory, from where invocations finish
// four neighbouring columns at a time.
type coopMat struct {
	*matMul
	dtype    ir.DType // of the operands on the matrix units
	self     text
	tiles    string // the shared array, in octets
	operands []*staged
	octets   int  // of one stage
	fragRow  text // where the subgroup's fragments begin in the tile
	fragCol  text
}

// staged is an operand on its way through shared memory.
type staged struct {
	*matOperand
	value  *kernel.Expr // less the roundings that staging makes needless
	raw    bool         // octets are copied as they lie in memory
	extent int          // of the tile, along the operand's own axis
	lines  int          // of the tile in shared memory
	inner  int          // elements per line
	axis   int          // that lines go along
	outer  int          // that lines are numbered along
	base   int          // of the tile in a stage, in octets
	rounds int          // octets per invocation
	next   string       // the registers that hold them
}

// emitCoopMat writes a product on matrix units of subgroup scope.
func (e *emitter) emitCoopMat() {
	self := e.selfIndex()
	m := e.newMatMul()
	if e.err != nil {
		return
	}
	e.need(NeedCoopMat, NeedMemoryModel)
	c := &coopMat{matMul: m, self: self}
	c.dtype, _ = target.MatrixDType(e.k)
	e.needMatrix(c.dtype)
	c.stageOperands()
	c.tiles = m.share("uvec4", "tiles", target.CoopMatOctets(m.k, m.s))
	c.placeSubgroup()
	c.declareFragments()
	c.accumulate()
	c.pass()
}

// needMatrix records what matrices of a dtype take.
func (e *emitter) needMatrix(t ir.DType) {
	if t == ir.BF16 {
		e.need(NeedBFloat16Matrix)
	} else {
		e.need(NeedFloat16)
	}
}

// matrixElement is the element type of matrices of a dtype.
func matrixElement(t ir.DType) string {
	return map[ir.DType]string{ir.F16: "float16_t", ir.BF16: "bfloat16_t", ir.F32: "float"}[t]
}

// stageOperands gives every operand its part of a stage.
func (c *coopMat) stageOperands() {
	for _, o := range append(append([]*matOperand(nil), c.a...), c.b...) {
		st := &staged{matOperand: o, value: target.Unrounded(o.value, c.dtype), base: c.octets}
		st.extent = c.s.TileM
		if o.axis == c.col {
			st.extent = c.s.TileN
		}
		st.axis, st.outer, st.inner, st.lines = c.fold, o.axis, c.s.TileK, st.extent
		if !o.along {
			st.axis, st.outer, st.inner, st.lines = o.axis, c.fold, st.extent, c.s.TileK
		}
		st.raw = c.isRaw(st)
		st.rounds = (st.octets() + c.s.Workgroup - 1) / c.s.Workgroup
		c.octets += target.StagedOctets(o.along, st.extent, c.s.TileK)
		c.operands = append(c.operands, st)
	}
	for _, st := range c.operands {
		st.next = c.fresh(c.scope, "next_"+st.name)
	}
}

// octets is how many octets a tile has, without padding.
func (st *staged) octets() int { return st.lines * st.inner / target.OctetElems }

// isRaw reports whether eight neighbours of an operand are 16 aligned bytes in
// memory, in the dtype that matrix units take.
func (c *coopMat) isRaw(st *staged) bool {
	v := st.value
	return v.Kind == kernel.ExprLoad && c.k.Bindings[v.Bind].DType == c.dtype && target.DivisibleBy(c.extent(st.axis), target.OctetElems) &&
		!c.k.Bindings[v.Bind].Write && adjacent(v.Index, st.axis, target.OctetElems)
}

// placeSubgroup says which part of the tile a subgroup computes.
func (c *coopMat) placeSubgroup() {
	id, s := primary("gl_SubgroupID"), c.s
	count := s.SubgroupsM * s.SubgroupsN
	c.fragRow = c.named("frag_row", times(quotient(id, s.SubgroupsN, count), s.TileM/s.SubgroupsM))
	c.fragCol = c.named("frag_col", times(remainder(id, s.SubgroupsN, count), s.TileN/s.SubgroupsN))
}

// named gives a text a name unless it is as short as one.
func (m *matMul) named(name string, t text) text {
	if t.plain() {
		return t
	}
	return primary(m.variable("uint", name, t))
}

// rows and cols are how many fragments of results a subgroup holds.
func (c *coopMat) rows() int { return c.s.TileM / c.s.SubgroupsM / c.s.FragM }
func (c *coopMat) cols() int { return c.s.TileN / c.s.SubgroupsN / c.s.FragN }

// fragment is the type of a fragment; use is A, B or Accumulator.
func (c *coopMat) fragment(t ir.DType, use string) string {
	s := c.s
	rows, cols := s.FragM, s.FragN
	switch use {
	case "A":
		cols = s.FragK
	case "B":
		rows = s.FragK
	}
	return fmt.Sprintf("coopmat<%s, gl_ScopeSubgroup, %d, %d, gl_MatrixUse%s>", matrixElement(t), rows, cols, use)
}

func (c *coopMat) declareFragments() {
	typ := c.fragment(ir.F32, "Accumulator")
	count := c.rows() * c.cols()
	for i := range c.products {
		p := &c.products[i]
		p.sums = c.fresh(c.scope, c.k.Products[i].Name)
		c.line("%s %s%s;", typ, p.sums, arraySize(count))
	}
	c.repeat("i", count, func(i text) {
		for _, p := range c.products {
			c.line("%s = %s(0.0);", elementOf(p.sums, count, i).s, typ)
		}
	})
}

// accumulate goes through the contraction.
func (c *coopMat) accumulate() {
	step := c.s.TileK
	for _, st := range c.operands {
		c.line("uvec4 %s%s;", st.next, arraySize(st.rounds))
	}
	c.comment("The first tiles go to shared memory.")
	c.openScope()
	for _, st := range c.operands {
		c.fetch(st, primary("0u"))
	}
	for _, st := range c.operands {
		c.put(st, primary("0u"))
	}
	c.line("barrier();")
	c.close()
	c.line("")
	stage := primary(c.variable("uint", "stage", primary("0u")))
	k0 := c.loop("k0", primary("0u"), c.dim(c.k.Fold), step)
	k1 := primary(c.variable("uint", "k1", plus(k0, uintLit(int64(step)))))
	more := binary("<", k1, c.dim(c.k.Fold)).s
	c.openGuard("if (%s)", more)
	for _, st := range c.operands {
		c.fetch(st, k1)
	}
	c.close()
	c.multiply(stage)
	c.line("%s = %du - %s;", stage.s, c.octets, stage.s)
	c.openGuard("if (%s)", more)
	for _, st := range c.operands {
		c.put(st, stage)
	}
	c.close()
	c.line("barrier();")
	c.close()
}

// eachOctet writes body for the octets of a tile that an invocation moves:
// their number among its own, and their line and place in it.
func (c *coopMat) eachOctet(st *staged, body func(i, line, octet text)) {
	perLine := st.inner / target.OctetElems
	total := st.octets()
	c.repeat("i", st.rounds, func(i text) {
		slot := plus(c.self, times(i, c.s.Workgroup))
		if !slot.plain() {
			slot = primary(c.variable("uint", "slot", slot))
		}
		partial := total%c.s.Workgroup != 0
		if partial {
			c.openGuard("if (%s < %du)", slot.s, total)
		}
		body(i, quotient(slot, perLine, total), remainder(slot, perLine, total))
		if partial {
			c.close()
		}
	})
}

// fetch reads an invocation's octets of an operand's tile at k0 of the
// contraction.
func (c *coopMat) fetch(st *staged, k0 text) {
	c.comment("Fetch %d %s of %s.", st.extent, map[bool]string{true: "rows", false: "columns"}[st.matOperand.axis == c.row], st.name)
	c.eachOctet(st, func(i, line, octet text) {
		from := map[int]text{c.row: c.row0, c.col: c.col0, c.fold: k0}
		at := plus(from[st.outer], line)
		inner := primary(c.variable("uint", c.axisVariable(st.axis), plus(from[st.axis], times(octet, target.OctetElems))))
		inside := c.insideOctet(st, at, inner)
		if st.outer != c.fold {
			at = c.clampTo(at, st.outer, st.extent)
		}
		at = primary(c.variable("uint", c.axisVariable(st.outer), at))
		c.bindAxis(st.outer, at)
		dst := elementOf(st.next, st.rounds, i).s
		if inside != "" {
			c.line("%s = uvec4(0u);", dst)
			c.openGuard("if (%s)", inside)
		}
		c.octet(st, inner, dst)
		if inside != "" {
			c.close()
		}
	})
}

// axisVariable names a coordinate.
func (c *coopMat) axisVariable(axis int) string {
	if axis == c.fold {
		return "k"
	}
	return c.paraName(axis)
}

// insideOctet returns the condition that an octet has elements within the
// operand, or "" where it always has. Beyond the contraction zeros must stand;
// beyond the rows or columns whatever does.
func (c *coopMat) insideOctet(st *staged, at, inner text) string {
	var cond text
	and := func(t text) {
		if cond.s == "" {
			cond = t
		} else {
			cond = binary("&&", cond, t)
		}
	}
	if !target.DivisibleBy(c.extent(st.axis), st.inner) {
		and(binary("<", inner, c.dim(c.extent(st.axis))))
	}
	if st.outer == c.fold && !target.DivisibleBy(c.k.Fold, c.s.TileK) {
		// The line has its name only later.
		and(binary("<", at, c.dim(c.k.Fold)))
	}
	return cond.s
}

// octet sets dst to eight neighbours that begin within the operand.
func (c *coopMat) octet(st *staged, inner text, dst string) {
	if st.raw {
		c.openScope()
		c.bindAxis(st.axis, inner)
		c.plan(nil, []kernel.Index{st.value.Index})
		at := binary("/", c.indexText(st.value.Index), uintLit(target.OctetElems))
		c.line("%s = %s[%s];", dst, c.view(c.buffers[st.value.Bind], target.OctetElems), at.s)
		c.close()
		return
	}
	whole := target.DivisibleBy(c.extent(st.axis), target.OctetElems)
	low := c.quadAlong(st.value, st.axis, inner, true, st.name+"_low")
	high := c.quadAlong(st.value, st.axis, plus(inner, uintLit(4)), whole, st.name+"_high")
	c.line("%s = uvec4(%s, %s);", dst, c.pack(low), c.pack(high))
}

// pack rounds four floats to the dtype of the matrices, as two words.
func (c *coopMat) pack(quad text) string {
	if !quad.plain() {
		quad = primary(c.variable("vec4", "quad", quad))
	}
	if c.dtype == ir.BF16 {
		c.helper("pack_bf16", "float")
		return fmt.Sprintf("pack_bf16(%s.xy), pack_bf16(%s.zw)", quad.s, quad.s)
	}
	return fmt.Sprintf("packHalf2x16(%s.xy), packHalf2x16(%s.zw)", quad.s, quad.s)
}

// put writes an invocation's octets to the tile in a stage.
func (c *coopMat) put(st *staged, stage text) {
	c.eachOctet(st, func(i, line, octet text) {
		at := plus(plus(plus(stage, uintLit(int64(st.base))), times(line, target.StagedPitch(st.inner))), octet)
		c.line("%s[%s] = %s;", c.tiles, at.s, elementOf(st.next, st.rounds, i).s)
	})
}

// multiply adds the products of the tiles in a stage to the sums.
func (c *coopMat) multiply(stage text) {
	rows, cols := c.rows(), c.cols()
	c.comment("Multiply the tiles in shared memory.")
	steps := c.s.TileK / c.s.FragK
	c.repeat("part", steps, func(step text) {
		as := map[*matOperand]string{}
		for _, st := range c.operands[:len(c.a)] {
			as[st.matOperand] = c.fresh(c.scope, "frag_"+st.name)
			c.line("%s %s%s;", c.fragment(c.dtype, "A"), as[st.matOperand], arraySize(rows))
		}
		c.repeat("i", rows, func(i text) {
			for _, st := range c.operands[:len(c.a)] {
				c.loadFragment(st, elementOf(as[st.matOperand], rows, i).s, stage, plus(c.fragRow, times(i, c.s.FragM)), step)
			}
		})
		c.repeat("j", cols, func(j text) {
			bs := map[*matOperand]string{}
			for _, st := range c.operands[len(c.a):] {
				bs[st.matOperand] = c.fresh(c.scope, "frag_"+st.name)
				c.line("%s %s;", c.fragment(c.dtype, "B"), bs[st.matOperand])
				c.loadFragment(st, bs[st.matOperand], stage, plus(c.fragCol, times(j, c.s.FragN)), step)
			}
			c.repeat("i", rows, func(i text) {
				for _, p := range c.products {
					sum := elementOf(p.sums, rows*cols, plus(times(i, cols), j)).s
					c.line("%s = coopMatMulAdd(%s, %s, %s);", sum, elementOf(as[p.a], rows, i).s, bs[p.b], sum)
				}
			})
		})
	})
}

// loadFragment reads a fragment that begins at a row or column of the tile and
// a step of the contraction.
func (c *coopMat) loadFragment(st *staged, name string, stage, at, step text) {
	pitch := target.StagedPitch(st.inner)
	line, octet := at, times(step, c.s.FragK/target.OctetElems)
	if !st.along {
		line, octet = times(step, c.s.FragK), overOctet(at)
	}
	offset := plus(plus(plus(stage, uintLit(int64(st.base))), times(line, pitch)), octet)
	layout := "RowMajor"
	if st.along != (st.matOperand.axis == c.row) {
		layout = "ColumnMajor"
	}
	c.line("coopMatLoad(%s, %s, %s, %du, gl_CooperativeMatrixLayout%s);", name, c.tiles, offset.s, pitch, layout)
}

// overOctet prints a multiple of eight in octets.
func overOctet(t text) text {
	if t.s == "0u" {
		return t
	}
	return binary("/", t, uintLit(target.OctetElems))
}

// pass stores the results: fragments side by side, as many as fit in shared
// memory for all subgroups at once, go there as f32 and are finished from
// there. Every subgroup has a place of its own.
func (c *coopMat) pass() {
	s := c.s
	wide := c.cols()
	for wide > 1 && (c.cols()%wide != 0 || c.resultRoom(wide) > target.CoopMatOctets(c.k, s)) {
		wide--
	}
	pitch := target.CoopMatResultPitch(s, wide)
	quads := wide * s.FragN / 4
	total := s.FragM * quads
	c.comment("Results pass through shared memory, %d by %d of each subgroup at a time.", s.FragM, wide*s.FragN)
	place := c.named("place", times(primary("gl_SubgroupID"), len(c.products)*target.CoopMatResult(s, wide)))
	c.repeat("i", c.rows(), func(i text) {
		c.repeat("j", c.cols()/wide, func(j text) {
			for n, p := range c.products {
				for f := range wide {
					sum := elementOf(p.sums, c.rows()*c.cols(), plus(times(i, c.cols()), plus(times(j, wide), uintLit(int64(f)))))
					at := plus(place, uintLit(int64(n*target.CoopMatResult(s, wide)+f*s.FragN/4)))
					c.line("coopMatStore(%s, %s, %s, %du, gl_CooperativeMatrixLayoutRowMajor);", sum.s, c.tiles, at.s, pitch)
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
	return c.s.SubgroupsM * c.s.SubgroupsN * len(c.products) * target.CoopMatResult(c.s, wide)
}

// finishFragments stores the results that a subgroup has in shared memory.
func (c *coopMat) finishFragments(row, col, place text, quads, total, wide int) {
	s := c.s
	slot := c.loop("slot", primary("gl_SubgroupInvocationID"), uintLit(int64(total)), s.Subgroup)
	line := c.named("line", quotient(slot, quads, total))
	quad := c.named("quad", remainder(slot, quads, total))
	var sums []text
	for n, p := range c.products {
		at := plus(plus(place, uintLit(int64(n*target.CoopMatResult(s, wide)))), plus(times(line, target.CoopMatResultPitch(s, wide)), quad))
		sums = append(sums, primary(c.variable("vec4", p.sums+"4", call("uintBitsToFloat", primary(c.tiles+"["+at.s+"]")))))
	}
	row = c.named("row", plus(row, line))
	col = c.named("col4", plus(col, times(quad, 4)))
	c.finishQuad(row, col, sums)
	c.close()
}

// finishQuad writes the stores of four neighbouring columns, of which each
// product has its sums in a vec4.
func (m *matMul) finishQuad(row, col text, sums []text) {
	width := m.extent(m.col)
	if !target.DivisibleBy(width, 4) {
		m.repeat("part", 4, func(part text) {
			var at []text
			for _, s := range sums {
				at = append(at, primary(s.s+"["+part.s+"]"))
			}
			m.finish(row, primary(m.variable("uint", "col", plus(col, part))), at)
		})
		return
	}
	if cond := m.inside(row, col); cond != "" {
		m.openGuard("if (%s)", cond)
	} else {
		m.openScope()
	}
	m.bindAxis(m.row, row)
	var roots []*kernel.Expr
	for _, s := range m.k.Stores {
		roots = append(roots, s.Value)
	}
	m.runLanes(run{axis: m.col, width: 4, base: col, name: "col"}, roots, m.k.Stores, func() {
		for i, s := range sums {
			m.bindAcc(i, s.s+"["+component+"]")
		}
	})
	m.close()
}
