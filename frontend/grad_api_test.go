package frontend_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/quant"
)

// runGrads builds a graph and runs it on the reference.
func runGrads(t *testing.T, in map[string]*ir.Data, weights blockWeights,
	define func(b *frontend.Builder)) map[string]*ir.Data {
	t.Helper()
	g, err := frontend.Build("grads", define)
	if err != nil {
		t.Fatal(err)
	}
	p, err := interp.New(g, interp.Options{Weights: weights})
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Run(context.Background(), in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func randomFloats(t *testing.T, seed uint64, dims ...int) *ir.Data {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	list := make([]float64, ir.ShapeOf(dims...).MaxElems())
	for i := range list {
		list[i] = rng.Float64() - 0.5
	}
	d, err := ir.FromFloats(ir.F32, list, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// wantNear compares two tensors of f32.
func wantNear(t *testing.T, what string, have, want *ir.Data, tol float64) {
	t.Helper()
	h, errH := have.Floats()
	w, errW := want.Floats()
	if errH != nil || errW != nil || len(h) != len(w) {
		t.Fatalf("%s: %v and %v: %v, %v", what, have, want, errH, errW)
	}
	for i := range h {
		if !(math.Abs(h[i]-w[i]) <= tol*(1+math.Abs(w[i]))) {
			t.Fatalf("%s[%d] is %v, want %v", what, i, h[i], w[i])
		}
	}
}

// TestGradRefuses: the error for a missing gradient has the reason.
func TestGradRefuses(t *testing.T) {
	opaque := customOp(t, "gradtest.opaque")
	for want, loss := range map[string]func(b *frontend.Builder, x frontend.Tensor) frontend.Tensor{
		"the loss is f32[3], want a scalar": func(_ *frontend.Builder, x frontend.Tensor) frontend.Tensor { return x },
		"the loss is i32[], which has no gradient": func(_ *frontend.Builder, x frontend.Tensor) frontend.Tensor {
			return x.Cast(ir.I32).Sum()
		},
		"param 0, f32[3]: the result does not depend on it": func(b *frontend.Builder,
			_ frontend.Tensor) frontend.Tensor {
			return b.Input("y", ir.F32)
		},
		"the result depends on it through floor, without a gradient: constant in steps": func(_ *frontend.Builder,
			x frontend.Tensor) frontend.Tensor {
			return x.Sqr().Floor().Sum()
		},
		"the result depends on it only through values that are not floats": func(_ *frontend.Builder,
			x frontend.Tensor) frontend.Tensor {
			return x.Cast(ir.I32).Cast(ir.F32).Sum()
		},
		"the result depends on it through StopGradient": func(_ *frontend.Builder, x frontend.Tensor) frontend.Tensor {
			return x.Exp().StopGradient().Sum()
		},
		"op gradtest.opaque has no gradient: register one with frontend.RegisterGrad": func(_ *frontend.Builder,
			x frontend.Tensor) frontend.Tensor {
			return frontend.CustomOp(opaque, []frontend.Tensor{x}).Sum()
		},
	} {
		_, err := frontend.Build("g", func(b *frontend.Builder) {
			x := b.Input("x", ir.F32, 3)
			b.Output("g", frontend.Grad(loss(b, x), x)[0])
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}

// customOp registers 3*a as an op.
func customOp(t *testing.T, name string) ir.Op {
	t.Helper()
	op, err := ir.RegisterCustom(ir.CustomOp{Name: name, Doc: "3*a.", Args: []ir.ArgInfo{{Name: "a"}}, Expr: "3.0 * a",
		Float: func(x []float64, _ ir.Attrs) float64 { return 3 * x[0] }})
	if err != nil {
		t.Fatal(err)
	}
	return op
}

// TestStopGradient: x*stop(x) has the gradient of x times a constant. A param may be a value on the way.
func TestStopGradient(t *testing.T) {
	triple := customOp(t, "gradtest.triple")
	frontend.RegisterGrad(triple, func(c frontend.GradCall) []frontend.Tensor {
		return []frontend.Tensor{c.Grad.MulScalar(3)}
	})
	x := randomFloats(t, 1, 4)
	out := runGrads(t, map[string]*ir.Data{"x": x}, nil, func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 4)
		y := x.MulScalar(3)
		z := frontend.CustomOp(triple, []frontend.Tensor{x})
		b.Output("stopped", frontend.Grad(x.Mul(x.StopGradient()).Sum(), x)[0])
		grads := frontend.Grad(y.Sqr().Sum(), x, y)
		b.Output("x", grads[0].DivScalar(18))
		b.Output("y", grads[1].DivScalar(6))
		b.Output("custom", frontend.Grad(z.Sqr().Sum(), x)[0].DivScalar(18))
		b.Output("vjp", frontend.VJP([]frontend.Tensor{y, x}, []frontend.Tensor{x, x}, x)[0].DivScalar(4))
	})
	for name, d := range out {
		wantNear(t, name, d, x, 1e-6)
	}
}

// TestGradOfSymbols: gradients with symbolic extents equal those with numbers.
func TestGradOfSymbols(t *testing.T) {
	in := map[string]*ir.Data{"x": randomFloats(t, 1, 5, 4, 8), "w": randomFloats(t, 2, 8, 8),
		"k": randomFloats(t, 3, 4, 4, 3), "scale": randomFloats(t, 4, 8), "more": randomFloats(t, 5, 5, 2, 8)}
	ids, err := ir.FromInts(ir.I32, []int64{0, 4, 2, 4, 9}, 5)
	if err != nil {
		t.Fatal(err)
	}
	in["ids"] = ids
	define := func(n func(b *frontend.Builder) ir.Dim) func(b *frontend.Builder) {
		return func(b *frontend.Builder) {
			n := n(b)
			x, more := b.Input("x", ir.F32, n, 4, 8), b.Input("more", ir.F32, n, 2, 8)
			w, k := b.Input("w", ir.F32, 8, 8), b.Input("k", ir.F32, 4, 4, 3)
			scale, ids := b.Input("scale", ir.F32, 8), b.Input("ids", ir.I32, n)
			y := x.MatMul(w).Silu().RMSNorm(scale, 1e-5).Add(x.LayerNorm(scale, frontend.Tensor{}, 1e-5))
			y = y.Concat(1, more).Slice(1, 1, 5)                                                  // [n, 4, 8]
			y = y.Conv(k, frontend.Padding(1), frontend.Stride(2)).Concat(2, y.AvgPool([]int{2})) // [n, 4, 8]
			q := y.Transpose(1, 0, 2)                                                             // [4, n, 8]
			q = q.Attention(q, q, frontend.Causal()).Concat(1, q)
			q = q.MaxPool([]int{3}, frontend.Stride(2), frontend.Padding(1)).Transpose(1, 0, 2).Slice(0, 0, n)
			rows := b.Scalar(ir.F32, 0).Broadcast(n, 16).IndexAdd(0, ids, q.Reshape(n, 16))
			y = rows.IndexSelect(0, ids).CumSum(0).Concat(0, rows).Sort(0).LogSoftmax(0)
			y = y.PadReplicate([]int{1, 0}, []int{2, 0})
			loss := y.Mean().Add(y.Slice(0, 1, n).Variance(0, 0).Sum())
			loss = loss.Add(y.SliceStep(0, 0, n.Times(2), 2).ResizeLinear(false, n, 7).Norm2())
			params := []frontend.Tensor{x, more, w, k, scale}
			for i, g := range frontend.Grad(loss, params...) {
				b.Output(params[i].Node().Name(), g)
			}
		}
	}
	have := runGrads(t, in, nil, define(func(b *frontend.Builder) ir.Dim { return b.Sym("N", 9) }))
	want := runGrads(t, in, nil, define(func(*frontend.Builder) ir.Dim { return ir.D(5) }))
	for name := range want {
		wantNear(t, name, have[name], want[name], 1e-5)
	}
}

// TestGradThroughBlocks trains two small matrices in addition to a quantized one (LoRA, Hu et al. 2021). Their
// gradients, and those of earlier values, must equal the gradients with the decoded weights.
func TestGradThroughBlocks(t *testing.T) {
	for _, format := range []ir.DType{ir.Q4_0, ir.Q4_K} {
		blocks, err := ir.NewData(format, 16, 256)
		if err != nil {
			t.Fatal(err)
		}
		row := make([]float32, 16*256)
		for i := range row {
			row[i] = float32(i*i%97)/97 - 0.5
		}
		if err := quant.Quantize(blocks.Bytes, format, row, nil); err != nil {
			t.Fatal(err)
		}
		weights := blockWeights{"w": blocks}
		in := map[string]*ir.Data{"x": randomFloats(t, 2, 3, 256), "a": randomFloats(t, 3, 2, 256),
			"b": randomFloats(t, 4, 16, 2)}
		define := func(weight func(b *frontend.Builder) frontend.Tensor) func(b *frontend.Builder) {
			return func(b *frontend.Builder) {
				x, down, up := b.Input("x", ir.F32, 3, 256), b.Input("a", ir.F32, 2, 256), b.Input("b", ir.F32, 16, 2)
				y := x.Gelu().MatMulT(weight(b)).Add(x.MatMulT(down).MatMulT(up))
				for i, g := range frontend.Grad(y.Sqr().Mean(), x, down, up) {
					b.Output([]string{"x", "a", "b"}[i], g)
				}
			}
		}
		weight := func(b *frontend.Builder) frontend.Tensor { return b.Weight("w", format, 16, 256) }
		have := runGrads(t, in, weights, define(weight))
		want := runGrads(t, in, weights, define(func(b *frontend.Builder) frontend.Tensor {
			return weight(b).Dequantize(ir.F32)
		}))
		for name := range want {
			wantNear(t, name, have[name], want[name], 1e-5)
		}
	}
}

// TestCrossEntropy compares loss and gradient with softmax and log by their definitions, for ids that count and ids
// that do not.
func TestCrossEntropy(t *testing.T) {
	x := randomFloats(t, 9, 2, 3, 7)
	ids, err := ir.FromInts(ir.I32, []int64{0, 6, -100, 3, 7, 3}, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	out := runGrads(t, map[string]*ir.Data{"x": x, "ids": ids}, nil, func(b *frontend.Builder) {
		x, ids := b.Input("x", ir.F32, 2, 3, 7), b.Input("ids", ir.I32, 2, 3)
		losses, counted := x.CrossEntropy(ids)
		n := counted.Cast(ir.F32).Sum()
		loss := losses.Sum().Div(n)
		b.Output("n", n)
		b.Output("loss", loss)
		g := frontend.Grad(loss, x)[0]
		b.Output("grad", g)
		b.Output("second", frontend.Grad(g.Sqr().Sum(), x)[0])
		right := b.Iota(ir.I32, 0, 7).Eq(ids.Unsqueeze(-1)).Cast(ir.F32) // no row where an id does not count
		plain := right.Mul(x.Softmax(-1).Log()).Sum().Neg().DivScalar(4)
		b.Output("want loss", plain)
		w := frontend.Grad(plain, x)[0]
		b.Output("want grad", w)
		b.Output("want second", frontend.Grad(w.Sqr().Sum(), x)[0])
	})
	if n, _ := out["n"].Floats(); n[0] != 4 {
		t.Errorf("%v ids count, want 4", n[0])
	}
	for _, name := range []string{"loss", "grad", "second"} {
		wantNear(t, name, out[name], out["want "+name], 1e-5)
	}
}

// TestInline takes the gradient of a graph that was built before.
func TestInline(t *testing.T) {
	g, err := frontend.Build("cube", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 3)
		b.Output("y", x.Mul(x).Mul(b.Input("z", ir.F32, 3)))
	})
	if err != nil {
		t.Fatal(err)
	}
	x := randomFloats(t, 1, 3)
	out := runGrads(t, map[string]*ir.Data{"x": x, "z": x}, nil, func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 3)
		y := b.Inline(g, map[string]frontend.Tensor{"x": x})["y"]
		b.Output("grad", frontend.Grad(y.Sum(), x)[0].DivScalar(2))
		b.Output("want", x.Sqr())
	})
	wantNear(t, "grad", out["grad"], out["want"], 1e-6)
	for want, leaves := range map[string]func(b *frontend.Builder) map[string]frontend.Tensor{
		`graph "cube" has no input, weight or state "q"`: func(b *frontend.Builder) map[string]frontend.Tensor {
			return map[string]frontend.Tensor{"q": b.Input("q", ir.F32, 3)}
		},
		`is f32[3], the tensor given for it is f32[4]`: func(b *frontend.Builder) map[string]frontend.Tensor {
			return map[string]frontend.Tensor{"x": b.Input("q", ir.F32, 4)}
		},
	} {
		_, err := frontend.Build("g", func(b *frontend.Builder) { b.Inline(g, leaves(b)) })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}

// TestGradOfTwoDTypes: the gradients of a matmul with operands of two dtypes, or with rows in blocks, equal those with
// cast operands. Each has the dtype of its operand.
func TestGradOfTwoDTypes(t *testing.T) {
	in := map[string]*ir.Data{"w": randomFloats(t, 3, 4, 32), "x": randomFloats(t, 2, 3, 32)}
	grads := func(dtype ir.DType, asRows func(x frontend.Tensor) frontend.Tensor, cast bool) map[string]*ir.Data {
		return runGrads(t, in, nil, func(b *frontend.Builder) {
			x, w := asRows(b.Input("x", ir.F32, 3, 32)), b.Input("w", ir.F32, 4, 32)
			narrow := w.Cast(dtype)
			rows, columns := x, narrow
			if cast && x.DType().IsBlock() {
				rows = x.Dequantize(ir.F32)
			} else if cast {
				rows = x.Cast(ir.F32)
			}
			if cast {
				columns = narrow.Cast(ir.F32)
			}
			params, names := []frontend.Tensor{narrow}, []string{"w"}
			if !x.DType().IsBlock() {
				params, names = append(params, x), append(names, "x")
			}
			for i, g := range frontend.Grad(rows.MatMulT(columns).Sqr().Mean(), params...) {
				if g.DType() != params[i].DType() {
					t.Errorf("the gradient of %s, %s, is %s", names[i], params[i].DType(), g.DType())
				}
				b.Output(names[i], g.Cast(ir.F32))
			}
		})
	}
	for _, rows := range []ir.DType{ir.F16, ir.BF16, ir.Q8_0} {
		for _, columns := range []ir.DType{ir.F16, ir.F32} {
			if rows == columns || rows.IsBlock() && columns != ir.F32 {
				continue
			}
			asRows := func(x frontend.Tensor) frontend.Tensor {
				if rows.IsBlock() {
					return x.Quantize(rows)
				}
				return x.Cast(rows)
			}
			have, want := grads(columns, asRows, false), grads(columns, asRows, true)
			for name := range want {
				wantNear(t, name, have[name], want[name], 1e-5)
			}
		}
	}
}

// TestGradOfWideUpdates: scatters of f32 updates into an f16 base have the same gradients as with an f32 base, each in
// its operand's dtype.
func TestGradOfWideUpdates(t *testing.T) {
	in := map[string]*ir.Data{"base": randomFloats(t, 3, 4, 6), "x": randomFloats(t, 2, 5, 6)}
	for _, mode := range []string{"add", "mul", "max"} {
		grads := func(narrow bool) map[string]*ir.Data {
			return runGrads(t, in, nil, func(b *frontend.Builder) {
				base, x := b.Input("base", ir.F32, 4, 6), b.Input("x", ir.F32, 5, 6)
				params := []frontend.Tensor{base, x}
				if narrow {
					params[0] = base.Cast(ir.F16)
				}
				rows := b.Iota(ir.I32, 0, ir.ShapeOf(5, 6)).Rem(b.Scalar(ir.I32, 3))
				y := params[0].ScatterReduce(0, mode, rows, x).Cast(ir.F32)
				for i, g := range frontend.Grad(y.Sqr().Mean(), params...) {
					if g.DType() != params[i].DType() {
						t.Errorf("%s: gradient %d is %s, its operand %s", mode, i, g.DType(), params[i].DType())
					}
					b.Output([]string{"base", "x"}[i], g.Cast(ir.F32))
				}
			})
		}
		have, want := grads(true), grads(false)
		for name := range want {
			wantNear(t, mode+" "+name, have[name], want[name], 2e-3)
		}
	}
}

// TestGradOfScatterIntoNothing: a base without elements takes no updates, so their gradient is 0.
func TestGradOfScatterIntoNothing(t *testing.T) {
	in := map[string]*ir.Data{"x": randomFloats(t, 1, 5, 6)}
	for _, mode := range []string{"", "add", "mul", "max"} {
		have := runGrads(t, in, nil, func(b *frontend.Builder) {
			x, base := b.Input("x", ir.F32, 5, 6), b.Full(ir.F32, 1, 0, 6)
			rows := b.Iota(ir.I32, 0, ir.ShapeOf(5, 6))
			y := base.Scatter(0, rows, x)
			if mode != "" {
				y = base.ScatterReduce(0, mode, rows, x)
			}
			b.Output("x", frontend.Grad(y.Sum().Add(x.Sum()), x)[0])
		})
		want := make([]float64, 5*6)
		for i := range want {
			want[i] = 1 // of x itself
		}
		d, err := ir.FromFloats(ir.F32, want, 5, 6)
		if err != nil {
			t.Fatal(err)
		}
		wantNear(t, "mode "+mode, have["x"], d, 0)
	}
}

// TestGradOfPaddingOnly: the only window of a convolution reads an element of padding, so the gradients of x and w are
// 0.
func TestGradOfPaddingOnly(t *testing.T) {
	in := map[string]*ir.Data{"x": randomFloats(t, 1, 5, 2, 1), "w": randomFloats(t, 2, 6, 2, 1)}
	have := runGrads(t, in, nil, func(b *frontend.Builder) {
		x, w := b.Input("x", ir.F32, 5, 2, 1), b.Input("w", ir.F32, 6, 2, 1)
		y := x.Conv(w, frontend.PaddingLowHigh([]int{2}, []int{0}), frontend.Stride(3))
		grads := frontend.Grad(y.Sum(), x, w)
		b.Output("x", grads[0])
		b.Output("w", grads[1])
	})
	for name, d := range have {
		want, err := ir.FromFloats(ir.F32, make([]float64, d.Elems()), d.Dims...)
		if err != nil {
			t.Fatal(err)
		}
		wantNear(t, name, d, want, 0)
	}
}

// TestGradOfConvTransposeOfNothing: the result is zeros, which depend on no weight.
func TestGradOfConvTransposeOfNothing(t *testing.T) {
	in := map[string]*ir.Data{"x": randomFloats(t, 1, 1, 2, 0), "w": randomFloats(t, 2, 2, 1, 3)}
	have := runGrads(t, in, nil, func(b *frontend.Builder) {
		x, w := b.Input("x", ir.F32, 1, 2, 0), b.Input("w", ir.F32, 2, 1, 3)
		y := x.ConvTranspose(w, frontend.Stride(2), frontend.Dilation(2), frontend.PaddingLowHigh([]int{0}, []int{2}))
		grads := frontend.Grad(y.Sum(), x, w)
		b.Output("x", grads[0])
		b.Output("w", grads[1])
	})
	for name, d := range have {
		want, err := ir.FromFloats(ir.F32, make([]float64, d.Elems()), d.Dims...)
		if err != nil {
			t.Fatal(err)
		}
		wantNear(t, name, d, want, 0)
	}
}

// TestGradOfNoSteps: a recurrence over no times keeps its state, and passes the state's gradient on.
func TestGradOfNoSteps(t *testing.T) {
	in := map[string]*ir.Data{"x": randomFloats(t, 1, 0, 2, 3), "state": randomFloats(t, 2, 2, 3, 4)}
	have := runGrads(t, in, nil, func(b *frontend.Builder) {
		x, state := b.Input("x", ir.F32, 0, 2, 3), b.Input("state", ir.F32, 2, 3, 4)
		dt, a, groups := b.Full(ir.F32, 1, 0, 2), b.Full(ir.F32, 1, 2, 4), b.Full(ir.F32, 1, 0, 1, 4)
		y, last := x.SSMScan(dt, a, groups, groups, state)
		grads := frontend.Grad(y.Sum().Add(last.Sum()), x, state)
		b.Output("x", grads[0])
		b.Output("state", grads[1])
	})
	for name, value := range map[string]float64{"x": 0, "state": 1} {
		want, err := ir.FromFloats(ir.F32, slices.Repeat([]float64{value}, int(have[name].Elems())), have[name].Dims...)
		if err != nil {
			t.Fatal(err)
		}
		wantNear(t, name, have[name], want, 0)
	}
}

// TestGradOfOneTensorTwice: if one tensor is used for several operands of an op, its gradient is the sum of their
// gradients. This also holds for second gradients.
func TestGradOfOneTensorTwice(t *testing.T) {
	x, bias := randomFloats(t, 1, 2, 5, 4), randomFloats(t, 2, 5, 5)
	grads := func(once bool) map[string]*ir.Data {
		in := map[string]*ir.Data{"x": x, "bias": bias}
		if !once {
			in["k"], in["v"] = x, x
		}
		return runGrads(t, in, nil, func(b *frontend.Builder) {
			q, mask := b.Input("x", ir.F32, 2, 5, 4), b.Input("bias", ir.F32, 5, 5)
			operands := []frontend.Tensor{q, q, q}
			if !once {
				operands = []frontend.Tensor{q, b.Input("k", ir.F32, 2, 5, 4), b.Input("v", ir.F32, 2, 5, 4)}
			}
			// all is the gradient with respect to x, wherever it stands.
			all := func(loss frontend.Tensor, more ...frontend.Tensor) (sum frontend.Tensor, rest []frontend.Tensor) {
				if once {
					g := frontend.Grad(loss, append([]frontend.Tensor{q}, more...)...)
					return g[0], g[1:]
				}
				g := frontend.Grad(loss, append(slices.Clone(operands), more...)...)
				return g[0].Add(g[1]).Add(g[2]), g[3:]
			}
			plain := operands[0].Attention(operands[1], operands[2], frontend.Causal())
			first, _ := all(plain.Sqr().Sum())
			second, _ := all(first.Sqr().Sum())
			b.Output("first", first)
			b.Output("second", second)
			biased := operands[0].Attention(operands[1], operands[2], frontend.Mask(mask))
			first, rest := all(biased.Sqr().Sum(), mask)
			b.Output("biased", first)
			b.Output("bias", rest[0])
		})
	}
	have, want := grads(true), grads(false)
	for name := range want {
		wantNear(t, name, have[name], want[name], 1e-4)
	}
}

// TestGradOfOneValueTwice: so it is where loops, branches and Remat take one value as two, or return it as two.
func TestGradOfOneValueTwice(t *testing.T) {
	type T = frontend.Tensor
	x := randomFloats(t, 1, 3, 4)
	for name, f := range map[string]func(b *frontend.Builder, a, c T) T{
		"loop state": func(b *frontend.Builder, a, c T) T {
			r := b.Loop(ir.D(3), []T{a, c}, func(_ T, s []T) []T { return []T{s[0].Mul(s[1]).Tanh(), s[1].Add(s[0])} })
			return r[0].Add(r[1])
		},
		"loop state and captured": func(b *frontend.Builder, a, c T) T {
			r := b.Loop(ir.D(3), []T{a}, func(_ T, s []T) []T { return []T{s[0].Mul(c).Tanh()} })
			return r[0]
		},
		"if": func(b *frontend.Builder, a, c T) T {
			cond := a.Sum().Gt(a.Sum().Lit(-100))
			r := b.If(cond, func() []T { return []T{a.Mul(c).Exp()} }, func() []T { return []T{a} })
			return r[0]
		},
		"remat": func(b *frontend.Builder, a, c T) T {
			return b.Remat(func() []T { return []T{a.Mul(c).Tanh().Mul(a), c.Exp()} })[0]
		},
		"remat results twice": func(b *frontend.Builder, a, c T) T {
			r := b.Remat(func() []T { y := a.Mul(c).Tanh(); return []T{y, y} })
			return r[0].Mul(r[1]).Add(r[0])
		},
	} {
		run := func(once bool) map[string]*ir.Data {
			in := map[string]*ir.Data{"a": x}
			if !once {
				in["c"] = x
			}
			return runGrads(t, in, nil, func(b *frontend.Builder) {
				a := b.Input("a", ir.F32, 3, 4)
				c := a
				if !once {
					c = b.Input("c", ir.F32, 3, 4)
				}
				grad := func(loss T) T {
					if once {
						return frontend.Grad(loss, a)[0]
					}
					g := frontend.Grad(loss, a, c)
					return g[0].Add(g[1])
				}
				g := grad(f(b, a, c).Sqr().Sum())
				b.Output("1", g)
				b.Output("2", grad(g.Sqr().Sum()))
			})
		}
		t.Run(name, func(t *testing.T) {
			have, want := run(true), run(false)
			for n := range have {
				wantNear(t, n, have[n], want[n], 1e-4)
			}
		})
	}
}

// The tables of a rotary embedding may rotate no pair. The gradient of x then passes unchanged.
func TestGradOfNoPairs(t *testing.T) {
	for _, options := range [][]frontend.RopeOption{nil, {frontend.RopeHalf()}} {
		_, err := frontend.Build("no pairs", func(b *frontend.Builder) {
			x := b.Input("x", ir.F32, ir.D(3), ir.D(4))
			none := b.Input("none", ir.F32, ir.D(3), ir.D(0))
			y := x.RopeTables(none, none, options...)
			b.Output("gradient", frontend.Grad(y.Sqr().Sum(), x)[0])
		})
		if err != nil {
			t.Error(err)
		}
	}
}
