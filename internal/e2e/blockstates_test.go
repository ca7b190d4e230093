package e2e_test

import (
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/check"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
)

// TestBlockStates: block states can be updated with whole weights, other states and results of quantize, with the same
// results on the device and the reference.
func TestBlockStates(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	dev, ctx := devtest.OpenDevice(t), t.Context()
	for name, build := range map[string]func(b *frontend.Builder){
		"weight": func(b *frontend.Builder) {
			s := b.State("s", ir.Q6_K, 3, 256)
			b.Output("y", s.Dequantize(ir.F32))
			b.Update(s, b.Weight("q6_K", ir.Q6_K, 3, 256))
		},
		"weight that a product reads too": func(b *frontend.Builder) {
			s, w := b.State("s", ir.Q8_0, 5, 64), b.Weight("q8_0", ir.Q8_0, 5, 64)
			b.Output("y", b.Input("x", ir.F32, 2, 64).MatMulT(w))
			b.Update(s, w)
		},
		"odd bytes": func(b *frontend.Builder) {
			s := b.State("s", ir.MXFP4, 3, 32)
			b.Output("y", s.Dequantize(ir.F32))
			b.Update(s, b.Weight("mxfp4", ir.MXFP4, 3, 32))
		},
		"quantize": func(b *frontend.Builder) {
			s := b.State("s", ir.Q4_0, 2, 64)
			old := s.Dequantize(ir.F32)
			b.Output("y", old)
			b.Update(s, old.MulScalar(0.5).Add(b.Input("x", ir.F32, 2, 64)).Quantize(ir.Q4_0))
		},
		// Several invocations write such a block. Invocations of a row with an index out of range must not store.
		"rows quantized into their places": func(b *frontend.Builder) {
			s := b.State("s", ir.Q4_K, 7, 512)
			place := b.Input("x", ir.F32, 2, 64).Reshape(128).Slice(0, 0, 5).MulScalar(8).Cast(ir.I32)
			x := b.Weight("rows", ir.F32, 5, 512)
			next := s.ScatterND(place.Reshape(5, 1), x.Quantize(ir.Q4_K))
			b.Output("y", next.Dequantize(ir.F32))
			b.Update(s, next)
		},
		"more rows than places": func(b *frontend.Builder) {
			s, x := b.State("s", ir.Q8_0, 3, 32), b.Input("x", ir.F32, 2, 64)
			next := s.ScatterND(x.Slice(0, 0, 1).Slice(1, 0, 4).MulScalar(3).Cast(ir.I32).Reshape(4, 1),
				x.Reshape(4, 32).Quantize(ir.Q8_0))
			b.Output("y", next.Dequantize(ir.F32))
			b.Update(s, next)
		},
		"rows that are written twice and read": func(b *frontend.Builder) {
			s, x := b.State("s", ir.Q8_0, 5, 32), b.Input("x", ir.F32, 2, 64)
			rows := x.Reshape(4, 32).Quantize(ir.Q8_0)
			places := x.Reshape(128).MulScalar(5).Cast(ir.I32)
			next := s.ScatterND(places.Slice(0, 0, 4).Reshape(4, 1), rows)
			next = next.ScatterND(places.Slice(0, 4, 8).Reshape(4, 1), rows)
			b.Output("y", next.Dequantize(ir.F32))
			b.Output("rows", rows.Dequantize(ir.F32))
			b.Update(s, next)
		},
		"in turn": func(b *frontend.Builder) {
			s, r, q := b.State("s", ir.Q8_0, 2, 64), b.State("r", ir.Q8_0, 2, 64), b.State("q", ir.Q8_0, 2, 64)
			b.Output("y", s.Dequantize(ir.F32).Sub(r.Dequantize(ir.F32)))
			b.Update(s, r)
			b.Update(r, q)
			b.Update(q, b.Input("x", ir.F32, 2, 64).Quantize(ir.Q8_0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := frontend.Build(name, build)
			if err != nil {
				t.Fatal(err)
			}
			weights := vkc.WeightMap{}
			for _, w := range g.Leaves(ir.OpWeight) {
				dims, err := w.Shape().Eval(nil)
				if err != nil {
					t.Fatal(err)
				}
				values, err := vkc.Values[float32](devtest.Noise(t, dims...))
				if err != nil {
					t.Fatal(err)
				}
				if weights[w.Name()], err = vkc.OfType(w.DType(), values, dims...); err != nil {
					t.Fatal(err)
				}
			}
			exe, err := dev.LoadGraph(ctx, g, weights)
			if err != nil {
				t.Fatal(err)
			}
			defer exe.Close()
			checker, err := check.New(g, weights)
			if err != nil {
				t.Fatal(err)
			}
			for run := range 4 {
				in := vkc.Tensors{}
				for range exe.Inputs() {
					in["x"] = devtest.Noise(t, 2, 64)
					in["x"].Bytes[run]++ // differs from run to run
				}
				res, err := exe.Run(ctx, in)
				if err != nil {
					t.Fatal(err)
				}
				report, err := checker.Check(ctx, exe, in, nil, res.Outputs)
				if err != nil {
					t.Fatal(err)
				}
				if err := report.Err(); err != nil {
					t.Errorf("run %d: %v", run, err)
				}
			}
		})
	}
}

// TestBlockWritesRefused: rows of blocks can be written only in place, and only blocks made by quantize. The error says
// so, with the position.
func TestBlockWritesRefused(t *testing.T) {
	for want, build := range map[string]func(b *frontend.Builder, s, places frontend.Tensor){
		"the old value is needed": func(b *frontend.Builder, s, places frontend.Tensor) {
			next := s.ScatterND(places, b.Input("x", ir.F32, 4, 32).Quantize(ir.Q8_0))
			b.Output("y", next.Dequantize(ir.F32).Sub(s.Dequantize(ir.F32)))
			b.Update(s, next)
		},
		"its result updates no state": func(b *frontend.Builder, s, places frontend.Tensor) {
			b.Output("y", s.ScatterND(places, b.Input("x", ir.F32, 4, 32).Quantize(ir.Q8_0)).Dequantize(ir.F32))
		},
		"only op quantize can make these rows": func(b *frontend.Builder, s, places frontend.Tensor) {
			b.Update(s, s.ScatterND(places, b.State("r", ir.Q8_0, 4, 32)))
		},
	} {
		g, err := frontend.Build("refused", func(b *frontend.Builder) {
			build(b, b.State("s", ir.Q8_0, 3, 32), b.Input("places", ir.I32, 4, 1))
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = compiler.Lower(t.Context(), g, devtest.Profile(t, "generic"), nil)
		devtest.WantError(t, err, want, "blockstates_test.go", "scatter_nd")
	}
}
