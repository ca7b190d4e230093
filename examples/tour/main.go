// Tour writes the graph that docs/TOUR.md follows through the compiler: the
// feed-forward part of a Llama layer, for one token.
//
//	go run ./examples/tour -o examples/tour/graph.json
package main

import (
	"flag"
	"log"
	"os"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

func main() {
	log.SetFlags(0)
	out := flag.String("o", "examples/tour/graph.json", "the `file` to write")
	flag.Parse()
	if err := run(*out); err != nil {
		log.Fatal("tour: ", err)
	}
}

// run writes the graph to a file.
func run(out string) error {
	g, err := layer()
	if err != nil {
		return err
	}
	text, err := g.MarshalJSONText()
	if err != nil {
		return err
	}
	return os.WriteFile(out, text, 0o644)
}

// layer returns the graph: norm, gate and up, silu, down, residual.
func layer() (*ir.Graph, error) {
	return frontend.Build("layer", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 1, 512)
		gate := b.Weight("gate", ir.Q4_0, 1024, 512)
		up := b.Weight("up", ir.Q4_0, 1024, 512)
		down := b.Weight("down", ir.Q4_0, 512, 1024)

		h := x.RMSNorm(b.Weight("norm", ir.F32, 512), 1e-5)
		h = h.MatMulT(gate).Silu().Mul(h.MatMulT(up))
		b.Output("y", h.MatMulT(down).Add(x))
	})
}
