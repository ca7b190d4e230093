package emit

import (
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// PlaceFactors calls place for each axis that dimension dim of the grid covers. factors lists these axes, innermost
// first. The workgroup has tile number `at` of the `count` tiles along the axis.
func (e *Emitter) PlaceFactors(dim int, factors []schedule.AxisTiles,
	place func(f schedule.AxisTiles, at, count expr.Expr)) {
	id := expr.Of("gl_WorkGroupID." + GridAxis[dim])
	for i, f := range factors {
		at, count := id, e.tiles(f)
		if i < len(factors)-1 { // the last axis needs no %: the rest of id is less than its count
			at, id = expr.Binary("%", id, count), expr.Binary("/", id, count)
		}
		place(f, at, count)
	}
}

// WholeTiles is the number of tiles along an axis of static extent. It counts a partial tile at the end too.
func (j *Job) WholeTiles(f schedule.AxisTiles) int64 {
	return ceil.Div(j.K.Parallel[f.Axis].Add, int64(f.Tile))
}

// tiles returns the number of tiles along an axis.
func (e *Emitter) tiles(f schedule.AxisTiles) expr.Expr {
	d := e.K.Parallel[f.Axis]
	if d.IsStatic() {
		return expr.Uint(e.WholeTiles(f))
	}
	if f.Tile == 1 {
		return e.Dim(d)
	}
	return expr.Binary("/", e.Dim(d.Plus(int64(f.Tile)-1)), expr.Uint(f.Tile))
}

// LoadUnit writes the code that loads a unit of a tile, and calls keep with the unit's value. The tile belongs to the
// step of a loop that begins at element `from`. i counts the invocation's own units.
type LoadUnit func(i, from, line, unit expr.Expr, keep func(value expr.Expr))

// StoreUnit writes the code that stores a unit in shared memory. stage is where the tile begins there.
type StoreUnit func(stage, line, unit, value expr.Expr)

// Mover moves a tile of an operand to shared memory, a unit (a vec4 or an octet) at a time. An invocation stores each
// unit directly after its load (Move), or loads all its units into registers (Fetch) and stores them later (Put).
type Mover struct {
	E    *Emitter
	Self expr.Expr // number of the invocation in its workgroup
	Name string    // of the tile, for comments; "" for no comment
	// The tile has Lines lines of PerLine units. Neighbouring invocations take neighbouring units or, with Across,
	// neighbouring lines.
	Lines, PerLine int
	Across         bool
	// Line and Unit name the variables for the position of a unit in the tile; "" for no variable.
	Line, Unit string
	Load       LoadUnit
	Store      StoreUnit
	Registers  expr.Array // the invocation's units, between Fetch and Put
}

// Declare declares the registers.
func (m *Mover) Declare(typ, name string) {
	all := m.E.Launch.Workgroup
	m.Registers = m.E.Array(typ, name, ceil.Div(m.Lines*m.PerLine, all))
}

// Each calls body for each unit that the invocation moves. i counts these units.
func (m *Mover) Each(body func(i, line, unit expr.Expr)) {
	lines, perLine := m.Lines, m.PerLine
	if m.Across { // neighbouring slots are neighbouring lines
		lines, perLine = perLine, lines
	}
	total := lines * perLine
	m.E.EachSlot(m.Self, total, m.E.Launch.Workgroup, func(i, slot expr.Expr) {
		line, unit := expr.Quotient(slot, perLine, total), expr.Remainder(slot, perLine, total)
		if m.Across {
			line, unit = unit, line
		}
		if m.Line != "" {
			line = m.E.Named(m.Line, line)
			unit = m.E.Named(m.Unit, unit)
		}
		body(i, line, unit)
	})
}

// Fetch loads the units of the step that begins at from into registers.
func (m *Mover) Fetch(from expr.Expr) {
	if m.Name != "" {
		m.E.Comment("Fetch %s.", m.Name)
	}
	m.Each(func(i, line, unit expr.Expr) {
		m.Load(i, from, line, unit, func(value expr.Expr) { m.E.Assign(m.Registers.At(i), value) })
	})
}

// Put stores the registers in the tile of a stage.
func (m *Mover) Put(stage expr.Expr) {
	m.Each(func(i, line, unit expr.Expr) { m.Store(stage, line, unit, m.Registers.At(i)) })
}

// Move loads the units of the step that begins at from, and stores each at once in the first stage.
func (m *Mover) Move(from expr.Expr) {
	if m.Name != "" {
		m.E.Comment("Stage %s.", m.Name)
	}
	m.Each(func(i, line, unit expr.Expr) {
		m.Load(i, from, line, unit, func(value expr.Expr) { m.Store(expr.Of("0u"), line, unit, value) })
	})
}

// TileStages describes the tiles of a loop's steps in shared memory. While invocations multiply the tiles of a step,
// they prefetch the tiles of the next step into registers. With two stages, the next tiles go to a second copy of the
// shared arrays. With one stage, they replace the multiplied tiles.
type TileStages struct {
	Apart    int                       // distance between two stages, in elements of the shared array; 0 for one stage
	Movers   []*Mover                  // one for each operand that is moved
	Multiply func(at, stage expr.Expr) // multiplies the tiles of a step
}

// Fetch loads the tiles of a step into registers.
func (s TileStages) Fetch(at expr.Expr) {
	for _, m := range s.Movers {
		m.Fetch(at)
	}
}

// Put stores the tiles from registers in a stage.
func (s TileStages) Put(stage expr.Expr) {
	for _, m := range s.Movers {
		m.Put(stage)
	}
}

// StagedLoop writes the loop over an extent, step elements at a time, that prefetches tiles as TileStages describes.
// The tiles of the first step are already in shared memory. The names of the loop's variables begin with name.
func (e *Emitter) StagedLoop(name string, extent ir.Dim, step int, s TileStages) {
	oneStep := extent.IsStatic() && extent.Add <= int64(step)
	stage := expr.Of("0u")
	if !oneStep && s.Apart > 0 {
		stage = e.Variable("uint", "stage", stage)
	}
	at := e.OpenLoop(name+"0", expr.Of("0u"), e.Dim(extent), step)
	if oneStep {
		s.Multiply(at, stage)
		e.Barrier()
		e.Close()
		return
	}
	// If all tiles are whole, the last step fetches its own tiles again, for nothing. But the loads then need no
	// branch, so they overlap with the multiplication.
	next := expr.Plus(at, expr.Uint(step))
	again := extent.IsStatic() && schedule.DivisibleBy(extent, step)
	if again {
		next = expr.Call("min", next, expr.Uint(extent.Add-int64(step)))
	}
	next = e.Variable("uint", name+"1", next)
	e.OpenBelow(!again, next, e.Dim(extent))
	s.Fetch(next)
	e.Close()
	s.Multiply(at, stage)
	e.OpenBelow(!again, next, e.Dim(extent))
	if s.Apart > 0 {
		e.Assign(stage, expr.Binary("-", expr.Uint(s.Apart), stage)) // 0 and Apart in turn
	} else {
		e.Barrier("the tiles in shared memory have been multiplied")
	}
	s.Put(stage)
	e.Close()
	e.Barrier()
	e.Close()
}

// PlaceInTile declares the column and row of an invocation in its tile, in variables with the given names. A row has
// across invocations. If paired, four consecutive invocations form a block of 2x2.
func (e *Emitter) PlaceInTile(self expr.Expr, across int, paired bool, column, row string) (x, y expr.Expr) {
	all := e.Launch.Workgroup
	x, y = expr.Remainder(self, across, all), expr.Quotient(self, across, all)
	if paired {
		block := expr.Quotient(self, 4, all) // bit 0 of self is the column in the block, and bit 1 the row
		x = expr.Plus(expr.Remainder(self, 2, all), expr.Times(expr.Remainder(block, across/2, all/4), 2))
		y = expr.Plus(expr.Remainder(expr.Quotient(self, 2, all), 2, all/2),
			expr.Times(expr.Quotient(block, across/2, all/4), 2))
	}
	return e.Variable("uint", column, x), e.Variable("uint", row, y)
}

// SelfIndex numbers the invocations of a workgroup. The invocations of a subgroup have consecutive numbers.
func (e *Emitter) SelfIndex() expr.Expr {
	if e.Launch.Subgroup == 0 {
		return e.Variable("uint", "self", expr.Of("gl_LocalInvocationIndex"))
	}
	e.Need(NeedSubgroupBasic, NeedSubgroupShuffle)
	e.SubgroupSize = e.Launch.Subgroup
	return e.Variable("uint", "self", expr.Flat(expr.Of("gl_SubgroupID"), e.Launch.Subgroup,
		expr.Of("gl_SubgroupInvocationID")))
}

// PutFours stores four neighbours of a line along the contraction axis: v has the elements step to step+3. The tile
// begins at index first. It has element 0 of all its lines, then element 1 of all lines, and so on, four lines in a
// vec4. name is the name of the variable that holds v.
func (e *Emitter) PutFours(name string, tile, first, step, line expr.Expr, lines int, v expr.Expr) {
	if !expr.IsPlain(v) {
		v = e.Variable("vec4", name, v)
	}
	e.Repeat("depth", 4, func(depth expr.Expr) {
		place := expr.Flat(expr.Plus(step, depth), schedule.StepPitch(lines), expr.Quotient(line, 4, lines))
		e.Assign(expr.At(expr.At(tile, expr.Plus(first, place)), expr.Remainder(line, 4, lines)), expr.At(v, depth))
	})
}

// Fours returns the tile's row number of the i-th of an invocation's `count` rows. The invocation has groups of four
// adjacent rows: the tile's groups first, first+apart, first+2*apart, and so on. With first 1 and apart 8, its rows are
// 4 to 7, 36 to 39, and so on.
func Fours(first, i expr.Expr, count, apart int) expr.Expr {
	return expr.Flat(expr.Plus(first, expr.Times(expr.Quotient(i, 4, count), apart)), 4, expr.Remainder(i, 4, count))
}
