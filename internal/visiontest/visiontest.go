// Package visiontest makes pictures and a vision tower for tests.
package visiontest

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/ir"
)

// Rows is the number of rows that the tower of WriteTower makes.
const Rows = 16

// WriteTower writes an mmproj file of a small vision tower with random weights. It turns a picture into Rows rows of
// out elements.
func WriteTower(t testing.TB, path string, out int) {
	t.Helper()
	const width, hidden, heads, side, patch = 16, 32, 2, 4, 4
	var w gguf.Writer
	for key, v := range map[string]any{"general.architecture": "clip", "clip.has_vision_encoder": true,
		"clip.projector_type": "mlp", "clip.vision.image_size": uint32(side * patch), "clip.vision.patch_size": uint32(patch),
		"clip.vision.embedding_length": uint32(width), "clip.vision.feed_forward_length": uint32(hidden),
		"clip.vision.block_count": uint32(1), "clip.vision.attention.head_count": uint32(heads),
		"clip.vision.attention.layer_norm_epsilon": float32(1e-5),
		"clip.vision.image_mean":                   []float32{0.5, 0.5, 0.5}, "clip.vision.image_std": []float32{0.5, 0.5, 0.5}} {
		if err := w.Set(key, v); err != nil {
			t.Fatal(err)
		}
	}
	weights := map[string][]int{"v.patch_embd.weight": {width, 3, patch, patch}, "mm.0.weight": {width, width},
		"v.position_embd.weight": {side * side, width}, "mm.2.weight": {out, width}, "mm.2.bias": {out}}
	for name, dims := range map[string][]int{"ln1": {width}, "ln2": {width}, "attn_q": {width, width},
		"attn_k": {width, width}, "attn_v": {width, width}, "attn_out": {width, width}, "ffn_up": {hidden, width},
		"ffn_down": {width, hidden}} {
		weights[fmt.Sprintf("v.blk.0.%s.weight", name)] = dims
	}
	names := make([]string, 0, len(weights))
	for name := range weights {
		names = append(names, name)
	}
	slices.Sort(names)
	r := rand.New(rand.NewPCG(7, 7))
	for _, name := range names {
		d, err := ir.NewData(ir.F32, weights[name]...)
		if err != nil {
			t.Fatal(err)
		}
		values := make([]float64, d.Elems())
		for i := range values {
			values[i] = r.NormFloat64() / 4
		}
		ir.EncodeFloats(d.Bytes, ir.F32, values)
		if err := w.Add(name, d); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.WriteFile(path); err != nil {
		t.Fatal(err)
	}
}

// PNG returns a PNG file of a picture of random colors, which follow from the seed.
func PNG(t testing.TB, seed uint64, width, height int) []byte {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, seed))
	m := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			bits := r.Uint32()
			m.SetNRGBA(x, y, color.NRGBA{uint8(bits), uint8(bits >> 8), uint8(bits >> 16), 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
