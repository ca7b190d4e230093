package interp_test

import (
	"context"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// TestRestart: a running fold begins again after every so many elements, and at the first of them.
func TestRestart(t *testing.T) {
	for attrs, want := range map[string][]float64{
		"axis=0, restart=2":                 {1, 3, 3, 7, 5},
		"axis=0, restart=3, exclusive=true": {0, 1, 3, 0, 4},
		"axis=0, restart=2, reverse=true":   {1, 5, 3, 9, 5},
		"axis=0":                            {1, 3, 6, 10, 15},
	} {
		g, err := ir.Parse(`graph "g" {
			%0 = const {data=f32[5](1.0,2.0,3.0,4.0,5.0)}
			%1 = cumsum %0 {` + attrs + `}
			output "y" %1
		}`)
		if err != nil {
			t.Fatal(err)
		}
		ref, err := interp.New(g, interp.Options{})
		if err != nil {
			t.Fatal(err)
		}
		out, err := ref.Run(context.Background(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if have, err := out["y"].Floats(); err != nil || !slices.Equal(have, want) {
			t.Errorf("%s: %v, %v, want %v", attrs, have, err, want)
		}
	}
}
