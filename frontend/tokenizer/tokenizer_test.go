package tokenizer_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/vkc-go/vkc/frontend/chat"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/tokenizer"
)

// keys are the metadata of a tokenizer, without tokenizer.ggml. before each.
type keys map[string]any

// file returns a model file with only a tokenizer.
func file(t testing.TB, k keys) *gguf.File {
	t.Helper()
	var w gguf.Writer
	for key, value := range k {
		if err := w.Set("tokenizer.ggml."+key, value); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.NewReader(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func newTokenizer(t testing.TB, k keys) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.New(file(t, k))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

const (
	normal = iota + 1
	unknown
	control
	added
)

// bytesAsText has how byte-level vocabularies write the 256 bytes.
func bytesAsText() (list []string) {
	next := rune(256)
	for b := range rune(256) {
		r := b
		if b < '!' || b > '~' && b < 0xa1 || b == 0xad {
			r, next = next, next+1
		}
		list = append(list, string(r))
	}
	return list
}

// byteLevel is a vocabulary of the bytes, some merges and some special tokens.
func byteLevel() keys {
	tokens := append(bytesAsText(), "he", "ll", "hell", "hello", "Ġw", "Ġhe", "ĠĠ", "aa",
		"<|im_start|>", "<|im_end|>", "<tool>", "    ")
	types := slices.Repeat([]int32{normal}, len(tokens))
	n := len(types)
	types[n-4], types[n-3], types[n-2], types[n-1] = control, control, added, added
	return keys{
		"model": "gpt2", "pre": "gpt-2", "tokens": tokens, "token_type": types,
		"merges":       []string{"h e", "l l", "he ll", "hell o", "Ġ w", "Ġ he", "Ġ Ġ", "a a"},
		"bos_token_id": uint32(264), "eos_token_id": uint32(265), "add_bos_token": true,
	}
}

// sentences is a vocabulary of SentencePiece with all bytes.
func sentences() keys {
	tokens, types := []string{"<unk>", "<s>", "</s>"}, []int32{unknown, control, control}
	scores := []float32{0, 0, 0}
	const hex = "0123456789ABCDEF"
	for b := range 256 {
		tokens = append(tokens, "<0x"+string(hex[b>>4])+string(hex[b&15])+">")
		types, scores = append(types, 6), append(scores, 0)
	}
	text := "he ▁he ll hell ▁hell ▁hello h e l o ▁ < / s > </ </s w or ▁w ▁wor ld"
	for i, name := range strings.Fields(text) {
		tokens, types, scores = append(tokens, name), append(types, normal), append(scores, -float32(i+1))
	}
	return keys{
		"model": "llama", "tokens": tokens, "token_type": types, "scores": scores,
		"bos_token_id": uint32(1), "eos_token_id": uint32(2), "unknown_token_id": uint32(0),
	}
}

// noBytes is sentences without the bytes.
func noBytes() keys {
	k := sentences()
	return change(k, keys{
		"tokens":     slices.Delete(k["tokens"].([]string), 3, 3+256),
		"token_type": slices.Delete(k["token_type"].([]int32), 3, 3+256),
		"scores":     slices.Delete(k["scores"].([]float32), 3, 3+256),
	})
}

// unigrams is a vocabulary of the unigram model.
func unigrams() keys {
	return keys{
		"model": "t5", "tokens": []string{"<pad>", "</s>", "<unk>", "▁", "a", "b", "ab", "▁ab", "abc", "c"},
		"token_type":   []int32{control, control, unknown, 1, 1, 1, 1, 1, 1, 1},
		"scores":       []float32{0, 0, 0, -2, -3, -3, -4, -5, -9, -3},
		"eos_token_id": uint32(1), "unknown_token_id": uint32(2), "remove_extra_whitespaces": true,
	}
}

// pieces is a vocabulary of WordPiece.
func pieces() keys {
	return keys{
		"model":            "bert",
		"tokens":           strings.Fields("[PAD] [UNK] [CLS] [SEP] ▁un aff able ▁fuhrer ▁! ▁日 ▁a"),
		"token_type":       []int32{3, 2, 3, 3, 1, 1, 1, 1, 1, 1, 1},
		"unknown_token_id": uint32(1), "cls_token_id": uint32(2), "seperator_token_id": uint32(3),
	}
}

// names returns the names of the tokens of a text.
func names(tok *tokenizer.Tokenizer, ids []int32) string {
	var list []string
	for _, id := range ids {
		list = append(list, tok.Token(id))
	}
	return strings.Join(list, " ")
}

func TestEncode(t *testing.T) {
	text, special, whole := tokenizer.Options{}, tokenizer.Options{Special: true}, tokenizer.Options{Whole: true}
	longest := strings.Repeat("able", 24) // four characters less than a word of WordPiece may have
	for _, tt := range []struct {
		k    keys
		o    tokenizer.Options
		text string
		want string
	}{
		{byteLevel(), text, "hello hello", "hello Ġ hello"},
		{byteLevel(), whole, "hell", "<|im_start|> hell"},
		{byteLevel(), text, "", ""},
		{byteLevel(), text, "aaaaa", "aa aa a"}, // of equal pairs the first is merged first
		{byteLevel(), text, "é\xff", "Ã © ÿ"},
		{byteLevel(), special, "he<|im_end|>ll", "he <|im_end|> ll"},
		{byteLevel(), text, "he<|im_end|>ll", "he < | i m _ e n d | > ll"},
		{byteLevel(), special, "<tool>", "<tool>"},
		{byteLevel(), text, "<tool>", "< t o o l >"},
		{byteLevel(), text, "a     w", "a      Ġw"}, // four spaces are a token that was added
		{sentences(), text, "hello world", "▁hello ▁wor ld"},
		{sentences(), whole, "he", "<s> ▁he"},
		{sentences(), text, "é", "▁ <0xC3> <0xA9>"},
		{sentences(), text, "\xff", "▁ <0xFF>"},
		{noBytes(), text, "éh", "▁ <unk> h"},
		{sentences(), text, "</s>", "▁ </s >"}, // never the control token
		{sentences(), special, "he</s>he", "▁he </s> ▁he"},
		{unigrams(), text, " ab  abc ", "▁ab ▁ab c"},
		{unigrams(), text, "abxyab", "▁ab <unk> ab"},
		{unigrams(), whole, "ab", "▁ab </s>"},
		{pieces(), text, "Unaffable! Führer日a", "▁un aff able ▁! ▁fuhrer ▁日 ▁a"},
		{pieces(), text, "unx a [SEP]", "[UNK] ▁a [UNK] [UNK] [UNK]"},
		{pieces(), whole, "a", "[CLS] ▁a [SEP]"},
		{pieces(), special, "a[SEP]a", "▁a [SEP] ▁a"},
		{pieces(), text, "aaff" + longest, "▁a aff" + strings.Repeat(" able", 24)}, // a word of 100 characters
		{pieces(), text, "ÄAFF" + longest, "▁a aff" + strings.Repeat(" able", 24)}, // without the accent
		{pieces(), text, "unaff" + longest, "[UNK]"},
	} {
		tok := newTokenizer(t, tt.k)
		if got := names(tok, tok.Encode(tt.text, tt.o)); got != tt.want {
			t.Errorf("%s: %q is %s, want %s", tt.k["model"], tt.text, got, tt.want)
		}
	}
}

// without returns a vocabulary in which the given tokens have other names.
func without(k keys, names ...string) keys {
	list := slices.Clone(k["tokens"].([]string))
	for i, name := range list {
		if slices.Contains(names, name) {
			list[i] = "no text " + name
		}
	}
	return change(k, keys{"tokens": list})
}

// TestLacks: a text without a token never becomes a token with another meaning, whatever the file declares as the
// unknown token. It becomes that token if the token has no other role, and is skipped otherwise. A byte-level
// vocabulary has no such token.
func TestLacks(t *testing.T) {
	unk := func(k keys, id uint32) keys { return change(k, keys{"unknown_token_id": id}) }
	starcoder := change(without(byteLevel(), "x", "Ã"), keys{"merges": []string{"h e", "a a"}})
	unknownRole := slices.Clone(byteLevel()["token_type"].([]int32))
	unknownRole[265] = unknown
	for _, tt := range []struct {
		k    keys
		text string
		want string
	}{
		// No merge across a skipped byte.
		{starcoder, "axa\xff", "a a ÿ"},
		{starcoder, "hxe é", "h e Ġ ©"},                                                     // half a character
		{starcoder, "xx", ""},                                                               // all of a text
		{unk(maps.Clone(starcoder), 265), "axa", "a a"},                                     // <|im_end|>
		{unk(change(maps.Clone(starcoder), keys{"token_type": nil}), 265), "axa", "a a"},    // the same by its name
		{unk(change(maps.Clone(starcoder), keys{"token_type": unknownRole}), 265), "x", ""}, // and of another type
		{change(maps.Clone(starcoder), keys{"pre": "llama3"}), "x xx", "Ġ"},                 // words that are tokens
		{unk(noBytes(), 2), "éh", "▁ h"},                                                    // </s>
		{unk(change(noBytes(), keys{"token_type": nil}), 2), "éh", "▁ h"},
		{change(noBytes(), keys{"unknown_token_id": nil}), "éh", "▁ h"},
		{change(noBytes(), keys{"eot_token_id": uint32(0)}), "éh", "▁ h"},
		{change(noBytes(), keys{"padding_token_id": uint32(0)}), "éh", "▁ <unk> h"}, // as Mistral's has it
		{without(sentences(), "<0xA9>"), "éh", "▁ <unk> h"},
		{unk(without(sentences(), "<0xA9>"), 1), "éh", "▁ h"},
		{unk(unigrams(), 1), "abxyab", "▁ab ab"},
		{unk(unigrams(), 1), "xy", "▁"},
		{change(unigrams(), keys{"padding_token_id": uint32(2)}), "abxyab", "▁ab <unk> ab"},
		{unk(pieces(), 3), "unx a", "▁a"},
	} {
		tok := newTokenizer(t, tt.k)
		if got := names(tok, tok.Encode(tt.text, tokenizer.Options{})); got != tt.want {
			t.Errorf("%s: %q is %s, want %s", tt.k["model"], tt.text, got, tt.want)
		}
	}
}

// TestLacksEveryByte: each byte may be the one that is not there.
func TestLacksEveryByte(t *testing.T) {
	for b, name := range bytesAsText() {
		k := change(byteLevel(), keys{"merges": []string{}, "unknown_token_id": uint32(265)})
		tok := newTokenizer(t, without(k, name))
		text := "0" + string([]byte{byte(b)}) + "1"
		want := strings.ReplaceAll(text, string([]byte{byte(b)}), "")
		if got := tok.Decode(tok.Encode(text, tokenizer.Options{})); got != want {
			t.Errorf("without %#02x: %q comes back as %q, want %q", b, text, got, want)
		}
	}
}

func TestEncodeChat(t *testing.T) {
	tok := newTokenizer(t, byteLevel())
	for _, tt := range []struct {
		pieces []chat.Piece
		want   string
	}{
		{[]chat.Piece{{Text: "<|im_start|>"}, {Text: "hello", User: true}, {Text: "<|im_end|>"}}, "<|im_start|> hello <|im_end|>"},
		{[]chat.Piece{{Text: "hello", User: true}}, "<|im_start|> hello"},
		{[]chat.Piece{{Text: "he"}, {Text: "llo", User: true}}, "<|im_start|> hello"}, // words go on
		{[]chat.Piece{{Text: "a"}, {Text: "<|im_end|>", User: true}, {Text: "a"}}, "<|im_start|> a < | i m _ e n d | > a"},
		{[]chat.Piece{{Text: "<|im_"}, {Text: "end|>", User: true}}, "<|im_start|> < | i m _ e n d | >"},
		{[]chat.Piece{{Text: "<|im_"}, {Text: "end|>"}}, "<|im_start|> <|im_end|>"},
		{nil, "<|im_start|>"},
	} {
		if got := names(tok, tok.EncodeChat(tt.pieces)); got != tt.want {
			t.Errorf("%v is %s, want %s", tt.pieces, got, tt.want)
		}
	}
}

func TestDecoder(t *testing.T) {
	tok := newTokenizer(t, byteLevel())
	d := tok.Decoder()
	var got []string
	o := tokenizer.Options{}
	for _, id := range append(tok.Encode("aé日\xffb🦙", o), tok.Encode("🦙", o)[:3]...) {
		got = append(got, d.Next(id))
	}
	got = append(got, d.Flush(), d.Flush(), d.Next(-1), d.Next(9999), d.Next(264))
	want := []string{"a", "", "é", "", "", "日", "\uFFFD", "b", "", "", "", "🦙", "", "", "", "\uFFFD"}
	want = append(want, "", "", "", "")
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestRoles(t *testing.T) {
	tok := newTokenizer(t, byteLevel())
	if bos, ok := tok.BOS(); bos != 264 || !ok {
		t.Errorf("BOS %d, %v", bos, ok)
	}
	if eos, ok := tok.EOS(); eos != 265 || !ok {
		t.Errorf("EOS %d, %v", eos, ok)
	}
	if id, ok := tok.ID("<|im_end|>"); !ok || !tok.IsEnd(id) || !tok.IsSpecial(id) || tok.Len() != 268 {
		t.Errorf("%d of %d: %v", id, tok.Len(), ok)
	}
	if _, ok := tok.ID("nothing"); ok || tok.IsEnd(264) || tok.IsSpecial(5) || tok.Token(-1) != "" ||
		tok.Piece(264) != "<|im_start|>" || tok.Piece(0xe9) != "\xe9" {
		t.Error("too much is special")
	}
}

// TestGollama encodes and decodes the prompts of a reference by another
// implementation.
func TestGollama(t *testing.T) {
	const folder = "../../examples/gollama/"
	tok := open(t, folder+"gollama-q8_0.gguf")
	var ref struct {
		Prompts []struct {
			Prompt string
			Tokens []int32
		}
	}
	if err := json.Unmarshal([]byte(read(t, folder+"reference.json")), &ref); err != nil {
		t.Fatal(err)
	}
	if len(ref.Prompts) != 5 {
		t.Fatalf("%d prompts", len(ref.Prompts))
	}
	for _, p := range ref.Prompts {
		if got := tok.Encode(p.Prompt, tokenizer.Options{Whole: true}); !slices.Equal(got, p.Tokens) {
			t.Errorf("%q is %v; want %v", p.Prompt, got, p.Tokens)
		}
		if got := tok.Decode(p.Tokens); got != p.Prompt {
			t.Errorf("%v is %q, want %q", p.Tokens, got, p.Prompt)
		}
	}
}

// change returns metadata with other values; nil takes a key away.
func change(k, with keys) keys {
	for key, value := range with {
		if k[key] = value; value == nil {
			delete(k, key)
		}
	}
	return k
}

func TestRefuses(t *testing.T) {
	for _, tt := range []struct {
		k    keys
		want string
	}{
		{keys{}, `no such metadata key: "tokenizer.ggml.model"`},
		{keys{"model": "plamo2"}, `tokenizer.ggml.model is "plamo2", which is not supported: want one of bert, gemma4, gpt2, llama, rwkv, t5`},
		{keys{"model": "gpt2"}, `"tokenizer.ggml.tokens"`},
		{change(byteLevel(), keys{"pre": "gpt2"}), `tokenizer.ggml.pre is "gpt2", which is not supported (nearest: gpt-2`},
		{change(byteLevel(), keys{"merges": nil}), `"tokenizer.ggml.merges"`},
		{change(byteLevel(), keys{"merges": []string{"ab"}}), `merge 0 in tokenizer.ggml.merges is "ab": want two parts`},
		{change(byteLevel(), keys{"merges": []string{""}}), `merge 0 in tokenizer.ggml.merges is "": want two parts`},
		{change(byteLevel(), keys{"merges": []string{"a a", "q z"}}), `merge 1 in tokenizer.ggml.merges is "q z", but "qz" is not a token`},
		{change(byteLevel(), keys{"merges": []string{}, "tokens": []string{"▁a"}, "token_type": nil}), "no token for any byte: it is not byte-level"},
		{change(byteLevel(), keys{"token_type": []int32{1}}), "token_type has 1 elements for 268 tokens"},
		{change(byteLevel(), keys{"tokens": []string{strings.Repeat("x", 1025)}, "token_type": nil}), "token 0 has 1025 bytes: want at most 1024"},
		{change(byteLevel(), keys{"bos_token_id": nil}), "add_bos_token is true, but tokenizer.ggml.bos_token_id is missing"},
		{change(byteLevel(), keys{"add_bos_token": "yes"}), "want a bool"},
		{change(sentences(), keys{"scores": nil}), "tokenizer.ggml.scores is missing"},
		{change(sentences(), keys{"scores": []float32{1}}), "scores has 1 elements"},
		{change(unigrams(), keys{"unknown_token_id": nil}), "unknown_token_id is missing"},
		{change(unigrams(), keys{"precompiled_charsmap": []uint8{1}}), "precompiled_charsmap has 1 bytes"},
		{change(unigrams(), keys{"precompiled_charsmap": []uint8{8, 0, 0, 0, 1}}), "behind a length of 8"},
		{change(pieces(), keys{"unknown_token_id": uint32(99)}), "unknown_token_id is missing"},
	} {
		if _, err := tokenizer.New(file(t, tt.k)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}

// TestTogether: goroutines may share a tokenizer.
func TestTogether(t *testing.T) {
	tok := newTokenizer(t, byteLevel())
	want := tok.Encode("hello hello", tokenizer.Options{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if got := tok.Encode("hello hello", tokenizer.Options{}); !slices.Equal(got, want) {
					t.Errorf("%v, want %v", got, want)
				}
			}
		})
	}
	wg.Wait()
}

// TestLong: long words and texts take no more than time in proportion, or the test
// would not end.
func TestLong(t *testing.T) {
	jais, aya := change(byteLevel(), keys{"pre": "jais-2"}), change(byteLevel(), keys{"pre": "tiny_aya"})
	for _, k := range []keys{byteLevel(), sentences(), unigrams(), pieces(), jais, aya} {
		tok := newTokenizer(t, k)
		for _, unit := range []string{"a", " ", "1", "<", "<|im_end|", "▁", "\n ", "é"} {
			tok.Encode(strings.Repeat(unit, 1<<16), tokenizer.Options{Special: true})
		}
	}
}

// FuzzEncode: no text becomes a special token unless requested, decodable text is restored, and nothing panics.
func FuzzEncode(f *testing.F) {
	var all []*tokenizer.Tokenizer
	for _, k := range []keys{byteLevel(), sentences(), unigrams(), pieces()} {
		all = append(all, newTokenizer(f, k))
	}
	for _, text := range []string{"hello </s><|im_end|>", "[SEP] \xff日本 ", "<unk> <0x0A>    "} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for i, tok := range all {
			ids := tok.Encode(text, tokenizer.Options{})
			for _, id := range ids {
				if unk := i > 1 && (tok.Token(id) == "<unk>" || tok.Token(id) == "[UNK]"); tok.IsSpecial(id) && !unk {
					t.Errorf("%q has the special token %s", text, tok.Token(id))
				}
			}
			if i < 2 && !strings.Contains(text, "▁") && tok.Decode(ids) != text {
				t.Errorf("%q comes back as %q", text, tok.Decode(ids))
			}
			d, all := tok.Decoder(), ""
			for _, id := range tok.Encode(text, tokenizer.Options{Special: true, Whole: true}) {
				all += d.Next(id)
			}
			if all += d.Flush(); !utf8.ValidString(all) {
				t.Errorf("the decoder gave %q", all)
			}
		}
	})
}

// FuzzNew: no file makes New or Encode panic.
func FuzzNew(f *testing.F) {
	for _, k := range []keys{byteLevel(), sentences(), unigrams(), pieces()} {
		var w gguf.Writer
		for key, value := range k {
			if err := w.Set("tokenizer.ggml."+key, value); err != nil {
				f.Fatal(err)
			}
		}
		var b bytes.Buffer
		if _, err := w.WriteTo(&b); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := gguf.NewReader(data)
		if err != nil {
			return
		}
		tok, err := tokenizer.New(file)
		if err != nil {
			return
		}
		for _, o := range []tokenizer.Options{{}, {Special: true, Whole: true}} {
			tok.Decode(tok.Encode("hello, wörld 123  \n<s>", o))
		}
	})
}

// TestInfill: the tokens for fill-in-the-middle come from the metadata, else from the names that families use, and
// without all three of prefix, suffix and middle there are none.
func TestInfill(t *testing.T) {
	qwen := []string{"x", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>"}
	for _, c := range []struct {
		tokens []string
		more   keys
		want   tokenizer.Infill
		ok     bool
	}{
		{qwen, nil, tokenizer.Infill{Prefix: 1, Suffix: 2, Middle: 3, Repository: 4, File: 5}, true},
		{qwen[:4], nil, tokenizer.Infill{Prefix: 1, Suffix: 2, Middle: 3, Repository: -1, File: -1}, true},
		{qwen[:3], nil, tokenizer.Infill{Prefix: -1, Suffix: -1, Middle: -1, Repository: -1, File: -1}, false},
		{[]string{"x", "a", "b", "c"}, keys{"fim_pre_token_id": uint32(3), "suffix_token_id": uint32(2),
			"fim_mid_token_id": uint32(1)}, tokenizer.Infill{Prefix: 3, Suffix: 2, Middle: 1, Repository: -1, File: -1}, true},
		{[]string{"x", "<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"}, nil,
			tokenizer.Infill{Prefix: 1, Suffix: 2, Middle: 3, Repository: -1, File: -1}, true},
	} {
		k := keys{"model": "llama", "tokens": c.tokens, "scores": make([]float32, len(c.tokens))}
		for name, v := range c.more {
			k[name] = v
		}
		got, ok := newTokenizer(t, k).Infill()
		if got != c.want || ok != c.ok || ok && !got.IsMark(got.Middle) || got.IsMark(-1) {
			t.Errorf("%v %v: %+v, %v, want %+v", c.tokens, c.more, got, ok, c.want)
		}
	}
}
