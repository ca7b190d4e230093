package attention

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl/blocks"
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// run loops over the keys as a software pipeline. While the scores of a tile become weights and its values are added,
// the queries are multiplied by the keys of the next tile, and the loads of later tiles are in flight. So cooperative
// matrices and ordinary arithmetic do not wait for each other.
//
// With two stages in shared memory, subgroups read one tile while they write the next, and need one barrier per tile.
// With one stage they need a second barrier before they write. The loop body processes two tiles, so that the scores
// and stages of both have fixed names.
func (m *flashMatrix) run(first, end expr.Expr) {
	m.end = end
	var allSee expr.Expr // the number of keys that all rows of the subgroup see
	if m.a.Mask == nil {
		allSee = m.Named("all_see", m.seen(m.Limit(m.queryOf(m.row0), m.K.Parallel[m.ax.Query], m.queries())))
	}
	m.Blank()
	// The loop needs no condition around it if begin can load keys and values, even if no query of the workgroup sees
	// one. With a condition, NVIDIA's compiler generates seven times as much code for the loop, which is slower,
	// sometimes much slower (M-causal).
	m.last = expr.Binary("-", end, expr.Uint(1))
	seen := m.K.Seen(kernel.Axis(m.ax.Query, m.K.Parallel[m.ax.Query]))
	everyQuerySeesKey := first.Is("0u") && seen.Minus(kernel.Const(1)).NonNegative()
	switch {
	case everyQuerySeesKey:
	case m.loadsKeyZero() && !device.RunsLoopsWithoutTrips(m.Caps):
		// max, because end may be 0.
		m.last = m.Named("last_key", expr.Binary("-", expr.Call("max", end, expr.Of("1u")), expr.Of("1u")))
	default:
		m.OpenIf(expr.Binary("<", first, end))
		defer m.Close()
	}
	m.begin(first)
	key0 := m.keyLoop(first, end, m.tile.Step)
	m.Comment("One tile.")
	m.step(key0, allSee, 0)
	m.Comment("The next; past the last key it has no weight.")
	m.step(m.Named("second", expr.Plus(key0, expr.Uint(m.s.TileN))), allSee, 1)
	m.Close()
}

// loadsKeyZero reports whether key 0 and its value can be loaded even if there are no keys. They can if their indices
// are computed: a buffer always has room for the bounds of its symbols, the largest allowed extents. An index that is
// itself loaded could be anything, and a clamp may divide by an extent of 0.
func (m *flashMatrix) loadsKeyZero() bool {
	inside := m.K.Fold.Max() > 0
	kernel.Walk([]*kernel.Expr{m.a.K, m.a.V}, func(e *kernel.Expr) {
		inside = inside && len(e.Index.Values()) == 0 && !e.Index.HasClamp()
	})
	return inside
}

// begin loads the first two tiles of keys and the first tile of values to shared memory, and computes the scores of the
// first tile.
func (m *flashMatrix) begin(first expr.Expr) {
	m.keyMover.Fetch(first)
	m.keyMover.Put(m.keyTile(0))
	m.valueMover.Fetch(first)
	m.valueMover.Put(m.valueTile(0))
	m.keyMover.Fetch(expr.Plus(first, expr.Uint(m.s.TileN)))
	if m.stages > 1 {
		m.keyMover.Put(m.keyTile(1))
	}
	m.Barrier()
	for i := range m.scores {
		m.scores[i] = m.Array(m.fragment("Accumulator"), "score", m.keys)
	}
	m.Repeat("j", m.keys, func(j expr.Expr) { m.multiplyKeys(m.scores[0], j, m.keyTile(0)) })
	if m.stages == 1 { // the first tile of keys makes room for the second
		m.Barrier()
		m.keyMover.Put(m.keyTile(0))
	}
}

// step writes the code for the tile of keys that begins at key0. scores[which] has the scores of this tile, and the
// code leaves the scores of the next tile in scores[1-which]. A tile within the first allSee keys needs no mask,
// because all rows of the subgroup see these keys.
func (m *flashMatrix) step(key0, allSee expr.Expr, which int) {
	m.OpenScope()
	defer m.Close()
	now, ahead := m.scores[which], m.scores[1-which]
	m.Barrier() // all subgroups have written the tiles that are read below
	m.keyMover.Fetch(expr.Plus(key0, expr.Uint(2*m.s.TileN)))
	m.valueMover.Fetch(expr.Plus(key0, expr.Uint(m.s.TileN)))
	m.weigh(now, key0, allSee)
	m.Blank()
	m.Repeat("j", m.keys, func(j expr.Expr) {
		m.multiplyKeys(ahead, j, m.keyTile(1-which))
		m.multiplyValues(now, j, m.valueTile(which))
	})
	if m.stages == 1 { // all subgroups have read the tiles that are overwritten below
		m.Barrier()
	}
	m.keyMover.Put(m.keyTile(which))
	m.valueMover.Put(m.valueTile(1 - which))
}

// keyTile and valueTile return the index of the first octet of a stage's tile in shared memory.
func (m *flashMatrix) keyTile(stage int) expr.Expr {
	return expr.Uint(stage % m.stages * m.s.TileN * m.keyPitch())
}

func (m *flashMatrix) valueTile(stage int) expr.Expr {
	return expr.Uint(m.stages*m.s.TileN*m.keyPitch() + stage%m.stages*m.s.TileN*m.valuePitch())
}

// tileMover returns the mover of a tile with the given number of lines, such as keys, of width elements each.
func (m *flashMatrix) tileMover(lines, width int, load emit.LoadUnit) *emit.Mover {
	pitch := schedule.StagedPitch(width, schedule.OctetElems)
	return &emit.Mover{E: m.Emitter, Self: m.self, Lines: lines, PerLine: width / schedule.OctetElems, Line: "line",
		Unit: "octet", Load: load, Store: func(tile, line, octet, value expr.Expr) {
			m.Assign(expr.At(m.tiles, expr.Plus(tile, expr.Flat(line, pitch, octet))), value)
		}}
}

// octet returns eight neighbours of an operand along an axis, from element at on, as f16 in the four words of a uvec4.
// It loads them unchanged if the operand is an f16 buffer, decodes them together if it is a block buffer, and otherwise
// computes them.
func (m *flashMatrix) octet(v *kernel.Expr, a emit.Along, at expr.Expr) expr.Expr {
	w := schedule.Unrounded(v, ir.F16)
	halves := w.Kind == kernel.ExprLoad && m.K.Bindings[w.Bind].DType == ir.F16
	switch {
	case halves && m.K.LoadsVector(w, a.Axis, schedule.OctetElems):
		b := m.Buffers[w.Bind]
		return m.Element(b, schedule.OctetElems, expr.Binary("/", m.IndexAt(w.Index, a.Axis, at),
			expr.Uint(schedule.OctetElems)))
	case blocks.LoadsOctets(m.Emitter, w, a):
		return expr.Call(blocks.OctetDecoder(m.Emitter, m.Buffers[w.Bind]), expr.Narrow(m.IndexAt(w.Index, a.Axis, at)))
	}
	packedQuad := func(name string, at expr.Expr) string { // two words with elements at to at+3
		t := m.Quad(v, a, at, name, emit.Inside)
		if !expr.IsPlain(t) {
			t = m.Variable("vec4", name, t)
		}
		return fmt.Sprintf("packHalf2x16(%s.xy), packHalf2x16(%s.zw)", t, t)
	}
	return expr.Of(fmt.Sprintf("uvec4(%s, %s)", packedQuad("low", at),
		packedQuad("high", expr.Plus(at, expr.Uint(4)))))
}

// readQueries loads the queries of all rows into fragments, through the shared memory of the tiles.
func (m *flashMatrix) readQueries() {
	s, dot, pitch := m.s, int(m.a.Dot.Add), m.keyPitch()
	lines := schedule.FlashQueryLines(m.K, s)
	for first := 0; first < s.TileM; first += lines {
		last := min(first+lines, s.TileM)
		m.Comment("Rows %d to %d come by way of shared memory.", first, last-1)
		m.tileMover(last-first, dot, func(_, from, line, octet expr.Expr, keep func(value expr.Expr)) {
			m.bindRow(m.Named("row", expr.Plus(from, line)))
			keep(m.octet(m.a.Q, m.dotAxis(), expr.Times(octet, schedule.OctetElems)))
		}).Move(expr.Uint(first))
		m.Barrier()
		if lines < s.TileM { // only subgroups with these rows load them
			m.Open(&syntax.If{Cond: expr.Format("%s / %du == %du", m.row0, lines, first/lines)})
		} else {
			m.OpenScope()
		}
		line := expr.Remainder(m.row0, lines, s.TileM)
		m.Repeat("n", m.dots, func(n expr.Expr) {
			at := expr.Flat(line, pitch, expr.Times(expr.Flat(m.part, m.dots, n), m.frag/schedule.OctetElems))
			m.LoadMatrix(m.queryFrags.At(n), m.tiles, at, pitch, "Row")
		})
		m.Close()
		m.Barrier()
	}
}

// mover returns the mover of a tile of keys or values. For a key past the last one that any row sees, it loads the last
// key again, or a value of 0. Elements are rounded only when they are packed: a separate rounding takes a dozen
// instructions per element, and the code of a fetch is repeated for every round of every tile.
func (m *flashMatrix) mover(v *kernel.Expr, a emit.Along) *emit.Mover {
	v = schedule.Unrounded(v, ir.F16)
	values := a.Axis == m.ax.Value       // otherwise keys
	cut := m.a.Causal || !m.wholeTiles() // a tile may extend past the last key
	return m.tileMover(m.s.TileN, int(a.Extent.Add), func(_, key0, line, octet expr.Expr, keep func(value expr.Expr)) {
		first, firstKnown := expr.LiteralOf(key0)
		end, endKnown := expr.LiteralOf(m.end)
		inside := firstKnown && endKnown && first.V+int64(m.s.TileN) <= end.V // the tile ends within the keys
		key := m.Named("key", expr.Plus(key0, line))
		at := key
		if !inside {
			at = expr.Call("min", key, m.last)
		}
		m.BindAxis(m.ax.Key, at)
		x := m.octet(v, a, expr.Times(octet, schedule.OctetElems))
		if values && cut && !inside {
			x = expr.Choose(expr.Binary("<", key, m.end), x, expr.Of("uvec4(0u)"))
		}
		keep(x)
	})
}

// multiplyKeys sets the j-th fragment of scores to the product of the queries and the j-th fragment of a tile of keys.
// The tile begins at index place in shared memory.
func (m *flashMatrix) multiplyKeys(scores expr.Array, j, place expr.Expr) {
	sum := scores.At(j)
	m.Assign(sum, expr.Call(m.fragment("Accumulator"), expr.Of("0.0")))
	m.Repeat("n", m.dots, func(n expr.Expr) {
		b := m.loadB(expr.Plus(place, expr.Flat(j, m.frag*m.keyPitch(),
			expr.Times(expr.Flat(m.part, m.dots, n), m.frag/schedule.OctetElems))), m.keyPitch(), "Column")
		m.MultiplyAdd(sum, m.queryFrags.At(n), b)
	})
}

// multiplyValues multiplies the j-th fragment of weights by the j-th fragment of a tile of values, and adds the product
// to the results. The tile begins at index place in shared memory.
func (m *flashMatrix) multiplyValues(scores expr.Array, j, place expr.Expr) {
	weight := m.weightOfFragment(scores, j)
	m.Repeat("n", m.cols, func(n expr.Expr) {
		b := m.loadB(expr.Plus(place, expr.Flat(j, m.frag*m.valuePitch(),
			expr.Times(expr.Flat(m.part, m.cols, n), m.frag/schedule.OctetElems))), m.valuePitch(), "Row")
		m.MultiplyAdd(m.sumFrags.At(n), weight, b)
	})
}

// loadB loads a fragment, as operand B, from a tile in shared memory.
func (m *flashMatrix) loadB(at expr.Expr, pitch int, major string) expr.Expr {
	b := m.Unset(m.fragment("B"), "b")
	m.LoadMatrix(b, m.tiles, at, pitch, major)
	return b
}
