package speech_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/safetensors"
	"github.com/vkc-go/vkc/frontend/speech"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/internal/speechtest"
	"github.com/vkc-go/vkc/ir"
)

// languages are those that the tiny model knows.
const languages = 60 - 40 - 8 - 9

// sameModel compares the sizes and weights of a file with those of the tiny model.
func sameModel(t *testing.T, m speechtest.Golden, f *gguf.File) {
	t.Helper()
	got, err := speech.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	want, err := speech.FromGGUF(m.File(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*speech.Config{&got, &want} {
		c.Types, c.Name, c.Suppressed, c.SuppressedFirst = nil, "", nil, nil
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for name, d := range m.Weights(t) {
		w, err := f.Weight(name)
		if err != nil {
			t.Fatal(err)
		}
		if w.DType == ir.F16 {
			d = speechtest.Half(t, d)
		}
		if w.DType != d.DType || !slices.Equal(w.Dims, d.Dims) || !bytes.Equal(w.Bytes, d.Bytes) {
			t.Errorf("%s: %s %v, want %s %v", name, w.DType, w.Dims, d.DType, d.Dims)
		}
	}
}

// TestGGML: a file of whisper.cpp has the same model, and a vocabulary with merges and control tokens.
func TestGGML(t *testing.T) {
	m := speechtest.Read(t, "../..")
	for _, dtype := range []ir.DType{ir.F32, ir.F16} {
		path := filepath.Join(t.TempDir(), "ggml-tiny.bin")
		if err := os.WriteFile(path, m.GGML(t, dtype), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := vkc.OpenModel(path)
		if err != nil {
			t.Fatal(err)
		}
		sameModel(t, m, f)
		testTokens(t, f)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// testTokens checks the vocabulary of the tiny model.
func testTokens(t *testing.T, f *gguf.File) {
	t.Helper()
	cfg, err := speech.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.New(f)
	if err != nil {
		t.Fatal(err)
	}
	text := "hello the other world é"
	var parts []string
	for _, id := range tok.Encode(text, tokenizer.Options{}) {
		parts = append(parts, tok.Decode([]int32{id}))
	}
	if got := strings.Join(parts, "|"); got != "hello| the| |o|the|r| w|or|ld| |é" || len(parts) == 0 {
		t.Errorf("tokens %q", got)
	}
	tokens, err := speech.NewTokens(cfg, tok)
	if err != nil {
		t.Fatal(err)
	}
	got := []int32{tokens.End, tokens.Start, tokens.Languages["en"], tokens.Languages["de"], tokens.Translate,
		tokens.Transcribe, tokens.Previous, tokens.NoSpeech, tokens.NoTimestamps, tokens.Timestamps, tokens.LastTimestamp}
	if want := []int32{40, 41, 42, 44, 45, 46, 48, 49, 50, 51, 59}; !slices.Equal(got, want) {
		t.Errorf("control tokens %v, want %v", got, want)
	}
	if len(tokens.Languages) != languages || !tokens.Multilingual || tokens.Time(53) != 640 {
		t.Errorf("%+v", tokens)
	}
	for _, word := range []string{"("} { // of the signs that are no speech, the vocabulary has this one
		if id, _ := tok.ID(word); !slices.Contains(tokens.Suppressed, id) {
			t.Errorf("%q is not suppressed: %v", word, tokens.Suppressed)
		}
	}
	if id, _ := tok.ID("th"); slices.Contains(tokens.Suppressed, id) || !slices.Contains(tokens.SuppressedFirst, 40) {
		t.Errorf("%+v", tokens)
	}
}

// folder writes the tiny model as Hugging Face's programs do. files replaces files; "" leaves one out.
func folder(t testing.TB, m speechtest.Golden, files map[string]string) string {
	t.Helper()
	dir, vocabulary := t.TempDir(), map[string]int{}
	printable := strings.NewReplacer(" ", "Ġ", "\xc3\xa9", "Ã©", "\xc3", "Ã", "\xa9", "©")
	for id, word := range speechtest.Words {
		vocabulary[printable.Replace(word)] = id
	}
	merges := strings.Split("t h|h e|th e|Ġ t|Ġ the|i n|in g|l l|l o|he ll|hell o|Ġ w|o r|Ã ©|e r|l d", "|")
	added := map[string]int{}
	for i, name := range strings.Fields("endoftext startoftranscript en zh de translate transcribe startoflm " +
		"startofprev nocaptions notimestamps") {
		added["<|"+name+"|>"] = len(speechtest.Words) + i
	}
	text := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	all := map[string]string{
		"config.json": `{"architectures": ["WhisperForConditionalGeneration"], "num_mel_bins": 80, "d_model": 32,
			"max_source_positions": 8, "encoder_attention_heads": 4, "encoder_layers": 2, "encoder_ffn_dim": 128,
			"max_target_positions": 48, "decoder_attention_heads": 4, "decoder_layers": 2, "decoder_ffn_dim": 128,
			"vocab_size": 60, "activation_function": "gelu", "scale_embedding": false, "suppress_tokens": [9]}`,
		"preprocessor_config.json": `{"feature_size": 80, "sampling_rate": 16000, "hop_length": 160, "n_fft": 400,
			"n_samples": 2560, "chunk_length": 30}`,
		"generation_config.json": `{"suppress_tokens": [3, 4], "begin_suppress_tokens": [0, 40]}`,
		"tokenizer_config.json":  `{"tokenizer_class": "WhisperTokenizer"}`,
		"vocab.json":             text(vocabulary),
		"merges.txt":             "#version: 0.2\n" + strings.Join(merges, "\n") + "\n",
		"added_tokens.json":      text(added),
	}
	maps.Copy(all, files)
	for name, content := range all {
		if content == "" || name == "more" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var tensors []safetensors.Named
	weights := m.Weights(t)
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		tensors = append(tensors, safetensors.Named{Name: speechtest.ForeignName(t, name, 1), Data: weights[name]})
	}
	for _, name := range []string{"proj_out.weight", files["more"]} { // some programs write the first
		if name != "" {
			tensors = append(tensors, safetensors.Named{Name: name, Data: weights["token_embd.weight"]})
		}
	}
	if err := safetensors.WriteFile(filepath.Join(dir, "model.safetensors"), nil, tensors); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestFolder: a Hugging Face folder has the same model, with its vocabulary in three files.
func TestFolder(t *testing.T) {
	m := speechtest.Read(t, "../..")
	f, err := vkc.OpenModel(folder(t, m, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sameModel(t, m, f)
	testTokens(t, f)
	cfg, err := speech.FromGGUF(f)
	if err != nil || !slices.Equal(cfg.Suppressed, []int32{3, 4}) ||
		!slices.Equal(cfg.SuppressedFirst, []int32{0, 40}) {
		t.Errorf("suppressed %v and %v: %v", cfg.Suppressed, cfg.SuppressedFirst, err)
	}
}

// TestFolderRefuses: a folder that asks for another graph is refused by the name of the setting.
func TestFolderRefuses(t *testing.T) {
	m := speechtest.Read(t, "../..")
	config := func(key, value string) map[string]string {
		return map[string]string{"config.json": fmt.Sprintf(`{"architectures": ["WhisperForConditionalGeneration"],
			"num_mel_bins": 80, "d_model": 32, "max_source_positions": 8, "encoder_attention_heads": 4,
			"encoder_layers": 2, "encoder_ffn_dim": 128, "max_target_positions": 48, "decoder_attention_heads": 4,
			"decoder_layers": 2, "vocab_size": 60, %q: %s}`, key, value)}
	}
	for _, tt := range []struct {
		files map[string]string
		want  string
	}{
		{config("activation_function", `"relu"`), `config.json: activation_function is "relu", which is not supported: ` +
			`want "gelu"`},
		{config("scale_embedding", "true"), "scale_embedding is true"},
		{config("d_model", "-1"), `d_model is "-1": want 1 to`},
		{config("encoder_layers", "3"), `no tensor "model.encoder.layers.2.`},
		{config("encoder_layers", "1"), `no weight for tensor "model.encoder.layers.1.`},
		{config("suppress_tokens", `"all"`) /* and not in generation_config.json */, ""},
		{map[string]string{"generation_config.json": `{"suppress_tokens": [-1]}`}, "suppress_tokens is [-1]: want a list"},
		{map[string]string{"generation_config.json": `[]`}, "generation_config.json: json:"},
		{map[string]string{"preprocessor_config.json": `{"feature_size": 128}`}, "feature_size is 128, which is not " +
			"supported: want 80"},
		{map[string]string{"preprocessor_config.json": `{"n_fft": 512}`}, "n_fft is 512"},
		{map[string]string{"more": "model.encoder.other.weight"}, `no weight for tensor "model.encoder.other.weight"`},
		{map[string]string{"tokenizer_config.json": `{"tokenizer_class": "RobertaTokenizer"}`}, `of the class ` +
			`"RobertaTokenizer"`},
		{map[string]string{"vocab.json": `[]`}, "vocab.json: json:"},
	} {
		f, err := vkc.OpenModel(folder(t, m, tt.files))
		if tt.want == "" && err == nil {
			f.Close()
		} else if err == nil || !strings.Contains(err.Error(), tt.want) || tt.want == "" {
			t.Errorf("%v: %v, want %q", tt.files, err, tt.want)
		}
	}
}

// TestGGMLRefuses: what is wrong with a file is said, at its byte.
func TestGGMLRefuses(t *testing.T) {
	m := speechtest.Read(t, "../..")
	good := m.GGML(t, ir.F32)
	with := func(at int, v int32) []byte {
		b := bytes.Clone(good)
		binary.LittleEndian.PutUint32(b[at:], uint32(v))
		return b
	}
	filters := 4 + 4*len(speechtest.GGMLSizes)
	tokens := filters + 8 + 4*80*201
	for _, tt := range []struct {
		file []byte
		want string
	}{
		{good[:2], "at byte 0: the file ends after 2 of 4 bytes of the magic number"},
		{[]byte("GGUF and more"), `begins with "GGUF"`},
		{with(4, -1), "vocab_size is -1: want 1 to"},
		{with(4+4*5, 1<<30), "context_length is 1073741824"},
		{with(4+4*6, 64), "embedding_length is 64 for the decoder and 32 for the encoder"},
		{with(4+4*10, 3007), "version 3 of block formats: want 2"},
		{with(filters, 128), "filters for 128 bands of 201 frequencies: want 80 of 201"},
		{with(filters+8+4*300, 0x3f800000), "the filter of band 1 is 1 at frequency 99"},
		{with(tokens, 61), "61 tokens: want 1 to 60"},
		{with(tokens, 10), "which is not supported"},
		{with(tokens+4, 1<<30), "token 0 has 1073741824 bytes"},
		{good[:len(good)-1], "bytes of tensor"},
		{good[:len(good)-5000], "bytes of tensor"},
		{append(bytes.Clone(good), 9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0), "a tensor of 9 axes"},
		{append(bytes.Clone(good), 1, 0, 0, 0, 1, 0, 0, 0, 99, 0, 0, 0, 1, 0, 0, 0, 'x'), `"x" has GGML type 99`},
		{append(bytes.Clone(good), 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 'x', 0, 0, 0, 0), `no weight for tensor "x"`},
		{append(bytes.Clone(good), 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0x40, 'x'), "an extent of"},
	} {
		if _, err := speech.ReadGGML(tt.file); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}

// FuzzGGML: no file makes the reader panic.
func FuzzGGML(f *testing.F) {
	m := speechtest.Read(f, "../..")
	good := m.GGML(f, ir.F32)
	f.Add(good)
	f.Add(good[:70000])
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := speech.ReadGGML(data)
		if err != nil {
			return
		}
		for _, name := range file.Names() {
			if d, err := file.Weight(name); err != nil || d.Check() != nil {
				t.Fatal(name, err)
			}
		}
		if tok, err := tokenizer.New(file); err == nil {
			tok.Encode("the hello", tokenizer.Options{})
		}
	})
}
