package passes_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestLongFolds checks reductions of few long rows, which are made in chunks:
// whole and with a rest, in a row and side by side in memory, over several
// axes, and beside a symbol.
func TestLongFolds(t *testing.T) {
	shapes := []struct{ shape, axes, dtype string }{
		{"[131072]", "0", "f32"},
		{"[2,70001]", "1", "f32"},
		{"[300,401]", "0,1", "f16"},
		{"[33000,4]", "0", "f32"},
		{"[2,1200,3]", "1", "bf16"},
		{"[70000,2]", "0,1", "f32"},
		{"[T,40000]", "0,1", "f32"},
		{"[8,3,9000]", "0,2", "f32"},
	}
	for _, tt := range shapes {
		for _, op := range []string{"sum", "mean", "reduce_max", "reduce_min", "norm1", "norm2", "logsumexp", "variance"} {
			checkLongFold(t, op, tt.shape, tt.dtype, fmt.Sprintf("%%x {axes=[%s]}", tt.axes))
		}
		axis, several, _ := strings.Cut(tt.axes, ",")
		if several != "" {
			continue
		}
		for _, op := range []string{"argmax", "argmin", "softmax", "log_softmax", "l2_normalize"} {
			checkLongFold(t, op, tt.shape, tt.dtype, fmt.Sprintf("%%x {axis=%s}", axis))
		}
	}
	for _, op := range []string{"rms_norm", "layer_norm"} {
		checkLongFold(t, op, "[2,70001]", "f32", "%x")
	}
	for _, op := range []string{"sum", "prod", "reduce_max", "reduce_min"} {
		checkLongFold(t, op, "[70001]", "i32", "%x")
		checkLongFold(t, op, "[1200,3]", "i8", "%x {axes=[0]}")
	}
	for _, op := range []string{"any", "all"} {
		checkLongFold(t, op, "[70001]", "bool", "%x")
	}
}

// checkLongFold compares one op with the reference, and sees that it is made in
// more than one kernel.
func checkLongFold(t *testing.T, op, shape, dtype, args string) {
	t.Run(op+shape+dtype, func(t *testing.T) {
		g := parse(t, fmt.Sprintf("symbol T <= 3\n%%x = input {name=\"x\", dtype=%s, shape=%s}\n%%y = %s %s\noutput \"y\" %%y", dtype, shape, op, args))
		s, c, err := checkGraph(g, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Kernels) < 2 || c.ran == 0 {
			t.Errorf("%d runs of %d kernels", c.ran, len(s.Kernels))
		}
	})
}
