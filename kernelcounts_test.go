package vkc_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/optim"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
)

// tensors makes inputs of a shape, by name.
func tensors(b *frontend.Builder, shape []frontend.Dim, names ...string) []frontend.Tensor {
	var list []frontend.Tensor
	for _, n := range names {
		list = append(list, b.Input(n, ir.F32, shape...))
	}
	return list
}

// kernelCounts are graphs and the number of kernels that each becomes, whatever
// the device is.
var kernelCounts = []struct {
	name   string
	want   int
	define func(b *frontend.Builder)
}{
	{"adamw, one parameter, outputs", 1, func(b *frontend.Builder) {
		x := tensors(b, []frontend.Dim{96, 80}, "p", "g", "m", "v")
		p, m, v := optim.NewAdamW(1e-3).Step(x[0], x[1], x[2], x[3], b.Input("step", ir.I32))
		b.Output("p2", p)
		b.Output("m2", m)
		b.Output("v2", v)
	}},
	{"adamw, one parameter, in place on states", 1, func(b *frontend.Builder) {
		p, m, v := b.State("p", ir.F32, 96, 80), b.State("m", ir.F32, 96, 80), b.State("v", ir.F32, 96, 80)
		p2, m2, v2 := optim.NewAdamW(1e-3).Step(p, b.Input("g", ir.F32, 96, 80), m, v, b.Input("step", ir.I32))
		b.Update(p, p2)
		b.Update(m, m2)
		b.Update(v, v2)
	}},
	{"adamw, bf16 parameter and gradient", 1, func(b *frontend.Builder) {
		p, m, v := b.State("p", ir.BF16, 96, 80), b.State("m", ir.F32, 96, 80), b.State("v", ir.F32, 96, 80)
		p2, m2, v2 := optim.NewAdamW(1e-3).Step(p, b.Input("g", ir.BF16, 96, 80), m, v, b.Input("step", ir.I32))
		b.Update(p, p2)
		b.Update(m, m2)
		b.Update(v, v2)
	}},
	{"sgd with momentum, in place on states", 1, func(b *frontend.Builder) {
		p, v := b.State("p", ir.F32, 96, 80), b.State("v", ir.F32, 96, 80)
		p2, v2 := optim.SGD{Rate: 0.1, Momentum: 0.9, Nesterov: true}.Step(p, b.Input("g", ir.F32, 96, 80), v)
		b.Update(p, p2)
		b.Update(v, v2)
	}},
	{"the largest of each row, and where it is", 1, func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 3, 4096)
		best := x.Argmax(-1)
		b.Output("best", best)
		b.Output("top", x.Gather(1, best.Reshape(3, 1)).Reshape(3))
	}},
	{"matmul", 1, func(b *frontend.Builder) {
		b.Output("y", b.Input("x", ir.F32, 40, 64).MatMul(b.Weight("w", ir.F32, 64, 48)))
	}},
	// Bytes with a zero point, dequantized, multiplied and quantized: one kernel, and one that adds up weights once.
	{"dequantized bytes, matmul, bias, bytes", 2, func(b *frontend.Builder) {
		x := b.Input("x", ir.U8, 96, 64).Cast(ir.F32).AddScalar(-100).MulScalar(0.1)
		w := b.Weight("w", ir.I8, 64, 48).Cast(ir.F32).Mul(b.Weight("s", ir.F32, 48))
		y := x.MatMul(w).Add(b.Weight("b", ir.F32, 48)).MulScalar(4)
		b.Output("y", y.Round().AddScalar(128).Cast(ir.U8))
	}},
	{"matmul, bias, gelu, residual", 1, func(b *frontend.Builder) {
		y := b.Input("x", ir.F32, 40, 64).MatMul(b.Weight("w", ir.F32, 64, 48)).Add(b.Weight("b", ir.F32, 48)).Gelu()
		b.Output("y", y.Add(b.Input("r", ir.F32, 40, 48)))
	}},
	{"softmax, inner axis", 1, func(b *frontend.Builder) { b.Output("y", b.Input("x", ir.F32, 40, 64).Softmax(1)) }},
	{"softmax, outer axis", 1, func(b *frontend.Builder) { b.Output("y", b.Input("x", ir.F32, 40, 64).Softmax(0)) }},
	{"softmax, middle axis", 1, func(b *frontend.Builder) { b.Output("y", b.Input("x", ir.F32, 4, 40, 64).Softmax(1)) }},
	{"log_softmax", 1, func(b *frontend.Builder) { b.Output("y", b.Input("x", ir.F32, 40, 64).LogSoftmax(-1)) }},
	{"rms_norm", 1, func(b *frontend.Builder) {
		b.Output("y", b.Input("x", ir.F32, 40, 64).RMSNorm(b.Weight("w", ir.F32, 64), 1e-5))
	}},
	{"layer_norm", 1, func(b *frontend.Builder) {
		b.Output("y", b.Input("x", ir.F32, 40, 64).LayerNorm(b.Weight("w", ir.F32, 64),
			b.Weight("b", ir.F32, 64), 1e-5))
	}},
	{"group_norm", 1, func(b *frontend.Builder) {
		b.Output("y", b.Input("x", ir.F32, 2, 12, 5, 7).GroupNorm(3, b.Weight("w", ir.F32, 12),
			b.Weight("b", ir.F32, 12), 1e-5))
	}},
	{"batch_norm", 1, func(b *frontend.Builder) {
		b.Output("y", b.Input("x", ir.F32, 2, 12, 5, 7).BatchNorm(b.Weight("m", ir.F32, 12), b.Weight("v", ir.F32, 12),
			b.Weight("w", ir.F32, 12), b.Weight("b", ir.F32, 12), 1e-5))
	}},
	{"l2_normalize", 1, func(b *frontend.Builder) { b.Output("y", b.Input("x", ir.F32, 40, 64).L2Normalize(1, 1e-12)) }},
	{"conv2d, batch_norm, relu", 1, func(b *frontend.Builder) {
		y := b.Input("x", ir.F32, 2, 8, 16, 16).Conv(b.Weight("k", ir.F32, 16, 8, 3, 3), frontend.Padding(1))
		b.Output("y", y.BatchNorm(b.Weight("m", ir.F32, 16), b.Weight("v", ir.F32, 16), b.Weight("w", ir.F32, 16),
			b.Weight("b", ir.F32, 16), 1e-5).Relu())
	}},
	{"20 elementwise ops, 3 outputs", 1, elementwise20},
	{"add, rms_norm, the sum as second output", 1, func(b *frontend.Builder) {
		sum := b.Input("x", ir.F32, 40, 64).Add(b.Input("r", ir.F32, 40, 64))
		b.Output("sum", sum)
		b.Output("y", sum.RMSNorm(b.Weight("w", ir.F32, 64), 1e-5))
	}},
	{"two outputs from a common chain", 1, func(b *frontend.Builder) {
		y := b.Input("x", ir.F32, 40, 64).Gelu().Mul(b.Input("z", ir.F32, 40, 64))
		b.Output("tanh", y.Tanh())
		b.Output("exp", y.Exp())
	}},
	{"gradient of softmax", 1, func(b *frontend.Builder) {
		x := tensors(b, []frontend.Dim{40, 64}, "x", "g")
		gradients(b, x[0].Softmax(-1), x[1], x[0])
	}},
	{"cross-entropy and its gradient", 2, func(b *frontend.Builder) { // the mean of the losses is the second
		x := b.Input("x", ir.F32, 40, 64)
		losses, _ := x.CrossEntropy(b.Input("ids", ir.I32, 40))
		b.Output("loss", losses.Mean())
		gradients(b, losses.Mean(), b.Scalar(ir.F32, 1), x)
	}},
	{"gradient of rms_norm: rows, and the weight", 2, func(b *frontend.Builder) {
		x, w := tensors(b, []frontend.Dim{40, 64}, "x", "g"), b.Input("w", ir.F32, 64)
		gradients(b, x[0].RMSNorm(w, 1e-5), x[1], x[0], w)
	}},
	{"gradient of layer_norm: rows, weight, bias", 3, func(b *frontend.Builder) {
		x, w := tensors(b, []frontend.Dim{40, 64}, "x", "g"), tensors(b, []frontend.Dim{64}, "w", "b")
		gradients(b, x[0].LayerNorm(w[0], w[1], 1e-5), x[1], x[0], w[0], w[1])
	}},
	{"gradient of matmul: both operands", 2, func(b *frontend.Builder) {
		x, w := b.Input("x", ir.F32, 40, 64), b.Input("w", ir.F32, 64, 48)
		gradients(b, x.MatMul(w), b.Input("g", ir.F32, 40, 48), x, w)
	}},
	{"custom op between elementwise ops", 1, func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 40, 64)
		b.Output("y", frontend.CustomOp(snake, []frontend.Tensor{x.Exp(), b.Weight("alpha", ir.F32, 64)}).Relu())
	}},
	{"custom op after matmul", 1, func(b *frontend.Builder) {
		y := b.Input("x", ir.F32, 40, 64).MatMul(b.Weight("w", ir.F32, 64, 48))
		b.Output("y", frontend.CustomOp(snake, []frontend.Tensor{y, b.Weight("alpha", ir.F32, 48)}))
	}},
}

// gradients makes outputs of the gradients of a result.
func gradients(b *frontend.Builder, y, g frontend.Tensor, params ...frontend.Tensor) {
	for i, d := range frontend.VJP([]frontend.Tensor{y}, []frontend.Tensor{g}, params...) {
		b.Output("d"+params[i].Node().Name(), d)
	}
}

// elementwise20 is 20 ops, values with several uses, and three outputs.
func elementwise20(b *frontend.Builder) {
	x := tensors(b, []frontend.Dim{40, 64}, "x", "y", "z")
	t1 := x[0].Add(x[1])
	t2 := t1.Mul(x[2])
	t3 := t1.Sub(t2)
	t4 := t3.Exp()
	t5 := t2.Relu()
	t6 := t4.Add(t5)
	t7 := t6.Tanh()
	t8 := t7.Mul(b.Input("row", ir.F32, 64))
	t9 := t8.Max(t3)
	t10 := t9.Neg()
	t11 := t10.Sqr()
	t12 := t11.Add(t1)
	t13 := t12.Sigmoid()
	t14 := t13.Mul(t6)
	t15 := t14.Sub(b.Input("col", ir.F32, 40, 1))
	t16 := t15.Abs()
	t17 := t16.Min(t12)
	t18 := t17.Add(x[0])
	t19 := t18.Lt(x[1])
	b.Output("a", t19.Where(t18, t4))
	b.Output("b", t14)
	b.Output("c", t7)
}

// TestKernelCounts compiles each graph for an H100 and for lavapipe and counts
// its kernels; go test -v prints them as a table.
func TestKernelCounts(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	profiles := []string{"nvidia-h100", "lavapipe"}
	var table strings.Builder
	fmt.Fprintf(&table, "\n%-42s %12s %12s\n", "graph", profiles[0], profiles[1])
	graphs := make([]*ir.Graph, len(kernelCounts))
	for i, tt := range kernelCounts {
		graphs[i] = devtest.Build(t, tt.define)
	}
	for _, name := range profiles {
		devtest.CompileShaders(t, devtest.Profile(t, name), graphs...)
	}
	for i, tt := range kernelCounts {
		fmt.Fprintf(&table, "%-42s", tt.name)
		for _, name := range profiles {
			p, err := vkc.Compile(context.Background(), graphs[i],
				vkc.CompileOptions{Target: devtest.Profile(t, name)})
			if err != nil {
				t.Fatalf("%s on %s: %v", tt.name, name, err)
			}
			if p.Stats.Kernels != tt.want {
				t.Errorf("%s on %s: %d kernels, want %d", tt.name, name, p.Stats.Kernels, tt.want)
			}
			fmt.Fprintf(&table, " %12d", p.Stats.Kernels)
		}
		fmt.Fprintln(&table)
	}
	t.Log(table.String())
}

// TestStepKernels counts the kernels of a two-layer step on every profile. Fusion is priced for each device; no device
// may need more than two kernels above the minimum. go test -v prints a table.
func TestStepKernels(t *testing.T) {
	g := devtest.Build(t, func(b *frontend.Builder) { llamaStep(b, 2) })
	names := map[string][]string{}
	fewest := math.MaxInt
	for _, device := range device.Kinds() {
		low, err := compiler.Lower(context.Background(), g, devtest.Profile(t, device), nil)
		if err != nil {
			t.Fatalf("%s: %v", device, err)
		}
		for _, k := range low.Kernels {
			names[device] = append(names[device], k.Name)
		}
		fewest = min(fewest, len(low.Kernels))
	}
	for _, device := range device.Kinds() {
		t.Logf("%-12s %2d", device, len(names[device]))
		if len(names[device]) > fewest+2 {
			t.Errorf("%s: %d kernels, want at most %d: %s", device, len(names[device]), fewest+2,
				strings.Join(names[device], " "))
		}
	}
}
