package nn_test

import (
	"context"
	"fmt"
	"log"
	"math"
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// A layer of eight quantized experts. Each token uses two.
func ExampleExperts() {
	types := map[string]ir.Type{
		"blk.0.ffn_gate_inp.weight":  typ(ir.F32, 8, 32),
		"blk.0.ffn_gate_exps.weight": typ(ir.Q8_0, 8, 64, 32),
		"blk.0.ffn_up_exps.weight":   typ(ir.Q8_0, 8, 64, 32),
		"blk.0.ffn_down_exps.weight": typ(ir.Q4_0, 8, 32, 64),
	}
	g, err := frontend.Build("experts", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, b.Sym("T", 128), 32)
		b.Output("y", nn.Experts(x, nn.NewWeights(b, types).Sub("blk.0"), 2, true))
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(g)
	// Output:
	// graph "experts" {
	//   symbol T <= 128
	//   %0 = input {name="x", dtype=f32, shape=[T,32]} : f32[T,32]
	//   %1 = weight {name="blk.0.ffn_gate_inp.weight", dtype=f32, shape=[8,32]} : f32[8,32]
	//   %2 = matmul %0, %1 {transpose_b=true} : f32[T,8]
	//   %3 = softmax %2 : f32[T,8]
	//   %4 = top_k_indices %3 {k=2} : i32[T,2]
	//   %5 = gather %3, %4 {axis=-1} : f32[T,2]
	//   %6 = sum %5 {axes=[-1], keepdims=true} : f32[T,1]
	//   %7 = div %5, %6 : f32[T,2]
	//   %8 = unsqueeze %0 {axes=[1]} : f32[T,1,32]
	//   %9 = weight {name="blk.0.ffn_gate_exps.weight", dtype=q8_0, shape=[8,64,32]} : q8_0[8,64,32]
	//   %10 = matmul_id %8, %9, %4 : f32[T,2,64]
	//   %11 = weight {name="blk.0.ffn_up_exps.weight", dtype=q8_0, shape=[8,64,32]} : q8_0[8,64,32]
	//   %12 = matmul_id %8, %11, %4 : f32[T,2,64]
	//   %13 = silu %10 : f32[T,2,64]
	//   %14 = mul %13, %12 : f32[T,2,64]
	//   %15 = weight {name="blk.0.ffn_down_exps.weight", dtype=q4_0, shape=[8,32,64]} : q4_0[8,32,64]
	//   %16 = matmul_id %14, %15, %4 : f32[T,2,32]
	//   %17 = unsqueeze %7 {axes=[-1]} : f32[T,2,1]
	//   %18 = mul %16, %17 : f32[T,2,32]
	//   %19 = sum %18 {axes=[1]} : f32[T,32]
	//   output "y" %19
	// }
}

// TestExperts computes a layer by hand: expert e multiplies by e+1.
func TestExperts(t *testing.T) {
	const width, experts = 2, 3
	types := map[string]ir.Type{
		"ffn_gate_inp.weight": typ(ir.F32, experts, width), "ffn_gate_exps.weight": typ(ir.F32, experts, 1, width),
		"ffn_up_exps.weight": typ(ir.F32, experts, 1, width), "ffn_down_exps.weight": typ(ir.F32, experts, width, 1),
	}
	weights := map[string][]float64{
		"ffn_gate_inp.weight": {1, 0, 0, 1, 2, 0}, "ffn_gate_exps.weight": {1, 0, 2, 0, 3, 0},
		"ffn_up_exps.weight": {1, 1, 2, 2, 3, 3}, "ffn_down_exps.weight": {1, 0, 0, 1, 1, 1},
	}
	for _, normalize := range []bool{false, true} {
		g, err := frontend.Build("experts", func(b *frontend.Builder) {
			x := b.Input("x", ir.F32, 1, width)
			b.Output("y", nn.Experts(x, nn.NewWeights(b, types), 2, normalize))
		})
		if err != nil {
			t.Fatal(err)
		}
		data := map[string]*ir.Data{}
		for name, typ := range types {
			dims, err := typ.Shape.Eval(nil)
			if err != nil {
				t.Fatal(err)
			}
			if data[name], err = ir.FromFloats(ir.F32, weights[name], dims...); err != nil {
				t.Fatal(err)
			}
		}
		x, err := ir.FromFloats(ir.F32, []float64{1, 0.5}, 1, width)
		if err != nil {
			t.Fatal(err)
		}
		out, err := run(g, data, map[string]*ir.Data{"x": x})
		if err != nil {
			t.Fatal(err)
		}
		// Scores 1, 0.5 and 2: experts 2 and 0 are used.
		e := []float64{math.Exp(1), math.Exp(0.5), math.Exp(2)}
		sum := e[0] + e[1] + e[2]
		if normalize {
			sum = e[0] + e[2]
		}
		silu := func(v float64) float64 { return v / (1 + math.Exp(-v)) }
		first, last := silu(1)*1.5*e[0]/sum, silu(3)*4.5*e[2]/sum
		for i, want := range []float64{first + last, last} {
			if have := out[i]; math.Abs(have-want) > 1e-5 {
				t.Errorf("normalize %v: element %d is %v, want %v", normalize, i, have, want)
			}
		}
	}
}

// source is weights by name.
type source map[string]*ir.Data

func (s source) Weight(name string) (*ir.Data, error) {
	if d, ok := s[name]; ok {
		return d, nil
	}
	return nil, fmt.Errorf("no weight %q", name)
}

func run(g *ir.Graph, weights, in map[string]*ir.Data) ([]float64, error) {
	p, err := interp.New(g, interp.Options{Weights: source(weights)})
	if err != nil {
		return nil, err
	}
	out, err := p.Run(context.Background(), in, nil)
	if err != nil {
		return nil, err
	}
	y := make([]float64, out["y"].Elems())
	ir.DecodeFloats(y, out["y"].DType, out["y"].Bytes)
	return y, nil
}
