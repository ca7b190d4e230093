package vision_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/huggingface"
	"github.com/vkc-go/vkc/frontend/quantize"
	"github.com/vkc-go/vkc/frontend/safetensors"
	"github.com/vkc-go/vkc/frontend/vision"
	"github.com/vkc-go/vkc/ir"
)

// folders says how the goldens are spelled as folders: config.json, and pairs of patterns of names.
var folders = map[string]struct {
	config string
	names  []string
}{
	"gemma3": {`{"architectures": ["Gemma3ForConditionalGeneration"], "mm_tokens_per_image": 4, "vision_config": {
		"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2, "patch_size": 4,
		"image_size": 32, "layer_norm_eps": 1e-5}}`, []string{
		`^mm\.soft`, "model.multi_modal_projector.mm_soft", `^mm\.input_projection.weight`,
		"model.multi_modal_projector.mm_input_projection_weight", `^v\.`, "model.vision_tower.vision_model.",
		`patch_embd`, "embeddings.patch_embedding", `position_embd`, "embeddings.position_embedding", `post_ln`,
		"post_layernorm", `blk\.`, "encoder.layers.", `ln(\d)`, "layer_norm$1", `attn_out`, "self_attn.out_proj",
		`attn_(.)\.`, "self_attn.${1}_proj.", `ffn_up`, "mlp.fc1", `ffn_down`, "mlp.fc2"}},
	"idefics3": {`{"architectures": ["SmolVLMForConditionalGeneration"], "scale_factor": 2, "vision_config": {
		"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2, "patch_size": 4,
		"image_size": 16, "layer_norm_eps": 1e-5}}`, []string{
		`^mm\.model.fc`, "model.connector.modality_projection.proj", `^v\.`, "model.vision_model.",
		`patch_embd`, "embeddings.patch_embedding", `position_embd`, "embeddings.position_embedding", `post_ln`,
		"post_layernorm", `blk\.`, "encoder.layers.", `ln(\d)`, "layer_norm$1", `attn_out`, "self_attn.out_proj",
		`attn_(.)\.`, "self_attn.${1}_proj.", `ffn_up`, "mlp.fc1", `ffn_down`, "mlp.fc2"}},
	"qwen2vl": {`{"architectures": ["Qwen2VLForConditionalGeneration"], "vision_config": {"embed_dim": 32, "depth": 2,
		"hidden_size": 24, "mlp_ratio": 1.5, "num_heads": 2, "patch_size": 4, "spatial_merge_size": 2}}`, []string{
		`^mm\.`, "visual.merger.mlp.", `^v\.post_ln`, "visual.merger.ln_q", `^v\.`, "visual.", `patch_embd`,
		"patch_embed.proj", `blk\.`, "blocks.", `ln(\d)`, "norm$1", `attn_out`, "attn.proj", `attn_qkv`, "attn.qkv",
		`ffn_up`, "mlp.fc1", `ffn_down`, "mlp.fc2"}},
	"qwen2.5vl": {`{"architectures": ["Qwen2_5_VLForConditionalGeneration"], "vision_config": {"hidden_size": 32, "depth": 2,
		"intermediate_size": 48, "num_heads": 2, "patch_size": 4, "window_size": 16, "fullatt_block_indexes": [1],
		"hidden_act": "silu"}}`, []string{
		`^mm\.`, "model.visual.merger.mlp.", `^v\.post_ln`, "model.visual.merger.ln_q", `^v\.`, "model.visual.",
		`patch_embd`, "patch_embed.proj", `blk\.`, "blocks.", `ln(\d)`, "norm$1", `attn_out`, "attn.proj", `attn_qkv`,
		"attn.qkv", `ffn_(\w*)`, "mlp.${1}_proj"}},
	"qwen3vl": {`{"architectures": ["Qwen3VLForConditionalGeneration"], "vision_config": {"hidden_size": 32, "depth": 3,
		"intermediate_size": 48, "num_heads": 2, "patch_size": 4, "deepstack_visual_indexes": [0, 1]}}`, []string{
		`^mm\.0`, "model.visual.merger.linear_fc1", `^mm\.2`, "model.visual.merger.linear_fc2", `^v\.post_ln`,
		"model.visual.merger.norm", `^v\.`, "model.visual.", `patch_embd`, "patch_embed.proj", `position_embd`,
		"pos_embed", `blk\.`, "blocks.", `ln(\d)`, "norm$1", `attn_out`, "attn.proj", `attn_qkv`, "attn.qkv",
		`ffn_up`, "mlp.linear_fc1", `ffn_down`, "mlp.linear_fc2", `deepstack\.`, "deepstack_merger_list.",
		`\.fc(\d)`, ".linear_fc$1"}},
}

// TestFolder: a folder has the rows of the mmproj file made of it.
func TestFolder(t *testing.T) {
	for name, folder := range folders {
		m, siglip := readGolden(t, name), name == "gemma3" || name == "idefics3"
		tensors := map[string]*ir.Data{}
		f := open(t, m.writer(t))
		for weight, made := range m.Weights {
			d, err := f.Weight(weight)
			if err != nil {
				t.Fatal(err)
			}
			values, err := d.Floats()
			if err != nil {
				t.Fatal(err)
			}
			if weight == "mm.soft_emb_norm.weight" { // the file has the weight plus 1
				for i := range values {
					values[i]--
				}
			}
			tensors[weight] = data(t, ir.F32, values, made.Dims...)
		}
		joined := map[string]*ir.Data{} // both frames in one tensor, and one matrix of queries, keys and values
		for weight, d := range tensors {
			switch part := strings.Split(weight, "attn_"); {
			case weight == "v.patch_embd.weight" && strings.HasPrefix(name, "qwen"):
				joined[weight] = frames(t, d, tensors["v.patch_embd.weight.1"])
			case weight == "v.patch_embd.weight.1", strings.Contains(weight, "attn_k.") && !siglip,
				strings.Contains(weight, "attn_v.") && !siglip:
			case strings.Contains(weight, "attn_q.") && !siglip:
				end := strings.TrimPrefix(part[1], "q")
				all := *d
				all.Dims = append([]int{3 * d.Dims[0]}, d.Dims[1:]...)
				all.Bytes = slices.Concat(d.Bytes, tensors[part[0]+"attn_k"+end].Bytes,
					tensors[part[0]+"attn_v"+end].Bytes)
				joined[part[0]+"attn_qkv"+end] = &all
			default:
				joined[weight] = d
			}
		}
		dir := t.TempDir()
		var list []safetensors.Named
		for weight, d := range joined {
			for i := 0; i < len(folder.names); i += 2 {
				weight = regexp.MustCompile(folder.names[i]).ReplaceAllString(weight, folder.names[i+1])
			}
			list = append(list, safetensors.Named{Name: weight, Data: d})
		}
		if err := safetensors.WriteFile(filepath.Join(dir, "model.safetensors"), nil, list); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{"config.json": folder.config,
			"preprocessor_config.json": `{"image_mean": [0.5, 0.25, 0.125], "image_std": [0.5, 0.25, 0.5],
				"max_pixels": 90000}`} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if has, err := huggingface.HasVision(dir); !has || err != nil {
			t.Errorf("%s: a vision tower: %v, %v", name, has, err)
		}
		opened, err := huggingface.OpenVision(dir)
		if err != nil {
			t.Fatal(name, err)
		}
		defer opened.Close()
		m.compare(t, name, opened)
		c, err := vision.FromGGUF(opened)
		if err != nil || c.Mean != [3]float64{0.5, 0.25, 0.125} || !siglip && c.MaxPixels != 90000 {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
		file := written(t, opened)
		if again, err := vision.FromGGUF(file); err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("%s: its file is %+v, %v", name, again, err)
		}
		for _, weight := range opened.Names() {
			a, err := opened.Weight(weight)
			if err != nil {
				t.Fatal(err)
			}
			if b, err := file.Weight(weight); err != nil || !bytes.Equal(a.Bytes, b.Bytes) {
				t.Errorf("%s: %s differs in its file: %v", name, weight, err)
			}
		}
	}
}

// written writes a tower's file, as vkc quantize does with --type f32, and opens it.
func written(t *testing.T, f *gguf.File) *gguf.File {
	t.Helper()
	src, err := quantize.NewSource(f)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := quantize.New(src, quantize.Options{Type: ir.F32})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "mmproj.gguf")
	if _, err := plan.WriteFile(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	out, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	return out
}

// frames joins two kernels [out, 3, p, p] to one [out, 3, 2, p, p].
func frames(t *testing.T, a, b *ir.Data) *ir.Data {
	t.Helper()
	size := 4 * a.Dims[2] * a.Dims[3]
	var all []byte
	for at := 0; at < len(a.Bytes); at += size {
		all = slices.Concat(all, a.Bytes[at:][:size], b.Bytes[at:][:size])
	}
	return &ir.Data{DType: ir.F32, Dims: []int{a.Dims[0], 3, 2, a.Dims[2], a.Dims[3]}, Bytes: all}
}

// TestFolderRefuses: folders without a tower, and with settings that no graph computes.
func TestFolderRefuses(t *testing.T) {
	for _, tt := range []struct{ name, change, want string }{
		{"qwen2.5vl", `{"hidden_act": "gelu"}`, `"hidden_act" of vision_config is "gelu": want "silu"`},
		{"qwen2.5vl", `{"fullatt_block_indexes": [1, 2]}`, "want the last layer of each period"},
		{"qwen2.5vl", `{"depth": "x"}`, `"depth" of config.json is x: want a number`},
		{"qwen2.5vl", `{"depth": 5000}`, "want a vision tower"},
		{"qwen3vl", `{"deepstack_visual_indexes": [3]}`, "want layers of 3"},
	} {
		var config map[string]any
		if err := json.Unmarshal([]byte(folders[tt.name].config), &config); err != nil {
			t.Fatal(err)
		}
		var change map[string]any
		if err := json.Unmarshal([]byte(tt.change), &change); err != nil {
			t.Fatal(err)
		}
		maps.Copy(config["vision_config"].(map[string]any), change)
		text, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := vision.FromFolder(text, nil, nil); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("error %v, want %q", err, tt.want)
		}
	}
	for _, text := range []string{`{"architectures": ["LlamaForCausalLM"]}`,
		`{"architectures": ["Qwen3VLForConditionalGeneration"]}`, `{"architectures": [1], "vision_config": {}}`} {
		_, err := vision.FromFolder([]byte(text), nil, nil)
		if err == nil || !strings.Contains(err.Error(), "no vision tower that vkc supports") ||
			vision.HasFolder([]byte(text)) {
			t.Errorf("%s: error %v", text, err)
		}
	}
}
