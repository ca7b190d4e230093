package fast_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/runtime/cpu/fast"
)

// TestPools compares pools of all kinds with the interpreter.
func TestPools(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	for i := range 100 {
		axes := 1 + rng.IntN(3)
		lists := map[string][]string{}
		dims := []int{1 + rng.IntN(3), 1 + rng.IntN(3)}
		for range axes {
			kernel, dilation := 1+rng.IntN(4), 1+rng.IntN(2)
			pads := [2]int{rng.IntN(kernel), rng.IntN(kernel)}
			dims = append(dims, max(1, dilation*(kernel-1)+1-pads[0]-pads[1])+rng.IntN(20))
			for name, v := range map[string]int{"kernel": kernel, "stride": 1 + rng.IntN(3), "dilation": dilation,
				"padding_low": pads[0], "padding_high": pads[1]} {
				lists[name] = append(lists[name], fmt.Sprint(v))
			}
		}
		op, attrs := "max_pool", fmt.Sprintf("ceil_mode=%v", rng.IntN(2) == 0)
		if rng.IntN(2) == 0 {
			op, attrs = "avg_pool", attrs+fmt.Sprintf(", count_include_pad=%v", rng.IntN(2) == 0)
		}
		for name, list := range lists {
			attrs += fmt.Sprintf(", %s=[%s]", name, strings.Join(list, ","))
		}
		text := fmt.Sprintf(`graph "g" {
			%%x = input {name="x", dtype=f32, shape=%s}
			%%y = %s %%x {%s}
			output "y" %%y
		}`, strings.ReplaceAll(fmt.Sprint(dims), " ", ","), op, attrs)
		g, err := ir.Parse(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		values := make([]float64, volume(dims))
		for k := range values {
			values[k] = float64(rng.IntN(99) - 60)
		}
		x, err := ir.FromFloats(ir.F32, values, dims...)
		if err != nil {
			t.Fatal(err)
		}
		var results []*ir.Data
		for _, opt := range []interp.Options{{}, {Replace: fast.Kernels, Poison: true, Workers: 1 + i%3}} {
			p, err := interp.New(g, opt)
			if err != nil {
				t.Fatal(err)
			}
			out, err := p.Run(t.Context(), map[string]*ir.Data{"x": x}, nil)
			if err != nil {
				t.Fatal(err)
			}
			results = append(results, out["y"])
		}
		if err := interp.Compare(results[1], results[0], ir.Tolerance{Eps: 4}).Err(); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	}
}
