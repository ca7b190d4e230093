package e2e_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
)

// TestPrecisionsOnDevice compiles one gated layer of quantized weights in every
// precision, as for a device that has its own way with blocks, and runs it here:
// nothing is rounded that was not allowed to be, and results are as near as the
// precision says.
func TestPrecisionsOnDevice(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	ctx := context.Background()
	dev := devtest.OpenDevice(t)
	caps, _ := planedCaps(t, dev.Caps())
	full, values := byteGraph(t, frontend.FullPrecision, []ir.DType{ir.Q4_0, ir.Q8_0, ir.Q4_K})
	in := inputsOf(t, values)
	for _, precision := range vkc.Precisions() {
		g, err := vkc.WithPrecision(full, precision)
		if err != nil {
			t.Fatal(err)
		}
		p, err := vkc.Compile(ctx, g, vkc.CompileOptions{Target: caps})
		if err != nil {
			t.Fatal(err)
		}
		bytes := strings.Contains(strings.Join(p.Contents.GLSL, ""), "dotPacked4x8EXT")
		if bytes != (precision == ir.PrecisionBytes && caps.Features.IntegerDotProduct) {
			t.Errorf("%s: rows are bytes: %v", precision, bytes)
		}
		exe, err := dev.Load(ctx, p, vkc.LoadOptions{Weights: values})
		if err != nil {
			t.Fatal(err)
		}
		defer exe.Close()
		res, err := exe.Run(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		compareOutputs(t, g, res.Outputs, outputsOf(t, g, values, in))
	}
}

func TestWithPrecision(t *testing.T) {
	g, err := frontend.Build("products", func(b *frontend.Builder) {
		x, w := b.Input("x", ir.F32, 4, 32), b.Weight("w", ir.Q4_0, 8, 32)
		b.Output("free", x.MatMulT(w))
		b.Output("fixed", x.MatMulTIn(frontend.HalfSums, w))
		b.Output("other", x.Relu())
		b.Output("picked", x.Reshape(4, 1, 32).MatMulID(b.Weight("experts", ir.Q8_0, 3, 8, 32),
			b.Input("ids", ir.I32, 4, 2)))
		image, filter := b.Input("image", ir.F32, 1, 2, 8), b.Weight("filter", ir.F32, 3, 2, 3)
		b.Output("window", image.Conv(filter))
		b.Output("half window", image.Conv(filter, frontend.InPrecision(frontend.HalfPrecision)))
		again := func(_ frontend.Tensor, carried []frontend.Tensor) []frontend.Tensor {
			return []frontend.Tensor{carried[0].MatMulT(b.Weight("square", ir.F32, 32, 32))}
		}
		b.Output("loop", b.Loop(3, []frontend.Tensor{x}, again)[0])
	})
	if err != nil {
		t.Fatal(err)
	}
	var precisions func(g *ir.Graph) []string
	precisions = func(g *ir.Graph) (list []string) {
		for _, n := range g.Nodes() {
			for _, body := range n.Bodies() {
				list = append(list, precisions(body)...)
			}
			if p := n.Attrs().String_("precision"); p != "" {
				list = append(list, p)
			}
		}
		return list
	}
	for _, p := range append(vkc.Precisions(), ir.PrecisionFull) {
		have, err := vkc.WithPrecision(g, p)
		if err != nil {
			t.Fatal(err)
		}
		if p == vkc.Exact { // the attribute's name for it
			p = ir.PrecisionFull
		}
		window := map[string]string{ir.PrecisionBF16x3: ir.PrecisionFull, ir.PrecisionBytes: ir.PrecisionHalf}[p]
		if window == "" {
			window = p
		}
		want := []string{p, ir.PrecisionHalfSums, p, window, ir.PrecisionHalf, p}
		if list := precisions(have); !slices.Equal(list, want) {
			t.Errorf("%s: precisions are %v", p, list)
		}
		if len(have.Outputs()) != 7 || (have.HashString() == g.HashString()) != (p == ir.PrecisionFull) {
			t.Errorf("%s: another graph is expected if it is not full", p)
		}
	}
	_, err = vkc.WithPrecision(g, "quarter")
	devtest.WantError(t, err, `"quarter"`, "half_sums", "int8")
}

// TestHalfAttention: f32 attention that allows f16 uses matrix units if the device has them. On other devices its
// kernels do not change.
func TestHalfAttention(t *testing.T) {
	full, err := frontend.Build("attention", func(b *frontend.Builder) {
		q, k := b.Input("q", ir.F32, 8, 256, 64), b.Input("k", ir.F32, 2, 256, 64)
		b.Output("y", q.Attention(k, k, frontend.Causal()))
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ target, precision, want string }{
		{"nvidia-h100", ir.PrecisionHalf, "flash_coopmat2"}, {"nvidia-h100", ir.PrecisionHalfSums, "flash_coopmat2"},
		{"nvidia-h100", ir.PrecisionBytes, "flash_coopmat2"}, {"nvidia-h100", ir.PrecisionFull, "flash_tile"},
		{"lavapipe", ir.PrecisionHalf, "flash_tile"},
	} {
		g, err := vkc.WithPrecision(full, c.precision)
		if err != nil {
			t.Fatal(err)
		}
		caps, err := device.Profile(c.target)
		if err != nil {
			t.Fatal(err)
		}
		low, err := compiler.Lower(context.Background(), g, caps, nil)
		if err != nil {
			t.Fatal(err)
		}
		if have := string(low.Schedules[0].Config().Variant); have != c.want || len(low.Schedules) != 1 {
			t.Errorf("%s in %s: %s, want %s", c.target, c.precision, have, c.want)
		}
	}
}
