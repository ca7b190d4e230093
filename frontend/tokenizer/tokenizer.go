// Package tokenizer turns text into the tokens of a language model, and tokens into text. The metadata of the model's
// GGUF file describe the mapping.
//
//	f, err := gguf.Open("model.gguf")
//	tok, err := tokenizer.New(f)
//	ids := tok.Encode("Hello, world", tokenizer.Options{})
//	text := tok.Decode(ids)
//
// There are six models of tokenization. tokenizer.ggml.model names one:
//
//   - gpt2: byte-level byte-pair encoding. tokenizer.ggml.pre names the way to split a text into words (Kinds lists
//     them). The bytes of a word are merged, pair by pair, in the order of tokenizer.ggml.merges.
//   - llama: SentencePiece's byte-pair encoding. Characters are merged, always the pair with the best-scored token.
//     Characters without a token become byte tokens.
//   - t5: SentencePiece's unigram model. Of all ways to split a text into tokens, it takes the one with the largest sum
//     of scores.
//   - bert: WordPiece. Words are lower-cased, stripped of accents, and split greedily into the longest tokens.
//   - gemma4: byte-pair encoding of the characters of a line, in the order of tokenizer.ggml.merges. Characters without
//     a token become byte tokens.
//   - rwkv: text is split greedily into the longest tokens, which are bytes.
//
// # Text is not markup
//
// A vocabulary has special tokens in addition to text tokens, such as <|im_end|>. A user's text never becomes one of
// them: Encode treats their names as plain text unless Options.Special is set. A rendered chat template mixes markup
// and users' text, so it comes in pieces that are marked as one or the other: see EncodeChat.
//
// A vocabulary may lack a token for some text. That text never becomes a special token either. It becomes the unknown
// token, if the vocabulary has one without another role. Otherwise it is dropped, and so is a byte that a byte-level
// vocabulary lacks.
//
// # Bounds
//
// Texts and files may be hostile. Encoding n bytes takes O(n log n) time and O(n) memory. Several goroutines may use a
// Tokenizer.
package tokenizer

import (
	"slices"
	"strings"

	"github.com/vkc-go/vkc/frontend/gguf"
)

// Tokenizer encodes and decodes text for one model.
type Tokenizer struct {
	model   model
	types   []tokenType
	names   []string // of the tokens, as spelled in the file
	pieces  []string // the bytes of each token
	ids     map[string]int32
	markup  prefixes             // special and added tokens
	words   prefixes             // added tokens without punctuation, such as runs of spaces: they are not markup
	added   map[int32]addedToken // how the tokens of a tokenizer.json are found; empty otherwise
	ends    map[int32]bool
	bos     int32      // none if there is no such token
	eos     int32      // none if there is no such token
	before  []int32    // tokens to add before a text
	after   []int32    // tokens to add after a text
	pair    [3][]int32 // tokens to add before, between and after two texts
	leading bool       // the first space of a decoded text was added by the encoder
	infill  Infill
	chain   decoder // of a tokenizer.json; nil if pieces are the text
}

// none is the id of a missing token.
const none = -1

// model is a model of tokenization. It encodes text that contains no names of special tokens.
type model interface {
	// encode appends the tokens of a part of a text that begins the text or follows a special token. begins says that
	// it begins the text.
	encode(out []int32, text string, begins bool) []int32
}

// New reads the tokenizer of a model file.
func New(f *gguf.File) (*Tokenizer, error) {
	v, err := readVocabulary(f)
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{types: v.types, names: v.tokens, ids: map[string]int32{}}
	if v.json == "" {
		if t.model, err = v.model(); err != nil {
			return nil, err
		}
		t.pieces, t.leading = v.pieces(), v.leadingSpace
	}
	for id, name := range v.tokens {
		if _, twice := t.ids[name]; !twice {
			t.ids[name] = int32(id)
		}
	}
	if err := t.readSpecial(v); err != nil {
		return nil, err
	}
	if v.json != "" {
		return t, t.readJSON(v)
	}
	return t, nil
}

// Options changes the encoding of a text. The zero value is for users' text.
type Options struct {
	// Special makes names of special and added tokens, such as <|im_end|>, become these tokens. It is for a program's
	// own text: never set it for users' text. Added tokens without punctuation or symbols, such as runs of spaces, are
	// always found.
	Special bool
	// Whole adds the tokens before and after a text that the vocabulary asks for, such as BOS.
	Whole bool
}

// Encode returns the tokens of a text. Invalid UTF-8 bytes keep their values if the vocabulary has byte tokens. For
// text without tokens see the package comment.
func (t *Tokenizer) Encode(text string, o Options) []int32 {
	var out []int32
	if o.Whole {
		out = append(out, t.before...)
	}
	out = t.encode(out, text, []part{{len(text), o.Special}}, true)
	if o.Whole {
		out = append(out, t.after...)
	}
	return out
}

// EncodePair returns the tokens of two texts that a model reads together, such as a query and a document, with the
// tokens before, between and after them.
func (t *Tokenizer) EncodePair(first, second string) []int32 {
	out := slices.Clone(t.pair[0])
	out = append(t.encode(out, first, []part{{len(first), false}}, true), t.pair[1]...)
	return append(t.encode(out, second, []part{{len(second), false}}, true), t.pair[2]...)
}

// setPair sets the special tokens for pairs of texts: before, between and after them. Between the texts BERT has one
// separator, and RoBERTa has two.
func (t *Tokenizer) setPair() {
	between := t.after
	if len(t.before) > 0 && t.names[t.before[0]] != "[CLS]" {
		between = slices.Concat(t.after, t.after)
	}
	t.pair = [3][]int32{t.before, between, t.after}
}

// Len returns the number of tokens in the vocabulary.
func (t *Tokenizer) Len() int { return len(t.names) }

// Token returns a token's name in the file, such as <|im_end|> or Ġthe.
func (t *Tokenizer) Token(id int32) string {
	if !t.has(id) {
		return ""
	}
	return t.names[id]
}

// Piece returns the bytes of a token, which may be a part of a character. For a special token it returns the name.
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

// BOS returns the token at the beginning of a text, if the vocabulary has one.
func (t *Tokenizer) BOS() (id int32, ok bool) { return t.bos, t.bos != none }

// EOS returns the token at the end of a text, if the vocabulary has one.
func (t *Tokenizer) EOS() (id int32, ok bool) { return t.eos, t.eos != none }

// IsSpecial reports whether a token is special: it has no text.
func (t *Tokenizer) IsSpecial(id int32) bool { return t.has(id) && t.types[id].special() }

// IsEnd reports whether a model generates the token to end its text or answer.
func (t *Tokenizer) IsEnd(id int32) bool { return t.ends[id] }

func (t *Tokenizer) has(id int32) bool { return id >= 0 && int(id) < len(t.names) }

// Decode returns the text of tokens. Special tokens have no text.
func (t *Tokenizer) Decode(ids []int32) string {
	if t.chain != nil {
		return t.decodeChain(ids)
	}
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
