package grammar

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// stack is a linked list of the nodes to which rule calls return. Equal stacks are the same pointer.
type stack struct {
	back  int32
	below *stack // nil at the bottom
	depth int
	id    uint64
}

// config is a configuration of the automaton: a node with edges, and the stack of the nodes to which rule calls return.
type config struct {
	at int32
	on *stack
}

// state is the set of configurations that the automaton may be in after a text: a grammar may read a text in several
// ways. Equal states are the same pointer.
type state struct {
	configs []config
	ends    bool     // the text may end here
	next    []*state // by class; nil if not computed yet
	mask    Mask     // nil if not computed yet
}

func (s *state) dead() bool { return len(s.configs) == 0 && !s.ends }

// stackKey identifies equal stacks.
type stackKey struct {
	back  int32
	below *stack
}

// machine runs a grammar, and caches states and stacks.
type machine struct {
	g      *Grammar
	stacks map[stackKey]*stack
	states map[string]*state
	kept   int // bytes, approximately
	ids    uint64
	seen   map[config]bool
	list   []config
	key    []byte
}

func newMachine(g *Grammar) *machine {
	m := &machine{g: g, seen: map[config]bool{}}
	m.forget()
	return m
}

// forget empties the cache. States in use stay valid, but drop references to others.
func (m *machine) forget() {
	for _, s := range m.states {
		clear(s.next)
		s.mask = nil
	}
	m.stacks, m.states, m.kept = map[stackKey]*stack{}, map[string]*state{}, 0
}

// Work is counted instead of timed, so that the limits are the same on every machine. One unit is about one visited
// node of the vocabulary's trie.
const (
	configWork = 16      // units to visit one configuration
	bytesWork  = 8       // bytes of a state per unit
	maxWork    = 1 << 26 // limit of units for a text before its first token: about half a second
	tokenWork  = 1 << 19 // units that each token adds to the limit: a few milliseconds
	pauseWork  = 1 << 17 // units between two calls of Text.Pause
)

// work is the remaining budget of a text.
type work struct {
	left       int
	sincePause int // since the last pause
}

// take counts n units of work.
func (w *work) take(n int) error {
	w.left -= n
	w.sincePause += n
	if w.left < 0 {
		return errWork
	}
	return nil
}

// TextError says why a text cannot continue. The cause is the grammar, or the text written so far.
type TextError struct{ what string }

func (e *TextError) Error() string { return "grammar: " + e.what }

var errWork = &TextError{"too ambiguous, so the next tokens take too much work to find: want " +
	"alternatives with different beginnings, and fewer repetitions of items that may be empty or that repeat " +
	"themselves"}

// begin returns the initial state of every text.
func (m *machine) begin(w *work) (*state, error) { return m.closure(w, config{m.g.start, nil}) }

// stackBytes is about the memory of a stack and its entry in a map.
const stackBytes = 96

// push returns the stack with one more node on top: back is the node to return to, and below the rest. Equal stacks are
// one pointer. It returns nil if the stack is too deep.
func (m *machine) push(back int32, below *stack) *stack {
	key := stackKey{back, below}
	if s := m.stacks[key]; s != nil {
		return s
	}
	depth := 1
	if below != nil {
		depth = below.depth + 1
	}
	if depth > maxDepth {
		return nil
	}
	s := &stack{back, below, depth, m.ids}
	m.ids++
	m.stacks[key] = s
	m.kept += stackBytes
	return s
}

// closure returns the state for a text at some nodes, including all nodes reachable without a byte. It takes the work
// from w, and returns an error if that is not enough.
func (m *machine) closure(w *work, from ...config) (*state, error) {
	clear(m.seen)
	m.list = m.list[:0]
	add := func(c config) {
		if !m.seen[c] {
			m.seen[c] = true
			m.list = append(m.list, c)
		}
	}
	for _, c := range from {
		add(c)
	}
	s := &state{}
	for i := 0; i < len(m.list); i++ {
		if i >= maxConfigs {
			return nil, errWork
		}
		c := m.list[i]
		n := &m.g.nodes[c.at]
		switch {
		case c.at == atEnd && c.on == nil:
			s.ends = true
		case c.at == atEnd: // the rule ends: go on after its call
			add(config{c.on.back, c.on.below})
		case n.call >= 0 && n.back == atEnd: // tail call: return directly to the caller's return position
			add(config{m.g.rules[n.call], c.on})
		case n.call >= 0:
			if on := m.push(n.back, c.on); on != nil {
				add(config{m.g.rules[n.call], on})
			}
		case len(n.edges) > 0:
			s.configs = append(s.configs, c)
		}
		for _, to := range n.epsilon {
			add(config{to, c.on})
		}
	}
	known := m.intern(s)
	cost := configWork * len(m.list)
	if known == s {
		cost += s.bytes() / bytesWork // a new state costs memory
	}
	return known, w.take(cost)
}

// bytes returns the approximate size of a state in memory.
func (s *state) bytes() int { return 160 + 32*len(s.configs) + 8*len(s.next) }

// number identifies a stack; 0 is the empty one.
func (s *stack) number() uint64 {
	if s == nil {
		return 0
	}
	return s.id + 1
}

// intern returns the state with the configurations of s that exists already, or else s itself. So equal states are one
// pointer.
func (m *machine) intern(s *state) *state {
	slices.SortFunc(s.configs, func(a, b config) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.on.number(), b.on.number()))
	})
	m.key = m.key[:0]
	for _, c := range s.configs {
		m.key = binary.LittleEndian.AppendUint32(m.key, uint32(c.at))
		m.key = binary.LittleEndian.AppendUint64(m.key, c.on.number())
	}
	if s.ends {
		m.key = append(m.key, 1)
	}
	if known := m.states[string(m.key)]; known != nil {
		return known
	}
	s.next = make([]*state, len(m.g.bytes))
	m.states[string(m.key)] = s
	m.kept += s.bytes()
	return s
}

// step returns the state after one more byte of a class of bytes. It computes each step once.
func (m *machine) step(w *work, s *state, class uint8) (*state, error) {
	if to := s.next[class]; to != nil {
		return to, nil
	}
	b := m.g.bytes[class]
	var from []config
	for _, c := range s.configs {
		for _, e := range m.g.nodes[c.at].edges {
			if e.low <= b && b <= e.high {
				from = append(from, config{e.to, c.on})
			}
		}
	}
	to, err := m.closure(w, from...)
	if err != nil {
		return nil, err
	}
	s.next[class] = to
	return to, nil
}
