package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/internal/bailout"
)

// jsonKey is the metadata key with the contents of a tokenizer.json, which says how text becomes tokens. The keys that
// GGML's programs read then only give the types and the roles of tokens.
const jsonKey = "tokenizer.huggingface.json"

// document is a tokenizer.json. Truncation and padding are ignored: they are the business of a batch.
type document struct {
	Added         []addedToken    `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	Model         json.RawMessage `json:"model"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage `json:"decoder"`
}

// addedToken is a token that is found in a text before the model sees the text.
type addedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // no word character is before or after it
	Left       bool   `json:"lstrip"`      // white space before it belongs to it
	Right      bool   `json:"rstrip"`      // white space after it belongs to it
	Normalized bool   `json:"normalized"`  // it is found in the normalized text
	Special    bool   `json:"special"`
}

// pipeline is the tokenization that a tokenizer.json describes. It implements model.
type pipeline struct {
	normalize normalizer // nil for none
	split     splitter   // nil for none
	words     wordModel
	inner     prefixes // added tokens of the normalized text
	added     map[int32]addedToken
	decode    decoder
}

// wordModel appends the tokens of a word.
type wordModel interface {
	word(out []int32, word string) []int32
}

// typed is the "type" that each part of a tokenizer.json has.
type typed struct {
	Type string `json:"type"`
}

// isNull reports whether a part of a document is missing or null.
func isNull(raw json.RawMessage) bool { return len(raw) == 0 || bytes.Equal(raw, []byte("null")) }

// decodeJSON parses a part of a document, or ends the work.
func decodeJSON[T any](what string, raw json.RawMessage) (v T) {
	if err := json.Unmarshal(raw, &v); err != nil {
		bailout.Check(fmt.Errorf("%s: %w", what, err))
	}
	return v
}

// unsupported ends the work at a part of an unknown type.
func unsupported(what, name string) {
	bailout.Unless(false, "the %s %q is not supported", what, name)
}

// maxParts bounds the nesting of parts that contain parts.
const maxParts = 16

// checkNesting ends the work if a part is nested too deep. depth is the number of parts around it, and what names the
// part in errors.
func checkNesting(what string, depth int) {
	bailout.Unless(depth < maxParts, "a %s is nested deeper than %d", what, maxParts)
}

// readDocument parses a tokenizer.json.
func readDocument(data []byte) (*document, error) {
	var d document
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	if isNull(d.Model) {
		return nil, errors.New(`tokenizer.json: there is no "model"`)
	}
	return &d, nil
}

// pipeline returns the tokenization of a document, and its model.
func (d *document) pipeline() (p *pipeline, v *jsonModel, err error) {
	defer bailout.Caught(&err)
	v = readModel(d.Model, d.Added)
	p = &pipeline{added: map[int32]addedToken{}}
	if !isNull(d.Normalizer) {
		p.normalize = readNormalizer(d.Normalizer, 0)
	}
	if !isNull(d.PreTokenizer) {
		p.split = readSplitter(d.PreTokenizer, 0)
	}
	if !isNull(d.Decoder) {
		p.decode = readDecoder(d.Decoder, 0)
	}
	p.words = v.model()
	inner := map[string]int32{}
	for _, t := range d.Added {
		bailout.Unless(t.ID >= 0 && t.ID < maxTokens, "added token %q has the id %d: want 0 to %d", t.Content, t.ID,
			maxTokens-1)
		p.added[t.ID] = t
		if t.inner() { // it is found in the normalized text
			inner[p.normalized(t.Content)] = t.ID
		}
	}
	p.inner = newPrefixes(inner)
	return p, v, nil
}

// maxTokens bounds the number of tokens of a vocabulary.
const maxTokens = 1 << 24

// normalized returns the normalized form of a text.
func (p *pipeline) normalized(text string) string {
	if p.normalize == nil {
		return text
	}
	return p.normalize(text)
}

// encode normalizes the text, and finds added tokens in it. It appends the added tokens, and the tokens of the text
// between them, to out. begins says that the text is the beginning of a whole one.
func (p *pipeline) encode(out []int32, text string, begins bool) []int32 {
	text = p.normalized(text)
	from := 0
	for i := 0; i < len(text); {
		i += p.inner.find(text[i:])
		if i >= len(text) {
			break
		}
		id, n := p.inner.longest(text[i:])
		if n == 0 || !p.added[id].alone(text, i, i+n) {
			i++
			continue
		}
		// A token may take the white space around it.
		start, end := p.added[id].extent(text, from, i, i+n)
		out = p.encodeWords(out, text[from:start], begins && from == 0)
		out = append(out, id)
		i, from = end, end
	}
	return p.encodeWords(out, text[from:], begins && from == 0)
}

// encodeWords appends the tokens of a normalized text without added tokens. begins says that nothing comes before the
// text.
func (p *pipeline) encodeWords(out []int32, text string, begins bool) []int32 {
	if text == "" {
		return out
	}
	if p.split == nil {
		return p.words.word(out, text)
	}
	for _, w := range p.split(nil, piece{text, begins}) {
		if w.text != "" {
			out = p.words.word(out, w.text)
		}
	}
	return out
}

// inner reports whether a token is found in the normalized text. All other tokens are found in the text before it is
// normalized. Some of them may be markup: special tokens and tokens with punctuation. Users' text must not become
// markup, so tokens that may be markup are found only if Options.Special allows it (see readAdded).
func (t addedToken) inner() bool {
	return t.Normalized && !t.Special && t.Content != "" && !strings.ContainsFunc(t.Content, isSign)
}

// alone reports whether a token that must be a word of its own is one, at text[start:end].
func (t addedToken) alone(text string, start, end int) bool {
	if !t.SingleWord {
		return true
	}
	before, after := wordAround(text, start, end)
	return !before && !after
}

// extent returns the part of text that the token at text[start:end] replaces. Left adds the white space before the
// token to that part, and Right the white space after it. The part does not begin before from, where the token before
// ends.
func (t addedToken) extent(text string, from, start, end int) (low, high int) {
	if t.Left {
		start = from + len(strings.TrimRightFunc(text[from:start], isSpace))
	}
	if t.Right {
		end = len(text) - len(strings.TrimLeftFunc(text[end:], isSpace))
	}
	return start, end
}

// readJSON completes a Tokenizer by the tokenizer.json in its file.
func (t *Tokenizer) readJSON(v *vocabulary) error {
	d, err := readDocument([]byte(v.json))
	if err != nil {
		return fmt.Errorf("tokenizer: %w", err)
	}
	p, m, err := d.pipeline()
	if err == nil {
		err = p.check(v, m)
	}
	if err != nil {
		return fmt.Errorf("tokenizer: tokenizer.json: %w", err)
	}
	t.model = p
	t.before, t.after, err = frameOf(d.PostProcessor)
	if err != nil {
		return fmt.Errorf("tokenizer: tokenizer.json: %w", err)
	}
	if t.pair, err = pairOf(d.PostProcessor); err != nil {
		return fmt.Errorf("tokenizer: tokenizer.json: %w", err)
	}
	if p.decode == nil {
		p.decode = joinedBySpaces
	}
	t.names, t.ids = slices.Clone(v.tokens), map[string]int32{}
	for name, id := range m.ids { // GGML's keys may spell them in another way
		t.names[id], t.ids[name] = name, id
	}
	for id, a := range p.added {
		t.names[id], t.ids[a.Content] = a.Content, id
	}
	if t.pair[0] == nil && t.pair[2] == nil {
		t.setPair() // the post-processor says nothing about two texts
	}
	t.added, t.pieces, t.chain = p.added, p.pieces(t.names, v.types), p.decode
	t.readAdded(p)
	return nil
}

// check returns an error if an id of the document is not in the file's list of tokens.
func (p *pipeline) check(v *vocabulary, m *jsonModel) error {
	last := int32(none)
	for _, id := range m.ids {
		last = max(last, id)
	}
	for id := range p.added {
		last = max(last, id)
	}
	if int(last) >= len(v.tokens) {
		return fmt.Errorf("a token has the id %d, and tokenizer.ggml.tokens has %d tokens: want them all", last,
			len(v.tokens))
	}
	return nil
}

// inText stands before a token to keep decoders from treating the token as the first of a text.
const inText = "\x00"

// pieces returns the bytes of each token within a text. Some decoders treat the first token of a text differently, so
// each is decoded after a token of text.
func (p *pipeline) pieces(names []string, types []tokenType) []string {
	list := make([]string, len(names))
	for id, name := range names {
		if _, added := p.added[int32(id)]; added || types[id].special() {
			list[id] = name
			continue
		}
		text := strings.Join(p.decode([]string{inText, name}), "")
		list[id] = strings.TrimPrefix(text, inText)
	}
	return list
}

// decodeChain returns the text of tokens by the decoder of a tokenizer.json. Added tokens are text as they are.
func (t *Tokenizer) decodeChain(ids []int32) string {
	names := make([]string, 0, len(ids))
	for _, id := range ids {
		if t.has(id) && !t.types[id].special() {
			names = append(names, t.names[id])
		}
	}
	return strings.Join(t.chain(names), "")
}

// jsonOf returns the tokenizer.json in a file, or "".
func jsonOf(f *gguf.File) (string, error) {
	text, err := f.String(jsonKey)
	if errors.Is(err, gguf.ErrNoKey) {
		return "", nil
	}
	return text, err
}

// frameOf returns the tokens that a post-processor adds before and after one text.
func frameOf(raw json.RawMessage) (before, after []int32, err error) {
	defer bailout.Caught(&err)
	if !isNull(raw) {
		before, after = readFrame(raw, 0)
	}
	return before, after, nil
}

// readFrame reads a post-processor, and returns the tokens that it adds before and after a text. depth is the number of
// sequences around it.
func readFrame(raw json.RawMessage, depth int) (before, after []int32) {
	checkNesting("post-processor", depth)
	switch kind := decodeJSON[typed]("post_processor", raw).Type; kind {
	case "ByteLevel":
	case "BertProcessing", "RobertaProcessing":
		// Each is a pair of a name and an id.
		c := decodeJSON[struct{ Sep, Cls [2]json.RawMessage }](kind, raw)
		return []int32{decodeJSON[int32](kind, c.Cls[1])}, []int32{decodeJSON[int32](kind, c.Sep[1])}
	case "Sequence":
		for _, part := range decodeJSON[struct{ Processors []json.RawMessage }](kind, raw).Processors {
			first, last := readFrame(part, depth+1)
			// A later part adds its tokens around the tokens of earlier parts.
			before, after = slices.Concat(first, before), append(after, last...)
		}
	case "TemplateProcessing":
		return readTemplate(raw)
	default:
		unsupported("post-processor", kind)
	}
	return before, after
}

// pairOf returns the tokens that a post-processor adds before, between and after two texts, or nothing if it does not
// say or the second text comes first.
func pairOf(raw json.RawMessage) (pair [3][]int32, err error) {
	defer bailout.Caught(&err)
	if !isNull(raw) {
		pair = readPair(raw)
	}
	return pair, nil
}

// readPair returns the tokens before, between and after two texts, or nothing, as pairOf does. It panics with a bailout
// if the post-processor is invalid; readFrame has checked its type.
func readPair(raw json.RawMessage) (pair [3][]int32) {
	switch kind := decodeJSON[typed]("post_processor", raw).Type; kind {
	case "BertProcessing", "RobertaProcessing":
		before, after := readFrame(raw, 0)
		pair = [3][]int32{before, after, after} // [CLS] A [SEP] B [SEP]
		if kind == "RobertaProcessing" {
			pair[1] = slices.Concat(after, after) // <s> A </s></s> B </s>
		}
	case "Sequence":
		for _, part := range decodeJSON[struct{ Processors []json.RawMessage }](kind, raw).Processors {
			if p := readPair(part); p[0] != nil || p[2] != nil {
				pair = p
			}
		}
	case "TemplateProcessing":
		c := decodeJSON[template](kind, raw)
		texts := 0 // the number of texts so far, A and then B
		for _, part := range c.Pair {
			if s, ok := part["SpecialToken"]; ok {
				pair[texts] = append(pair[texts], c.ids(s.ID)...)
				continue
			}
			if texts == 2 || part["Sequence"].ID != string("AB"[texts]) {
				return [3][]int32{} // other orders of the texts are not supported
			}
			texts++
		}
	}
	return pair
}

// template is a post-processor that lists the tokens around one text, and around two.
type template struct {
	Single, Pair []map[string]struct {
		ID string `json:"id"`
	}
	Tokens map[string]struct {
		IDs []int32 `json:"ids"`
	} `json:"special_tokens"`
}

func (c template) ids(name string) []int32 {
	t, ok := c.Tokens[name]
	bailout.Unless(ok, "a template has the token %q, which is not in its special_tokens", name)
	return t.IDs
}

// readTemplate reads the template of a post-processor, and returns the special tokens that it lists before and after
// the text.
func readTemplate(raw json.RawMessage) (before, after []int32) {
	c := decodeJSON[template]("TemplateProcessing", raw)
	seenText := false
	for _, part := range c.Single {
		s, isToken := part["SpecialToken"]
		switch {
		case !isToken:
			bailout.Unless(!seenText, "a template for one text has more than one sequence")
			seenText = true
		case seenText:
			after = append(after, c.ids(s.ID)...)
		default:
			before = append(before, c.ids(s.ID)...)
		}
	}
	return before, after
}

// readAdded fills t.markup and t.words from the added tokens of a tokenizer.json.
func (t *Tokenizer) readAdded(p *pipeline) {
	markup, words := map[string]int32{}, map[string]int32{}
	for id, a := range p.added {
		if a.Content == "" || a.inner() { // the pipeline finds these itself
			continue
		}
		markup[a.Content] = id
		if !a.Special && !strings.ContainsFunc(a.Content, isSign) {
			words[a.Content] = id
		}
	}
	t.markup, t.words = newPrefixes(markup), newPrefixes(words)
}

// wordAround reports whether word characters are before and after text[start:end].
func wordAround(text string, start, end int) (before, after bool) {
	if r, n := utf8.DecodeLastRuneInString(text[:start]); n > 0 {
		before = isWord(r)
	}
	if r, n := utf8.DecodeRuneInString(text[end:]); n > 0 {
		after = isWord(r)
	}
	return before, after
}
