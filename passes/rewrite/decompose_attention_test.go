package rewrite_test

import (
	"fmt"
	"testing"

	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
)

// TestStoredScores: a gradient of attention has the same value when the device prefers stored scores. Then there is no
// attention kernel.
func TestStoredScores(t *testing.T) {
	for _, of := range []string{"q", "k", "v"} {
		g := passtest.Parse(t, fmt.Sprintf(`graph "t" {
			%%q = input {name="q", dtype=f32, shape=[4,5,8]}
			%%k = input {name="k", dtype=f32, shape=[2,7,8]}
			%%v = input {name="v", dtype=f32, shape=[2,7,6]}
			%%g = input {name="g", dtype=f32, shape=[4,5,6]}
			%%d = input {name="d", dtype=f32, shape=[4,5]}
			%%l = attention_lse %%q, %%k {causal=true}
			%%o = attention_grad %%q, %%k, %%v, %%g, %%l, %%d {causal=true, of=%q}
			output "o" %%o
		}`, of))
		if _, _, err := passtest.Check(g, 1, 4); err != nil {
			t.Errorf("of %s: %v", of, err)
		}
		for _, stored := range []bool{false, true} {
			s, err := passes.Run(g, passes.Options{Pricer: passtest.Choices{Scores: stored}, Until: "decompose"})
			if err != nil {
				t.Fatal(err)
			}
			kernels := 0
			for _, n := range s.Graph.Nodes() {
				if n.Op().Class() == ir.ClassAttention {
					kernels++
				}
			}
			if want := map[bool]int{false: 2, true: 0}[stored]; kernels != want {
				t.Errorf("of %s, scores stored %v: %d attentions, want %d", of, stored, kernels, want)
			}
		}
	}
}
