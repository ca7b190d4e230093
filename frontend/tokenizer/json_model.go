package tokenizer

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/vkc-go/vkc/internal/bailout"
)

// jsonModel is the "model" of a tokenizer.json.
type jsonModel struct {
	kind   string
	ids    map[string]int32
	text   map[string]int32   // of the tokens that text may become: all but special ones
	scores map[string]float64 // of Unigram
	unk    int32              // the unknown token, or none
	merges [][2]string        // of BPE
	modelSettings
}

// modelSettings are the settings of all kinds of models.
type modelSettings struct {
	Unk          *string `json:"unk_token"`
	UnkID        *int32  `json:"unk_id"`
	Prefix       *string `json:"continuing_subword_prefix"`
	Suffix       *string `json:"end_of_word_suffix"`
	FuseUnk      bool    `json:"fuse_unk"`
	ByteFallback bool    `json:"byte_fallback"`
	IgnoreMerges bool    `json:"ignore_merges"`
	Dropout      float64 `json:"dropout"`
	MaxChars     *int    `json:"max_input_chars_per_word"`
}

// readModel reads the field model of a tokenizer.json. added are its added tokens.
func readModel(raw json.RawMessage, added []addedToken) *jsonModel {
	c := decodeJSON[struct {
		Type   string
		Vocab  json.RawMessage
		Merges json.RawMessage
	}]("model", raw)
	m := &jsonModel{kind: c.Type, ids: map[string]int32{}, unk: none,
		modelSettings: decodeJSON[modelSettings]("model", raw)}
	if m.kind == "" { // old files have no type
		switch {
		case len(c.Merges) > 0:
			m.kind = "BPE"
		case len(c.Vocab) > 0 && c.Vocab[0] == '[':
			m.kind = "Unigram"
		case m.Prefix != nil:
			m.kind = "WordPiece"
		default:
			m.kind = "WordLevel"
		}
	}
	bailout.Unless(m.Dropout == 0, "the model has a dropout of %v, which makes tokens random: want 0", m.Dropout)
	if m.kind == "Unigram" {
		m.readScores(c.Vocab)
	} else {
		m.ids = decodeJSON[map[string]int32]("vocab", c.Vocab)
	}
	for name, id := range m.ids {
		bailout.Unless(id >= 0 && id < maxTokens, "token %q has the id %d: want 0 to %d", name, id, maxTokens-1)
		bailout.Unless(len(name) <= maxToken, "token %d has %d bytes: want at most %d", id, len(name), maxToken)
	}
	if m.Unk != nil {
		if id, ok := m.ids[*m.Unk]; ok {
			m.unk = id
		}
	}
	if len(c.Merges) > 0 {
		m.readMerges(c.Merges)
	}
	// Text never becomes a special token.
	m.text = maps.Clone(m.ids)
	for _, t := range added {
		if t.Special && m.ids[t.Content] == t.ID {
			delete(m.text, t.Content)
		}
	}
	return m
}

// readScores reads the vocabulary of a unigram model: pairs of a token and its score.
func (m *jsonModel) readScores(raw json.RawMessage) {
	m.scores = map[string]float64{}
	for id, pair := range decodeJSON[[][2]json.RawMessage]("vocab", raw) {
		name, score := decodeJSON[string]("vocab", pair[0]), decodeJSON[float64]("vocab", pair[1])
		if _, twice := m.ids[name]; !twice {
			m.ids[name], m.scores[name] = int32(id), score
		}
		if m.UnkID != nil && int(*m.UnkID) == id {
			m.unk = int32(id)
		}
	}
}

// readMerges reads merges. Each is a text of two parts with a space between, or in newer files a pair.
func (m *jsonModel) readMerges(raw json.RawMessage) {
	var texts []string
	if json.Unmarshal(raw, &texts) == nil {
		for i, text := range texts {
			left, right, ok := strings.Cut(text, " ")
			bailout.Unless(ok, "merge %d is %q: want two parts, a space between", i, text)
			m.merges = append(m.merges, [2]string{left, right})
		}
		return
	}
	for i, pair := range decodeJSON[[][]string]("merges", raw) {
		bailout.Unless(len(pair) == 2, "merge %d has %d parts: want two", i, len(pair))
		m.merges = append(m.merges, [2]string(pair))
	}
}

// appendUnknown appends the unknown token, if there is one.
func (m *jsonModel) appendUnknown(out []int32) []int32 {
	if m.unk == none {
		return out
	}
	return append(out, m.unk)
}

// model returns the model that encodes words.
func (m *jsonModel) model() wordModel {
	switch m.kind {
	case "BPE":
		return m.bpe()
	case "WordPiece":
		return m.wordPiece()
	case "WordLevel":
		return wordLevel{m}
	case "Unigram":
		return m.unigram()
	}
	unsupported("model", m.kind)
	return nil
}

// wordLevel is the model in which each word is a token.
type wordLevel struct{ *jsonModel }

// word appends the token of a word, or the unknown token.
func (m wordLevel) word(out []int32, word string) []int32 {
	if id, ok := m.text[word]; ok {
		return append(out, id)
	}
	return m.appendUnknown(out)
}

// text returns a setting, or "" for none.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// fallback returns the tokens of bytes, such as <0x0A>, with none for a byte that has no token. It returns nil if the
// model does not spell unknown characters by bytes.
func (m *jsonModel) fallback() *[256]int32 {
	if !m.ByteFallback {
		return nil
	}
	var list [256]int32
	for b := range list {
		id, ok := m.ids[fmt.Sprintf("<0x%02X>", b)]
		if !ok {
			id = none
		}
		list[b] = id
	}
	return &list
}

// spelled appends the tokens of the bytes of a character to out, and returns true. If a byte has no token, or if bytes
// is nil, it returns out unchanged, and false.
func spelled(bytes *[256]int32, out []int32, char string) (tokens []int32, ok bool) {
	if bytes == nil {
		return out, false
	}
	begin := len(out)
	for i := range len(char) {
		if bytes[char[i]] == none {
			return out[:begin], false
		}
		out = append(out, bytes[char[i]])
	}
	return out, true
}

// jsonBPE is byte-pair encoding of characters (Sennrich et al. 2016).
type jsonBPE struct {
	merger merger
	whole  map[string]int32 // the tokens, for words that are one; nil if words are always merged
}

// word implements wordModel.
func (t *jsonBPE) word(out []int32, word string) []int32 {
	if id, ok := t.whole[word]; ok {
		return append(out, id)
	}
	m := t.merger.get()
	defer t.merger.put(m)
	return t.merger.word(out, word, m)
}

// bpe returns the model of byte-pair encoding.
func (m *jsonModel) bpe() wordModel {
	prefix := text(m.Prefix)
	pairs := newPairs(len(m.merges))
	for i, merge := range m.merges {
		// The prefix of a word's later parts disappears when the parts are joined.
		joined := merge[0] + strings.TrimPrefix(merge[1], prefix)
		var ids [3]int32
		for j, name := range []string{merge[0], merge[1], joined} {
			id, ok := m.ids[name]
			bailout.Unless(ok, "merge %d is %q, but %q is not a token", i, merge, name)
			ids[j] = id
		}
		// Text never becomes a special token.
		if _, ok := m.text[joined]; !ok {
			continue
		}
		pairs.add(ids[0], ids[1], int32(i), ids[2])
	}
	bytes := m.fallback()
	t := &jsonBPE{}
	if m.IgnoreMerges {
		t.whole = m.text
	}
	t.merger.index = func(g *merging, word string) { m.index(g, word, bytes) }
	t.merger.spell = func(out []int32, _ string) []int32 { return m.appendUnknown(out) }
	t.merger.join = func(_ string, left, right *symbol) (rank, id int32) {
		if left.id == none || right.id == none {
			return 0, none
		}
		return pairs.find(left.id, right.id)
	}
	return t
}

// index splits a word into its characters, the first symbols of byte-pair encoding. bytes has the tokens of bytes for
// characters that are no tokens; nil if such characters are unknown.
func (m *jsonModel) index(g *merging, word string, bytes *[256]int32) {
	prefix, suffix := text(m.Prefix), text(m.Suffix)
	unknown := false // whether the last symbol is the unknown token
	for i, n := 0, 0; i < len(word); i += n {
		_, n = utf8.DecodeRuneInString(word[i:])
		name := word[i : i+n]
		if i > 0 {
			name = prefix + name
		}
		if i+n == len(word) {
			name += suffix
		}
		if id, ok := m.text[name]; ok {
			g.symbols = append(g.symbols, symbol{start: int32(i), end: int32(i + n), id: id})
			unknown = false
			continue
		}
		if spell, ok := spelled(bytes, nil, name); ok {
			for j, id := range spell[:min(len(spell), n)] { // without the bytes of prefix and suffix
				g.symbols = append(g.symbols, symbol{start: int32(i + j), end: int32(i + j + 1), id: id})
			}
			unknown = false
			continue
		}
		if unknown && m.FuseUnk { // the symbol before grows
			g.symbols[len(g.symbols)-1].end = int32(i + n)
			continue
		}
		g.symbols = append(g.symbols, symbol{start: int32(i), end: int32(i + n), id: none})
		unknown = true
	}
}

// jsonWordPiece is the greedy model of BERT (Devlin et al. 2018).
type jsonWordPiece struct {
	*jsonModel
	first, later prefixes // the tokens that begin a word, and the others without their prefix
	most         int      // characters of a word
}

// wordPiece returns the model WordPiece.
func (m *jsonModel) wordPiece() wordModel {
	prefix, most := "##", maxPieceWord
	if m.Prefix != nil {
		prefix = *m.Prefix
	}
	if m.MaxChars != nil {
		most = *m.MaxChars
	}
	later := map[string]int32{}
	for name, id := range m.text {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			later[rest] = id
		}
	}
	return &jsonWordPiece{m, newPrefixes(m.text), newPrefixes(later), most}
}

// word implements wordModel: it takes the longest token again and again. A word that tokens do not cover, or with more
// than t.most characters, is unknown.
func (t *jsonWordPiece) word(out []int32, word string) []int32 {
	begin, tokens := len(out), &t.first
	if utf8.RuneCountInString(word) > t.most {
		return t.appendUnknown(out)
	}
	for word != "" {
		id, n := tokens.longest(word)
		if n == 0 {
			return t.appendUnknown(out[:begin])
		}
		out, word, tokens = append(out, id), word[n:], &t.later // further tokens have the prefix
	}
	return out
}

// unigram returns the unigram model (Kudo 2018).
func (m *jsonModel) unigram() wordModel {
	t := &unigram{unk: m.appendUnknown, unknown: math.Inf(1), wide: true}
	t.tokens, t.bytes = newPrefixes(m.text), m.fallback()
	last := int32(-1)
	for _, id := range m.ids {
		last = max(last, id)
	}
	t.scores = make([]float64, last+1)
	for name, score := range m.scores {
		t.scores[m.ids[name]] = score
		t.unknown = min(t.unknown, score)
	}
	if math.IsInf(t.unknown, 1) {
		t.unknown = 0
	}
	t.unknown -= unknownPenalty
	// Bytes are used only if all of them have tokens.
	if t.bytes != nil {
		for _, id := range t.bytes {
			if id == none {
				t.bytes = nil
				break
			}
		}
	}
	return t
}
