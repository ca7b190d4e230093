package glsl

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/schedule"
)

// weigh turns the scores into weights, or prepares that. It rescales the sums if the shift of the weights changes.
func (m *flashMatrix) weigh(scores text, key0, whole text) {
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
func (m *flashMatrix) weightOfFragment(scores text, j text) func(i text) text {
	if !m.inRegisters {
		return func(text) text { return m.of(m.p, m.keys, j) }
	}
	m.p = m.array(m.fragment("A"), "weight", m.strips)
	weight := func(i text) text { return m.of(m.p, m.strips, i) }
	m.repeat("i", m.strips, func(i text) {
		score, total := m.scoreAt(scores, i, j), m.of(m.total, m.strips, i)
		m.do("coopMatPerElementNV", score, score, m.weightOf, m.of(m.shift, m.strips, i))
		m.line("%s = %s + %s;", total, total, score)
		m.assign(weight(i), call(m.fragment("A"), score))
	})
	return weight
}

// maxGrowth is how much a score may exceed the shift of the weights, in powers of two. In f16, weights up to 2^8 are as
// exact as weights up to 1, and far from the largest number. The shift makes no difference to the quotient of the sums.
// While it stays the same, the sums need no rescaling.
const maxGrowth = 8

// follow raises the shift to the largest score so far if that score grew a lot since the last raise. After the first
// tiles this is rare. Until then the largest scores are kept by column of fragments.
func (m *flashMatrix) follow(scores text) {
	m.need(NeedSubgroupVote)
	m.repeat("i", m.strips, func(i text) {
		top := m.of(m.top, m.strips, i)
		m.repeat("j", m.keys, func(j text) {
			m.do("coopMatPerElementNV", top, top, m.larger, m.scoreAt(scores, i, j))
		})
	})
	grew := m.variable("bool", "grew", primary("false"))
	m.repeat("i", m.strips, func(i text) {
		growth := m.variable(m.fragment("Accumulator"), "growth",
			binary("-", m.scaled(m.of(m.top, m.strips, i)), m.of(m.shift, m.strips, i)))
		e := m.free("e")
		m.open("[[unroll]] for (int %s = 0; %[1]s < %s.length(); ++%[1]s)", e, growth)
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
		best, correction := primary(m.fresh(m.scope, "best")), primary(m.fresh(m.scope, "correction"))
		m.line("%s %s, %s;", acc, best, correction)
		m.line("coopMatReduceNV(%s, %s, gl_CooperativeMatrixReduceRowNV, %s);", best,
			m.of(m.top, m.strips, i), m.largerOf)
		if m.scalesLate() {
			m.assign(best, m.scaled(best))
		}
		m.do("coopMatPerElementNV", best, best, m.larger, shift)
		m.do("coopMatPerElementNV", correction, shift, m.power, best)
		m.assign(shift, best)
		m.assign(total, binary("*", total, correction))
		m.repeat("n", m.cols, func(n text) { m.assign(m.sum(i, n), binary("*", m.sum(i, n), correction)) })
	})
}

// scaled prints raw scores as scores.
func (m *flashMatrix) scaled(x text) text {
	if !m.scalesLate() {
		return x
	}
	return binary("*", x, m.floatLit(m.a.Scale))
}

// scoreFragments sets the scores of masked keys, and scales the raw scores unless that comes later. If all rows of the
// subgroup see the whole tile, no key is masked.
func (m *flashMatrix) scoreFragments(scores text, key0, whole text) {
	each := func() {
		m.repeat("i", m.strips, func(i text) {
			m.repeat("j", m.keys, func(j text) {
				score := m.scoreAt(scores, i, j)
				args := []text{score, score, m.scoreOf, plus(m.row0, times(i, m.frag)), plus(key0, times(j, m.frag))}
				for _, v := range m.context() {
					args = append(args, primary(v))
				}
				m.do("coopMatPerElementNV", args...)
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
func (m *flashMatrix) weighInShared(scores text, key0 text) {
	s := m.s
	scorePitch, weightPitch := schedule.ScorePitch(s), schedule.WeightPitch(s)
	each := s.TileN / m.lanesPerRow()
	m.repeat("j", m.keys, func(j text) {
		m.storeMatrix(m.scoreAt(scores, primary("0u"), j), m.shared, plus(times(m.own, scorePitch), times(j, m.frag)),
			scorePitch, "Row")
	})
	if m.parts > 1 {
		m.barrier()
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
	best := m.variable("float", "best", m.shift)
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
		m.assign(elementOf(mine, each, c), m.score(dot, key, m.axisOrZero(m.ax.Query)))
		m.atLeast(best, elementOf(mine, each, c))
	})
	for mask := m.lanesPerRow() / 2; mask > 0; mask /= 2 {
		m.atLeast(best, shuffled(best, mask))
	}
	m.comment("While no key counts, any finite number does in place of the largest score.")
	shift, correction := m.rebase(best, m.shift)
	m.assign(m.shift, best)
	m.update(m.total, "*=", correction)
	m.repeat("c", each/2, func(c text) {
		pair := func(i int) text { return elementOf(mine, each, plus(times(c, 2), uintLit(i))) }
		w := m.variable("vec2", "pair", primary(fmt.Sprintf("exp2(vec2(%s, %s) - %s)", pair(0), pair(1), shift)))
		m.line("%s += %s.x + %s.y;", m.total, w, w)
		m.line("%s[%s] = packHalf2x16(%s);", m.weights, plus(plus(times(own, weightPitch), times(m.lane, each/2)), c),
			w)
	})
	m.spread(correction)
	m.line("subgroupBarrier();")
	f := m.unset(m.fragment("Accumulator"), "corrections")
	m.loadMatrix(f, m.scratch, times(m.own, m.frag), m.frag, "Row")
	m.repeat("n", m.cols, func(n text) { m.assign(m.of(m.o, m.cols, n), binary("*", m.of(m.o, m.cols, n), f)) })
	m.repeat("j", m.keys, func(j text) {
		m.loadMatrix(m.of(m.p, m.keys, j), m.weights, plus(times(m.own, weightPitch), times(j, m.frag/2)), weightPitch,
			"Row")
	})
}

// spread writes a value of a row to all columns of the row's fragment.
func (m *flashMatrix) spread(x text) {
	each := m.frag / m.lanesPerRow()
	m.repeat("c", each, func(c text) {
		at := plus(plus(times(plus(m.own, m.row), m.frag), times(m.lane, each)), c)
		m.assign(elementAt(m.scratch, at), x)
	})
}
