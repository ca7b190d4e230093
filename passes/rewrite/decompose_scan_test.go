package rewrite_test

import (
	"fmt"
	"testing"

	"github.com/vkc-go/vkc/internal/passtest"
)

// TestLongSums checks running sums that are made in chunks, whole and not,
// along any axis, in both directions, of symbolic lengths too.
func TestLongSums(t *testing.T) {
	t.Parallel()
	tests := []struct{ shape, axis, dtype string }{
		{"[20000]", "0", "f32"},
		{"[2,16384]", "1", "f32"},
		{"[9001,2]", "0", "f32"},
		{"[2,600,3]", "1", "i32"},
		{"[2,577,3]", "1", "f16"},
		{"[T,1024,2]", "1", "f32"},
		{"[2,U]", "-1", "f32"},
		{"[V,3]", "0", "i8"},
	}
	for _, tt := range tests {
		for _, how := range []string{"", ", reverse=true", ", exclusive=true", ", exclusive=true, reverse=true"} {
			t.Run(tt.shape+tt.dtype+how, func(t *testing.T) {
				t.Parallel()
				g := passtest.Parse(t, fmt.Sprintf(`
					symbol T <= 3
					symbol U <= 9001
					symbol V <= 530
					%%x = input {name="x", dtype=%s, shape=%s}
					%%y = neg %%x
					%%s = cumsum %%y {axis=%s%s}
					output "y" %%s`, tt.dtype, tt.shape, tt.axis, how))
				s, c, err := passtest.Check(g, 1, 4)
				if err != nil {
					t.Fatal(err)
				}
				want := "row scan scan"
				if tt.shape == "[9001,2]" { // this shape has many chunks, too
					want = "row scan row scan scan"
				}
				if have := passtest.Families(s); have != want || c.Ran == 0 {
					t.Errorf("%d runs of kernels %q, want %q", c.Ran, have, want)
				}
			})
		}
	}
}
