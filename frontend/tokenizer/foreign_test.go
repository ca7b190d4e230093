package tokenizer_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/tokenizer"
	"google.golang.org/protobuf/encoding/protowire"
)

// TestSentencePiece compares the unigram model with SentencePiece's own program, on vocabularies that its authors
// publish: see testdata/sentencepiece.
func TestSentencePiece(t *testing.T) {
	folder := filepath.Join("testdata", "sentencepiece")
	lines := strings.Split(strings.TrimSuffix(read(t, filepath.Join(folder, "inputs.txt")), "\n"), "\n")
	for _, name := range []string{"test_model", "test_ja_model"} {
		tok := newTokenizer(t, sentencePieceKeys(t, filepath.Join(folder, name+".model")))
		ids := strings.Split(strings.TrimSuffix(read(t, filepath.Join(folder, name+".ids")), "\n"), "\n")
		if len(ids) != len(lines) {
			t.Fatalf("%s: tokens of %d lines, and there are %d", name, len(ids), len(lines))
		}
		for i, text := range lines {
			if got, want := tok.Encode(text, tokenizer.Options{}), numbers(t, ids[i]); !slices.Equal(got, want) {
				t.Errorf("%s: %q is\n%v, %s, want\n%v, %s", name, text, got, names(tok, got), want, names(tok, want))
			}
		}
	}
}

// sentencePieceKeys are the keys that a GGUF file has of the vocabulary in a file of SentencePiece
// (sentencepiece_model.proto).
func sentencePieceKeys(t *testing.T, path string) keys {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var tokens []string
	var scores []float32
	var types []int32
	k := keys{"model": "t5", "add_space_prefix": true, "remove_extra_whitespaces": true}
	flag := func(number uint64) bool { return number != 0 }
	fields(t, data, func(at protowire.Number, _ uint64, part []byte) {
		switch at {
		case 1: // a piece
			token, score, kind := "", float32(0), int32(normal)
			fields(t, part, func(at protowire.Number, number uint64, text []byte) {
				switch at {
				case 1:
					token = string(text)
				case 2:
					score = math.Float32frombits(uint32(number))
				case 3:
					kind = int32(number)
				}
			})
			if kind == unknown {
				k["unknown_token_id"] = uint32(len(tokens))
			}
			tokens, scores, types = append(tokens, token), append(scores, score), append(types, kind)
		case 2: // how it was trained
			fields(t, part, func(at protowire.Number, number uint64, _ []byte) {
				if at == 3 && number != 1 {
					t.Fatalf("%s is a model of kind %d: want 1, unigram", path, number)
				}
			})
		case 3: // how texts are normalized
			fields(t, part, func(at protowire.Number, number uint64, text []byte) {
				switch at {
				case 2:
					k["precompiled_charsmap"] = text
				case 3:
					k["add_space_prefix"] = flag(number)
				case 4:
					k["remove_extra_whitespaces"] = flag(number)
				}
			})
		}
	})
	k["tokens"], k["scores"], k["token_type"] = tokens, scores, types
	return k
}

// fields calls each for the fields of a message: numbers, or values with a length.
func fields(t *testing.T, data []byte, each func(at protowire.Number, number uint64, part []byte)) {
	t.Helper()
	for len(data) > 0 {
		at, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		data = data[n:]
		var number uint64
		var part []byte
		switch kind {
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(data)
		case protowire.Fixed32Type:
			var bits uint32
			bits, n = protowire.ConsumeFixed32(data)
			number = uint64(bits)
		case protowire.BytesType:
			part, n = protowire.ConsumeBytes(data)
		default:
			t.Fatalf("field %d is of kind %d", at, kind)
		}
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		data = data[n:]
		each(at, number, part)
	}
}
