package glsl

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// maxPoints bounds what one dimension of the grid iterates over, so that
// positions and the strides added to them stay within 32 bits.
const maxPoints = 1 << 31

// space maps the points of the parallel axes to the grid: the innermost axes,
// as many as have a linear number of points, to x, further ones to y and z.
type space struct {
	groups [][]int // axes of x, y and z, outermost first
	points []ir.Dim
}

// newSpace distributes the axes. Only the product of several symbols makes a
// second group.
func (e *emitter) newSpace() space {
	s := space{groups: [][]int{nil}, points: []ir.Dim{ir.D(1)}}
	for a := len(e.k.Parallel) - 1; a >= 0; a-- {
		last := len(s.groups) - 1
		n, err := e.k.Parallel[a].Mul2(s.points[last])
		if err != nil {
			s.groups, s.points = append(s.groups, nil), append(s.points, ir.D(1))
			last, n = last+1, e.k.Parallel[a]
		}
		s.groups[last], s.points[last] = append([]int{a}, s.groups[last]...), n
	}
	if len(s.groups) > 3 {
		e.fail("the axes %s multiply more than three symbols", ir.Shape(e.k.Parallel))
		s.groups, s.points = s.groups[:3], s.points[:3]
	}
	for _, n := range s.points {
		if n.Max() > maxPoints {
			e.fail("%s points in one dimension are more than 2^31", n)
		}
	}
	return s
}

// isEmpty reports whether there is never a point.
func (s space) isEmpty() bool {
	return slices.ContainsFunc(s.points, func(d ir.Dim) bool { return d.Max() <= 0 })
}

// gridLimit is how many workgroups a dispatch may have along a dimension;
// Vulkan promises 65535.
func (e *emitter) gridLimit(dim int) int64 {
	if n := e.caps.MaxWorkgroupCount[dim]; n > 0 {
		return min(int64(n), 1<<31-1)
	}
	return 65535
}

// gridFactor sets the size of one dimension of the grid for n points in
// chunks of tile per workgroup, and returns how many times the workgroups must
// go around.
func (e *emitter) gridFactor(dim int, n ir.Dim, tile int64) (rounds int64) {
	chunks := (n.Max() + tile - 1) / tile
	rounds = max(1, (chunks+e.gridLimit(dim)-1)/e.gridLimit(dim))
	e.grid[dim] = []kernel.GridFactor{{Extent: n, Tile: tile * rounds}}
	return rounds
}

var gridAxis = [3]string{"x", "y", "z"}

// outerLoops gives the axes of y and z their coordinates, one point per
// workgroup, with a loop where the grid is too small. It returns how many
// blocks it has opened.
func (e *emitter) outerLoops(s space) (opened int) {
	for dim := len(s.groups) - 1; dim > 0; dim-- {
		group, n := s.groups[dim], s.points[dim]
		id := "gl_WorkGroupID." + gridAxis[dim]
		base := e.groupName(group, "outer")
		if e.gridFactor(dim, n, 1) > 1 {
			name := e.fresh(e.scope, base)
			e.open("for (uint %s = %s; %s < %s; %s += gl_NumWorkGroups.%s)", name, id, name, e.dim(n).s, name, gridAxis[dim])
			opened++
			id = name
		} else if len(group) > 1 || e.usesAxis(group[0]) {
			id = e.variable("uint", base, primary(id))
		}
		e.split(group, 1, primary(id))
	}
	for dim := range e.grid {
		if len(e.grid[dim]) == 0 {
			e.grid[dim] = []kernel.GridFactor{{Extent: ir.D(1), Tile: 1}}
		}
	}
	return opened
}

// groupName is what the position in a group of axes is called: the axis's own
// name where there is one.
func (e *emitter) groupName(group []int, several string) string {
	if len(group) == 1 {
		return e.paraName(group[0])
	}
	return several
}

// split gives the axes of a group their coordinates from the row-major
// position id, whose unit is vec elements of the innermost axis.
func (e *emitter) split(group []int, vec int, id text) {
	if len(group) == 1 {
		e.bindAxis(group[0], id)
		return
	}
	below := int64(1) // points of the axes further in, where all are static
	belowDim := ir.D(1)
	for i := len(group) - 1; i >= 0; i-- {
		axis, extent := group[i], e.k.Parallel[group[i]]
		if i == len(group)-1 {
			extent, _ = extent.Quo(int64(vec))
		}
		x := id
		if !belowDim.Is(1) {
			x = binary("/", x, e.dim(belowDim))
		}
		if i > 0 {
			x = binary("%", x, e.dim(extent))
		}
		if i == len(group)-1 && vec > 1 {
			x = binary("*", x, uintLit(int64(vec)))
		}
		if e.usesAxis(axis) {
			e.bindAxis(axis, primary(e.variable("uint", e.paraName(axis), x)))
		}
		belowDim, _ = belowDim.Mul2(extent)
		below *= extent.Max()
	}
}

// usesAxis reports whether anything in the kernel depends on an axis.
func (e *emitter) usesAxis(axis int) bool {
	for _, r := range e.k.Roots() {
		if r.Uses(axis) {
			return true
		}
	}
	return slices.ContainsFunc(e.k.Stores, func(s kernel.Store) bool { return s.Index.Uses(axis) })
}

// paraName names a parallel axis: the last ones batch, row, col, those before
// by number. A map over one axis calls it i; a fold takes the place of col.
func (e *emitter) paraName(axis int) string {
	names := []string{"batch", "row", "col"}
	if e.k.Family == kernel.FamilyRow {
		names = names[:2]
	} else if len(e.k.Parallel) == 1 {
		return "i"
	}
	if i := axis - len(e.k.Parallel) + len(names); i >= 0 {
		return names[i]
	}
	return fmt.Sprintf("axis%d", axis)
}
