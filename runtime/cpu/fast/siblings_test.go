package fast

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/quant"
)

// TestSiblings: matmuls of the same first argument have the same bits together as alone.
func TestSiblings(t *testing.T) { eachWidth(t, testSiblings) }

func testSiblings(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 1))
	const k = 256
	kinds := []struct {
		d         ir.DType
		cols      int
		precision string
	}{
		{ir.Q8_0, 40, ir.PrecisionBytes}, {ir.F32, 30, ir.PrecisionFull}, {ir.Q4_0, 600, ir.PrecisionBytes},
		{ir.Q8_0, 3, ir.PrecisionFull}, {ir.Q8_0, 1100, ir.PrecisionBytes}, {ir.F16, 70, ir.PrecisionFull},
	}
	weights := namedWeights{}
	for i, kind := range kinds {
		list := make([]float32, kind.cols*k)
		for j := range list {
			list[j] = float32(rng.NormFloat64())
		}
		d, err := ir.NewData(kind.d, kind.cols, k)
		if err != nil {
			t.Fatal(err)
		}
		if kind.d.IsBlock() {
			err = quant.Quantize(d.Bytes, kind.d, list, nil)
		} else {
			wide := make([]float64, len(list))
			for j, x := range list {
				wide[j] = float64(x)
			}
			ir.EncodeFloats(d.Bytes, kind.d, wide)
		}
		if err != nil {
			t.Fatal(err)
		}
		weights[fmt.Sprint("w", i)] = d
	}
	for _, rows := range []int{1, 3, 70} {
		x := make([]float64, rows*k)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		in, err := ir.FromFloats(ir.F32, x, rows, k)
		if err != nil {
			t.Fatal(err)
		}
		// run returns the results of the matmuls with these numbers, which are siblings.
		run := func(workers int, numbers ...int) map[string]*ir.Data {
			g := ir.NewGraph("siblings")
			add := func(op ir.Op, args []*ir.Node, attrs ...ir.Attr) *ir.Node {
				n, err := g.Add(op, args, attrs, "")
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			leaf := func(op ir.Op, name string, d ir.DType, dims ...int) *ir.Node {
				return add(op, nil, ir.Attr{Name: "name", Value: name}, ir.Attr{Name: "dtype", Value: d},
					ir.Attr{Name: "shape", Value: ir.ShapeOf(dims...)})
			}
			x := leaf(ir.OpInput, "x", ir.F32, rows, k)
			for _, i := range numbers {
				y := add(ir.OpMatMul, []*ir.Node{x, leaf(ir.OpWeight, fmt.Sprint("w", i), kinds[i].d, kinds[i].cols,
					k)},
					ir.Attr{Name: "transpose_b", Value: true}, ir.Attr{Name: "precision", Value: kinds[i].precision})
				if err := g.Output(fmt.Sprint("y", i), y); err != nil {
					t.Fatal(err)
				}
			}
			p, err := interp.New(g, interp.Options{Weights: weights, Replace: Kernels, Poison: true, Workers: workers})
			if err != nil {
				t.Fatal(err)
			}
			out, err := p.Run(context.Background(), map[string]*ir.Data{"x": in}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		for _, workers := range []int{1, 2, 5} {
			together := run(workers, 0, 1, 2, 3, 4, 5)
			for i, kind := range kinds {
				name := fmt.Sprint("y", i)
				if alone := run(workers, i)[name]; !slices.Equal(together[name].Bytes, alone.Bytes) {
					t.Errorf("%d rows by %d of %s, %d workers: other bits than alone", rows, kind.cols, kind.d, workers)
				}
			}
		}
	}
}
