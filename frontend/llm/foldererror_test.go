package llm_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/huggingface"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/safetensors"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// llamaFolder writes the golden model llama as a folder.
func llamaFolder(t *testing.T) string { return goldenFolder(t, "llama") }

// goldenFolder writes a golden model as a folder.
func goldenFolder(t *testing.T, name string) string {
	t.Helper()
	c, folder := folderCases[name], t.TempDir()
	writeFolder(t, folder, readGolden(t, filepath.Join(goldenDir, name+".json")).file(t), c)
	return folder
}

// TestRefusedFolder: a folder that is damaged, or of a model that this package does not compute, is refused by name.
func TestRefusedFolder(t *testing.T) {
	config := folderCases["llama"].config
	with := func(old, new string) func(t *testing.T, folder string) {
		return func(t *testing.T, folder string) {
			t.Helper()
			changed := strings.Replace(config, old, new, 1)
			if changed == config {
				t.Fatalf("the configuration has no %s", old)
			}
			write(t, filepath.Join(folder, "config.json"), changed)
		}
	}
	file := func(name, text string) func(t *testing.T, folder string) {
		return func(t *testing.T, folder string) { t.Helper(); write(t, filepath.Join(folder, name), text) }
	}
	index := "model.safetensors.index.json"
	for want, change := range map[string]func(t *testing.T, folder string){
		`architecture "RobotForCausalLM" is not supported`: with("LlamaForCausalLM", "RobotForCausalLM"),
		`"architectures" is missing`:                       with(`["LlamaForCausalLM"]`, "null"),
		`"hidden_act" is relu`:                             with("silu", "relu"),
		`"num_attention_heads" is four`:                    with(`"num_attention_heads": 4`, `"num_attention_heads": "four"`),
		`want an integer of 0`:                             with(`"hidden_size": 32`, `"hidden_size": 32.5`),
		`"spiral"`:                                         with(`"rope_scaling": null`, `"rope_scaling": {"rope_type": "spiral"}`),
		"low_freq_factor":                                  with(`"rope_scaling": null`, `"rope_scaling": {"rope_type": "llama3", "factor": 8}`),
		"1000000 layers":                                   with(`"num_hidden_layers": 2`, `"num_hidden_layers": 1000000`),
		`blk.2.attn_norm.weight`:                           with(`"num_hidden_layers": 2`, `"num_hidden_layers": 3`),
		`model.layers.1.input_layernorm.weight`:            with(`"num_hidden_layers": 2`, `"num_hidden_layers": 1`),
		`"gptq2"`:                                          with(`"vocab_size"`, `"quantization_config": {"quant_method": "gptq2"}, "vocab_size"`),
		`layer_types has "linear_attention"`:               with(`"vocab_size"`, `"layer_types": ["linear_attention"], "vocab_size"`),
		"config.json: unexpected":                          file("config.json", "{"),
		"want a file in the folder":                        file(index, `{"weight_map": {"a": "../../a.safetensors"}}`),
		"modules.json has a module \"Dense\"":              file("modules.json", `[{"path": "1", "type": "sentence_transformers.models.Dense"}]`),
		"want a folder inside the model's":                 file("modules.json", `[{"path": "../x", "type": "a.Pooling"}]`),
		"only in tokenizer.model":                          file("tokenizer.model", ""),
		`there is no "model"`:                              file("tokenizer.json", "{}"),
		"pytorch_model.bin, which may run programs": func(t *testing.T, folder string) {
			files := []string{index, "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}
			for _, name := range files {
				if err := os.Remove(filepath.Join(folder, name)); err != nil {
					t.Fatal(err)
				}
			}
			write(t, filepath.Join(folder, "pytorch_model.bin"), "")
		},
		"there is no config.json": func(t *testing.T, folder string) {
			if err := os.Remove(filepath.Join(folder, "config.json")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(want, func(t *testing.T) {
			folder := llamaFolder(t)
			change(t, folder)
			f, err := huggingface.Open(folder)
			if err == nil {
				f.Close()
			}
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), folder) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestScaledFolder: a matrix of 8-bit floats with scales has the numbers times the scales, whatever the scales are for.
func TestScaledFolder(t *testing.T) {
	const rows, columns = 48, 32
	numbers := must(ir.NewData(ir.F8E4M3, rows, columns))
	for i := range numbers.Bytes {
		numbers.Bytes[i] = byte(hashed("numbers", i)) & 0xf7 // no NaN
	}
	wide := must(numbers.Floats())
	across := 24 // columns of a block
	blockOf := func(row, column int) int { return row/20*2 + column/across }
	for name, c := range map[string]struct {
		tensor string
		dims   []int
		method string
		scale  func(row, column int) int
	}{
		"one":    {"weight_scale", []int{1}, "fbgemm_fp8", func(int, int) int { return 0 }},
		"rows":   {"weight_scale", []int{rows, 1}, "fbgemm_fp8", func(row, _ int) int { return row }},
		"blocks": {"weight_scale_inv", []int{3, 2}, "fp8", blockOf},
		// Rows of 32 have no groups of one size for blocks of 31 columns, so scales are multiplied in.
		"powers": {"weight_scale_inv", []int{3, 2}, "fp8", blockOf},
		"odd":    {"weight_scale_inv", []int{3, 2}, "fp8", blockOf},
	} {
		t.Run(name, func(t *testing.T) {
			folder := llamaFolder(t)
			const weight = "model.layers.0.mlp.up_proj."
			dtype, scaled := map[string]ir.DType{"powers": ir.BF16, "odd": ir.F32}[name], false
			if across = 31; dtype == ir.Invalid {
				across, scaled, dtype = 24, true, ir.F8E4M3
			}
			scales := must(ir.NewData(ir.F32, c.dims...))
			values := make([]float64, scales.Elems())
			for i := range values {
				values[i] = float64(float32(0.01) * float32(i+1))
				if name == "powers" {
					values[i] = math.Ldexp(1, i-7)
				}
			}
			ir.EncodeFloats(scales.Bytes, ir.F32, values)
			replaceTensor(t, folder, weight+"weight", safetensors.Named{Name: weight + "weight", Data: numbers},
				safetensors.Named{Name: weight + c.tensor, Data: scales})
			write(t, filepath.Join(folder, "config.json"), strings.Replace(folderCases["llama"].config, `"vocab_size"`,
				fmt.Sprintf(`"quantization_config": {"quant_method": %q, "weight_block_size": [20, %d]}, "vocab_size"`,
					c.method, across), 1))
			f, err := huggingface.Open(folder)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			d, err := f.Weight("blk.0.ffn_up.weight")
			if err != nil || d.DType != dtype || !slices.Equal(d.Dims, []int{rows, columns}) {
				t.Fatalf("%v, %v", d, err)
			}
			if f.HasWeight("blk.0.ffn_up.weight_scale") != scaled {
				t.Errorf("it comes with scales: %v, want %v", !scaled, scaled)
			}
			for i, got := range elementsOf(t, f, "blk.0.ffn_up.weight") {
				if want := float32(wide[i] * values[c.scale(i/columns, i%columns)]); float32(got) != want {
					t.Fatalf("element %d is %v, want %v", i, got, want)
				}
			}
		})
	}
}

// TestScaledExperts: a stack of experts of 8-bit floats has a stack of scales.
func TestScaledExperts(t *testing.T) {
	const expert, rows, columns = "model.layers.0.block_sparse_moe.experts.%d.w3.weight", 48, 32
	folder := goldenFolder(t, "mixtral")
	var tensors []safetensors.Named
	var want []float64
	for e := range 4 {
		numbers := must(ir.NewData(ir.F8E4M3, rows, columns))
		for i := range numbers.Bytes {
			numbers.Bytes[i] = byte(hashed("experts", e*rows*columns+i)) & 0xf7 // no NaN
		}
		scale := []float64{0.5, 0.75, 2, 0.25}[e]
		for _, v := range must(numbers.Floats()) {
			want = append(want, v*scale)
		}
		name := fmt.Sprintf(expert, e)
		tensors = append(tensors, safetensors.Named{Name: name, Data: numbers},
			safetensors.Named{Name: name + "_scale", Data: must(ir.FromFloats(ir.F32, []float64{scale}, 1))})
	}
	for e := range 4 {
		replaceTensor(t, folder, fmt.Sprintf(expert, e), tensors...)
	}
	write(t, filepath.Join(folder, "config.json"), strings.Replace(folderCases["mixtral"].config, `"rope_theta"`,
		`"quantization_config": {"quant_method": "fbgemm_fp8"}, "rope_theta"`, 1))
	f, err := huggingface.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, scales := must(f.Weight("blk.0.ffn_up_exps.weight")), must(f.Weight("blk.0.ffn_up_exps.weight_scale"))
	got, by := must(d.Floats()), must(scales.Floats())
	for i := range got {
		got[i] *= by[i/columns]
	}
	if d.DType != ir.F8E4M3 || !slices.Equal(scales.Dims, []int{4, rows, 1}) || !slices.Equal(got, want) {
		t.Errorf("%s, %s: want the numbers, with scales that give the matrices", d, scales)
	}
}

// replaceTensor takes a tensor out of a folder, and puts others into a file of their own.
func replaceTensor(t *testing.T, folder, name string, more ...safetensors.Named) {
	t.Helper()
	path := filepath.Join(folder, "model.safetensors.index.json")
	var index struct {
		Map map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(must(os.ReadFile(path)), &index); err != nil {
		t.Fatal(err)
	}
	delete(index.Map, name)
	for _, n := range more {
		index.Map[n.Name] = "more.safetensors"
	}
	if err := safetensors.WriteFile(filepath.Join(folder, "more.safetensors"), nil, more); err != nil {
		t.Fatal(err)
	}
	write(t, path, string(must(json.Marshal(map[string]any{"weight_map": index.Map}))))
}

// FuzzFolder: any config.json is refused or translated, and the translation names tensors of the folder alone.
func FuzzFolder(f *testing.F) {
	for _, c := range folderCases {
		f.Add([]byte(c.config))
	}
	types := map[string]ir.Type{}
	for _, name := range []string{"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight",
		"model.layers.0.self_attn.q_proj.weight", "model.layers.0.mlp.experts.0.gate_proj.weight", "transformer.wte.weight",
		"transformer.h.0.attn.c_attn.bias", "transformer.h.0.self_attention.query_key_value.weight"} {
		types[name] = ir.Type{DType: ir.F32, Shape: ir.ShapeOf(8, 8)}
	}
	f.Fuzz(func(t *testing.T, config []byte) {
		translated, err := llm.FromFolder(config, types)
		if err != nil {
			return
		}
		for _, w := range translated.Weights {
			if w.Rows != nil && len(w.From) > 0 {
				for _, row := range w.Rows(8) {
					if row < 0 {
						t.Errorf("%s has row %d", w.Name, row)
					}
				}
			}
		}
	})
}

// TestFourBitFolder: 4-bit matrices of each method have the numbers of its definition. Symmetric ones are blocks of
// q4_0, and others of q5_0, if groups are whole blocks and f16 has the scales.
func TestFourBitFolder(t *testing.T) {
	const rows, columns = 48, 32
	number := func(row, column int) int { return int(hashed("four", row*columns+column) & 15) }
	for _, method := range []string{"gptq", "gptq_v2", "awq", "compressed-tensors"} {
		for _, c := range []struct {
			group     int
			symmetric bool
			scales    ir.DType
			unit      float64 // of the scales
			want      ir.DType
		}{
			{32, true, ir.F16, 1. / 64, ir.Q4_0}, {32, false, ir.F16, 1. / 64, ir.Q5_0},
			{16, false, ir.F16, 1. / 64, ir.F32}, {32, false, ir.BF16, 1. / 64, ir.Q5_0},
			{32, false, ir.F32, 0.01, ir.F32},
		} {
			group, symmetric := c.group, c.symmetric
			scale := func(row, g int) float64 { return float64(float32(float64(1+(row*2+g)%7) * c.unit)) }
			less, least := 0, 0
			if method == "gptq" {
				less, least = 1, 1
			}
			zero := func(row, g int) int {
				if symmetric {
					return 8
				}
				return least + (row+g)%16
			}
			numbers, zeros := must(ir.NewData(ir.I32, columns/8, rows)), must(ir.NewData(ir.I32, columns/group, rows/8))
			order := []int{0, 1, 2, 3, 4, 5, 6, 7}
			byRows := method == "compressed-tensors"
			if byRows {
				numbers = must(ir.NewData(ir.I32, rows, columns/8))
				zeros = must(ir.NewData(ir.I32, rows/8, columns/group))
			} else if method == "awq" {
				numbers, order = must(ir.NewData(ir.I32, columns, rows/8)), []int{0, 2, 4, 6, 1, 3, 5, 7}
			}
			put := func(d *ir.Data, word, at, v int) {
				old := binary.LittleEndian.Uint32(d.Bytes[4*word:])
				binary.LittleEndian.PutUint32(d.Bytes[4*word:], old|uint32(v)<<(4*at))
			}
			for c := range columns {
				for row := range rows {
					if byRows {
						put(numbers, row*columns/8+c/8, c%8, number(row, c))
					} else if method == "awq" {
						put(numbers, c*rows/8+row/8, slices.Index(order, row%8), number(row, c))
					} else {
						put(numbers, c/8*rows+row, c%8, number(row, c))
					}
				}
			}
			groups := columns / group
			scales, dims := make([]float64, groups*rows), []int{groups, rows}
			for g := range groups {
				for row := range rows {
					if byRows {
						put(zeros, row/8*groups+g, row%8, zero(row, g))
						scales[row*groups+g], dims = scale(row, g), []int{rows, groups}
					} else {
						put(zeros, g*rows/8+row/8, slices.Index(order, row%8), zero(row, g)-less)
						scales[g*rows+row] = scale(row, g)
					}
				}
			}
			folder := llamaFolder(t)
			const up = "model.layers.0.mlp.up_proj."
			var list []safetensors.Named
			add := func(name, packed string, d *ir.Data) {
				if byRows {
					name = packed
				}
				list = append(list, safetensors.Named{Name: up + name, Data: d})
			}
			add("qweight", "weight_packed", numbers)
			add("scales", "weight_scale", must(ir.FromFloats(c.scales, scales, dims...)))
			if !byRows || !symmetric {
				add("qzeros", "weight_zero_point", zeros)
			}
			if byRows {
				add("", "weight_shape", must(ir.FromInts(ir.I64, []int64{rows, columns}, 2)))
				add("", "weight_g_idx", must(ir.FromInts(ir.I32, slices.Repeat([]int64{-1}, columns), columns)))
			}
			replaceTensor(t, folder, up+"weight", list...)
			kind, _, _ := strings.Cut(method, "_")
			write(t, filepath.Join(folder, "config.json"), strings.Replace(folderCases["llama"].config, `"vocab_size"`,
				`"quantization_config": {"quant_method": "`+kind+`", "bits": 4, "checkpoint_format": "`+method+`",
				"format": "pack-quantized", "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int"}}}},
				"vocab_size"`, 1))
			f, err := huggingface.Open(folder)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			d, err := f.Weight("blk.0.ffn_up.weight")
			if err != nil {
				t.Fatal(err)
			}
			if d.DType != c.want {
				t.Errorf("%s, %+v: %s", method, c, d.DType)
			}
			values := make([]float32, rows*columns)
			if d.DType.IsBlock() {
				if err := quant.Dequantize(values, d.DType, d.Bytes); err != nil {
					t.Fatal(err)
				}
			} else {
				for i, v := range must(d.Floats()) {
					values[i] = float32(v)
				}
			}
			for i, got := range values {
				row, column := i/columns, i%columns
				want := float32(scale(row, column/group) * float64(number(row, column)-zero(row, column/group)))
				if got != want {
					t.Fatalf("%s, %+v: element %d,%d is %v, want %v", method, c, row, column, got, want)
				}
			}
		}
	}
}
