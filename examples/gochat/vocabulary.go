package main

import (
	_ "embed"
	"strings"
)

// merges.txt has the pairs of tokens that the vocabulary merges, the most frequent ones of 4,000 conversations first.
// A space is not merged with an upper-case letter: a name then has the same tokens after a space and after a quote, and
// is easy to copy.
//
//go:embed merges.txt
var mergesText string

// special are the first tokens of the vocabulary. Text cannot contain the first three.
var special = []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<tool>"}

// vocabulary is a byte-level vocabulary of byte pairs (Sennrich et al. 2016).
type vocabulary struct{ tokens, merges []string }

// readVocabulary returns the vocabulary: special tokens, bytes, and merged pairs.
func readVocabulary() vocabulary {
	v := vocabulary{tokens: append([]string{}, special...)}
	for b := range 256 {
		v.tokens = append(v.tokens, string(byteRune(byte(b))))
	}
	for line := range strings.Lines(mergesText) {
		pair := strings.TrimSuffix(line, "\n")
		v.merges = append(v.merges, pair)
		v.tokens = append(v.tokens, strings.Replace(pair, " ", "", 1))
	}
	return v
}

// byteRune is the character that stands for a byte in byte-level vocabularies: printable bytes stand for themselves,
// and the others for characters from 256 on.
func byteRune(b byte) rune {
	printable := func(b byte) bool { return b >= '!' && b <= '~' || b >= 0xa1 && b != 0xad }
	if printable(b) {
		return rune(b)
	}
	n := rune(256)
	for c := range int(b) {
		if !printable(byte(c)) {
			n++
		}
	}
	return n
}
