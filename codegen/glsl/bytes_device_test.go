package glsl_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/codegen/glsl"
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/runtime/vk"
)

// TestBytesWithoutDotProducts runs int8 matmuls as on a device without an instruction for packed dot products.
func TestBytesWithoutDotProducts(t *testing.T) {
	dev := vktest.Device(t, vk.DeviceOptions{})
	caps := dev.Caps()
	caps.Features.IntegerDotProduct = false
	cases := slices.DeleteFunc(matCases(), func(c matCase) bool { return !c.p.integers() })
	if len(cases) == 0 {
		t.Fatal("no case is of bytes")
	}
	shaders, sources := make([]*glsl.Shader, len(cases)), make([]spirv.Shader, len(cases))
	for i := range cases {
		c := &cases[i]
		if len(c.symbols) == 0 {
			c.symbols = []int64{0}
		}
		if c.s.Config().Subgroup > 0 {
			c.s = relying(caps, c.s)
		}
		k := c.p.kernel()
		sh, err := glsl.Emit(k, c.s, caps, k.Symbols())
		check(t, err)
		if slices.Contains(sh.Needs, emit.NeedIntDot) {
			t.Errorf("%s needs what the device lacks", c.name)
		}
		shaders[i], sources[i] = sh, spirv.Shader{Name: fmt.Sprintf("case%d", i), Source: sh.Source,
			TargetEnv: envFor(sh.Needs)}
	}
	modules := compileSampled(t, sources)
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, symbol := range c.symbols {
				c.compare(t, dev, shaders[i], c.p.kernel(), modules[i], symbol)
			}
		})
	}
}
