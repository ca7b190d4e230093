package passes_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
	"github.com/vkc-go/vkc/passes/rules"
)

// margins says of each kind of proposal how many times the time of the new kernels the old ones must take before a rule
// replaces them. A margin of 0 is a proposal that no price decides: the rule takes it if nothing else gains.
// A new rule joins the list, and so does a new kind of proposal.
var margins = []struct {
	rule, what string // What of the proposals begins so
	times      float64
}{
	{"implicit_gemm", "store windows as runs", 1},
	{"chain_convs", "store results as the next argument", 0},
	{"half_attention", "round to f16", 1.25},
	{"half_attention", "keep f32", 0},
	{"pack_operands", "store operands as sums of bf16", 1.25},
	{"pack_operands", "store operands, decoded", 1.1},
	{"pack_operands", "store operands", 1},
	{"pack_operands", "multiply bf16", 0},
	{"pack_operands", "keep f32", 0},
	{"fuse_copies", "store the copy at once", 1},
	{"peel_tails", "cut axis", 1.05},
	{"split_k", "split the sums in", 1 / 0.9},
	{"fuse_norms", "multiply before the norm", 1},
	{"prescale_rows", "read the row times its weight", 1},
	{"fuse_slices", "store the results of the rows' readers", 1},
	{"merge_maps", "one kernel for readers of the same value", 1},
}

// marginOf is the row of a decision: the first one that fits.
func marginOf(d rules.Decision) int {
	for i, m := range margins {
		if m.rule == d.Rule && strings.HasPrefix(d.What, m.what) {
			return i
		}
	}
	return -1
}

// pricesOf has the old kernels take a number of times what the new ones take, whenever one rule asks.
type pricesOf struct {
	passtest.Choices
	rule  string
	times float64
}

func (p pricesOf) Price(r kernel.Rewrite) kernel.Estimate {
	if r.Rule != p.rule {
		return p.Choices.Price(r)
	}
	return kernel.Estimate{Before: p.times, After: 1, Margin: r.Margin}
}

// TestMargins: each rule replaces kernels just above its margin, and keeps them just below it, in the golden cases of
// its pass.
func TestMargins(t *testing.T) {
	t.Parallel()
	const little = 1e-9
	took := make([]bool, len(margins))
	for _, p := range passes.Passes() {
		data, err := os.ReadFile(filepath.Join("testdata", "passes", p.Name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range strings.Split(string(data), "=== ")[1:] {
			name, rest, _ := strings.Cut(c, "\n")
			text, _, _ := strings.Cut(rest, "---\n")
			g, err := ir.Parse(text)
			if err != nil {
				t.Fatalf("%s, %s: %v", p.Name, name, err)
			}
			decide := func(times float64) []rules.Decision {
				s, err := passes.Run(g, passes.Options{Pricer: pricesOf{choicesOf(p.Name), p.Name, times}})
				if err != nil {
					t.Fatalf("%s, %s: %v", p.Name, name, err)
				}
				return s.Decisions
			}
			proposed := map[int]bool{}
			for _, d := range decide(0) {
				at := marginOf(d)
				if at < 0 {
					t.Fatalf("%s, %s: rule %s proposes %q: add it to the list of margins", p.Name, name, d.Rule, d.What)
				}
				proposed[at] = true
				took[at] = took[at] || d.Taken && margins[at].times == 0
			}
			for at := range proposed {
				m := margins[at]
				if m.rule != p.Name || m.times == 0 {
					continue
				}
				for _, d := range decide(m.times * (1 - little)) {
					if d.Taken && marginOf(d) == at {
						t.Errorf("%s, %s: %q is taken below the margin of %v", p.Name, name, d.What, m.times)
					}
				}
				for _, d := range decide(m.times * (1 + little)) {
					took[at] = took[at] || d.Taken && marginOf(d) == at
				}
			}
		}
	}
	for i, m := range margins {
		if !took[i] {
			t.Errorf("rule %s never takes %q at its margin of %v", m.rule, m.what, m.times)
		}
	}
}
