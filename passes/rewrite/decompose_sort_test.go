package rewrite_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/pairs"
	"github.com/vkc-go/vkc/internal/passtest"
)

// TestSorts checks orders of rows that are counted, sorted in shared memory, or
// taken from chunks, with many equal elements, and of symbolic length.
func TestSorts(t *testing.T) {
	t.Parallel()
	const turn = " custom scan custom" // of a radix sort
	tests := []struct{ shape, axis, dtype, op, want string }{
		{"[5,40]", "1", "f32", "argsort %x {axis=1", "sort"},
		{"[40,3]", "0", "i8", "argsort %x {axis=0", "sort"},
		{"[2,65,3]", "1", "f16", "sort %x {axis=1", "sort"},
		{"[3,N]", "1", "bf16", "sort %x {axis=1", "sort"},
		{"[N]", "0", "u32", "argsort %x {axis=0", "sort"},
		{"[4,32]", "1", "f32", "argsort %x {axis=1", "sort"},
		{"[5,1]", "1", "f32", "sort %x {axis=1", "sort"},
		{"[5,1]", "1", "i64", "argsort %x {axis=1", "map"},
		{"[67,7]", "1", "f32", "argsort %x {axis=1", "sort"},
		{"[3,40]", "1", "i64", "sort %x {axis=1", "row row"},
		{"[2,700]", "1", "i32", "top_k_indices %x {k=9, axis=1", "sort"},
		{"[2,5000]", "1", "i8", "top_k_indices %x {k=9, axis=1", "sort"},
		{"[2,N+900]", "1", "f32", "top_k_indices %x {k=100, axis=1", "sort"},
		{"[2,9000]", "1", "i8", "top_k_indices %x {k=9, axis=1", "sort sort"},
		{"[8193,2]", "0", "f32", "top_k_indices %x {k=400, axis=0", "sort sort"},
		{"[30000]", "0", "f32", "top_k_indices %x {k=300, axis=0", "sort sort"},
		{"[70000]", "0", "f16", "top_k_indices %x {k=512, axis=0", "sort sort"},
		{"[140000]", "0", "f16", "top_k_indices %x {k=512, axis=0", "sort sort sort"},
		{"[2,2049]", "1", "f32", "argsort %x {axis=1", "map" + turn + turn + turn + turn},
		{"[3000,2]", "0", "i32", "sort %x {axis=0", "map" + turn + turn + turn + turn + " map"},
		{"[2,N+4000]", "1", "u32", "argsort %x {axis=1", "map" + turn + turn + turn + turn},
		{"[K+1,2100]", "1", "f16", "sort %x {axis=1", "map" + turn + turn + turn + " map"},
		{"[9000]", "0", "bf16", "argsort %x {axis=0", "map" + turn + turn + " map"},
		{"[2,2100]", "1", "i64", "argsort %x {axis=1", "map" + turn + turn + turn + turn + " map" + turn + turn + turn + turn},
		{"[2100]", "0", "f64", "sort %x {axis=0", "map" + turn + turn + turn + turn + " map" + turn + turn + turn + turn + " map"},
		{"[2,3000]", "1", "bf16", "top_k_indices %x {k=700, axis=1", "map" + turn + turn + " map"},
		{"[2,4097]", "1", "i8", "argsort %x {axis=1", "map" + turn},
		{"[2,4096]", "1", "u8", "sort %x {axis=1", "map" + turn + " map"},
	}
	type sorting struct{ test, way int }
	var all []sorting
	for i := range tests {
		all = append(all, sorting{i, 0}, sorting{i, 1})
	}
	// Each test runs, and each dtype and each op in both directions.
	for _, c := range pairs.Cover(all, func(c sorting) []string {
		tt := tests[c.test]
		op, _, _ := strings.Cut(tt.op, " ")
		return []string{fmt.Sprint(c.test), fmt.Sprint(tt.dtype, c.way), fmt.Sprint(op, c.way)}
	}) {
		tt, way := tests[c.test], c.way == 1
		name := "descending"
		if tt.op[0] == 't' {
			name = "largest"
		}
		t.Run(fmt.Sprint(tt.op, tt.shape, tt.dtype, way), func(t *testing.T) {
			g := passtest.Parse(t, fmt.Sprintf(`
				symbol N <= 200
				symbol K <= 2
				%%x = input {name="x", dtype=%s, shape=%s}
				%%y = %s, %s=%v}
				output "y" %%y`, tt.dtype, tt.shape, tt.op, name, way))
			s, c, err := passtest.Check(g, 1, 4)
			if err != nil {
				t.Fatal(err)
			}
			if have := passtest.Families(s); have != tt.want || c.Ran == 0 {
				t.Errorf("%d runs of kernels %q, want %q", c.Ran, have, tt.want)
			}
		})
	}
}
