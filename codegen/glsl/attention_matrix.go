package glsl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/target"
	"github.com/vkc-go/vkc/ir"
)

// emitFlashMatrix writes an attention on matrix units of subgroup scope. Every
// subgroup has FragM rows: their queries and their results stay in fragments in
// registers while keys and values, TileN at a time, pass through shared memory
// for all subgroups. Scores are f32; as weights they are rounded to f16, in
// which matrix units take them.
//
// Where the device can reduce and convert fragments (flash_coopmat2), scores
// never leave the registers; else (flash_coopmat) each subgroup turns its
// scores into weights by way of shared memory.
func (e *emitter) emitFlashMatrix() {
	self := e.selfIndex()
	f := e.newAttention()
	if e.err != nil {
		return
	}
	e.need(NeedCoopMat, NeedMemoryModel, NeedFloat16)
	m := &flashMatrix{attention: f, self: self, frag: e.sched.FragM, inRegisters: e.sched.Variant == kernel.VarFlashMatrix2}
	if m.inRegisters {
		e.need(NeedCoopMat2, NeedMaintenance4)
	}
	m.dots, m.cols, m.keys = int(f.a.Dot.Add)/m.frag, f.width/m.frag, e.sched.TileN/m.frag
	m.subgroups = e.sched.Workgroup / e.sched.Subgroup
	m.declare()
	m.readQueries()
	first, end := m.keyRange()
	m.run(first, end)
	m.store()
}

// flashMatrix is an attention on matrix units.
type flashMatrix struct {
	*attention
	self             text
	frag             int // rows and columns of a fragment
	dots, cols, keys int // fragments along the dot axis, a result, a tile of keys
	subgroups        int
	inRegisters      bool
	end              text // of the keys that the workgroup sees

	row0      text // the subgroup's first row of the tile
	lane, row text // an invocation's row of the subgroup, and which of the row's invocations it is

	kTile, vTile, scratch, scores, weights string // shared arrays
	q, o, qk, p, next                      string // fragments, and registers on the way to shared memory
	top, total                             string // of rows: fragments of equal columns, or a float each
	larger, add, finite, power, ratio      string // functions of elements
	scoreOf, weightOf                      string
}

// fragment is the type of a fragment; use is A, B or Accumulator.
func (m *flashMatrix) fragment(use string) string {
	t := ir.F16
	if use == "Accumulator" {
		t = ir.F32
	}
	return fmt.Sprintf("coopmat<%s, gl_ScopeSubgroup, %d, %d, gl_MatrixUse%s>", matrixElement(t), m.frag, m.frag, use)
}

// lanesPerRow is how many invocations of a subgroup share one of its rows.
func (m *flashMatrix) lanesPerRow() int { return m.s.Subgroup / m.frag }

func (m *flashMatrix) declare() {
	s := m.s
	dot := int(m.a.Dot.Add)
	m.kTile = m.share("uvec4", "tile_k", s.TileN*target.StagedPitch(dot, target.OctetElems))
	m.vTile = m.share("uvec4", "tile_v", s.TileN*target.StagedPitch(m.width, target.OctetElems))
	m.scratch = m.share("float", "fragments", m.subgroups*m.frag*m.frag)
	if !m.inRegisters {
		m.scores = m.share("float", "scores", m.subgroups*m.frag*target.ScorePitch(s))
		m.weights = m.share("uint", "weights", m.subgroups*m.frag*target.WeightPitch(s))
	}
	m.row0 = primary(m.variable("uint", "row0", times(primary("gl_SubgroupID"), m.frag)))
	perRow := m.lanesPerRow()
	m.row = primary(m.variable("uint", "frag_row", quotient(primary("gl_SubgroupInvocationID"), perRow, s.Subgroup)))
	m.lane = remainder(primary("gl_SubgroupInvocationID"), perRow, s.Subgroup)
	if !m.lane.plain() {
		m.lane = primary(m.variable("uint", "lane_of_row", m.lane))
	}
	m.q = m.array(m.fragment("A"), "queries", m.dots)
	acc := m.fragment("Accumulator")
	m.o = m.array(acc, "sums", m.cols)
	m.repeat("n", m.cols, func(n text) { m.line("%s = %s(0.0);", m.of(m.o, m.cols, n), acc) })
	typ := "float"
	if m.inRegisters {
		typ = acc
		m.defineFunctions()
	}
	m.top = m.variable(typ, "top", call(typ, m.lowest()))
	m.total = m.variable(typ, "total", call(typ, primary("0.0")))
	m.next = m.array("uvec4", "next", m.rounds(max(dot, m.width)))
}

func (m *flashMatrix) of(array string, count int, i text) string { return elementOf(array, count, i).s }

// defineFunctions writes the functions of elements that fragments pass through.
func (m *flashMatrix) defineFunctions() {
	function := func(name, params, body string) string {
		name = m.fresh(m.root, name)
		m.define(fmt.Sprintf("float %s(%s)", name, params), func() { m.line("return %s;", body) })
		return name
	}
	place := "const in uint row, const in uint col, const in float "
	m.larger = function("larger_of", "const in float a, const in float b", "max(a, b)")
	m.add = function("sum_of", "const in float a, const in float b", "a + b")
	m.ratio = function("larger", place+"a, const in float b", "max(a, b)")
	m.finite = function("finite", place+"x", fmt.Sprintf("x == %s ? 0.0 : x", m.lowest().s))
	m.power = function("power", place+"x, const in float shift", "exp2(x - shift)")
	m.weightOf = m.power
	if m.scalesLate() {
		m.weightOf = function("weight_of", place+"x, const in float shift", fmt.Sprintf("exp2(x * %s - shift)", m.floatLit(m.a.Scale).s))
	}
	m.scoreOf = m.scoreFunction()
}

// scalesLate reports whether products are compared as they are and scaled only
// as they become weights, which saves a multiplication.
func (m *flashMatrix) scalesLate() bool {
	return m.inRegisters && m.a.Mask == nil && m.a.Scale > 0
}

// context lists the variables of main that a function of a score needs.
func (m *flashMatrix) context() []string {
	var names []string
	add := func(t text) {
		if !isNumber(t.s) && t.plain() {
			names = append(names, t.s)
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

// scoreFunction defines the score of an element of a fragment whose first row
// and key are given: -inf where the row does not see the key.
func (m *flashMatrix) scoreFunction() string {
	name := m.fresh(m.root, "score_of")
	params := []string{"const in uint frag_row", "const in uint frag_col", "const in float dot_product", "const in uint first_row", "const in uint first_key"}
	axes := map[int]text{}
	for axis := range m.k.Parallel {
		if t, ok := m.root.axes[axis]; ok {
			axes[axis] = t
		}
	}
	for _, v := range m.context() {
		params = append(params, "const in uint "+v)
	}
	m.define(fmt.Sprintf("float %s(%s)", name, strings.Join(params, ", ")), func() {
		for _, p := range params {
			m.scope.names[p[strings.LastIndex(p, " ")+1:]] = true
		}
		for axis, t := range axes {
			m.bindAxis(axis, t)
		}
		m.bindRow(m.named("row", plus(primary("first_row"), primary("frag_row"))))
		key := m.named("key", plus(primary("first_key"), primary("frag_col")))
		m.bindAxis(m.ax.Key, m.limit(key, m.k.Fold, m.s.TileN))
		if m.scalesLate() {
			m.line("return %s;", ternary(binary("<", key, m.seen(m.axisOrZero(m.ax.Query))), primary("dot_product"), m.lowest()).s)
			return
		}
		m.line("return %s;", m.score(primary("dot_product"), key, m.axisOrZero(m.ax.Query)).s)
	})
	return name
}

// axisOrZero prints a coordinate, which is 0 along an axis of one.
func (m *flashMatrix) axisOrZero(axis int) text {
	if m.k.Parallel[axis].Is(1) {
		return primary("0u")
	}
	return m.axis(axis)
}

// named gives a text a name unless it is as short as one.
func (m *flashMatrix) named(name string, x text) text {
	if x.plain() {
		return x
	}
	return primary(m.variable("uint", name, x))
}

// rounds is how many octets of a tile of lines that long each invocation moves.
func (m *flashMatrix) rounds(width int) int {
	total := m.s.TileN * (width / target.OctetElems)
	return (total + m.s.Workgroup - 1) / m.s.Workgroup
}

// octets has the workgroup go over the octets of a tile of lines that long.
func (m *flashMatrix) octets(lines, width int, body func(i, line, octet text)) {
	per := width / target.OctetElems
	total, wg := lines*per, m.s.Workgroup
	m.repeat("i", (total+wg-1)/wg, func(i text) {
		slot := m.named("slot", plus(m.self, times(i, wg)))
		if total%wg != 0 {
			m.openGuard("if (%s < %du)", slot.s, total)
		}
		body(i, primary(m.variable("uint", "line", quotient(slot, per, total))), primary(m.variable("uint", "octet", remainder(slot, per, total))))
		if total%wg != 0 {
			m.close()
		}
	})
}

// octet prints eight neighbours of an operand as f16, in four words: as they
// lie in memory where they do, else computed.
func (m *flashMatrix) octet(v *kernel.Expr, a along, at text) text {
	if w := target.Unrounded(v, ir.F16); w.Kind == kernel.ExprLoad && m.k.Bindings[w.Bind].DType == ir.F16 && m.vectorLoad(w, a.axis, target.OctetElems) {
		m.openScope()
		defer m.close()
		m.bindAxis(a.axis, at)
		m.plan(nil, []kernel.Index{w.Index})
		return primary(fmt.Sprintf("%s[%s]", m.view(m.buffers[w.Bind], target.OctetElems), binary("/", m.indexText(w.Index), uintLit(target.OctetElems)).s))
	}
	half := func(name string, at text) string {
		t := m.quad(v, a, at, name, true)
		if !t.plain() {
			t = primary(m.variable("vec4", name, t))
		}
		return fmt.Sprintf("packHalf2x16(%s.xy), packHalf2x16(%s.zw)", t.s, t.s)
	}
	return primary(fmt.Sprintf("uvec4(%s, %s)", half("low", at), half("high", plus(at, uintLit(4)))))
}

// readQueries brings the tile's rows into fragments, by way of the tile of keys.
func (m *flashMatrix) readQueries() {
	s, dot := m.s, int(m.a.Dot.Add)
	lines := min(s.TileM, s.TileN)
	pitch := target.StagedPitch(dot, target.OctetElems)
	for first := 0; first < s.TileM; first += lines {
		m.comment("Rows %d to %d come by way of the tile of keys.", first, first+lines-1)
		m.octets(lines, dot, func(_, line, octet text) {
			m.bindRow(m.named("row", plus(uintLit(int64(first)), line)))
			m.line("%s[%s] = %s;", m.kTile, plus(times(line, pitch), octet).s, m.octet(m.a.Q, m.dotAxis(), times(octet, target.OctetElems)).s)
		})
		m.line("barrier();")
		if lines < s.TileM {
			m.open("if (%s / %du == %du)", m.row0.s, lines, first/lines)
		} else {
			m.openScope()
		}
		m.repeat("n", m.dots, func(n text) {
			at := plus(times(remainder(m.row0, lines, s.TileM), pitch), times(n, m.frag/target.OctetElems))
			m.line("coopMatLoad(%s, %s, %s, %du, gl_CooperativeMatrixLayoutRowMajor);", m.of(m.q, m.dots, n), m.kTile, at.s, pitch)
		})
		m.close()
		m.line("barrier();")
	}
}

// run goes over the keys. While keys are multiplied their values come from
// memory, and while values are, the next keys.
func (m *flashMatrix) run(first, end text) {
	m.end = end
	var whole text
	if m.a.Mask == nil {
		whole = m.named("all_see", m.seen(m.limit(m.queryOf(m.row0), m.k.Parallel[m.ax.Query], m.queries())))
	}
	m.line("")
	m.openGuard("if (%s < %s)", first.s, end.s)
	m.fetch(m.a.K, m.dotAxis(), first, false)
	m.put(m.kTile, int(m.a.Dot.Add))
	m.close()
	key0 := m.keyLoop(first, end)
	m.line("barrier();")
	m.fetch(m.a.V, m.valueAxis(), key0, true)
	m.multiplyKeys()
	m.put(m.vTile, m.width)
	m.weigh(key0, whole)
	m.line("barrier();")
	after := plus(key0, uintLit(int64(m.s.TileN)))
	m.openGuard("if (%s < %s)", after.s, end.s)
	m.fetch(m.a.K, m.dotAxis(), after, false)
	m.close()
	m.multiplyValues()
	m.open("if (%s < %s)", after.s, end.s)
	m.put(m.kTile, int(m.a.Dot.Add))
	m.close()
	m.close()
}

// fetch reads a tile of keys or values into registers. Values past the last key
// that any row sees count as 0, whatever stands there.
func (m *flashMatrix) fetch(v *kernel.Expr, a along, key0 text, values bool) {
	width := int(a.extent.Add)
	rounds := m.rounds(max(int(m.a.Dot.Add), m.width))
	m.octets(m.s.TileN, width, func(i, line, octet text) {
		key := primary(m.variable("uint", "key", plus(key0, line)))
		m.bindAxis(m.ax.Key, call("min", key, binary("-", m.end, uintLit(1))))
		x := m.octet(v, a, times(octet, target.OctetElems))
		if values {
			x = ternary(binary("<", key, m.end), x, primary("uvec4(0u)"))
		}
		m.line("%s = %s;", m.of(m.next, rounds, i), x.s)
	})
}

// put writes what fetch has read to a tile of shared memory.
func (m *flashMatrix) put(tile string, width int) {
	rounds := m.rounds(max(int(m.a.Dot.Add), m.width))
	m.octets(m.s.TileN, width, func(i, line, octet text) {
		m.line("%s[%s] = %s;", tile, plus(times(line, target.StagedPitch(width, target.OctetElems)), octet).s, m.of(m.next, rounds, i))
	})
}

// multiplyKeys multiplies the queries by the tile of keys.
func (m *flashMatrix) multiplyKeys() {
	acc, pitch := m.fragment("Accumulator"), target.StagedPitch(int(m.a.Dot.Add), target.OctetElems)
	m.line("")
	m.qk = m.array(acc, "score", m.keys)
	m.repeat("j", m.keys, func(j text) {
		score := m.of(m.qk, m.keys, j)
		m.line("%s = %s(0.0);", score, acc)
		m.repeat("n", m.dots, func(n text) {
			at := plus(times(j, m.frag*pitch), times(n, m.frag/target.OctetElems))
			m.multiplyAdd(score, m.of(m.q, m.dots, n), m.kTile, at, pitch, "Column")
		})
	})
}

// multiplyAdd adds the product of a fragment and one in shared memory.
func (m *flashMatrix) multiplyAdd(sum, a, tile string, at text, pitch int, major string) {
	b := m.fresh(m.scope, "b")
	m.line("%s %s;", m.fragment("B"), b)
	m.line("coopMatLoad(%s, %s, %s, %du, gl_CooperativeMatrixLayout%sMajor);", b, tile, at.s, pitch, major)
	m.line("%s = coopMatMulAdd(%s, %s, %s);", sum, a, b, sum)
}

// multiplyValues adds the tile's values by their weights.
func (m *flashMatrix) multiplyValues() {
	pitch := target.StagedPitch(m.width, target.OctetElems)
	m.repeat("j", m.keys, func(j text) {
		m.repeat("n", m.cols, func(n text) {
			at := plus(times(j, m.frag*pitch), times(n, m.frag/target.OctetElems))
			m.multiplyAdd(m.of(m.o, m.cols, n), m.of(m.p, m.keys, j), m.vTile, at, pitch, "Row")
		})
	})
}

// weigh turns scores into weights, and corrects the sums to the largest score
// so far.
func (m *flashMatrix) weigh(key0, whole text) {
	m.line("")
	m.p = m.array(m.fragment("A"), "weight", m.keys)
	if m.inRegisters {
		m.weighInRegisters(key0, whole)
		return
	}
	m.weighInShared(key0)
}

// weighInRegisters does so by operations on fragments.
func (m *flashMatrix) weighInRegisters(key0, whole text) {
	acc := m.fragment("Accumulator")
	m.scoreFragments(key0, whole)
	best := m.fresh(m.scope, "best")
	m.line("%s %s = %s;", acc, best, m.of(m.qk, m.keys, primary("0u")))
	if m.keys > 1 {
		j := m.free("j")
		m.open("%sfor (uint %s = 1u; %s < %du; ++%s)", unroll, j, j, m.keys, j)
		m.line("coopMatPerElementNV(%s, %s, %s, %s[%s]);", best, best, m.ratio, m.qk, j)
		m.close()
	}
	m.line("coopMatReduceNV(%s, %s, gl_CooperativeMatrixReduceRowNV, %s);", best, best, m.larger)
	if m.scalesLate() {
		m.line("%s = %s * %s;", best, best, m.floatLit(m.a.Scale).s)
	}
	m.line("coopMatPerElementNV(%s, %s, %s, %s);", best, best, m.ratio, m.top)
	m.comment("While no key counts, any finite number does in place of the largest score.")
	shift, correction := m.fresh(m.scope, "shift"), m.fresh(m.scope, "correction")
	m.line("%s %s, %s;", acc, shift, correction)
	m.line("coopMatPerElementNV(%s, %s, %s);", shift, best, m.finite)
	m.line("coopMatPerElementNV(%s, %s, %s, %s);", correction, m.top, m.power, shift)
	m.line("%s = %s;", m.top, best)
	m.line("%s = %s * %s;", m.total, m.total, correction)
	m.repeat("j", m.keys, func(j text) {
		score := m.of(m.qk, m.keys, j)
		m.line("coopMatPerElementNV(%s, %s, %s, %s);", score, score, m.weightOf, shift)
		m.line("%s = %s + %s;", m.total, m.total, score)
		m.line("%s = %s(%s);", m.of(m.p, m.keys, j), m.fragment("A"), score)
	})
	m.repeat("n", m.cols, func(n text) {
		o := m.of(m.o, m.cols, n)
		m.line("%s = %s * %s;", o, o, correction)
	})
}

// scoreFragments leaves out the keys that rows do not see, and scales the
// products unless that comes later. Where all rows of the subgroup see the whole
// tile there is nothing to leave out.
func (m *flashMatrix) scoreFragments(key0, whole text) {
	each := func() {
		m.repeat("j", m.keys, func(j text) {
			score := m.of(m.qk, m.keys, j)
			args := append([]string{score, score, m.scoreOf, m.row0.s, plus(key0, times(j, m.frag)).s}, m.context()...)
			m.line("coopMatPerElementNV(%s);", strings.Join(args, ", "))
		})
	}
	switch {
	case m.a.Mask != nil:
		each()
	case m.scalesLate() && !m.a.Causal && target.DivisibleBy(m.k.Fold, m.s.TileN):
	case m.scalesLate():
		m.open("if (%s > %s)", plus(key0, uintLit(int64(m.s.TileN))).s, whole.s)
		each()
		m.close()
	default:
		each()
	}
}

// weighInShared does so in shared memory: the invocations of a row take equal
// parts of its scores.
func (m *flashMatrix) weighInShared(key0 text) {
	s := m.s
	scorePitch, weightPitch := target.ScorePitch(s), target.WeightPitch(s)
	each := s.TileN / m.lanesPerRow()
	m.repeat("j", m.keys, func(j text) {
		m.line("coopMatStore(%s, %s, %s, %du, gl_CooperativeMatrixLayoutRowMajor);", m.of(m.qk, m.keys, j), m.scores,
			plus(times(m.row0, scorePitch), times(j, m.frag)).s, scorePitch)
	})
	m.line("subgroupBarrier();")
	row := m.named("row", plus(m.row0, m.row))
	mine := m.array("float", "mine", each)
	best := m.variable("float", "best", primary(m.top))
	m.bindRow(row)
	m.repeat("c", each, func(c text) {
		col := plus(times(m.lane, each), c)
		key := m.named("key", plus(key0, col))
		m.bindAxis(m.ax.Key, m.limit(key, m.k.Fold, s.TileN))
		dot := primary(fmt.Sprintf("%s[%s]", m.scores, plus(times(row, scorePitch), col).s))
		m.line("%s = %s;", elementOf(mine, each, c).s, m.score(dot, key, m.axisOrZero(m.ax.Query)).s)
		m.line("%s = max(%s, %s);", best, best, elementOf(mine, each, c).s)
	})
	for mask := m.lanesPerRow() / 2; mask > 0; mask /= 2 {
		m.line("%s = max(%s, subgroupShuffleXor(%s, %du));", best, best, best, mask)
	}
	m.comment("While no key counts, any finite number does in place of the largest score.")
	shift := m.variable("float", "shift", ternary(binary("==", primary(best), m.lowest()), primary("0.0"), primary(best)))
	correction := m.variable("float", "correction", primary(fmt.Sprintf("exp2(%s - %s)", m.top, shift)))
	m.line("%s = %s;", m.top, best)
	m.line("%s *= %s;", m.total, correction)
	m.repeat("c", each/2, func(c text) {
		pair := func(i int) string { return elementOf(mine, each, plus(times(c, 2), uintLit(int64(i)))).s }
		w := m.variable("vec2", "pair", primary(fmt.Sprintf("exp2(vec2(%s, %s) - %s)", pair(0), pair(1), shift)))
		m.line("%s += %s.x + %s.y;", m.total, w, w)
		m.line("%s[%s] = packHalf2x16(%s);", m.weights, plus(plus(times(row, weightPitch), times(m.lane, each/2)), c).s, w)
	})
	m.spread(correction)
	m.line("subgroupBarrier();")
	f := m.fresh(m.scope, "corrections")
	m.line("%s %s;", m.fragment("Accumulator"), f)
	m.line("coopMatLoad(%s, %s, %s, %du, gl_CooperativeMatrixLayoutRowMajor);", f, m.scratch, times(m.row0, m.frag).s, m.frag)
	m.repeat("n", m.cols, func(n text) { m.line("%s = %s * %s;", m.of(m.o, m.cols, n), m.of(m.o, m.cols, n), f) })
	m.repeat("j", m.keys, func(j text) {
		m.line("coopMatLoad(%s, %s, %s, %du, gl_CooperativeMatrixLayoutRowMajor);", m.of(m.p, m.keys, j), m.weights,
			plus(times(m.row0, weightPitch), times(j, m.frag/2)).s, weightPitch)
	})
}

// spread writes a row's number to all columns of its row of a fragment.
func (m *flashMatrix) spread(x string) {
	each := m.frag / m.lanesPerRow()
	m.repeat("c", each, func(c text) {
		at := plus(plus(times(plus(m.row0, m.row), m.frag), times(m.lane, each)), c)
		m.line("%s[%s] = %s;", m.scratch, at.s, x)
	})
}

// store finishes the rows: fragment by fragment, each by way of shared memory,
// where the invocations of a row take their columns.
func (m *flashMatrix) store() {
	m.line("")
	row := m.named("row", plus(m.row0, m.row))
	top, total := m.rowNumbers()
	each := max(m.frag/4/m.lanesPerRow(), 1)
	m.storeOnceIn(row, top, total)
	m.repeat("n", m.cols, func(n text) {
		m.line("subgroupBarrier();")
		m.line("coopMatStore(%s, %s, %s, %du, gl_CooperativeMatrixLayoutRowMajor);", m.of(m.o, m.cols, n), m.scratch, times(m.row0, m.frag).s, m.frag)
		m.line("subgroupBarrier();")
		m.ifRow(row, func() {
			m.bindAcc(0, top)
			m.bindAcc(1, total)
			m.repeat("q", each, func(q text) {
				local := plus(times(m.lane, each), q)
				if m.lanesPerRow() > m.frag/4 {
					m.openGuard("if (%s < %du)", local.s, m.frag/4)
					defer m.close()
				}
				at := m.named("at", plus(times(row, m.frag), times(local, 4)))
				var parts [4]string
				for i := range parts {
					parts[i] = fmt.Sprintf("%s[%s]", m.scratch, plus(at, uintLit(int64(i))).s)
				}
				sum := m.variable("vec4", "sum", primary("vec4("+strings.Join(parts[:], ", ")+")"))
				m.storeQuad(m.named("quad", plus(times(n, m.frag/4), local)), primary(sum))
			})
		})
	})
}

// rowNumbers returns the largest score and the sum of weights of an
// invocation's row.
func (m *flashMatrix) rowNumbers() (top, total string) {
	if !m.inRegisters {
		for mask := m.lanesPerRow() / 2; mask > 0; mask /= 2 {
			m.line("%s += subgroupShuffleXor(%s, %du);", m.total, m.total, mask)
		}
		return m.top, m.total
	}
	m.line("coopMatReduceNV(%s, %s, gl_CooperativeMatrixReduceRowNV, %s);", m.total, m.total, m.add)
	read := func(fragment, name string) string {
		m.line("coopMatStore(%s, %s, %s, %du, gl_CooperativeMatrixLayoutRowMajor);", fragment, m.scratch, times(m.row0, m.frag).s, m.frag)
		m.line("subgroupBarrier();")
		x := m.variable("float", name, primary(fmt.Sprintf("%s[%s]", m.scratch, times(plus(m.row0, m.row), m.frag).s)))
		m.line("subgroupBarrier();")
		return x
	}
	total = read(m.total, "row_total")
	if m.usesResult(0) {
		top = read(m.top, "row_top")
	}
	return top, total
}

// usesResult reports whether a store depends on a result.
func (m *flashMatrix) usesResult(i int) bool {
	return slices.ContainsFunc(m.k.Stores, func(s kernel.Store) bool { return s.Value.UsesAcc(i) })
}

// storeOnceIn writes what a row has once.
func (m *flashMatrix) storeOnceIn(row text, top, total string) {
	if !slices.ContainsFunc(m.k.Stores, func(s kernel.Store) bool { return !s.PerElement }) {
		return
	}
	m.ifRow(row, func() {
		m.bindAcc(0, top)
		m.bindAcc(1, total)
		m.storeOnce(binary("==", m.lane, primary("0u")))
	})
}
