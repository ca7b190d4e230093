package bench

import (
	"fmt"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// attentionCases returns cases of attention: prompts, causal or not, and decode steps of one query, with and without
// grouped heads.
func attentionCases(scale Scale) []Case {
	t, heads := scale.of(4096, 32), scale.of(32, 4)
	list := []Case{
		attentionCase(full, heads, heads, t, t, 128), attentionCase(causal, heads, heads, t, t, 128),
		attentionCase(full, heads, heads, t, t, 64), attentionCase(causal, heads, heads, t, t, 64),
		attentionCase(full, heads/2, heads/2, t, t, 256), attentionCase(causal, heads/2, heads/2, t, t, 256),
		attentionCase(causal, heads, heads/4, t, t, 128),
	}
	for _, groups := range []int{heads, heads / 4} {
		for _, d := range []int{128, 64} {
			list = append(list, attentionCase(full, heads, groups, 1, scale.of(8192, 64), d))
		}
	}
	return list
}

// The kinds of attention.
const (
	full   = "full"   // each query sees all keys
	causal = "causal" // each query sees the keys up to its own position
)

// attentionCase returns a case of f16 attention of t queries to s keys of extent d. kind is full or causal. groups is
// the number of key heads, each shared by heads/groups query heads.
func attentionCase(kind string, heads, groups, t, s, d int) Case {
	c := Case{
		Name:  fmt.Sprintf("attention/%s/h%d_kv%d/%dx%d/d%d", kind, heads, groups, t, s, d),
		Sizes: Sizes{"g": groups, "t": t, "s": s, "d": d},
		Build: func(b *frontend.Builder, z Sizes) {
			share := heads / groups
			q := b.Input("q", ir.F16, z["g"], share, z["t"], z["d"]).Reshape(z["g"]*share, z["t"], z["d"])
			k, v := b.Input("k", ir.F16, z["g"], z["s"], z["d"]), b.Input("v", ir.F16, z["g"], z["s"], z["d"])
			var options []frontend.AttentionOption
			if kind == causal {
				options = append(options, frontend.Causal())
			}
			b.Output("y", q.Attention(k, v, options...).Reshape(z["g"], share, z["t"], z["d"]))
		},
		Axes:    map[string]string{"q": "g . t d", "k": "g s d", "v": "g s d", "y": "g . t d"},
		Samples: []Sample{{"g": Some(2), "t": Last(8)}}, // the last queries see nearly all keys, even of a causal one
		Flops:   2 * matmulFlops(heads*t, s, d), Precision: MatrixF16, Cached: t > 1,
	}
	if kind == causal {
		c.Flops /= 2 // half of the products are masked
		// The first queries and keys are a causal attention by themselves.
		c.Samples = append(c.Samples, Sample{"g": Some(2), "t": First(40), "s": First(40)})
	} else {
		c.Samples = append(c.Samples, Sample{"g": Some(2), "t": Some(8)})
	}
	return c
}
