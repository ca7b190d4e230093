package analysis_test

import (
	"testing"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// TestStepped: a quotient is followed to a step through elementwise ops, views and maxima, but not through a sum.
func TestStepped(t *testing.T) {
	for steps, want := range map[string]bool{
		"%z = round %q":                               true,
		"%z = cast %q {dtype=i32}":                    true,
		"%z = cast %q {dtype=f8e4m3}":                 true,
		"%z = lt %q, %x":                              true,
		"%n = neg %q\n%z = mod %x, %n":                true,
		"%m = reduce_max %q\n%z = floor %m":           true,
		"%m = reshape %q {shape=[2,4]}\n%z = ceil %m": true,
		"%z = neg %q":                                 false,
		"%z = cast %q {dtype=f16}":                    false,
		"%m = sum %q\n%z = trunc %m":                  false,
		"%z = round %x":                               false,
	} {
		g, err := ir.Parse(`graph "g" {
			%x = input {name="x", dtype=f32, shape=[8]}
			%q = div %x, %x
			` + steps + `
			output "z" %z
			output "q" %q
		}`)
		if err != nil {
			t.Fatalf("%s: %v", steps, err)
		}
		if have := analysis.Stepped(g)[g.Outputs()[1].Node]; have != want {
			t.Errorf("%s: stepped is %v, want %v", steps, have, want)
		}
	}
}
