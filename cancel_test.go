package vkc_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/check"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
)

// TestWhatCancels: x-x and x/x are NaN if x is NaN or infinite, although drivers may simplify them to 0 and 1. This
// also holds if a row of one element is folded to that element.
func TestWhatCancels(t *testing.T) {
	special := []float32{1, 0, float32(math.Inf(1)), -2, float32(math.NaN()), float32(math.Inf(-1)), 1e30, 1e-30}
	x := devtest.TensorOf(t, special, 1, len(special))
	for name, of := range map[string]func(x frontend.Tensor) frontend.Tensor{
		"difference":       func(x frontend.Tensor) frontend.Tensor { return x.Sub(x) },
		"quotient":         func(x frontend.Tensor) frontend.Tensor { return x.Div(x) },
		"product":          func(x frontend.Tensor) frontend.Tensor { return x.Mul(x.Recip()) },
		"softmax":          func(x frontend.Tensor) frontend.Tensor { return x.Softmax(0) },
		"log_softmax":      func(x frontend.Tensor) frontend.Tensor { return x.LogSoftmax(0) },
		"less the largest": func(x frontend.Tensor) frontend.Tensor { return x.Sub(x.ReduceMax(0)) },
		"over the sum":     func(x frontend.Tensor) frontend.Tensor { return x.Div(x.Sum(0)) },
		"less the sum":     func(x frontend.Tensor) frontend.Tensor { return x.Sub(x.Sum(0)) },
		"less the mean":    func(x frontend.Tensor) frontend.Tensor { return x.Sub(x.Mean(0)) },
	} {
		t.Run(name, func(t *testing.T) {
			g, err := frontend.Build(name, func(b *frontend.Builder) {
				x := b.Input("x", ir.F32, 1, len(special))
				b.Output("y", of(x.Abs()))
			})
			if err != nil {
				t.Fatal(err)
			}
			checker, err := check.New(g, nil)
			if err != nil {
				t.Fatal(err)
			}
			runOnEach(t, g, vkc.Tensors{"x": x}, func(t *testing.T, exe *vkc.Executable, res *vkc.Result) {
				report, err := checker.Check(t.Context(), exe, vkc.Tensors{"x": x}, nil, res.Outputs)
				if err != nil {
					t.Fatal(err)
				}
				if err := report.Err(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestSumsOfZero: a sum of a single -0 is 0, like a sum of several. The reciprocal distinguishes 0 from -0.
func TestSumsOfZero(t *testing.T) {
	zero := devtest.TensorOf(t, []float32{float32(math.Copysign(0, -1)), 0}, 1, 2)
	g, err := frontend.Build("zeros", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 1, 2)
		b.Output("sum", x.Sum(0).Recip())
		b.Output("mean", x.Mean(0).Recip())
		b.Output("norm", x.Norm1(0).Recip())
		b.Output("of several", x.Sum().Recip())
	})
	if err != nil {
		t.Fatal(err)
	}
	runOnEach(t, g, vkc.Tensors{"x": zero}, func(t *testing.T, _ *vkc.Executable, res *vkc.Result) {
		for name, d := range res.Outputs {
			values, err := vkc.Values[float32](d)
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range values {
				if !math.IsInf(float64(v), 1) {
					t.Errorf("%s of element %d: the inverse is %v, want +Inf", name, i, v)
				}
			}
		}
	})
}

// runOnEach runs a graph without weights on each device.
func runOnEach(t *testing.T, g *ir.Graph, in vkc.Tensors,
	then func(t *testing.T, exe *vkc.Executable, res *vkc.Result)) {
	t.Helper()
	devtest.OnEach(t, func(t *testing.T, dev *vkc.Device) {
		exe, err := dev.LoadGraph(t.Context(), g, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer exe.Close()
		res, err := exe.Run(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		then(t, exe, res)
	})
}

// TestOpsRoundByThemselves: in the optimized SPIR-V of kernels the results of elementwise ops have NoContraction, but
// the additions in sums of products do not.
func TestOpsRoundByThemselves(t *testing.T) {
	devtest.NeedTools(t)
	tools, err := spirv.Find(t.Context(), spirv.FindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name     string
		of       func(x, y frontend.Tensor) frontend.Tensor
		marked   int
		unmarked bool
	}{
		{"a sum and a difference", func(x, y frontend.Tensor) frontend.Tensor { return x.Add(y).Sub(y) }, 2, false},
		{"a sum of products", func(x, y frontend.Tensor) frontend.Tensor { return x.Mul(y).Add(y.Mul(y)) }, 3, false},
		{"affine", func(x, y frontend.Tensor) frontend.Tensor { return x.Affine(2, 1).Affine(0.5, 3) }, 4, false},
		{"a matmul and what follows", func(x, y frontend.Tensor) frontend.Tensor {
			return x.MatMulT(y).Add(x.MatMulT(y).Recip())
		}, 2, true},
		{"a reduction of products", func(x, y frontend.Tensor) frontend.Tensor { return x.Mul(y).Sum(-1).AddScalar(1) }, 1, true},
	} {
		g, err := frontend.Build(tt.name, func(b *frontend.Builder) {
			b.Output("y", tt.of(b.Input("x", ir.F32, 8, 8), b.Input("y", ir.F32, 8, 8)))
		})
		if err != nil {
			t.Fatal(err)
		}
		low, err := compiler.Lower(t.Context(), g, devtest.Profile(t, "generic"), nil)
		if err != nil {
			t.Fatal(err)
		}
		marked, unmarked := 0, 0
		for _, source := range low.GLSL {
			out, _, err := tools.Compile(t.Context(), []spirv.Shader{{Name: tt.name, Source: source}},
				spirv.Options{Optimize: true})
			if err != nil {
				t.Fatal(err)
			}
			m, u := floatArithmetic(out[0].SPIRV)
			marked, unmarked = marked+m, unmarked+u
		}
		if marked < tt.marked || tt.unmarked != (unmarked > 0) {
			t.Errorf("%s: %d ops are marked, %d are not; want %d or more, and others %v, in\n%s", tt.name, marked,
				unmarked,
				tt.marked, tt.unmarked, low.GLSL)
		}
	}
}

// floatArithmetic counts a module's instructions that add, subtract, multiply or divide floats: marked counts those
// with NoContraction, unmarked the others. Fma and dot count as unmarked.
func floatArithmetic(module []byte) (marked, unmarked int) {
	const decorate, noContraction = 71, 42
	decorated := map[uint32]bool{}
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(module[4*i:]) }
	for i := 5; 4*i < len(module); i += int(word(i) >> 16) {
		switch op := word(i) & 0xffff; op {
		case decorate:
			decorated[word(i+1)] = decorated[word(i+1)] || word(i+2) == noContraction
		case 12, 129, 131, 133, 136, 142, 148: // OpExtInst, OpFAdd, OpFSub, OpFMul, OpFDiv, OpVectorTimesScalar, OpDot
			switch {
			case op == 12 && word(i+4) != 50: // of GLSL.std.450 but Fma
			case decorated[word(i+2)]:
				marked++
			default:
				unmarked++
			}
		}
	}
	return marked, unmarked
}
