package glsl_test

import (
	"fmt"
	"github.com/vkc-go/vkc/codegen/glsl"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// TestFlashMatrixOfBlocks compiles attentions on cooperative matrices, with the longest heads that these support and
// with keys and values of every block format. They must not round keys and values twice: a shader fetches them in a
// dozen unrolled places. With double rounding, q8_0 was too large for the optimizer.
func TestFlashMatrixOfBlocks(t *testing.T) {
	caps := profile(t, "nvidia-h100")
	sources := map[string]string{}
	for _, format := range ir.DTypes() {
		if !format.IsBlock() {
			continue
		}
		kernels, symbols := lowered(t, fmt.Sprintf(`graph "g" {
			symbol T <= 512
			%%0 = input {name="q", dtype=f16, shape=[4,T,256]} : f16[4,T,256]
			%%1 = weight {name="k", dtype=%[1]s, shape=[1,4096,256]} : %[1]s[1,4096,256]
			%%2 = weight {name="v", dtype=%[1]s, shape=[1,4096,256]} : %[1]s[1,4096,256]
			%%3 = dequantize %%1 {dtype=f16} : f16[1,4096,256]
			%%4 = dequantize %%2 {dtype=f16} : f16[1,4096,256]
			%%5 = attention %%0, %%3, %%4 {causal=true} : f16[4,T,256]
			output "y" %%5
		}`, format))
		k := kernels[len(kernels)-1]
		s, _, err := schedule.Select(k, caps)
		check(t, err)
		if s.Config().Variant != kernel.VarFlashMatrix2 {
			t.Fatalf("%s: %v, want %s", format, s, kernel.VarFlashMatrix2)
		}
		sh, err := glsl.Emit(k, s, caps, symbols)
		check(t, err)
		_, body, _ := strings.Cut(sh.Source, "void main()")
		if n := strings.Count(body, "round_f16("); n > 0 {
			t.Errorf("%s: what is packed to f16 is rounded to f16 before in %d places", format, n)
		}
		if format == ir.Q8_0 {
			sources[format.String()] = sh.Source
		}
	}
	compile(t, sources)
}
