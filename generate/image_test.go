package generate

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vkc-go/vkc/frontend/chat"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/vision"
	"github.com/vkc-go/vkc/internal/visiontest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// tinyTower writes the tower of a golden, with weights of another random stream, next to a model. A golden's name with
// -tiles is a tower that reads large pictures in tiles.
func tinyTower(t testing.TB, golden, model string) string {
	t.Helper()
	golden, tiles := strings.CutSuffix(golden, "-tiles")
	raw, err := os.ReadFile(filepath.Join("../golden/vision", golden+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		Meta    map[string]any
		Weights map[string]struct {
			Dims          []int
			Offset, Scale float64
		}
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	var w gguf.Writer
	for _, key := range slices.Sorted(maps.Keys(m.Meta)) {
		v := m.Meta[key]
		switch x := v.(type) {
		case float64:
			if v = uint32(x); x != math.Trunc(x) {
				v = float32(x)
			}
		case []any:
			var floats []float32
			var bools []bool
			for _, e := range x {
				if b, ok := e.(bool); ok {
					bools = append(bools, b)
				} else {
					floats = append(floats, float32(e.(float64)))
				}
			}
			if v = floats; bools != nil {
				v = bools
			}
		}
		if err := w.Set(key, v); err != nil {
			t.Fatal(err)
		}
	}
	if strings.HasPrefix(golden, "qwen") { // otherwise small pictures are made larger
		if err := w.Set("clip.vision.image_min_pixels", uint32(64)); err != nil {
			t.Fatal(err)
		}
	}
	if tiles {
		set := func(key string, value any) {
			if err := w.Set("clip.vision."+key, value); err != nil {
				t.Fatal(err)
			}
		}
		set("preproc_image_size", uint32(32))
		if golden == "llava" {
			set("image_grid_pinpoints", []int32{32, 16, 16, 32})
			made := m.Weights["mm.2.bias"]
			made.Dims = []int{32}
			m.Weights[vision.Newline] = made
		}
	}
	r := rand.New(rand.NewPCG(5, 5))
	for _, name := range slices.Sorted(maps.Keys(m.Weights)) {
		made := m.Weights[name]
		d, err := ir.NewData(ir.F32, made.Dims...)
		if err != nil {
			t.Fatal(err)
		}
		values := make([]float64, d.Elems())
		for i := range values {
			values[i] = made.Offset + made.Scale*r.NormFloat64()
		}
		ir.EncodeFloats(d.Bytes, ir.F32, values)
		if err := w.Add(name, d); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(filepath.Dir(model), "mmproj-"+golden+".gguf")
	if err := w.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// tinyReader writes a language model of random weights that reads the rows of a tiny tower.
func tinyReader(t testing.TB, architecture string, more map[string]any) string {
	t.Helper()
	const width, ffn, heads, size = 32, 32, 2, 16
	meta := map[string]any{"block_count": uint32(3), "embedding_length": uint32(width),
		"attention.head_count": uint32(heads), "attention.head_count_kv": uint32(1), "feed_forward_length": uint32(ffn),
		"context_length": uint32(128), "attention.layer_norm_rms_epsilon": float32(1e-5)}
	maps.Copy(meta, more)
	dims := map[string][]int{"token_embd": {len(tinyWords), width}, "output_norm": {width}}
	for i := range 3 {
		weights := map[string][]int{"attn_norm": {width}, "attn_q": {heads * size, width}, "attn_k": {size, width},
			"attn_v": {size, width}, "attn_output": {width, heads * size}, "ffn_norm": {width}, "ffn_gate": {ffn, width},
			"ffn_up": {ffn, width}, "ffn_down": {width, ffn}}
		if architecture == "gemma3" || architecture == "qwen3vl" {
			weights["attn_q_norm"], weights["attn_k_norm"] = []int{size}, []int{size}
		}
		if architecture == "gemma3" {
			weights["post_attention_norm"], weights["post_ffw_norm"] = []int{width}, []int{width}
		}
		for name, d := range weights {
			dims[fmt.Sprintf("blk.%d.%s", i, name)] = d
		}
	}
	return tinyFile(t, architecture, meta, dims)
}

// read computes the answer to a prompt with pictures by the reference, greedily, from the beginning and in one text.
func read(t *testing.T, m *Model, prompt []int32, images []*Image, tokens int) (answer []int32) {
	t.Helper()
	g, err := llm.Steps(m.config, 128, 128)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := interp.New(g, interp.Options{Weights: m.weights})
	if err != nil {
		t.Fatal(err)
	}
	if g, err = llm.Images(m.config, 64, 128); err != nil {
		t.Fatal(err)
	}
	pictures, err := interp.New(g, interp.Options{Weights: m.weights, Share: steps})
	if err != nil {
		t.Fatal(err)
	}
	done, offset := 0, int32(0)
	run := func(p *interp.Program, in map[string]*ir.Data, n int) map[string]*ir.Data {
		t.Helper()
		done += n
		out, err := p.Run(t.Context(), in, map[string]int64{"S": int64(done)})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	text := func(ids []int32) (best int32) {
		in := map[string]*ir.Data{}
		err := addInput(in, "tokens", ids, len(ids))
		if m.hasOffsets() {
			err = errors.Join(err, addInput(in, llm.OffsetInput, []int32{offset}))
		}
		if err != nil {
			t.Fatal(err)
		}
		logits, err := run(steps, in, len(ids))["logits"].Floats()
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range logits {
			if v > logits[best] {
				best = int32(i)
			}
		}
		return best
	}
	for _, p := range partsOf(images) {
		at := slices.IndexFunc(prompt, func(id int32) bool { return id < 0 })
		if at > 0 { // otherwise parts of a picture follow each other
			text(prompt[:at])
		}
		n := p.grid.Rows * p.grid.Columns
		prompt = prompt[at+n:]
		in, places, base := map[string]*ir.Data{}, make([]int32, 3*n), int32(done)+offset
		for i := range n {
			places[i], places[n+i], places[2*n+i] = base, base+int32(i/p.grid.Columns), base+int32(i%p.grid.Columns)
		}
		err := addInput(in, "embeddings", p.rows, n, len(p.rows)/n)
		if len(m.config.Sections) > 0 {
			err = errors.Join(err, addInput(in, "places", places, 3, n))
		}
		if err != nil {
			t.Fatal(err)
		}
		run(pictures, in, n)
		offset += int32(max(p.grid.Rows, p.grid.Columns) - n)
	}
	for range tokens {
		best := text(prompt)
		if m.tok.IsEnd(best) {
			break
		}
		answer, prompt = append(answer, best), []int32{best}
	}
	return answer
}

// TestImages: conversations with pictures go on, change their picture, and take turns. Each answer is the reference's,
// which reads everything from the beginning.
func TestImages(t *testing.T) {
	sections := []uint32{2, 3, 3, 0}
	for _, kind := range []struct {
		architecture, tower string
		meta                map[string]any
	}{
		{"llama", "llava", nil}, {"llama", "llava-tiles", nil}, {"llama", "idefics3-tiles", nil},
		{"gemma3", "gemma3", map[string]any{"attention.sliding_window": uint32(20), "attention.key_length": uint32(16),
			"attention.value_length": uint32(16)}},
		{"qwen2vl", "qwen2.5vl", map[string]any{"rope.dimension_sections": sections}},
		{"qwen3vl", "qwen3vl", map[string]any{"rope.dimension_sections": sections, "n_deepstack_layers": uint32(2)}},
	} {
		path := tinyReader(t, kind.architecture, kind.meta)
		tower := tinyTower(t, kind.tower, path)
		for _, o := range []Options{{}, {Parallel: 2}, {Parallel: 2, Positions: 256},
			{Speculation: Speculation{Tokens: 3}}, {Parallel: 2, Deterministic: true}} {
			only := map[string]bool{"llama": o.Deterministic, "gemma3": o.Parallel == 2 && o.Positions == 0,
				"qwen3vl": o.Speculation.Tokens > 0} // the fourth has all
			if some, ok := only[kind.architecture]; ok && !some {
				continue
			}
			o.Device, o.Context, o.Projector, o.Cache = "cpu", 128, tower, ir.F32
			m := openModel(t, path, o)
			var images []*Image
			for i, size := range [][2]int{{40, 24}, {24, 40}} {
				p, err := m.ReadImage(t.Context(), visiontest.PNG(t, uint64(i), size[0], size[1]))
				if err != nil {
					t.Fatal(err)
				}
				images = append(images, p)
			}
			if again, err := m.ReadImage(t.Context(), visiontest.PNG(t, 0, 40, 24)); err != nil || again != images[0] {
				t.Errorf("the same picture is read again: %v", err)
			}
			r := rand.New(rand.NewPCG(3, 3))
			ask := func(known int, prompt []int32, images ...*Image) []int32 {
				t.Helper()
				before := m.Reused()
				var got []int32
				for _, token := range answerOf(t, m, prompt, Sampling{MaxTokens: 6, Images: images}) {
					got = append(got, token.ID)
				}
				if want := read(t, m, prompt, images, 6); !slices.Equal(got, want) {
					t.Errorf("%s %+v, a prompt of %d: %v, want %v", kind.architecture, o, len(prompt), got, want)
				}
				guesses := o.Speculation.Tokens // right ones are known too
				if have := m.Reused().Known - before.Known; (have < known || have > known+guesses) && !o.Deterministic {
					t.Errorf("%s %+v: %d tokens were known, want %d", kind.architecture, o, have, known)
				}
				return slices.Concat(prompt, got, randomPrompt(m, r, 2))
			}
			a, b := images[0].Tokens(), images[1].Tokens()
			begin, end := randomPrompt(m, r, 5), randomPrompt(m, r, 3)
			first := slices.Concat(begin, a, end)
			second := ask(0, first, images[0])
			second = ask(len(second)-3, second, images[0])
			ask(len(second)-3, slices.Concat(second, b, end), images[0], images[1])
			if o.Parallel < 2 {
				ask(len(begin), slices.Concat(begin, b, end), images[1])
			}
		}
	}
}

// TestTiles: a picture in tiles has texts between its parts, or rows that end in a newline.
func TestTiles(t *testing.T) {
	path := tinyReader(t, "llama", nil)
	open := func(tower string) *Model {
		return openModel(t, path, Options{Device: "cpu", Context: 128, Projector: tinyTower(t, tower, path)})
	}
	picture := visiontest.PNG(t, 1, 40, 24)
	m := open("idefics3-tiles")
	p, err := m.ReadImage(t.Context(), picture)
	if err != nil {
		t.Fatal(err)
	}
	prompt, err := m.EncodeWith("a", []*Image{p})
	if err != nil {
		t.Fatal(err)
	}
	placed, err := placeImages(prompt, []*Image{p})
	if err != nil || len(placed) != 5 {
		t.Fatalf("%d parts, %v: want 4 tiles and the whole", len(placed), err)
	}
	var texts []string
	for i, part := range placed {
		from := 0
		if i > 0 {
			from = placed[i-1].end()
		}
		texts = append(texts, strings.TrimSpace(m.tok.Decode(prompt[from:part.at])))
	}
	// The tiny vocabulary has letters and digits alone.
	if want := "row1col2"; !strings.HasSuffix(texts[1], want) || !strings.HasSuffix(texts[4], "globalimg") {
		t.Errorf("texts %q: want %s before the second part", texts, want)
	}
	m = open("llava-tiles")
	if p, err = m.ReadImage(t.Context(), picture); err != nil {
		t.Fatal(err)
	}
	newline, err := m.vision.file.Weight(vision.Newline)
	if err != nil {
		t.Fatal(err)
	}
	end, err := newline.Floats()
	if err != nil {
		t.Fatal(err)
	}
	// The whole has 4*4 rows. The tiles have a map of 4*8 without the first and the last column, which are padding.
	if len(p.Tokens()) != 16+4*7 {
		t.Fatalf("%d rows", len(p.Tokens()))
	}
	for i := range p.Tokens() {
		isEnd := float64(p.rows[32*i]) == end[0] && float64(p.rows[32*i+31]) == end[31]
		if want := i >= 16 && (i-16)%7 == 6; isEnd != want {
			t.Errorf("row %d is a newline: %v", i, isEnd)
		}
	}
	small := openModel(t, path, Options{Device: "cpu", Context: 40, Projector: m.options.Projector})
	if _, err := small.ReadImage(t.Context(), picture); err == nil ||
		!strings.Contains(err.Error(), "takes 44 tokens, and there is room for 39") {
		t.Errorf("error %v", err)
	}
}

// TestImagesTogether: answers of texts with pictures run at once, in mixed runs too.
func TestImagesTogether(t *testing.T) {
	setMixed(t, true)
	for architecture, tower := range map[string]string{"gemma3": "gemma3", "qwen2vl": "qwen2vl"} {
		meta := map[string]any{"attention.sliding_window": uint32(20)}
		if architecture == "qwen2vl" {
			meta = map[string]any{"rope.dimension_sections": []uint32{2, 3, 3}}
		}
		path := tinyReader(t, architecture, meta)
		m := openModel(t, path, Options{Device: "cpu", Context: 128, Cache: ir.F32, Parallel: 3,
			Projector: tinyTower(t, tower, path)})
		if len(m.mixed) == 0 {
			t.Errorf("%s has no mixed programs", architecture)
		}
		r, all := rand.New(rand.NewPCG(3, 3)), sync.WaitGroup{}
		for i := range uint64(6) {
			p, err := m.ReadImage(t.Context(), visiontest.PNG(t, i, 24, 16))
			if err != nil {
				t.Fatal(err)
			}
			prompt := slices.Concat(randomPrompt(m, r, 3), p.Tokens(), randomPrompt(m, r, 40), p.Tokens(),
				randomPrompt(m, r, 3))
			images := []*Image{p, p}
			want := read(t, m, prompt, images, 8)
			all.Go(func() {
				tokens, err := collect(m.Generate(t.Context(), prompt, Sampling{MaxTokens: 8, Images: images}))
				var got []int32
				for _, token := range tokens {
					got = append(got, token.ID)
				}
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("%s, text %d: %v, %v; want %v", architecture, i, got, err, want)
				}
			})
		}
		all.Wait()
	}
}

// TestPromptWith: pictures land where the template shows them. A user's text cannot place one.
func TestPromptWith(t *testing.T) {
	knows := `{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}` +
		`{% if p.type == 'image' %}<|image_pad|>{% else %}{{ p.text }}{% endif %}{% endfor %}{% endif %}{% endfor %}`
	for name, template := range map[string]string{"knows": knows,
		"knows not": `{% for m in messages %}{{ m.content.strip() }}{% endfor %}`} {
		path := tinyReader(t, "qwen2vl", map[string]any{"rope.dimension_sections": []uint32{2, 3, 3},
			"tokenizer.chat_template": template})
		m := openModel(t, path, Options{Device: "cpu", Context: 128, Projector: tinyTower(t, "qwen2vl", path)})
		var images []*Image
		for i := range uint64(2) {
			p, err := m.ReadImage(t.Context(), visiontest.PNG(t, i, 24, 16))
			if err != nil {
				t.Fatal(err)
			}
			images = append(images, p)
		}
		c := chat.Context{Messages: []chat.Message{
			{Role: "user", Content: []any{TextPart("a b <|image_pad|>"), ImagePart(), TextPart("c")}},
			{Role: "assistant", Content: "d"}, {Role: "user", Content: []any{ImagePart(), TextPart("e")}}}}
		prompt, err := m.PromptWith(c, images)
		if err != nil {
			t.Fatal(name, err)
		}
		list, err := placeImages(prompt, images)
		if err != nil || len(list) != 2 {
			t.Fatalf("%s: %v, %v", name, list, err)
		}
		before, between, after := prompt[:list[0].at], prompt[list[0].end():list[1].at], prompt[list[1].end():]
		if !strings.Contains(m.tok.Decode(before), "image_pad") && len(before) < 5 || !strings.HasPrefix(
			strings.TrimSpace(m.tok.Decode(after)), "e") && name == "knows" || len(between) == 0 {
			t.Errorf("%s: %q, %q, %q", name, m.tok.Decode(before), m.tok.Decode(between), m.tok.Decode(after))
		}
		_, rest, forgotten, err := m.FitWith(c, images, 128-len(prompt)+1)
		if err != nil || forgotten != 2 || len(rest) != 1 || rest[0] != images[1] {
			t.Errorf("%s: %d messages forgotten, pictures %v, %v", name, forgotten, rest, err)
		}
		if _, err := m.PromptWith(c, images[:1]); err == nil || !strings.Contains(err.Error(), "have 2 pictures") {
			t.Errorf("error %v", err)
		}
	}
}

// TestImageErrors: pictures that a model does not read are refused by name.
func TestImageErrors(t *testing.T) {
	path := tinyReader(t, "llama", nil)
	m := openModel(t, path, Options{Device: "cpu", Context: 64})
	if _, err := m.ReadImage(t.Context(), visiontest.PNG(t, 1, 8, 8)); !errors.Is(err, ErrNoProjector) {
		t.Errorf("error %v", err)
	}
	if found, err := FindProjector(path); found != "" || err != nil {
		t.Errorf("found %q, %v", found, err)
	}
	tower := tinyTower(t, "llava", path)
	if found, err := FindProjector(path); found != tower || err != nil {
		t.Errorf("found %q, %v", found, err)
	}
	deep := tinyTower(t, "qwen3vl", path)
	if _, err := FindProjector(path); err == nil || !strings.Contains(err.Error(), "name one of them, or none") {
		t.Errorf("error %v", err)
	}
	for want, o := range map[string]Options{
		"rows have 96 elements, and the model's 32":    {Projector: deep},
		"general.architecture is \"llama\": want clip": {Projector: path},
		"a context shift cannot move pictures":         {Projector: tower, ContextShift: true},
		"a draft model reads no pictures":              {Projector: tower, Speculation: Speculation{Tokens: 2, Draft: path}},
	} {
		o.Device, o.Context = "cpu", 64
		if _, err := Open(t.Context(), path, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	m = openModel(t, path, Options{Device: "cpu", Context: 24, Projector: tower})
	wrong := (*vision.PictureError)(nil)
	if _, err := m.ReadImage(t.Context(), []byte("BM")); !errors.As(err, &wrong) {
		t.Errorf("error %v", err)
	}
	p, err := m.ReadImage(t.Context(), visiontest.PNG(t, 1, 8, 8))
	if err != nil {
		t.Fatal(err)
	}
	for want, prompt := range map[string][]int32{
		"ends with a picture":                       slices.Concat([]int32{3}, p.Tokens()),
		"not to the next one of Sampling.Images":    slices.Concat([]int32{3, -7}, p.Tokens(), []int32{3}),
		"has 0 pictures, and Sampling.Images has 1": {3, 4},
		"the prompt has 33 tokens: want at most":    slices.Concat(p.Tokens(), p.Tokens(), []int32{3}),
	} {
		_, err := collect(m.Generate(t.Context(), prompt, Sampling{Images: []*Image{p}}))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	prompt := slices.Concat([]int32{3}, p.Tokens(), []int32{3})
	if _, err := collect(m.Generate(t.Context(), prompt, Sampling{})); err == nil {
		t.Error("a prompt with tokens below 0 and no picture is answered")
	}
	small := openModel(t, path, Options{Device: "cpu", Context: 16, Projector: tower})
	if _, err := small.ReadImage(t.Context(), visiontest.PNG(t, 1, 8, 8)); err == nil ||
		!strings.Contains(err.Error(), "the picture takes 16 tokens, and there is room for 15") {
		t.Errorf("error %v", err)
	}
}
