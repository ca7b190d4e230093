package attention

import (
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// EmitMatrix writes an attention on cooperative matrices of subgroup scope. Every subgroup owns a fragment of rows, and
// keeps the rows' queries and results in registers. Keys and values pass through shared memory for all subgroups, TileN
// keys at a time. Scores are f32. Weights are rounded to f16, the operand type of cooperative matrices.
//
// If the device can reduce and convert fragments (flash_coopmat2), scores stay in registers. Otherwise (flash_coopmat)
// each subgroup converts its scores to weights in shared memory.
//
// With flash_coopmat, several subgroups may share rows. Each multiplies its part of the contraction axis. They add up
// the scores in shared memory, and each computes its part of the results.
func EmitMatrix(e *emit.Emitter) {
	s := e.Sched.(kernel.FlashMatrix)
	f := newAttention(e)
	if e.Err != nil {
		return
	}
	e.Need(emit.NeedCoopMat, emit.NeedMemoryModel, emit.NeedFloat16)
	m := &flashMatrix{attention: f, s: s, frag: s.FragM,
		inRegisters: e.Launch.Variant == kernel.VarFlashMatrix2}
	if m.inRegisters {
		e.Need(emit.NeedCoopMat2, emit.NeedMaintenance4)
	}
	m.parts, m.subgroups = schedule.FlashParts(s), s.Workgroup/s.Subgroup
	// In fragments: a subgroup's part of the contraction axis and of the results, and the keys of a tile.
	m.dots, m.cols, m.keys = int(f.a.Dot.Add)/m.frag/m.parts, f.width/m.frag/m.parts, s.TileN/m.frag
	m.stages = max(s.Stages, 1)
	m.shareArrays()
	m.placeInvocation()
	m.declareRegisters()
	m.readQueries()
	first, end := m.keyRange()
	m.run(first, end)
	m.store()
}

// flashMatrix is an attention on cooperative matrices. See EmitMatrix.
type flashMatrix struct {
	*attention
	s                kernel.FlashMatrix
	frag             int       // rows and columns of a fragment
	dots, cols, keys int       // fragments of a subgroup along the contraction axis, of a result, and of a tile of keys
	subgroups, parts int       // subgroups of the workgroup, and subgroups that share the same rows
	stages           int       // tiles of keys, and of values, in shared memory
	inRegisters      bool      // scores and weights never pass through shared memory
	end              expr.Expr // end of the keys that any row of the workgroup sees
	last             expr.Expr // the last of these keys, or key 0 if there are none

	row0      expr.Expr // the subgroup's first row of the tile
	own       expr.Expr // the subgroup's first line in the scratch arrays
	part      expr.Expr // the subgroup's number among the subgroups that share its rows
	lane, row expr.Expr // row is the invocation's row of a fragment, and lane its number in that row

	tiles, scratch, shared, weights expr.Expr     // shared arrays; in tiles, all keys come before the values
	queryFrags, sumFrags            expr.Array    // fragments of queries, and of the weighted sums of values
	weightFrags                     expr.Array    // fragments of weights; unused with inRegisters
	scores                          [2]expr.Array // fragments of scores of the current tile and of the next
	keyMover, valueMover            *emit.Mover

	// By row: the shift, so that weights are 2^(score - shift); the sum of weights; and with inRegisters, the largest
	// score so far in each column of fragments.
	shift, total, top            expr.Expr
	largerOf, add, larger, power expr.Expr // names of GLSL functions of fragment elements
	scoreOf, weightOf            expr.Expr // these too
}

// fragment is the type of a fragment. use is A, B or Accumulator.
func (m *flashMatrix) fragment(use string) string {
	t := ir.F16
	if use == "Accumulator" {
		t = ir.F32
	}
	return emit.Fragment(m.s.Fragment, t, use)
}

// lanesPerRow is the number of invocations of a subgroup that share a row.
func (m *flashMatrix) lanesPerRow() int { return m.s.Subgroup / m.frag }

// shareArrays declares the arrays in shared memory.
func (m *flashMatrix) shareArrays() {
	s := m.s
	m.tiles = m.Share("uvec4", "tiles", m.stages*s.TileN*(m.keyPitch()+m.valuePitch()))
	m.scratch = m.Share("float", "fragments", m.subgroups*m.frag*m.frag)
	if !m.inRegisters {
		m.shared = m.Share("float", "scores", m.subgroups*m.frag*schedule.ScorePitch(s))
		m.weights = m.Share("uint", "weights", m.subgroups*m.frag*schedule.WeightPitch(s))
	}
}

// placeInvocation declares the place of a subgroup in the tile, and of an invocation in a fragment.
func (m *flashMatrix) placeInvocation() {
	m.row0 = m.Variable("uint", "row0", expr.Times(expr.Quotient(expr.Of("gl_SubgroupID"), m.parts, m.subgroups),
		m.frag))
	m.part = m.Named("part", expr.Remainder(expr.Of("gl_SubgroupID"), m.parts, m.subgroups))
	m.own = m.row0
	// Subgroups that share rows need scratch memory of their own.
	if m.parts > 1 {
		m.own = m.Variable("uint", "own", expr.Times(expr.Of("gl_SubgroupID"), m.frag))
	}
	perRow := m.lanesPerRow()
	m.row = m.Variable("uint", "frag_row", expr.Quotient(expr.Of("gl_SubgroupInvocationID"), perRow, m.s.Subgroup))
	m.lane = m.Named("lane_of_row", expr.Remainder(expr.Of("gl_SubgroupInvocationID"), perRow, m.s.Subgroup))
}

// declareRegisters declares the registers, and sets the results to zero.
func (m *flashMatrix) declareRegisters() {
	m.queryFrags = m.Array(m.fragment("A"), "queries", m.dots)
	acc := m.fragment("Accumulator")
	m.sumFrags = m.Filled(acc, "sums", m.cols, "n", func(n expr.Expr) expr.Expr {
		return expr.Call(acc, expr.Of("0.0"))
	})
	m.keyMover = m.mover(m.a.K, m.dotAxis())
	m.keyMover.Declare("uvec4", "next_keys")
	m.valueMover = m.mover(m.a.V, m.valueAxis())
	m.valueMover.Declare("uvec4", "next_values")
	if !m.inRegisters { // an invocation has one row, and its statistics are numbers
		m.shift = m.Variable("float", "top", m.lowest())
		m.total = m.Variable("float", "total", expr.Of("0.0"))
		return
	}
	m.defineFunctions()
	m.top, m.shift, m.total = m.Unset(acc, "top"), m.Unset(acc, "shift"), m.Unset(acc, "total")
	m.Assign(m.top, expr.Call(acc, m.lowest()))
	m.Assign(m.shift, expr.Call(acc, m.FloatLit(-math.MaxFloat32)))
	m.Assign(m.total, expr.Call(acc, expr.Of("0.0")))
}

// keyPitch and valuePitch return the distance between lines of a tile of keys or of values, in octets (eight elements).
func (m *flashMatrix) keyPitch() int {
	return schedule.StagedPitch(int(m.a.Dot.Add), schedule.OctetElems)
}
func (m *flashMatrix) valuePitch() int { return schedule.StagedPitch(m.width, schedule.OctetElems) }

// defineFunctions defines the GLSL functions that map and reduce the elements of fragments.
func (m *flashMatrix) defineFunctions() {
	function := func(name, params, body string) expr.Expr {
		name = m.Fresh(m.Root, name)
		m.Define(fmt.Sprintf("float %s(%s)", name, params), func() { m.Return(expr.Of(body)) })
		return expr.Of(name)
	}
	// coopMatPerElementNV passes the place of an element in its fragment before the element.
	place := "const in uint row, const in uint col, const in float "
	m.largerOf = function("larger_of", "const in float a, const in float b", "max(a, b)")
	m.add = function("sum_of", "const in float a, const in float b", "a + b")
	m.larger = function("larger", place+"a, const in float b", "max(a, b)")
	m.power = function("power", place+"x, const in float shift", "exp2(x - shift)")
	m.weightOf = m.power
	if m.scalesLate() {
		m.weightOf = function("weight_of", place+"x, const in float shift",
			fmt.Sprintf("exp2(x * %s - shift)", m.FloatLit(m.a.Scale)))
	}
	m.scoreOf = m.scoreFunction()
}

// scalesLate reports whether scores are compared before scaling, and scaled only when they become weights. That saves a
// multiplication per score.
func (m *flashMatrix) scalesLate() bool {
	return m.inRegisters && m.a.Mask == nil && m.a.Softcap == 0 && m.a.Scale > 0
}

// captured lists the variables of main that the score function needs, as further arguments.
func (m *flashMatrix) captured() []expr.Expr { return m.Captured(len(m.K.Parallel), m.query0) }

// scoreFunction defines the GLSL function that computes the score of a fragment's element from its dot product. With
// scalesLate, the score is not scaled yet. The function also gets the fragment's first row and key. The score is
// -inf if the row does not see the key.
func (m *flashMatrix) scoreFunction() expr.Expr {
	name := m.Fresh(m.Root, "score_of")
	params := []string{"const in uint frag_row", "const in uint frag_col", "const in float dot_product",
		"const in uint first_row", "const in uint first_key"}
	m.DefineOver("float", name, params, len(m.K.Parallel), m.captured(), func() {
		m.bindRow(m.Named("row", expr.Plus(expr.Of("first_row"), expr.Of("frag_row"))))
		key := m.Named("key", expr.Plus(expr.Of("first_key"), expr.Of("frag_col")))
		m.BindAxis(m.ax.Key, m.Limit(key, m.K.Fold, m.s.TileN))
		if m.scalesLate() {
			m.Return(expr.Choose(expr.Binary("<", key, m.seen(m.axisOrZero(m.ax.Query))), expr.Of("dot_product"),
				m.lowest()))
			return
		}
		m.Return(m.score(expr.Of("dot_product"), key, m.axisOrZero(m.ax.Query)))
	})
	return expr.Of(name)
}

// axisOrZero returns a coordinate, or 0 for an axis of extent 1.
func (m *flashMatrix) axisOrZero(axis int) expr.Expr {
	if m.K.Parallel[axis].Is(1) {
		return expr.Of("0u")
	}
	return m.Axis(axis)
}

// store finishes the rows and stores them. Each fragment passes through shared memory, so that the invocations of a row
// can read their columns.
func (m *flashMatrix) store() {
	m.Blank()
	if m.inRegisters && m.usesTop() {
		m.raise() // so that the shift is the largest score
	}
	row := m.Named("row", expr.Plus(m.row0, m.row))
	top, total := m.rowStats()
	m.storeOnceIn(row, top, total)
	m.Repeat("n", m.cols, func(n expr.Expr) {
		m.Do("subgroupBarrier")
		m.toScratch(m.sumFrags.At(n))
		m.Do("subgroupBarrier")
		m.ifRow(row, func() {
			m.BindAcc(accTop, top)
			m.BindAcc(accTotal, total)
			m.storeFragment(expr.Flat(m.part, m.cols, n))
		})
	})
}

// storeFragment stores the columns of the scratch array that belong to this invocation's row, as fragment n.
func (m *flashMatrix) storeFragment(n expr.Expr) {
	// each is the number of quads that an invocation stores of its row. Some invocations may have none.
	each := max(m.frag/4/m.lanesPerRow(), 1)
	m.Repeat("q", each, func(q expr.Expr) {
		local := expr.Flat(m.lane, each, q)
		if m.lanesPerRow() > m.frag/4 {
			m.OpenIf(expr.Binary("<", local, expr.Uint(m.frag/4)))
			defer m.Close()
		}
		at := m.Named("at", expr.Flat(expr.Plus(m.own, m.row), m.frag, expr.Times(local, 4)))
		var parts [4]expr.Expr
		for i := range parts {
			parts[i] = expr.At(m.scratch, expr.Plus(at, expr.Uint(i)))
		}
		sum := m.Variable("vec4", "sum", expr.Call("vec4", parts[:]...))
		m.storeQuad(m.Named("quad", expr.Flat(n, m.frag/4, local)), sum)
	})
}

// toScratch writes a fragment to the subgroup's part of the scratch array in shared memory.
func (m *flashMatrix) toScratch(fragment expr.Expr) {
	m.StoreMatrix(fragment, m.scratch, expr.Times(m.own, m.frag), m.frag, "Row")
}

// rowStats returns the largest score and the sum of weights of the invocation's row, for the stores. The largest score
// is the shift. With inRegisters, top is nil if no store uses it.
func (m *flashMatrix) rowStats() (top, total expr.Expr) {
	if !m.inRegisters { // each lane of the row has a part of the sum
		m.SumLanes(m.total, m.lanesPerRow()/2)
		return m.shift, m.total
	}
	m.Do("coopMatReduceNV", m.total, m.total, expr.Of("gl_CooperativeMatrixReduceRowNV"), m.add)
	// All columns of a fragment now have the row's value. Read column 0 of the invocation's row, in shared memory.
	read := func(fragment expr.Expr, name string) expr.Expr {
		m.Do("subgroupBarrier")
		m.toScratch(fragment)
		m.Do("subgroupBarrier")
		return m.Variable("float", name, expr.At(m.scratch, expr.Times(expr.Plus(m.own, m.row), m.frag)))
	}
	total = read(m.total, "row_total")
	if m.usesTop() {
		top = read(m.shift, "row_top")
	}
	return top, total
}

// usesTop reports whether a store depends on the rows' largest scores.
func (m *flashMatrix) usesTop() bool {
	return slices.ContainsFunc(m.K.Stores, func(s kernel.Store) bool { return s.Value.UsesAcc(accTop) })
}

// storeOnceIn writes the stores that happen once per row, for the given row.
func (m *flashMatrix) storeOnceIn(row expr.Expr, top, total expr.Expr) {
	if _, perRow := m.SplitStores(); len(perRow) == 0 {
		return // and leave out an empty block
	}
	m.ifRow(row, func() {
		m.BindAcc(accTop, top)
		m.BindAcc(accTotal, total)
		first := expr.Binary("==", m.lane, expr.Of("0u"))
		if m.parts > 1 {
			first = expr.Binary("&&", first, expr.Binary("==", m.part, expr.Of("0u")))
		}
		m.storeOnce(first)
	})
}
