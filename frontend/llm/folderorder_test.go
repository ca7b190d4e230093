package llm_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/huggingface"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/quantize"
	"github.com/vkc-go/vkc/frontend/safetensors"
	"github.com/vkc-go/vkc/ir"
)

// orderedGPTQ returns a matrix as GPTQ with desc_act writes it, in groups of 32 columns that do not follow each other,
// and the same matrix in f32. An element is scale*(number-zero) of its row and its column's group.
func orderedGPTQ(name string, rows, columns int, symmetric bool) (files map[string]*ir.Data, plain *ir.Data) {
	const size = 32
	groups := columns / size
	draw := func(part string, i, below int) int { return int(hashed(name+part, i) >> 32 % uint64(below)) }
	groupOf := make([]int64, columns)
	for c := range groupOf {
		groupOf[c] = int64(c / size)
	}
	for c := range groupOf {
		other := draw("order", c, c+1)
		groupOf[c], groupOf[other] = groupOf[other], groupOf[c]
	}
	numbers, zeros := must(ir.NewData(ir.I32, columns/8, rows)), must(ir.NewData(ir.I32, groups, rows/8))
	put := func(d *ir.Data, word, at, v int) {
		old := binary.LittleEndian.Uint32(d.Bytes[4*word:])
		binary.LittleEndian.PutUint32(d.Bytes[4*word:], old|uint32(v)<<(4*at))
	}
	scales, zeroOf := make([]float64, groups*rows), make([]int, groups*rows)
	for i := range scales {
		g, row := i/rows, i%rows
		scales[i], zeroOf[i] = float64(1+draw("scale", i, 7))/128, 8
		if !symmetric {
			zeroOf[i] = 1 + draw("zero", i, 16)
		}
		put(zeros, g*rows/8+row/8, row%8, zeroOf[i]-1)
	}
	elements := make([]float64, rows*columns)
	for row := range rows {
		for c := range columns {
			n, g := draw("number", row*columns+c, 16), int(groupOf[c])*rows+row
			put(numbers, c/8*rows+row, c%8, n)
			elements[row*columns+c] = scales[g] * float64(n-zeroOf[g])
		}
	}
	return map[string]*ir.Data{"qweight": numbers, "qzeros": zeros,
		"scales": must(ir.FromFloats(ir.F16, scales, groups, rows)),
		"g_idx":  must(ir.FromInts(ir.I32, groupOf, columns))}, must(ir.FromFloats(ir.F32, elements, rows, columns))
}

// TestOrderedFolder: matrices of GPTQ with desc_act become blocks with an order of their columns, and the model has the
// logits of the same matrices in f32. Experts, which are no nn.Linear, become f32. A GGUF file of the folder has the
// orders too.
func TestOrderedFolder(t *testing.T) {
	config := `{"architectures": ["%s"], "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4,
		"num_key_value_heads": 2, "intermediate_size": 96, "max_position_embeddings": 32, "rms_norm_eps": 1e-05,
		"rope_theta": 500, %s "tie_word_embeddings": true,
		"quantization_config": {"quant_method": "gptq", "bits": 4}}`
	const attention = "q:64x64 k:32x64 v:32x64 o:64x64"
	for _, c := range []struct {
		class, more, rest, ordered, inF32 string
		symmetric                         bool
		dtype                             ir.DType
	}{
		{"LlamaForCausalLM", "", "mlp.gate_proj:96x64 mlp.up_proj:96x64 mlp.down_proj:64x96", "ffn_down", "", true, ir.Q4_0},
		{"MixtralForCausalLM", `"num_local_experts": 2, "num_experts_per_tok": 2,`, "block_sparse_moe.experts.0.w1:96x64 block_sparse_moe.experts.0.w3:96x64 " +
			"block_sparse_moe.experts.0.w2:64x96 block_sparse_moe.experts.1.w1:96x64 " +
			"block_sparse_moe.experts.1.w3:96x64 block_sparse_moe.experts.1.w2:64x96", "attn_q", "ffn_up_exps", false, ir.Q5_0},
	} {
		t.Run(c.class, func(t *testing.T) {
			norm := must(ir.FromFloats(ir.F32, slices.Repeat([]float64{1.5}, 64), 64))
			embedding := make([]float64, 40*64)
			for i := range embedding {
				embedding[i] = float64(hashed("embedding", i)>>40)/(1<<23) - 1
			}
			var files, plain []safetensors.Named
			for name, d := range map[string]*ir.Data{"model.norm": norm, "model.layers.0.input_layernorm": norm,
				"model.layers.0.post_attention_layernorm": norm,
				"model.embed_tokens":                      must(ir.FromFloats(ir.F32, embedding, 40, 64)),
				"model.layers.0.block_sparse_moe.gate":    must(ir.FromFloats(ir.F32, embedding[:128], 2, 64)),
			} {
				if c.class == "MixtralForCausalLM" || !strings.Contains(name, "moe") {
					files = append(files, safetensors.Named{Name: name + ".weight", Data: d})
				}
			}
			plain = slices.Clone(files)
			names := strings.Fields(c.rest)
			for _, part := range strings.Fields(attention) {
				names = append(names, "self_attn."+part[:1]+"_proj"+part[1:])
			}
			for _, name := range names {
				var rows, columns int
				name, size, _ := strings.Cut(name, ":")
				fmt.Sscanf(size, "%dx%d", &rows, &columns)
				name = "model.layers.0." + name + "."
				parts, whole := orderedGPTQ(name, rows, columns, c.symmetric)
				plain = append(plain, safetensors.Named{Name: name + "weight", Data: whole})
				for part, d := range parts {
					files = append(files, safetensors.Named{Name: name + part, Data: d})
				}
			}
			open := func(tensors []safetensors.Named) *gguf.File {
				folder := t.TempDir()
				write(t, filepath.Join(folder, "config.json"), fmt.Sprintf(config, c.class, c.more))
				if err := safetensors.WriteFile(filepath.Join(folder, "model.safetensors"), nil, tensors); err != nil {
					t.Fatal(err)
				}
				f := must(huggingface.Open(folder))
				t.Cleanup(func() { f.Close() })
				return f
			}
			ordered := open(files)
			for name, want := range map[string]ir.DType{c.ordered: c.dtype, c.inF32: ir.F32} {
				if name == "" {
					continue
				}
				d := must(ordered.Weight("blk.0." + name + ".weight"))
				if has := ordered.HasWeight("blk.0." + name + ".order"); d.DType != want || has != (want != ir.F32) {
					t.Errorf("%s is %s, and has an order: %v", name, d, has)
				}
			}
			want := logitsOf(t, open(plain))
			got := logitsOf(t, ordered)
			compare(t, "logits", got, want, 1e-5)
			for to, note := range map[ir.DType]string{c.dtype: "NAME.order", ir.F32: ""} {
				again := writtenAs(t, ordered, to, note)
				if to == ir.F32 {
					compare(t, "logits of a GGUF file in f32", logitsOf(t, again), want, 1e-5)
				}
				for _, end := range []string{".weight", ".order"} {
					name := "blk.0.attn_q" + end
					a := must(ordered.Weight(name))
					b, err := again.Weight(name)
					same := err == nil && a.DType == b.DType && bytes.Equal(a.Bytes, b.Bytes)
					if same != (to == c.dtype) {
						t.Errorf("%s is %v, %v in the GGUF file, and %s in the folder", name, b, err, a)
					}
				}
			}
		})
	}
}

// logitsOf returns the logits after each token of the prompt.
func logitsOf(t *testing.T, f *gguf.File) []float64 {
	t.Helper()
	cfg := configOf(t, f)
	g, err := frontend.Build("logits", func(b *frontend.Builder) {
		tokens := b.Input("tokens", ir.I32, len(prompt))
		b.Output("logits", llm.Forward(b, cfg, tokens, llm.EveryToken).Reshape(-1))
	})
	return run(t, program(t, f, g, err), prompt, nil)
}

// writtenAs writes the matrices of a model in another type to a GGUF file, and opens it. note is a part of the plan's
// only note, "" for none.
func writtenAs(t *testing.T, f *gguf.File, to ir.DType, note string) *gguf.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.gguf")
	plan := must(quantize.New(must(quantize.NewSource(f)), quantize.Options{Type: to, Requantize: true}))
	if (len(plan.Notes) > 0) != (note != "") || !strings.Contains(strings.Join(plan.Notes, ""), note) {
		t.Errorf("notes %q, want one with %q", plan.Notes, note)
	}
	must(plan.WriteFile(t.Context(), path))
	again := must(gguf.Open(path))
	t.Cleanup(func() { again.Close() })
	return again
}
