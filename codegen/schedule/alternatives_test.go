package schedule

import (
	"fmt"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/ir"
)

// TestAlternatives checks for which numbers of rows a matmul has alternatives, and their variants.
func TestAlternatives(t *testing.T) {
	q := func(bound int) ir.Dim { return ir.Symbol("Q", bound) }
	f16, q4 := ir.F16, ir.Q4_0
	for _, tt := range []struct {
		what    string
		profile string
		t       ir.DType // of B
		rows    ir.Dim
		cols    ir.Dim
		want    string
	}{
		{"tiles of 16 rows", "lavapipe", ir.F32, q(32), ir.D(4096), "Q <= 4: direct"},
		{"blocks", "lavapipe", q4, q(32), ir.D(4096), "Q <= 4: direct"},
		{"an expression", "lavapipe", ir.F32, q(32).Times(2), ir.D(4096), "Q <= 2: direct"},
		{"fewer rows than the symbol", "lavapipe", ir.F32, q(32).Plus(-2), ir.D(4096), "Q <= 6: direct"},
		{"two tiles of 10 rows are faster than one of 16 for 5 rows", "lavapipe", ir.F32, q(20), ir.D(4096), ""},
		{"the first tile is for few rows", "lavapipe", ir.F32, q(4), ir.D(4096), ""},
		{"less is saved than half a launch", "lavapipe", ir.F32, q(32), ir.D(32), ""},
		{"no columns below 21 rows", "nvidia-h100", ir.F32, q(2048), q(2048).Plus(-20), ""},
		{"a number", "lavapipe", ir.F32, ir.D(32), ir.D(4096), ""},
		{"tiles on ordinary arithmetic", "generic", q4, q(512), ir.D(4096), "Q <= 1: matvec, Q <= 4: matvec"},
		{"a matvec reads B once for one row and for eight", "nvidia-h100", f16, q(8), ir.D(4096), ""},
	} {
		caps, err := device.Profile(tt.profile)
		if err != nil {
			t.Fatal(err)
		}
		k := matMul(ir.D(1), tt.rows, tt.cols, ir.D(1024), tt.t, true)
		s, _, err := Select(k, caps)
		if err != nil {
			t.Fatal(err)
		}
		have := ""
		for i, a := range Alternatives(k, s, caps, nil) {
			have += fmt.Sprintf("%s%s <= %d: %s", map[bool]string{true: ", "}[i > 0], a.Symbol.Name, a.Symbol.Bound,
				a.Schedule.Config().Variant)
			if err := check(a.Kernel, a.Schedule, caps); err != nil || a.Gain < alternativeGain {
				t.Errorf("%s: gain %g, %v", tt.what, a.Gain, err)
			}
		}
		if have != tt.want {
			t.Errorf("%s: %q, want %q", tt.what, have, tt.want)
		}
	}
	k := rowSum(ir.F32, q(32), ir.D(4096), true)
	caps, _ := device.Profile("lavapipe")
	s, _, err := Select(k, caps)
	if list := Alternatives(k, s, caps, nil); err != nil || len(list) > 0 {
		t.Errorf("a softmax has alternatives %v, %v", list, err)
	}
}
