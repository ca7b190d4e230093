package llm_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/huggingface"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/quantize"
	"github.com/vkc-go/vkc/frontend/safetensors"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
)

// orderedGPTQ returns a matrix as GPTQ with desc_act writes it, and the same matrix in f32. Its groups of 32 columns do
// not follow each other, except in the first expert. An element is scale*(number-zero) of its row and its column's
// group.
func orderedGPTQ(name string, rows, columns int, symmetric bool) (files map[string]*ir.Data, plain *ir.Data) {
	const size = 32
	groups := columns / size
	draw := func(part string, i, below int) int { return int(hashed(name+part, i) >> 32 % uint64(below)) }
	groupOf := make([]int64, columns)
	for c := range groupOf {
		groupOf[c] = int64(c / size)
	}
	for c := range groupOf {
		if strings.Contains(name, "experts.0.") {
			break
		}
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

// scaledF8 returns a matrix of 8-bit floats with a scale for each block of rows and columns, and the matrix in f32.
func scaledF8(name string, rows, columns int, scales string, block [2]int) (files map[string]*ir.Data, plain *ir.Data) {
	numbers := must(ir.NewData(ir.F8E4M3, rows, columns))
	for i := range numbers.Bytes {
		numbers.Bytes[i] = byte(hashed(name, i)) & 0xb7 // no NaN, and none above 3.75
	}
	down, across := (rows+block[0]-1)/block[0], (columns+block[1]-1)/block[1]
	scale := make([]float64, down*across)
	for i := range scale {
		scale[i] = float64(float32(0.01 * float64(1+hashed(name+"scale", i)%16)))
	}
	elements := must(numbers.Floats())
	for i := range elements {
		elements[i] *= scale[i/columns/block[0]*across+i%columns/block[1]]
	}
	return map[string]*ir.Data{"weight": numbers, scales: must(ir.FromFloats(ir.F32, scale, down, across))},
		must(ir.FromFloats(ir.F32, elements, rows, columns))
}

// packedMatrix makes the tensors of a matrix, by the ends of their names, and the matrix in f32.
type packedMatrix func(name string, rows, columns int) (files map[string]*ir.Data, plain *ir.Data)

// gptqOf and f8Of are orderedGPTQ and scaledF8 with some arguments.
func gptqOf(symmetric bool) packedMatrix {
	return func(name string, rows, columns int) (map[string]*ir.Data, *ir.Data) {
		return orderedGPTQ(name, rows, columns, symmetric)
	}
}

func f8Of(scales string, block [2]int) packedMatrix {
	return func(name string, rows, columns int) (map[string]*ir.Data, *ir.Data) {
		return scaledF8(name, rows, columns, scales, [2]int{block[0], min(block[1], columns)})
	}
}

// packedCases are models of one layer with small matrices.
var packedCases = map[string]struct {
	experts  bool
	packing  string // of config.json
	matrix   packedMatrix
	want     map[string]ir.DType
	more     string   // the suffix of the tensor that comes with attn_q
	to       ir.DType // a type of a GGUF file that keeps the matrices, or f32
	note     string
	moreDims []int
}{
	"llama gptq": {false, `{"quant_method": "gptq", "bits": 4}`, gptqOf(true),
		map[string]ir.DType{"attn_q": ir.Q4_0, "ffn_down": ir.Q4_0}, ".order",
		ir.Q4_0, "NAME.order", []int{64}},
	"mixtral gptq": {true, `{"quant_method": "gptq", "bits": 4, "desc_act": true}`, gptqOf(false),
		map[string]ir.DType{"attn_q": ir.Q5_0, "ffn_up_exps": ir.Q5_0}, ".order",
		ir.Q5_0, "NAME.order", []int{64}},
	"llama f8": {false, `{"quant_method": "fp8", "weight_block_size": [40, 32]}`, f8Of("weight_scale_inv", [2]int{40, 32}), map[string]ir.DType{"attn_q": ir.F8E4M3, "ffn_down": ir.F8E4M3},
		".weight_scale", ir.F32, "", []int{64, 2}},
	"mixtral f8": {true, `{"quant_method": "fp8", "weight_block_size": [40, 32]}`, f8Of("weight_scale_inv", [2]int{40, 32}), map[string]ir.DType{"attn_q": ir.F8E4M3, "ffn_up_exps": ir.F8E4M3},
		".weight_scale", ir.F32, "", []int{64, 2}},
	"mixtral f8 rows": {true, `{"quant_method": "fbgemm_fp8"}`, f8Of("weight_scale", [2]int{1, 1 << 20}),
		map[string]ir.DType{"attn_q": ir.F8E4M3, "ffn_up_exps": ir.F8E4M3}, ".weight_scale", ir.F32, "", []int{64, 1}},
}

// openPacked opens the folder of a case, and a folder of the same model in f32.
func openPacked(t *testing.T, name string) (f, inF32 *gguf.File) {
	t.Helper()
	c := packedCases[name]
	class, more, matrices := "LlamaForCausalLM", "", "mlp.gate_proj:96x64 mlp.up_proj:96x64 mlp.down_proj:64x96"
	if c.experts {
		class, more = "MixtralForCausalLM", `"num_local_experts": 2, "num_experts_per_tok": 2,`
		matrices = ""
		for e := range 2 {
			expert := fmt.Sprintf("block_sparse_moe.experts.%d.", e)
			matrices += expert + "w1:96x64 " + expert + "w3:96x64 " + expert + "w2:64x96 "
		}
	}
	config := `{"architectures": ["` + class + `"], "hidden_size": 64, "num_hidden_layers": 1, ` + more + `
		"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "rope_theta": 500,
		"max_position_embeddings": 32, "rms_norm_eps": 1e-05, "tie_word_embeddings": true,
		"quantization_config": ` + c.packing + `}`
	norm := must(ir.FromFloats(ir.F32, slices.Repeat([]float64{1.5}, 64), 64))
	embedding := make([]float64, 40*64)
	for i := range embedding {
		embedding[i] = float64(hashed("embedding", i)>>40)/(1<<23) - 1
	}
	var packed, plain []safetensors.Named
	for name, d := range map[string]*ir.Data{"model.norm": norm, "model.layers.0.input_layernorm": norm,
		"model.layers.0.post_attention_layernorm": norm,
		"model.embed_tokens":                      must(ir.FromFloats(ir.F32, embedding, 40, 64)),
		"model.layers.0.block_sparse_moe.gate":    must(ir.FromFloats(ir.F32, embedding[:128], 2, 64)),
	} {
		if c.experts || !strings.Contains(name, "moe") {
			packed = append(packed, safetensors.Named{Name: name + ".weight", Data: d})
		}
	}
	plain = slices.Clone(packed)
	for _, part := range strings.Fields("self_attn.q_proj:64x64 self_attn.k_proj:32x64 self_attn.v_proj:32x64 " +
		"self_attn.o_proj:64x64 " + matrices) {
		var rows, columns int
		name, size, _ := strings.Cut(part, ":")
		if _, err := fmt.Sscanf(size, "%dx%d", &rows, &columns); err != nil {
			t.Fatal(err)
		}
		name = "model.layers.0." + name + "."
		parts, whole := c.matrix(name, rows, columns)
		plain = append(plain, safetensors.Named{Name: name + "weight", Data: whole})
		for part, d := range parts {
			packed = append(packed, safetensors.Named{Name: name + part, Data: d})
		}
	}
	return openTensors(t, config, packed), openTensors(t, config, plain)
}

// TestPackedFolder: matrices that nn.Linear takes stay small, and the model has the logits of the same matrices in f32.
// Matrices of GPTQ with desc_act become blocks with an order of their columns. Matrices of 8-bit floats come with their
// scales. A GGUF file of the folder has orders, and no scales.
func TestPackedFolder(t *testing.T) {
	for name, c := range packedCases {
		t.Run(name, func(t *testing.T) {
			f, inF32 := openPacked(t, name)
			for name, want := range c.want {
				d := must(f.Weight("blk.0." + name + ".weight"))
				if has := f.HasWeight("blk.0." + name + c.more); d.DType != want || has != (want != ir.F32) {
					t.Errorf("%s is %s, and has %s: %v", name, d, c.more, has)
				}
			}
			if d := must(f.Weight("blk.0.attn_q" + c.more)); !slices.Equal(d.Dims, c.moreDims) {
				t.Errorf("attn_q%s is %s", c.more, d)
			}
			want := logitsOf(t, inF32)
			compare(t, "logits", logitsOf(t, f), want, 1e-5)
			compare(t, "logits of a GGUF file in f32", logitsOf(t, writtenAs(t, f, ir.F32, "")), want, 1e-5)
			again := writtenAs(t, f, c.to, c.note)
			if again.HasWeight("blk.0.attn_q"+c.more) != (c.more == ".order") {
				t.Errorf("the GGUF file has %v", again.Names())
			}
			for _, name := range []string{"blk.0.attn_q.weight", "blk.0.attn_q.order"} {
				if c.more != ".order" {
					continue
				}
				a, b := must(f.Weight(name)), must(again.Weight(name))
				if a.DType != b.DType || !bytes.Equal(a.Bytes, b.Bytes) {
					t.Errorf("%s is %s in the GGUF file, and %s in the folder", name, b, a)
				}
			}
		})
	}
}

// TestRefusedGroups: a column of GPTQ must be in a group that has a scale.
func TestRefusedGroups(t *testing.T) {
	const base = "model.layers.0.mlp.up_proj."
	folder := llamaFolder(t)
	parts, _ := orderedGPTQ(base, 48, 32, true)
	parts["g_idx"] = must(ir.FromInts(ir.I32, slices.Repeat([]int64{7}, 32), 32))
	var list []safetensors.Named
	for part, d := range parts {
		list = append(list, safetensors.Named{Name: base + part, Data: d})
	}
	replaceTensor(t, folder, base+"weight", list...)
	config := strings.Replace(folderCases["llama"].config, "{",
		`{"quantization_config": {"quant_method": "gptq", "bits": 4}, `, 1)
	write(t, filepath.Join(folder, "config.json"), config)
	if _, err := huggingface.Open(folder); err == nil || !strings.Contains(err.Error(), "column 0 is in group 7") {
		t.Errorf("got the error %v", err)
	}
}

// noLinear are parts of names. Quantizers leave such matrices alone, because no linear layer has them.
var noLinear = []string{"embed", "norm", "conv", "router", "gate.weight", "wg.weight", "lm_head", "score",
	"expert_bias"}

// TestPackedFamilies packs the matrices of folders that have rows or columns in another order than GGUF files, or that
// the model cuts. They stay packed, and have the same elements as those of the folder with floats.
func TestPackedFamilies(t *testing.T) {
	for _, name := range []string{"bailingmoe2", "deepseek2-v2", "gptneox", "granitemoe", "internlm2", "llama",
		"qwen35", "qwen3next"} {
		golden := readGolden(t, filepath.Join(goldenDir, name+".json")).file(t)
		folder := t.TempDir()
		writeFolder(t, folder, golden, folderCases[name])
		for _, packing := range []string{"llama f8", "mixtral gptq"} {
			t.Run(name+" as "+packing, func(t *testing.T) {
				packed, plain := packFolder(t, folder, packing)
				for _, weight := range plain.Names() {
					have, want := must(packed.Weight(weight)), must(plain.Weight(weight))
					if d, _ := golden.Weight(weight); d != nil && bytes.Equal(d.Bytes, want.Bytes) {
						continue // it was not packed
					}
					orderOfColumns := packing == "mixtral gptq" && strings.HasSuffix(weight, "ssm_out.weight")
					if !have.DType.IsBlock() && have.DType != ir.F8E4M3 && !orderOfColumns {
						t.Errorf("%s is %s, which is not packed", weight, have)
					}
					if i, a, b := differ(elementsOf(t, packed, weight), elementsOf(t, plain, weight)); i >= 0 {
						t.Errorf("element %d of %s, %s, is %v: want %v", i, weight, have, a, b)
					}
				}
				if name == "deepseek2-v2" && packing == "llama f8" {
					compareLatent(t, packed, plain)
				}
			})
		}
	}
}

// compareLatent compares the logits of models with latent attention, in the plain and the absorbed form.
func compareLatent(t *testing.T, packed, plain *gguf.File) {
	t.Helper()
	const context, many, few = 96, 80, 4
	text := []int32{3, 17, 8, 8}
	for _, size := range []int{many, few} {
		want := logitsAfter(t, openParts(t, "reference", plain, context, size)[size], text, len(text))
		got := logitsAfter(t, openParts(t, "cpu", packed, context, size)[size], text, len(text))
		compare(t, fmt.Sprintf("%d tokens", size), got, want, 1e-4)
	}
}

// packFolder opens a folder with random matrices, packed as in a case of packedCases and in f32.
func packFolder(t *testing.T, folder, packing string) (packed, plain *gguf.File) {
	t.Helper()
	c := packedCases[packing]
	config := string(must(os.ReadFile(filepath.Join(folder, "config.json"))))
	tensors := must(safetensors.OpenIndex(filepath.Join(folder, "model.safetensors.index.json")))
	t.Cleanup(func() { tensors.Close() })
	var small, whole []safetensors.Named
	for _, name := range tensors.Names() {
		d := must(tensors.Weight(name))
		base, isWeight := strings.CutSuffix(name, "weight")
		other := func(part string) bool { return strings.Contains(name, part) }
		unit := 8 // columns
		if strings.Contains(c.packing, "gptq") {
			unit = 32
		}
		if !isWeight || len(d.Dims) != 2 || d.Dims[0]%8+d.Dims[1]%unit != 0 || slices.ContainsFunc(noLinear, other) {
			small = append(small, safetensors.Named{Name: name, Data: d})
			whole = append(whole, safetensors.Named{Name: name, Data: d})
			continue
		}
		parts, elements := c.matrix(base, d.Dims[0], d.Dims[1])
		whole = append(whole, safetensors.Named{Name: name, Data: elements})
		for part, d := range parts {
			small = append(small, safetensors.Named{Name: base + part, Data: d})
		}
	}
	packed = openTensors(t, strings.Replace(config, "{", `{"quantization_config": `+c.packing+",", 1), small)
	return packed, openTensors(t, config, whole)
}

// elementsOf returns the elements of a weight, with its scales and with its columns in their own order.
func elementsOf(t *testing.T, f *gguf.File, name string) []float64 {
	t.Helper()
	d := must(f.Weight(name))
	columns := d.Dims[len(d.Dims)-1]
	elements := slices.Clone(decoded(t, d))
	base := strings.TrimSuffix(name, ".weight")
	if scale := base + ".weight_scale"; f.HasWeight(scale) {
		s := must(f.Weight(scale))
		scales, groups := must(s.Floats()), s.Dims[len(s.Dims)-1]
		for i := range elements {
			elements[i] *= scales[i/columns*groups+i%columns/(columns/groups)]
		}
	}
	if order := base + ".order"; f.HasWeight(order) {
		list := must(must(f.Weight(order)).Ints())
		each := len(d.Bytes) / (len(list) / columns) // bytes of a matrix
		rows := each * d.Elems() / len(d.Bytes) / columns
		own := slices.Clone(elements)
		for i, v := range elements {
			own[i-i%columns+int(list[i/columns/rows*columns+i%columns])] = v
		}
		elements = own
	}
	return elements
}

// differ returns the first different element of two lists, or -1 if there is none.
func differ(a, b []float64) (at int, x, y float64) {
	if len(a) != len(b) {
		return 0, float64(len(a)), float64(len(b))
	}
	for i := range a {
		if math.Abs(a[i]-b[i]) > 1e-6*math.Abs(b[i]) {
			return i, a[i], b[i]
		}
	}
	return -1, 0, 0
}

// openTensors opens a folder with a configuration and tensors.
func openTensors(t *testing.T, config string, tensors []safetensors.Named) *gguf.File {
	t.Helper()
	folder := t.TempDir()
	write(t, filepath.Join(folder, "config.json"), config)
	if err := safetensors.WriteFile(filepath.Join(folder, "model.safetensors"), nil, tensors); err != nil {
		t.Fatal(err)
	}
	f, err := huggingface.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestPackedOnDevice: kernels of the CPU and of a GPU decode the matrices and follow the order of the columns.
func TestPackedOnDevice(t *testing.T) {
	for _, device := range []string{"cpu", "vulkan"} {
		t.Run(device, func(t *testing.T) {
			dev, err := vkc.OpenDevice(device)
			vktest.Need(t, err)
			defer dev.Close()
			for _, name := range []string{"llama gptq", "mixtral gptq", "mixtral f8", "mixtral f8 rows"} {
				f, inF32 := openPacked(t, name)
				program := must(dev.Compile(t.Context(), logitsGraph(t, f), vkc.CompileOptions{Weights: f}))
				exe := must(dev.Load(t.Context(), program, vkc.LoadOptions{Weights: f}))
				out, err := exe.Run(t.Context(), vkc.Tensors{"tokens": data(t, prompt)})
				if err != nil {
					t.Fatal(err)
				}
				compare(t, name, must(out.Outputs["logits"].Floats()), logitsOf(t, inF32), 1e-4)
				if err := exe.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// logitsOf returns the logits after each token of the prompt.
func logitsOf(t *testing.T, f *gguf.File) []float64 {
	t.Helper()
	return run(t, program(t, f, logitsGraph(t, f), nil), prompt, nil)
}

func logitsGraph(t *testing.T, f *gguf.File) *ir.Graph {
	t.Helper()
	return logitsOfAll(configOf(t, f), len(prompt))
}

// logitsOfAll returns the graph of the logits after each of n tokens.
func logitsOfAll(cfg llm.Config, n int) *ir.Graph {
	return must(frontend.Build("logits", func(b *frontend.Builder) {
		tokens := b.Input("tokens", ir.I32, n)
		b.Output("logits", llm.Forward(b, cfg, tokens, llm.EveryToken).Reshape(-1))
	}))
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
