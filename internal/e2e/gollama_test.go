package e2e

import (
	"context"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/check"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// TestGollama runs a language model on prompts of several lengths through one recording.
func TestGollama(t *testing.T) {
	dev := openDevice(t)
	g, err := vkc.ReadGraph("../../examples/gollama/graph.json")
	if err != nil {
		t.Fatal(err)
	}
	weights, err := gguf.Open("../../examples/gollama/gollama-q8_0.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer weights.Close()
	exe := load(t, dev, g, weights)
	reference, err := check.New(g, weights)
	if err != nil {
		t.Fatal(err)
	}
	lengths := []int{6, 1, 37, 2}
	if testing.Short() {
		lengths = lengths[:2]
	}
	var symbols []map[string]int64
	for _, n := range lengths {
		compare(t, exe, reference, tokens(t, n), nil)
		symbols = append(symbols, map[string]int64{"T": int64(n)})
	}
	if s := exe.Stats(); s.Recordings != paths(t, dev, g, weights, symbols) || s.Bytes["weight"] < 7<<20 {
		t.Errorf("after %d runs: %+v", len(lengths), s)
	}
	// A profile is of the same computation.
	r, err := exe.Run(context.Background(), tokens(t, 37), runtime.RunOptions{Profile: true})
	if err != nil {
		t.Fatal(err)
	}
	if p := r.Profile; len(p.Kernels) != exe.Stats().Steps || p.GPU <= 0 {
		t.Errorf("profile of %d kernels of %d, %v", len(p.Kernels), exe.Stats().Steps, p.GPU)
	}
	report, err := reference.Check(context.Background(), exe, tokens(t, 37), nil, r.Outputs)
	if err == nil {
		err = report.Err()
	}
	if err != nil {
		t.Errorf("with a profile: %v", err)
	}
}

// tokens is a prompt of n tokens, scattered over the vocabulary.
func tokens(t *testing.T, n int) map[string]*ir.Data {
	t.Helper()
	ids := make([]int64, n)
	for i := range ids {
		ids[i] = int64(i*i*31+i*7+199) % 4096
	}
	d, err := ir.FromInts(ir.I32, ids, n)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*ir.Data{"tokens": d}
}
