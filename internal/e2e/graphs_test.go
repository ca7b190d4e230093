package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/pairs"
	"github.com/vkc-go/vkc/ir"
)

// build is frontend.Build that fails the test.
func build(t *testing.T, define func(b *frontend.Builder)) *ir.Graph {
	t.Helper()
	g, err := frontend.Build(strings.ReplaceAll(t.Name(), "/", " "), define)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestRows(t *testing.T) {
	dev := openDevice(t)
	ops := map[string]func(b *frontend.Builder, x frontend.Tensor, n int) frontend.Tensor{
		"softmax":   func(_ *frontend.Builder, x frontend.Tensor, _ int) frontend.Tensor { return x.Softmax(-1) },
		"logsumexp": func(_ *frontend.Builder, x frontend.Tensor, _ int) frontend.Tensor { return x.LogSumExp(-1) },
		"rms_norm": func(b *frontend.Builder, x frontend.Tensor, n int) frontend.Tensor {
			return x.RMSNorm(b.Weight("w", ir.F32, n), 1e-6)
		},
		"layer_norm": func(b *frontend.Builder, x frontend.Tensor, n int) frontend.Tensor {
			return x.LayerNorm(b.Weight("w", ir.F32, n), b.Weight("b", ir.F32, n), 1e-5)
		},
		"sum and max": func(_ *frontend.Builder, x frontend.Tensor, _ int) frontend.Tensor {
			return x.Sum(-1).Add(x.ReduceMax(-1))
		},
		"argmax": func(_ *frontend.Builder, x frontend.Tensor, _ int) frontend.Tensor { return x.Argmax(-1) },
	}
	var cases []runCase
	for i, name := range slices.Sorted(maps.Keys(ops)) {
		op := ops[name]
		for j, n := range []int{1, 7, 64, 100, 257, 4096, 5003} {
			if (i+j)%2 == 0 && os.Getenv(pairs.Env) != "all" { // each op has short and long rows
				continue
			}
			g := build(t, func(b *frontend.Builder) {
				x := b.Input("x", ir.F32, b.Sym("R", 40), n)
				b.Output("y", op(b, x, n))
			})
			cases = append(cases, runCase{fmt.Sprint(name, n), g, lengths("R", 40, 0, 1, 3, 33)})
		}
	}
	checkRuns(t, dev, cases)
}

// TestSoftmaxSymbolicRow varies the length of the row itself, down to nothing.
func TestSoftmaxSymbolicRow(t *testing.T) {
	dev := openDevice(t)
	g := build(t, func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 3, b.Sym("N", 700))
		b.Output("y", x.Softmax(-1))
		b.Output("columns", x.Softmax(0))
	})
	checkRun(t, dev, g, lengths("N", 700, 0, 1, 2, 63, 64, 65, 699, 5))
}

func TestMatMul(t *testing.T) {
	dev := openDevice(t)
	var cases []runCase
	for i, s := range [][3]int{{1, 1, 1}, {1, 7, 33}, {5, 3, 129}, {3, 64, 1}, {64, 64, 64}, {65, 67, 129},
		{130, 31, 257}, {8, 512, 256}, {1, 1000, 513}} {
		for j, dtype := range []ir.DType{ir.F32, ir.F16, ir.BF16} {
			if i%3 != j && os.Getenv(pairs.Env) != "all" { // each dtype has shapes of every kind
				continue
			}
			g := build(t, func(b *frontend.Builder) {
				x := b.Input("x", ir.F32, b.Sym("M", s[0]), s[2])
				w, wt := b.Weight("w", dtype, s[2], s[1]), b.Weight("wt", dtype, s[1], s[2])
				b.Output("y", x.MatMul(w.Cast(ir.F32)))
				b.Output("relu", x.MatMulT(wt.Cast(ir.F32)).Relu())
			})
			cases = append(cases, runCase{fmt.Sprint(s, dtype), g, lengths("M", int64(s[0]), 0, 1, int64(s[0]+1)/2)})
		}
	}
	checkRuns(t, dev, cases)
}

func TestBatchedMatMul(t *testing.T) {
	dev := openDevice(t)
	g := build(t, func(b *frontend.Builder) {
		n := b.Sym("T", 70)
		q, k := b.Input("q", ir.F32, 3, 4, n, 33), b.Input("k", ir.F32, 3, 4, n, 33)
		b.Output("scores", q.MatMulT(k))
		b.Output("mixed", q.MatMulT(k).Softmax(-1).MatMul(k))
	})
	checkRun(t, dev, g, lengths("T", 70, 1, 0, 17, 64))
}

// quantTypes are block dtypes of each layout that weights come in.
var quantTypes = []ir.DType{ir.Q8_0, ir.Q4_0, ir.Q4_1, ir.Q5_0, ir.Q5_1, ir.Q4_K, ir.Q6_K, ir.IQ2_S, ir.IQ4_XS}

func TestQuantizedProducts(t *testing.T) {
	dev := openDevice(t)
	var cases []runCase
	for _, dtype := range quantTypes {
		k := max(96, dtype.BlockElems()*2)
		g := build(t, func(b *frontend.Builder) {
			x := b.Input("x", ir.F32, b.Sym("M", 40), k)
			w := b.Weight("w", dtype, 37, k)
			b.Output("y", x.MatMulT(w))
			b.Output("silu", x.MatMulT(b.Weight("gate", dtype, 130, k)).Silu().
				Mul(x.MatMulT(b.Weight("up", dtype, 130, k))))
		})
		cases = append(cases, runCase{dtype.String(), g, lengths("M", 40, 1, 5, 0, 33)})
	}
	checkRuns(t, dev, cases)
}

func TestQuantizedMatVec(t *testing.T) {
	dev := openDevice(t)
	var cases []runCase
	for _, dtype := range quantTypes {
		g := build(t, func(b *frontend.Builder) {
			x := b.Input("x", ir.F32, 1, 768)
			b.Output("y", x.MatMulT(b.Weight("w", dtype, 301, 768)))
		})
		cases = append(cases, runCase{dtype.String(), g, once})
	}
	checkRuns(t, dev, cases)
}

func TestQuantizedEmbedding(t *testing.T) {
	dev := openDevice(t)
	var cases []runCase
	for _, dtype := range quantTypes {
		g := build(t, func(b *frontend.Builder) {
			ids := b.Input("ids", ir.I32, b.Sym("T", 50)) // some outside 0..8
			table := b.Weight("table", dtype, 9, dtype.BlockElems())
			b.Output("rows", table.Embedding(ids, ir.F32))
			b.Output("all", table.Dequantize(ir.F32))
		})
		cases = append(cases, runCase{dtype.String(), g, lengths("T", 50, 0, 1, 13)})
	}
	checkRuns(t, dev, cases)
}

func TestMLP(t *testing.T) {
	dev := openDevice(t)
	g := build(t, func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, b.Sym("N", 64), 100)
		for i, width := range []int{33, 257, 10} {
			name := fmt.Sprint("layer", i)
			in := x.Dim(-1)
			x = x.MatMulT(b.Weight(name+".w", ir.F32, width, in)).Add(b.Weight(name+".b", ir.F32, width))
			if i < 2 {
				x = x.Gelu()
			}
		}
		b.Output("logits", x)
		b.Output("p", x.Softmax(-1))
		b.Output("class", x.Argmax(-1))
	})
	checkRun(t, dev, g, lengths("N", 64, 1, 0, 17))
}

// TestCache appends to a cache at an advancing position, and attends to all entries so far.
func TestCache(t *testing.T) {
	dev := openDevice(t)
	const heads, kvHeads, width, context = 4, 2, 32, 24
	g := build(t, func(b *frontend.Builder) {
		n, past := b.Sym("T", 8), b.Sym("S", context)
		at := b.DimValue(past)
		q := b.Input("q", ir.F32, heads, n, width)
		x := b.Input("kv", ir.F32, kvHeads, n, width)
		k, v := b.State("k", ir.F32, kvHeads, context, width), b.State("v", ir.F32, kvHeads, context, width)
		calls := b.State("calls", ir.I32)
		start := at.Sub(b.DimValue(n)) // S includes the new rows
		newK, newV := k.DynamicUpdateSlice(1, x, start), v.DynamicUpdateSlice(1, x.MulScalar(2), start)
		b.Update(k, newK)
		b.Update(v, newV)
		b.Update(calls, calls.AddScalar(1))
		b.Output("y", q.Attention(newK.Slice(1, 0, past), newV.Slice(1, 0, past), frontend.Scale(0.2)))
		b.Output("calls", calls)
	})
	var symbols []map[string]int64
	past := int64(0)
	for _, n := range []int64{5, 1, 1, 8, 2, 1, 1, 3, 1, 1} {
		past += n
		symbols = append(symbols, map[string]int64{"T": n, "S": past})
	}
	checkRun(t, dev, g, symbols)
}

// TestStates swaps two states and counts in a third, all from their values before the run.
func TestStates(t *testing.T) {
	dev := openDevice(t)
	g := build(t, func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 300)
		p, q, sum := b.State("p", ir.F32, 300), b.State("q", ir.F32, 300), b.State("sum", ir.F32, 300)
		b.Update(p, q.Add(x))
		b.Update(q, p)
		b.Update(sum, sum.Add(p))
		b.Output("before", sum)
		b.Output("after", sum.Add(p))
	})
	checkRun(t, dev, g, []map[string]int64{nil, nil, nil, nil, nil})
}

// TestGoldenGraphs runs the graphs that lie in the repository at random lengths.
func TestGoldenGraphs(t *testing.T) {
	dev := openDevice(t)
	files, err := filepath.Glob("../../golden/graphs/*.ir")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d graphs, %v", len(files), err)
	}
	var cases []runCase
	for _, file := range files {
		g, err := vkc.ReadGraph(file)
		if err != nil {
			t.Fatal(err)
		}
		cases = append(cases, runCase{filepath.Base(file), g, valuesOf(g, 1).Symbols(8)})
	}
	checkRuns(t, dev, cases)
}
