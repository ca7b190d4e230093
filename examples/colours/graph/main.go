// Graph writes a small model, colours.json, and its weights,
// colours.safetensors: which of eight colours is nearest to each of N.
//
//	go run ./examples/colours/graph
package main

import (
	"bytes"
	"log"
	"os"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/examples/colours/palette"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/safetensors"
	"github.com/vkc-go/vkc/ir"
)

// nearest reads rgb f32[N, 3], from 0 to 1, and gives the palette's nearest
// colour for each, i32[N], and how sure that is. N is known only at each run.
func nearest(b *frontend.Builder) {
	n := b.Sym("N", 4096)
	rgb := b.Input("rgb", ir.F32, n, 3)
	colours := b.Weight("palette", ir.F32, len(palette.Colours), 3)
	// |x-p|^2 = |x|^2 - (2xp - |p|^2), and |x|^2 is the same for every p.
	score := rgb.MatMulT(colours).MulScalar(2).Sub(colours.Mul(colours).Sum(-1))
	b.Output("nearest", score.Argmax(-1))
	b.Output("sure", score.MulScalar(20).Softmax(-1).ReduceMax(-1))
}

func main() {
	g, err := frontend.Build("colours", nearest)
	if err != nil {
		log.Fatal(err) // names the op, the shapes and the line above
	}
	var text bytes.Buffer
	if err := g.WriteJSON(&text); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("colours.json", text.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
	var values []float32
	for _, c := range palette.Colours {
		values = append(values, c.RGB[:]...)
	}
	weights, err := vkc.Of(values, len(palette.Colours), 3)
	if err != nil {
		log.Fatal(err)
	}
	if err := safetensors.WriteFile("colours.safetensors", nil,
		[]safetensors.Named{{Name: "palette", Data: weights}}); err != nil {
		log.Fatal(err)
	}
}
