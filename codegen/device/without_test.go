package device

import (
	"strings"
	"testing"
)

// TestWithout turns off each feature alone. The feature is then off, and unrelated features do not change.
func TestWithout(t *testing.T) {
	h100 := profileOf(t, "nvidia-h100")
	for _, name := range switchable() {
		c, err := h100.Without(name)
		if err != nil || c.Has(name) {
			t.Errorf("without %s: it has it: %v, error %v", name, c.Has(name), err)
		}
		off := 0
		for _, other := range switchable() {
			if h100.Has(other) && !c.Has(other) {
				off++
			}
		}
		if list, together := switches[name]; off > 1 && !together {
			t.Errorf("without %s: %d features are off, of %v", name, off, list)
		}
	}
}

func TestWithoutUnits(t *testing.T) {
	h100 := profileOf(t, "nvidia-h100")
	c, err := h100.Without("coopmat", "int_dot", "subgroup")
	if err != nil {
		t.Fatal(err)
	}
	f := c.Features
	if f.CooperativeMatrix || f.CooperativeMatrix2 || f.BFloat16Matrix || f.IntegerDotProduct || c.Matrices != nil ||
		c.Matrix2 != nil || c.SubgroupOps.Has(SubgroupBasic) || c.SubgroupOps.Has(SubgroupShuffle) {
		t.Errorf("features %+v, subgroups %v, %d matrices", f, c.SubgroupOps, len(c.Matrices))
	}
	if !h100.Features.CooperativeMatrix || h100.Fingerprint() == c.Fingerprint() {
		t.Error("the caps it was made of are not as they were, or code for both is taken for the same")
	}
	if old, err := h100.Without("vulkan1.2"); err != nil || old.API.SPIRV() != 3 || old.Features.CooperativeMatrix2 ||
		!old.Features.CooperativeMatrix {
		t.Errorf("without Vulkan 1.2: %v, %+v", err, old)
	}
	for _, name := range []string{"sync2", "coopmat3", ""} {
		if _, err := h100.Without(name); err == nil || !strings.Contains(err.Error(), ", coopmat, ") {
			t.Errorf("without %q: %v", name, err)
		}
	}
}
