// Package grammar restricts a language model's output to a grammar: it computes which tokens may come next.
//
//	g, err := grammar.ParseSchema(schema)            // or ParseGBNF, or JSON
//	c := grammar.New(g, grammar.NewVocabulary(pieces, ends))
//	text := c.Begin()
//	mask, err := text.Mask()                         // the tokens that may come next
//	err = text.Take(id)                              // the chosen token
//
// A grammar is compiled to a pushdown automaton over bytes: a graph of nodes with edges for bytes, calls of rules, and
// returns. Stacks share their tails. A state is the set of all configurations that a text may be in. Since the
// automaton reads bytes, tokens may end inside a character.
//
// Masks are assembled from cached parts. For most tokens, the current node alone decides, whatever the stack is; these
// parts are cached per node. Only tokens that continue beyond the end of a rule are checked for each stack (Dong et al.
// 2024, arXiv:2411.15100). Whole masks are cached per state.
//
// # Bounds
//
// Grammars and schemas may be hostile. Sources, nesting, automaton, depth of stacks and caches are bounded; see the
// constants. A text nests at most 1024 unfinished rules. The work for a text's masks is counted, and a text that
// exceeds its budget ends with a TextError. Text.Pause lets a caller do other work meanwhile, or give up.
package grammar

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

const (
	maxSource   = 256 << 10 // bytes of a grammar or schema
	maxNesting  = 128       // of parentheses, or of a schema
	maxNodes    = 1 << 17   // of an automaton
	maxEdges    = 1 << 20   // of all nodes together
	maxDepth    = 1024      // of a stack
	maxConfigs  = 1 << 12   // configurations of a text
	maxSteps    = 1 << 22   // of making a grammar of a schema
	maxKept     = 32 << 20  // bytes of cached states and masks of a grammar and vocabulary
	maxMeanings = 1 << 16   // rules of a schema
	maxName     = 1 << 10   // bytes of a property's name if other properties are allowed
)

// Grammar is a set of texts. It may be used by several goroutines.
type Grammar struct {
	nodes []node
	rules []int32 // where each begins
	start int32
	class [256]uint8 // bytes that no edge distinguishes share a class
	bytes []byte     // one of each class
	// special means that texts may have the names of special tokens.
	special bool
	// schema is what the grammar was made of, if the grammar does not hold some parts of it: unheld.
	schema any
	unheld []string
}

// Special reports whether texts of the grammar may have the names of special tokens, as Token spells them.
func (g *Grammar) Special() bool { return g.special }

// op is the kind of an expr.
type op uint8

const (
	opText   op = iota // text
	opSet              // a character in set
	opSeq              // the elements of list in sequence
	opAlt              // one element of list
	opRepeat           // list[0], min to max times
	opRule             // a reference to a rule
	opGraph            // a path through graph, from its first place to one that ends
)

// expr is a set of texts.
type expr struct {
	op       op
	text     string
	set      []span
	list     []*expr
	min, max int // max is unbounded if negative
	rule     int
	graph    []graphPlace
}

// graphPlace is a place of an automaton.
type graphPlace struct {
	ends bool
	ways []graphWay
}

// graphWay leads to a place by the texts of an expression.
type graphWay struct {
	by *expr
	to int
}

// span is a range of characters, both ends included.
type span struct{ low, high rune }

func text(s string) *expr     { return &expr{op: opText, text: s} }
func set(s ...span) *expr     { return &expr{op: opSet, set: s} }
func seq(list ...*expr) *expr { return &expr{op: opSeq, list: list} }
func alt(list ...*expr) *expr { return &expr{op: opAlt, list: list} }
func rule(n int) *expr        { return &expr{op: opRule, rule: n} }
func repeat(e *expr, lo, hi int) *expr {
	return &expr{op: opRepeat, list: []*expr{e}, min: lo, max: hi}
}
func optional(e *expr) *expr { return repeat(e, 0, 1) }

// invert returns the characters that are in no span.
func invert(list []span) (out []span) {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b span) int { return int(a.low) - int(b.low) })
	next := rune(0)
	for _, s := range list {
		if s.low > next {
			out = append(out, span{next, s.low - 1})
		}
		next = max(next, s.high+1)
	}
	if next <= utf8.MaxRune {
		out = append(out, span{next, utf8.MaxRune})
	}
	return out
}

// definition is a rule of a grammar. The first of a list is the start rule.
type definition struct {
	name string
	body *expr
}

// node is a position in a rule, a state of the pushdown automaton. It is one of: the end of a rule (node 0), a node
// with edges for bytes, a node with epsilon edges, or a call of a rule, which continues at back afterwards.
type node struct {
	edges   []edge
	epsilon []int32 // targets of edges that read no byte
	call    int32   // the index of the called rule, or noCall
	back    int32   // where the call returns to
}

// noCall is field call of a node that calls no rule.
const noCall = -1

// edge is a byte range and its target node.
type edge struct {
	low, high byte
	to        int32
}

// atEnd is the node that is the end of every rule.
const atEnd = 0

// builder makes the nodes of the automaton from rules. It starts at the end of each rule, because a node needs its
// successors.
type builder struct {
	rules  []definition
	starts []int32
	nodes  []node
	edges  int            // of all nodes
	known  map[edge]int32 // nodes of one edge
	err    error
}

// build returns the grammar of rules; the first one is the start rule. It returns an error if no finite text matches,
// or if a rule begins with itself.
func build(rules []definition) (*Grammar, error) {
	b := &builder{rules: rules, known: map[edge]int32{}}
	b.node(node{call: noCall})                          // atEnd, the end of every rule
	for i := 0; i < len(b.rules) && b.err == nil; i++ { // repetitions add rules
		b.starts = append(b.starts, b.expr(b.rules[i].body, atEnd))
	}
	if b.err != nil {
		return nil, b.err
	}
	b.prune()
	g := &Grammar{nodes: b.nodes, rules: b.starts, start: b.starts[0]}
	first := b.nodes[g.start]
	leadsOn := len(first.edges) > 0 || len(first.epsilon) > 0 || first.call >= 0
	if !leadsOn && g.start != atEnd {
		return nil, errors.New("grammar: no finite text is allowed: a rule needs an alternative that does not call " +
			"itself, and a schema needs at least one value")
	}
	if name := b.leftRecursive(); name != "" {
		return nil, fmt.Errorf("grammar: rule %s begins with itself: write it as a repetition, such as x (\"+\" x)*",
			name)
	}
	g.classify()
	return g, nil
}

// node adds a node and returns its number.
func (b *builder) node(n node) int32 {
	b.edges += len(n.edges)
	if len(b.nodes) >= maxNodes || b.edges > maxEdges {
		b.err = fmt.Errorf("grammar: more than %d states, or more than %d byte ranges in their transitions: want "+
			"smaller repetitions, fewer rules or smaller classes", maxNodes, maxEdges)
		return atEnd
	}
	b.nodes = append(b.nodes, n)
	return int32(len(b.nodes) - 1)
}

// byteNode returns a node with one edge for a byte.
func (b *builder) byteNode(e edge) int32 {
	id, ok := b.known[e]
	if !ok {
		id = b.node(node{edges: []edge{e}, call: noCall})
		b.known[e] = id
	}
	return id
}

// expr adds the nodes of an expression, after which the text continues at node next. It returns the first node. It adds
// the parts of e from the last to the first, because a part needs the node after it.
func (b *builder) expr(e *expr, next int32) int32 {
	if b.err != nil {
		return atEnd
	}
	switch e.op {
	case opText:
		for i := len(e.text) - 1; i >= 0; i-- {
			next = b.byteNode(edge{e.text[i], e.text[i], next})
		}
		return next
	case opSet:
		return b.set(e.set, next)
	case opSeq:
		for _, x := range slices.Backward(e.list) {
			next = b.expr(x, next)
		}
		return next
	case opAlt:
		n := node{call: noCall}
		for _, x := range e.list {
			n.epsilon = append(n.epsilon, b.expr(x, next))
		}
		return b.node(n)
	case opRepeat:
		return b.repeat(e, next)
	case opGraph:
		return b.graph(e.graph, next)
	}
	return b.node(node{call: int32(e.rule), back: next})
}

// set adds the nodes of one character of a set, followed by node next, and returns the first node.
func (b *builder) set(set []span, next int32) int32 {
	n := node{call: noCall}
	for _, s := range set {
		for _, bytes := range utf8Ranges(s) { // a range for each byte of a character
			to := next
			for _, r := range slices.Backward(bytes[1:]) {
				to = b.byteNode(edge{r[0], r[1], to})
			}
			n.edges = append(n.edges, edge{bytes[0][0], bytes[0][1], to})
		}
	}
	if len(n.edges) == 1 {
		return b.byteNode(n.edges[0])
	}
	return b.node(n)
}

// graph adds the nodes of a graph, followed by node next, and returns the first node.
func (b *builder) graph(places []graphPlace, next int32) int32 {
	// The nodes of a graph may lead to each other, so all exist before their edges.
	ids := make([]int32, len(places))
	for i := range ids {
		ids[i] = b.node(node{call: noCall})
	}
	for i, p := range places {
		var targets []int32
		for _, w := range p.ways {
			targets = append(targets, b.expr(w.by, ids[w.to]))
		}
		if p.ends {
			targets = append(targets, next)
		}
		b.nodes[ids[i]].epsilon = targets
	}
	return ids[0]
}

// isByte reports whether an expression compiles to one node, which its copies can share.
func isByte(e *expr) bool {
	return e.op == opText && len(e.text) == 1 || e.op == opSet && len(e.set) == 1 && e.set[0].high < utf8.RuneSelf
}

// repeat builds a repetition, e.min to e.max times, followed by node next, and returns its first node. Without a
// maximum it loops after e.min copies.
func (b *builder) repeat(e *expr, next int32) int32 {
	x := e.list[0]
	if (e.min > 1 || e.max > 1) && x.op != opRule && !isByte(x) { // a copy is then one node
		b.rules = append(b.rules, definition{body: x})
		x = rule(len(b.rules) - 1)
	}
	start := next
	if e.max < 0 {
		start = b.node(node{call: noCall})
		body := b.expr(x, start)
		b.nodes[start].epsilon = []int32{body, next}
	}
	for i := e.min; i < e.max && b.err == nil; i++ { // copies that may be left out, with all after them
		start = b.node(node{epsilon: []int32{b.expr(x, start), next}, call: noCall})
	}
	for i := 0; i < e.min && b.err == nil; i++ { // copies that must be there
		start = b.expr(x, start)
	}
	return start
}

// utf8Ranges returns sequences of byte ranges that encode the characters of a span (R. Cox, Regular Expression Matching
// in the Wild, 2010).
func utf8Ranges(s span) (out [][][2]byte) {
	for _, part := range []span{{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, utf8.MaxRune}} {
		if low, high := max(s.low, part.low), min(s.high, part.high); low <= high {
			out = splitRange(out, low, high, utf8.RuneLen(part.low))
		}
	}
	return out
}

// splitRange splits a range of characters of n bytes until the bytes of each part vary independently: each byte has a
// range, whatever the others are. It appends the ranges of each part to out.
func splitRange(out [][][2]byte, low, high rune, n int) [][][2]byte {
	for i := 1; i < n; i++ {
		m := rune(1)<<(6*i) - 1 // the values of the last i bytes
		if low&^m == high&^m {
			break
		}
		if low&m != 0 {
			return splitRange(splitRange(out, low, low|m, n), low|m+1, high, n)
		}
		if high&m != m {
			return splitRange(splitRange(out, low, high&^m-1, n), high&^m, high, n)
		}
	}
	var a, z [utf8.UTFMax]byte
	utf8.EncodeRune(a[:], low)
	utf8.EncodeRune(z[:], high)
	one := make([][2]byte, n)
	for i := range one {
		one[i] = [2]byte{a[i], z[i]}
	}
	return append(out, one)
}

// Arguments of reachesEnd.
const (
	readingBytes = true  // follow all edges
	epsilonOnly  = false // follow edges that read no byte
)

// reachesEnd reports for each node whether a path leads from it to the end of its rule. If reading is set, a path may
// read bytes; otherwise it has epsilon edges only.
func (b *builder) reachesEnd(reading bool) []bool {
	users := make([][]int32, len(b.nodes)) // the nodes that reach the end if a node does
	for id, n := range b.nodes {
		targets := slices.Clone(n.epsilon)
		if reading {
			for _, e := range n.edges {
				targets = append(targets, e.to)
			}
		}
		if n.call >= 0 {
			targets = append(targets, b.starts[n.call], n.back)
		}
		for _, t := range targets {
			users[t] = append(users[t], int32(id))
		}
	}
	ok := make([]bool, len(b.nodes))
	ok[atEnd] = true
	for list := []int32{atEnd}; len(list) > 0; {
		id := list[len(list)-1]
		list = list[:len(list)-1]
		for _, u := range users[id] {
			n := b.nodes[u]
			// A call goes on only if the called rule ends.
			if ok[u] || n.call >= 0 && !(ok[b.starts[n.call]] && ok[n.back]) {
				continue
			}
			ok[u] = true
			list = append(list, u)
		}
	}
	return ok
}

// prune removes edges and calls from which no bytes lead to the end of a rule, so that every text can be completed.
func (b *builder) prune() {
	ends := b.reachesEnd(readingBytes)
	for id := range b.nodes {
		n := &b.nodes[id]
		n.edges = slices.DeleteFunc(n.edges, func(e edge) bool { return !ends[e.to] })
		n.epsilon = slices.DeleteFunc(n.epsilon, func(to int32) bool { return !ends[to] })
		if !ends[id] {
			n.call = noCall // the called rule, or the node after the call, has no end
		}
	}
}

// leftRecursive returns a rule that may call itself before reading a byte, or "". Such a rule would need an infinite
// stack.
func (b *builder) leftRecursive() string {
	first := b.firstCalls()
	const open, done = 1, 2 // marks of rules in a depth-first search: on the current path, and finished
	mark := make([]byte, len(b.starts))
	var visit func(r int32) int32 // returns a rule that calls itself, or -1
	visit = func(r int32) int32 {
		mark[r] = open
		for _, to := range first[r] {
			if mark[to] == open {
				return to
			}
			if mark[to] == 0 {
				if found := visit(to); found >= 0 {
					return found
				}
			}
		}
		mark[r] = done
		return -1
	}
	for r := range b.starts {
		if mark[r] == 0 {
			if found := visit(int32(r)); found >= 0 {
				if name := b.rules[found].name; name != "" {
					return name
				}
				return "of a repetition"
			}
		}
	}
	return ""
}

// firstCalls lists for each rule the rules that it may call before it reads a byte.
func (b *builder) firstCalls() [][]int32 {
	empty := b.reachesEnd(epsilonOnly)
	first := make([][]int32, len(b.starts))
	for r, start := range b.starts {
		seen := map[int32]bool{start: true}
		for list := []int32{start}; len(list) > 0; {
			n := b.nodes[list[len(list)-1]]
			list = list[:len(list)-1]
			next := n.epsilon
			if n.call >= 0 {
				first[r] = append(first[r], n.call)
				if empty[b.starts[n.call]] {
					next = []int32{n.back} // the called rule may read nothing
				}
			}
			for _, to := range next {
				if !seen[to] {
					seen[to] = true
					list = append(list, to)
				}
			}
		}
	}
	return first
}

// classify divides the bytes into classes. No edge distinguishes two bytes of one class.
func (g *Grammar) classify() {
	var begins [257]bool // whether a class begins at a byte
	for _, n := range g.nodes {
		for _, e := range n.edges {
			begins[e.low], begins[int(e.high)+1] = true, true
		}
	}
	for b := range 256 {
		if b == 0 || begins[b] {
			g.bytes = append(g.bytes, byte(b))
		}
		g.class[b] = uint8(len(g.bytes) - 1)
	}
}

// Match reports two things: begins, whether some text of the grammar begins with `text`, and whole, whether `text`
// itself is in the grammar. If deciding that takes too much work, both are false.
func (g *Grammar) Match(text string) (begins, whole bool) {
	m, w := newMachine(g), &work{left: maxWork}
	s, err := m.begin(w)
	for i := 0; i < len(text) && err == nil && !s.dead(); i++ {
		w.left += tokenWork
		if m.kept > maxKept {
			m.forget()
		}
		s, err = m.step(w, s, g.class[text[i]])
	}
	return err == nil && !s.dead(), err == nil && s.ends
}
