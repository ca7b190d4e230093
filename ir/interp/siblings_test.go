package interp

import (
	"slices"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestSiblings checks which nodes a kernel computes together: those with the same argument 0 that can all be computed
// at the place of the first. The results must be the interpreter's.
func TestSiblings(t *testing.T) {
	b := newGraph(t)
	x, y := b.input("x", ir.F32, ir.ShapeOf(2, 2)), b.input("y", ir.F32, ir.ShapeOf(2, 2))
	rows := b.input("rows", ir.F32, append(ir.Shape{ir.Symbol("N", 4)}, ir.ShapeOf(2)...))
	matmul := func(x, y *ir.Node) *ir.Node { return b.add(ir.OpMatMul, []*ir.Node{x, y}) }
	first := matmul(x, y)
	other := matmul(y, x) // has another argument 0
	later := b.constant(floats(t, ir.F32, []float64{2, 0, 0, 3}, 2, 2))
	second := matmul(x, x)
	dependent := matmul(x, first) // depends on a sibling
	constant := matmul(x, later)  // a constant is known before the first
	after := matmul(x, other)     // its argument comes after the first
	empty, alsoEmpty := matmul(rows, x), matmul(rows, y)
	list := []*ir.Node{first, other, second, dependent, constant, after, empty, alsoEmpty}
	for _, n := range list {
		b.output(n.String(), n)
	}
	var have [][]*ir.Node
	replace := func(g *ir.Graph) []*Kernel {
		kernels := make([]*Kernel, len(g.Nodes()))
		for _, n := range list {
			kernels[n.ID()] = &Kernel{Stored: -1, Together: func(calls []*Call) error {
				var group []*ir.Node
				for _, c := range calls {
					group = append(group, c.Node)
					for i := range c.Out {
						for k := range 2 {
							c.Out[i] += float32(c.Args[0].Floats[i/2*2+k] * c.Args[1].Floats[k*2+i%2])
						}
					}
				}
				have = append(have, group)
				return nil
			}}
		}
		return kernels
	}
	p, reference := b.program(Options{Replace: replace, Poison: true}), b.program(Options{})
	for _, n := range []int{0, 1} {
		in := map[string]*ir.Data{"x": floats(t, ir.F32, []float64{1, 2, 3, 4}, 2, 2),
			"y": floats(t, ir.F32, []float64{5, 6, 7, 8}, 2, 2), "rows": floats(t, ir.F32, make([]float64, 2*n), n, 2)}
		have = nil
		out, want := run(t, p, in, nil), run(t, reference, in, nil)
		for name, d := range want {
			if !slices.Equal(out[name].Bytes, d.Bytes) {
				t.Errorf("%d rows: %s is %v, want %v", n, name, out[name].Bytes, d.Bytes)
			}
		}
		groups := [][]*ir.Node{{first, second, constant}, {other}, {dependent}, {after}, {empty, alsoEmpty}}
		if n == 0 {
			groups = groups[:4]
		}
		if !slices.EqualFunc(have, groups, slices.Equal[[]*ir.Node]) {
			t.Errorf("%d rows: the kernel computed %v, want %v", n, have, groups)
		}
	}
}
