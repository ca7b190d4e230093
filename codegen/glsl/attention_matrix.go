package glsl

import (
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// emitFlashMatrix writes an attention on cooperative matrices of subgroup scope. Every subgroup owns one or more
// fragments of rows. Their queries and results stay in registers. Keys and values pass through shared memory for all
// subgroups, TileN at a time. Scores are f32. Weights are rounded to f16, the operand type of the cooperative matrices.
//
// Several subgroups may share rows (flash_coopmat). Each of them multiplies its part of the contraction axis. They add
// up the scores in shared memory, and each computes its part of the results.
//
// If the device can reduce and convert fragments (flash_coopmat2), scores never leave the registers. Otherwise
// (flash_coopmat) each subgroup turns its scores into weights in shared memory.
func emitFlashMatrix(e *emitter) {
	self := e.selfIndex()
	f := newAttention(e)
	if e.err != nil {
		return
	}
	e.need(NeedCoopMat, NeedMemoryModel, NeedFloat16)
	m := &flashMatrix{attention: f, self: self, frag: e.sched.FragM,
		inRegisters: e.sched.Variant == kernel.VarFlashMatrix2}
	if m.inRegisters {
		e.need(NeedCoopMat2, NeedMaintenance4)
	}
	m.parts, m.subgroups = schedule.FlashParts(e.sched), e.sched.Workgroup/e.sched.Subgroup
	m.dots, m.cols, m.keys = int(f.a.Dot.Add)/m.frag/m.parts, f.width/m.frag/m.parts, e.sched.TileN/m.frag
	m.strips, m.stages = schedule.FlashStrips(e.sched), max(e.sched.Stages, 1)
	m.declare()
	m.readQueries()
	first, end := m.keyRange()
	m.run(first, end)
	m.store()
}

// flashMatrix is an attention on cooperative matrices.
type flashMatrix struct {
	*attention
	self             text
	frag             int // rows and columns of a fragment
	dots, cols, keys int // fragments of a subgroup along the contraction axis, a result, a tile of keys
	subgroups, parts int // subgroups of the workgroup, and subgroups that share rows
	strips           int // fragments of rows of a subgroup
	stages           int // tiles of keys, and of values, in shared memory
	inRegisters      bool
	end              text // the end of the keys that the workgroup sees

	row0      text // the subgroup's first row of the tile
	own       text // the first line of the subgroup in the scratch arrays
	part      text // the subgroup's number among the subgroups that share its rows
	lane, row text // row is an invocation's row of a fragment; lane is its number there

	tiles, scratch, shared, weights text    // shared arrays; in tiles, the values follow the keys
	q, o, p                         text    // fragments of queries, results and weights
	scores                          [2]text // fragments of the scores of this tile and the next
	nextK, nextV                    text    // registers of the prefetched keys and values

	// By row: the shift that weights are relative to, a power of two; the sum of weights; and with inRegisters, the
	// largest score so far of each column of fragments.
	shift, total, top            text
	largerOf, add, larger, power text // functions of elements
	scoreOf, weightOf            text
}

// fragment is the type of a fragment. use is A, B or Accumulator.
func (m *flashMatrix) fragment(use string) string {
	t := ir.F16
	if use == "Accumulator" {
		t = ir.F32
	}
	return m.emitter.fragment(t, use)
}

// lanesPerRow is the number of invocations of a subgroup that share a row.
func (m *flashMatrix) lanesPerRow() int { return m.s.Subgroup / m.frag }

// declare declares the shared arrays and registers, and sets the results to zero.
func (m *flashMatrix) declare() {
	s := m.s
	m.tiles = m.share("uvec4", "tiles", m.stages*s.TileN*(m.keyPitch()+m.valuePitch()))
	m.scratch = m.share("float", "fragments", m.subgroups*m.frag*m.frag)
	if !m.inRegisters {
		m.shared = m.share("float", "scores", m.subgroups*m.frag*schedule.ScorePitch(s))
		m.weights = m.share("uint", "weights", m.subgroups*m.frag*schedule.WeightPitch(s))
	}
	m.row0 = m.variable("uint", "row0", times(quotient(primary("gl_SubgroupID"), m.parts, m.subgroups),
		m.strips*m.frag))
	m.part = m.named("part", remainder(primary("gl_SubgroupID"), m.parts, m.subgroups))
	m.own = m.row0
	if m.strips > 1 || m.parts > 1 {
		m.own = m.variable("uint", "own", times(primary("gl_SubgroupID"), m.frag))
	}
	perRow := m.lanesPerRow()
	m.row = m.variable("uint", "frag_row", quotient(primary("gl_SubgroupInvocationID"), perRow, s.Subgroup))
	m.lane = remainder(primary("gl_SubgroupInvocationID"), perRow, s.Subgroup)
	m.lane = m.named("lane_of_row", m.lane)
	m.q = m.array(m.fragment("A"), "queries", m.strips*m.dots)
	acc := m.fragment("Accumulator")
	m.o = m.array(acc, "sums", m.strips*m.cols)
	m.repeat("n", m.strips*m.cols, func(n text) { m.assign(m.of(m.o, m.strips*m.cols, n), call(acc, primary("0.0"))) })
	m.nextK = m.array("uvec4", "next_keys", m.rounds(int(m.a.Dot.Add)))
	m.nextV = m.array("uvec4", "next_values", m.rounds(m.width))
	if !m.inRegisters {
		m.shift = m.variable("float", "top", m.lowest())
		m.total = m.variable("float", "total", primary("0.0"))
		return
	}
	m.defineFunctions()
	m.top, m.shift, m.total = m.array(acc, "top", m.strips), m.array(acc, "shift", m.strips), m.array(acc,
		"total", m.strips)
	m.repeat("i", m.strips, func(i text) {
		m.assign(m.of(m.top, m.strips, i), call(acc, m.lowest()))
		m.assign(m.of(m.shift, m.strips, i), call(acc, m.floatLit(-math.MaxFloat32)))
		m.assign(m.of(m.total, m.strips, i), call(acc, primary("0.0")))
	})
}

// keyPitch and valuePitch are the distances between lines of a tile, in octets.
func (m *flashMatrix) keyPitch() int {
	return schedule.StagedPitch(int(m.a.Dot.Add), schedule.OctetElems)
}
func (m *flashMatrix) valuePitch() int { return schedule.StagedPitch(m.width, schedule.OctetElems) }

func (m *flashMatrix) of(array text, count int, i text) text {
	return elementOf(array, count, i)
}

// defineFunctions defines the functions that map and reduce the elements of fragments.
func (m *flashMatrix) defineFunctions() {
	function := func(name, params, body string) text {
		name = m.fresh(m.root, name)
		m.define(fmt.Sprintf("float %s(%s)", name, params), func() { m.line("return %s;", body) })
		return primary(name)
	}
	place := "const in uint row, const in uint col, const in float "
	m.largerOf = function("larger_of", "const in float a, const in float b", "max(a, b)")
	m.add = function("sum_of", "const in float a, const in float b", "a + b")
	m.larger = function("larger", place+"a, const in float b", "max(a, b)")
	m.power = function("power", place+"x, const in float shift", "exp2(x - shift)")
	m.weightOf = m.power
	if m.scalesLate() {
		m.weightOf = function("weight_of", place+"x, const in float shift",
			fmt.Sprintf("exp2(x * %s - shift)", m.floatLit(m.a.Scale)))
	}
	m.scoreOf = m.scoreFunction()
}

// scalesLate reports whether the raw scores are compared unscaled, and scaled only when they become weights. That saves
// a multiplication.
func (m *flashMatrix) scalesLate() bool {
	return m.inRegisters && m.a.Mask == nil && m.a.Softcap == 0 && m.a.Scale > 0
}

// context lists the variables of main that the score function needs.
func (m *flashMatrix) context() []string {
	var names []string
	add := func(t text) {
		if !isNumber(t) && isPlain(t) {
			names = append(names, t.String())
		}
	}
	add(m.query0)
	for axis := range m.k.Parallel {
		if t, ok := m.root.axes[axis]; ok {
			add(t)
		}
	}
	return names
}

// scoreFunction defines the score of an element of a fragment, given the fragment's first row and key. The score is
// -inf if the row does not see the key.
func (m *flashMatrix) scoreFunction() text {
	name := m.fresh(m.root, "score_of")
	params := []string{"const in uint frag_row", "const in uint frag_col", "const in float dot_product",
		"const in uint first_row", "const in uint first_key"}
	m.defineOver("float", name, params, m.context(), len(m.k.Parallel), func() {
		m.bindRow(m.named("row", plus(primary("first_row"), primary("frag_row"))))
		key := m.named("key", plus(primary("first_key"), primary("frag_col")))
		m.bindAxis(m.ax.Key, m.limit(key, m.k.Fold, m.s.TileN))
		if m.scalesLate() {
			m.line("return %s;",
				ternary(binary("<", key, m.seen(m.axisOrZero(m.ax.Query))), primary("dot_product"), m.lowest()))
			return
		}
		m.line("return %s;", m.score(primary("dot_product"), key, m.axisOrZero(m.ax.Query)))
	})
	return primary(name)
}

// axisOrZero prints a coordinate: 0 along an axis of extent 1.
func (m *flashMatrix) axisOrZero(axis int) text {
	if m.k.Parallel[axis].Is(1) {
		return primary("0u")
	}
	return m.axis(axis)
}

// store finishes the rows. Each fragment passes through shared memory, from where the invocations of a row read their
// columns.
func (m *flashMatrix) store() {
	m.line("")
	if m.inRegisters && m.usesResult(0) {
		m.raise() // to the largest score
	}
	m.repeat("i", m.strips, func(i text) {
		row := m.named("row", plus(plus(m.row0, times(i, m.frag)), m.row))
		top, total := m.rowNumbers(i)
		m.storeOnceIn(row, top, total)
		m.repeat("n", m.cols, func(n text) {
			m.line("subgroupBarrier();")
			m.toScratch(m.sum(i, n))
			m.line("subgroupBarrier();")
			m.ifRow(row, func() {
				m.bindAcc(0, top)
				m.bindAcc(1, total)
				m.storeFragment(plus(times(m.part, m.cols), n))
			})
		})
	})
}

// storeFragment stores the columns of fragment n from the scratch array, for an invocation's row.
func (m *flashMatrix) storeFragment(n text) {
	each := max(m.frag/4/m.lanesPerRow(), 1)
	m.repeat("q", each, func(q text) {
		local := plus(times(m.lane, each), q)
		if m.lanesPerRow() > m.frag/4 {
			m.openIf(binary("<", local, uintLit(m.frag/4)))
			defer m.close()
		}
		at := m.named("at", plus(times(plus(m.own, m.row), m.frag), times(local, 4)))
		var parts [4]text
		for i := range parts {
			parts[i] = elementAt(m.scratch, plus(at, uintLit(i)))
		}
		sum := m.variable("vec4", "sum", call("vec4", parts[:]...))
		m.storeQuad(m.named("quad", plus(times(n, m.frag/4), local)), sum)
	})
}

// toScratch writes a fragment to the subgroup's part of the scratch array.
func (m *flashMatrix) toScratch(fragment text) {
	m.storeMatrix(fragment, m.scratch, times(m.own, m.frag), m.frag, "Row")
}

// rowNumbers returns the largest score and the sum of weights of an invocation's row of strip i.
func (m *flashMatrix) rowNumbers(i text) (top, total text) {
	if !m.inRegisters {
		for mask := m.lanesPerRow() / 2; mask > 0; mask /= 2 {
			m.update(m.total, "+=", shuffled(m.total, mask))
		}
		return m.shift, m.total
	}
	total = m.of(m.total, m.strips, i)
	m.line("coopMatReduceNV(%s, %s, gl_CooperativeMatrixReduceRowNV, %s);", total, total, m.add)
	read := func(fragment text, name string) text {
		m.line("subgroupBarrier();")
		m.toScratch(fragment)
		m.line("subgroupBarrier();")
		return m.variable("float", name, elementAt(m.scratch, times(plus(m.own, m.row), m.frag)))
	}
	total = read(total, "row_total")
	if m.usesResult(0) {
		top = read(m.of(m.shift, m.strips, i), "row_top")
	}
	return top, total
}

// usesResult reports whether a store depends on result i.
func (m *flashMatrix) usesResult(i int) bool {
	return slices.ContainsFunc(m.k.Stores, func(s kernel.Store) bool { return s.Value.UsesAcc(i) })
}

// storeOnceIn writes the stores that happen once per row.
func (m *flashMatrix) storeOnceIn(row text, top, total text) {
	if !slices.ContainsFunc(m.k.Stores, func(s kernel.Store) bool { return !s.PerElement }) {
		return
	}
	m.ifRow(row, func() {
		m.bindAcc(0, top)
		m.bindAcc(1, total)
		first := binary("==", m.lane, primary("0u"))
		if m.parts > 1 {
			first = binary("&&", first, binary("==", m.part, primary("0u")))
		}
		m.storeOnce(first)
	})
}
