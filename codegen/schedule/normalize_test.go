package schedule

import (
	"maps"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// TestSchedulesReadApart: among all valid schedules for a device, no two different ones print the same, and normalizing
// one again changes nothing.
func TestSchedulesReadApart(t *testing.T) {
	kernels := maps.Clone(samples)
	for _, dt := range []ir.DType{ir.Q4_0, ir.Q2_K, ir.IQ2_XS, ir.TQ1_0} {
		for _, bytes := range []bool{false, true} {
			k := blockMul(1, 4096, 4096, dt, bytes)
			kernels[map[bool]string{false: "floats by ", true: "bytes by "}[bytes]+dt.String()] = k
			planes := *k
			planes.Bindings = append([]kernel.Binding(nil), k.Bindings...)
			for i := range planes.Bindings {
				if planes.Bindings[i].DType == dt {
					planes.Bindings[i].Layout = kernel.LayoutPlanes
				}
			}
			name := map[bool]string{false: "floats by planes of ", true: "bytes by planes of "}[bytes]
			kernels[name+dt.String()] = &planes
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
			}
			for _, s := range space(k, caps) {
				all = append(all, normalize(k, s, caps))
			}
			read := map[string]kernel.Schedule{}
			for _, s := range all {
				if check(k, s, caps) != nil {
					continue
				}
				if again := normalize(k, s, caps); again != s {
					t.Fatalf("%s on %s: %+v is normalized once more, as %+v", what, name, s, again)
				}
				if other, ok := read[s.String()]; ok && other != s {
					t.Fatalf("%s on %s: %q is %+v and %+v", what, name, s, s, other)
				}
				read[s.String()] = s
			}
		}
	}
}
