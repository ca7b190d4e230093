package glsl

import (
	"strings"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// windowOctet sets dst to eight neighbours of a window, shifted from two octets of memory. Neighbours outside the
// window are 0.
func (c *staging) windowOctet(w schedule.Window, st *staged, inner, dst text) {
	c.openScope()
	defer c.close()
	c.bindAxis(st.axis, inner)
	roots := append([]*kernel.Expr(nil), w.All...)
	for _, r := range w.Ranges {
		roots = append(roots, r.Args...)
	}
	c.plan(roots, []kernel.Index{w.Base})
	first, end := primary("0"), primary("8")
	for _, r := range w.Ranges {
		rest := binary("-", c.value(r.Args[1]), c.value(r.Args[0]))
		if r.Op == ir.OpGe {
			first = call("max", first, rest)
		} else {
			end = call("min", end, rest)
		}
	}
	value := call(c.windowFunction(c.buffers[w.Load.Bind]), call("int", c.coordinate(w.Base)), first, end)
	if len(w.All) > 0 {
		var all text
		for _, cond := range w.All {
			all = and(all, c.value(cond))
		}
		value = ternary(all, value, primary("uvec4(0u)"))
	}
	c.assign(dst, value)
}

// windowFunction adds the function that loads a part of eight 16-bit neighbours. The buffer is a whole number of octets
// long.
func (c *staging) windowFunction(b *buffer) string {
	name := "window_" + b.base
	if c.tables[name] {
		return name
	}
	c.tables[name] = true
	octets := c.view(b, schedule.OctetElems)
	c.add(strings.NewReplacer("NAME", name, "OCTETS", octets).Replace(`
// Elements i+first to i+end-1, and 0 for the others of i to i+7.
uvec4 NAME(int i, int first, int end) {
    int at = i >> 3, last = int(OCTETS.length()) - 1;
    uvec4 low = OCTETS[clamp(at, 0, last)], high = OCTETS[clamp(at + 1, 0, last)];
    bvec4 by4 = bvec4((i & 4) != 0), by2 = bvec4((i & 2) != 0), by1 = bvec4((i & 1) != 0);
    low = mix(low, uvec4(low.zw, high.xy), by4);
    high = mix(high, high.zwzw, by4);
    low = mix(low, uvec4(low.yzw, high.x), by2);
    high = mix(high, high.yyyy, by2);
    low = mix(low, low >> 16 | uvec4(low.yzw, high.x) << 16, by1);
    uvec4 count = uvec4(max(end - first, 0)), place = uvec4(0u, 2u, 4u, 6u) - uint(first);
    uvec4 halves = mix(uvec4(0u), uvec4(0xffffu), lessThan(place, count));
    return low & (halves | mix(uvec4(0u), uvec4(0xffff0000u), lessThan(place + 1u, count)));
}
`))
	return name
}
