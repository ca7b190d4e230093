package frontend_test

import (
	"bytes"
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// TestRemat: gradients equal those without Remat to the bit: for several results, captured values, nested Remat, Remat
// in a loop, and second gradients.
func TestRemat(t *testing.T) {
	type T = frontend.Tensor
	in := map[string]*ir.Data{"x": randomFloats(t, 1, 4, 3), "w": randomFloats(t, 2, 3, 3)}
	type again func(b *frontend.Builder, f func() []T) []T
	plain := func(_ *frontend.Builder, f func() []T) []T { return f() }
	for name, f := range map[string]func(b *frontend.Builder, x, w T, again again) T{
		"one": func(b *frontend.Builder, x, w T, again again) T {
			return again(b, func() []T { return []T{x.MatMul(w).Tanh().MatMul(w)} })[0]
		},
		"several": func(b *frontend.Builder, x, w T, again again) T {
			y := again(b, func() []T { h := x.MatMul(w).Tanh(); return []T{h.Exp(), x, h.MatMul(w), h} })
			return y[0].Mul(y[1]).Add(y[2])
		},
		"nested": func(b *frontend.Builder, x, w T, again again) T {
			return again(b, func() []T {
				h := again(b, func() []T { h := x.MatMul(w).Tanh(); return []T{h, h.Exp()} })
				return []T{h[0].Mul(h[1]).MatMul(w).Tanh()}
			})[0]
		},
		"loop": func(b *frontend.Builder, x, w T, again again) T {
			return b.Loop(ir.D(3), []T{x}, func(_ T, s []T) []T {
				return again(b, func() []T { return []T{s[0].MatMul(w).Tanh().Exp()} })
			})[0]
		},
		"around a loop": func(b *frontend.Builder, x, w T, again again) T {
			return again(b, func() []T {
				return b.Loop(ir.D(3), []T{x}, func(_ T, s []T) []T { return []T{s[0].MatMul(w).Tanh()} })
			})[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			grads := func(again again) map[string]*ir.Data {
				return runGrads(t, in, nil, func(b *frontend.Builder) {
					x, w := b.Input("x", ir.F32, 4, 3), b.Input("w", ir.F32, 3, 3)
					first := frontend.Grad(f(b, x, w, again).Sqr().Sum(), x, w)
					b.Output("x", first[0])
					b.Output("w", first[1])
					second := frontend.Grad(first[0].Sqr().Sum(), x, w)
					b.Output("xx", second[0])
					b.Output("xw", second[1])
				})
			}
			want := grads(plain)
			for key, d := range grads((*frontend.Builder).Remat) {
				if key == "x" || key == "w" {
					if !bytes.Equal(d.Bytes, want[key].Bytes) {
						t.Errorf("gradient %q differs from that without Remat", key)
					}
					continue
				}
				wantNear(t, key, d, want[key], 1e-5)
			}
		})
	}
}
