package kernel_test

import (
	"slices"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// TestSymbolsOfProducts: a kernel needs all symbols of products of dims, including nested products.
func TestSymbolsOfProducts(t *testing.T) {
	for dim, want := range map[string][]string{
		"T":                             {"T"},
		"S*T":                           {"S", "T"},
		"S*S":                           {"S"},
		"S*(2*T*T+1)":                   {"S", "T"},
		"floor(S/2)*(2*S*floor(T/3)+1)": {"floor(S/2)", "S", "floor(T/3)"},
	} {
		d, err := ir.ParseDim(dim, map[string]int64{"S": 9, "T": 9})
		if err != nil {
			t.Fatal(err)
		}
		k := kernel.Kernel{Parallel: []ir.Dim{d}}
		got := k.Symbols()
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("%s: symbols %q, want %q", dim, got, want)
		}
	}
}
