package tokenizer_test

import (
	"fmt"
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

// vocabularies lists those of VKC_TESTDATA: tokenizers/NAME.gguf, with texts
// NAME.gguf.inp and the tokens that other tokenizers give for them, NAME.gguf.out.
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

// TestVocabularies compares with other tokenizers, and decodes what it encoded.
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

func BenchmarkEncode(b *testing.B) {
	text := read(b, "kinds.go") + read(b, "tokenizer.go")
	for _, path := range vocabularies(b) {
		for _, name := range []string{"code", "hostile"} {
			in := text
			if name == "hostile" { // words that are all different, so none is remembered
				var s strings.Builder
				for i := range 20000 {
					fmt.Fprintf(&s, "%x ", uint64(i+1)*0x9e3779b97f4a7c15)
				}
				in = s.String()
			}
			b.Run(strings.TrimSuffix(filepath.Base(path), ".gguf")+"/"+name, func(b *testing.B) {
				tok := open(b, path)
				b.SetBytes(int64(len(in)))
				for b.Loop() {
					tok.Encode(in, tokenizer.Options{})
				}
			})
		}
	}
}
