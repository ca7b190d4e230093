package tokenizer

import "sync"

// merger encodes words by merging. A word starts as a list of symbols, such as bytes. The merger always joins the pair
// of neighbours with the lowest rank, and among equal ranks the first. Each kind of byte-pair encoding sets functions
// of its own.
type merger struct {
	join  func(word string, left, right *symbol) (rank, id int32) // id is none if the two do not join
	pool  sync.Pool                                               // of *merging
	index func(m *merging, word string)                           // splits a word into the first symbols, in m
	spell func(out []int32, text string) []int32                  // appends the tokens of a symbol that is no token
}

// symbol is a part of a word. The symbols of a word are a linked list.
type symbol struct {
	start, end int32 // byte range in the word; end is 0 if another symbol has absorbed this one
	id         int32 // the token, or none
	prev, next int32 // indices of the neighbours in the list
}

// merging is the working memory for one call of encode, with a cache of words.
type merging struct {
	words   words
	symbols []symbol
	heap    []candidate
}

// candidate is a pair of neighbours that may be joined: symbol left, and the symbol after it, which ends at end. If
// that symbol ends elsewhere by now, the candidate is outdated. id is the token of the joined symbol.
type candidate struct {
	rank, left, end, id int32
}

// before reports whether a is joined before b.
func (a candidate) before(b candidate) bool {
	return a.rank < b.rank || a.rank == b.rank && a.left < b.left
}

const (
	// maxWord is the length of the longest word in bytes, so that positions fit in 32 bits. A longer word is split.
	maxWord = 1 << 30
	// maxSymbols limits the working memory that is kept for reuse, since a very long word needs much more.
	maxSymbols = 1 << 12
)

// get returns scratch memory for merging one word, from the pool.
func (g *merger) get() *merging {
	if m, ok := g.pool.Get().(*merging); ok {
		return m
	}
	return &merging{}
}

// put returns scratch memory to the pool. It drops the buffers of very long words.
func (g *merger) put(m *merging) {
	if cap(m.symbols) > maxSymbols {
		m.symbols, m.heap = nil, nil
	}
	g.pool.Put(m)
}

// word appends the tokens of a word, from the cache if possible.
func (g *merger) word(out []int32, word string, m *merging) []int32 {
	if len(word) > maxWord {
		// The time of a merge grows with the length, so a long word is cut.
		return g.word(g.word(out, word[:maxWord], m), word[maxWord:], m)
	}
	out, ok := m.words.get(out, word)
	if !ok {
		at := len(out)
		out = g.merge(out, word, m)
		m.words.put(word, out[at:])
	}
	return out
}

// merge appends the tokens of a word to out: it joins the pair of neighbours with the best rank, again and again, until
// no pair can be joined.
func (g *merger) merge(out []int32, word string, m *merging) []int32 {
	m.symbols, m.heap = m.symbols[:0], m.heap[:0]
	g.index(m, word)
	for i := range m.symbols {
		s := &m.symbols[i]
		s.prev, s.next = int32(i-1), int32(i+1)
	}
	last := int32(len(m.symbols) - 1)
	for i := range last {
		g.propose(m, word, i)
	}
	for len(m.heap) > 0 {
		c := m.pop()
		left := &m.symbols[c.left]
		if left.end == 0 || left.next > last || m.symbols[left.next].end != c.end {
			continue // one of the two has been joined with another symbol
		}
		right := &m.symbols[left.next]
		left.end, left.id, left.next = right.end, c.id, right.next
		right.end = 0 // it is joined
		if left.next <= last {
			m.symbols[left.next].prev = c.left
			g.propose(m, word, c.left)
		}
		if left.prev >= 0 {
			g.propose(m, word, left.prev)
		}
	}
	for i := int32(0); i <= last; i = m.symbols[i].next {
		if s := m.symbols[i]; s.id != none {
			out = append(out, s.id)
		} else {
			out = g.spell(out, word[s.start:s.end]) // a symbol that is no token
		}
	}
	return out
}

// propose adds symbol at and the one after it to the candidates, if they join.
func (g *merger) propose(m *merging, word string, at int32) {
	left := &m.symbols[at]
	right := &m.symbols[left.next]
	if rank, id := g.join(word, left, right); id != none {
		m.push(candidate{rank, at, right.end, id})
	}
}

// push adds a candidate to the heap, a binary heap in a slice with the best candidate first.
func (m *merging) push(c candidate) {
	m.heap = append(m.heap, c)
	i := len(m.heap) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !c.before(m.heap[up]) {
			break
		}
		m.heap[i] = m.heap[up]
		i = up
	}
	m.heap[i] = c
}

// pop removes the best candidate from the heap.
func (m *merging) pop() candidate {
	top, n := m.heap[0], len(m.heap)-1
	c := m.heap[n]
	m.heap = m.heap[:n]
	i := 0
	for {
		down := 2*i + 1 // the candidates below i are this one and the next
		if down >= n {
			break
		}
		if down+1 < n && m.heap[down+1].before(m.heap[down]) {
			down++
		}
		if !m.heap[down].before(c) {
			break
		}
		m.heap[i] = m.heap[down]
		i = down
	}
	if n > 0 {
		m.heap[i] = c
	}
	return top
}
