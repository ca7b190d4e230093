package lower_test

import (
	"fmt"
	"testing"

	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/ir"
)

// experts is a layer of gated experts on T tokens. Each token uses two experts.
const expertsText = `
	symbol N <= 40
	%%x = input {name="x", dtype=%[1]s, shape=[%[2]s,1,256]}
	%%number = input {name="ids", dtype=i32, shape=[%[2]s,2]}
	%%count = const {data=i32[](3)}
	%%ids = mod %%number, %%count
	%%gate = weight {name="gate", dtype=%[3]s, shape=[3,11,256]}
	%%up = weight {name="up", dtype=%[3]s, shape=[3,11,256]}
	%%a = matmul_id %%x, %%gate, %%ids
	%%b = matmul_id %%x, %%up, %%ids
	%%s = silu %%a
	%%y = mul %%s, %%b
	output "y" %%y`

// TestExperts: for few rows, matmuls select the matrices by ids directly. Many rows are grouped first. Two matmuls of
// the same rows share a kernel with the following ops.
func TestExperts(t *testing.T) {
	t.Parallel()
	tests := []struct{ dtype, tokens, weight, want string }{
		{"f32", "1", "f32", "matmul"},
		{"f32", "3", "q4_0", "matmul"},
		{"f16", "40", "f16", "group matmul"},
		{"bf16", "9", "bf16", "group matmul"},
		{"f32", "N", "q8_0", "group matmul"},
		{"f16", "70", "q4_K", "group matmul"},
	}
	for _, tt := range tests {
		t.Run(tt.dtype+" "+tt.tokens+" "+tt.weight, func(t *testing.T) {
			g := passtest.Parse(t, fmt.Sprintf(expertsText, tt.dtype, tt.tokens, tt.weight))
			s, c, err := passtest.Check(g, 1, 3)
			if err != nil {
				t.Fatal(err)
			}
			if have := passtest.Families(s); have != tt.want || c.Ran == 0 {
				t.Errorf("%d runs of kernels %q, want %q", c.Ran, have, tt.want)
			}
		})
	}
}

// TestExpertsAreNotDecoded: whatever the format, no buffer of a program is large
// enough to hold the weights of all experts decoded.
func TestExpertsAreNotDecoded(t *testing.T) {
	t.Parallel()
	for _, q := range ir.DTypes() {
		if !q.IsBlock() {
			continue
		}
		for _, tokens := range []string{"1", "40"} {
			s, _, err := passtest.Check(passtest.Parse(t, fmt.Sprintf(expertsText, "f32", tokens, q)), 1, 0)
			if err != nil {
				t.Fatalf("%s, %s tokens: %v", q, tokens, err)
			}
			for _, b := range s.Program.Buffers {
				if n := b.Shape.MaxElems(); b.DType != q && b.DType.IsFloat() && n >= 3*11*256 && b.Name != "x" {
					t.Errorf("%s, %s tokens: buffer %s is %s%s", q, tokens, b.Name, b.DType, b.Shape)
				}
			}
		}
	}
}
