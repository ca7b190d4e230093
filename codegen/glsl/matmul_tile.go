package glsl

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/target"
)

// emitMatTile writes a product in tiles: a workgroup computes TileM x TileN
// results in steps of TileK. It stages that much of each operand in shared
// memory, row by row in vectors along the contraction, and every invocation
// multiplies ThreadM rows by ThreadN columns out of there.
//
// Neighbouring invocations own neighbouring columns, so that results are
// stored contiguously, and an invocation's own rows and columns are a whole
// stride apart. Rows of the staged tiles are an odd number of vectors long, so
// that the 8 invocations whose 16-byte reads go together hit different banks.
func (e *emitter) emitMatTile() {
	s := e.sched
	self := primary(e.variable("uint", "self", primary("gl_LocalInvocationIndex")))
	m := e.newMatMul()
	if e.err != nil {
		return
	}
	m.declareSums(s.ThreadM * s.ThreadN)
	across := s.TileN / s.ThreadN
	x := primary(m.variable("uint", "tx", remainder(self, across, s.Workgroup)))
	y := primary(m.variable("uint", "ty", quotient(self, across, s.Workgroup)))
	tiles := map[*matOperand]string{}
	for _, o := range m.a {
		tiles[o] = m.share("vec4", "tile_"+o.name, s.TileM*target.TilePitch(s.TileK))
	}
	for _, o := range m.b {
		tiles[o] = m.share("vec4", "tile_"+o.name, s.TileN*target.TilePitch(s.TileK))
	}

	m.line("")
	k0 := m.loop("k0", primary("0u"), m.dim(m.k.Fold), s.TileK)
	for _, o := range m.a {
		m.stage(o, tiles[o], self, m.row0, k0, s.TileM)
	}
	for _, o := range m.b {
		m.stage(o, tiles[o], self, m.col0, k0, s.TileN)
	}
	m.line("barrier();")
	m.multiply(tiles, x, y)
	m.line("barrier();")
	m.close()

	m.line("")
	m.repeat("i", s.ThreadM, func(i text) {
		row := primary(m.variable("uint", "row", plus(plus(m.row0, y), times(i, s.TileM/s.ThreadM))))
		m.repeat("j", s.ThreadN, func(j text) {
			col := primary(m.variable("uint", "col", plus(plus(m.col0, x), times(j, across))))
			m.finish(row, col, m.sumsAt(plus(times(i, s.ThreadN), j)))
		})
	})
}

// sumsAt prints sum number i of every product.
func (m *matMul) sumsAt(i text) []text {
	var all []text
	for _, p := range m.products {
		all = append(all, elementOf(p.sums, m.s.ThreadM*m.s.ThreadN, i))
	}
	return all
}

// stage copies a tile of an operand to shared memory: extent rows of TileK/4
// vectors each, beginning at origin and k0. Neighbouring invocations take
// neighbours in memory.
func (m *matMul) stage(o *matOperand, tile string, self, origin, k0 text, extent int) {
	quads := m.s.TileK / 4
	total := extent * quads
	rounds := (total + m.s.Workgroup - 1) / m.s.Workgroup
	m.comment("Stage %d %s of %s.", extent, map[bool]string{true: "rows", false: "columns"}[o.axis == m.row], o.name)
	m.repeat("i", rounds, func(i text) {
		slot := plus(self, times(i, m.s.Workgroup))
		if !slot.plain() {
			slot = primary(m.variable("uint", "slot", slot))
		}
		if total%m.s.Workgroup != 0 {
			m.openGuard("if (%s < %du)", slot.s, total)
		}
		line, quad := quotient(slot, quads, total), remainder(slot, quads, total)
		if !o.along {
			line, quad = remainder(slot, extent, total), quotient(slot, extent, total)
		}
		line = primary(m.variable("uint", "line", line))
		quad = primary(m.variable("uint", "quad", quad))
		at := primary(m.variable("uint", m.paraName(o.axis), m.clampTo(plus(origin, line), o.axis, extent)))
		m.bindAxis(o.axis, at)
		k := primary(m.variable("uint", "k", plus(k0, times(quad, 4))))
		value := m.quad(o, k, target.DivisibleBy(m.k.Fold, m.s.TileK))
		m.line("%s[%s] = %s;", tile, plus(times(line, target.TilePitch(m.s.TileK)), quad).s, value.s)
		if total%m.s.Workgroup != 0 {
			m.close()
		}
	})
}

// multiply adds the products of the staged tiles to the sums.
func (m *matMul) multiply(tiles map[*matOperand]string, x, y text) {
	s := m.s
	pitch := target.TilePitch(s.TileK)
	m.line("")
	quad := m.loop("quad", primary("0u"), uintLit(int64(s.TileK/4)), 1)
	read := func(o *matOperand, line text) text {
		return primary(tiles[o] + "[" + plus(times(line, pitch), quad).s + "]")
	}
	cols := map[*matOperand]string{}
	for _, o := range m.b {
		cols[o] = m.fresh(m.scope, o.name+"_cols")
		m.line("vec4 %s%s;", cols[o], arraySize(s.ThreadN))
	}
	m.repeat("j", s.ThreadN, func(j text) {
		for _, o := range m.b {
			m.line("%s = %s;", elementOf(cols[o], s.ThreadN, j).s, read(o, plus(x, times(j, s.TileN/s.ThreadN))).s)
		}
	})
	m.repeat("i", s.ThreadM, func(i text) {
		rows := map[*matOperand]string{}
		for _, o := range m.a {
			rows[o] = m.variable("vec4", o.name+"_row", read(o, plus(y, times(i, s.TileM/s.ThreadM))))
		}
		m.repeat("j", s.ThreadN, func(j text) {
			for n, p := range m.products {
				sum := m.sumsAt(plus(times(i, s.ThreadN), j))[n]
				col := elementOf(cols[p.b], s.ThreadN, j)
				for _, c := range "xyzw" {
					m.line("%s = fma(%s.%c, %s.%c, %s);", sum.s, rows[p.a], c, col.s, c, sum.s)
				}
			}
		})
	})
	m.close()
}

// arraySize prints the brackets of an array, none for a single element.
func arraySize(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf("[%d]", n)
}

// quotient and remainder print x/n and x%n of an x less than limit.
func quotient(x text, n, limit int) text {
	switch {
	case n == 1:
		return x
	case n >= limit:
		return primary("0u")
	}
	return binary("/", x, uintLit(int64(n)))
}

func remainder(x text, n, limit int) text {
	switch {
	case n == 1:
		return primary("0u")
	case n >= limit:
		return x
	}
	return binary("%", x, uintLit(int64(n)))
}
