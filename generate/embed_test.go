package generate_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
)

// tinyBERT writes a model of random weights, without a way of pooling if that is 0.
func tinyBERT(t *testing.T, pooling uint32) string {
	t.Helper()
	words := strings.Fields("[PAD] [UNK] [CLS] [SEP] ▁a ▁kernel ▁of ▁many ▁words s")
	meta := map[string]any{
		"general.architecture": "bert", "bert.block_count": uint32(1), "bert.embedding_length": uint32(16),
		"bert.context_length": uint32(16), "bert.feed_forward_length": uint32(32),
		"bert.attention.head_count": uint32(2), "bert.attention.layer_norm_epsilon": float32(1e-12),
		"bert.attention.causal": false, "tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": words,
		"tokenizer.ggml.token_type":       []int32{3, 2, 3, 3, 1, 1, 1, 1, 1, 1},
		"tokenizer.ggml.unknown_token_id": uint32(1), "tokenizer.ggml.cls_token_id": uint32(2),
		"tokenizer.ggml.seperator_token_id": uint32(3),
	}
	if pooling != 0 {
		meta["bert.pooling_type"] = pooling
	}
	dims := map[string][]int{
		"token_embd": {len(words), 16}, "token_types": {2, 16}, "position_embd": {16, 16}, "token_embd_norm": {16},
		"blk.0.attn_q": {16, 16}, "blk.0.attn_k": {16, 16}, "blk.0.attn_v": {16, 16}, "blk.0.attn_output": {16, 16},
		"blk.0.attn_output_norm": {16}, "blk.0.ffn_up": {32, 16}, "blk.0.ffn_down": {16, 32},
		"blk.0.layer_output_norm": {16},
	}
	if pooling == 4 { // the head that rates pairs
		dims["cls"], dims["cls.output"] = []int{16, 16}, []int{1, 16}
	}
	var w gguf.Writer
	for key, v := range meta {
		if err := w.Set(key, v); err != nil {
			t.Fatal(err)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	names := make([]string, 0, len(dims))
	for name := range dims {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		d, err := ir.NewData(ir.F32, dims[name]...)
		if err != nil {
			t.Fatal(err)
		}
		values := make([]float64, d.Elems())
		for i := range values {
			values[i] = random.NormFloat64()
		}
		ir.EncodeFloats(d.Bytes, ir.F32, values)
		if err := w.Add(name+".weight", d); err != nil {
			t.Fatal(err)
		}
	}
	return written(t, &w)
}

func openEmbedder(t *testing.T, path, device string) *generate.Embedder {
	t.Helper()
	e, err := generate.OpenEmbedder(t.Context(), path, generate.Options{Device: device})
	if err != nil {
		t.Fatal(err)
	}
	vktest.CloseAfter(t, e)
	return e
}

func embed(t *testing.T, e *generate.Embedder, text string) []float32 {
	t.Helper()
	v, err := e.Embed(t.Context(), e.Tokenizer().Encode(text, tokenizer.Options{Whole: true}))
	if err != nil {
		t.Fatal(err)
	}
	return generate.Unit(v)
}

func dot(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// TestEmbedder: a text's vector has length 1, is its own, and each way of pooling gives another.
func TestEmbedder(t *testing.T) {
	const text = "a kernel of many words"
	var all [][]float32
	for pooling := range uint32(3) {
		path := tinyBERT(t, pooling+1)
		if ok, err := generate.IsEmbedder(path); !ok || err != nil {
			t.Errorf("no embedder: %v", err)
		}
		e := openEmbedder(t, path, "cpu")
		ids := e.Tokenizer().Encode(text, tokenizer.Options{Whole: true})
		if !slices.Equal(ids, []int32{2, 4, 5, 6, 7, 8, 3}) {
			t.Errorf("tokens %v", ids)
		}
		v := embed(t, e, text)
		if len(v) != 16 || math.Abs(dot(v, v)-1) > 1e-5 || dot(v, embed(t, e, "many words")) > 0.999 ||
			!slices.Equal(v, embed(t, e, text)) {
			t.Errorf("vector %v", v)
		}
		for _, other := range all {
			if dot(v, other) > 0.999 {
				t.Errorf("pooling %d gives what another gives", pooling+1)
			}
		}
		all = append(all, v)
	}
	if zero := generate.Unit(make([]float32, 2)); !slices.Equal(zero, []float32{0, 0}) {
		t.Errorf("a unit of nothing is %v", zero)
	}
}

func TestEmbedderRefuses(t *testing.T) {
	e := openEmbedder(t, tinyBERT(t, 1), "cpu")
	for want, tokens := range map[string][]int32{
		"0 tokens: want 1 to 16": nil, "17 tokens: want 1 to 16": make([]int32, 17), "token 1 of the text is 10": {3, 10},
	} {
		if _, err := e.Embed(t.Context(), tokens); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for path, want := range map[string]string{tinyBERT(t, 0): `pooling "": want mean`, tinyBERT(t, 5): "pooling_type",
		gollama: `pooling "": want mean`} {
		if ok, _ := generate.IsEmbedder(path); ok {
			t.Errorf("%s is an embedder", path)
		}
		_, err := generate.OpenEmbedder(t.Context(), path, generate.Options{Device: "cpu"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	_, err := generate.Open(context.Background(), tinyBERT(t, 1), generate.Options{Device: "cpu"})
	if err == nil || !strings.Contains(err.Error(), `predicts no tokens`) {
		t.Errorf("error %v", err)
	}
}

// TestEmbedderOnDevice: the device gives the vectors of the reference, for texts of several lengths.
func TestEmbedderOnDevice(t *testing.T) {
	dev, err := vkc.OpenDevice("vulkan")
	vktest.Need(t, err)
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	devtest.OwnCache(t)
	for _, pooling := range []uint32{1, 3} {
		path := tinyBERT(t, pooling)
		want, got := openEmbedder(t, path, "cpu"), openEmbedder(t, path, "vulkan")
		for _, text := range []string{"kernels", "a kernel of many words"} {
			t.Run(fmt.Sprint(pooling, text), func(t *testing.T) {
				if c := dot(embed(t, want, text), embed(t, got, text)); c < 1-1e-5 {
					t.Errorf("a cosine of %v", c)
				}
			})
		}
	}
}

// TestRank: a cross-encoder rates a document for a query. The rating depends on both, and on which is which.
func TestRank(t *testing.T) {
	path := tinyBERT(t, 4)
	if ok, err := generate.IsEmbedder(path); !ok || err != nil {
		t.Errorf("no embedder: %v", err)
	}
	e := openEmbedder(t, path, "cpu")
	pair := e.Pair("a kernel", "many words")
	if !e.Ranks() || !slices.Equal(pair, []int32{2, 4, 5, 3, 7, 8, 3}) {
		t.Errorf("ranks: %v, pair %v", e.Ranks(), pair)
	}
	seen := map[float32]bool{}
	for _, texts := range [][2]string{{"a kernel", "many words"}, {"many words", "a kernel"}, {"words", "of"},
		{"of", "words"}} {
		score, err := e.Rank(t.Context(), e.Pair(texts[0], texts[1]))
		if err != nil {
			t.Fatal(err)
		}
		if seen[score] || score != score {
			t.Errorf("%q has the rating %v, as others have", texts, score)
		}
		seen[score] = true
	}
	if _, err := e.Embed(t.Context(), pair); err == nil || !strings.Contains(err.Error(), "rates pairs of texts") {
		t.Errorf("an embedding: %v", err)
	}
	if _, err := e.Rank(t.Context(), make([]int32, 17)); err == nil || !strings.Contains(err.Error(), "17 tokens") {
		t.Errorf("a long pair: %v", err)
	}
	if _, err := openEmbedder(t, tinyBERT(t, 1), "cpu").Rank(t.Context(), pair); err == nil ||
		!strings.Contains(err.Error(), "makes embeddings") {
		t.Errorf("a rating: %v", err)
	}
}
