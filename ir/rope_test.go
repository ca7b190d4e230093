package ir_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

func TestRopeTurns(t *testing.T) {
	d, err := ir.RopeTurns([]float64{math.Pi, -math.Pi / 2, 5 * math.Pi, 0, -1e-30})
	if err != nil {
		t.Fatal(err)
	}
	words, err := d.Ints()
	if err != nil {
		t.Fatal(err)
	}
	if want := []int64{1 << 31, 0, 3 << 30, 0, 1 << 31, 0, 0, 0, 0, 0}; !slices.Equal(words, want) ||
		d.DType != ir.U32 || !slices.Equal(d.Dims, []int{5, 2}) {
		t.Errorf("%s%v %v, want %v", d.DType, d.Dims, words, want)
	}
	for _, bad := range []float64{math.NaN(), math.Inf(-1)} {
		if _, err := ir.RopeTurns([]float64{1, bad}); err == nil || !strings.Contains(err.Error(), "pair 1 turns by") {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
