package tokenizer

import (
	"cmp"
	"slices"
	"strings"
)

// sentencePiece is the byte-pair encoding of SentencePiece (Kudo and Richardson 2018). It writes a space as U+2581, the
// constant blank.
type sentencePiece struct {
	merger  merger
	leading bool // a space is added before a text
	apart   bool // no token has a blank after another character, so words can be merged separately
}

// newSentencePiece returns the model of SentencePiece's byte-pair encoding. It merges two symbols if their text is a
// token, the token with the highest score first.
func newSentencePiece(v *vocabulary) (model, error) {
	if v.scores == nil {
		return nil, v.errorf("tokenizer.ggml.scores is missing: want a score for each token")
	}
	// apart: no token has a blank after another character, so no merge crosses a blank.
	longest, apart := 0, true
	for name := range v.text {
		longest = max(longest, len(name))
		body := strings.TrimLeft(name, blank)
		apart = apart && !strings.Contains(body, blank)
	}
	ranks := v.ranks()
	t := &sentencePiece{leading: v.leadingSpace, apart: apart}
	t.merger.index, t.merger.spell = characters(v.text), v.spellBytes()
	t.merger.join = func(word string, left, right *symbol) (rank, id int32) {
		if int(right.end-left.start) > longest {
			return 0, none
		}
		if id, ok := v.text[word[left.start:right.end]]; ok {
			return ranks[id], id
		}
		return 0, none
	}
	return t, nil
}

// ranks returns the rank of each token: 0 for the highest score, and so on. Tokens with equal scores have equal ranks.
func (v *vocabulary) ranks() []int32 {
	order := make([]int32, len(v.tokens))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(v.scores[b], v.scores[a]) })
	ranks := make([]int32, len(order))
	for i, id := range order {
		ranks[id] = int32(i)
		if i > 0 && v.scores[id] == v.scores[order[i-1]] {
			ranks[id] = ranks[order[i-1]]
		}
	}
	return ranks
}

// encode writes spaces as blanks, and merges the text as a whole or, if apart is set, word by word. A word begins with
// the blanks before it.
func (t *sentencePiece) encode(out []int32, text string, _ bool) []int32 {
	text = strings.ReplaceAll(text, " ", blank)
	if t.leading {
		text = blank + text
	}
	m := t.merger.get()
	defer t.merger.put(m)
	if !t.apart {
		return t.merger.word(out, text, m)
	}
	for len(text) > 0 {
		body := strings.TrimLeft(text, blank)
		n := len(text) - len(body) // bytes of the word: the blanks, and the body up to the next blank
		if end := strings.Index(body, blank); end >= 0 {
			n += end
		} else {
			n = len(text)
		}
		out = t.merger.word(out, text[:n], m)
		text = text[n:]
	}
	return out
}
