package matmul

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/glsl/blocks"
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// staging copies operands of cooperative matrices to shared memory, an octet at a time: eight neighbours along the
// axis along which the operand is contiguous, as 16-bit elements. For int8 operands an octet has schedule.UnitElems
// elements, usually 16.
//
// There are one or two stages, each with the tiles of all operands. With two stages, invocations fill one stage while
// they multiply the other. In between, octets wait in registers.
type staging struct {
	*Base
	dtype    ir.DType  // of the matrices A and B
	sums     ir.DType  // of the accumulators
	self     expr.Expr // number of the invocation in its workgroup
	tiles    expr.Expr // the shared array, in octets
	operands []*staged
	octets   int    // number of octets of one stage
	unit     int    // number of elements of an octet
	unitType string // the GLSL type of an octet
}

// staged is an operand that passes through shared memory. A tile consists of lines, which are contiguous in memory.
type staged struct {
	*Operand
	unrounded *kernel.Expr // the operand without casts that rounding to dtype makes redundant
	mover     *emit.Mover
	raw       bool // octets are copied from memory unchanged
	lineAxis  int  // the axis along a line
	perLine   int  // elements per line
	crossAxis int  // the axis that numbers the lines
	lines     int  // lines of the tile
	base      int  // start of the tile in a stage, in octets
}

// newStaging returns the staging of a kernel's operands, and declares the shared array.
func (m *Base) newStaging(self expr.Expr) *staging {
	c := &staging{Base: m, self: self, sums: schedule.SumsDType(m.K), unit: schedule.UnitElems(m.K, m.Sched),
		unitType: "uvec4"}
	c.dtype, _ = schedule.MatrixDType(m.K)
	if schedule.UnitsOf16(m.K, m.Sched) == 2 {
		c.unitType = "uvec2"
	}
	c.NeedMatrix(c.dtype)
	c.stageOperands()
	if n := schedule.MatrixUnits(m.K, m.Sched); n > 0 {
		c.tiles = m.Share(c.unitType, "tiles", n)
	}
	return c
}

// stageOperands assigns a part of a stage to each operand that passes through shared memory.
func (c *staging) stageOperands() {
	for _, o := range slices.Concat(c.A, c.B) {
		if !schedule.Staged(c.K, c.Sched, o.Value, o.axis) {
			continue
		}
		st := &staged{Operand: o, unrounded: schedule.Unrounded(o.Value, c.dtype), base: c.octets}
		extent := c.tileExtent(o)
		st.lineAxis, st.perLine, st.crossAxis, st.lines = c.Fold, c.Tile.TileK, o.axis, extent
		if !o.Along { // lines go along the operand's other axis
			st.lineAxis, st.perLine, st.crossAxis, st.lines = o.axis, extent, c.Fold, c.Tile.TileK
		}
		st.raw = schedule.UnitLoad(c.K, o.Value, o.axis, c.dtype, c.unit)
		st.mover = c.mover(st)
		c.octets += schedule.StagedUnits(o.Along, extent, c.Tile.TileK, c.unit)
		c.operands = append(c.operands, st)
	}
}

// shiftedOctets adds the function that loads eight 16-bit neighbours from any position, out of two aligned octets, and
// returns its name. Precondition: the buffer is a whole number of octets long, or the kernel does not need its last,
// partial octet.
func (c *staging) shiftedOctets(b *emit.Buffer) string {
	return c.octetFunction("octet_", b, `
// Elements i to i+7.
uvec4 NAME(uint i) {
    uint at = i / 8u, shift = i % 8u;
    uvec4 low = OCTETS[at], high = OCTETS[min(at + 1u, uint(OCTETS.length()) - 1u)];
    bvec4 by4 = bvec4((shift & 4u) != 0u), by2 = bvec4((shift & 2u) != 0u), by1 = bvec4((shift & 1u) != 0u);
    SHIFT_BY_4_AND_2
    return mix(low, low >> 16 | uvec4(low.yzw, high.x) << 16, by1);
}
`)
}

// octetFunction adds a function that loads octets of a buffer, and returns its name: prefix and the buffer's. It
// replaces three names in the source: NAME, OCTETS (the array) and SHIFT_BY_4_AND_2.
func (c *staging) octetFunction(prefix string, b *emit.Buffer, source string) string {
	name := prefix + b.Base
	if c.Once(name) {
		c.Add(strings.NewReplacer("NAME", name, "OCTETS", c.View(b, schedule.OctetElems), "SHIFT_BY_4_AND_2",
			shiftBy4And2).Replace(source))
	}
	return name
}

// shiftBy4And2 moves the 16 elements of the octets low and high down: by 4 if by4 is set, and by 2 if by2 is set.
const shiftBy4And2 = `low = mix(low, uvec4(low.zw, high.xy), by4);
    high = mix(high, high.zwzw, by4);
    low = mix(low, uvec4(low.yzw, high.x), by2);
    high = mix(high, high.yyyy, by2);`

// isPacked reports whether eight neighbours of an operand are decoded from a block to f16 together.
func (c *staging) isPacked(st *staged) bool {
	return c.dtype == ir.F16 && blocks.LoadsOctets(c.Emitter, st.unrounded,
		emit.Along{Axis: st.lineAxis, Extent: c.extent(st.lineAxis)})
}

// mover returns the mover of an operand's octets.
func (c *staging) mover(st *staged) *emit.Mover {
	lines := map[bool]string{true: "rows", false: "columns"}[st.axis == c.Row]
	return &emit.Mover{E: c.Emitter, Self: c.self,
		Name:  fmt.Sprintf("%d %s of %s", c.tileExtent(st.Operand), lines, st.Name),
		Lines: st.lines, PerLine: st.perLine / c.unit,
		Load: func(i, k0, line, octet expr.Expr, _ func(value expr.Expr)) { c.load(st, i, k0, line, octet) },
		Store: func(stage, line, octet, value expr.Expr) {
			at := expr.Plus(stage, expr.Uint(st.base), expr.Times(line, schedule.StagedPitch(st.perLine, c.unit)),
				octet)
			c.Assign(expr.At(c.tiles, at), value)
		}}
}

// load loads an octet of an operand's tile into the invocation's i-th register. The tile is the one for the step of the
// contraction axis that begins at k0. line is the tile's line, and octet the number of the octet in the line.
func (c *staging) load(st *staged, i, k0, line, octet expr.Expr) {
	from := map[int]expr.Expr{c.Row: c.Row0, c.Col: c.Col0, c.Fold: k0}
	at := expr.Plus(from[st.crossAxis], line)
	inner := c.Variable("uint", c.axisVariable(st.lineAxis), expr.Plus(from[st.lineAxis], expr.Times(octet, c.unit)))
	inside := c.insideOctet(st, from, at, inner)
	// Beyond the end of the contraction axis an octet is 0 (inside). A line beyond the rows or columns repeats the last
	// line.
	if st.crossAxis != c.Fold {
		at = c.ClampTo(at, st.crossAxis, st.lines)
	}
	at = c.Variable("uint", c.axisVariable(st.crossAxis), at)
	c.BindAxis(st.crossAxis, at)
	dst := st.mover.Registers.At(i)
	if inside != nil {
		c.Assign(dst, expr.Call(c.unitType, expr.Uint(0)))
	}
	c.OpenIf(inside)
	c.loadOctet(st, inner, dst)
	c.Close()
}

// axisVariable is a name for the coordinate along an axis.
func (c *staging) axisVariable(axis int) string {
	if axis == c.Fold {
		return "k"
	}
	return c.ParaName(axis)
}

// insideOctet returns the condition that an octet begins inside the operand, or nil if it always does. from has the
// tile's first coordinate along each axis. at is the coordinate of the octet's line, and inner the octet's first
// coordinate along the line. Elements beyond the end of the contraction axis must be 0. Beyond the rows or columns
// any values are allowed.
func (c *staging) insideOctet(st *staged, from map[int]expr.Expr, at, inner expr.Expr) expr.Expr {
	var along, across expr.Expr
	end := c.extent(st.lineAxis) // of the octets that begin inside the operand; the last one may be partial
	if end.IsStatic() {
		end.Add = ceil.Multiple(end.Add, int64(c.unit))
	}
	if !emit.WholeStep(end, from[st.lineAxis], st.perLine) {
		along = expr.Binary("<", inner, c.Dim(c.extent(st.lineAxis)))
	}
	if st.crossAxis == c.Fold && !emit.WholeStep(c.K.Fold, from[c.Fold], c.Tile.TileK) {
		across = expr.Binary("<", at, c.Dim(c.K.Fold)) // the coordinate gets a name only later
	}
	return expr.And(along, across)
}

// loadOctet sets dst to an octet that begins inside the operand. inner is its first coordinate along the line. It takes
// the cheapest of six ways: a load of aligned octets, of shifted octets or of a window, a block's decoder, int8
// elements, or two quads of floats.
func (c *staging) loadOctet(st *staged, inner, dst expr.Expr) {
	v := st.unrounded
	w, isWindow := schedule.WindowLoad(c.K, st.Value, st.axis)
	at := func() expr.Expr { return c.IndexAt(v.Index, st.lineAxis, inner) }
	switch {
	case st.raw:
		b := c.Buffers[v.Bind]
		unit := expr.Binary("/", at(), expr.Uint(c.unit))
		c.Assign(dst, expr.At(expr.Of(c.unitView(b)), b.Subscript(unit)))
	case schedule.ShiftedLoad(c.K, st.Value, st.axis, c.dtype):
		value := expr.Call(c.shiftedOctets(c.Buffers[v.Bind]), expr.Narrow(at()))
		// Elements past the end of the contraction axis must be 0.
		if st.lineAxis == c.Fold && !schedule.DivisibleBy(c.K.Fold, schedule.OctetElems) {
			c.Helper("first_halves", "uvec4")
			value = expr.Call("first_halves", value, expr.Binary("-", c.Dim(c.K.Fold), inner))
		}
		c.Assign(dst, value)
	case isWindow:
		c.loadWindowOctet(w, st, inner, dst)
	case c.isPacked(st):
		c.Assign(dst, expr.Call(blocks.OctetDecoder(c.Emitter, c.Buffers[v.Bind]), expr.Narrow(at())))
	case c.dtype.IsInteger():
		c.loadByteOctet(st, inner, dst)
	default:
		whole := schedule.DivisibleBy(c.extent(st.lineAxis), schedule.OctetElems)
		low := c.quadAlong(v, st.lineAxis, inner, emit.Inside, st.Name+"_low")
		high := c.quadAlong(v, st.lineAxis, expr.Plus(inner, expr.Uint(4)), whole, st.Name+"_high")
		c.Assign(dst, expr.Call("uvec4", append(c.pack(low), c.pack(high)...)...))
	}
}

// unitView returns the name of the buffer's array of octets.
func (c *staging) unitView(b *emit.Buffer) string {
	if !c.dtype.IsInteger() {
		return c.View(b, schedule.OctetElems)
	}
	c.NeedStorage(b)
	b.Units[c.unit] = true
	return b.Name + "_" + emit.PlaneUnits[c.unit].View
}

// loadByteOctet sets dst to an octet of int8 elements that are computed, or not adjacent in memory. inner is the first
// one's coordinate along the line.
func (c *staging) loadByteOctet(st *staged, inner, dst expr.Expr) {
	c.Helper("pack_bytes", "ivec4")
	whole := schedule.DivisibleBy(c.extent(st.lineAxis), c.unit)
	for i := range c.unit / 4 {
		at := expr.Plus(inner, expr.Uint(4*i))
		quad := c.quadAlong(st.unrounded, st.lineAxis, at, whole || i == 0, fmt.Sprintf("%s_%d", st.Name, i))
		c.Assign(expr.Format("%s[%d]", dst, i), expr.Call("pack_bytes", quad))
	}
}

// pack returns four floats, rounded to the dtype of the matrices, as two words.
func (c *staging) pack(quad expr.Expr) []expr.Expr {
	if !expr.IsPlain(quad) {
		quad = c.Variable("vec4", "quad", quad)
	}
	pack := "packHalf2x16"
	if c.dtype == ir.BF16 {
		pack = "pack_bf16"
		c.Helper(pack, "float")
	}
	return []expr.Expr{expr.Call(pack, expr.Member(quad, "xy")), expr.Call(pack, expr.Member(quad, "zw"))}
}

// stagedLoop writes the loop along the contraction axis. It calls multiply with the position k0, and the index of the
// filled stage in the shared array.
func (c *staging) stagedLoop(multiply func(k0, stage expr.Expr)) {
	var movers []*emit.Mover
	for _, st := range c.operands {
		st.mover.Declare(c.unitType, "next_"+st.Name)
		movers = append(movers, st.mover)
	}
	apart := c.octets * (schedule.MatrixStages(c.Sched) - 1)
	c.prefetchLoop(emit.TileStages{Apart: apart, Movers: movers, Multiply: multiply})
}

// loadStaged loads the matrix name from an operand's tile in shared memory, beginning at octet number offset.
func (c *staging) loadStaged(st *staged, name, offset expr.Expr) {
	// A line is a row of the matrix if the operand is an A that is contiguous along the contraction axis, or a B that
	// is not. Otherwise a line is a column.
	major := "Row"
	if isA := st.axis == c.Row; st.Along != isA {
		major = "Column"
	}
	c.LoadMatrix(name, c.tiles, offset, schedule.StagedPitch(st.perLine, c.unit), major)
}

// overOctet returns a number of elements, which is a multiple of the octet's size, as a number of octets.
func (c *staging) overOctet(t expr.Expr) expr.Expr {
	if t.Is("0u") {
		return t
	}
	return expr.Binary("/", t, expr.Uint(c.unit))
}

// loadWindowOctet sets dst to eight neighbours of a window, such as the elements under a convolution's filter. The
// neighbours may be unaligned, so they come from two octets of memory. Neighbours outside the window are 0. inner is
// the coordinate of the first neighbour along the operand's line.
func (c *staging) loadWindowOctet(w schedule.Window, st *staged, inner, dst expr.Expr) {
	c.OpenScope()
	defer c.Close()
	c.BindAxis(st.lineAxis, inner)
	roots := slices.Clone(w.All)
	for _, r := range w.Ranges {
		roots = append(roots, r.Args...)
	}
	c.Plan(roots, []kernel.Index{w.Base})
	first, end := expr.Of("0"), expr.Of("8") // the neighbours inside the window, from 0 to 7
	// Ranges are conditions x >= low and x < high on the coordinate x of a neighbour. x is the first argument.
	for _, r := range w.Ranges {
		distance := expr.Binary("-", c.Value(r.Args[1]), c.Value(r.Args[0]))
		if r.Op == ir.OpGe {
			first = expr.Call("max", first, distance)
		} else {
			end = expr.Call("min", end, distance)
		}
	}
	value := expr.Call(c.windowFunction(c.Buffers[w.Load.Bind]), expr.Call("int", c.Coordinate(w.Base)), first, end)
	if len(w.All) > 0 {
		var all expr.Expr
		for _, cond := range w.All {
			all = expr.And(all, c.Value(cond))
		}
		value = expr.Choose(all, value, expr.Of("uvec4(0u)"))
	}
	c.Assign(dst, value)
}

// windowFunction adds the function that loads some of eight 16-bit neighbours, and returns its name. The buffer is a
// whole number of octets long.
func (c *staging) windowFunction(b *emit.Buffer) string {
	return c.octetFunction("window_", b, `
// Elements i+first to i+end-1, and 0 for the others of i to i+7.
uvec4 NAME(int i, int first, int end) {
    int at = i >> 3, last = int(OCTETS.length()) - 1;
    uvec4 low = OCTETS[clamp(at, 0, last)], high = OCTETS[clamp(at + 1, 0, last)];
    bvec4 by4 = bvec4((i & 4) != 0), by2 = bvec4((i & 2) != 0), by1 = bvec4((i & 1) != 0);
    SHIFT_BY_4_AND_2
    low = mix(low, low >> 16 | uvec4(low.yzw, high.x) << 16, by1);
    uvec4 count = uvec4(max(end - first, 0)), place = uvec4(0u, 2u, 4u, 6u) - uint(first);
    uvec4 halves = mix(uvec4(0u), uvec4(0xffffu), lessThan(place, count));
    return low & (halves | mix(uvec4(0u), uvec4(0xffff0000u), lessThan(place + 1u, count)));
}
`)
}
