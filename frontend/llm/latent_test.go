package llm_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// openParts loads programs of one model on a device, for parts of these sizes.
func openParts(t *testing.T, device string, f *gguf.File, context int, sizes ...int) map[int]*vkc.Executable {
	t.Helper()
	dev, err := vkc.OpenDevice(device)
	vktest.Need(t, err)
	vktest.CloseAfter(t, dev)
	cfg := configOf(t, f)
	cfg.Context = context
	all := map[int]*vkc.Executable{}
	for _, size := range sizes {
		g, err := llm.Steps(cfg, size, context)
		if err != nil {
			t.Fatal(err)
		}
		if all[size], err = dev.LoadGraph(t.Context(), g, f, vkc.LoadOptions{Share: all[sizes[0]]}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := all[size].Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return all
}

// logitsAfter runs a part of a text that ends at a position.
func logitsAfter(t *testing.T, exe *vkc.Executable, part []int32, end int) []float64 {
	t.Helper()
	out, err := exe.Run(t.Context(), vkc.Tensors{"tokens": data(t, part)},
		vkc.RunOptions{Symbols: map[string]int64{"S": int64(end)}})
	if err != nil {
		t.Fatal(err)
	}
	return must(out.Outputs["logits"].Floats())
}

// TestLatentForms: a program for many tokens makes keys and values of the cached latent vectors, and one for few tokens
// multiplies the queries instead. Both continue each other's texts, and their logits agree.
func TestLatentForms(t *testing.T) {
	const context, many, few = 96, 80, 4
	for _, name := range []string{"deepseek2", "deepseek2-v2"} {
		f := readGolden(t, filepath.Join(goldenDir, name+".json")).file(t)
		plain, absorbed := openParts(t, "cpu", f, context, many, few), openParts(t, "cpu", f, context, many, few)
		text := make([]int32, 60)
		for i := range text {
			text[i] = int32(i * i % 31)
		}
		mostly := openParts(t, "cpu", f, context, many, few) // the forms in turns
		for begin, end := 0, 0; begin < len(text); begin = end {
			end = min(begin+few, len(text))
			part, what := text[begin:end], fmt.Sprintf("%s, %d tokens", name, end)
			want := logitsAfter(t, plain[many], part, end)
			compare(t, what, logitsAfter(t, absorbed[few], part, end), want, 1e-5)
			form := mostly[[]int{many, few}[begin/few%2]]
			compare(t, what+", in turns", logitsAfter(t, form, part, end), want, 1e-5)
		}
	}
}

// TestLatentCache: a layer of DeepSeek V3 stores 576 numbers a position, and nothing else.
func TestLatentCache(t *testing.T) {
	const width, heads, latent, queries, vocab, context = 7168, 128, 512, 1536, 129280, 4096
	types := map[string]ir.Type{}
	for name, dims := range map[string][]int{"token_embd": {vocab, width}, "output_norm": {width},
		"blk.0.attn_norm": {width}, "blk.0.ffn_norm": {width}, "blk.0.attn_q_a": {queries, width},
		"blk.0.attn_q_a_norm": {queries}, "blk.0.attn_q_b": {heads * 192, queries},
		"blk.0.attn_kv_a_mqa": {latent + 64, width}, "blk.0.attn_kv_a_norm": {latent},
		"blk.0.attn_k_b": {heads, latent, 128}, "blk.0.attn_v_b": {heads, 128, latent},
		"blk.0.attn_output": {width, heads * 128}, "blk.0.ffn_gate": {18432, width}, "blk.0.ffn_up": {18432, width},
		"blk.0.ffn_down": {width, 18432}} {
		types[name+".weight"] = ir.Type{DType: ir.F32, Shape: ir.ShapeOf(dims...)}
	}
	cfg := llm.Config{Architecture: "deepseek2", Layers: 1, Width: width, Heads: heads, KVHeads: 1, HeadDim: 192,
		ValueDim: 128, Latent: latent, QueryLatent: queries, RopeDims: 64, RopeBase: 10000, FeedForward: 18432,
		Vocab: vocab, Context: context, NormEps: 1e-6, Types: types}
	for tokens, keys := range map[int]string{1: "f32[1,S,576]", 512: "f32[128,S,192]"} {
		g, err := llm.Steps(cfg, tokens, context, llm.Cache(ir.F16))
		if err != nil {
			t.Fatal(err)
		}
		states := g.Leaves(ir.OpState)
		if want := "f16[1,4096,576]"; len(states) != 1 || states[0].Type().String() != want {
			t.Errorf("%d tokens: states %v: want one, %s", tokens, states, want)
		}
		for _, n := range g.Nodes() {
			if n.Op() == ir.OpAttention && n.Arg(1).Type().String() != keys {
				t.Errorf("%d tokens at once: keys %s, want %s", tokens, n.Arg(1).Type(), keys)
			}
		}
	}
}

// TestStacksOfBlocks: weights with a matrix for each head or part of the residual stream, in blocks, give the logits of
// their values.
func TestStacksOfBlocks(t *testing.T) {
	const context, many, few = 96, 80, 4
	text := []int32{3, 17, 8, 8}
	for name, sizes := range map[string]map[string][]int{ // the sizes by device, each size on each
		"deepseek2": {"cpu": {many, few}, "vulkan": {many}},
		"gemma3n":   {"cpu": {few}, "vulkan": {few}},
	} {
		f := readGolden(t, filepath.Join(goldenDir, name+".json")).file(t)
		inBlocks, values := requantized(t, f, ir.Q8_0)
		want := logitsAfter(t, openParts(t, "reference", values, context, few)[few], text, len(text))
		for _, device := range []string{"cpu", "vulkan"} {
			for _, size := range sizes[device] {
				got := logitsAfter(t, openParts(t, device, inBlocks, context, size)[size], text, len(text))
				compare(t, fmt.Sprintf("%s, %s, %d", name, device, size), got, want, 2e-2)
			}
		}
	}
}

// requantized returns a model with its matrices in blocks, and the same model with the values of these blocks in f32.
func requantized(t *testing.T, f *gguf.File, format ir.DType) (inBlocks, values *gguf.File) {
	t.Helper()
	var blocks, wide gguf.Writer
	for _, kv := range f.Metadata() {
		for _, w := range []*gguf.Writer{&blocks, &wide} {
			if err := w.Set(kv.Key, kv.Value); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range f.Names() {
		d := must(f.Weight(name))
		b, v := d, d
		if len(d.Dims) > 1 && d.Dims[len(d.Dims)-1]%format.BlockElems() == 0 {
			b = must(ir.NewData(format, d.Dims...))
			elems := must(d.Floats())
			single := make([]float32, len(elems))
			for i, e := range elems {
				single[i] = float32(e)
			}
			if err := quant.Quantize(b.Bytes, format, single, nil); err != nil {
				t.Fatal(err)
			}
			if err := quant.Dequantize(single, format, b.Bytes); err != nil {
				t.Fatal(err)
			}
			for i, e := range single {
				elems[i] = float64(e)
			}
			v = must(ir.FromFloats(ir.F32, elems, d.Dims...))
		}
		if err := blocks.Add(name, b); err != nil {
			t.Fatal(err)
		}
		if err := wide.Add(name, v); err != nil {
			t.Fatal(err)
		}
	}
	read := func(w *gguf.Writer) *gguf.File {
		var buf bytes.Buffer
		if _, err := w.WriteTo(&buf); err != nil {
			t.Fatal(err)
		}
		return must(gguf.NewReader(buf.Bytes()))
	}
	return read(&blocks), read(&wide)
}
