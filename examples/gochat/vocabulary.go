package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/frontend/chat"
)

// merges.txt has the pairs of tokens that the vocabulary merges, the most frequent ones of 4,000 conversations first
// (-merges 4000).
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

// words are the parts of a text inside of which pairs are merged, as the tokenizer cuts them. A space is apart from an
// upper-case letter: a name then has the same tokens after a space and after a quote, and is easy to copy.
var words = regexp.MustCompile(` ?\p{Ll}\p{L}*|\p{L}+| ?[^\s\p{L}\p{N}]+`)

// frequent is how often words must be there to have tokens of their own: more often than those that are made up.
const frequent = 8

// printMerges learns the merges of the vocabulary from the first conversations of o.merges steps, and prints them. It
// uses byte pair encoding (Sennrich et al. 2016): it merges the most frequent pair of tokens until the vocabulary is
// full.
func printMerges(o options, out io.Writer) error {
	counts, err := countWords(o)
	if err != nil {
		return err
	}
	type word struct {
		tokens []string
		count  int
	}
	var list []word
	for _, w := range slices.Sorted(maps.Keys(counts)) {
		if counts[w] < frequent {
			continue
		}
		var tokens []string
		for _, b := range []byte(w) {
			tokens = append(tokens, string(byteRune(b)))
		}
		list = append(list, word{tokens, counts[w]})
	}
	for range vocabularySize - len(special) - 256 { // the other tokens are single bytes
		pairs := map[[2]string]int{}
		for _, w := range list {
			for i := range len(w.tokens) - 1 {
				pairs[[2]string(w.tokens[i:i+2])] += w.count
			}
		}
		if len(pairs) == 0 {
			return fmt.Errorf("-merges %d: the conversations have too few words", o.merges)
		}
		best := slices.MinFunc(slices.Collect(maps.Keys(pairs)), func(a, b [2]string) int {
			return cmp.Or(cmp.Compare(pairs[b], pairs[a]), cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
		})
		fmt.Fprintf(out, "%s %s\n", best[0], best[1])
		for n, w := range list {
			for i := 0; i+1 < len(w.tokens); i++ {
				if [2]string(w.tokens[i:i+2]) == best {
					w.tokens = slices.Replace(w.tokens, i, i+2, best[0]+best[1])
				}
			}
			list[n] = w
		}
	}
	return nil
}

// countWords counts the words in the first conversations of o.merges steps, without the markup of the template.
func countWords(o options) (map[string]int, error) {
	counts := map[string]int{}
	markup := regexp.MustCompile(`</?tool(_call)?>|<\|\w+\|>`)
	for step := range o.merges {
		pieces, err := template().Render(conversation(random(o, step), turns))
		if err != nil {
			return nil, err
		}
		for _, part := range markup.Split(chat.Text(pieces), -1) {
			for _, w := range words.FindAllString(part, -1) {
				counts[w]++
			}
		}
	}
	return counts, nil
}
