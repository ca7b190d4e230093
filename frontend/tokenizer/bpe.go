package tokenizer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/frontend/gguf"
)

// bpe is byte-level byte-pair encoding (Radford et al. 2019). Its vocabularies write each byte as one printable
// character.
type bpe struct {
	cutters []cutter // split text into words
	merger  merger
	whole   map[string]int32 // if the kind sets whole: the tokens, for words that are one; else nil
}

// newBPE returns the byte-level model (BPE) of a GGUF file's vocabulary. It reads how the file splits text into words,
// and the merges.
func newBPE(v *vocabulary) (model, error) {
	pre, err := v.f.String("tokenizer.ggml.pre")
	switch {
	case errors.Is(err, gguf.ErrNoKey):
		pre = "default"
	case err != nil:
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	k, err := kindOf(pre)
	if err != nil {
		return nil, err
	}
	// Some kinds of word splitting imply a token before or after a text.
	for role, add := range map[string]bool{"bos": k.bos, "sep": k.sep} {
		if add {
			v.frame = map[string]bool{role: true}
		}
	}
	all := v.mergeable()
	pairs, err := v.mergePairs(all)
	if err != nil {
		return nil, err
	}
	var bytes [256]int32 // the token of each byte, or none
	for b := range bytes {
		bytes[b] = none
		if id, ok := all[string(printable[b])]; ok {
			bytes[b] = id
		}
	}
	if slices.Max(bytes[:]) == none { // none is less than every token
		return nil, v.errorf("the vocabulary has no token for any byte: it is not byte-level")
	}
	t := &bpe{cutters: k.cutters}
	if k.whole { // a word that is a token needs no merges
		t.whole = make(map[string]int32, len(v.text))
		for name, id := range v.text {
			t.whole[bytesOfName(name)] = id
		}
	}
	t.merger.index = func(m *merging, word string) {
		for i := range len(word) {
			m.symbols = append(m.symbols, symbol{start: int32(i), end: int32(i + 1), id: bytes[word[i]]})
		}
	}
	t.merger.spell = func(out []int32, _ string) []int32 { return out } // skip a byte without a token
	t.merger.join = func(_ string, left, right *symbol) (rank, id int32) {
		return pairs.find(left.id, right.id)
	}
	return t, nil
}

// mergePairs reads the merges of a file: pairs of tokens to join, the best first. all are the tokens that may occur in
// merges, by name.
func (v *vocabulary) mergePairs(all map[string]int32) (*pairs, error) {
	merges, err := v.f.Strings("tokenizer.ggml.merges")
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	pairs := newPairs(len(merges))
	for i, text := range merges {
		// n is the index of the space between the parts. The search begins at 1, as the first part may begin with a
		// space.
		n := strings.IndexByte(text[min(1, len(text)):], ' ') + 1
		if n == 0 {
			return nil, v.errorf("merge %d in tokenizer.ggml.merges is %q: want two parts, a space between", i, text)
		}
		parts := [3]string{text[:n], text[n+1:], text[:n] + text[n+1:]}
		var ids [3]int32
		for j, part := range parts {
			id, ok := all[part]
			if !ok {
				return nil, v.errorf("merge %d in tokenizer.ggml.merges is %q, but %q is not a token: the merges "+
					"belong to another vocabulary", i, text, part)
			}
			ids[j] = id
		}
		pairs.add(ids[0], ids[1], int32(i), ids[2])
	}
	return pairs, nil
}

// mergeable returns the tokens that merges may produce, by name: normal tokens, and added tokens, because some
// vocabularies add tokens that are plain text.
func (v *vocabulary) mergeable() map[string]int32 {
	all := make(map[string]int32, len(v.tokens))
	for id, name := range v.tokens {
		if v.types[id] == userDefined {
			all[name] = int32(id)
		}
	}
	for name, id := range v.text {
		all[name] = id
	}
	return all
}

func (t *bpe) encode(out []int32, text string, _ bool) []int32 {
	m := t.merger.get()
	defer t.merger.put(m)
	return t.encodeWords(out, text, t.cutters, m)
}

// encodeWords appends the tokens of a text. cutters[0] splits the text into pieces, cutters[1] splits each piece, and
// so on. The pieces of the last cutter are words.
func (t *bpe) encodeWords(out []int32, text string, cutters []cutter, m *merging) []int32 {
	for len(text) > 0 {
		n := cutters[0](text)
		word := text[:n]
		text = text[n:]
		if len(cutters) > 1 {
			out = t.encodeWords(out, word, cutters[1:], m)
		} else if id, ok := t.whole[word]; ok {
			out = append(out, id)
		} else {
			out = t.merger.word(out, word, m)
		}
	}
	return out
}

// printable maps each byte to the character that stands for it in a vocabulary. Printable Latin-1 characters stand for
// themselves. The other bytes, in order, have the characters from 256 on.
var printable = func() (table [256]rune) {
	next := rune(256)
	for b := range rune(256) {
		table[b] = b
		if b < '!' || b > '~' && b < 0xa1 || b == 0xad {
			table[b] = next
			next++
		}
	}
	return table
}()

// byteOfPrintable is the inverse of printable: it maps each character to its byte.
var byteOfPrintable = func() map[rune]byte {
	table := map[rune]byte{}
	for b, r := range printable {
		table[r] = byte(b)
	}
	return table
}()

// bytesOfName returns the bytes of a token from its name, in which a character stands for each byte. If the name has
// other characters, the bytes are the name itself.
func bytesOfName(name string) string {
	text := make([]byte, 0, len(name))
	for _, r := range name {
		b, ok := byteOfPrintable[r]
		if !ok {
			return name
		}
		text = append(text, b)
	}
	return string(text)
}
