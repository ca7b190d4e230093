package tokenizer

import (
	"fmt"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// pattern is a compiled regular expression of a tokenizer.json. The expressions are Oniguruma's, in Ruby's syntax.
// Package regexp of the standard library lacks some of it, such as (?!\S) and possessive repetition.
//
// Matching is by backtracking, because the first alternative that matches counts. It notes every position at which a
// part of the expression has failed, for all matches of a text, and never tries that again. So finding all matches
// takes time in proportion to the text, whatever the expression.
type pattern struct {
	source string
	code   []instruction
	slots  int // number of notes for each position
	pool   sync.Pool
}

type opcode uint8

const (
	opSet    opcode = iota // one character of a set
	opJump                 // continue at x
	opSplit                // try x, and then y
	opStar                 // any number of characters of a set, as many as possible
	opAll                  // like opStar, and never fewer than possible
	opLook                 // what follows matches the instructions at x, or not; continue at y
	opLookAt               // the character after or before is of a set, or not
	opAssert               // a condition on the position
	opMatch                // the end
)

// instruction is one step of a pattern.
type instruction struct {
	op       opcode
	x, y     int
	set      *charSet
	negative bool
	behind   bool // opLookAt: the character before
	least    int  // opAll: characters
	most     int
	slot     int
	assert   func(text string, at int) bool
}

// Limits of patterns, which come from files.
const (
	maxPattern = 1 << 14 // bytes
	maxCode    = 1 << 12 // instructions
	maxRepeat  = 1000    // of a counted repetition
	maxNesting = 64      // of groups
)

// compilePattern parses a regular expression and compiles it. It returns an error if it is too long.
func compilePattern(source string) (*pattern, error) {
	if len(source) > maxPattern {
		return nil, fmt.Errorf("a pattern has %d bytes: want at most %d", len(source), maxPattern)
	}
	tree, err := parsePattern(source)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", source, err)
	}
	p := &pattern{source: source}
	p.compile(tree)
	p.add(instruction{op: opMatch})
	if len(p.code) > maxCode {
		return nil, fmt.Errorf("pattern %q has %d steps: want at most %d", source, len(p.code), maxCode)
	}
	return p, nil
}

// add appends an instruction and returns its index. It stops at the limit, which compilePattern reports.
func (p *pattern) add(in instruction) int {
	if len(p.code) <= maxCode {
		p.code = append(p.code, in)
	}
	return len(p.code) - 1
}

// slot returns a number for an instruction. A match notes the positions at which the instruction fails under this
// number.
func (p *pattern) slot() int {
	p.slots++
	return p.slots - 1
}

// compile appends the instructions of a node.
func (p *pattern) compile(n *node) {
	if len(p.code) > maxCode { // compilePattern reports it
		return
	}
	switch n.kind {
	case nodeSet:
		p.add(instruction{op: opSet, set: n.set})
	case nodeSequence:
		for _, sub := range n.subs {
			p.compile(sub)
		}
	case nodeChoice:
		var ends []int
		for i, sub := range n.subs {
			if i == len(n.subs)-1 {
				p.compile(sub)
				break
			}
			split := p.add(instruction{op: opSplit, slot: p.slot()})
			p.code[split].x = split + 1
			p.compile(sub)
			ends = append(ends, p.add(instruction{op: opJump}))
			p.code[split].y = len(p.code)
		}
		for _, end := range ends {
			p.code[end].x = len(p.code)
		}
	case nodeRepeat:
		p.compileRepeat(n)
	case nodeLook:
		if sub := n.subs[0]; sub.kind == nodeSet {
			p.add(instruction{op: opLookAt, set: sub.set, negative: n.negative, behind: n.behind})
			return
		}
		look := p.add(instruction{op: opLook, negative: n.negative, slot: p.slot()})
		p.code[look].x = look + 1
		p.compile(n.subs[0])
		p.add(instruction{op: opMatch})
		p.code[look].y = len(p.code)
	case nodeAssert:
		p.add(instruction{op: opAssert, assert: n.assert})
	}
}

// compileRepeat appends the instructions of a repetition.
func (p *pattern) compileRepeat(n *node) {
	sub := n.subs[0]
	if n.possessive { // the parser allows it for sets alone
		p.add(instruction{op: opAll, set: sub.set, least: n.least, most: n.most, slot: p.slot()})
		return
	}
	for range n.least {
		p.compile(sub)
	}
	split := func() int {
		at := p.add(instruction{op: opSplit, slot: p.slot()})
		p.code[at].x = at + 1
		return at
	}
	exit := func(at int) {
		p.code[at].y = len(p.code)
		if n.lazy {
			p.code[at].x, p.code[at].y = p.code[at].y, p.code[at].x // a lazy repetition first tries to end
		}
	}
	switch {
	case n.most < 0 && sub.kind == nodeSet && !n.lazy:
		p.add(instruction{op: opStar, set: sub.set, slot: p.slot()})
	case n.most < 0:
		at := split()
		p.compile(sub)
		p.add(instruction{op: opJump, x: at})
		exit(at)
	default:
		var all []int
		for range n.most - n.least {
			if len(p.code) > maxCode {
				return
			}
			all = append(all, split())
			p.compile(sub)
		}
		for _, at := range all {
			exit(at)
		}
	}
}

// matching is the working memory for the matches of one text.
type matching struct {
	p     *pattern
	text  string
	fails []uint64 // bit slot*(len(text)+1)+position: what follows the instruction of the slot fails at the position
	wins  []uint64 // the same for instructions in an opLook: it succeeds
	stack []branch
	trail []int // the bits of fails that the current attempt has set and that are not certain yet
}

// branch is an alternative to try later: the instruction pc at a position. For opStar and opAll the alternative is to
// match fewer characters of the set. The characters begin at low, and the shortest match tried so far ends at `at`. For
// other instructions low is negative.
type branch struct {
	pc, at, low, trail int
}

// begin prepares for the matches of a text.
func (p *pattern) begin(text string) *matching {
	m, ok := p.pool.Get().(*matching)
	if !ok {
		m = &matching{p: p}
	}
	words := (p.slots*(len(text)+1) + 63) / 64
	m.text, m.fails, m.wins = text, cleared(m.fails, words), cleared(m.wins, words)
	return m
}

// end gives the memory back.
func (m *matching) end() {
	if cap(m.fails) <= maxSymbols {
		m.p.pool.Put(m)
	}
}

// cleared returns n zeros.
func cleared(words []uint64, n int) []uint64 {
	if cap(words) < n {
		return make([]uint64, n)
	}
	words = words[:n]
	clear(words)
	return words
}

func has(words []uint64, bit int) bool { return words[bit/bits.UintSize]>>(bit%bits.UintSize)&1 != 0 }
func set(words []uint64, bit int)      { words[bit/bits.UintSize] |= 1 << (bit % bits.UintSize) }
func unset(words []uint64, bit int)    { words[bit/bits.UintSize] &^= 1 << (bit % bits.UintSize) }

// find returns the first match at or after a position. ok is false if there is none.
func (m *matching) find(from int) (start, end int, ok bool) {
	for start = from; ; {
		if end, ok = m.run(0, start, false); ok {
			return start, end, true
		}
		if start == len(m.text) {
			return 0, 0, false
		}
		_, n := utf8.DecodeRuneInString(m.text[start:])
		start += n
	}
}

// run matches the instructions from pc on at position at, and returns the end of the match. It goes back to the latest
// branch after a failure. It notes states that have failed, so that none is tried twice and the time is linear in the
// text. look means that the instructions belong to an opLook: whether they match counts, but not where.
func (m *matching) run(pc, at int, look bool) (end int, ok bool) {
	base, trail := len(m.stack), len(m.trail)
	size := len(m.text) + 1
	for {
		in := &m.p.code[pc]
		bit, failed := in.slot*size+at, false // the bit of the state (slot, position) in wins and fails
		switch in.op {
		case opMatch:
			m.succeed(base, trail, look)
			return at, true
		case opSet:
			n := in.set.match(m.text, at)
			at += n
			failed = n == 0
			pc++
		case opJump:
			pc = in.x
		case opSplit, opStar:
			// In a look, the way to the end does not matter, so an earlier success is enough.
			if look && has(m.wins, bit) {
				m.succeed(base, trail, look)
				return at, true
			}
			failed = has(m.fails, bit)
			if failed {
				break
			}
			m.note(bit)
			if in.op == opStar {
				at = m.star(pc, at)
				pc++
				break
			}
			m.stack = append(m.stack, branch{in.y, at, -1, len(m.trail)})
			pc = in.x
		case opAll:
			at, failed = m.all(pc, at)
			pc++
		case opLookAt:
			failed = m.looksAt(in, at) == in.negative
			pc++
		case opLook:
			failed = m.look(in, at, bit) == in.negative
			pc = in.y
		case opAssert:
			failed = !in.assert(m.text, at)
			pc++
		}
		if failed {
			if pc, at, ok = m.back(base, trail); !ok {
				return 0, false
			}
		}
	}
}

// look reports whether what follows a position matches the instructions of an opLook. bit is the state of the opLook at
// the position in wins and fails: the result is computed once.
func (m *matching) look(in *instruction, at, bit int) bool {
	if !has(m.wins, bit) && !has(m.fails, bit) {
		if _, ok := m.run(in.x, at, true); ok {
			set(m.wins, bit)
		} else {
			set(m.fails, bit)
		}
	}
	return has(m.wins, bit)
}

// star matches as many characters as possible by the opStar at pc, and returns where they end. It leaves a branch for
// fewer characters.
func (m *matching) star(pc, at int) (end int) {
	in, size := &m.p.code[pc], len(m.text)+1
	end = at
	for {
		n := in.set.match(m.text, end)
		if n == 0 || has(m.fails, in.slot*size+end+n) {
			break
		}
		end += n
	}
	if end > at {
		m.stack = append(m.stack, branch{pc, end, at, len(m.trail)})
	}
	return end
}

// all matches as many characters as possible by the opAll at pc, and returns where they end. It fails if they are too
// few, or if the same end has failed before. Its branch is no choice: back notes there that the end has failed.
func (m *matching) all(pc, at int) (end int, failed bool) {
	in, size := &m.p.code[pc], len(m.text)+1
	end = at
	count := 0
	for count != in.most && !failed { // a negative in.most is no limit
		n := in.set.match(m.text, end)
		if n == 0 {
			break
		}
		end, count = end+n, count+1
		failed = in.most < 0 && has(m.fails, in.slot*size+end)
	}
	failed = failed || count < in.least
	if !failed && in.most < 0 && end > at {
		m.stack = append(m.stack, branch{pc, end, at, len(m.trail)})
	}
	return end, failed
}

// looksAt reports whether the character after a position, or before it, is of the set of an opLookAt.
func (m *matching) looksAt(in *instruction, at int) bool {
	if !in.behind {
		return in.set.match(m.text, at) > 0
	}
	r, size := utf8.DecodeLastRuneInString(m.text[:at])
	return size > 0 && in.set.has(r)
}

// note marks a state as failed. If the attempt succeeds, succeed removes the mark.
func (m *matching) note(bit int) {
	set(m.fails, bit)
	m.trail = append(m.trail, bit)
}

// back returns the instruction and the position of the last choice that is left, or false if the attempt fails. base
// and trail are the lengths of m.stack and m.trail at the attempt's beginning.
func (m *matching) back(base, trail int) (pc, at int, ok bool) {
	size := len(m.text) + 1
	for len(m.stack) > base {
		b := &m.stack[len(m.stack)-1]
		m.trail = m.trail[:b.trail] // the others have failed for good
		in := &m.p.code[b.pc]
		switch {
		case b.low < 0:
			pc, at = b.pc, b.at
			m.stack = m.stack[:len(m.stack)-1]
			return pc, at, true
		case in.op == opAll: // fewer characters are no choice, and starting later fails too
			for i := b.low + 1; i <= b.at; i++ {
				set(m.fails, in.slot*size+i)
			}
			m.stack = m.stack[:len(m.stack)-1]
		default:
			set(m.fails, in.slot*size+b.at) // starting there, and with more characters, fails too
			_, n := utf8.DecodeLastRuneInString(m.text[b.low:b.at])
			b.at -= n
			pc, at = b.pc+1, b.at
			if b.at <= b.low {
				m.stack = m.stack[:len(m.stack)-1]
			}
			return pc, at, true
		}
	}
	m.trail = m.trail[:trail]
	return 0, 0, false
}

// succeed ends an attempt that has matched. base and trail are the sizes of the stack and of the trail at its
// beginning. The states on the trail have not failed, so their bits are removed. In an opLook (look) they have also
// won.
func (m *matching) succeed(base, trail int, look bool) {
	size := len(m.text) + 1
	for _, bit := range m.trail[trail:] {
		unset(m.fails, bit)
		if look {
			set(m.wins, bit)
		}
	}
	if look {
		// An opStar has won at all positions between its branch's ends.
		for _, b := range m.stack[base:] {
			if in := &m.p.code[b.pc]; b.low >= 0 && in.op == opStar {
				for i := b.low; i <= b.at; i++ {
					set(m.wins, in.slot*size+i)
				}
			}
		}
	}
	m.stack, m.trail = m.stack[:base], m.trail[:trail]
}

// charSet is a set of characters.
type charSet struct {
	ascii [2]uint64
	in    func(r rune) bool
	pages atomic.Pointer[charPages] // made when a character outside of ASCII is asked for
}

// charPages are the characters of a set, in pages that are made when one of their characters is asked for.
type charPages [0x110000 / pageSize]atomic.Pointer[[pageSize / 64]uint64]

const pageSize = 1024

// newCharSet returns the set of characters for which in is true.
func newCharSet(in func(r rune) bool) *charSet {
	s := &charSet{in: in}
	for r := range rune(utf8.RuneSelf) {
		if in(r) {
			s.ascii[r/64] |= 1 << (r % 64)
		}
	}
	return s
}

// has reports whether a character is in the set. It keeps bits for ASCII, and for each page of other characters from
// its first use on.
func (s *charSet) has(r rune) bool {
	if r < utf8.RuneSelf {
		return s.ascii[r/64]>>(r%64)&1 != 0
	}
	pages := s.pages.Load()
	if pages == nil {
		pages = &charPages{}
		// Another goroutine may have stored pages first.
		if !s.pages.CompareAndSwap(nil, pages) {
			pages = s.pages.Load()
		}
	}
	page := pages[r/pageSize].Load()
	if page == nil {
		page = &[pageSize / 64]uint64{}
		for i := range rune(pageSize) {
			if s.in(r/pageSize*pageSize + i) {
				page[i/64] |= 1 << (i % 64)
			}
		}
		pages[r/pageSize].Store(page)
	}
	return page[r%pageSize/64]>>(r%64)&1 != 0
}

// match returns the length in bytes of the character at a position, or 0 if it is not in the set or there is none. An
// invalid byte counts as U+FFFD.
func (s *charSet) match(text string, at int) int {
	if at == len(text) {
		return 0
	}
	if b := text[at]; b < utf8.RuneSelf {
		return int(s.ascii[b/64] >> (b % 64) & 1) // the bit of b: one byte matches or none
	}
	if r, n := utf8.DecodeRuneInString(text[at:]); s.has(r) {
		return n
	}
	return 0
}

// pieces calls each for the matches of the pattern in a text and for the text between them, in order.
func (p *pattern) pieces(text string, each func(piece string, match bool)) {
	m := p.begin(text)
	defer m.end()
	done, last := 0, -1 // the end of the text that each has had, and the end of the last match
	for from := 0; from <= len(text); {
		start, end, ok := m.find(from)
		if !ok {
			break
		}
		from = end
		if start == end { // an empty match: the search goes on after the next character
			_, n := utf8.DecodeRuneInString(text[end:])
			from += max(n, 1)
			if last == end { // right after a match, an empty match does not count
				continue
			}
		}
		if done < start {
			each(text[done:start], false)
		}
		each(text[start:end], true)
		done, last = end, end
	}
	if done < len(text) {
		each(text[done:], false)
	}
}

// replace replaces the matches of the pattern.
func (p *pattern) replace(text, by string) string {
	var b strings.Builder
	p.pieces(text, func(piece string, match bool) {
		if match {
			piece = by
		}
		b.WriteString(piece)
	})
	return b.String()
}
