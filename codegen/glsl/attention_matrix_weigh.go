package glsl

import (
	"fmt"
	"strings"

	"github.com/vkc-go/vkc/codegen/schedule"
)

// weigh turns the scores into weights, or prepares that. It rescales the sums if the shift of the weights changes.
func (m *flashMatrix) weigh(scores string, key0, whole text) {
	m.line("")
	if m.inRegisters {
		m.scoreFragments(scores, key0, whole)
		m.follow(scores)
		return
	}
	m.p = m.array(m.fragment("A"), "weight", m.keys)
	m.weighInShared(scores, key0)
}

// weightOfFragment turns the strips' scores of fragment j into weights, unless weigh did, and returns a function that
// names them.
func (m *flashMatrix) weightOfFragment(scores string, j text) func(i text) string {
	if !m.inRegisters {
		return func(text) string { return m.of(m.p, m.keys, j) }
	}
	m.p = m.array(m.fragment("A"), "weight", m.strips)
	weight := func(i text) string { return m.of(m.p, m.strips, i) }
	m.repeat("i", m.strips, func(i text) {
		score, total := m.scoreAt(scores, i, j), m.of(m.total, m.strips, i)
		m.line("coopMatPerElementNV(%s, %s, %s, %s);", score, score, m.weightOf, m.of(m.shift, m.strips, i))
		m.line("%s = %s + %s;", total, total, score)
		m.line("%s = %s(%s);", weight(i), m.fragment("A"), score)
	})
	return weight
}

// maxGrowth is how much a score may exceed the shift of the weights, in powers of two. In f16, weights up to 2^8 are as
// exact as weights up to 1, and far from the largest number. The shift makes no difference to the quotient of the sums.
// While it stays the same, the sums need no rescaling.
const maxGrowth = 8

// follow raises the shift to the largest score so far if that score grew a lot since the last raise. After the first
// tiles this is rare. Until then the largest scores are kept by column of fragments.
func (m *flashMatrix) follow(scores string) {
	m.need(NeedSubgroupVote)
	m.repeat("i", m.strips, func(i text) {
		top := m.of(m.top, m.strips, i)
		m.repeat("j", m.keys, func(j text) {
			m.line("coopMatPerElementNV(%s, %s, %s, %s);", top, top, m.larger, m.scoreAt(scores, i, j))
		})
	})
	grew := m.variable("bool", "grew", primary("false"))
	m.repeat("i", m.strips, func(i text) {
		growth := m.fresh(m.scope, "growth")
		m.line("%s %s = %s - %s;", m.fragment("Accumulator"), growth, m.scaled(m.of(m.top, m.strips, i)),
			m.of(m.shift, m.strips, i))
		e := m.free("e")
		m.open("%sfor (int %s = 0; %s < %s.length(); ++%s)", unroll, e, e, growth, e)
		m.line("%s = %s || %s[%s] > %s;", grew, grew, growth, e, m.floatLit(maxGrowth))
		m.close()
	})
	m.open("if (subgroupAny(%s))", grew)
	m.raise()
	m.close()
}

// raise makes weights relative to the largest scores, and rescales the sums.
func (m *flashMatrix) raise() {
	acc := m.fragment("Accumulator")
	m.repeat("i", m.strips, func(i text) {
		shift, total := m.of(m.shift, m.strips, i), m.of(m.total, m.strips, i)
		best, correction := m.fresh(m.scope, "best"), m.fresh(m.scope, "correction")
		m.line("%s %s, %s;", acc, best, correction)
		m.line("coopMatReduceNV(%s, %s, gl_CooperativeMatrixReduceRowNV, %s);", best,
			m.of(m.top, m.strips, i), m.largerOf)
		if m.scalesLate() {
			m.line("%s = %s;", best, m.scaled(best))
		}
		m.line("coopMatPerElementNV(%s, %s, %s, %s);", best, best, m.larger, shift)
		m.line("coopMatPerElementNV(%s, %s, %s, %s);", correction, shift, m.power, best)
		m.line("%s = %s;", shift, best)
		m.line("%s = %s * %s;", total, total, correction)
		m.repeat("n", m.cols, func(n text) { m.line("%s = %s * %s;", m.sum(i, n), m.sum(i, n), correction) })
	})
}

// scaled prints raw scores as scores.
func (m *flashMatrix) scaled(x string) string {
	if !m.scalesLate() {
		return x
	}
	return x + " * " + m.floatLit(m.a.Scale).String()
}

// scoreFragments sets the scores of masked keys, and scales the raw scores unless that comes later. If all rows of the
// subgroup see the whole tile, no key is masked.
func (m *flashMatrix) scoreFragments(scores string, key0, whole text) {
	each := func() {
		m.repeat("i", m.strips, func(i text) {
			m.repeat("j", m.keys, func(j text) {
				score := m.scoreAt(scores, i, j)
				args := append([]string{score, score, m.scoreOf, plus(m.row0, times(i, m.frag)).String(),
					plus(key0, times(j, m.frag)).String()}, m.context()...)
				m.line("coopMatPerElementNV(%s);", strings.Join(args, ", "))
			})
		})
	}
	switch {
	case m.a.Mask != nil:
		each()
	case m.scalesLate() && !m.a.Causal && m.evenly():
	case m.scalesLate():
		m.open("if (%s > %s)", plus(key0, uintLit(m.s.TileN)), whole)
		each()
		m.close()
	default:
		each()
	}
}

// evenly reports whether the keys are whole pairs of tiles.
func (m *flashMatrix) evenly() bool {
	return schedule.DivisibleBy(m.k.Fold, schedule.AttentionStep(m.s))
}

// weighInShared turns scores into weights in shared memory. The invocations of a row take equal parts of its scores.
func (m *flashMatrix) weighInShared(scores string, key0 text) {
	s := m.s
	scorePitch, weightPitch := schedule.ScorePitch(s), schedule.WeightPitch(s)
	each := s.TileN / m.lanesPerRow()
	m.repeat("j", m.keys, func(j text) {
		m.line("coopMatStore(%s, %s, %s, %du, gl_CooperativeMatrixLayoutRowMajor);",
			m.scoreAt(scores, primary("0u"), j), m.shared,
			plus(times(m.own, scorePitch), times(j, m.frag)), scorePitch)
	})
	if m.parts > 1 {
		m.line("barrier();")
	} else {
		m.line("subgroupBarrier();")
	}
	row := m.named("row", plus(m.row0, m.row))
	own, first := row, row // lines of the shared arrays: own for the subgroup, first for the first subgroup of the rows
	if m.parts > 1 {
		own = m.named("own_row", plus(m.own, m.row))
		first = m.named("first_row", plus(times(m.row0, m.parts), m.row))
	}
	mine := m.array("float", "mine", each)
	best := m.variable("float", "best", primary(m.shift))
	m.bindRow(row)
	m.repeat("c", each, func(c text) {
		col := plus(times(m.lane, each), c)
		key := m.named("key", plus(key0, col))
		m.bindAxis(m.ax.Key, m.limit(key, m.k.Fold, s.TileN))
		scoreOf := func(part int) text {
			at := plus(times(plus(first, uintLit(part*m.frag)), scorePitch), col)
			return elementAt(m.shared, at)
		}
		dot := scoreOf(0)
		for part := 1; part < m.parts; part++ {
			dot = binary("+", dot, scoreOf(part))
		}
		m.line("%s = %s;", elementOf(mine, each, c), m.score(dot, key, m.axisOrZero(m.ax.Query)))
		m.line("%s = max(%s, %s);", best, best, elementOf(mine, each, c))
	})
	for mask := m.lanesPerRow() / 2; mask > 0; mask /= 2 {
		m.line("%s = max(%s, subgroupShuffleXor(%s, %du));", best, best, best, mask)
	}
	m.comment("While no key counts, any finite number does in place of the largest score.")
	shift, correction := m.rebase(primary(best), m.shift)
	m.line("%s = %s;", m.shift, best)
	m.line("%s *= %s;", m.total, correction)
	m.repeat("c", each/2, func(c text) {
		pair := func(i int) string { return elementOf(mine, each, plus(times(c, 2), uintLit(i))).String() }
		w := m.variable("vec2", "pair", primary(fmt.Sprintf("exp2(vec2(%s, %s) - %s)", pair(0), pair(1), shift)))
		m.line("%s += %s.x + %s.y;", m.total, w, w)
		m.line("%s[%s] = packHalf2x16(%s);", m.weights, plus(plus(times(own, weightPitch), times(m.lane, each/2)), c),
			w)
	})
	m.spread(correction)
	m.line("subgroupBarrier();")
	f := m.fresh(m.scope, "corrections")
	m.line("%s %s;", m.fragment("Accumulator"), f)
	m.line("coopMatLoad(%s, %s, %s, %du, gl_CooperativeMatrixLayoutRowMajor);", f, m.scratch,
		times(m.own, m.frag), m.frag)
	m.repeat("n", m.cols, func(n text) { m.line("%s = %s * %s;", m.of(m.o, m.cols, n), m.of(m.o, m.cols, n), f) })
	m.repeat("j", m.keys, func(j text) {
		m.line("coopMatLoad(%s, %s, %s, %du, gl_CooperativeMatrixLayoutRowMajor);", m.of(m.p, m.keys, j), m.weights,
			plus(times(m.own, weightPitch), times(j, m.frag/2)), weightPitch)
	})
}

// spread writes a value of a row to all columns of the row's fragment.
func (m *flashMatrix) spread(x string) {
	each := m.frag / m.lanesPerRow()
	m.repeat("c", each, func(c text) {
		at := plus(plus(times(plus(m.own, m.row), m.frag), times(m.lane, each)), c)
		m.line("%s[%s] = %s;", m.scratch, at, x)
	})
}
