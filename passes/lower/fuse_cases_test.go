package lower_test

import (
	"slices"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/passes"
)

// TestFuseCases fuses graphs for which a simple fusion would be wrong, and compares with the reference.
func TestFuseCases(t *testing.T) {
	t.Parallel()
	const row = `
		symbol T <= 5
		%x = input {name="x", dtype=f32, shape=[1,8]}
		%u = weight {name="u", dtype=f32, shape=[8,8]}
		%y = matmul %x, %u {transpose_b=true}
		%n = rms_norm %y {eps=0.01}
		%b = weight {name="b", dtype=f32, shape=[6,8]}
		`
	for _, tt := range []struct{ name, graph string }{
		{"a row weighed by a part of a weight, and by another", row + `
			%w = weight {name="w", dtype=f32, shape=[16]}
			%w1 = slice %w {starts=[0], limits=[8]}
			%w2 = slice %w {starts=[8], limits=[16]}
			%a1 = mul %n, %w1
			%a2 = mul %n, %w2
			%c = weight {name="c", dtype=f32, shape=[6,8]}
			%z1 = matmul %a1, %b {transpose_b=true}
			%z2 = matmul %a2, %c {transpose_b=true}
			output "z1" %z1
			output "z2" %z2`},
		{"a row weighed by a weight of each product of a batch", row + `
			%w = weight {name="w", dtype=f32, shape=[2,1,8]}
			%a = mul %n, %w
			%c = weight {name="c", dtype=f32, shape=[2,6,8]}
			%z = matmul %a, %c {transpose_b=true}
			output "z" %z`},
		{"a row weighed by several rows of weights", row + `
			%w = weight {name="w", dtype=f32, shape=[3,8]}
			%a = mul %n, %w
			%z = matmul %a, %b {transpose_b=true}
			output "z" %z`},
		{"a row weighed by one number, and by a reversed weight", row + `
			%w = weight {name="w", dtype=f32, shape=[1]}
			%v = weight {name="v", dtype=f32, shape=[8]}
			%r = flip %v {axes=[0]}
			%a1 = mul %n, %w
			%a2 = mul %n, %r
			%c = weight {name="c", dtype=f32, shape=[6,8]}
			%z1 = matmul %a1, %b {transpose_b=true}
			%z2 = matmul %a2, %c {transpose_b=true}
			output "z1" %z1
			output "z2" %z2`},
		{"a product that adds the value of a symbol, into two caches", row + `
			%q = input {name="q", dtype=f32, shape=[T]}
			%d = dim_value {dim=[T]}
			%f = cast %d {dtype=f32}
			%z = matmul %y, %b {transpose_b=true}
			%s0 = add %z, %f
			%s1 = silu %s0
			%s3 = sin %s1
			%s = silu %s3
			%i = input {name="i", dtype=i32, shape=[]}
			%k = state {name="k", dtype=f32, shape=[4,6]}
			%e = dynamic_update_slice %k, %s, %i {axis=0}
			%s2 = slice %s {starts=[0,2], limits=[1,6]}
			%k2 = state {name="k2", dtype=f32, shape=[4,4]}
			%e2 = dynamic_update_slice %k2, %s2, %i {axis=0}
			output "q" %q
			update %k = %e
			update %k2 = %e2`},
		{"slices of one row, one of which begins before the other", row + `
			%c = weight {name="c", dtype=f32, shape=[16,8]}
			%z = matmul %n, %c {transpose_b=true}
			%z1 = slice %z {starts=[0,0], limits=[1,6]}
			%z2 = pad %z1 {low=[0,2], high=[0,0]}
			%z3 = slice %z {starts=[0,4], limits=[1,12]}
			%s = add %z2, %z3
			output "s" %s`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := passtest.Parse(t, tt.graph)
			s, err := passes.Run(g, passes.Options{Pricer: passtest.Choices{Take: passtest.FuseAll}})
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range s.Kernels {
				bound := slices.ContainsFunc(k.Bindings, func(b kernel.Binding) bool { return b.Name == "params" })
				if bound != (len(k.Symbols()) > 0) {
					t.Errorf("%s needs values of symbols %q, and binds them: %v", k.Name, k.Symbols(), bound)
				}
			}
			if _, _, err := passtest.Check(g, 3, 2); err != nil {
				t.Errorf("%v\n%s", err, g)
			}
		})
	}
}
