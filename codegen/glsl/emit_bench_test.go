package glsl_test

import (
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
)

// BenchmarkEmit writes the kernels of the golden shaders.
func BenchmarkEmit(b *testing.B) {
	caps, err := device.Profile("nvidia-h100")
	check(b, err)
	type shader struct {
		k       *kernel.Kernel
		s       kernel.Schedule
		symbols []string
	}
	var all []shader
	for _, c := range goldenCases {
		kernels, symbols := lowered(b, c.graph)
		for _, k := range kernels {
			s, _, err := schedule.Select(k, caps)
			check(b, err)
			if c.schedule != nil {
				s = c.schedule(s)
			}
			all = append(all, shader{k, s, symbols})
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, one := range all {
			_, err := glsl.Emit(one.k, one.s, caps, one.symbols)
			check(b, err)
		}
	}
}
