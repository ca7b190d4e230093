package nn_test

import (
	"errors"
	"fmt"
	"log"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/ir"
)

func typ(t ir.DType, dims ...int) ir.Type { return ir.Type{DType: t, Shape: ir.ShapeOf(dims...)} }

// One block of a feed-forward network, with weights as a GGUF file has them:
// quantized matrices, float vectors.
func Example() {
	types := map[string]ir.Type{
		"blk.0.ffn_norm.weight": typ(ir.F32, 32),
		"blk.0.ffn_gate.weight": typ(ir.Q8_0, 64, 32),
		"blk.0.ffn_up.weight":   typ(ir.Q8_0, 64, 32),
		"blk.0.ffn_down.weight": typ(ir.F16, 32, 64),
	}
	g, err := frontend.Build("block", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, b.Sym("T", 128), 32)
		blk := nn.NewWeights(b, types).Sub("blk.0")
		b.Output("y", x.Add(nn.SwiGLU(nn.RMSNorm(x, blk.Sub("ffn_norm"), 1e-5), blk)))
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(g)
	// Output:
	// graph "block" {
	//   symbol T <= 128
	//   %0 = input {name="x", dtype=f32, shape=[T,32]} : f32[T,32]
	//   %1 = weight {name="blk.0.ffn_norm.weight", dtype=f32, shape=[32]} : f32[32]
	//   %2 = rms_norm %0, %1 : f32[T,32]
	//   %3 = weight {name="blk.0.ffn_gate.weight", dtype=q8_0, shape=[64,32]} : q8_0[64,32]
	//   %4 = matmul %2, %3 {transpose_b=true} : f32[T,64]
	//   %5 = weight {name="blk.0.ffn_up.weight", dtype=q8_0, shape=[64,32]} : q8_0[64,32]
	//   %6 = matmul %2, %5 {transpose_b=true} : f32[T,64]
	//   %7 = silu %4 : f32[T,64]
	//   %8 = mul %7, %6 : f32[T,64]
	//   %9 = weight {name="blk.0.ffn_down.weight", dtype=f16, shape=[32,64]} : f16[32,64]
	//   %10 = cast %9 {dtype=f32} : f32[32,64]
	//   %11 = matmul %8, %10 {transpose_b=true} : f32[T,32]
	//   %12 = add %0, %11 : f32[T,32]
	//   output "y" %12
	// }
}

// TestLayers compares the nodes each layer adds, weights left out.
func TestLayers(t *testing.T) {
	types := map[string]ir.Type{
		"f32.weight": typ(ir.F32, 4, 32), "f32.bias": typ(ir.F32, 4),
		"f16.weight": typ(ir.F16, 4, 32), "f16.bias": typ(ir.F16, 4),
		"q8.weight":   typ(ir.Q8_0, 4, 32),
		"norm.weight": typ(ir.F32, 32), "norm.bias": typ(ir.F32, 32),
		"plain.weight": typ(ir.F32, 32),

		"turned.weight": typ(ir.Q8_0, 4, 32), "turned.order": typ(ir.I32, 32),
	}
	tests := []struct {
		name  string
		layer func(x, ids frontend.Tensor, w nn.Weights) frontend.Tensor
		want  string
	}{
		{"linear", func(x, _ frontend.Tensor, w nn.Weights) frontend.Tensor { return nn.Linear(x, w.Sub("f32")) }, "matmul add"},
		{"linear f16", func(x, _ frontend.Tensor, w nn.Weights) frontend.Tensor { return nn.Linear(x, w.Sub("f16")) }, "cast matmul cast add"},
		{"linear q8_0", func(x, _ frontend.Tensor, w nn.Weights) frontend.Tensor { return nn.Linear(x, w.Sub("q8")) }, "matmul"},
		{"linear with an order", func(x, _ frontend.Tensor, w nn.Weights) frontend.Tensor {
			return nn.Linear(x, w.Sub("turned"))
		}, "index_select matmul"},
		{"unembed", func(x, _ frontend.Tensor, w nn.Weights) frontend.Tensor { return nn.Unembed(x, w.Sub("f32")) }, "matmul"},
		{"embedding", func(_, ids frontend.Tensor, w nn.Weights) frontend.Tensor {
			return nn.Embedding(ids, w.Sub("f32"), ir.F32)
		}, "embedding"},
		{"embedding f16", func(_, ids frontend.Tensor, w nn.Weights) frontend.Tensor {
			return nn.Embedding(ids, w.Sub("f16"), ir.F32)
		}, "embedding cast"},
		{"embedding q8_0", func(_, ids frontend.Tensor, w nn.Weights) frontend.Tensor {
			return nn.Embedding(ids, w.Sub("q8"), ir.F32)
		}, "embedding"},
		{"rms norm", func(x, _ frontend.Tensor, w nn.Weights) frontend.Tensor {
			return nn.RMSNorm(x, w.Sub("norm"), 1e-5)
		}, "rms_norm"},
		{"layer norm", func(x, _ frontend.Tensor, w nn.Weights) frontend.Tensor {
			return nn.LayerNorm(x, w.Sub("norm"), 1e-5)
		}, "layer_norm"},
		{"layer norm without bias", func(x, _ frontend.Tensor, w nn.Weights) frontend.Tensor {
			return nn.LayerNorm(x, w.Sub("plain"), 1e-5)
		}, "layer_norm"},
		{"shared weight", func(x, ids frontend.Tensor, w nn.Weights) frontend.Tensor {
			return nn.Unembed(nn.Embedding(ids, w.Sub("f32"), ir.F32), w.Sub("f32"))
		}, "embedding matmul"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, err := frontend.Build(tt.name, func(b *frontend.Builder) {
				x, ids := b.Input("x", ir.F32, 2, 32), b.Input("ids", ir.I32, 2)
				b.Output("y", tt.layer(x, ids, nn.NewWeights(b, types)))
			})
			if err != nil {
				t.Fatal(err)
			}
			var ops []string
			for _, n := range g.Nodes() {
				if n.Op().Class() != ir.ClassLeaf {
					ops = append(ops, n.Op().String())
				}
			}
			if got := strings.Join(ops, " "); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if out := g.Outputs()[0].Node; out.DType() != ir.F32 {
				t.Errorf("the result is %s", out.Type())
			}
		})
	}
}

// TestOrderedColumns: only Linear takes a matrix with columns in another order.
func TestOrderedColumns(t *testing.T) {
	types := map[string]ir.Type{"a.weight": typ(ir.F32, 4, 32), "a.order": typ(ir.I32, 32)}
	_, err := frontend.Build("ordered", func(b *frontend.Builder) {
		b.Output("y", nn.Embedding(b.Input("ids", ir.I32, 2), nn.NewWeights(b, types).Sub("a"), ir.F32))
	})
	if err == nil || !strings.Contains(err.Error(), `"a.weight" comes with "a.order"`) {
		t.Errorf("got %v", err)
	}
}

// TestMatrix compares a matrix with scales, and with columns in another order, with the same matrix as plain floats.
func TestMatrix(t *testing.T) {
	const heads, rows, columns, groups = 2, 6, 4, 2
	order := []int64{2, 0, 3, 1}
	weights, types := map[string]*ir.Data{}, map[string]ir.Type{}
	stored, scale, plain := make([]float64, rows*columns), make([]float64, rows*groups), make([]float64, rows*columns)
	for i := range stored {
		row, column := i/columns, i%columns
		stored[i] = float64(i*i%7 - 3)
		scale[row*groups+column/groups] = float64(1 + row + column/groups)
		plain[row*columns+int(order[column])] = stored[i] * float64(1+row+column/groups)
	}
	var err error
	add := func(name string, d *ir.Data, failed error) {
		weights[name], types[name], err = d, typ(d.DType, d.Dims...), errors.Join(err, failed)
	}
	for _, w := range []struct {
		name    string
		values  []float64
		dtype   ir.DType
		columns int
	}{{"a.weight", stored, ir.F8E4M3, columns}, {"a.weight_scale", scale, ir.F32, groups},
		{"b.weight", plain, ir.F32, columns}} {
		d, failed := ir.FromFloats(w.dtype, w.values, rows, w.columns)
		add(w.name, d, failed)
	}
	d, failed := ir.FromInts(ir.I32, order, columns)
	if add("a.order", d, failed); err != nil {
		t.Fatal(err)
	}
	var results [2][]float64
	for i, name := range []string{"a", "b"} {
		g, err := frontend.Build("matrix", func(b *frontend.Builder) {
			m := nn.MatrixOf(nn.NewWeights(b, types).Sub(name), ir.F32).Heads(heads).Rows(1, 3)
			x := b.Input("x", ir.F32, heads, 1, columns)
			b.Output("y", m.TimesBack(m.Times(x)).Concat(-1, m.Times(x)))
		})
		if err != nil {
			t.Fatal(err)
		}
		x, err := ir.FromFloats(ir.F32, []float64{1, 2, 3, 4, 5, 6, 7, 8}, heads, 1, columns)
		if err != nil {
			t.Fatal(err)
		}
		if results[i], err = run(g, weights, map[string]*ir.Data{"x": x}); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(results[0], results[1]) {
		t.Errorf("got %v, want %v", results[0], results[1])
	}
}

// TestMissingWeight checks the message and that the place is the caller's, not
// the layer's.
func TestMissingWeight(t *testing.T) {
	_, err := frontend.Build("missing", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 2, 32)
		b.Output("y", nn.SwiGLU(x, nn.NewWeights(b, nil).Sub("blk").Sub("3")))
	})
	const want = `weight(): the model has no weight "blk.3.ffn_gate.weight"`
	if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "nn/nn_test.go:") {
		t.Errorf("got %v, want %s", err, want)
	}
}
