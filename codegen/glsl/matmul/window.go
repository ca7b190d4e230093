package matmul

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

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
