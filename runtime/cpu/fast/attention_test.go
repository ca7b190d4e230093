package fast_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestAttentionExtremes compares the ops of attention's gradient for scores that are infinite or NaN, for queries that
// see nothing, and for keys with NaN that no query sees.
func TestAttentionExtremes(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	rng := rand.New(rand.NewPCG(5, 8))
	for what, change := range map[string]func(in map[string][]float64){
		"nothing": func(map[string][]float64) {},
		"a key that none sees": func(in map[string][]float64) {
			in["k"][17*4], in["v"][17*4], in["v"][17*4+1] = nan, nan, inf
		},
		"an infinite score":       func(in map[string][]float64) { in["mask"][3*18+2], in["mask"][4*18+1] = inf, nan },
		"queries that see no key": func(in map[string][]float64) { in["lse"][2], in["lse"][16] = -inf, inf },
		"a gradient of NaN":       func(in map[string][]float64) { in["grad"][5*4], in["delta"][6] = nan, inf },
	} {
		for _, op := range []string{"attention_lse %q, %k, %mask {causal=true}",
			"attention_grad %q, %k, %v, %grad, %lse, %delta, %mask {causal=true, of=\"q\"}",
			"attention_grad %q, %k, %v, %grad, %lse, %delta, %mask {causal=true, of=\"k\"}",
			"attention_grad %q, %k, %v, %grad, %lse, %delta, %mask {causal=true, of=\"v\"}"} {
			dims := map[string][]int{"q": {1, 17, 4}, "k": {1, 18, 4}, "v": {1, 18, 4}, "grad": {1, 17, 4},
				"lse": {1, 17}, "delta": {1, 17}, "mask": {17, 18}}
			lists, text := map[string][]float64{}, "graph \"g\" {\n"
			for _, name := range slices.Sorted(maps.Keys(dims)) {
				d := dims[name]
				n := 1
				for _, x := range d {
					n *= x
				}
				for range n {
					lists[name] = append(lists[name], rng.NormFloat64()/2)
				}
				text += fmt.Sprintf("%%%s = input {name=%q, dtype=f32, shape=%v}\n", name, name, ir.ShapeOf(d...))
			}
			for i := range 17 { // the last key is masked
				lists["mask"][i*18+17] = -inf
			}
			change(lists)
			in := map[string]*ir.Data{}
			for name, list := range lists {
				d, err := ir.FromFloats(ir.F32, list, dims[name]...)
				if err != nil {
					t.Fatal(err)
				}
				in[name] = d
			}
			g, err := ir.Parse(text + "%o = " + op + "\noutput \"o\" %o\n}")
			if err != nil {
				t.Fatal(err)
			}
			t.Run(what+"/"+op, func(t *testing.T) { compare(t, g, in, nil) })
		}
	}
}
