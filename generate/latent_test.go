package generate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// tinyLatent writes a model with latent attention, of random weights.
func tinyLatent(t testing.TB) string {
	t.Helper()
	const width, ffn, heads, rank, plain, turned, value = 16, 32, 2, 24, 8, 8, 12
	dims := map[string][]int{"token_embd": {len(tinyWords), width}, "output_norm": {width}}
	for i := range 2 {
		for name, d := range map[string][]int{
			"attn_norm": {width}, "attn_q": {heads * (plain + turned), width}, "attn_kv_a_mqa": {rank + turned, width},
			"attn_kv_a_norm": {rank}, "attn_k_b": {heads, rank, plain}, "attn_v_b": {heads, value, rank},
			"attn_output": {width, heads * value}, "ffn_norm": {width}, "ffn_gate": {ffn, width}, "ffn_up": {ffn, width},
			"ffn_down": {width, ffn},
		} {
			dims[fmt.Sprintf("blk.%d.%s", i, name)] = d
		}
	}
	return tinyFile(t, "deepseek2", map[string]any{
		"block_count": uint32(2), "embedding_length": uint32(width), "attention.head_count": uint32(heads),
		"attention.head_count_kv": uint32(1), "feed_forward_length": uint32(ffn), "context_length": uint32(256),
		"attention.layer_norm_rms_epsilon": float32(1e-5), "attention.kv_lora_rank": uint32(rank),
		"attention.key_length": uint32(rank + turned), "attention.value_length": uint32(rank),
		"attention.key_length_mla": uint32(plain + turned), "attention.value_length_mla": uint32(value),
		"rope.dimension_count": uint32(turned),
	}, dims)
}

// TestLatentEngine: conversations of a model with a compressed cache go on, go back and take turns. Each answer is that
// of a model that has seen nothing before.
func TestLatentEngine(t *testing.T) {
	path := tinyLatent(t)
	for _, o := range []Options{{}, {Parallel: 2}, {Parallel: 2, Positions: 512}, {Ahead: 8},
		{Speculation: Speculation{Tokens: 4}}, {Parallel: 2, Cache: ir.Q8_0}} {
		o.Device, o.Context = "cpu", 256
		alone := Options{Device: "cpu", Context: 256, Cache: o.Cache}
		if o.Cache.IsBlock() {
			alone.Parallel = 2
		}
		m := openModel(t, path, o)
		r := rand.New(rand.NewPCG(3, 3))
		ask := func(prompt []int32, n, leastKnown int) []int32 {
			t.Helper()
			before := m.Reused()
			got := answerOf(t, m, prompt, Sampling{MaxTokens: n})
			want := answerOf(t, openModel(t, path, alone), prompt, Sampling{MaxTokens: n})
			if !slices.EqualFunc(got, want, func(a, b Token) bool { return a.ID == b.ID }) {
				t.Errorf("%+v, a prompt of %d: %v, want %v", o, len(prompt), got, want)
			}
			if known := m.Reused().Known - before.Known; known < leastKnown {
				t.Errorf("%+v, a prompt of %d: %d tokens were known, want %d", o, len(prompt), known, leastKnown)
			}
			for _, token := range got {
				prompt = append(prompt, token.ID)
			}
			return slices.Concat(prompt, randomPrompt(m, r, 2))
		}
		long, short := randomPrompt(m, r, 60), randomPrompt(m, r, 20)
		first := ask(long, 10, 0)
		second := ask(first, 5, 60)
		ask(short, 5, 0)
		ask(slices.Concat(first[:40], randomPrompt(m, r, 10)), 5, 0)
		ask(second, 5, 0)
	}
}
