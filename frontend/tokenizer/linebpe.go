package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// lineBPE is the tokenization of Gemma 4: byte-pair encoding of the characters of a line. A blank stands for a space.
// Line feeds next to each other are a word, and one token if the vocabulary has it.
type lineBPE struct {
	merger merger
	whole  map[string]int32 // tokens of line feeds
}

// newLineBPE returns the model that merges each line by the vocabulary's list of merges. Tokens that consist of line
// feeds are found whole.
func newLineBPE(v *vocabulary) (model, error) {
	all := v.mergeable()
	pairs, err := v.mergePairs(all)
	if err != nil {
		return nil, err
	}
	t := &lineBPE{whole: map[string]int32{}}
	for name, id := range all {
		if onlyLineFeeds := strings.Trim(name, "\n") == ""; onlyLineFeeds {
			t.whole[name] = id
		}
	}
	t.merger.index, t.merger.spell = characters(all), v.spellBytes()
	t.merger.join = func(_ string, left, right *symbol) (rank, id int32) { return pairs.find(left.id, right.id) }
	return t, nil
}

// encode implements model. It encodes each line and each run of line ends as a word.
func (t *lineBPE) encode(out []int32, text string, _ bool) []int32 {
	m := t.merger.get()
	defer t.merger.put(m)
	for text = strings.ReplaceAll(text, " ", blank); text != ""; {
		n := strings.IndexByte(text, '\n')
		if n < 0 {
			n = len(text)
		} else if n == 0 { // the text begins with line feeds
			n = len(text) - len(strings.TrimLeft(text, "\n"))
		}
		if id, ok := t.whole[text[:n]]; ok {
			out = append(out, id)
		} else {
			out = t.merger.word(out, text[:n], m)
		}
		text = text[n:]
	}
	return out
}

// characters returns a merger.index, which makes the first symbols of a word: its characters, or single bytes where the
// word is not UTF-8. A character without a token has the id none.
func characters(tokens map[string]int32) func(m *merging, word string) {
	return func(m *merging, word string) {
		for i := 0; i < len(word); {
			_, n := utf8.DecodeRuneInString(word[i:])
			id, ok := tokens[word[i:i+n]]
			if !ok {
				id = none
			}
			m.symbols = append(m.symbols, symbol{start: int32(i), end: int32(i + n), id: id})
			i += n
		}
	}
}

// spellBytes returns a merger.spell: a character becomes byte tokens or, if one is missing, the unknown token.
func (v *vocabulary) spellBytes() func(out []int32, text string) []int32 {
	bytes := v.byteTokens()
	return func(out []int32, text string) []int32 {
		begin := len(out)
		for i := range len(text) {
			if bytes[text[i]] == none { // the whole character is dropped
				return v.appendUnknown(out[:begin])
			}
			out = append(out, bytes[text[i]])
		}
		return out
	}
}
