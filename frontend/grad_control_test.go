package frontend_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/ir"
)

// TestGradOfLoops: gradients of a loop, and gradients of those, are the gradients of the trips written out.
func TestGradOfLoops(t *testing.T) {
	type T = frontend.Tensor
	in := map[string]*ir.Data{"x": randomFloats(t, 1, 5, 3), "w": randomFloats(t, 2, 3, 3), "h": randomFloats(t, 3, 3)}
	step := func(h, x, w T) T { return h.Unsqueeze(0).MatMul(w).Squeeze(0).Add(x).Tanh() }
	row := func(x T, i int) T { return x.Slice(0, i, i+1).Squeeze(0) }
	at := func(x, i T) T { return x.IndexSelect(0, i.Reshape(1)).Squeeze(0) }
	for name, c := range map[string]struct {
		loop    func(b *frontend.Builder, trips ir.Dim, x, w, h T) []T
		written func(b *frontend.Builder, x, w, h T) []T
	}{
		"loop": {func(b *frontend.Builder, trips ir.Dim, x, w, h T) []T {
			return b.Loop(trips, []T{h}, func(i T, s []T) []T { return []T{step(s[0], at(x, i), w)} })
		}, func(_ *frontend.Builder, x, w, h T) []T {
			for i := range 5 {
				h = step(h, row(x, i), w)
			}
			return []T{h}
		}},
		"scan": {func(b *frontend.Builder, _ ir.Dim, x, w, h T) []T {
			last, all := b.Scan([]T{h}, []T{x}, func(s, e []T) (next, outs []T) {
				y := step(s[0], e[0], w.Mul(w.StopGradient()))
				return []T{y}, []T{y.Mul(e[0]), e[0]}
			})
			return append(last, all...)
		}, func(_ *frontend.Builder, x, w, h T) []T {
			var ys, es []T
			for i := range 5 {
				h = step(h, row(x, i), w.Mul(w.StopGradient()))
				ys, es = append(ys, h.Mul(row(x, i)).Unsqueeze(0)), append(es, row(x, i).Unsqueeze(0))
			}
			return []T{h, ys[0].Concat(0, ys[1:]...), es[0].Concat(0, es[1:]...)}
		}},
		"while": {func(b *frontend.Builder, _ ir.Dim, x, w, h T) []T { // ends after three of nine trips
			n := b.Scalar(ir.I32, 0)
			return b.While(ir.D(9), []T{n, h}, func(s []T) T { return s[0].Lt(s[0].Lit(3)) }, func(s []T) []T {
				return []T{s[0].AddScalar(1), step(s[1], at(x, s[0]), w)}
			})[1:]
		}, func(_ *frontend.Builder, x, w, h T) []T {
			for i := range 3 {
				h = step(h, row(x, i), w)
			}
			return []T{h}
		}},
		"stop": {func(b *frontend.Builder, trips ir.Dim, x, w, h T) []T {
			return b.Loop(trips, []T{h}, func(i T, s []T) []T { return []T{step(s[0].StopGradient(), at(x, i), w)} })
		}, func(_ *frontend.Builder, x, w, h T) []T {
			for i := range 5 {
				h = step(h.StopGradient(), row(x, i), w)
			}
			return []T{h.Add(h.Lit(0))}
		}},
		"if in loop": {func(b *frontend.Builder, trips ir.Dim, x, w, h T) []T {
			return b.Loop(trips, []T{h}, func(i T, s []T) []T {
				return b.If(i.Lt(i.Lit(2)), func() []T { return []T{step(s[0], at(x, i), w)} },
					func() []T { return []T{s[0].Sin()} })
			})
		}, func(_ *frontend.Builder, x, w, h T) []T {
			return []T{step(step(h, row(x, 0), w), row(x, 1), w).Sin().Sin().Sin()}
		}},
		"loop in loop": {func(b *frontend.Builder, trips ir.Dim, x, w, h T) []T {
			return b.Loop(trips, []T{h}, func(i T, s []T) []T {
				return b.Loop(ir.D(2), s, func(_ T, s []T) []T { return []T{step(s[0], at(x, i), w)} })
			})
		}, func(_ *frontend.Builder, x, w, h T) []T {
			for i := range 10 {
				h = step(h, row(x, i/2), w)
			}
			return []T{h}
		}},
		"no trips": {func(b *frontend.Builder, _ ir.Dim, x, w, h T) []T {
			return b.Loop(ir.D(0), []T{h.Mul(w.Sum()).Add(x.Sum())}, func(i T, s []T) []T {
				return []T{step(s[0], at(x, i), w)}
			})
		}, func(_ *frontend.Builder, x, w, h T) []T { return []T{h.Mul(w.Sum()).Add(x.Sum())} }},
	} {
		define := func(symbolic bool, f func(b *frontend.Builder, trips ir.Dim, x, w, h T) []T) map[string]*ir.Data {
			return runGrads(t, in, nil, func(b *frontend.Builder) {
				n := ir.D(5)
				if symbolic {
					n = b.Sym("N", 8)
				}
				x, w, h := b.Input("x", ir.F32, n, 3), b.Input("w", ir.F32, 3, 3), b.Input("h", ir.F32, 3)
				loss := b.Scalar(ir.F32, 0)
				for i, y := range f(b, n, x, w, h) {
					loss = loss.Add(y.Sqr().MulScalar(float64(i + 1)).Sum())
				}
				params := []T{x, w, h}
				for order := 1; order <= 2; order++ {
					next := b.Scalar(ir.F32, 0)
					for i, g := range frontend.Pull(loss, loss.Lit(1), params) {
						if !g.IsZero() {
							b.Output(fmt.Sprint(order, params[i].Node().Name()), g)
							next = next.Add(g.Sqr().Sum())
						}
					}
					loss = next
				}
			})
		}
		want := define(false, func(b *frontend.Builder, _ ir.Dim, x, w, h T) []T { return c.written(b, x, w, h) })
		for _, symbolic := range []bool{false, true} {
			have := define(symbolic, c.loop)
			for k, d := range want {
				if have[k] == nil {
					t.Errorf("%s: there is no gradient %s", name, k)
					continue
				}
				wantNear(t, fmt.Sprint(name, " ", symbolic, " ", k), have[k], d, 2e-5)
			}
		}
	}
}

// TestGradOfLoopRefuses: a loop that may run so often that its values cannot be kept.
func TestGradOfLoopRefuses(t *testing.T) {
	_, err := frontend.Build("g", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 1000)
		y := b.While(ir.D(1<<30), []frontend.Tensor{x}, func(s []frontend.Tensor) frontend.Tensor {
			return s[0].Sum().Lt(s[0].Sum().Lit(9))
		}, func(s []frontend.Tensor) []frontend.Tensor { return []frontend.Tensor{s[0].Exp()} })
		b.Output("g", frontend.Grad(y[0].Sum(), x)[0])
	})
	if want := "the loop may make 1073741824 trips"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %v, want %q", err, want)
	}
}

// TestGradOfRecurrence: recurrent layers have gradients of their weights and of their first state.
func TestGradOfRecurrence(t *testing.T) {
	const in, hidden = 3, 4
	for name, gates := range map[string]int{"rnn": 1, "lstm": 4, "gru": 3} {
		data := map[string]*ir.Data{"x": randomFloats(t, 1, 6, 2, in), "h": randomFloats(t, 2, 2, hidden),
			"ih": randomFloats(t, 3, gates*hidden, in), "hh": randomFloats(t, 4, gates*hidden, hidden)}
		params := []string{"x", "h", "ih", "hh"}
		loss := func(moved map[string]*ir.Data, grads bool) map[string]*ir.Data {
			return runGrads(t, moved, nil, func(b *frontend.Builder) {
				leaves := map[string]frontend.Tensor{}
				for _, k := range params {
					leaves[k] = b.Input(k, ir.F32, ir.ShapeOf(data[k].Dims...))
				}
				w := nn.NewWeights(b, map[string]ir.Type{"ih.weight": leaves["ih"].Node().Type(),
					"hh.weight": leaves["hh"].Node().Type()})
				w.Give(func(name string, _ ir.Type) frontend.Tensor {
					return leaves[strings.TrimSuffix(name, ".weight")]
				})
				var all frontend.Tensor
				switch name {
				case "rnn":
					all, _ = nn.RNN(leaves["x"], leaves["h"], w)
				case "gru":
					all, _ = nn.GRU(leaves["x"], leaves["h"], w)
				default:
					all, _, _ = nn.LSTM(leaves["x"], leaves["h"], frontend.Tensor{}, w)
				}
				y := all.Cast(ir.F64).Sqr().Sum()
				b.Output("loss", y)
				if grads {
					for _, k := range params {
						b.Output(k, frontend.Grad(y, leaves[k])[0])
					}
				}
			})
		}
		at := loss(data, true)
		for _, k := range params {
			list, _ := data[k].Floats()
			slope, _ := at[k].Floats()
			const h = 1e-2
			moved := func(by float64) float64 {
				next := make([]float64, len(list))
				for i := range list {
					next[i] = list[i] + by*float64(i%3-1)
				}
				other := map[string]*ir.Data{}
				for name, d := range data {
					other[name] = d
				}
				other[k], _ = ir.FromFloats(ir.F32, next, data[k].Dims...)
				return number(t, loss(other, false)["loss"])
			}
			want, have := (moved(h)-moved(-h))/(2*h), 0.0
			for i, s := range slope {
				have += s * float64(i%3-1)
			}
			if diff := have - want; diff > 2e-3*(1+want*want) || diff < -2e-3*(1+want*want) {
				t.Errorf("%s: the derivative by %s is %v, differences say %v", name, k, have, want)
			}
		}
	}
}
