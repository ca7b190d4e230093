package main

import (
	"math"
	"testing"

	"github.com/vkc-go/vkc/bench"
)

// TestMeasure: each matmul and each sum has a positive result, in a file that vkc bench --against reads.
func TestMeasure(t *testing.T) {
	file, err := measure(bench.Cases(bench.Tiny, "matmul", "memory"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, p := range file.Anchors {
		names[p.Case] = true
		if !(p.Micros > 0) || math.IsInf(p.Micros, 0) {
			t.Errorf("%+v", p)
		}
	}
	for _, want := range []string{"matmul/f32/16x16x16", "matmul/f32/256x256x256", "add/f32/32"} {
		if !names[want] {
			t.Errorf("no figure of %s: %v", want, names)
		}
	}
}
