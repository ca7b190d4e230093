package tokenizer

import (
	"slices"
	"strings"
	"unicode"

	"github.com/vkc-go/vkc/frontend/chat"
)

// part is a range of a text, from the end of the part before.
type part struct {
	end     int  // byte offset
	special bool // the part may name special tokens
}

// EncodeChat returns the tokens of a rendered chat template. Only pieces that come from the template can name special
// tokens; users' pieces cannot. Apart from that, the pieces count as one text: a word may span several pieces. The BOS
// token comes first, if the vocabulary asks for it and the template has not added it.
func (t *Tokenizer) EncodeChat(pieces []chat.Piece) []int32 {
	return t.EncodeAround([][]chat.Piece{pieces})[0]
}

// EncodeAround returns the tokens of each list of pieces of a rendered template. Something other than text, such as a
// picture, comes between two lists, so no word spans both. As in EncodeChat, the tokens that begin a text come first.
func (t *Tokenizer) EncodeAround(lists [][]chat.Piece) (all [][]int32) {
	for i, pieces := range lists {
		text, parts := joined(pieces)
		if i > 0 {
			all = append(all, t.encode(nil, text, parts, false))
			continue
		}
		out := t.encode(slices.Clone(t.before), text, parts, true)
		// A template may begin with the token that begins a text: it counts once.
		if n := len(t.before); n > 0 && len(out) > n && out[n] == t.before[n-1] {
			out = slices.Delete(out, n, n+1)
		}
		all = append(all, out)
	}
	return all
}

// joined returns the text of pieces. It also returns the end of each part of the text, and whether special tokens may
// be in it: in pieces of users they may not.
func joined(pieces []chat.Piece) (text string, parts []part) {
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(p.Text)
		if n := len(parts); n > 0 && parts[n-1].special == !p.User {
			parts[n-1].end = b.Len()
			continue
		}
		parts = append(parts, part{b.Len(), !p.User})
	}
	return b.String(), parts
}

// encode appends the tokens of a text. It finds the special and added tokens that the parts may name, and the model
// encodes the text between them. begins says whether the text begins a whole one.
func (t *Tokenizer) encode(out []int32, text string, parts []part, begins bool) []int32 {
	begin := 0
	for i := 0; i < len(text); {
		for parts[0].end <= i {
			parts = parts[1:]
		}
		names, seen := &t.words, len(text) // the tokens to find here, and the end of the text that they may cover
		if parts[0].special {
			names, seen = &t.markup, parts[0].end
		}
		i += names.find(text[i:parts[0].end])
		if i == parts[0].end {
			continue
		}
		id, n := names.longest(text[i:seen])
		// Some added tokens only count as words of their own.
		if n == 0 || !t.added[id].alone(text, i, i+n) {
			i++
			continue
		}
		start, end := t.added[id].extent(text, begin, i, i+n) // with the white space that the token takes along
		if begin < start {
			out = t.model.encode(out, text[begin:start], begins && begin == 0)
		}
		out = append(out, id)
		i, begin = end, end
	}
	if begin < len(text) {
		out = t.model.encode(out, text[begin:], begins && begin == 0)
	}
	return out
}

// readSpecial fills t.markup and t.words: the tokens that encode finds by name.
func (t *Tokenizer) readSpecial(v *vocabulary) error {
	markup, words := map[string]int32{}, map[string]int32{}
	for id, name := range v.tokens {
		switch t.types[id] {
		case control, unknown, userDefined:
			markup[name] = t.ids[name]
		}
		if t.types[id] == userDefined && !strings.ContainsFunc(name, isSign) {
			words[name] = t.ids[name]
		}
	}
	t.markup, t.words = newPrefixes(markup), newPrefixes(words)
	t.bos, t.eos, t.ends = v.special("bos"), v.special("eos"), v.ends()
	t.readInfill(v)
	return t.readFrame(v)
}

// isSign reports whether a character is punctuation or a symbol, as in the names of special tokens.
func isSign(r rune) bool { return unicode.IsPunct(r) || unicode.IsSymbol(r) }

// readFrame determines the tokens that are added before and after a text.
func (t *Tokenizer) readFrame(v *vocabulary) error {
	add := func(list *[]int32, flag string, ids ...string) error {
		wanted, said, err := v.flag("add_"+flag+"_token", v.frame[flag])
		if err != nil || !wanted {
			return err
		}
		for _, key := range ids {
			if id := v.special(key); id != none {
				*list = append(*list, id)
				return nil
			}
		}
		if said { // the file wants a token that it does not name
			return v.errorf("tokenizer.ggml.add_%s_token is true, but tokenizer.ggml.%s_token_id is missing: want the "+
				"token's number", flag, ids[0])
		}
		return nil
	}
	if err := add(&t.before, "bos", "bos", "cls"); err != nil {
		return err
	}
	if err := add(&t.after, "sep", "seperator", "separator"); err != nil { // the spelling in files
		return err
	}
	if len(t.after) == 0 { // SEP takes the place of EOS
		if err := add(&t.after, "eos", "eos"); err != nil {
			return err
		}
	}
	t.setPair()
	return nil
}
