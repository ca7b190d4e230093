package grammar

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// stack has the nodes to return to. Equal ones are one.
type stack struct {
	back  int32
	below *stack // nil at the bottom
	depth int
	id    uint32
}

// config is a place that a text may be at: a node with edges, and what it returns to.
type config struct {
	at int32
	on *stack
}

// state is all places that a text may be at. Equal ones are one.
type state struct {
	configs []config
	ends    bool     // the text may end here
	next    []*state // by class; nil where it was not asked yet
	mask    Mask     // nil where it was not asked yet
}

func (s *state) dead() bool { return len(s.configs) == 0 && !s.ends }

// stackKey says which stacks are equal.
type stackKey struct {
	back  int32
	below *stack
}

// machine runs a grammar, and keeps what it has met.
type machine struct {
	g      *Grammar
	stacks map[stackKey]*stack
	states map[string]*state
	kept   int // bytes, about
	ids    uint32
	work   int // places looked at since the last mask
	seen   map[config]bool
	list   []config
	key    []byte
}

func newMachine(g *Grammar) *machine {
	m := &machine{g: g, seen: map[config]bool{}}
	m.forget()
	return m
}

// forget empties what is kept. States that are in use stay valid.
func (m *machine) forget() {
	m.stacks, m.states, m.kept = map[stackKey]*stack{}, map[string]*state{}, 0
}

var errWork = errors.New("grammar: too ambiguous: the next token takes too much work to find; " +
	"want alternatives that begin differently")

// begin is where every text begins.
func (m *machine) begin() (*state, error) { return m.closure(config{m.g.start, nil}) }

// push returns a stack with one more node, or nil if it is too deep.
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
	m.kept += 96
	return s
}

// closure is the state of a text that is at some nodes, after all that takes no byte.
func (m *machine) closure(from ...config) (*state, error) {
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
		if m.work++; i >= maxConfigs || m.work > maxWork {
			return nil, errWork
		}
		c := m.list[i]
		n := &m.g.nodes[c.at]
		switch {
		case c.at == atEnd && c.on == nil:
			s.ends = true
		case c.at == atEnd:
			add(config{c.on.back, c.on.below})
		case n.call >= 0 && n.back == atEnd: // a call in last place returns where its caller does
			add(config{m.g.rules[n.call], c.on})
		case n.call >= 0:
			if on := m.push(n.back, c.on); on != nil {
				add(config{m.g.rules[n.call], on})
			}
		case len(n.edges) > 0:
			s.configs = append(s.configs, c)
		}
		for _, to := range n.free {
			add(config{to, c.on})
		}
	}
	return m.intern(s), nil
}

// number is one of a stack, 0 for none.
func (s *stack) number() uint32 {
	if s == nil {
		return 0
	}
	return s.id + 1
}

func (m *machine) intern(s *state) *state {
	slices.SortFunc(s.configs, func(a, b config) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.on.number(), b.on.number()))
	})
	m.key = m.key[:0]
	for _, c := range s.configs {
		m.key = binary.LittleEndian.AppendUint32(m.key, uint32(c.at))
		m.key = binary.LittleEndian.AppendUint32(m.key, c.on.number())
	}
	if s.ends {
		m.key = append(m.key, 1)
	}
	if known := m.states[string(m.key)]; known != nil {
		return known
	}
	s.next = make([]*state, len(m.g.bytes))
	m.states[string(m.key)] = s
	m.kept += 160 + 32*len(s.configs) + 8*len(s.next)
	return s
}

// step is the state after one more byte, of a class.
func (m *machine) step(s *state, class uint8) (*state, error) {
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
	to, err := m.closure(from...)
	if err != nil {
		return nil, err
	}
	s.next[class] = to
	return to, nil
}

// take is the state after some bytes.
func (m *machine) take(s *state, text string) (*state, error) {
	for i := range len(text) {
		var err error
		if s, err = m.step(s, m.g.class[text[i]]); err != nil {
			return nil, err
		}
		if s.dead() {
			return nil, fmt.Errorf("grammar: %q is not allowed at byte %d", text, i)
		}
	}
	return s, nil
}
