package lower_test

import (
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/passes"
)

var _ = passtest.Pair()

// TestCustomKernels checks the kernels around a custom one, and that the results match the reference for any order
// between barriers.
func TestCustomKernels(t *testing.T) {
	for _, tt := range []struct{ name, graph, want string }{
		{"inputs and weights are read as they are", `
			%1 = passtest.pair %x, %w2
			%2 = passtest.pair %x, %w2 {output=1}
			output "p" %1
			output "q" %2`, "custom"},
		{"computed arguments are stored, and shared", `
			%1 = exp %x
			%2 = passtest.pair %1, %1
			%3 = neg %1
			output "p" %2
			output "q" %3`, "map custom"},
		{"views and coordinates are stored", `
			%1 = transpose %x {perm=[1,0]}
			%i = iota {dtype=f32, shape=[8,6], axis=0}
			%2 = passtest.pair %1, %i {output=1}
			%3 = add %2, %i
			output "q" %3`, "map map custom map"},
		{"a result that nothing needs has a place too", `
			%1 = passtest.pair %x, %x {output=1}
			%2 = passtest.pair %1, %x
			output "p" %2`, "custom custom"},
		{"a state is read before it is overwritten", `
			%1 = passtest.pair %s, %x
			%2 = passtest.pair %s, %x {output=1}
			update %s = %2
			output "p" %1`, "custom map"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leaves := `
			%x = input {name="x", dtype=f32, shape=[6,8]}
			%w2 = weight {name="w", dtype=f32, shape=[6,8]}
			%s = state {name="s", dtype=f32, shape=[6,8]}`
			s, _, err := passtest.Check(passtest.WithoutUnused(t, passtest.Parse(t, leaves+tt.graph)), 1, 4)
			if err != nil {
				t.Fatal(err)
			}
			if have := passtest.Families(s); have != tt.want {
				t.Errorf("kernels are %q, want %q\n%s", have, tt.want, s.Text())
			}
		})
	}
}

// TestCustomGridRefused: a grid rule that the shapes make meaningless is refused
// by the op's name.
func TestCustomGridRefused(t *testing.T) {
	var symbols, names []string // their product is too long
	for i := range 6 {
		names = append(names, strings.Repeat(string(rune('A'+i)), 60))
		symbols = append(symbols, "symbol "+names[i]+" <= 4")
	}
	g := passtest.Parse(t, strings.Join(symbols, "\n")+`
		%x = input {name="x", dtype=f32, shape=[`+strings.Join(names, ",")+`]}
		%1 = passtest.pair %x, %x
		output "p" %1`)
	_, err := passes.Run(g, passes.Options{})
	if err == nil || !strings.Contains(err.Error(), "passtest.pair: grid dimension 0: the number of elements of p") {
		t.Errorf("have error %v", err)
	}
}
