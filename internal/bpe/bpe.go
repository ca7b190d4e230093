// Package bpe turns text into the tokens of a byte-level BPE vocabulary with the
// pre-tokenizer of GPT-2 (Radford et al. 2019), as GGUF files with
// tokenizer.ggml.pre = "gpt-2" have it.
package bpe

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Tokenizer encodes text. It is not safe for use by several goroutines.
type Tokenizer struct {
	ids   map[string]int64
	ranks map[[2]string]int // of the pairs that are merged, the first to merge first
	words map[string][]int64
}

// New makes a tokenizer of a vocabulary and its merges, as tokenizer.ggml.tokens
// and tokenizer.ggml.merges list them.
func New(tokens, merges []string) (*Tokenizer, error) {
	t := &Tokenizer{ids: map[string]int64{}, ranks: map[[2]string]int{}, words: map[string][]int64{}}
	for i, text := range tokens {
		t.ids[text] = int64(i)
	}
	for i, text := range merges {
		a, b, ok := strings.Cut(text, " ")
		if !ok {
			return nil, fmt.Errorf("bpe: merge %d is %q: want two parts with a space between", i, text)
		}
		t.ranks[[2]string{a, b}] = i
	}
	for b := range 256 {
		if _, ok := t.ids[string(printable[b])]; !ok {
			return nil, fmt.Errorf("bpe: the vocabulary has no token for the byte %#02x: it is not byte-level", b)
		}
	}
	return t, nil
}

// Encode returns the tokens of a text.
func (t *Tokenizer) Encode(text string) ([]int64, error) {
	if !utf8.ValidString(text) {
		return nil, errors.New("bpe: the text is not UTF-8")
	}
	var out []int64
	for len(text) > 0 {
		n := wordLen(text)
		ids, err := t.word(text[:n])
		if err != nil {
			return nil, err
		}
		out, text = append(out, ids...), text[n:]
	}
	return out, nil
}

// word merges the bytes of a word, always the pair that comes first in the list of
// merges, until no pair is left to merge.
func (t *Tokenizer) word(word string) ([]int64, error) {
	if ids, ok := t.words[word]; ok {
		return ids, nil
	}
	parts := make([]string, len(word))
	for i := range len(word) {
		parts[i] = string(printable[word[i]])
	}
	for {
		best, at := math.MaxInt, -1
		for i := 0; i+1 < len(parts); i++ {
			if rank, ok := t.ranks[[2]string{parts[i], parts[i+1]}]; ok && rank < best {
				best, at = rank, i
			}
		}
		if at < 0 {
			break
		}
		parts[at] += parts[at+1]
		parts = append(parts[:at+1], parts[at+2:]...)
	}
	ids := make([]int64, len(parts))
	for i, p := range parts {
		id, ok := t.ids[p]
		if !ok {
			return nil, fmt.Errorf("bpe: merges lead to %q, which is no token", p)
		}
		ids[i] = id
	}
	t.words[word] = ids
	return ids, nil
}

// contractions are words of their own.
var contractions = []string{"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}

// wordLen is the length of the first word of a text: a contraction; letters,
// numbers or other characters with a space before them or not; or space, of which
// the last character is left to the word that follows.
func wordLen(text string) int {
	for _, c := range contractions {
		if strings.HasPrefix(text, c) {
			return len(c)
		}
	}
	body := strings.TrimPrefix(text, " ")
	if first, size := utf8.DecodeRuneInString(body); size > 0 && !unicode.IsSpace(first) {
		kind := classOf(first)
		return len(text) - len(strings.TrimLeftFunc(body, func(r rune) bool { return classOf(r) == kind }))
	}
	rest := strings.TrimLeftFunc(text, unicode.IsSpace)
	n := len(text) - len(rest)
	_, last := utf8.DecodeLastRuneInString(text[:n])
	if rest != "" && n > last {
		n -= last
	}
	return n
}

// classOf sorts characters into space, letters, numbers and others.
func classOf(r rune) int {
	switch {
	case unicode.IsSpace(r):
		return 0
	case unicode.IsLetter(r):
		return 1
	case unicode.IsNumber(r):
		return 2
	}
	return 3
}

// printable is the character that stands for each byte in a vocabulary: itself
// where it is printable Latin-1, otherwise, in order, those from 256 on.
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
