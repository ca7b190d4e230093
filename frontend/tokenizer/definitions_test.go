package tokenizer_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/frontend/tokenizer"
)

// TestDefinitions compares with bench/tokenizers/definitions.py, which computes the tokens of the kinds rwkv and gemma4
// by their definitions. Each vocabulary goes through the keys of a GGUF file. It reads the folder $VKC_TOKENIZERS.
func TestDefinitions(t *testing.T) {
	root := os.Getenv("VKC_TOKENIZERS")
	if root == "" {
		t.Skip("VKC_TOKENIZERS is not set: it names a folder of bench/tokenizers")
	}
	texts := jsonLines[string](t, filepath.Join(root, "texts.jsonl"))
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	world, spelled := fromFolder(t, tokenizer.Folder{World: read("rwkv/rwkv_vocab_made.txt")})
	if spelled != "rwkv" {
		t.Fatalf("the keys are of %q", spelled)
	}
	var of struct{ Tokens, Merges []string }
	if err := json.Unmarshal(read("gemma4/keys.json"), &of); err != nil {
		t.Fatal(err)
	}
	types := make([]int32, len(of.Tokens))
	for i := range types {
		types[i] = normal
	}
	for b := range 256 {
		types[slices.Index(of.Tokens, fmt.Sprintf("<0x%02X>", b))] = 6
	}
	types[slices.Index(of.Tokens, "<unk>")] = unknown
	lines := newTokenizer(t, keys{"model": "gemma4", "tokens": of.Tokens, "token_type": types, "merges": of.Merges,
		"add_space_prefix": false, "unknown_token_id": uint32(slices.Index(of.Tokens, "<unk>"))})
	for name, tok := range map[string]*tokenizer.Tokenizer{"rwkv": world, "gemma4": lines} {
		bad := 0
		list := jsonLines[[]int32](t, filepath.Join(root, name+".ids"))
		if len(list) != len(texts) {
			t.Fatalf("%s: %d lines for %d texts", name, len(list), len(texts))
		}
		for i, want := range list {
			got := tok.Encode(texts[i], tokenizer.Options{})
			if back := tok.Decode(got); slices.Equal(got, want) && back == texts[i] {
				continue
			}
			if bad++; bad <= 5 {
				t.Errorf("%s: text %d %q: %v %q, want %v", name, i, texts[i], got, tok.Decode(got), want)
			}
		}
		t.Logf("%s: %d of %d texts differ", name, bad, len(texts))
	}
}
