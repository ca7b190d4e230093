package tokenizer_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/tokenizer"
)

// worldTokens are tokens in Python's spelling, with their bytes.
var worldTokens = []struct{ literal, bytes string }{
	{`' the'`, " the"}, {`'\n\n'`, "\n\n"}, {`"it's"`, "it's"}, {`'\''`, "'"}, {`'\\n'`, `\n`}, {`'漢字'`, "漢字"},
	{`'\xa0é'`, "\u00a0é"}, {`b'\xe6\xbc'`, "\xe6\xbc"}, {`b'\xff\'"'`, "\xff'\""}, {`'\u200b\U0001f600'`, "\u200b😀"},
	{`' th'`, " th"}, {`'he'`, "he"}, {`' '`, " "}, {`"x' y"`, "x' y"},
}

// worldFile is a vocabulary of all bytes and worldTokens.
func worldFile() (text string, byID []string) {
	var b strings.Builder
	byID = []string{""}
	add := func(literal, bytes string) {
		fmt.Fprintf(&b, "%d %s %d\n", len(byID), literal, len(bytes))
		byID = append(byID, bytes)
	}
	for c := range 256 {
		add(fmt.Sprintf(`b'\x%02x'`, c), string([]byte{byte(c)}))
	}
	for _, t := range worldTokens {
		add(t.literal, t.bytes)
	}
	return b.String(), byID
}

// TestWorld compares with a search through all tokens, from a folder's file and from GGUF's spelling of it.
func TestWorld(t *testing.T) {
	text, byID := worldFile()
	tok, keys := fromFolder(t, tokenizer.Folder{World: []byte(text), Model: []byte(`{"vocab_size": 300}`)})
	if !strings.HasPrefix(keys, "rwkv") {
		t.Errorf("the keys name the model %q: want rwkv", keys)
	}
	if eos, ok := tok.EOS(); !ok || eos != 0 || tok.Len() != 300 {
		t.Errorf("EOS %d, %v, of %d tokens: want 0 of 300", eos, ok, tok.Len())
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var b strings.Builder
		for range r.IntN(20) {
			if r.IntN(2) == 0 {
				b.WriteString(worldTokens[r.IntN(len(worldTokens))].bytes)
			} else {
				b.WriteByte(byte(r.IntN(256)))
			}
		}
		var want []int32
		for rest := b.String(); rest != ""; {
			best := 1
			for id := range byID[1:] {
				longer := len(byID[1+id]) > len(byID[best]) || !strings.HasPrefix(rest, byID[best])
				if longer && strings.HasPrefix(rest, byID[1+id]) {
					best = 1 + id
				}
			}
			want, rest = append(want, int32(best)), rest[len(byID[best]):]
		}
		got := tok.Encode(b.String(), tokenizer.Options{})
		for i := range want { // a byte and a token may be equal: the first counts
			want[i] = int32(slices.Index(byID, byID[want[i]]))
		}
		if !slices.Equal(got, want) || tok.Decode(got) != b.String() {
			t.Fatalf("%q: tokens %v of text %q, want %v", b.String(), got, tok.Decode(got), want)
		}
	}
}

// TestRefusedWorld: lines that are no tokens are named.
func TestRefusedWorld(t *testing.T) {
	for _, text := range []string{"1 'a'", "x 'a' 1", "1 'a' 2", "1 a 1", "1 'a' 1\n1 'b' 1", "1 b'\\u1234' 1",
		"0 'a' 1", "99999999 'a' 1"} {
		if _, err := (tokenizer.Folder{World: []byte(text)}).Metadata(); err == nil {
			t.Errorf("%q is no vocabulary, but there is no error", text)
		}
	}
}

// lineVocabulary is a vocabulary of Gemma 4's kind.
func lineVocabulary() keys {
	tokens := []string{"<bos>", "<unk>"}
	types := []int32{control, unknown}
	for b := range 256 {
		tokens, types = append(tokens, fmt.Sprintf("<0x%02X>", b)), append(types, 6)
	}
	for _, name := range []string{"a", "b", "▁", "\n", "é", "▁a", "ab", "▁ab", "▁▁", "\n\n", "aa", "ba", "a▁b", "b▁"} {
		tokens, types = append(tokens, name), append(types, normal)
	}
	return keys{"model": "gemma4", "tokens": tokens, "token_type": types, "bos_token_id": uint32(0),
		"unknown_token_id": uint32(1), "add_space_prefix": false,
		"merges": []string{"▁ a", "a b", "▁a b", "▁ ▁", "b ▁", "a a", "b a"}}
}

// TestLineBPE compares with merging by definition: the pair of the best rank, and the first of these, until none is
// left.
func TestLineBPE(t *testing.T) {
	k := lineVocabulary()
	tok := newTokenizer(t, k)
	tokens := k["tokens"].([]string)
	merges := k["merges"].([]string)
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		var text strings.Builder
		for range r.IntN(12) {
			text.WriteString([]string{"a", "b", " ", "\n", "é", "漢", "\xff"}[r.IntN(7)])
		}
		var want []int32
		for _, line := range wordsOfLines(strings.ReplaceAll(text.String(), " ", "▁")) {
			if id := slices.Index(tokens, line); id >= 0 && strings.Trim(line, "\n") == "" {
				want = append(want, int32(id))
				continue
			}
			parts := strings.Split(line, "")
			for {
				best, at := len(merges), 0
				for i := range len(parts) - 1 {
					if rank := slices.Index(merges, parts[i]+" "+parts[i+1]); rank >= 0 && rank < best {
						best, at = rank, i
					}
				}
				if best == len(merges) {
					break
				}
				parts = slices.Replace(parts, at, at+2, parts[at]+parts[at+1])
			}
			for _, part := range parts {
				if id := slices.Index(tokens, part); id >= 0 {
					want = append(want, int32(id))
					continue
				}
				for _, b := range []byte(part) {
					want = append(want, int32(b)+2)
				}
			}
		}
		if got := tok.Encode(text.String(), tokenizer.Options{}); !slices.Equal(got, want) {
			t.Fatalf("%q: %v, want %v", text.String(), got, want)
		} else if back := tok.Decode(got); back != text.String() {
			t.Fatalf("%q comes back as %q", text.String(), back)
		}
	}
	if ids := tok.Encode("a", tokenizer.Options{Whole: true}); len(ids) != 2 || ids[0] != 0 {
		t.Errorf("a whole text is %v: want <bos> before it", ids)
	}
}

// wordsOfLines splits a text into runs of line feeds and the text between them.
func wordsOfLines(text string) (list []string) {
	for text != "" {
		n := len(text) - len(strings.TrimLeft(text, "\n"))
		if n == 0 {
			if n = strings.IndexByte(text, '\n'); n < 0 {
				n = len(text)
			}
		}
		list, text = append(list, text[:n]), text[n:]
	}
	return list
}
