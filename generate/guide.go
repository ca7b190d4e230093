package generate

import (
	"strings"

	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/grammar"
)

// guide decides which tokens may come next in one answer, by Sampling's Grammar and Reasoning. An answer is free, or a
// grammar constrains it, or the tokens that end its reasoning are forced.
type guide struct {
	tok        *tokenizer.Tokenizer
	constraint *grammar.Constraint // nil without a grammar
	text       *grammar.Text       // nil while the answer is free
	after      []string            // marks after which the grammar applies
	again      bool                // whether the answer is free again after the grammar's text
	tail       string              // the end of the free text, which may begin a mark
	reasoning  Reasoning
	thought    int     // tokens of reasoning; -1 once it is over
	forced     []int32 // the tokens that come next
}

// newGuide returns the guide of a request with these sampling options.
func newGuide(m *Model, s Sampling) *guide {
	g := &guide{tok: m.tok, after: s.GrammarAfter, again: s.GrammarAgain, reasoning: s.Reasoning}
	if s.Grammar != nil {
		g.constraint = m.constraints.of(s.Grammar, m.tok)
	}
	if s.Reasoning.Tokens == 0 {
		g.thought = -1
	}
	return g
}

// advance takes the last token, unless id is firstMask, and returns the mask of the next one: nil if every token may
// come. grammarEnds reports that none may, because the grammar's text is complete. pause is called regularly during a
// long search, and its error ends the search.
func (g *guide) advance(id int32, pause func() error) (mask grammar.Mask, grammarEnds bool, err error) {
	if g.text != nil {
		g.text.Pause = pause
	}
	if id != firstMask {
		if err := g.take(id, pause); err != nil {
			return nil, false, err
		}
	}
	switch {
	case len(g.forced) > 0:
		// A forced token is the only one allowed.
		mask = make(grammar.Mask, (g.tok.Len()+63)/64)
		mask[g.forced[0]/64] = 1 << (g.forced[0] % 64)
		return mask, false, nil
	case g.text == nil:
		return nil, false, nil
	// The text continues without constraint until another mark (GrammarAgain).
	case g.text.Full() && g.again:
		g.text = nil
		return nil, false, nil
	case g.text.Full():
		return nil, true, nil
	}
	mask, err = g.text.Mask()
	return mask, false, err
}

// markSpace is the number of characters of the answer's end that a guide keeps in addition to the length of its longest
// mark. It is enough for white space before a mark.
const markSpace = 16

// take updates the guide after token id of the answer: it may begin or end the grammar's text or the reasoning.
func (g *guide) take(id int32, pause func() error) error {
	if len(g.forced) > 0 {
		g.forced = g.forced[1:] // the token was forced
	}
	if g.text != nil { // the grammar's text has begun
		return g.text.Take(id)
	}
	piece := g.tok.Piece(id)
	if g.tok.IsSpecial(id) {
		piece = g.tok.Token(id)
	}
	g.tail += piece
	longest := max(len(g.reasoning.Open), len(g.reasoning.Close)) + markSpace
	if g.thought >= 0 { // in reasoning, or before it
		g.think()
	}
	for _, mark := range g.after {
		longest = max(longest, len(mark))
		_, rest, found := strings.Cut(g.tail, mark)
		if !found {
			continue
		}
		text, err := g.constraint.Begin()
		if err != nil {
			return err
		}
		text.Pause = pause
		if rest == "" || text.TakeText(rest) == nil {
			g.text, g.tail = text, ""
			return nil
		}
		g.tail = rest // the model has written something else: the answer stays free
	}
	g.tail = g.tail[max(0, len(g.tail)-longest):] // as much as the beginning of a mark needs
	return nil
}

// think counts a token of reasoning. After Reasoning.Tokens of them, it forces the tokens that end the reasoning.
func (g *guide) think() {
	begin := strings.TrimLeft(g.tail, " \t\r\n")
	open := g.reasoning.Open // "" once the reasoning has begun
	switch {
	case open != "" && strings.HasPrefix(begin, open):
		g.reasoning.Open = ""
	case open != "" && !strings.HasPrefix(open, begin), // an answer without reasoning
		strings.Contains(g.tail, g.reasoning.Close):
		g.thought = -1
		return
	}
	g.thought++
	if g.thought == g.reasoning.Tokens {
		g.forced = g.tok.Encode(g.reasoning.Close, tokenizer.Options{Special: true})
		g.thought = -1
	}
}
