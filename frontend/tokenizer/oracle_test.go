package tokenizer_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/tokenizer"
)

// TestOracle compares with other programs, on folders of published tokenizers. bench/tokenizers makes the files that it
// reads, in the folder $VKC_TOKENIZERS: texts.jsonl, and for each tokenizer NAME/tokenizer.json and NAME.PROGRAM.out.
// The last has a line for each text: its tokens, and the text that they decode to.
func TestOracle(t *testing.T) {
	root := os.Getenv("VKC_TOKENIZERS")
	if root == "" {
		t.Skip("VKC_TOKENIZERS names no folder that bench/tokenizers has made")
	}
	texts := jsonLines[string](t, filepath.Join(root, "texts.jsonl"))
	outs, err := filepath.Glob(filepath.Join(root, "*.out"))
	if err != nil || len(outs) == 0 {
		t.Fatalf("%s has no NAME.out: %v", root, err)
	}
	for _, out := range outs {
		name, _, _ := strings.Cut(filepath.Base(out), ".")
		t.Run(filepath.Base(out), func(t *testing.T) {
			tok, keys := openFolder(t, filepath.Join(root, name))
			ggml := withoutJSON(t, folderFiles(t, filepath.Join(root, name)))
			bad, newer, other := 0, 0, 0
			for i, line := range jsonLines[[2]json.RawMessage](t, out) {
				var want []int32
				var back string
				if err := errors.Join(json.Unmarshal(line[0], &want), json.Unmarshal(line[1], &back)); err != nil {
					t.Fatal(err)
				}
				if strings.ContainsFunc(texts[i], isNew) {
					newer++
					continue
				}
				got := tok.Encode(texts[i], tokenizer.Options{Special: true})
				decoded := tok.Decode(got)
				if !slices.Equal(ggml.Encode(texts[i], tokenizer.Options{Special: true}), want) {
					other++
				}
				if slices.Equal(got, want) && decoded == back {
					continue
				}
				if bad++; bad <= 5 {
					t.Errorf("text %d %q:\n%v %q, want\n%v %q", i, texts[i], got, decoded, want, back)
				}
			}
			t.Logf("%s; %d texts differ by GGML's keys alone", keys, other)
			t.Logf("%d of %d texts differ; %d more have characters that are newer than Unicode %s", bad,
				len(texts)-newer, newer, unicode.Version)
		})
	}
}

// isNew reports whether Go's tables of Unicode do not know a character.
func isNew(r rune) bool {
	return !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z, unicode.Cc, unicode.Cf,
		unicode.Co)
}

// openFolder reads the tokenizer of a folder. keys says how its GGUF file spells it.
func openFolder(t testing.TB, folder string) (tok *tokenizer.Tokenizer, keys string) {
	t.Helper()
	return fromFolder(t, folderFiles(t, folder))
}

// folderFiles reads the files of a folder's tokenizer.
func folderFiles(t testing.TB, folder string) tokenizer.Folder {
	t.Helper()
	file := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return data
	}
	return tokenizer.Folder{Tokenizer: file("tokenizer.json"), Config: file("tokenizer_config.json")}
}

// fromFolder writes a tokenizer to a GGUF file and reads that. keys says how the file spells it.
func fromFolder(t testing.TB, files tokenizer.Folder) (_ *tokenizer.Tokenizer, keys string) {
	t.Helper()
	kvs, err := files.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range kvs {
		switch kv.Key {
		case "tokenizer.ggml.model", "tokenizer.ggml.pre":
			keys += fmt.Sprint(kv.Value, " ")
		case "tokenizer.huggingface.json":
			keys += "tokenizer.json"
		}
	}
	f, err := gguf.Of(kvs, nothing{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.New(f)
	if err != nil {
		t.Fatal(err)
	}
	return tok, strings.TrimSpace(keys)
}

// jsonLines reads a file of JSON values, one a line.
func jsonLines[T any](t *testing.T, path string) (all []T) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 64<<20)
	for s.Scan() {
		var v T
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// nothing is a source of no weights.
type nothing struct{ gguf.Named }

func (nothing) WeightNames() []string { return nil }
