package lower_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/passes"
)

// TestFuseAmongStates fuses norms and slices in graphs that read and overwrite states around them, for several runs,
// and compares with the reference. A fused op must not read or write a state too early or too late.
func TestFuseAmongStates(t *testing.T) {
	t.Parallel()
	norms, cut := 0, 0
	for seed := range uint64(80) {
		g := passtest.Parse(t, randomStates(rand.New(rand.NewPCG(seed, 5))))
		if _, _, err := passtest.CheckRandom(g, seed, 3); err != nil {
			t.Fatalf("%v\n%s", err, g)
		}
		s, err := passes.Run(g, passes.Options{Pricer: passtest.Choices{Take: passtest.FuseAll}})
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(s.Kernels, (*kernel.Kernel).RowSums) {
			norms++
		}
		if slices.ContainsFunc(s.Kernels, (*kernel.Kernel).CutsCols) {
			cut++
		}
	}
	if norms < 20 || norms > 79 || cut < 20 || cut > 79 {
		t.Errorf("of 80 graphs, norms are fused with products in %d, and slices in %d", norms, cut)
	}
}

// randomStates is a graph with two states, a row and a cache, with two norms and matmuls of their values, and with new
// values for both.
func randomStates(r *rand.Rand) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	line(`%%row = state {name="row", dtype=f32, shape=[1,8]}`)
	line(`%%cache = state {name="cache", dtype=f32, shape=[4,8]}`)
	line(`%%at = state {name="at", dtype=i32, shape=[]}`)
	line(`%%step = input {name="step", dtype=i32, shape=[]}`)
	line(`%%x = input {name="x", dtype=f32, shape=[1,8]}`)
	line(`%%v = weight {name="v", dtype=f32, shape=[%d,8]}`, 16+8*r.IntN(2))
	line(`%%w = weight {name="w", dtype=f32, shape=[8,8]}`)
	line(`%%first = slice %%cache {starts=[0,0], limits=[1,8]}`)
	line(`%%sum = add %%row, %%x`)
	line(`%%n = rms_norm %s {eps=0.01}`, pick("%row", "%sum", "%first", "%x"))
	line(`%%p = matmul %%n, %%v {transpose_b=true}`)
	line(`%%a = slice %%p {starts=[0,0], limits=[1,8]}`)
	line(`%%c = slice %%p {starts=[0,8], limits=[1,16]}`)
	line(`%%cached = dynamic_update_slice %%cache, %s, %%at {axis=0}`, pick("%a", "%c"))
	line(`%%m = rms_norm %s {eps=0.01}`, pick("%a", "%c", "%sum", "%row"))
	line(`%%q = matmul %%m, %%w {transpose_b=true}`)
	line(`%%z = add %%q, %s`, pick("%row", "%a", "%c", "%first", "%x"))
	line(`%%y = silu %s`, pick("%z", "%a", "%c"))
	line(`%%keys = matmul %s, %s {transpose_b=true}`, pick("%a", "%x", "%n"), pick("%cached", "%cache"))
	line(`%%old = sigmoid %s`, pick("%cache", "%row", "%c"))
	line(`%%next = add %%at, %%step`)
	line(`output "keys" %%keys`)
	line(`output "old" %%old`)
	line(`output "z" %%z`) // of the old row
	line(`update %%cache = %%cached`)
	line(`update %%row = %s`, pick("%y", "%z", "%a"))
	if r.IntN(2) == 0 {
		line(`update %%at = %%next`)
	}
	return b.String()
}
