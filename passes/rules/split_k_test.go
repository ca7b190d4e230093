package rules_test

import (
	"context"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/internal/keval"
	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/passes"
)

// TestSplit cuts attentions into runs of keys, and compares the two kernels
// that come of each with the reference.
func TestSplitAttention(t *testing.T) {
	g := passtest.Parse(t, `
		symbol S <= 40
		%q = input {name="q", dtype=f32, shape=[6,2,4]}
		%k = input {name="k", dtype=f32, shape=[2,S,4]}
		%v = input {name="v", dtype=f32, shape=[2,S,3]}
		%m = input {name="m", dtype=f32, shape=[2,S]}
		%b = input {name="b", dtype=f32, shape=[2,1]}
		%1 = exp %k
		%2 = attention %q, %1, %v, %m {causal=true}
		%3 = transpose %2 {perm=[1,0,2]}
		%4 = reshape %3 {shape=[2,18]}
		%5 = mul %4, %b
		%6 = attention %q, %k, %k
		%7 = softmax %6
		output "o" %5
		output "p" %7`)
	values := graphgen.Values{Seed: 5, Graph: g}
	ref, err := interp.New(g, interp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, splits := range []int{2, 3, 16} {
		s, err := passes.Run(g, passes.Options{Pricer: passtest.Choices{Parts: func(k *kernel.Kernel) int {
			if k.Family == kernel.FamilyAttention {
				return splits
			}
			return 1
		}}})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(s.Kernels); n != 6 {
			t.Fatalf("%d kernels, want exp, two attentions in two parts each, and softmax:\n%s", n, s.Text())
		}
		m, err := keval.New(s.Program, s.Kernels, keval.Options{})
		if err != nil {
			t.Fatalf("%d splits: %v\n%s", splits, err, s.Text())
		}
		for i, keys := range []int64{40, 1, 17, 2, 0} {
			symbols := map[string]int64{"S": keys}
			in, err := values.Inputs(symbols, i)
			if err != nil {
				t.Fatal(err)
			}
			want, err := ref.Run(context.Background(), in, symbols)
			if err != nil {
				t.Fatal(err)
			}
			have, err := m.Run(in, symbols)
			if err != nil {
				t.Fatalf("%d splits, %d keys: %v", splits, keys, err)
			}
			for name, w := range want {
				if err := interp.Compare(have[name], w, ir.Tolerance{Eps: 64, Abs: 1e-5}).Err(); err != nil {
					t.Errorf("%d splits, %d keys: %s: %v", splits, keys, name, err)
				}
			}
		}
	}
}
