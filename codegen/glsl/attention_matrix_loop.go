package glsl

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// run loops over the keys as a software pipeline. While a tile's scores become weights and its values are added, the
// queries are multiplied by the next tile's keys. So neither the matrix units nor the other arithmetic wait. The loads
// of the tiles after these are in flight.
//
// With two stages, subgroups read one tile while they write the next, and need one barrier a tile. With one stage they
// need another barrier before they write. The loop body has two tiles, so that the two tiles' scores and stages have
// fixed names.
func (m *flashMatrix) run(first, end text) {
	m.end = end
	var whole text
	if m.a.Mask == nil {
		whole = m.named("all_see", m.seen(m.limit(m.queryOf(m.row0), m.k.Parallel[m.ax.Query], m.queries())))
	}
	m.line("")
	if !first.Is("0u") || !m.allSeeSome() {
		m.openIf(binary("<", first, end))
		defer m.close()
	}
	m.begin(first)
	key0 := m.keyLoop(first, end, schedule.AttentionStep(m.s))
	m.comment("One tile.")
	m.step(key0, whole, 0)
	m.comment("The next; past the last key it has no weight.")
	m.step(m.named("second", plus(key0, uintLit(m.s.TileN))), whole, 1)
	m.close()
}

// allSeeSome reports whether every query provably sees a key. Then the loop needs no condition. Inside a condition,
// NVIDIA's compiler generates seven times as much code for the loop, which is slower, sometimes by far (M-causal).
func (m *flashMatrix) allSeeSome() bool {
	query := kernel.Axis(m.ax.Query, m.k.Parallel[m.ax.Query])
	return m.k.Seen(query).Minus(kernel.Const(1)).NonNegative()
}

// begin loads the first two tiles of keys and the first tile of values to shared memory, and computes the first tile's
// scores.
func (m *flashMatrix) begin(first text) {
	m.fetchKeys(first)
	m.putKeys(m.keyTile(0))
	m.fetchValues(first)
	m.putValues(m.valueTile(0))
	m.fetchKeys(plus(first, uintLit(m.s.TileN)))
	if m.stages > 1 {
		m.putKeys(m.keyTile(1))
	}
	m.barrier()
	for i := range m.scores {
		m.scores[i] = m.array(m.fragment("Accumulator"), "score", m.strips*m.keys)
	}
	m.repeat("j", m.keys, func(j text) { m.multiplyKeys(m.scores[0], j, m.keyTile(0)) })
	if m.stages == 1 {
		m.barrier()
		m.putKeys(m.keyTile(0))
	}
}

// step processes the tile from key0 on. It finds the tile's scores in scores[which], and leaves the next tile's scores
// in the other array.
func (m *flashMatrix) step(key0, whole text, which int) {
	m.openScope()
	defer m.close()
	now, ahead := m.scores[which], m.scores[1-which]
	m.barrier()
	m.fetchKeys(plus(key0, uintLit(2*m.s.TileN)))
	m.fetchValues(plus(key0, uintLit(m.s.TileN)))
	m.weigh(now, key0, whole)
	m.line("")
	m.repeat("j", m.keys, func(j text) {
		m.multiplyKeys(ahead, j, m.keyTile(1-which))
		m.multiplyValues(now, j, m.valueTile(which))
	})
	if m.stages == 1 {
		m.barrier()
	}
	m.putKeys(m.keyTile(which))
	m.putValues(m.valueTile(1 - which))
}

// keyTile and valueTile print the start of a stage's tile in shared memory.
func (m *flashMatrix) keyTile(stage int) text {
	return uintLit(stage % m.stages * m.s.TileN * m.keyPitch())
}

func (m *flashMatrix) valueTile(stage int) text {
	return uintLit(m.stages*m.s.TileN*m.keyPitch() + stage%m.stages*m.s.TileN*m.valuePitch())
}

// rounds is the number of octets that each invocation loads of a tile with lines of width elements.
func (m *flashMatrix) rounds(width int) int {
	total := m.s.TileN * (width / schedule.OctetElems)
	return (total + m.s.Workgroup - 1) / m.s.Workgroup
}

// octets distributes the octets of a tile with lines of width elements over the workgroup.
func (m *flashMatrix) octets(lines, width int, body func(i, line, octet text)) {
	per := width / schedule.OctetElems
	total := lines * per
	m.eachSlot(m.self, total, m.s.Workgroup, func(i, slot text) {
		body(i, m.variable("uint", "line", quotient(slot, per, total)),
			m.variable("uint", "octet", remainder(slot, per, total)))
	})
}

// octet prints eight neighbours of an operand as f16, in four words. They are loaded unchanged, decoded together, or
// computed.
func (m *flashMatrix) octet(v *kernel.Expr, a along, at text) text {
	w := schedule.Unrounded(v, ir.F16)
	halves := w.Kind == kernel.ExprLoad && m.k.Bindings[w.Bind].DType == ir.F16
	switch {
	case halves && m.k.LoadsVector(w, a.axis, schedule.OctetElems):
		b := m.buffers[w.Bind]
		return m.element(b, schedule.OctetElems, binary("/", m.indexAt(w.Index, a.axis, at),
			uintLit(schedule.OctetElems)))
	case loadsOctets(m.emitter, w, a):
		return call(octetDecoder(m.emitter, m.buffers[w.Bind]), narrow(m.indexAt(w.Index, a.axis, at)))
	}
	half := func(name string, at text) string {
		t := m.quad(v, a, at, name, true)
		if !isPlain(t) {
			t = m.variable("vec4", name, t)
		}
		return fmt.Sprintf("packHalf2x16(%s.xy), packHalf2x16(%s.zw)", t, t)
	}
	return primary(fmt.Sprintf("uvec4(%s, %s)", half("low", at), half("high", plus(at, uintLit(4)))))
}

// readQueries loads the queries' rows into fragments, through the shared memory of the tiles.
func (m *flashMatrix) readQueries() {
	s, dot, pitch := m.s, int(m.a.Dot.Add), m.keyPitch()
	lines := schedule.FlashQueryLines(m.k, s)
	for first := 0; first < s.TileM; first += lines {
		last := min(first+lines, s.TileM)
		m.comment("Rows %d to %d come by way of shared memory.", first, last-1)
		m.octets(last-first, dot, func(_, line, octet text) {
			m.bindRow(m.named("row", plus(uintLit(first), line)))
			m.assign(elementAt(m.tiles, plus(times(line, pitch), octet)),
				m.octet(m.a.Q, m.dotAxis(), times(octet, schedule.OctetElems)))
		})
		m.barrier()
		if lines < s.TileM {
			m.open("if (%s / %du == %du)", m.row0, lines, first/lines)
		} else {
			m.openScope()
		}
		m.repeat("i", m.strips, func(i text) {
			line := plus(remainder(m.row0, lines, s.TileM), times(i, m.frag))
			m.repeat("n", m.dots, func(n text) {
				at := plus(times(line, pitch), times(plus(times(m.part, m.dots), n), m.frag/schedule.OctetElems))
				m.loadMatrix(m.query(i, n), m.tiles, at, pitch, "Row")
			})
		})
		m.close()
		m.barrier()
	}
}

// query, sum and scoreAt print fragments of a strip of rows.
func (m *flashMatrix) query(i, n text) text {
	return m.of(m.q, m.strips*m.dots, plus(times(i, m.dots), n))
}

func (m *flashMatrix) sum(i, n text) text {
	return m.of(m.o, m.strips*m.cols, plus(times(i, m.cols), n))
}

func (m *flashMatrix) scoreAt(scores text, i, j text) text {
	return m.of(scores, m.strips*m.keys, plus(times(i, m.keys), j))
}

// fetch loads a tile of keys or values into registers. Past the last key that any row sees, it loads that key again,
// and values become 0. Elements are rounded only when they are packed. A rounding takes a dozen instructions per
// element, and the code of a fetch is repeated for every round of every tile.
func (m *flashMatrix) fetch(v *kernel.Expr, a along, next, key0 text, values bool) {
	width, v := int(a.extent.Add), schedule.Unrounded(v, ir.F16)
	cut := m.a.Causal || !m.evenly()
	first, known := literalOf(key0)
	end, endKnown := literalOf(m.end)
	inside := known && endKnown && first.v+int64(m.s.TileN) <= end.v
	m.octets(m.s.TileN, width, func(i, line, octet text) {
		key := m.named("key", plus(key0, line))
		if inside {
			m.bindAxis(m.ax.Key, key)
		} else {
			m.bindAxis(m.ax.Key, call("min", key, binary("-", m.end, uintLit(1))))
		}
		x := m.octet(v, a, times(octet, schedule.OctetElems))
		if values && cut && !inside {
			x = ternary(binary("<", key, m.end), x, primary("uvec4(0u)"))
		}
		m.assign(m.of(next, m.rounds(width), i), x)
	})
}

// put stores fetched octets to a tile in shared memory.
func (m *flashMatrix) put(next text, width int, tile text) {
	pitch := schedule.StagedPitch(width, schedule.OctetElems)
	m.octets(m.s.TileN, width, func(i, line, octet text) {
		m.assign(elementAt(m.tiles, plus(tile, plus(times(line, pitch), octet))), m.of(next, m.rounds(width), i))
	})
}

// fetchKeys and fetchValues fetch the tile from key0 on. putKeys and putValues store it to a tile in shared memory.
func (m *flashMatrix) fetchKeys(key0 text) { m.fetch(m.a.K, m.dotAxis(), m.nextK, key0, false) }
func (m *flashMatrix) fetchValues(key0 text) {
	m.fetch(m.a.V, m.valueAxis(), m.nextV, key0, true)
}
func (m *flashMatrix) putKeys(tile text)   { m.put(m.nextK, int(m.a.Dot.Add), tile) }
func (m *flashMatrix) putValues(tile text) { m.put(m.nextV, m.width, tile) }

// multiplyKeys multiplies the queries by fragment j of the tile of keys at place.
func (m *flashMatrix) multiplyKeys(scores, j, place text) {
	m.repeat("i", m.strips, func(i text) {
		m.assign(m.scoreAt(scores, i, j), call(m.fragment("Accumulator"), primary("0.0")))
	})
	m.repeat("n", m.dots, func(n text) {
		b := m.loadB(plus(place, plus(times(j, m.frag*m.keyPitch()), times(plus(times(m.part, m.dots), n),
			m.frag/schedule.OctetElems))), m.keyPitch(), "Column")
		m.repeat("i", m.strips, func(i text) {
			sum := m.scoreAt(scores, i, j)
			m.multiplyAdd(sum, m.query(i, n), b)
		})
	})
}

// multiplyValues multiplies the weights by fragment j of the tile of values at place, and adds to the sums.
func (m *flashMatrix) multiplyValues(scores, j, place text) {
	weight := m.weightOfFragment(scores, j)
	m.repeat("n", m.cols, func(n text) {
		b := m.loadB(plus(place, plus(times(j, m.frag*m.valuePitch()), times(plus(times(m.part, m.cols), n),
			m.frag/schedule.OctetElems))), m.valuePitch(), "Row")
		m.repeat("i", m.strips, func(i text) {
			m.multiplyAdd(m.sum(i, n), weight(i), b)
		})
	})
}

// loadB loads a fragment from a tile.
func (m *flashMatrix) loadB(at text, pitch int, major string) text {
	b := m.unset(m.fragment("B"), "b")
	m.line("coopMatLoad(%s, %s, %s, %du, gl_CooperativeMatrixLayout%sMajor);", b, m.tiles, at, pitch, major)
	return b
}
