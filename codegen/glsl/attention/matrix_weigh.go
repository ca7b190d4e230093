package attention

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/schedule"
)

// weigh converts the scores of a tile of keys to weights, 2^(score - shift), and rescales the sums so far when the
// shift changes. The weights go to shared memory and from there to weightFrags. With inRegisters, weigh only updates
// the shift, and weightOfFragment converts each fragment before its use. The tile begins at key0. All rows of the
// subgroup see the first allSee keys.
func (m *flashMatrix) weigh(scores expr.Array, key0, allSee expr.Expr) {
	m.Blank()
	if m.inRegisters {
		m.scoreFragments(scores, key0, allSee)
		m.updateShift(scores)
		return
	}
	m.weightFrags = m.Array(m.fragment("A"), "weight", m.keys)
	m.weighInShared(scores, key0)
}

// weightOfFragment returns the weights of fragment j. With inRegisters it first converts the scores; otherwise weigh
// has done that.
func (m *flashMatrix) weightOfFragment(scores expr.Array, j expr.Expr) expr.Expr {
	if !m.inRegisters {
		return m.weightFrags.At(j)
	}
	weight, score := m.Unset(m.fragment("A"), "weight"), scores.At(j)
	m.Do("coopMatPerElementNV", score, score, m.weightOf, m.shift)
	m.Assign(m.total, expr.Binary("+", m.total, score))
	m.Assign(weight, expr.Call(m.fragment("A"), score))
	return weight
}

// maxGrowth is the largest allowed difference between a score and the shift, in powers of two. f16 weights of up to 2^8
// are as exact as weights of up to 1, and far from the largest f16. The shift does not affect the quotient of the sums.
// While it stays the same, the sums need no rescaling.
const maxGrowth = 8

// updateShift raises the shift to the largest score so far, if that score exceeds the shift by more than maxGrowth.
// After the first tiles this is rare, so the largest score is only kept by column of a fragment. raise, which is called
// rarely, reduces it over the columns.
func (m *flashMatrix) updateShift(scores expr.Array) {
	m.Need(emit.NeedSubgroupVote)
	m.Repeat("j", m.keys, func(j expr.Expr) {
		m.Do("coopMatPerElementNV", m.top, m.top, m.larger, scores.At(j))
	})
	grew := m.Variable("bool", "grew", expr.Of("false"))
	growth := m.Variable(m.fragment("Accumulator"), "growth", expr.Binary("-", m.scaled(m.top), m.shift))
	// Each invocation looks at its own elements of the fragment, and subgroupAny joins the answers.
	e := syntax.Ident(m.Free("e")) // the loop variable
	m.Open(&syntax.For{Hint: emit.Unroll,
		Init: &syntax.Declare{Type: "int", Vars: []syntax.Var{{Name: e.Text, Init: expr.Int(0)}}},
		Cond: expr.Format("%s < %s.length()", e, growth), Post: &syntax.Assign{To: e, Op: "++"}})
	m.Assign(grew, expr.Format("%s || %s[%s] > %s", grew, growth, e, m.FloatLit(maxGrowth)))
	m.Close()
	m.Open(&syntax.If{Cond: expr.Call("subgroupAny", grew)})
	m.raise()
	m.Close()
}

// raise sets the shift to the largest scores, and rescales the sums.
func (m *flashMatrix) raise() {
	acc := m.fragment("Accumulator")
	best, correction := expr.Of(m.Fresh(m.Scope, "best")), expr.Of(m.Fresh(m.Scope, "correction"))
	m.Variables(acc, syntax.Var{Name: best.Text}, syntax.Var{Name: correction.Text})
	m.Do("coopMatReduceNV", best, m.top, expr.Of("gl_CooperativeMatrixReduceRowNV"), m.largerOf)
	if m.scalesLate() {
		m.Assign(best, m.scaled(best))
	}
	m.Do("coopMatPerElementNV", best, best, m.larger, m.shift) // the shift never falls
	m.Do("coopMatPerElementNV", correction, m.shift, m.power, best)
	m.Assign(m.shift, best)
	m.Assign(m.total, expr.Binary("*", m.total, correction))
	m.scaleSums(correction)
}

// scaled returns scores with the attention's scale, if they do not have it yet (scalesLate).
func (m *flashMatrix) scaled(x expr.Expr) expr.Expr {
	if !m.scalesLate() {
		return x
	}
	return expr.Binary("*", x, m.FloatLit(m.a.Scale))
}

// scoreFragments turns dot products into scores: it masks keys, and scales the products unless that comes later
// (scalesLate). A tile that ends within the first allSee keys needs no mask, because all rows of the subgroup see these
// keys.
func (m *flashMatrix) scoreFragments(scores expr.Array, key0, allSee expr.Expr) {
	if m.scalesLate() { // there is nothing to do except to mask
		if !m.a.Causal && m.wholeTiles() {
			return // all rows see all keys of every tile
		}
		m.Open(&syntax.If{Cond: expr.Binary(">", expr.Plus(key0, expr.Uint(m.s.TileN)), allSee)})
		defer m.Close()
	}
	m.Repeat("j", m.keys, func(j expr.Expr) {
		score := scores.At(j)
		args := []expr.Expr{score, score, m.scoreOf, m.row0, expr.Plus(key0, expr.Times(j, m.frag))}
		m.Do("coopMatPerElementNV", append(args, m.captured()...)...)
	})
}

// wholeTiles reports whether the number of keys is always a multiple of two tiles, which the loop body processes.
func (m *flashMatrix) wholeTiles() bool { return schedule.DivisibleBy(m.K.Fold, m.tile.Step) }

// weighInShared converts scores to weights in shared memory. The invocations of a row convert equal parts of its
// scores.
func (m *flashMatrix) weighInShared(scores expr.Array, key0 expr.Expr) {
	m.shareScores(scores)
	row := m.Named("row", expr.Plus(m.row0, m.row))
	own, first := row, row // lines of the shared arrays: of this subgroup, and of the first subgroup with the same rows
	if m.parts > 1 {
		own = m.Named("own_row", expr.Plus(m.own, m.row))
		first = m.Named("first_row", expr.Flat(m.row0, m.parts, m.row))
	}
	each := m.s.TileN / m.lanesPerRow()
	mine := m.Array("float", "mine", each)
	best := m.Variable("float", "best", m.shift)
	m.bindRow(row)
	m.readScores(mine, best, first, key0)
	m.Comment("While no key counts, any finite number does in place of the largest score.")
	shift, correction := m.rebase(best, m.shift)
	m.Assign(m.shift, best)
	m.Update(m.total, "*=", correction)
	pitch := schedule.WeightPitch(m.s)
	m.Repeat("c", each/2, func(c expr.Expr) {
		pair := func(i int) expr.Expr { return mine.At(expr.Flat(c, 2, expr.Uint(i))) }
		w := m.Variable("vec2", "pair", expr.Of(fmt.Sprintf("exp2(vec2(%s, %s) - %s)", pair(0), pair(1), shift)))
		m.Update(m.total, "+=", expr.Plus(expr.Member(w, "x"), expr.Member(w, "y")))
		m.Assign(expr.At(m.weights, expr.Plus(expr.Flat(own, pitch, expr.Times(m.lane, each/2)), c)),
			expr.Call("packHalf2x16", w))
	})
	m.rescaleSums(correction)
	m.Repeat("j", m.keys, func(j expr.Expr) {
		m.LoadMatrix(m.weightFrags.At(j), m.weights, expr.Flat(m.own, pitch, expr.Times(j, m.frag/2)), pitch, "Row")
	})
}

// shareScores writes the subgroup's fragments of scores to shared memory, and waits for the subgroups with the same
// rows.
func (m *flashMatrix) shareScores(scores expr.Array) {
	pitch := schedule.ScorePitch(m.s)
	m.Repeat("j", m.keys, func(j expr.Expr) {
		m.StoreMatrix(scores.At(j), m.shared, expr.Flat(m.own, pitch, expr.Times(j, m.frag)),
			pitch, "Row")
	})
	if m.parts > 1 {
		m.Barrier()
	} else {
		m.Do("subgroupBarrier")
	}
}

// readScores sets mine to the invocation's scores of its row, for the tile that begins at key0, and raises best to the
// largest score of the row. If several subgroups share the row (m.parts), each has stored partial dot products in
// shared memory, and readScores adds them up. first is the line with the dot products of the first of these subgroups.
func (m *flashMatrix) readScores(mine expr.Array, best, first, key0 expr.Expr) {
	each := m.s.TileN / m.lanesPerRow()
	m.Repeat("c", each, func(c expr.Expr) {
		col := expr.Flat(m.lane, each, c)
		key := m.Named("key", expr.Plus(key0, col))
		m.BindAxis(m.ax.Key, m.Limit(key, m.K.Fold, m.s.TileN))
		partOf := func(part int) expr.Expr {
			line := expr.Plus(first, expr.Uint(part*m.frag))
			return expr.At(m.shared, expr.Flat(line, schedule.ScorePitch(m.s), col))
		}
		dot := partOf(0)
		for part := 1; part < m.parts; part++ {
			dot = expr.Binary("+", dot, partOf(part))
		}
		m.Assign(mine.At(c), m.score(dot, key, m.axisOrZero(m.ax.Query)))
		m.AtLeast(best, mine.At(c))
	})
	// Afterwards all lanes of the row have the largest score.
	for mask := m.lanesPerRow() / 2; mask > 0; mask /= 2 {
		m.AtLeast(best, emit.Shuffled(best, mask))
	}
}

// rescaleSums multiplies the sums of values by the correction of their rows, which passes through shared memory.
func (m *flashMatrix) rescaleSums(correction expr.Expr) {
	m.spread(correction)
	m.Do("subgroupBarrier")
	f := m.Unset(m.fragment("Accumulator"), "corrections")
	m.LoadMatrix(f, m.scratch, expr.Times(m.own, m.frag), m.frag, "Row")
	m.scaleSums(f)
}

// scaleSums multiplies the fragments of sums, element by element, by a fragment of factors.
func (m *flashMatrix) scaleSums(factors expr.Expr) {
	m.Repeat("n", m.cols, func(n expr.Expr) {
		m.Assign(m.sumFrags.At(n), expr.Binary("*", m.sumFrags.At(n), factors))
	})
}

// spread writes a value of the invocation's row to all columns of that row in the scratch fragment.
func (m *flashMatrix) spread(x expr.Expr) {
	each := m.frag / m.lanesPerRow()
	m.Repeat("c", each, func(c expr.Expr) {
		at := expr.Plus(expr.Flat(expr.Plus(m.own, m.row), m.frag, expr.Times(m.lane, each)), c)
		m.Assign(expr.At(m.scratch, at), x)
	})
}
