package main

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/safetensors"
	"github.com/vkc-go/vkc/internal/visiontest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// TestFolder: every verb that takes a model takes a Hugging Face folder. The GGUF file that vkc quantize makes of the
// folder is the same model.
func TestFolder(t *testing.T) {
	folder := gollamaFolder(t)
	out := filepath.Join(t.TempDir(), "out.gguf")
	ok(t, "quantize", folder, "-o", out, "--type", "bf16")
	sameModels(t, folder, out)
	line := []string{"generate", "-p", "func main() {\n", "--device", "cpu", "-n", "2", "--ctx", "16", "-m"}
	fromFolder, fromFile := ok(t, append(line, folder)...), ok(t, append(line, out)...)
	if fromFolder.stdout != fromFile.stdout || fromFolder.stdout == "" {
		t.Errorf("the folder gives %q, and its GGUF file %q", fromFolder.stdout, fromFile.stdout)
	}
	tokens := ok(t, "tokenize", "-m", folder, "--ids", "if err != nil {\n\treturn")
	if want := ok(t, "tokenize", "-m", gollama, "--ids", "if err != nil {\n\treturn"); tokens != want {
		t.Errorf("tokens %q, want %q", tokens.stdout, want.stdout)
	}
	has(t, ok(t, "inspect", folder).stdout, "Hugging Face folder", "general.architecture", `"llama"`,
		"blk.0.attn_q.weight", "bf16")
	graph := filepath.Join(t.TempDir(), "graph.json")
	ok(t, "graph", folder, "-o", graph)
	if g, err := vkc.ReadGraph(graph); err != nil || len(g.Leaves(ir.OpWeight)) != 74 {
		t.Errorf("the graph: %v", err)
	}
	fails(t, exitFailure, []string{"generate", "-m", t.TempDir(), "-p", "x"}, "there is no config.json",
		"want a model's folder")
}

// TestTowerOfFolder: vkc quantize also writes the vision tower of a folder, next to the model, and the two files read
// pictures as the folder does.
func TestTowerOfFolder(t *testing.T) {
	folder := gollamaFolder(t)
	addTower(t, folder)
	dir := t.TempDir()
	out := filepath.Join(dir, "out.gguf")
	has(t, ok(t, "quantize", folder, "-o", out, "--type", "bf16").stderr, filepath.Join(dir, "mmproj-out.gguf"))
	photo := write(t, "photo.png", visiontest.PNG(t, 1, 20, 12))
	line := []string{"generate", "-p", "func", "--device", "cpu", "-n", "2", "--ctx", "64", "--image", photo, "-m"}
	fromFolder, fromFile := ok(t, append(line, folder)...), ok(t, append(line, out)...)
	if fromFolder.stdout != fromFile.stdout || fromFolder.stdout == "" {
		t.Errorf("the folder gives %q, and its GGUF files %q", fromFolder.stdout, fromFile.stdout)
	}
	other := filepath.Join(t.TempDir(), "other.gguf")
	ok(t, "quantize", folder, "-o", other, "--type", "bf16", "--mmproj", "none")
	if list, err := filepath.Glob(filepath.Join(filepath.Dir(other), "*mmproj*")); err != nil || len(list) > 0 {
		t.Errorf("--mmproj none writes %v, %v", list, err)
	}
	fails(t, exitUsage, []string{"quantize", gollama, "-o", other, "--type", "bf16", "--mmproj", "x.gguf"},
		"only Hugging Face folders have a vision tower")
}

// addTower makes a folder of SmolVLM of a folder of Llama, with a tower of random weights.
func addTower(t *testing.T, folder string) {
	t.Helper()
	const width, hidden, patch, side = 16, 32, 4, 4
	tower := "model.vision_model."
	dims := map[string][]int{tower + "embeddings.patch_embedding.weight": {width, 3, patch, patch},
		tower + "embeddings.position_embedding.weight": {side * side, width}, tower + "post_layernorm.weight": {width},
		"model.connector.modality_projection.proj.weight": {256, 4 * width}}
	for name, d := range map[string][]int{"layer_norm1": {width}, "layer_norm2": {width},
		"self_attn.q_proj": {width, width}, "self_attn.k_proj": {width, width}, "self_attn.v_proj": {width, width},
		"self_attn.out_proj": {width, width}, "mlp.fc1": {hidden, width}, "mlp.fc2": {width, hidden}} {
		dims[tower+"encoder.layers.0."+name+".weight"] = d
	}
	var tensors []safetensors.Named
	r := rand.New(rand.NewPCG(7, 7))
	for _, name := range slices.Sorted(maps.Keys(dims)) {
		d, err := ir.NewData(ir.F16, dims[name]...)
		if err != nil {
			t.Fatal(err)
		}
		values := make([]float64, d.Elems())
		for i := range values {
			values[i] = r.NormFloat64() / 4
		}
		ir.EncodeFloats(d.Bytes, ir.F16, values)
		tensors = append(tensors, safetensors.Named{Name: name, Data: d})
	}
	one, two := "text.safetensors", "tower.safetensors"
	if err := os.Rename(filepath.Join(folder, "model.safetensors"), filepath.Join(folder, one)); err != nil {
		t.Fatal(err)
	}
	if err := safetensors.WriteFile(filepath.Join(folder, two), nil, tensors); err != nil {
		t.Fatal(err)
	}
	text, err := safetensors.Open(filepath.Join(folder, one))
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	files := map[string]string{}
	for _, name := range text.Names() {
		files[name] = one
	}
	for _, d := range tensors {
		files[d.Name] = two
	}
	for name, content := range map[string]any{"model.safetensors.index.json": map[string]any{"weight_map": files},
		"config.json": map[string]any{"architectures": []string{"SmolVLMForConditionalGeneration"}, "scale_factor": 2,
			"text_config": map[string]any{"hidden_size": 256, "num_hidden_layers": 8, "num_attention_heads": 4,
				"num_key_value_heads": 2, "intermediate_size": 768, "max_position_embeddings": 1024,
				"rms_norm_eps": 1e-5, "rope_theta": 10000, "vocab_size": 4096},
			"vision_config": map[string]any{"hidden_size": width, "intermediate_size": hidden, "num_hidden_layers": 1,
				"num_attention_heads": 2, "patch_size": patch, "image_size": patch * side}}} {
		all, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), all, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// sameModels compares the configuration and the weights of two models.
func sameModels(t *testing.T, a, b string) {
	t.Helper()
	var files [2]*gguf.File
	var configs [2]llm.Config
	for i, path := range []string{a, b} {
		f, err := vkc.OpenModel(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if files[i] = f; err == nil {
			configs[i], err = llm.FromGGUF(f)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(configs[0], configs[1]) {
		t.Errorf("configurations differ:\n%+v\n%+v", configs[0], configs[1])
	}
	for _, name := range files[0].Names() {
		x, err := files[0].Weight(name)
		if err != nil {
			t.Fatal(err)
		}
		y, err := files[1].Weight(name)
		if err != nil || x.DType != y.DType || !slices.Equal(x.Bytes, y.Bytes) {
			t.Errorf("weight %s differs: %s and %s, %v", name, x, y, err)
		}
	}
}

// gollamaFolder writes gollama as a Hugging Face folder of bf16.
func gollamaFolder(t *testing.T) string {
	t.Helper()
	f, err := vkc.OpenModel(gollama)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dir := t.TempDir()
	names := strings.NewReplacer("blk.", "model.layers.", "token_embd.", "model.embed_tokens.", "output_norm.",
		"model.norm.", "attn_norm.", "input_layernorm.", "ffn_norm.", "post_attention_layernorm.", "attn_q.",
		"self_attn.q_proj.", "attn_k.", "self_attn.k_proj.", "attn_v.", "self_attn.v_proj.", "attn_output.",
		"self_attn.o_proj.", "ffn_gate.", "mlp.gate_proj.", "ffn_up.", "mlp.up_proj.", "ffn_down.", "mlp.down_proj.")
	var tensors []safetensors.Named
	for _, name := range f.Names() {
		d, err := f.Weight(name)
		if err != nil {
			t.Fatal(err)
		}
		narrow := make([]float32, d.Elems())
		if d.DType == ir.F32 {
			for i, v := range floatsOf(t, d) {
				narrow[i] = float32(v)
			}
		} else if err := quant.Dequantize(narrow, d.DType, d.Bytes); err != nil {
			t.Fatal(err)
		}
		values := make([]float64, len(narrow))
		for i, v := range narrow {
			values[i] = float64(v)
		}
		if d, err = ir.FromFloats(ir.BF16, values, d.Dims...); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(name, "attn_q.") || strings.Contains(name, "attn_k.") {
			turned, size := make([]byte, 0, len(d.Bytes)), 2*d.Dims[1]
			for i := range d.Dims[0] { // a head has 64 rows, in pairs; a folder has the first of all pairs first
				row := i/64*64 + i%32*2 + i%64/32
				turned = append(turned, d.Bytes[row*size:][:size]...)
			}
			d.Bytes = turned
		}
		tensors = append(tensors, safetensors.Named{Name: names.Replace(name), Data: d})
	}
	if err := safetensors.WriteFile(filepath.Join(dir, "model.safetensors"), nil, tensors); err != nil {
		t.Fatal(err)
	}
	tokens, err := f.Strings("tokenizer.ggml.tokens")
	if err != nil {
		t.Fatal(err)
	}
	merges, err := f.Strings("tokenizer.ggml.merges")
	if err != nil {
		t.Fatal(err)
	}
	vocab := map[string]int{}
	for id, name := range tokens {
		vocab[name] = id
	}
	level := map[string]any{"type": "ByteLevel", "add_prefix_space": false}
	for name, content := range map[string]any{
		"config.json": map[string]any{"architectures": []string{"LlamaForCausalLM"}, "hidden_size": 256,
			"num_hidden_layers": 8, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 768,
			"max_position_embeddings": 1024, "rms_norm_eps": 1e-5, "rope_theta": 10000, "vocab_size": 4096},
		"tokenizer.json": map[string]any{"pre_tokenizer": level, "decoder": level,
			"model":        map[string]any{"type": "BPE", "vocab": vocab, "merges": merges},
			"added_tokens": []any{map[string]any{"id": 0, "content": tokens[0], "special": true}},
			"post_processor": map[string]any{"type": "TemplateProcessing",
				"single": []any{map[string]any{"SpecialToken": map[string]any{"id": tokens[0]}},
					map[string]any{"Sequence": map[string]any{"id": "A"}}},
				"special_tokens": map[string]any{tokens[0]: map[string]any{"ids": []int{0}}}}},
		"tokenizer_config.json": map[string]any{"bos_token": tokens[0], "eos_token": tokens[0]},
	} {
		text, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func floatsOf(t *testing.T, d *ir.Data) []float64 {
	t.Helper()
	values, err := d.Floats()
	if err != nil {
		t.Fatal(err)
	}
	return values
}
