package glsl_test

import (
	"fmt"
	"testing"

	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/codegen/target"
	"github.com/vkc-go/vkc/internal/spv"
	"github.com/vkc-go/vkc/ir"
)

// TestNoBranchPerElement: what is 0 or -inf past an end is selected, by no
// branch. An unrolled step has dozens of such choices, and SwiftShader takes
// twice as long to compile a loop for each branch of two sides in it. Nor does it take one to decode an element.
func TestNoBranchPerElement(t *testing.T) {
	caps := profile(t, "lavapipe")
	caps.VendorID = target.VendorGoogle
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
	var sources []spirv.Shader
	for name, graph := range graphs {
		kernels, symbols := lowered(t, graph)
		for _, k := range kernels {
			s, _, err := target.Select(k, caps)
			check(t, err)
			sh, err := emit(k, s, caps, symbols)
			check(t, err)
			sources = append(sources, spirv.Shader{Name: name, Source: sh.Source, TargetEnv: envFor(sh.Needs)})
		}
	}
	for i, module := range compileAll(t, sources) {
		if n := twoSided(module); n > 0 {
			t.Errorf("%s: %d branches of two sides, want none in\n%s", sources[i].Name, n, sources[i].Source)
		}
	}
}

// twoSided counts the branches of a module that do something either way.
func twoSided(module []byte) int {
	const opSelectionMerge, opBranchConditional = 247, 250
	n, merge := 0, uint32(0)
	spv.Instructions(module, func(op uint32, a []uint32) {
		if op == opBranchConditional && merge != 0 && a[1] != merge && a[2] != merge {
			n++
		}
		merge = 0
		if op == opSelectionMerge {
			merge = a[0]
		}
	})
	return n
}
