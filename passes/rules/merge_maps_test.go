package rules_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/passes"
	"github.com/vkc-go/vkc/passes/rules"
)

// TestMergeRandomMaps merges kernels that read one product, and read or write states, and compares with the reference.
func TestMergeRandomMaps(t *testing.T) {
	t.Parallel()
	merged, graphs := 0, passtest.Few(120)
	for seed := range uint64(graphs) {
		g := passtest.Parse(t, randomMaps(rand.New(rand.NewPCG(seed, 31))))
		c, err := passtest.NewChecker(g, seed)
		if err != nil {
			t.Fatal(err)
		}
		s, err := passes.Run(g, passes.Options{Pricer: passtest.Choices{Take: passtest.Rules("merge_maps")}})
		if err != nil {
			t.Fatalf("%v\n%s", err, g)
		}
		if slices.ContainsFunc(s.Decisions, func(d rules.Decision) bool { return d.Rule == "merge_maps" && d.Taken }) {
			merged++
		}
		if err := c.AddKernels("merged", s, rand.New(rand.NewPCG(seed, 1))); err != nil {
			t.Fatalf("%v\n%s", err, g)
		}
		if err := c.Compare(3); err != nil {
			t.Fatalf("%v\n%s", err, g)
		}
	}
	if merged < graphs/6 || merged == graphs {
		t.Errorf("kernels are merged in %d of %d graphs", merged, graphs)
	}
}

// randomMaps is a graph with a matmul. Elementwise ops of its result become outputs or are written to states. Some also
// read a state, before or after it is written.
func randomMaps(r *rand.Rand) string {
	var lines, ends []string
	line := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	end := func(format string, args ...any) { ends = append(ends, fmt.Sprintf(format, args...)) }
	line(`%%x = input {name="x", dtype=f32, shape=[4,5]}`)
	line(`%%w = weight {name="w", dtype=f32, shape=[6,5]}`)
	line(`%%at = input {name="at", dtype=i32, shape=[]}`)
	line(`%%p = matmul %%x, %%w {transpose_b=true}`)
	var latest [2]string // value of each state, old or new
	for i := range latest {
		line(`%%s%d = state {name="s%d", dtype=f32, shape=[%d,6]}`, i, i, 4+3*r.IntN(2))
		latest[i] = fmt.Sprintf("%%s%d", i)
	}
	for i := range 3 + r.IntN(4) {
		line(`%%a%d = %s %%p`, i, []string{"sigmoid", "neg", "sqr"}[r.IntN(3)])
		j := r.IntN(2)
		if r.IntN(3) == 0 {
			line(`%%c%d = slice %s {starts=[0,0], limits=[4,6]}`, i, latest[j])
			line(`%%b%d = sub %%a%d, %%c%d`, i, i, i)
		} else {
			line(`%%b%d = add %%a%d, %%p`, i, i)
		}
		if old := fmt.Sprintf("%%s%d", j); r.IntN(2) == 0 && latest[j] == old {
			latest[j] = fmt.Sprintf("%%n%d", j)
			line(`%s = dynamic_update_slice %s, %%b%d, %%at {axis=0}`, latest[j], old, i)
			end(`update %s = %s`, old, latest[j])
		} else {
			end(`output "o%d" %%b%d`, i, i)
		}
	}
	end(`output "p" %%p`)
	slices.Sort(ends) // outputs first
	return "graph \"maps\" {\n" + strings.Join(append(lines, ends...), "\n") + "\n}"
}
