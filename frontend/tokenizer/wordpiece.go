package tokenizer

import (
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// wordPiece is the model of BERT (Devlin et al. 2018). GGUF files write a token that
// begins a word with a blank before it, and those within words without ##.
type wordPiece struct {
	tokens prefixes
	unk    int32
	fold   bool // to lower case
	strip  bool // accents
}

// maxPieceWord is the length in characters from which on a word is unknown, as in
// the original.
const maxPieceWord = 100

func newWordPiece(v *vocabulary) (model, error) {
	if v.unk == none {
		return nil, v.errorf("tokenizer.ggml.unknown_token_id is missing: want the token of words that have none")
	}
	t := &wordPiece{tokens: newPrefixes(v.text), unk: v.unk}
	var err error
	if t.fold, _, err = v.flag("normalizer.lowercase", true); err != nil {
		return nil, err
	}
	t.strip, _, err = v.flag("normalizer.strip_accents", t.fold)
	return t, err
}

func (t *wordPiece) encode(out []int32, text string, _ bool) []int32 {
	if t.strip {
		text = norm.NFD.String(text)
	}
	word, chars := []byte(blank), 0
	end := func() {
		if chars > 0 {
			out = t.word(out, string(word), chars)
		}
		word, chars = word[:len(blank)], 0
	}
	for _, r := range text {
		switch {
		case unicode.IsSpace(r):
			end()
			continue
		case r == 0, r == unicode.ReplacementChar, unicode.Is(unicode.C, r), t.strip && unicode.Is(unicode.Mn, r):
			continue
		}
		if t.fold {
			r = unicode.ToLower(r)
		}
		alone := unicode.IsPunct(r) || r < 0x7f && unicode.IsSymbol(r) || ideograph(r)
		if alone {
			end()
		}
		if chars++; chars <= maxPieceWord {
			word = append(word, string(r)...)
		}
		if alone {
			end()
		}
	}
	end()
	return out
}

// word appends the tokens of a word, the longest one first each time. A word that
// they do not make up is unknown.
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
		return append(out[:begin], t.unk)
	}
	return out
}

// ideograph reports whether a character is of the blocks that BERT takes as words.
func ideograph(r rune) bool {
	return r >= 0x4E00 && r <= 0x9FFF || r >= 0x3400 && r <= 0x4DBF || r >= 0x20000 && r <= 0x2A6DF ||
		r >= 0x2A700 && r <= 0x2CEAF || r >= 0xF900 && r <= 0xFAFF || r >= 0x2F800 && r <= 0x2FA1F
}
