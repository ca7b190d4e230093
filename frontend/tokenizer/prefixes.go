package tokenizer

import (
	"slices"
	"strings"
)

// prefixes finds the tokens that are prefixes of a text. It is a trie: each node stands for a prefix of a token. The
// children of a node are adjacent in nodes, in the order of their bytes.
type prefixes struct {
	nodes []prefix
	bytes string      // by node: the last byte of its prefix
	first [256]uint32 // by byte: the root's child, or 0 for none
}

// prefix is a node of the trie.
type prefix struct {
	id       int32  // the token that equals the prefix, or none
	children uint32 // index of the first child
	count    uint16 // of the children
}

// newPrefixes returns the trie of the tokens, given by name.
func newPrefixes(tokens map[string]int32) prefixes {
	texts := make([]string, 0, len(tokens))
	for text := range tokens {
		if text != "" {
			texts = append(texts, text)
		}
	}
	slices.Sort(texts)
	type span struct{ lo, hi int } // range of the texts with the prefix of a node
	var p prefixes
	var bytes strings.Builder
	spans := []span{{0, len(texts)}}
	p.nodes = append(p.nodes, prefix{id: none})
	bytes.WriteByte(0)
	depth, last := 0, 1 // nodes are made level by level; last is the index after the current level
	for at := 0; at < len(p.nodes); at++ {
		if at == last {
			depth, last = depth+1, len(p.nodes)
		}
		lo, hi := spans[at].lo, spans[at].hi
		if lo < hi && len(texts[lo]) == depth {
			p.nodes[at].id = tokens[texts[lo]]
			lo++
		}
		p.nodes[at].children = uint32(len(p.nodes))
		for lo < hi { // a child for each next byte
			b, from := texts[lo][depth], lo
			for lo < hi && texts[lo][depth] == b {
				lo++
			}
			if at == 0 {
				p.first[b] = uint32(len(p.nodes))
			}
			p.nodes[at].count++
			p.nodes = append(p.nodes, prefix{id: none})
			bytes.WriteByte(b)
			spans = append(spans, span{from, lo})
		}
	}
	p.bytes = bytes.String()
	return p
}

// start returns the node of a text's first byte, or 0 if no token begins with it.
func (p *prefixes) start(text string) uint32 {
	if text == "" {
		return 0
	}
	return p.first[text[0]]
}

// next returns the child of a node for byte b, or 0 if there is none.
func (p *prefixes) next(node uint32, b byte) uint32 {
	n := &p.nodes[node]
	children := p.bytes[n.children : n.children+uint32(n.count)]
	if i := strings.IndexByte(children, b); i >= 0 {
		return n.children + uint32(i)
	}
	return 0
}

// longest returns the longest token that is a prefix of the text, and its length. n is 0 if there is none.
func (p *prefixes) longest(text string) (id int32, n int) {
	node := p.start(text)
	for i := 1; node != 0; i++ {
		if at := p.nodes[node].id; at != none {
			id, n = at, i
		}
		if i == len(text) {
			break
		}
		node = p.next(node, text[i])
	}
	return id, n
}

// find returns the first position at which the first byte of a token occurs, or the length of the text.
func (p *prefixes) find(text string) int {
	if len(p.nodes) < 2 {
		return len(text)
	}
	for i := range len(text) {
		if p.first[text[i]] != 0 {
			return i
		}
	}
	return len(text)
}
