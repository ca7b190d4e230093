package glsl_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/vkc-go/vkc/codegen/glsl"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/pairs"
	"github.com/vkc-go/vkc/internal/spv"
	"github.com/vkc-go/vkc/ir"
)

// TestNoBranchPerElement: shaders select 0 or -inf past an end without a branch, and decode elements without a branch.
// An unrolled step has dozens of such choices, and each two-sided branch in a loop doubles SwiftShader's time to
// compile it.
func TestNoBranchPerElement(t *testing.T) {
	caps := profile(t, "swiftshader")
	graphs := map[string]string{
		"convolution": `graph "c" {
			%x = input {name="x", dtype=f32, shape=[2,3,7,9]}
			%w = input {name="w", dtype=f32, shape=[4,3,3,3]}
			%y = conv %x, %w {padding_low=[1,1], padding_high=[1,1]}
			output "y" %y
		}`,
		"attention in tiles": `graph "a" {
			%q = input {name="q", dtype=f32, shape=[2,9,8]}
			%k = input {name="k", dtype=f32, shape=[1,9,8]}
			%m = input {name="m", dtype=f32, shape=[9,9]}
			%y = attention %q, %k, %k, %m {causal=true}
			output "y" %y
		}`,
		"attention of few rows": `graph "a" {
			%q = input {name="q", dtype=f32, shape=[1,3,12]}
			%k = input {name="k", dtype=f32, shape=[1,13,12]}
			%m = input {name="m", dtype=f32, shape=[3,13]}
			%y = attention %q, %k, %k, %m {causal=true}
			output "y" %y
		}`,
	}
	for _, of := range []string{"q", "k", "v"} {
		graphs["gradient of "+of] = fmt.Sprintf(`graph "a" {
			%%q = input {name="q", dtype=f32, shape=[2,9,8]}
			%%k = input {name="k", dtype=f32, shape=[1,9,8]}
			%%g = input {name="g", dtype=f32, shape=[2,9,8]}
			%%l = input {name="l", dtype=f32, shape=[2,9]}
			%%d = input {name="d", dtype=f32, shape=[2,9]}
			%%y = attention_grad %%q, %%k, %%k, %%g, %%l, %%d {of=%q, causal=true}
			output "y" %%y
		}`, of)
	}
	// A step reads elements of many blocks.
	for _, format := range ir.BlockFormats() {
		if f, _ := ir.BlockFormatOf(format); !f.Activations {
			graphs[f.Name] = fmt.Sprintf(`graph "m" {
				%%x = input {name="x", dtype=f32, shape=[3,40]}
				%%w = weight {name="w", dtype=%s, shape=[40,256]}
				%%y = matmul %%x, %%w
				output "y" %%y
			}`, format)
		}
	}
	// Elements are decoded and rounded to the matmul's dtype. Results are rounded outside of the loop. An element's own
	// dtype decides how it is decoded, so each dtype meets itself and the next one.
	loops := map[string]bool{}
	floats := []ir.DType{ir.F32, ir.F16, ir.BF16, ir.F8E4M3, ir.F8E5M2}
	for i, a := range floats {
		for j, b := range floats {
			if (j-i+len(floats))%len(floats) > 1 && os.Getenv(pairs.Env) != "all" {
				continue
			}
			name := fmt.Sprintf("%s by %s", a, b)
			loops[name] = true
			graphs[name] = fmt.Sprintf(`graph "m" {
				%%x = input {name="x", dtype=%s, shape=[33,67]}
				%%w = input {name="w", dtype=%s, shape=[40,67]}
				%%y = matmul %%x, %%w {transpose_b=true}
				output "y" %%y
			}`, a, b)
		}
	}
	var sources []spirv.Shader
	for name, graph := range graphs {
		kernels, symbols := lowered(t, graph)
		for _, k := range kernels {
			s, _, err := schedule.Select(k, caps)
			check(t, err)
			sh, err := glsl.Emit(k, s, caps, symbols)
			check(t, err)
			sources = append(sources, spirv.Shader{Name: name, Source: sh.Source, TargetEnv: envFor(sh.Needs)})
		}
	}
	for i, module := range compileAll(t, sources) {
		if n := twoSided(module, loops[sources[i].Name]); n > 0 {
			t.Errorf("%s: %d branches of two sides, want none in\n%s", sources[i].Name, n, sources[i].Source)
		}
	}
}

// twoSided counts the branches of a module with code on both sides, or only the ones in loops.
func twoSided(module []byte, inLoops bool) int {
	const opLoopMerge, opSelectionMerge, opLabel, opBranchConditional = 246, 247, 248, 250
	n, merge := 0, uint32(0)
	var ends []uint32 // of the loops around
	spv.Instructions(module, func(op uint32, a []uint32) {
		switch {
		case op == opLoopMerge:
			ends = append(ends, a[0])
		case op == opLabel && len(ends) > 0 && a[0] == ends[len(ends)-1]:
			ends = ends[:len(ends)-1]
		case op == opBranchConditional && merge != 0 && a[1] != merge && a[2] != merge && (len(ends) > 0 || !inLoops):
			n++
		}
		merge = 0
		if op == opSelectionMerge {
			merge = a[0]
		}
	})
	return n
}
