package vkc_test

import (
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

func TestWithPrecision(t *testing.T) {
	g, err := frontend.Build("products", func(b *frontend.Builder) {
		x, w := b.Input("x", ir.F32, 4, 32), b.Weight("w", ir.Q4_0, 8, 32)
		b.Output("free", x.MatMulT(w))
		b.Output("fixed", x.MatMulTIn(frontend.HalfSums, w))
		b.Output("other", x.Relu())
		b.Output("picked", x.Reshape(4, 1, 32).MatMulID(b.Weight("experts", ir.Q8_0, 3, 8, 32), b.Input("ids", ir.I32, 4, 2)))
	})
	if err != nil {
		t.Fatal(err)
	}
	precisions := func(g *ir.Graph) (list []string) {
		for _, n := range g.Nodes() {
			if p := n.Attrs().String_("precision"); p != "" {
				list = append(list, p)
			}
		}
		return list
	}
	for _, p := range vkc.Precisions() {
		have, err := vkc.WithPrecision(g, p)
		if err != nil {
			t.Fatal(err)
		}
		if list := precisions(have); len(list) != 3 || list[0] != p || list[1] != ir.PrecisionHalfSums || list[2] != p {
			t.Errorf("%s: precisions are %v", p, list)
		}
		if len(have.Outputs()) != 4 || (have.HashString() == g.HashString()) != (p == ir.PrecisionFull) {
			t.Errorf("%s: another graph is expected if it is not full", p)
		}
	}
	_, err = vkc.WithPrecision(g, "quarter")
	wantError(t, err, `"quarter"`, "half_sums", "int8")
}
