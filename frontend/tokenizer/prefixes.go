package tokenizer

import (
	"iter"
	"slices"
	"sort"
)

// prefixes finds the tokens that a text begins with.
type prefixes struct {
	texts []string // in order
	ids   []int32
	first [257]int32 // where the texts that begin with each byte start
}

func newPrefixes(tokens map[string]int32) prefixes {
	var p prefixes
	for text := range tokens {
		if text != "" {
			p.texts = append(p.texts, text)
		}
	}
	slices.Sort(p.texts)
	for _, text := range p.texts {
		p.ids = append(p.ids, tokens[text])
		p.first[text[0]+1]++
	}
	for b := range 256 {
		p.first[b+1] += p.first[b]
	}
	return p
}

// of yields the tokens that a text begins with and their lengths, the shortest
// first. The texts with the first bytes in common are a range of all in order,
// which each byte makes smaller.
func (p *prefixes) of(text string) iter.Seq2[int32, int] {
	return func(yield func(int32, int) bool) {
		if text == "" {
			return
		}
		lo, hi := int(p.first[text[0]]), int(p.first[int(text[0])+1])
		for n := 1; lo < hi; n++ {
			if len(p.texts[lo]) == n {
				if !yield(p.ids[lo], n) {
					return
				}
				lo++
			}
			if n == len(text) {
				return
			}
			b, list := text[n], p.texts[lo:hi]
			from := sort.Search(len(list), func(i int) bool { return list[i][n] >= b })
			to := from + sort.Search(len(list)-from, func(i int) bool { return list[from+i][n] > b })
			lo, hi = lo+from, lo+to
		}
	}
}

// longest returns the longest token that a text begins with; n is 0 if there is
// none.
func (p *prefixes) longest(text string) (id int32, n int) {
	for i, m := range p.of(text) {
		id, n = i, m
	}
	return id, n
}
