package nn_test

import (
	"context"
	"math"
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// TestRecurrent compares the layers with their formulas, written out in float64.
func TestRecurrent(t *testing.T) {
	const steps, batch, in, hidden = 5, 2, 3, 4
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	for name, c := range map[string]struct {
		gates int
		build func(x frontend.Tensor, w nn.Weights) (all, last frontend.Tensor)
		// next computes the next state and cell of a unit from the results of ih and hh for its gates.
		next func(x, y []float64, h, c float64) (float64, float64)
	}{
		"rnn": {1, func(x frontend.Tensor, w nn.Weights) (all, last frontend.Tensor) {
			return nn.RNN(x, frontend.Tensor{}, w)
		}, func(x, y []float64, h, c float64) (float64, float64) { return math.Tanh(x[0] + y[0]), 0 }},
		"lstm": {4, func(x frontend.Tensor, w nn.Weights) (all, last frontend.Tensor) {
			all, last, _ = nn.LSTM(x, frontend.Tensor{}, frontend.Tensor{}, w)
			return all, last
		}, func(x, y []float64, h, c float64) (float64, float64) {
			c = sigmoid(x[1]+y[1])*c + sigmoid(x[0]+y[0])*math.Tanh(x[2]+y[2])
			return sigmoid(x[3]+y[3]) * math.Tanh(c), c
		}},
		"gru": {3, func(x frontend.Tensor, w nn.Weights) (all, last frontend.Tensor) {
			return nn.GRU(x, frontend.Tensor{}, w)
		}, func(x, y []float64, h, c float64) (float64, float64) {
			z := sigmoid(x[1] + y[1])
			return (1-z)*math.Tanh(x[2]+sigmoid(x[0]+y[0])*y[2]) + z*h, 0
		}},
	} {
		types := map[string]ir.Type{
			"ih.weight": typ(ir.F32, c.gates*hidden, in), "ih.bias": typ(ir.F32, c.gates*hidden),
			"hh.weight": typ(ir.F32, c.gates*hidden, hidden), "hh.bias": typ(ir.F32, c.gates*hidden),
		}
		g, err := frontend.Build(name, func(b *frontend.Builder) {
			all, last := c.build(b.Input("x", ir.F32, b.Sym("T", 8), batch, in), nn.NewWeights(b, types))
			b.Output("all", all)
			b.Output("last", last)
		})
		if err != nil {
			t.Fatal(err)
		}
		weights := graphgen.Values{Seed: 1, Graph: g}
		floats := func(d *ir.Data, err error) []float64 {
			t.Helper()
			list, failed := d.Floats()
			if err != nil || failed != nil {
				t.Fatal(err, failed)
			}
			return list
		}
		inputs, err := weights.Inputs(map[string]int64{"T": steps}, 0)
		if err != nil {
			t.Fatal(err)
		}
		x := floats(inputs["x"], nil)
		linear := func(part string, x []float64) []float64 {
			w, y := floats(weights.Weight(part+".weight")), floats(weights.Weight(part+".bias"))
			for i := range y {
				for k := range x {
					y[i] += w[i*len(x)+k] * x[k]
				}
			}
			return y
		}
		h, cell := make([]float64, batch*hidden), make([]float64, batch*hidden)
		var want []float64
		for step := range steps {
			for n := range batch {
				row := h[n*hidden : (n+1)*hidden]
				a, b := linear("ih", x[(step*batch+n)*in:][:in]), linear("hh", row)
				for i := range row {
					var za, zb []float64
					for gate := range c.gates {
						za, zb = append(za, a[gate*hidden+i]), append(zb, b[gate*hidden+i])
					}
					row[i], cell[n*hidden+i] = c.next(za, zb, row[i], cell[n*hidden+i])
				}
			}
			want = append(want, h...)
		}
		p, err := interp.New(g, interp.Options{Weights: weights})
		if err != nil {
			t.Fatal(err)
		}
		out, err := p.Run(context.Background(), inputs, nil)
		if err != nil {
			t.Fatal(err)
		}
		for what, want := range map[string][]float64{"all": want, "last": h} {
			for i, v := range floats(out[what], nil) {
				if math.Abs(v-want[i]) > 1e-5 {
					t.Fatalf("%s: %s[%d] is %g, want %g", name, what, i, v, want[i])
				}
			}
		}
	}
}
