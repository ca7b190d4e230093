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

// TestFuseRandomSlices fuses ops on random slices of a random row into its matmul, and compares with the reference.
func TestFuseRandomSlices(t *testing.T) {
	t.Parallel()
	joined, graphs := 0, passtest.Few(150)
	for seed := range uint64(graphs) {
		r := rand.New(rand.NewPCG(seed, 23))
		g := passtest.Parse(t, randomSlices(r))
		if _, _, err := passtest.CheckRandom(g, seed, 2); err != nil {
			t.Fatalf("%v\n%s", err, g)
		}
		s, err := passes.Run(g,
			passes.Options{Pricer: passtest.Choices{Take: passtest.Rules("fuse_norms", "fuse_slices")}})
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(s.Kernels, (*kernel.Kernel).CutsCols) {
			joined++
		}
	}
	if joined < graphs*40/150 || joined > graphs*140/150 {
		t.Errorf("slices are fused with products in %d of %d graphs", joined, graphs)
	}
}

// randomSlices is a graph with a matmul of a row. Slices of its columns are rotated, used in elementwise ops, or stored
// in caches.
func randomSlices(r *rand.Rand) string {
	coin := func() bool { return r.IntN(2) == 0 }
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	heads, dim := 1+r.IntN(3), 2+2*r.IntN(3)
	width, parts := heads*dim, 1+r.IntN(3)
	cols := width*parts + r.IntN(3)
	line(`%%x = input {name="x", dtype=f32, shape=[1,8]}`)
	line(`%%w = weight {name="w", dtype=f32, shape=[%d,8]}`, cols)
	line(`%%at = input {name="at", dtype=i32, shape=[]}`)
	line(`%%pos = input {name="pos", dtype=i32, shape=[1]}`)
	row := "%x"
	if coin() {
		line(`%%n = rms_norm %%x {eps=0.01}`)
		row = "%n"
	}
	line(`%%p = matmul %s, %%w {transpose_b=true}`, row)
	product := "%p"
	if coin() {
		line(`%%b = weight {name="b", dtype=f32, shape=[%d]}`, cols)
		line(`%%q = add %%p, %%b`)
		product = "%q"
	}
	var ends []string
	for i := range parts {
		from := i*width + r.IntN(cols-parts*width+1)
		line(`%%s%d = slice %s {starts=[0,%d], limits=[1,%d]}`, i, product, from, from+width)
		line(`%%h%d = reshape %%s%d {shape=[%d,1,%d]}`, i, i, heads, dim)
		value, t := fmt.Sprintf("%%h%d", i), "f32"
		switch r.IntN(4) {
		case 0, 1:
			line(`%%r%d = rope %s, %%pos {axis=1, base=100.0, mode=%q}`, i, value,
				[]string{"interleaved", "interleaved", "half"}[r.IntN(3)])
			value = fmt.Sprintf("%%r%d", i)
		case 2:
			line(`%%r%d = silu %s`, i, value)
			value = fmt.Sprintf("%%r%d", i)
		}
		if coin() {
			line(`%%c%d = cast %s {dtype=f16}`, i, value)
			value, t = fmt.Sprintf("%%c%d", i), "f16"
		}
		if coin() {
			ends = append(ends, fmt.Sprintf(`output "o%d" %s`, i, value))
			continue
		}
		line(`%%k%d = state {name="k%d", dtype=%s, shape=[%d,4,%d]}`, i, i, t, heads, dim)
		line(`%%u%d = dynamic_update_slice %%k%d, %s, %%at {axis=1}`, i, i, value)
		ends = append(ends, fmt.Sprintf("update %%k%d = %%u%d", i, i))
		if r.IntN(3) == 0 { // the cache is read, before or after
			line(`%%e%d = exp %%%s%d`, i, []string{"u", "k"}[r.IntN(2)], i)
			ends = append([]string{fmt.Sprintf(`output "e%d" %%e%d`, i, i)}, ends...)
		}
	}
	if !strings.Contains(strings.Join(ends, " "), "output") {
		ends = append([]string{`output "x" %x`}, ends...)
	}
	slices.SortStableFunc(ends, func(a, b string) int { return strings.Compare(a[:1], b[:1]) })
	return b.String() + strings.Join(ends, "\n")
}
