package rules_test

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

// TestFuseRandomNorms fuses norms of random rows into random matmuls, and compares with the reference. It also checks
// which ones are fused.
func TestFuseRandomNorms(t *testing.T) {
	t.Parallel()
	joined, graphs := 0, passtest.Few(150)
	for seed := range uint64(graphs) {
		r := rand.New(rand.NewPCG(seed, 21))
		g := passtest.Parse(t, randomNorm(r))
		if _, _, err := passtest.CheckRandom(g, seed, 2); err != nil {
			t.Fatalf("%v\n%s", err, g)
		}
		s, err := passes.Run(g, passes.Options{Pricer: passtest.Choices{Take: passtest.Rules("fuse_norms")}})
		if err != nil {
			t.Fatal(err)
		}
		sums := slices.ContainsFunc(s.Kernels, (*kernel.Kernel).RowSums)
		norms := slices.ContainsFunc(s.Kernels, func(k *kernel.Kernel) bool { return k.Family == kernel.FamilyRow })
		if sums == norms {
			t.Errorf("seed %d: rows are summed by products: %v, and by kernels: %v\n%s", seed, sums, norms, s.Text())
		}
		if sums {
			joined++
		}
	}
	if joined < graphs*50/150 || joined > graphs*140/150 {
		t.Errorf("%d of %d norms are fused with products", joined, graphs)
	}
}

// randomNorm is a graph with a norm and one or two matmuls of it, with weights of equal or different shapes, and with
// ops before and after.
func randomNorm(r *rand.Rand) string {
	coin := func() bool { return r.IntN(2) == 0 }
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	depth, cols := 4*(1+r.IntN(9)), 1+r.IntN(9)
	shape := []string{"[1,%d]", "[3,%d]", "[2,3,%d]", "[T,%d]", "[1,T,%d]"}[r.IntN(5)]
	line("symbol T <= 5")
	line("%%x = input {name=\"x\", dtype=f32, shape="+shape+"}", depth)
	line("%%g = weight {name=\"g\", dtype=f32, shape=[%d]}", depth)
	line("%%parts = weight {name=\"parts\", dtype=f32, shape=[%d]}", depth+4)
	from := "%x"
	switch r.IntN(4) {
	case 0, 1:
		line("%%a = %s %%x", []string{"relu", "neg", "exp"}[r.IntN(3)])
		from = "%a"
	case 2: // a row that a kernel stores
		line("%%u = weight {name=\"u\", dtype=f32, shape=[%d,%d]}", depth, depth)
		line("%%a = matmul %%x, %%u")
		from = "%a"
	}
	norm := []string{"rms_norm %s {eps=0.01}", "rms_norm %s, %%g {eps=0.01}", "l2_normalize %s {axis=-1, eps=0.1}",
		"layer_norm %s, %%g {eps=0.01}"}[r.IntN(4)]
	line("%%n = "+norm, from)
	rows := "%n"
	if r.IntN(4) == 0 { // whatever else is a factor of each element
		line("%%r = mul %%n, %%g")
		rows = "%r"
	}
	normed := rows
	for i := range 1 + r.IntN(2) {
		if r.IntN(3) == 0 { // by other parts of one weight
			first := r.IntN(5)
			line("%%part%d = slice %%parts {starts=[%d], limits=[%d]}", i, first, first+depth)
			line("%%weighed%d = mul %s, %%part%d", i, normed, i)
			rows = fmt.Sprintf("%%weighed%d", i)
		}
		if coin() {
			line("%%w%d = weight {name=\"w%d\", dtype=f32, shape=[%d,%d]}", i, i, cols, depth)
			line("%%p%d = matmul %s, %%w%d {transpose_b=true}", i, rows, i)
		} else {
			line("%%w%d = weight {name=\"w%d\", dtype=f32, shape=[%d,%d]}", i, i, depth, cols)
			line("%%p%d = matmul %s, %%w%d", i, rows, i)
		}
		line("%%y%d = silu %%p%d", i, i)
		line("output \"y%d\" %%y%d", i, i)
	}
	if r.IntN(5) == 0 {
		line("output \"n\" %s", normed)
	}
	return b.String()
}
