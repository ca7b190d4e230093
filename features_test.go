package vkc_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/spirv"
)

// TestExpressible: a device keeps what compilers know, and only that.
func TestExpressible(t *testing.T) {
	caps := profile(t, "nvidia-h100")
	caps.Features.Float8, caps.Features.Float8Matrix = true, true
	all := []string{"coopmat", "coopmat2", "int_dot", "bfloat16", "float8"}
	for _, known := range [][]string{all, nil, {"coopmat", "int_dot"}, {"coopmat2"}} {
		can := map[spirv.Feature]bool{}
		for _, name := range known {
			can[spirv.Feature(name)] = true
		}
		have, without, err := vkc.ExpressibleBy(caps, func() (map[spirv.Feature]bool, error) { return can, nil })
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
		if two := can[spirv.CoopMat] && can[spirv.CoopMat2]; f.CooperativeMatrix2 != two || (have.Matrix2 != nil) != two {
			t.Errorf("tools that know %v: coopmat2 is %t", known, f.CooperativeMatrix2)
		}
	}
	if same, without, err := vkc.ExpressibleBy(profile(t, "generic"), nil); err != nil || without != nil || same.Features != profile(t, "generic").Features {
		t.Errorf("a device without all that asks the tools: %v", without)
	}
}

// TestOldTools compiles for a device that has more than the machine's own, old
// tools can express.
func TestOldTools(t *testing.T) {
	tools, err := spirv.Find(t.Context(), spirv.FindOptions{SearchDirs: []string{"/usr/bin"}})
	if err != nil || tools.Ready() != nil {
		t.Skip("there are no tools in /usr/bin")
	}
	if known, err := tools.Supports(t.Context(), spirv.CoopMat); known || err != nil {
		t.Skip("the tools in /usr/bin are not old")
	}
	t.Setenv(spirv.ToolsEnv, "/usr/bin")
	t.Setenv("VKC_CACHE_DIR", t.TempDir())
	g, err := vkc.ReadGraph(filepath.Join("golden", "graphs", "mlp.ir"))
	if err != nil {
		t.Fatal(err)
	}
	g, err = vkc.WithPrecision(g, "half") // matrix units would do
	if err != nil {
		t.Fatal(err)
	}
	for _, again := range []bool{false, true} {
		p, err := vkc.Compile(context.Background(), g, vkc.CompileOptions{Target: profile(t, "nvidia-h100"), Validate: true})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(p.Stats.Without, string(spirv.CoopMat)) || p.Stats.CacheHit != again {
			t.Errorf("%+v", p.Stats)
		}
		for _, text := range p.Contents.GLSL {
			if strings.Contains(text, "coopmat") {
				t.Errorf("matrix units are used:\n%s", text)
			}
		}
	}
}
