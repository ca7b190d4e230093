package e2e

import (
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// TestProductsOfSymbols joins axes that two symbols size, takes them apart again, and lets kernels go over both at
// once.
func TestProductsOfSymbols(t *testing.T) {
	const bound = 12
	graphs := map[string]func(b *frontend.Builder, x frontend.Tensor) frontend.Tensor{
		"linear layer": func(b *frontend.Builder, x frontend.Tensor) frontend.Tensor {
			rows := x.Reshape(-1, 24).MatMul(b.Weight("w", ir.F32, 24, 16)).Gelu()
			return rows.Reshape(x.Dim(0), -1, 4, 4).Transpose(0, 2, 1, 3)
		},
		"norm and attention": func(b *frontend.Builder, x frontend.Tensor) frontend.Tensor {
			rows := x.Reshape(-1, 24).RMSNorm(b.Weight("norm", ir.F32, 24), 1e-5)
			heads := rows.Reshape(x.Dim(0), x.Dim(1), 3, 8).Transpose(0, 2, 1, 3)
			return heads.Attention(heads, heads, frontend.Causal()).Transpose(0, 2, 1, 3).Reshape(-1, 24)
		},
		"not the outermost axis": func(_ *frontend.Builder, x frontend.Tensor) frontend.Tensor {
			flat := x.Transpose(2, 0, 1).Reshape(24, -1)
			return flat.CumSum(1).Reshape(24, x.Dim(0), x.Dim(1)).Transpose(1, 0, 2).Reshape(-1, x.Dim(1))
		},
		"reduced at once": func(_ *frontend.Builder, x frontend.Tensor) frontend.Tensor {
			return x.Sub(x.Mean(0, 1)).Reshape(-1).Variance(1)
		},
		"a sum as a factor": func(b *frontend.Builder, x frontend.Tensor) frontend.Tensor {
			one := b.Weight("first", ir.F32, 1, 1, 24).Broadcast(x.Dim(0), 1, 24)
			rows := one.Concat(1, x).Reshape(-1, 24)
			return rows.Softmax(0).Reshape(x.Dim(0), -1, 24).Slice(1, 1, x.Dim(1).Plus(1))
		},
		"a square": func(_ *frontend.Builder, x frontend.Tensor) frontend.Tensor {
			scores := x.MatMul(x.T()).Reshape(x.Dim(0), -1)
			return scores.Softmax(-1).Reshape(-1, x.Dim(1))
		},
	}
	dev := openDevice(t)
	var cases []runCase
	for name, define := range graphs {
		g := build(t, func(b *frontend.Builder) {
			x := b.Input("x", ir.F32, b.Sym("B", bound), b.Sym("T", bound), 24)
			b.Output("y", define(b, x))
		})
		cases = append(cases, runCase{name, g, []map[string]int64{{"B": bound, "T": bound}, {"B": 3, "T": 5},
			{"B": 1, "T": 7}, {"B": 4, "T": 1}, {"B": 0, "T": 3}, {"B": 2, "T": 0}}})
	}
	checkRuns(t, dev, cases)
}

// TestConvOverTwoSymbols runs a convolution with symbols on both axes of an image, as one matmul.
func TestConvOverTwoSymbols(t *testing.T) {
	dev := openDevice(t)
	g := build(t, func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, b.Sym("N", 3), 4, b.Sym("H", 20), b.Sym("W", 20))
		y := x.Conv(b.Weight("w", ir.F32, 8, 4, 3, 3), frontend.Padding(1, 1), frontend.Stride(2, 2)).Relu()
		b.Output("y", y)
		b.Output("tokens", y.Reshape(x.Dim(0), 8, -1).Transpose(0, 2, 1))
	})
	checkRun(t, dev, g, []map[string]int64{{"N": 3, "H": 20, "W": 20}, {"N": 2, "H": 7, "W": 12},
		{"N": 1, "H": 1, "W": 20}, {"N": 2, "H": 5, "W": 0}})
}

// TestProductOfAWindowsExtent: the extent of the result of a window, T-2, can be a factor too. The grid is never
// computed from a symbol value that would make it negative.
func TestProductOfAWindowsExtent(t *testing.T) {
	dev := openDevice(t)
	g := build(t, func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, b.Sym("B", 4), 2, b.Sym("T", 16))
		rows := x.Conv(b.Weight("w", ir.F32, 3, 2, 3)).Transpose(0, 2, 1).Reshape(-1, 3)
		b.Output("shares", rows.Softmax(0))
		b.Output("sums", rows.Sum(0))
	})
	checkRun(t, dev, g, []map[string]int64{{"B": 4, "T": 16}, {"B": 3, "T": 5}, {"B": 2, "T": 2}})
}
