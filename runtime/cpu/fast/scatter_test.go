package fast_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/runtime/cpu/fast"
)

// TestIndexed compares gathers and scatters with the interpreter: with many and few updates, of runs and of elements,
// with indices out of range and twice the same.
func TestIndexed(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 1))
	for _, tt := range []struct{ base, indices, updates, op string }{
		{"[7,5]", "[3,5]", "[3,5]", "scatter %x, %i, %u {axis=0}"},
		{"[7,5]", "[3,5]", "[3,5]", "scatter_add %x, %i, %u {axis=0, mode=MODE}"},
		{"[7,35]", "[30,35]", "[30,35]", "scatter %x, %i, %u {axis=0}"},
		{"[6,60]", "[6,29]", "[6,29]", "scatter %x, %i, %u {axis=1}"},
		{"[40000]", "[20000]", "[20000]", "scatter %x, %i, %u {axis=0}"},
		{"[12000,3]", "[17000,1]", "[17000,3]", "scatter_nd %x, %i, %u"},
		{"[2,60,3]", "[2,9,3]", "[2,9,3]", "scatter_add %x, %i, %u {axis=1, mode=MODE}"},
		{"[2,60]", "[2,9]", "[2,9]", "scatter_add %x, %i, %u {axis=1, mode=MODE}"},
		{"[5]", "[40000]", "[40000]", "scatter_add %x, %i, %u {mode=MODE}"},
		{"[5,2]", "[20000,2]", "[20000,2]", "scatter_add %x, %i, %u {mode=MODE}"},
		{"[40000]", "[20000]", "[20000]", "scatter_add %x, %i, %u {mode=MODE}"},
		{"[70000]", "[50]", "[50]", "scatter_add %x, %i, %u {mode=MODE}"},
		{"[40,2000]", "[30]", "[30,2000]", "index_add %x, %i, %u {axis=0}"},
		{"[3,40]", "[90]", "[3,90]", "index_add %x, %i, %u {axis=1}"},
		{"[8,32,1]", "[320]", "[8,32,320]", "index_add %x, %i, %u {axis=2}"},
		{"[70000]", "[0]", "[0]", "index_add %x, %i, %u {axis=0}"},
		{"[300,512]", "[0,2]", "[0]", "scatter_nd %x, %i, %u"},
		{"[300,512]", "[300,0]", "[300,0]", "scatter_add %x, %i, %u {axis=1, mode=MODE}"},
		{"[9,8,70]", "[4,2]", "[4,70]", "scatter_nd %x, %i, %u"},
		{"[9,8]", "[100,2]", "[100]", "scatter_nd_add %x, %i, %u {mode=MODE}"},
		{"[7,5]", "[3,5]", "[]", "gather %x, %i {axis=0}"},
		{"[2,7]", "[2,30]", "[]", "gather %x, %i {axis=1}"},
		{"[2,7,3]", "[2,30,3]", "[]", "gather %x, %i {axis=1}"},
		{"[3,7,3]", "[30]", "[]", "index_select %x, %i {axis=1}"},
		{"[3,7]", "[30]", "[]", "index_select %x, %i {axis=1}"},
		{"[9,8,5]", "[3,4,2]", "[]", "gather_nd %x, %i"},
	} {
		for _, d := range []string{"f32", "f16", "i32", "u32", "i8", "u8", "i16", "u16", "bool", "f64", "i64"} {
			mode := []string{"add", "mul", "min", "max"}[rng.IntN(4)]
			index := []string{"i32", "i64", "u32"}[rng.IntN(3)]
			narrow := d != "bool" && d != "f64" && d != "i64" // dtypes of which a kernel combines elements
			if !narrow && strings.Contains(tt.op, "add") || index == "u32" && rng.IntN(2) == 0 {
				continue
			}
			wide := d // updates of narrow floats may be wider
			if d == "f16" && strings.Contains(tt.op, "add") {
				wide = "f32"
			}
			g, err := ir.Parse(fmt.Sprintf(`graph "g" {
				%%x = input {name="x", dtype=%s, shape=%s}
				%%i = input {name="i", dtype=%s, shape=%s}
				%%u = input {name="u", dtype=%s, shape=%s}
				%%o = %s
				output "o" %%o
			}`, d, tt.base, index, tt.indices, wide, tt.updates, strings.ReplaceAll(tt.op, "MODE", `"`+mode+`"`)))
			if err != nil {
				t.Fatalf("%s of %s: %v", tt.op, d, err)
			}
			in := values(t, rng, g, nil)
			for _, x := range []*ir.Data{in["x"], in["u"]} {
				if x != nil && x.DType.IsInteger() {
					for i := range x.Bytes {
						x.Bytes[i] = byte(rng.Uint32())
					}
				}
			}
			most := in["x"].Dims[0] // of the axes that are indexed, about
			list := make([]float64, in["i"].Elems())
			for i := range list {
				list[i] = float64(rng.IntN(most+3) - 1)
			}
			if in["i"], err = ir.FromFloats(in["i"].DType, list, in["i"].Dims...); err != nil {
				t.Fatal(err)
			}
			if len(compare(t, g, in, nil)) != 1 {
				t.Errorf("it has no kernel: %s", g)
			}
		}
	}
}

// TestScattersWithoutUpdates: no index, of rows wide enough to be shared by several workers.
func TestScattersWithoutUpdates(t *testing.T) {
	for _, op := range []string{"scatter %x, %i, %u {axis=0}", "scatter_add %x, %i, %u {axis=0}"} {
		g, err := ir.Parse(fmt.Sprintf(`graph "g" {
			symbol T <= 4
			%%x = input {name="x", dtype=f32, shape=[3,256]}
			%%i = input {name="i", dtype=i32, shape=[T,256]}
			%%u = input {name="u", dtype=f32, shape=[T,256]}
			%%o = %s
			output "o" %%o
		}`, op))
		if err != nil {
			t.Fatal(err)
		}
		none := map[string]int64{"T": 0}
		compare(t, g, values(t, rand.New(rand.NewPCG(11, 3)), g, none), none)
	}
}

// TestScattersInPlace scatters into states. If a later node of the run fails, the states have their values of before.
func TestScattersInPlace(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 2))
	for _, tt := range []struct{ dtype, shape, updates string }{{"f32", "[80000]", "[30]"}, {"f16", "[80000]", "[30]"},
		{"f32", "[80000]", "[70000]"}, {"i32", "[80000]", "[30]"}, {"u8", "[40]", "[9]"}, {"f32", "[40]", "[40000]"},
		{"i64", "[40]", "[90]"}, {"f64", "[40,3]", "[20,3]"}} {
		text := fmt.Sprintf(`graph "g" {
			%%s = state {name="s", dtype=%s, shape=%s}
			%%i = input {name="i", dtype=i32, shape=%s}
			%%u = input {name="u", dtype=%s, shape=%s}
			%%1 = scatter_add %%s, %%i, %%u
			%%2 = scatter %%1, %%i, %%u
			%%o = scatter_add %%2, %%i, %%u
			update %%s = %%o
			%%y = input {name="y", dtype=f32, shape=[2]}
			%%z = neg %%y
			output "z" %%z
		}`, tt.dtype, tt.shape, tt.updates, tt.dtype, tt.updates)
		g, err := ir.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		want, err := interp.New(g, interp.Options{})
		if err != nil {
			t.Fatal(err)
		}
		failed, fail, inPlace := errors.New("the kernel failed"), false, 0
		have, err := interp.New(g, interp.Options{Replace: func(g *ir.Graph) []*interp.Kernel {
			list := fast.Kernels(g)
			for i, n := range g.Nodes() {
				compute := list[i]
				switch {
				case n.Op() == ir.OpNeg:
					list[i] = &interp.Kernel{Stored: -1, Fills: true, Compute: func(c *interp.Call) error {
						if clear(c.Out); fail {
							return failed
						}
						return nil
					}}
				case compute != nil:
					k := *compute
					k.Compute = func(c *interp.Call) error {
						if c.InPlace {
							inPlace++
						}
						return compute.Compute(c)
					}
					list[i] = &k
				}
			}
			return list
		}})
		if err != nil {
			t.Fatal(err)
		}
		for run := range 4 {
			in := values(t, rng, g, nil)
			list := make([]float64, in["i"].Elems())
			for i := range list {
				list[i] = float64(rng.IntN(42) - 1)
			}
			if in["i"], err = ir.FromFloats(ir.I32, list, in["i"].Dims...); err != nil {
				t.Fatal(err)
			}
			before, err := have.State("s")
			if err != nil {
				t.Fatal(err)
			}
			if fail = run%2 == 1; !fail {
				if _, err := want.Run(t.Context(), in, nil); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := have.Run(t.Context(), in, nil); (err != nil) != fail {
				t.Fatal(err)
			}
			after, err := have.State("s")
			if err != nil {
				t.Fatal(err)
			}
			if fail && !bytes.Equal(before.Bytes, after.Bytes) {
				t.Errorf("%s%s, %s: a failed run changes the state", tt.dtype, tt.shape, tt.updates)
			}
			right, err := want.State("s")
			if err != nil {
				t.Fatal(err)
			}
			tol := interp.ToleranceOf(g, g.Updates()[0].Value)
			if err := interp.Compare(after, right, tol).Err(); err != nil {
				t.Errorf("%s%s, %s: %v", tt.dtype, tt.shape, tt.updates, err)
			}
		}
		kernels := 3
		if strings.HasSuffix(tt.dtype, "64") { // kernels do not add these
			kernels = 1
		}
		if inPlace != kernels*4 {
			t.Errorf("%s%s, %s: %d scatters are in place, want %d", tt.dtype, tt.shape, tt.updates, inPlace, kernels*4)
		}
	}
}
