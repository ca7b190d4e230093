package llm_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// mixedGolden is a golden model that reads a picture after the first tokens.
type mixedGolden struct {
	goldenModel
	Picture struct {
		Before int // tokens before it
		Grid   [2]int
	}
}

// picture returns the inputs of llm.Images.
func (m mixedGolden) picture(t *testing.T, cfg llm.Config) map[string]*ir.Data {
	t.Helper()
	rows, columns := m.Picture.Grid[0], m.Picture.Grid[1]
	values := make([]float64, rows*columns*cfg.Width*(1+cfg.Deepstack))
	for i := range values {
		values[i] = float64(hashed("picture", i)>>40)/(1<<23) - 1
	}
	d, err := ir.NewData(ir.F32, rows*columns, cfg.Width*(1+cfg.Deepstack))
	if err != nil {
		t.Fatal(err)
	}
	ir.EncodeFloats(d.Bytes, ir.F32, values)
	in := map[string]*ir.Data{"embeddings": d}
	if len(cfg.Sections) > 0 {
		places := make([]int64, 3*rows*columns)
		for i := range rows * columns {
			places[i] = int64(m.Picture.Before)
			places[rows*columns+i] = int64(m.Picture.Before + i/columns)
			places[2*rows*columns+i] = int64(m.Picture.Before + i%columns)
		}
		if in["places"], err = ir.FromInts(ir.I32, places, 3, rows*columns); err != nil {
			t.Fatal(err)
		}
	}
	return in
}

// TestImages compares the logits of texts around a picture with those of a separate program: in parts, and token by
// token; alone, and as one of several texts in pages.
func TestImages(t *testing.T) {
	paths, err := filepath.Glob("../../golden/vision/mixed-*.json")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		m := mixedGolden{goldenModel: readGolden(t, path)}
		if err := json.Unmarshal(raw, &struct{ Picture any }{&m.Picture}); err != nil {
			t.Fatal(err)
		}
		f := m.file(t)
		cfg, err := llm.FromGGUF(f)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Pictures = true
		for name, options := range map[string][]llm.Option{"one": {}, "ring": {llm.KeepWindow(6)},
			"second of two": {llm.Texts(2), llm.Pages(3)}} {
			t.Run(strings.TrimSuffix(filepath.Base(path), ".json")+" "+name, func(t *testing.T) {
				m.test(t, f, cfg, strings.Contains(name, "two"), options)
			})
		}
	}
}

func (m mixedGolden) test(t *testing.T, f *gguf.File, cfg llm.Config, several bool, options []llm.Option) {
	size, before := m.Picture.Grid[0]*m.Picture.Grid[1], m.Picture.Before
	g, err := llm.Steps(cfg, 6, cfg.Context, options...)
	steps := program(t, f, g, err)
	shared := func(g *ir.Graph, err error) *interp.Program {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		p, err := interp.New(g, interp.Options{Weights: f, Share: steps})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	images := shared(llm.Images(cfg, 6, cfg.Context, options...))
	offset := int32(0)
	run := func(p *interp.Program, in map[string]*ir.Data, length int) map[string]*ir.Data {
		t.Helper()
		if several {
			in["text"] = scalar(t, 1)
			in["pages"] = data(t, []int32{2})
		}
		if len(cfg.Sections) > 0 && p != images {
			in[llm.OffsetInput] = scalar(t, offset)
		}
		out, err := p.Run(t.Context(), in, map[string]int64{"S": int64(length)})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	check := func(what string, out map[string]*ir.Data, i int) {
		t.Helper()
		got, err := out["logits"].Floats()
		if err != nil {
			t.Fatal(err)
		}
		compare(t, what, got, m.Logits[i], 1e-3)
	}
	check("before", run(steps, map[string]*ir.Data{"tokens": data(t, m.Tokens[:before])}, before), before-1)
	run(images, m.picture(t, cfg), before+size)
	if len(cfg.Sections) > 0 {
		offset = int32(max(m.Picture.Grid[0], m.Picture.Grid[1]) - size)
	}
	end := before + 2
	check("after", run(steps, map[string]*ir.Data{"tokens": data(t, m.Tokens[before:end])}, end+size), end-1)
	var step *interp.Program
	if several {
		step = shared(llm.Batch(cfg, 2, cfg.Context, options...))
	} else {
		step = shared(llm.Step(cfg, cfg.Context, options...))
	}
	for i := end; i < len(m.Tokens); i++ {
		in := map[string]*ir.Data{"tokens": data(t, m.Tokens[i:i+1])}
		if !several {
			check(fmt.Sprint("step ", i), run(step, in, i+size+1), i)
			continue
		}
		in["texts"], in["positions"] = data(t, []int32{1}), data(t, []int32{int32(i + size)})
		if in["pages"], err = ir.FromInts(ir.I32, []int64{2}, 1, 1); err != nil {
			t.Fatal(err)
		}
		if len(cfg.Sections) > 0 {
			in[llm.OffsetInput] = data(t, []int32{offset})
		}
		out, err := step.Run(t.Context(), in, nil)
		if err != nil {
			t.Fatal(err)
		}
		check(fmt.Sprint("batch ", i), out, i)
	}
}

// TestPicturesInFolder: a folder says how a picture's tokens turn, and how many layers get more of it.
func TestPicturesInFolder(t *testing.T) {
	const config = `{"architectures": ["%s"], "tie_word_embeddings": true, "vision_config": {
		"deepstack_visual_indexes": [5, 11, 17]}, "text_config": {"hidden_size": 64, "num_hidden_layers": 4,
		"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "max_position_embeddings": 512,
		"rms_norm_eps": 1e-6, "rope_theta": 1e6, "%s": {"type": "default", "mrope_section": [2, 3, 3]}}}`
	tensors := map[string]ir.Type{}
	for i := range 8 {
		tensors[fmt.Sprintf("model.visual.blocks.%d.norm1.weight", i)] = ir.Type{DType: ir.F32, Shape: ir.ShapeOf(4)}
	}
	for class, key := range map[string]string{"Qwen2VLForConditionalGeneration": "rope_scaling",
		"Qwen2_5_VLForConditionalGeneration": "rope_scaling", "Qwen3VLForConditionalGeneration": "rope_parameters"} {
		f, err := llm.FromFolder(fmt.Appendf(nil, config, class, key), tensors)
		if err != nil {
			t.Fatal(class, err)
		}
		have := map[string]any{}
		for _, kv := range f.Metadata {
			have[strings.TrimPrefix(kv.Key, f.Architecture+".")] = kv.Value
		}
		deep := f.Architecture != "qwen3vl" || have["n_deepstack_layers"] == uint32(3)
		sections, _ := have["rope.dimension_sections"].([]int32)
		if !slices.Equal(sections, []int32{2, 3, 3}) || !deep {
			t.Errorf("%s: %v", class, have)
		}
		if len(f.Ignored) != 8 {
			t.Errorf("%s: %v are ignored, want the tower", class, f.Ignored)
		}
	}
}

// TestImagesRefuses: models that read no pictures, and wrong sections.
func TestImagesRefuses(t *testing.T) {
	for name, want := range map[string]string{"gpt2": "reads no pictures", "gemma3n": "reads no pictures",
		"granite": "reads no pictures", "bert": "predicts no tokens", "qwen35": "has no rope.dimension_sections"} {
		cfg, err := llm.FromGGUF(readGolden(t, filepath.Join(goldenDir, name+".json")).file(t))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := llm.Images(cfg, 2, cfg.Context); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
	for _, list := range [][]any{{1, 2}, {3, 3, 3}, {-1, 3, 3}, {1, 1, 1, 1}} {
		m := readGolden(t, filepath.Join(goldenDir, "qwen2vl.json"))
		m.Meta["qwen2vl.rope.dimension_sections"] = slices.Collect(func(yield func(any) bool) {
			for _, v := range list {
				yield(json.Number(fmt.Sprint(v)))
			}
		})
		if _, err := llm.FromGGUF(m.file(t)); err == nil || !strings.Contains(err.Error(), "want a number of pairs") {
			t.Errorf("%v: error %v", list, err)
		}
	}
}
