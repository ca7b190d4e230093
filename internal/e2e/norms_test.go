package e2e

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// TestRowsNearTheirMean: normalization of rows with nearly equal elements is as accurate as the differences, on the CPU
// and on a device, and the variance of equal elements is exactly 0. It covers rows in one workgroup, rows folded in
// chunks, adjacent rows, and rows with a symbolic extent.
func TestRowsNearTheirMean(t *testing.T) {
	t.Run("cpu", func(t *testing.T) { rowsNearTheirMean(t, openNamed(t, "cpu")) })
	t.Run("vulkan", func(t *testing.T) { rowsNearTheirMean(t, openDevice(t)) })
}

func openNamed(t *testing.T, name string) *vkc.Device {
	t.Helper()
	dev, err := vkc.OpenDevice(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

// nearRows are generators of rows with a mean and a deviation. Most give equal elements.
var nearRows = []func(r *rand.Rand) func(i int) float64{
	func(*rand.Rand) func(int) float64 { return func(int) float64 { return 1e4 / 3 } },
	func(r *rand.Rand) func(int) float64 { return func(int) float64 { return 1e4 + 0.1*r.NormFloat64() } },
	func(*rand.Rand) func(int) float64 { return func(int) float64 { return -0.1 } },
	func(r *rand.Rand) func(int) float64 { // the first element differs from the others
		return func(i int) float64 {
			if i == 0 {
				return 3e4
			}
			return -1e3 + r.NormFloat64()
		}
	},
	func(r *rand.Rand) func(int) float64 { return func(int) float64 { return r.NormFloat64() } },
}

func rowsNearTheirMean(t *testing.T, dev *vkc.Device) {
	norm := func(x frontend.Tensor) frontend.Tensor {
		return x.LayerNorm(frontend.Tensor{}, frontend.Tensor{}, 1e-5)
	}
	spread := func(axes ...int) func(x frontend.Tensor) frontend.Tensor {
		return func(x frontend.Tensor) frontend.Tensor { return x.VarianceKeep(0, axes...) }
	}
	groups := func(n int) func(x frontend.Tensor) frontend.Tensor {
		return func(x frontend.Tensor) frontend.Tensor {
			return x.GroupNorm(n, frontend.Tensor{}, frontend.Tensor{}, 1e-5)
		}
	}
	for _, tt := range []struct {
		name  string
		dims  []int // the tensor's dims, after an outermost symbol
		axis  []int // rows go along these
		split int   // of the first of these, how many rows it has, or 0
		value bool  // of a row, and not of each element
		of    func(x frontend.Tensor) frontend.Tensor
	}{
		{"layer_norm 7", []int{7}, []int{1}, 0, false, norm},
		{"layer_norm 768", []int{768}, []int{1}, 0, false, norm},
		{"layer_norm 4096", []int{4096}, []int{1}, 0, false, norm},
		{"layer_norm 66003", []int{66003}, []int{1}, 0, false, norm},
		{"group_norm", []int{8, 5, 7}, []int{1, 2, 3}, 4, false, groups(4)},
		{"instance_norm", []int{6, 50, 31}, []int{1, 2, 3}, 6, false, groups(6)},
		{"deviations", []int{40, 33}, []int{1, 2}, 0, false, func(x frontend.Tensor) frontend.Tensor {
			return x.Deviations(1, 2).Mul(x.VarianceKeep(0, 1, 2).AddScalar(1e-5).Rsqrt())
		}},
		{"variance", []int{768}, []int{1}, 0, true, spread(-1)},
		{"variance of columns", []int{1301, 3}, []int{1}, 0, true, spread(1)},
		{"variance of images", []int{3, 40, 33}, []int{2, 3}, 0, true, spread(2, 3)},
		{"variance of a long row", []int{70001}, []int{1}, 0, true, spread(1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := len(nearRows)
			g := build(t, func(b *frontend.Builder) {
				shape := []any{b.Sym("R", n)}
				for _, d := range tt.dims {
					shape = append(shape, d)
				}
				b.Output("y", tt.of(b.Input("x", ir.F32, shape...)))
			})
			x := make([]float32, n*elements(tt.dims))
			rows := rowsOf(append([]int{n}, tt.dims...), tt.axis, tt.split)
			r := rand.New(rand.NewPCG(1, 2))
			for i, row := range rows {
				next := nearRows[i%n](r)
				for j, at := range row {
					x[at] = float32(next(j))
				}
			}
			exe, err := dev.LoadGraph(context.Background(), g, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer exe.Close()
			in, err := vkc.Of(x, append([]int{n}, tt.dims...)...)
			if err != nil {
				t.Fatal(err)
			}
			out, err := exe.Run(context.Background(), vkc.Tensors{"x": in})
			if err != nil {
				t.Fatal(err)
			}
			y, err := vkc.Values[float32](out.Outputs["y"])
			if err != nil {
				t.Fatal(err)
			}
			for i, row := range rows {
				checkNear(t, x, y, row, i, tt.value)
			}
		})
	}
}

// TestGradientsFarFromZero: normalization of rows does not depend on their mean, and neither do its gradients.
func TestGradientsFarFromZero(t *testing.T) {
	t.Run("cpu", func(t *testing.T) { gradientsFarFromZero(t, openNamed(t, "cpu")) })
	t.Run("vulkan", func(t *testing.T) { gradientsFarFromZero(t, openDevice(t)) })
}

func gradientsFarFromZero(t *testing.T, dev *vkc.Device) {
	const rows, channels, length = 2, 6, 130
	g := build(t, func(b *frontend.Builder) {
		x, k := b.Input("x", ir.F32, rows, channels, length), b.Input("k", ir.F32, rows, channels, length)
		for name, y := range map[string]frontend.Tensor{
			"layer_norm": x.LayerNorm(frontend.Tensor{}, frontend.Tensor{}, 1e-5),
			"group_norm": x.GroupNorm(3, frontend.Tensor{}, frontend.Tensor{}, 1e-5),
			"variance":   x.VarianceKeep(1, 0, 2),
		} {
			b.Output(name, frontend.Grad(y.Mul(k).Sum(), x)[0])
		}
	})
	exe, err := dev.LoadGraph(context.Background(), g, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	r := rand.New(rand.NewPCG(3, 4))
	x, far, k := make([]float32, rows*channels*length), make([]float32, rows*channels*length),
		make([]float32, rows*channels*length)
	for i := range x { // all sums are exact
		x[i], k[i] = float32(r.IntN(200)-100)/512, float32(r.NormFloat64())
		far[i] = x[i] + 8192
	}
	var near map[string]*ir.Data
	for _, values := range [][]float32{x, far} {
		in := vkc.Tensors{}
		for name, v := range map[string][]float32{"x": values, "k": k} {
			if in[name], err = vkc.Of(v, rows, channels, length); err != nil {
				t.Fatal(err)
			}
		}
		out, err := exe.Run(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		if near == nil {
			near = out.Outputs
			continue
		}
		for name, want := range near {
			tol := ir.Tolerance{Eps: 100, Sum: true}
			if err := interp.Compare(out.Outputs[name], want, tol).Err(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// checkNear compares the results for row i with exact values. row has the positions of its elements in x.
func checkNear(t *testing.T, x, y []float32, row []int, i int, value bool) {
	t.Helper()
	mean, squares := 0.0, 0.0
	for _, at := range row {
		mean += float64(x[at]) / float64(len(row))
	}
	for _, at := range row {
		d := float64(x[at]) - mean
		squares += d * d / float64(len(row))
	}
	if value {
		if got := float64(y[i]); !(math.Abs(got-squares) <= 1e-5*squares) && !(squares < 1e-15 && got == 0) {
			t.Errorf("row %d, from %v on: the variance is %v, want %v", i, x[row[0]], got, squares)
		}
		return
	}
	for _, at := range row {
		want := (float64(x[at]) - mean) / math.Sqrt(squares+1e-5)
		if got := float64(y[at]); !(math.Abs(got-want) <= 1e-5*max(1, math.Abs(want))) {
			t.Fatalf("row %d: %v becomes %v, want %v", i, x[at], got, want)
		}
	}
}

func elements(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// rowsOf lists the places of the elements of each row of a tensor along axes, which are neighbours. The first of these
// is cut into split rows.
func rowsOf(dims, axes []int, split int) (rows [][]int) {
	first, last := axes[0], axes[len(axes)-1]
	outer, length, inner := elements(dims[:first]), elements(dims[first:last+1]), elements(dims[last+1:])
	split = max(split, 1)
	for o := range outer * split {
		for i := range inner {
			row := make([]int, length/split)
			for j := range row {
				row[j] = (o*length/split+j)*inner + i
			}
			rows = append(rows, row)
		}
	}
	return rows
}
