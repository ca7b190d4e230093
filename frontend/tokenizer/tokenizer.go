// Package tokenizer turns text into the tokens of a language model and tokens
// into text, as the metadata of the model's GGUF file describes it.
//
//	f, err := gguf.Open("model.gguf")
//	tok, err := tokenizer.New(f)
//	ids := tok.Encode("Hello, world", tokenizer.Options{})
//	text := tok.Decode(ids)
//
// There are four models of text, by the name in tokenizer.ggml.model:
//
//   - gpt2: byte-level byte-pair encoding. A text is cut into words, in a way that
//     tokenizer.ggml.pre names (Kinds lists them), and the bytes of a word are
//     merged, pair by pair, in the order of tokenizer.ggml.merges.
//   - llama: SentencePiece's byte-pair encoding. Characters are merged, always the
//     pair that gives the token with the best score; characters without a token
//     become tokens of their bytes.
//   - t5: SentencePiece's unigram model. Of all ways to cut a text the one with the
//     largest sum of scores is taken.
//   - bert: WordPiece. Words in lower case, without accents, begin with the longest
//     token there is, and so on.
//
// # Text is no markup
//
// A vocabulary has special tokens beside those of text, such as <|im_end|>. What a
// user wrote never becomes one of them: Encode takes their names as plain text
// unless Options.Special is set. Text of a chat template, where markup and users'
// words alternate, comes as pieces that say which is which: see EncodeChat.
//
// Text that a vocabulary has no token for becomes no special token either. It becomes
// the token for what is unknown, if the vocabulary has one that is nothing else. If
// not, and for a byte that a byte-level vocabulary lacks, it is left out.
//
// # Bounds
//
// Texts and files may be hostile. Encoding takes time in proportion to n log n for
// a text of n bytes, and memory in proportion to n. A Tokenizer may be used by
// several goroutines.
package tokenizer

import (
	"strings"

	"github.com/vkc-go/vkc/frontend/gguf"
)

// Tokenizer encodes and decodes text for one model.
type Tokenizer struct {
	model   model
	types   []tokenType
	names   []string // of the tokens, as the file has them
	pieces  []string // the bytes that each token stands for
	ids     map[string]int32
	markup  prefixes // special and added tokens
	words   prefixes // of these the added ones without a sign, such as runs of spaces: they are no markup
	ends    map[int32]bool
	bos     int32 // none if there is no such token, as is eos
	eos     int32
	before  []int32
	after   []int32
	leading bool // the first space of a text is not the text's own
}

// none is the id of a token that is not there.
const none = -1

// model encodes text that names no special token.
type model interface {
	// encode appends the tokens of a text, which begins a text or follows a
	// special token where first is set.
	encode(out []int32, text string, first bool) []int32
}

// New reads the tokenizer of a model file.
func New(f *gguf.File) (*Tokenizer, error) {
	v, err := readVocabulary(f)
	if err != nil {
		return nil, err
	}
	m, err := v.model()
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{model: m, types: v.types, names: v.tokens, pieces: v.pieces(), ids: map[string]int32{}}
	t.leading = v.leadingSpace
	for id, name := range v.tokens {
		if _, twice := t.ids[name]; !twice {
			t.ids[name] = int32(id)
		}
	}
	if err := t.readSpecial(v); err != nil {
		return nil, err
	}
	return t, nil
}

// Options changes how a text is encoded. Its zero value is for what a user wrote.
type Options struct {
	// Special lets the text name special and added tokens, such as <|im_end|>. It
	// is for a program's own text: never set it for a user's. Added tokens without
	// punctuation or symbols, such as runs of spaces, are found either way.
	Special bool
	// Whole puts the tokens around the text that the vocabulary asks for: the one
	// that begins a text, for instance.
	Whole bool
}

// Encode returns the tokens of a text. Bytes that are not UTF-8 keep their value
// where the vocabulary has tokens for single bytes. The package comment says what
// becomes of text without a token.
func (t *Tokenizer) Encode(text string, o Options) []int32 {
	var out []int32
	if o.Whole {
		out = append(out, t.before...)
	}
	out = t.encode(out, text, []part{{len(text), o.Special}})
	if o.Whole {
		out = append(out, t.after...)
	}
	return out
}

// Len is the number of tokens.
func (t *Tokenizer) Len() int { return len(t.names) }

// Token returns a token's name as the file has it, such as <|im_end|> or Ġthe.
func (t *Tokenizer) Token(id int32) string {
	if !t.has(id) {
		return ""
	}
	return t.names[id]
}

// Piece returns the text of a token, which may be a part of a character, and the
// name of a special one.
func (t *Tokenizer) Piece(id int32) string {
	if !t.has(id) {
		return ""
	}
	return t.pieces[id]
}

// ID returns the token of that name.
func (t *Tokenizer) ID(name string) (id int32, ok bool) {
	id, ok = t.ids[name]
	return id, ok
}

// BOS returns the token that begins a text, if there is one.
func (t *Tokenizer) BOS() (id int32, ok bool) { return t.bos, t.bos != none }

// EOS returns the token that ends a text, if there is one.
func (t *Tokenizer) EOS() (id int32, ok bool) { return t.eos, t.eos != none }

// IsSpecial reports whether a token is markup that stands for no text.
func (t *Tokenizer) IsSpecial(id int32) bool { return t.has(id) && t.types[id].special() }

// IsEnd reports whether a token ends a text or an answer.
func (t *Tokenizer) IsEnd(id int32) bool { return t.ends[id] }

func (t *Tokenizer) has(id int32) bool { return id >= 0 && int(id) < len(t.names) }

// Decode returns the text of tokens. Special tokens stand for no text.
func (t *Tokenizer) Decode(ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		if t.has(id) && !t.types[id].special() {
			b.WriteString(t.pieces[id])
		}
	}
	if t.leading {
		return strings.TrimPrefix(b.String(), " ")
	}
	return b.String()
}
