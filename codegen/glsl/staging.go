package glsl

import (
	"fmt"
	"strings"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// staging moves operands of cooperative matrices to shared memory as 16-bit elements, in octets: eight neighbours along
// the axis along which the operand is contiguous. For int8 operands an octet has schedule.UnitElems elements, 16 if
// possible.
//
// There are two stages: invocations fill one while they multiply the other. In between, the octets wait in registers.
type staging struct {
	*matMul
	dtype    ir.DType // of the matrix operands
	sums     ir.DType // of the matrix results
	self     text     // number of the invocation
	tiles    text     // the shared array, in octets
	operands []*staged
	octets   int    // of one stage
	unit     int    // elements of an octet
	unitType string // the type of an octet
}

// staged is an operand that passes through shared memory.
type staged struct {
	*matOperand
	value  *kernel.Expr // the operand without the roundings that staging makes needless
	raw    bool         // octets are copied from memory unchanged
	extent int          // of the tile, along the operand's own axis
	lines  int          // of the tile in shared memory
	inner  int          // elements per line
	axis   int          // the axis along which a line runs
	outer  int          // the axis that numbers the lines
	base   int          // of the tile in a stage, in octets
	units  int          // octets of the tile, without padding
	rounds int          // octets per invocation
	next   text         // the registers that hold the octets
}

// newStaging assigns each staged operand its part of a stage.
func (m *matMul) newStaging(self text) *staging {
	c := &staging{matMul: m, self: self, sums: schedule.SumsDType(m.k), unit: schedule.UnitElems(m.k, m.s),
		unitType: "uvec4"}
	c.dtype, _ = schedule.MatrixDType(m.k)
	if schedule.UnitsOf16(m.k, m.s) == 2 {
		c.unitType = "uvec2"
	}
	c.needMatrix(c.dtype)
	c.stageOperands()
	if n := schedule.MatrixUnits(m.k, m.s); n > 0 {
		c.tiles = m.share(c.unitType, "tiles", n)
	}
	return c
}

// stageOperands assigns every staged operand its part of a stage.
func (c *staging) stageOperands() {
	for _, o := range append(append([]*matOperand(nil), c.a...), c.b...) {
		if !schedule.Staged(c.k, c.s, o.value, o.axis) {
			continue
		}
		st := &staged{matOperand: o, value: schedule.Unrounded(o.value, c.dtype), base: c.octets}
		st.extent = c.s.TileM
		if o.axis == c.col {
			st.extent = c.s.TileN
		}
		st.axis, st.outer, st.inner, st.lines = c.fold, o.axis, c.s.TileK, st.extent
		if !o.along {
			st.axis, st.outer, st.inner, st.lines = o.axis, c.fold, st.extent, c.s.TileK
		}
		st.raw = c.isRaw(st)
		st.units = st.lines * st.inner / c.unit
		st.rounds = (st.units + c.s.Workgroup - 1) / c.s.Workgroup
		c.octets += schedule.StagedUnits(o.along, st.extent, c.s.TileK, c.unit)
		c.operands = append(c.operands, st)
	}
}

// isRaw reports whether the octets are aligned in memory and already have the matrix dtype.
func (c *staging) isRaw(st *staged) bool {
	return schedule.UnitLoad(c.k, st.matOperand.value, st.matOperand.axis, c.dtype, c.unit)
}

// shiftedOctets adds the function that loads eight 16-bit neighbours from any position, out of two aligned octets. The
// buffer is a whole number of octets long, or its last octet is not needed.
func (c *staging) shiftedOctets(b *buffer) string {
	name := "octet_" + b.base
	if c.tables[name] {
		return name
	}
	c.tables[name] = true
	octets := c.view(b, schedule.OctetElems)
	c.add(strings.NewReplacer("NAME", name, "OCTETS", octets).Replace(`
// Elements i to i+7.
uvec4 NAME(uint i) {
    uint at = i / 8u, shift = i % 8u;
    uvec4 low = OCTETS[at], high = OCTETS[min(at + 1u, uint(OCTETS.length()) - 1u)];
    bvec4 by4 = bvec4((shift & 4u) != 0u), by2 = bvec4((shift & 2u) != 0u), by1 = bvec4((shift & 1u) != 0u);
    low = mix(low, uvec4(low.zw, high.xy), by4);
    high = mix(high, high.zwzw, by4);
    low = mix(low, uvec4(low.yzw, high.x), by2);
    high = mix(high, high.yyyy, by2);
    return mix(low, low >> 16 | uvec4(low.yzw, high.x) << 16, by1);
}
`))
	return name
}

// isPacked reports whether eight neighbours of an operand are decoded together, from a block to f16.
func (c *staging) isPacked(st *staged) bool {
	return c.dtype == ir.F16 && loadsOctets(c.emitter, st.value, along{st.axis, c.extent(st.axis)})
}

// eachOctet writes body for the octets of a tile that an invocation loads. i is the octet's number among the
// invocation's own, and line and octet are its position in the tile.
func (c *staging) eachOctet(st *staged, body func(i, line, octet text)) {
	perLine, total := st.inner/c.unit, st.units
	c.eachSlot(c.self, total, c.s.Workgroup, func(i, slot text) {
		body(i, quotient(slot, perLine, total), remainder(slot, perLine, total))
	})
}

// fetch loads an invocation's octets of an operand's tile at k0 of the contraction axis.
func (c *staging) fetch(st *staged, k0 text) {
	c.comment("Fetch %d %s of %s.", st.extent,
		map[bool]string{true: "rows", false: "columns"}[st.matOperand.axis == c.row], st.name)
	c.eachOctet(st, func(i, line, octet text) {
		from := map[int]text{c.row: c.row0, c.col: c.col0, c.fold: k0}
		at := plus(from[st.outer], line)
		inner := c.variable("uint", c.axisVariable(st.axis), plus(from[st.axis], times(octet, c.unit)))
		inside := c.insideOctet(st, from, at, inner)
		if st.outer != c.fold {
			at = c.clampTo(at, st.outer, st.extent)
		}
		at = c.variable("uint", c.axisVariable(st.outer), at)
		c.bindAxis(st.outer, at)
		dst := elementOf(st.next, st.rounds, i)
		if inside != nil {
			c.assign(dst, call(c.unitType, uintLit(0)))
		}
		c.openIf(inside)
		c.octet(st, inner, dst)
		c.close()
	})
}

// axisVariable is the name of a coordinate.
func (c *staging) axisVariable(axis int) string {
	if axis == c.fold {
		return "k"
	}
	return c.paraName(axis)
}

// insideOctet returns the condition that an octet has elements inside the operand, or nil if it always has. from is the
// tile's origin. Elements beyond the contraction axis must be 0. Beyond the rows or columns any values will do.
func (c *staging) insideOctet(st *staged, from map[int]text, at, inner text) text {
	var along, across text
	begun := c.extent(st.axis) // the end of the octets that begin inside the operand
	if begun.IsStatic() {
		begun.Add = (begun.Add + int64(c.unit) - 1) / int64(c.unit) * int64(c.unit)
	}
	if !wholeStep(begun, from[st.axis], st.inner) {
		along = binary("<", inner, c.dim(c.extent(st.axis)))
	}
	if st.outer == c.fold && !wholeStep(c.k.Fold, from[c.fold], c.s.TileK) {
		across = binary("<", at, c.dim(c.k.Fold)) // the axis gets its name only later
	}
	return and(along, across)
}

// octet sets dst to eight neighbours that begin inside the operand.
func (c *staging) octet(st *staged, inner, dst text) {
	v := st.value
	if st.raw {
		b := c.buffers[v.Bind]
		at := binary("/", c.indexAt(v.Index, st.axis, inner), uintLit(c.unit))
		c.assign(dst, elementAt(primary(c.unitView(b)), b.subscript(at)))
		return
	}
	if schedule.ShiftedLoad(c.k, st.matOperand.value, st.matOperand.axis, c.dtype) {
		value := call(c.shiftedOctets(c.buffers[v.Bind]), narrow(c.indexAt(v.Index, st.axis, inner)))
		if st.axis == c.fold && !schedule.DivisibleBy(c.k.Fold, schedule.OctetElems) {
			c.helper("first_halves", "uvec4")
			value = call("first_halves", value, binary("-", c.dim(c.k.Fold), inner))
		}
		c.assign(dst, value)
		return
	}
	if w, ok := schedule.WindowLoad(c.k, st.matOperand.value, st.matOperand.axis); ok {
		c.windowOctet(w, st, inner, dst)
		return
	}
	if c.isPacked(st) {
		c.assign(dst, call(octetDecoder(c.emitter, c.buffers[v.Bind]), narrow(c.indexAt(v.Index, st.axis, inner))))
		return
	}
	if c.dtype.IsInteger() {
		c.byteOctet(st, inner, dst)
		return
	}
	whole := schedule.DivisibleBy(c.extent(st.axis), schedule.OctetElems)
	low := c.quadAlong(st.value, st.axis, inner, true, st.name+"_low")
	high := c.quadAlong(st.value, st.axis, plus(inner, uintLit(4)), whole, st.name+"_high")
	c.line("%s = uvec4(%s, %s);", dst, c.pack(low), c.pack(high))
}

// unitView is the array of octets over a buffer.
func (c *staging) unitView(b *buffer) string {
	if !c.dtype.IsInteger() {
		return c.view(b, schedule.OctetElems)
	}
	c.need(c.storageNeeds(b)...)
	b.units[c.unit] = true
	return b.name + "_" + planeUnits[c.unit].view
}

// byteOctet sets dst to int8 neighbours that are computed, or stored in another order than the tile needs.
func (c *staging) byteOctet(st *staged, inner, dst text) {
	c.helper("pack_bytes", "ivec4")
	whole := schedule.DivisibleBy(c.extent(st.axis), c.unit)
	for i := range c.unit / 4 {
		at := plus(inner, uintLit(4*i))
		quad := c.quadAlong(st.value, st.axis, at, whole || i == 0, fmt.Sprintf("%s_%d", st.name, i))
		c.line("%s[%d] = %s;", dst, i, call("pack_bytes", quad))
	}
}

// pack rounds four floats to the dtype of the matrices, as two words.
func (c *staging) pack(quad text) string {
	if !isPlain(quad) {
		quad = c.variable("vec4", "quad", quad)
	}
	if c.dtype == ir.BF16 {
		c.helper("pack_bf16", "float")
		return fmt.Sprintf("pack_bf16(%s.xy), pack_bf16(%s.zw)", quad, quad)
	}
	return fmt.Sprintf("packHalf2x16(%s.xy), packHalf2x16(%s.zw)", quad, quad)
}

// put stores an invocation's octets to the tile in a stage.
func (c *staging) put(st *staged, stage text) {
	c.eachOctet(st, func(i, line, octet text) {
		at := plus(plus(plus(stage, uintLit(st.base)), times(line, schedule.StagedPitch(st.inner, c.unit))), octet)
		c.assign(elementAt(c.tiles, at), elementOf(st.next, st.rounds, i))
	})
}

// stages steps through the contraction axis. It calls multiply with the position k0, and with the start of the filled
// stage in the shared array.
func (c *staging) stages(multiply func(k0, stage text)) {
	for _, st := range c.operands {
		st.next = c.array(c.unitType, "next_"+st.name, st.rounds)
	}
	each := func(do func(st *staged, at text)) func(at text) {
		return func(at text) {
			for _, st := range c.operands {
				do(st, at)
			}
		}
	}
	c.overlapped(tileStages{c.octets, each(c.fetch), each(c.put), multiply})
}

// loadStaged loads a matrix from shared memory.
func (c *staging) loadStaged(st *staged, name, offset text) {
	major := "Row"
	if st.along != (st.matOperand.axis == c.row) {
		major = "Column"
	}
	c.loadMatrix(name, c.tiles, offset, schedule.StagedPitch(st.inner, c.unit), major)
}

// overOctet prints a multiple of an octet's elements as a number of octets.
func (c *staging) overOctet(t text) text {
	if t.Is("0u") {
		return t
	}
	return binary("/", t, uintLit(c.unit))
}
