package schedule

import (
	"fmt"
	"maps"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// TestSchedulesReadApart: among all valid schedules for a device, no two different ones print the same, and normalizing
// one again changes nothing.
func TestSchedulesReadApart(t *testing.T) {
	kernels := maps.Clone(samples)
	// Each format meets floats and bytes, one of them in planes.
	for i, dt := range []ir.DType{ir.Q4_0, ir.Q2_K, ir.IQ2_XS, ir.TQ1_0} {
		for j, bytes := range []bool{false, true} {
			k, planes := blockMul(1, 4096, 4096, dt, bytes), (i+j)%2 == 0
			for b := range k.Bindings {
				if planes && k.Bindings[b].DType == dt {
					k.Bindings[b].Layout = kernel.LayoutPlanes
				}
			}
			kernels[fmt.Sprintf("%s, bytes: %t, planes: %t", dt, bytes, planes)] = k
		}
	}
	for _, name := range []string{"nvidia-h100", "lavapipe"} {
		caps := profile(t, name)
		for what, k := range kernels {
			if len(Missing(k, caps)) > 0 {
				continue
			}
			var all []kernel.Schedule
			for _, c := range Candidates(k, caps) {
				all = append(all, c.Schedule)
				for _, s := range around(c.Schedule) {
					all = append(all, normalize(k, s, caps))
				}
			}
			read, seen := map[string]kernel.Schedule{}, map[kernel.Schedule]bool{}
			for _, s := range all {
				if seen[s] {
					continue
				}
				seen[s] = true
				if refusal(k, s, caps) != nil {
					continue
				}
				if again := normalize(k, s, caps); again != s {
					t.Fatalf("%s on %s: %+v is normalized once more, as %+v", what, name, s, again)
				}
				text := s.String()
				if other, ok := read[text]; ok {
					t.Fatalf("%s on %s: %q is %+v and %+v", what, name, text, s, other)
				}
				read[text] = s
			}
		}
	}
}
