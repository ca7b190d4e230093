package interp

import (
	"context"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestFoldConstants folds a matmul of constants and a sum over a sequence, but nothing that depends on weights or
// symbols or exceeds the size limit.
func TestFoldConstants(t *testing.T) {
	g, err := ir.Parse(`graph "g" {
  symbol T <= 8
  %x = input {name="x", dtype=f32, shape=[2,2]}
  %t = input {name="t", dtype=f32, shape=[T]}
  %w = weight {name="w", dtype=f32, shape=[2,2]}
  %a = const {data=f32[2,2](1, 2, 3, 4)}
  %b = const {data=f32[2,2](0, 1, 1, 0)}
  %ab = matmul %a, %b
  %n = neg %ab
  %i = iota {dtype=f32, axis=0, shape=[2,2]}
  %s = sum %i {axes=[0]}
  %wa = add %w, %a
  %long = iota {dtype=f32, axis=0, shape=[100]}
  %l = sum %long {axes=[0]}
  %it = iota {dtype=f32, axis=0, shape=[T]}
  %y = add %x, %n
  %z = add %y, %s
  output "z" %z
  output "w" %wa
  output "l" %l
  output "it" %it
  output "c" %s
}`)
	if err != nil {
		t.Fatal(err)
	}
	f, err := FoldConstants(context.Background(), g, 16)
	if err != nil {
		t.Fatal(err)
	}
	text := f.String()
	for part, there := range map[string]bool{
		"matmul": false, "neg": false, "(-2.0, -1.0, -4.0, -3.0)": true, "f32[2](all 1.0)": true, "shape=[100]": true,
		"shape=[T]": true, "= sum": true, "weight": true,
	} {
		if strings.Contains(text, part) != there {
			t.Errorf("%q is there: %v, of\n%s", part, !there, text)
		}
	}
	in := map[string]*ir.Data{"x": floats(t, ir.F32, []float64{1, 2, 3, 4}, 2, 2),
		"t": floats(t, ir.F32, []float64{1}, 1)}
	weight := weights{"w": floats(t, ir.F32, []float64{5, 6, 7, 8}, 2, 2)}
	var results [2]map[string]*ir.Data
	for i, g := range []*ir.Graph{g, f} {
		p, err := New(g, Options{Weights: weight})
		if err != nil {
			t.Fatal(err)
		}
		if results[i], err = p.Run(context.Background(), in, nil); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range results[0] {
		list, err := want.Floats()
		if err != nil {
			t.Fatal(err)
		}
		wantFloats(t, results[1][name], list...)
	}
}
