package tokenizer_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/tokenizer"
)

// TestJSON compares tiny tokenizers of each kind with another program: see bench/tokenizers/kinds.mjs.
func TestJSON(t *testing.T) {
	for _, c := range jsonLines[struct {
		Name      string
		Tokenizer json.RawMessage
		Results   [][3]json.RawMessage
	}](t, filepath.Join("testdata", "json.jsonl")) {
		t.Run(c.Name, func(t *testing.T) {
			tok, _ := fromFolder(t, tokenizer.Folder{Tokenizer: c.Tokenizer})
			var ggml *tokenizer.Tokenizer // by the keys of GGML's programs alone
			if c.Name == "WordPiece" || c.Name == "ByteLevel" {
				ggml = withoutJSON(t, tokenizer.Folder{Tokenizer: c.Tokenizer})
			}
			for _, r := range c.Results {
				text, want, back := parsed[string](t, r[0]), parsed[[]int32](t, r[1]), parsed[string](t, r[2])
				got := tok.Encode(text, tokenizer.Options{Special: true})
				if ggml != nil {
					if ids := ggml.Encode(text, tokenizer.Options{Special: true}); !slices.Equal(ids, want) {
						t.Errorf("%q is %v by GGML's keys, want %v", text, ids, want)
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("%q is %v %q, want %v %q", text, got, names(tok, got), want, names(tok, want))
				} else if decoded := tok.Decode(got); decoded != back {
					t.Errorf("%q comes back as %q, want %q", text, decoded, back)
				}
			}
		})
	}
}

// withoutJSON is fromFolder without the key of the whole tokenizer.json.
func withoutJSON(t *testing.T, files tokenizer.Folder) *tokenizer.Tokenizer {
	t.Helper()
	kvs, err := files.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	kvs = slices.DeleteFunc(kvs, func(kv gguf.KV) bool { return kv.Key == "tokenizer.huggingface.json" })
	tok, err := tokenizer.New(must(gguf.Of(kvs, nothing{}, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func parsed[T any](t *testing.T, raw json.RawMessage) (v T) {
	t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestFolderKeys: the metadata of a folder have its special tokens, templates and sampling.
func TestFolderKeys(t *testing.T) {
	files := tokenizer.Folder{
		Tokenizer: []byte(`{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
			"added_tokens": [{"id": 3, "content": "<s>", "special": true}, {"id": 4, "content": "</s>", "special": true},
				{"id": 5, "content": "<e>", "special": true}, {"id": 6, "content": "<f>"}]}`),
		Config: []byte(`{"tokenizer_class": "LlamaTokenizerFast", "bos_token": {"content": "<s>"}, "eos_token": "</s>",
			"add_bos_token": true, "add_eos_token": true, "chat_template": [{"name": "default", "template": "D"},
			{"name": "tool_use", "template": "T"}]}`),
		Generation: []byte(`{"eos_token_id": [4, 5, 99], "temperature": 0.5, "top_k": 20, "do_sample": true}`),
		Model:      []byte(`{"vocab_size": 9}`),
		Templates:  map[string][]byte{"rag": []byte("R")},
	}
	kvs, err := files.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	for _, kv := range kvs {
		got[kv.Key] = kv.Value
	}
	for key, want := range map[string]any{
		"tokenizer.ggml.bos_token_id": uint32(3), "tokenizer.ggml.eos_token_id": uint32(4),
		"tokenizer.ggml.eot_token_id": uint32(5), "tokenizer.ggml.add_bos_token": true, "tokenizer.ggml.add_eos_token": true,
		"tokenizer.chat_template": "D", "tokenizer.chat_template.tool_use": "T", "tokenizer.chat_template.rag": "R",
		"general.sampling.temp": float32(0.5), "general.sampling.top_k": int32(20)} {
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
	if tokens, _ := got["tokenizer.ggml.tokens"].([]string); len(tokens) != 9 {
		t.Errorf("%d tokens, want those of vocab_size: %q", len(tokens), tokens)
	}
	files.Template = []byte("J")
	tok, _ := fromFolder(t, files)
	if ids := tok.Encode("ab<e>", tokenizer.Options{Whole: true}); !slices.Equal(ids, []int32{3, 2, 4}) {
		t.Errorf("a whole text is %v, want the class's tokens around it, and no special token in it", ids)
	}
	if !tok.IsEnd(5) || tok.IsEnd(3) {
		t.Error("the ends of an answer are not those of generation_config.json")
	}
}

// TestRefusedJSON: an unknown part is refused by name.
func TestRefusedJSON(t *testing.T) {
	model := `"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}`
	for text, want := range map[string]string{
		`{}`: `no "model"`, `{"model": {"type": "Neural", "vocab": {}}}`: `"Neural"`, `[`: "unexpected end",
		`{` + model + `, "normalizer": {"type": "Rot13"}}`:                                                            `"Rot13"`,
		`{` + model + `, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Chop"}]}}`:                 `"Chop"`,
		`{` + model + `, "decoder": {"type": "Undo"}}`:                                                                `"Undo"`,
		`{` + model + `, "post_processor": {"type": "Wrap"}}`:                                                         `"Wrap"`,
		`{` + model + `, "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a)\\1"}, "behavior": "Isolated"}}`: `\1`,
		`{` + model + `, "pre_tokenizer": {"type": "Split", "pattern": {"String": "a"}, "behavior": "Odd"}}`:          `"Odd"`,
		`{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}}`:                                            `"b"`,
		`{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [], "dropout": 0.1}}`:                                 "dropout",
		`{"model": {"type": "WordLevel", "vocab": {"a": -1}}}`:                                                        "-1",
		`{"model": {"type": "WordLevel", "vocab": {"a": 16000000}}}`:                                                  "16000000",
		`{` + model + `, "added_tokens": [{"id": 99999999, "content": "x"}]}`:                                         "99999999",
	} {
		_, err := tokenizer.Folder{Tokenizer: []byte(text)}.Metadata()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

// FuzzJSON: any tokenizer.json is refused, or encodes any text.
func FuzzJSON(f *testing.F) {
	for _, line := range strings.Split(string(must(os.ReadFile(filepath.Join("testdata", "json.jsonl")))), "\n") {
		var c struct{ Tokenizer json.RawMessage }
		if json.Unmarshal([]byte(line), &c) == nil && len(c.Tokenizer) < 8000 {
			f.Add([]byte(c.Tokenizer), "Hello, world!")
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		kvs, err := tokenizer.Folder{Tokenizer: data}.Metadata()
		if err != nil || len(text) > 1000 {
			return
		}
		file, err := gguf.Of(kvs, nothing{}, nil)
		if err != nil {
			return
		}
		if tok, err := tokenizer.New(file); err == nil {
			tok.Decode(tok.Encode(text, tokenizer.Options{Special: true, Whole: true}))
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestEncodePair: two texts have the tokens before, between and after them that the tokenizer asks for.
func TestEncodePair(t *testing.T) {
	const words = `"added_tokens": [], "model": {"type": "WordLevel", "unk_token": "u", "vocab": ` +
		`{"u": 0, "<s>": 1, "</s>": 2, "[CLS]": 3, "[SEP]": 4, "a": 5, "b": 6}}, ` +
		`"pre_tokenizer": {"type": "Whitespace"}, "post_processor": `
	template := func(pair string) string {
		return `{"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}, ` +
			`{"SpecialToken": {"id": "</s>"}}], "pair": ` + pair + `, "special_tokens": {"<s>": {"ids": [1]}, ` +
			`"</s>": {"ids": [2]}}}`
	}
	for _, c := range []struct {
		post string
		want []int32
	}{
		{`null`, []int32{5, 6}},
		{`{"type": "BertProcessing", "sep": ["[SEP]", 4], "cls": ["[CLS]", 3]}`, []int32{3, 5, 4, 6, 4}},
		{`{"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1]}`, []int32{1, 5, 2, 2, 6, 2}},
		{`{"type": "Sequence", "processors": [{"type": "ByteLevel"}, {"type": "BertProcessing", "sep": ["[SEP]", 4], ` +
			`"cls": ["[CLS]", 3]}]}`, []int32{3, 5, 4, 6, 4}},
		{template(`[{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "</s>"}}, ` +
			`{"Sequence": {"id": "B"}}]`), []int32{1, 5, 2, 6}},
		{template(`[{"Sequence": {"id": "B"}}, {"Sequence": {"id": "A"}}]`), []int32{1, 5, 2, 2, 6, 2}},
	} {
		tok, _ := fromFolder(t, tokenizer.Folder{Tokenizer: []byte("{" + words + c.post + "}")})
		if got := tok.EncodePair("a", "b"); !slices.Equal(got, c.want) {
			t.Errorf("%s: a pair is %v, want %v", c.post, got, c.want)
		}
	}
}
