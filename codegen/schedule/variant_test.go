package schedule

import (
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
	if len(names) != len(variants) {
		t.Errorf("%d variants are declared, %d registered", len(names), len(variants))
	}
	for _, m := range names {
		v, ok := variants[kernel.Variant(m[1])]
		if !ok {
			t.Errorf("%s has no row in variants", m[1])
			continue
		}
		f := families[v.of()]
		switch s, err := kernel.ParseSchedule([]byte(`{"variant":"` + m[1] + `"}`)); {
		case err != nil || !v.takes(s):
			t.Errorf("%s has parameters %T in package kernel (error %v), other ones here", m[1], s, err)
		case f.candidates == nil:
			t.Errorf("%s is of family %q, which has no candidates", m[1], v.of())
		case len(around(s)) == 0:
			t.Errorf("%s has no other schedules to measure", m[1])
		}
	}
}
