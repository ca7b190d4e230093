package ir_test

import (
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestNarrow: f64 and i64 are computed in 32 bits between inputs and outputs that keep their dtypes. A constant past
// the range of i32 keeps its op in i64.
func TestNarrow(t *testing.T) {
	g, err := ir.Parse(`graph "g" {
  %0 = input {name="x", dtype=f64, shape=[3]} : f64[3]
  %1 = input {name="n", dtype=i64, shape=[3]} : i64[3]
  %2 = const {data=f64[](0.5)} : f64[]
  %3 = mul %0, %2 : f64[3]
  %4 = const {data=i64[](3)} : i64[]
  %5 = add %1, %4 : i64[3]
  %6 = const {data=i64[](5000000000)} : i64[]
  %7 = add %5, %6 : i64[3]
  output "y" %3
  output "m" %5
  output "k" %7
}
`)
	if err != nil {
		t.Fatal(err)
	}
	narrow, err := ir.Narrow(g)
	if err != nil {
		t.Fatal(err)
	}
	text := narrow.String()
	for _, want := range []string{"mul ", ": f32[3]\n", "f32[](0.5)", "i32[](3)", "i64[](5000000000)"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for i, o := range narrow.Outputs() {
		if want := g.Outputs()[i].Node.Type(); !o.Node.Type().Equal(want) {
			t.Errorf("output %q is %s, want %s", o.Name, o.Node.Type(), want)
		}
	}
	before, _, _ := ir.Wide(g)
	after, _, _ := ir.Wide(narrow)
	if before[ir.F64] != 1 || before[ir.I64] != 2 || after[ir.F64] != 0 || after[ir.I64] != 1 {
		t.Errorf("ops in 64 bits: %v, and %v when narrow", before, after)
	}
}
