package glsl

import (
	"maps"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/codegen/target"
)

// TestPairForms: what package target says that pairs do, they do, and no more.
func TestPairForms(t *testing.T) {
	want := slices.Clone(target.PairOps)
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(pairForms)); !slices.Equal(got, want) {
		t.Errorf("forms of %v, package target lists %v", got, want)
	}
	for op, form := range pairForms {
		if _, err := parseTemplate(form); err != nil {
			t.Errorf("%s: %v", op, err)
		}
	}
}
