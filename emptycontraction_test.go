package vkc_test

import (
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// TestEmptyContractions sums over no elements: the result is 0 everywhere, and its epilogue is applied. In runs with a
// symbolic contraction, runs without elements follow runs with some, so that buffers have other numbers.
func TestEmptyContractions(t *testing.T) {
	g, err := frontend.Build("empty", func(b *frontend.Builder) {
		none := func(name string, dims ...int) frontend.Tensor { return b.Input(name, ir.F32, dims) }
		ids := b.Input("ids", ir.I32, []int{3, 2})
		k := b.Sym("K", 64)
		x, w := b.Input("x", ir.F32, 3, k), b.Input("w", ir.F32, k, 5)
		rows, experts := b.Input("rows", ir.F32, 3, 1, k), b.Input("experts", ir.F32, 4, 5, k)
		half := none("a", 3, 0).Cast(ir.F16)
		for name, y := range map[string]frontend.Tensor{
			"matmul":         none("b", 3, 0).MatMul(none("c", 0, 5)),
			"transposed":     none("d", 2, 3, 0).MatMulT(none("e", 2, 5, 0)),
			"half":           half.MatMulT(none("f", 5, 0).Cast(ir.F16)).Cast(ir.F32),
			"vector":         none("g", 1, 0).MatMulT(none("h", 700, 0)),
			"weights":        none("i", 3, 0).MatMulT(b.Weight("m", ir.F32, 5, 0)),
			"experts":        none("j", 3, 1, 0).MatMulID(none("k", 4, 5, 0), ids),
			"conv":           none("l", 1, 0, 6, 6).Conv(none("n", 4, 0, 3, 3)),
			"einsum":         none("o", 3, 0, 0).Reshape(3, 0).MatMul(none("p", 0, 0, 5).Reshape(0, 5)),
			"product":        none("q", 3, 0, 1).Mul(none("r", 1, 0, 5)).Sum(1),
			"symbol":         x.MatMul(w),
			"symbol experts": rows.MatMulID(experts, ids),
		} {
			b.Output(name, y.AddScalar(2))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	in := func(k int) vkc.Tensors {
		all := vkc.Tensors{}
		for _, n := range g.Leaves(ir.OpInput) {
			s, err := n.Shape().Eval(map[string]int64{"K": int64(k)})
			if err != nil {
				t.Fatal(err)
			}
			if all[n.Name()], err = ir.NewData(n.DType(), s...); err != nil {
				t.Fatal(err)
			}
			if n.DType() == ir.F32 {
				for i := range all[n.Name()].Elems() {
					all[n.Name()].Bytes[4*i+2], all[n.Name()].Bytes[4*i+3] = 0x80, 0x3f // 1
				}
			}
		}
		return all
	}
	check := func(t *testing.T, out vkc.Tensors) {
		t.Helper()
		for name, d := range out {
			values, err := d.Floats()
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range values {
				if v != 2 {
					t.Errorf("%s: element %d is %v, want 2", name, i, v)
					break
				}
			}
		}
	}
	weights := vkc.WeightMap{"m": &ir.Data{DType: ir.F32, Dims: []int{5, 0}}}
	p, err := interp.New(g, interp.Options{Weights: weights})
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Run(t.Context(), in(0), nil)
	if err != nil {
		t.Fatal(err)
	}
	check(t, out)
	devtest.OnEach(t, func(t *testing.T, dev *vkc.Device) {
		exe, err := dev.LoadGraph(t.Context(), g, weights)
		if err != nil {
			t.Fatal(err)
		}
		defer exe.Close()
		for _, k := range []int{37, 0} {
			res, err := exe.Run(t.Context(), in(k))
			if err != nil {
				t.Fatal(err)
			}
			if k == 0 {
				check(t, res.Outputs)
			}
		}
	})
}
