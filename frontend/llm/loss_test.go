package llm_test

import (
	"bytes"
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// TestLoss compares the loss of two texts in a batch with the scores of each text. It also tests given weights and
// adapted matmuls.
func TestLoss(t *testing.T) {
	f := tiny{dtype: ir.F32}.file(t)
	cfg, err := llm.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	texts := [][]int64{{3, 1, 4, 1, 5}, {9, 2, 6, 5, 3}}
	next := [][]int64{{1, 4, 1, 5, -100}, {2, 6, 5, 3, 5}}
	scores, err := llm.Scores(cfg, 5, 5, 0)
	if err != nil {
		t.Fatal(err)
	}
	sum, n := 0.0, 0.0
	for i, text := range texts {
		p, err := interp.New(scores, interp.Options{Weights: f})
		if err != nil {
			t.Fatal(err)
		}
		out, err := p.Run(context.Background(), map[string]*ir.Data{"tokens": integers(t, text, 5),
			"next": integers(t, next[i], 5)}, map[string]int64{"S": 5})
		if err != nil {
			t.Fatal(err)
		}
		list, _ := out["scores"].Floats()
		for j, x := range list {
			if next[i][j] >= 0 {
				sum, n = sum-x, n+1
			}
		}
	}
	var given, adapted []string
	g, err := frontend.Build("loss", func(b *frontend.Builder) {
		tokens, next := b.Input("tokens", ir.I32, 2, 5), b.Input("next", ir.I32, 2, 5)
		b.Output("loss", llm.Loss(b, cfg, tokens, next, llm.TrainOptions{
			Weights: func(name string, t ir.Type) frontend.Tensor {
				given = append(given, name)
				return b.StateFrom(ir.InitialWeight(name), name, t.DType, t.Shape)
			},
			Adapt: func(weight string, x, y frontend.Tensor) frontend.Tensor {
				adapted = append(adapted, weight)
				return y.Add(x.MatMulT(b.State(weight+".a", ir.F32, 3, x.Dim(-1))).
					MatMulT(b.State(weight+".b", ir.F32, y.Dim(-1), 3)))
			},
		}))
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := interp.New(g, interp.Options{Weights: f})
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Run(context.Background(), map[string]*ir.Data{"tokens": integers(t, slices.Concat(texts...), 2, 5),
		"next": integers(t, slices.Concat(next...), 2, 5)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	have, _ := out["loss"].Floats()
	if want := sum / n; n != 9 || !(math.Abs(have[0]-want) <= 1e-5*want) {
		t.Errorf("the loss is %v, want %v over %v tokens", have[0], want, n)
	}
	if len(given) != len(cfg.Types) || len(adapted) != 7*layers+1 {
		t.Errorf("%d of %d weights were asked for, and the products %q adapted", len(given), len(cfg.Types), adapted)
	}
	_, err = frontend.Build("long", func(b *frontend.Builder) {
		tokens := b.Input("tokens", ir.I32, 2, maxContext+1)
		llm.Loss(b, cfg, tokens, tokens, llm.TrainOptions{})
	})
	if err == nil || !strings.Contains(err.Error(), "17 positions: want 1 to 16") {
		t.Errorf("more tokens than the model has positions: %v", err)
	}
}

// TestLossRemat: gradients of all weights are the same bits where layers are computed again for them.
func TestLossRemat(t *testing.T) {
	f := tiny{dtype: ir.F32}.file(t)
	cfg, err := llm.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	grads := func(remat bool) map[string]*ir.Data {
		g, err := frontend.Build("loss", func(b *frontend.Builder) {
			all := b.Input("tokens", ir.I32, 2, 6)
			var weights []frontend.Tensor
			loss := llm.Loss(b, cfg, all.Slice(1, 0, ir.D(5)), all.Slice(1, 1, ir.D(6)), llm.TrainOptions{
				Weights: func(name string, t ir.Type) frontend.Tensor {
					weights = append(weights, b.StateFrom(ir.InitialWeight(name), name, t.DType, t.Shape))
					return weights[len(weights)-1]
				},
				Remat: remat,
			})
			for i, g := range frontend.Grad(loss, weights...) {
				b.Output(weights[i].Node().Name(), g)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if remat != slices.ContainsFunc(g.Nodes(), func(n *ir.Node) bool { return n.Op() == ir.OpAfter }) {
			t.Errorf("remat %v: something is ordered, or nothing", remat)
		}
		p, err := interp.New(g, interp.Options{Weights: f})
		if err != nil {
			t.Fatal(err)
		}
		out, err := p.Run(context.Background(), map[string]*ir.Data{
			"tokens": integers(t, []int64{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8}, 2, 6)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := grads(false)
	for name, have := range grads(true) {
		if !bytes.Equal(have.Bytes, want[name].Bytes) {
			t.Errorf("the gradient of %s differs", name)
		}
	}
}

func integers(t *testing.T, list []int64, dims ...int) *ir.Data {
	t.Helper()
	d, err := ir.FromInts(ir.I32, list, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
