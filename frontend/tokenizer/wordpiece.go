package tokenizer

import (
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// wordPiece is the tokenization of BERT (Devlin et al. 2018). In GGUF files, a token that begins a word has a blank
// before it, and tokens within words do not have BERT's prefix ##.
type wordPiece struct {
	tokens prefixes
	unk    func(out []int32) []int32 // appends the unknown token, if there is one
	fold   bool                      // convert text to lower case
	strip  bool                      // remove accents
	pool   sync.Pool
	ascii  [utf8.RuneSelf]charRole
}

// charRole says what a character becomes, and its role in splitting text into words.
type charRole struct {
	as   rune
	role pieceRole
}

type pieceRole uint8

const (
	inWord  pieceRole = iota
	alone             // the character is a word of its own
	between           // white space, which separates words
	dropped           // the character is ignored
)

// maxPieceWord is the length in characters of the longest word. Longer words are unknown, as in the original
// implementation.
const maxPieceWord = 100

// newWordPiece returns the model WordPiece of the vocabulary, and reads how it normalizes text.
func newWordPiece(v *vocabulary) (model, error) {
	if v.special("unknown") == none {
		return nil, v.errorf("tokenizer.ggml.unknown_token_id is missing: want the token for unknown words")
	}
	t := &wordPiece{tokens: newPrefixes(v.text), unk: v.appendUnknown}
	var err error
	if t.fold, _, err = v.flag("normalizer.lowercase", true); err != nil {
		return nil, err
	}
	t.strip, _, err = v.flag("normalizer.strip_accents", t.fold)
	for r := range t.ascii { // a table for the most frequent characters
		t.ascii[r] = t.classify(rune(r))
	}
	return t, err
}

// classify returns how a character is normalized and where it splits words.
func (t *wordPiece) classify(r rune) charRole {
	switch {
	case unicode.IsSpace(r):
		return charRole{r, between}
	// Mn: accents.
	case r == 0, r == unicode.ReplacementChar, unicode.Is(unicode.C, r), t.strip && unicode.Is(unicode.Mn, r):
		return charRole{r, dropped}
	}
	if t.fold {
		r = unicode.ToLower(r)
	}
	if unicode.IsPunct(r) || r < 0x7f && unicode.IsSymbol(r) || ideograph(r) {
		return charRole{r, alone}
	}
	return charRole{r, inWord}
}

// encode appends the tokens of a text to out. It splits the text into words by the roles of its characters.
func (t *wordPiece) encode(out []int32, text string, _ bool) []int32 {
	if t.strip {
		text = norm.NFD.String(text)
	}
	known, ok := t.pool.Get().(*words)
	if !ok {
		known = &words{}
	}
	defer t.pool.Put(known)
	buffer := [512]byte{} // of a word: maxPieceWord characters and a blank
	word, chars := append(buffer[:0], blank...), 0
	endWord := func() {
		if chars > 0 {
			s, begin := string(word), len(out)
			var cached bool
			out, cached = known.get(out, s)
			if !cached {
				out = t.word(out, s, chars)
				known.put(s, out[begin:])
			}
		}
		word, chars = word[:len(blank)], 0
	}
	for _, r := range text {
		var c charRole
		if r < utf8.RuneSelf {
			c = t.ascii[r]
		} else {
			c = t.classify(r)
		}
		switch c.role {
		case between:
			endWord()
			continue
		case dropped:
			continue
		case alone:
			endWord()
		}
		chars++
		if chars <= maxPieceWord { // a longer word is unknown, so its rest does not matter
			word = utf8.AppendRune(word, c.as)
		}
		if c.role == alone {
			endWord()
		}
	}
	endWord()
	return out
}

// word appends the tokens of a word: repeatedly the longest token that the rest begins with. chars is the number of its
// characters. If no token fits, or the word has too many characters, the whole word becomes the unknown token.
func (t *wordPiece) word(out []int32, word string, chars int) []int32 {
	begin := len(out)
	for word != "" && chars <= maxPieceWord {
		id, n := t.tokens.longest(word)
		if n == 0 {
			break
		}
		out, word = append(out, id), word[n:]
	}
	if word != "" {
		return t.unk(out[:begin])
	}
	return out
}

// ideograph reports whether a character is in one of the blocks that BERT splits into single characters.
func ideograph(r rune) bool {
	return r >= 0x4E00 && r <= 0x9FFF || r >= 0x3400 && r <= 0x4DBF || r >= 0x20000 && r <= 0x2A6DF ||
		r >= 0x2A700 && r <= 0x2CEAF || r >= 0xF900 && r <= 0xFAFF || r >= 0x2F800 && r <= 0x2FA1F
}
