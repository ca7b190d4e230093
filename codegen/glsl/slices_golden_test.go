package glsl_test

import (
	"github.com/vkc-go/vkc/codegen/glsl"
	"testing"

	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
)

// TestSlicesGolden pins the shader of a matmul of a normed row. The shader applies RoPE to queries and keys, and stores
// keys and values in their caches.
func TestSlicesGolden(t *testing.T) {
	g, err := ir.Parse(`graph "g" {
		%x = input {name="x", dtype=f32, shape=[1,256]}
		%w = weight {name="w", dtype=q8_0, shape=[768,256]}
		%k = state {name="k", dtype=f16, shape=[4,32,64]}
		%v = state {name="v", dtype=f16, shape=[4,32,64]}
		%at = input {name="at", dtype=i32, shape=[]}
		%pos = reshape %at {shape=[1]}
		%n = rms_norm %x {eps=1e-05}
		%1 = matmul %n, %w {transpose_b=true}
		%2 = slice %1 {starts=[0,0], limits=[1,256]}
		%3 = reshape %2 {shape=[4,1,64]}
		%4 = rope %3, %pos {axis=1}
		%5 = slice %1 {starts=[0,256], limits=[1,512]}
		%6 = reshape %5 {shape=[4,1,64]}
		%7 = rope %6, %pos {axis=1}
		%8 = cast %7 {dtype=f16}
		%9 = dynamic_update_slice %k, %8, %at {axis=1}
		%10 = slice %1 {starts=[0,512], limits=[1,768]}
		%11 = reshape %10 {shape=[4,1,64]}
		%12 = cast %11 {dtype=f16}
		%13 = dynamic_update_slice %v, %12, %at {axis=1}
		output "q" %4
		update %k = %9
		update %v = %13
	}`)
	check(t, err)
	caps := profile(t, "nvidia-h100")
	s, err := passes.Run(g, passes.Options{Pricer: passtest.Choices{Take: gains(caps)}})
	check(t, err)
	if len(s.Kernels) != 1 {
		t.Fatalf("%d kernels, want one:\n%s", len(s.Kernels), s.Text())
	}
	sched, _, err := schedule.Select(s.Kernels[0], caps)
	check(t, err)
	sh, err := glsl.Emit(s.Kernels[0], sched, caps, nil)
	check(t, err)
	checkGolden(t, "matvec_slices", sh.Source)
	compileAll(t, []spirv.Shader{{Name: "slices", Source: sh.Source, TargetEnv: envFor(sh.Needs)}})
}
