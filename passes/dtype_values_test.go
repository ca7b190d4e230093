package passes_test

import (
	"testing"

	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/passes"
)

// TestValuesOfDType: inside a kernel too, the value of each op is one of its
// dtype, and an op that is made of several ops is rounded once.
func TestValuesOfDType(t *testing.T) {
	for _, c := range []struct {
		name, text string
		in         map[string]*ir.Data
	}{
		{"twice the largest f16 is infinite", `
			%x = input {name="x", dtype=f16, shape=[2]}
			%two = add %x, %x
			%y = is_inf %two
			output "y" %y`, map[string]*ir.Data{"x": halves(t, 65504, 1)}},
		{"a product of f16 is f16 to what follows", `
			%x = input {name="x", dtype=f16, shape=[1,2]}
			%w = input {name="w", dtype=f16, shape=[2,1]}
			%p = matmul %x, %w
			%y = is_inf %p
			output "y" %y`, map[string]*ir.Data{"x": shaped(halves(t, 300, 300), 1, 2), "w": shaped(halves(t, 300, 300), 2, 1)}},
		{"digits that f16 does not hold are gone", `
			%x = input {name="x", dtype=f16, shape=[2]}
			%up = affine %x {mul=1.0, add=2048.0}
			%y = affine %up {mul=1.0, add=-2048.0}
			output "y" %y`, map[string]*ir.Data{"x": halves(t, 0.75, 1.5)}},
		{"a sum over two symbolic axes is rounded once", `
			symbol S <= 4
			symbol T <= 4
			%x = input {name="x", dtype=f16, shape=[T,S]}
			%y = sum %x
			output "y" %y`, map[string]*ir.Data{"x": shaped(halves(t, 65504, 65504, -65504, -65504), 2, 2)}},
		{"batch_norm is rounded once", `
			%x = input {name="x", dtype=f16, shape=[1,2,1]}
			%m = input {name="m", dtype=f16, shape=[2]}
			%y = batch_norm %x, %m, %m
			output "y" %y`, map[string]*ir.Data{"x": shaped(halves(t, -65504, 3), 1, 2, 1), "m": halves(t, 65504, 2)}},
		{"scatter_add is rounded once", `
			%x = input {name="x", dtype=f16, shape=[1]}
			%i = input {name="i", dtype=i32, shape=[2]}
			%u = input {name="u", dtype=f16, shape=[2]}
			%y = scatter_add %x, %i, %u {axis=0}
			output "y" %y`, map[string]*ir.Data{"x": halves(t, -65504), "i": {DType: ir.I32, Dims: []int{2}, Bytes: make([]byte, 8)}, "u": halves(t, 65504, 65504)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := passtest.Parse(t, c.text)
			s, err := passes.Run(g, passes.Options{})
			if err != nil {
				t.Fatal(err)
			}
			symbols := map[string]int64{"T": 2, "S": 2}
			if len(g.Symbols()) == 0 {
				symbols = nil
			}
			have, want := passtest.RunKernels(t, s, nil, c.in, symbols), passtest.RunReference(t, g, nil, c.in, symbols)
			if err := interp.Compare(have["y"], want["y"], ir.Tolerance{Eps: 2}).Err(); err != nil {
				t.Errorf("%v\n%s", err, s.Text())
			}
		})
	}
}

func halves(t *testing.T, values ...float64) *ir.Data {
	t.Helper()
	d, err := ir.FromFloats(ir.F16, values, len(values))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func shaped(d *ir.Data, dims ...int) *ir.Data {
	d.Dims = dims
	return d
}
