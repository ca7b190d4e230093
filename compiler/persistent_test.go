package compiler_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// TestTunedPersistentKernels: if every kernel has a tuned schedule that is not the default, a program has as many
// launches as without a tuning, because kernels of persistent kernels keep their default schedules.
func TestTunedPersistentKernels(t *testing.T) {
	g, err := frontend.Build("small and large", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 1, 512)
		for i, n := range []int{384, 320, 256} {
			x = x.MatMulT(b.Weight(fmt.Sprint("w", i), ir.F32, n, x.Dim(-1))).Relu()
		}
		b.Output("large", b.Input("y", ir.F32, 65536, 256).Mul(x))
	})
	if err != nil {
		t.Fatal(err)
	}
	caps, err := device.Profile("nvidia-h200")
	if err != nil {
		t.Fatal(err)
	}
	lower := func(tuning device.Tuning) *compiler.Lowered {
		t.Helper()
		low, err := compiler.Lower(t.Context(), g, caps, tuning)
		if err != nil {
			t.Fatal(err)
		}
		return low
	}
	standard := lower(nil)
	tuning := device.Tuning{}
	for i, k := range standard.Kernels {
		for _, v := range schedule.Variants(k, caps) {
			if v.Schedule.Config().Workgroup != standard.Schedules[i].Config().Workgroup {
				tuning[schedule.TuningKey(k)] = device.Tuned{Schedule: v.Schedule}
			}
		}
	}
	joined, own := map[int]bool{}, 0 // steps of persistent kernels, and other steps with tuned schedules
	for _, p := range standard.Program.Persistent {
		for i := range p.Count {
			joined[p.First+i] = true
		}
	}
	low := lower(tuning)
	if have, want := len(low.Program.Persistent), len(standard.Program.Persistent); have != want || want == 0 {
		t.Errorf("%d persistent kernels with a tuning, and %d without", have, want)
	}
	for i, s := range low.Schedules {
		switch {
		case joined[i] && !strings.HasSuffix(low.Reasons[i], "(not as tuned: it is in a persistent kernel)"):
			t.Errorf("step %d of a persistent kernel has the schedule for this reason: %s", i, low.Reasons[i])
		case joined[i] && s != standard.Schedules[i]:
			t.Errorf("step %d of a persistent kernel has the schedule %s, want the default %s", i, s,
				standard.Schedules[i])
		case !joined[i] && s != standard.Schedules[i]:
			own++
		}
	}
	if len(joined) == len(low.Schedules) || own == 0 {
		t.Errorf("%d of %d steps are in persistent kernels, and %d others have tuned schedules", len(joined),
			len(low.Schedules), own)
	}
}
