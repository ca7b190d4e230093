package glsl_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
)

// TestConvolutionGolden pins the shaders of a convolution that reads its windows directly, and of one with materialized
// operands.
func TestConvolutionGolden(t *testing.T) {
	c := convolution{x: "8,256,56,56", w: "256,256,3,3", attrs: "padding_low=[1,1], padding_high=[1,1]"}
	for _, tt := range []struct {
		name, device string
		kernels      int
	}{
		{"conv_coopmat_windows", "amd-rdna3", 1},
		{"conv_coopmat2_stored", "nvidia-h100", 3},
	} {
		caps := profile(t, tt.device)
		opt := passes.Options{Pricer: passtest.Choices{}}
		if tt.kernels > 1 {
			opt.Pricer = passtest.Choices{Take: gains(caps)}
		}
		g := c.graph(t, ir.F16)
		_, text, err := buildWith(g, opt, func(k *kernel.Kernel) (kernel.Schedule, device.Caps, error) {
			s, _, err := schedule.Select(k, caps)
			return s, caps, err
		})
		check(t, err)
		if len(text) != tt.kernels {
			t.Fatalf("%s: %d kernels, want %d:\n%s", tt.name, len(text), tt.kernels, joined(text))
		}
		checkGolden(t, tt.name, text[len(text)-1])
		if i := slices.IndexFunc(text, func(s string) bool {
			return strings.Contains(s, "conv_argument over")
		}); i >= 0 {
			checkGolden(t, tt.name+"_argument", text[i])
		}
		compileTexts(t, text)
	}
}

// TestStoredConvolutionsCompile takes convolutions with materialized operands, on workgroup matrices, through compiler,
// optimizer and validator.
func TestStoredConvolutionsCompile(t *testing.T) {
	caps := profile(t, "nvidia-h100")
	var all []string
	for _, c := range convolutions {
		for _, sched := range []kernel.Schedule{coopMat2(128, 32, 64, 16), coopMat2(256, 64, 128, 32)} {
			if !c.stored {
				continue
			}
			_, text, err := buildWith(c.graph(t, ir.F16), implicitGEMMs,
				func(k *kernel.Kernel) (kernel.Schedule, device.Caps, error) {
					if k.Family == kernel.FamilyMatMul {
						s, err := schedule.New(k, sched, caps)
						return s, caps, err
					}
					s, _, err := schedule.Select(k, caps)
					return s, caps, err
				})
			check(t, err)
			all = append(all, text[len(text)-1])
		}
	}
	compileTexts(t, all)
}

func compileTexts(t *testing.T, text []string) {
	t.Helper()
	var sources []spirv.Shader
	for i, s := range text {
		sources = append(sources, spirv.Shader{Name: fmt.Sprint(i), Source: s, TargetEnv: envOf(s)})
	}
	compileAll(t, sources)
}

// gains accepts the rewrites that are a gain on a device.
func gains(caps device.Caps) func(kernel.Rewrite) bool {
	return func(r kernel.Rewrite) bool { return schedule.NewPricer(caps).Price(r).Gain() > 0 }
}
