package schedule

import (
	"math/rand/v2"
	"os"
	"regexp"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// TestVariantsAreWhole lists the missing pieces of variants: the row in the table, its parameters, or the
// family's candidates.
func TestVariantsAreWhole(t *testing.T) {
	var names [][]string
	for _, file := range []string{"../kernel/schedule.go", "../kernel/custom.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, regexp.MustCompile(`(?m)\bVar\w+\s+Variant = "(\w+)"`).
			FindAllStringSubmatch(string(source), -1)...)
	}
	if len(names) != len(families) {
		t.Errorf("%d variants are declared, %d registered", len(names), len(families))
	}
	sampled := map[kernel.Family]bool{kernel.FamilyCustom: true} // families with candidates; custom ops name their own
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		if k := randomKernel(r); len(Candidates(k, profile(t, "nvidia-h100"))) > 0 {
			sampled[k.Family] = true
		}
	}
	for _, m := range names {
		family, ok := families[kernel.Variant(m[1])]
		if !ok {
			t.Errorf("%s has no row in families", m[1])
			continue
		}
		switch s, err := kernel.ParseSchedule([]byte(`{"variant":"` + m[1] + `"}`)); {
		case err != nil || familyOf(s) != family:
			t.Errorf("%s has parameters %T in package kernel (error %v), for family %q, want %q", m[1], s, err,
				familyOf(s), family)
		case !sampled[family]:
			t.Errorf("%s is of family %q, which has no candidates for any of 200 kernels", m[1], family)
		case len(around(s)) == 0:
			t.Errorf("%s has no other schedules to measure", m[1])
		}
	}
}
