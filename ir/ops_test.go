package ir

import (
	"math"
	"slices"
	"testing"
)

// TestEveryOpHasACompleteRow fails on any gap in the op table.
func TestEveryOpHasACompleteRow(t *testing.T) {
	for _, op := range Ops() {
		in := opTable[op]
		if in == nil {
			t.Errorf("op %d of ir/ops.go has no row: write it in ir/ops_*.go", op)
			continue
		}
		if in.Name == "" || in.Class == 0 || in.Infer == nil || in.Doc == "" {
			t.Errorf("%s: name, class, rule or doc is missing", in.Name)
		}
		if in.Class == ClassLeaf != (len(in.Args) == 0) {
			t.Errorf("%s: class %s with %d arguments", in.Name, in.Class, len(in.Args))
		}
		for i, a := range in.Args {
			if a.Name == "" || a.Variadic && i != len(in.Args)-1 {
				t.Errorf("%s: argument %d is declared badly", in.Name, i)
			}
		}
		for _, a := range in.Attrs {
			if a.Name == "" || a.Kind == 0 || a.Doc == "" {
				t.Errorf("%s: attribute %q is declared badly", in.Name, a.Name)
			}
			tried := in.Class == ClassElementwise && !in.Converts() || in.Class == ClassReduce
			if tried && a.Default == nil && len(a.Samples) == 0 && a.Name != "axis" {
				t.Errorf("%s: give attribute %s of the row in ir/ops_*.go samples to try the op with", in.Name, a.Name)
			}
			for _, v := range a.Samples {
				if err := checkAttr(a, v); err != nil {
					t.Errorf("%s: sample of %s: %v", in.Name, a.Name, err)
				}
			}
			if a.Default != nil {
				if err := checkAttr(a, a.Default); err != nil {
					t.Errorf("%s: default of %s: %v", in.Name, a.Name, err)
				}
			}
		}
		if in.Class != ClassElementwise || in.Converts() {
			continue
		}
		ks := in.kinds()
		if len(ks) == 0 {
			t.Errorf("%s: no GLSL form", in.Name)
		}
		hasInt := in.GLSL.Int != "" || in.GLSL.Uint != "" || in.GLSL.Bool != ""
		takenApart := in.Op == OpClamp || in.Op == OpAffine // of integers they are two other ops
		if slices.Contains(ks, KindFloat) != (in.Float != nil) || (hasInt || takenApart) != (in.Int != nil) {
			t.Errorf("%s: the references do not match the GLSL forms %v", in.Name, ks)
		}
	}
}

func TestParseOpSuggests(t *testing.T) {
	if _, err := ParseOp("mat_mul"); err == nil ||
		err.Error() != `unknown op "mat_mul": did you mean "matmul"? docs/OPS.md lists all ops` {
		t.Errorf("got %v", err)
	}
	if op, err := ParseOp("softmax"); err != nil || op != OpSoftmax {
		t.Errorf("got %v, %v", op, err)
	}
}

func TestMinMaxPropagateNaN(t *testing.T) {
	nan := math.NaN()
	for _, op := range []Op{OpMin, OpMax} {
		for _, x := range [][]float64{{math.Inf(1), nan}, {nan, math.Inf(-1)}, {nan, 0}, {math.Inf(-1), nan}} {
			if got := op.Info().Float(x, nil); got == got {
				t.Errorf("%s%v = %v, want NaN", op, x, got)
			}
		}
	}
}

// TestFunctionsNearTheEnds: exponentials near the largest f64, and logarithms of subnormal numbers, agree with the C
// library's.
func TestFunctionsNearTheEnds(t *testing.T) {
	for _, c := range []struct {
		op      Op
		x, want float64
	}{
		{OpExp, 709.5, 1.3549863193146328e308}, {OpExp, 709.78, 1.7928227943945155e308}, {OpExp, 709.79, math.Inf(1)},
		{OpLog, 5e-324, -744.4400719213812}, {OpLog, 1e-310, -713.8013788281542}, {OpLog, 0, math.Inf(-1)},
		{OpCosh, 710.4, 1.6663642832806494e308}, {OpSinh, -710.4, -1.6663642832806494e308},
		{OpSinh, math.Inf(-1), math.Inf(-1)}, {OpSigmoid, -709.5, 1 / 1.3549863193146328e308},
	} {
		have := c.op.Info().Float([]float64{c.x}, nil)
		if have != c.want && !(math.Abs(have/c.want-1) < 4*0x1p-52) {
			t.Errorf("%s of %g is %g, want %g", c.op, c.x, have, c.want)
		}
	}
}
