package tokenizer_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/tokenizer"
)

// open reads a vocabulary.
func open(t testing.TB, path string) *tokenizer.Tokenizer {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tok, err := tokenizer.New(f)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return tok
}

// vocabularies lists those of VKC_TESTDATA: tokenizers/NAME.gguf, with texts in NAME.gguf.inp and the tokens from other
// tokenizers in NAME.gguf.out.
func vocabularies(t testing.TB) []string {
	t.Helper()
	folder := os.Getenv("VKC_TESTDATA")
	if folder == "" {
		t.Skip("VKC_TESTDATA names no folder with vocabularies in tokenizers/")
	}
	list, err := filepath.Glob(filepath.Join(folder, "tokenizers", "*.gguf"))
	if err != nil || len(list) == 0 {
		t.Fatalf("VKC_TESTDATA is %q, which has no tokenizers/*.gguf: %v", folder, err)
	}
	return list
}

// TestVocabularies compares with other tokenizers, and decodes the encoded texts.
func TestVocabularies(t *testing.T) {
	for _, path := range vocabularies(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			tok := open(t, path)
			inputs := strings.Split(read(t, path+".inp"), "\n__ggml_vocab_test__\n")
			outputs := strings.Split(read(t, path+".out"), "\n")
			for i, text := range inputs {
				if i == len(inputs)-1 {
					text = strings.TrimSuffix(text, "\n")
				}
				got := tok.Encode(text, tokenizer.Options{})
				if want := numbers(t, outputs[i]); !slices.Equal(got, want) {
					t.Errorf("%q is %v, want %v", text, got, want)
				}
				if !strings.Contains(path, "bert") {
					if back := tok.Decode(got); back != text {
						t.Errorf("%q comes back as %q", text, back)
					}
				}
			}
		})
	}
}

// TestVocabulariesBytes: no byte becomes a special token in a vocabulary that another program made, save that
// WordPiece has one for words that are unknown.
func TestVocabulariesBytes(t *testing.T) {
	for _, path := range vocabularies(t) {
		tok := open(t, path)
		for b := range 256 {
			for _, id := range tok.Encode("a"+string([]byte{byte(b)})+"a", tokenizer.Options{}) {
				if tok.IsSpecial(id) && tok.Token(id) != "[UNK]" {
					t.Errorf("%s: the byte %#02x becomes %s", filepath.Base(path), b, tok.Token(id))
				}
			}
		}
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func numbers(t *testing.T, line string) []int32 {
	t.Helper()
	var list []int32
	for field := range strings.FieldsSeq(line) {
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, int32(n))
	}
	return list
}

// benchmarkTexts returns source code, prose, and a text of distinct words, which the cache does not help.
func benchmarkTexts(b *testing.B) map[string]string {
	var hostile strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&hostile, "%x ", uint64(i+1)*0x9e3779b97f4a7c15)
	}
	return map[string]string{"code": read(b, "kinds.go") + read(b, "tokenizer.go"),
		"prose": read(b, "../../docs/GUIDE.md") + read(b, "../../docs/RATIONALE.md"), "hostile": hostile.String()}
}

// BenchmarkEncode encodes texts with each vocabulary. MB/s is of wall-clock time.
func BenchmarkEncode(b *testing.B) {
	texts := benchmarkTexts(b)
	bench := func(name string, tok *tokenizer.Tokenizer) {
		for _, of := range slices.Sorted(maps.Keys(texts)) {
			b.Run(name+"/"+of, func(b *testing.B) {
				b.SetBytes(int64(len(texts[of])))
				b.ReportAllocs()
				for b.Loop() {
					tok.Encode(texts[of], tokenizer.Options{})
				}
			})
		}
	}
	for _, path := range vocabularies(b) {
		name := strings.TrimSuffix(filepath.Base(path), ".gguf")
		bench(name, open(b, path))
		if strings.Contains(name, "spm") { // it has the data for a unigram model
			bench("the same as unigram", newTokenizer(b, asUnigram(b, path)))
		}
	}
}

// BenchmarkKinds encodes code with one vocabulary in words of every kind.
func BenchmarkKinds(b *testing.B) {
	text := benchmarkTexts(b)["code"]
	for _, path := range vocabularies(b) {
		if !strings.Contains(path, "gpt-2") {
			continue
		}
		for _, kind := range tokenizer.Kinds() {
			b.Run(kind, func(b *testing.B) {
				tok := newTokenizer(b, change(keysOf(b, path), keys{"pre": kind}))
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					tok.Encode(text, tokenizer.Options{})
				}
			})
		}
	}
}

// keysOf returns the metadata of a file's vocabulary.
func keysOf(b *testing.B, path string) keys {
	f, err := gguf.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	all := keys{}
	for _, kv := range f.Metadata() {
		if key, ok := strings.CutPrefix(kv.Key, "tokenizer.ggml."); ok {
			all[key] = kv.Value
		}
	}
	return all
}

func asUnigram(b *testing.B, path string) keys {
	return change(keysOf(b, path), keys{"model": "t5"})
}
