package toolcaps

import (
	"slices"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/spirv"
)

func profile(t *testing.T, name string) device.Caps {
	t.Helper()
	caps, err := device.Profile(name)
	if err != nil {
		t.Fatal(err)
	}
	return caps
}

// TestExpressible: a device keeps exactly the features that the compilers support.
func TestExpressible(t *testing.T) {
	caps := profile(t, "nvidia-h100")
	caps.Features.Float8, caps.Features.Float8Matrix = true, true
	all := []string{"coopmat", "coopmat2", "int_dot", "bfloat16", "float8"}
	for _, known := range [][]string{all, nil, {"coopmat", "int_dot"}, {"coopmat2"}} {
		can := map[spirv.Feature]bool{}
		for _, name := range known {
			can[spirv.Feature(name)] = true
		}
		have, without, err := expressible(caps, func() (map[spirv.Feature]bool, error) { return can, nil })
		if err != nil {
			t.Fatal(err)
		}
		f := have.Features
		for _, c := range []struct {
			name string
			has  bool
		}{
			{"coopmat", f.CooperativeMatrix && have.Matrices != nil}, {"int_dot", f.IntegerDotProduct},
			{"bfloat16", f.BFloat16 || f.BFloat16Matrix}, {"float8", f.Float8 || f.Float8Matrix},
		} {
			if c.has != can[spirv.Feature(c.name)] || slices.Contains(without, c.name) == c.has {
				t.Errorf("tools that know %v: %s is %t, without %v", known, c.name, c.has, without)
			}
		}
		if two := can[spirv.CoopMat] && can[spirv.CoopMat2]; f.CooperativeMatrix2 != two ||
			(have.Matrix2 != nil) != two {
			t.Errorf("tools that know %v: coopmat2 is %t", known, f.CooperativeMatrix2)
		}
	}
	if same, without, err := expressible(profile(t, "generic"), nil); err != nil || without != nil ||
		same.Features != profile(t, "generic").Features {
		t.Errorf("a device without all that asks the tools: %v", without)
	}
}
