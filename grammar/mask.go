package grammar

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
)

// Mask is a set of tokens: token i is bit i%64 of element i/64. It is not to be changed.
type Mask []uint64

// Allows reports whether a token is in the set.
func (m Mask) Allows(id int32) bool {
	return id >= 0 && int(id) < 64*len(m) && m[id/64]>>(id%64)&1 != 0
}

func (m Mask) add(id int32) { m[id/64] |= 1 << (id % 64) }

func (m Mask) empty() bool { return !slices.ContainsFunc(m, func(w uint64) bool { return w != 0 }) }

// Vocabulary is the tokens of a model as a trie of their bytes. It may be used by several
// goroutines.
type Vocabulary struct {
	pieces []string
	ends   []int32
	// The nodes of the trie, each before those below it. The root is the first.
	bytes  []byte
	depths []uint16
	after  []int32 // the first node that is not below a node
	first  []int32 // where in order a node's tokens begin
	order  []int32 // tokens by node
}

// maxPiece bounds the bytes of a token.
const maxPiece = 1 << 12

// NewVocabulary returns the vocabulary of tokens with these bytes. Those without bytes, such as
// markup, are never allowed, but for ends, which end a text.
func NewVocabulary(pieces []string, ends []int32) *Vocabulary {
	v := &Vocabulary{pieces: slices.Clone(pieces)}
	for _, id := range ends {
		if id >= 0 && int(id) < len(pieces) {
			v.ends = append(v.ends, id)
			v.pieces[id] = ""
		}
	}
	for id, p := range v.pieces {
		if p != "" && len(p) <= maxPiece {
			v.order = append(v.order, int32(id))
		}
	}
	slices.SortFunc(v.order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(v.pieces[a], v.pieces[b]), cmp.Compare(a, b))
	})
	v.bytes, v.depths, v.after, v.first = []byte{0}, []uint16{0}, []int32{0}, []int32{0}
	path, last := []int32{0}, ""
	leave := func(depth int) { // ends the nodes that are deeper
		for _, n := range path[depth+1:] {
			v.after[n] = int32(len(v.bytes))
		}
		path = path[:depth+1]
	}
	for i, id := range v.order {
		p := v.pieces[id]
		common := 0
		for common < min(len(p), len(last)) && p[common] == last[common] {
			common++
		}
		leave(common)
		for d := common; d < len(p); d++ {
			path = append(path, int32(len(v.bytes)))
			v.bytes, v.depths = append(v.bytes, p[d]), append(v.depths, uint16(d+1))
			v.after, v.first = append(v.after, 0), append(v.first, int32(i))
		}
		last = p
	}
	leave(0)
	v.after[0] = int32(len(v.bytes))
	v.first = append(v.first, int32(len(v.order)))
	return v
}

// Constraint is a grammar with the tokens of a model. Its texts share the masks that it keeps.
// It may be used by several goroutines.
type Constraint struct {
	v *Vocabulary

	mu    sync.Mutex
	m     *machine
	bases map[int32]*base
	path  []*state
}

// base is what may come at a node, whatever its rule returns to.
type base struct {
	mask   Mask
	beyond []int32 // nodes of the trie at which the rule may have ended, and tokens go on
}

// New returns the constraint of a grammar on the tokens of a vocabulary.
func New(g *Grammar, v *Vocabulary) *Constraint {
	return &Constraint{v: v, m: newMachine(g), bases: map[int32]*base{}}
}

// Text is a text that is being written. It is for one goroutine.
type Text struct {
	c  *Constraint
	at *state
}

// Begin returns an empty text.
func (c *Constraint) Begin() (*Text, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m.work = 0
	s, err := c.m.begin()
	return &Text{c, s}, err
}

// Take adds a token to the text. A token that ends a text adds nothing.
func (t *Text) Take(id int32) error {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	if id < 0 || int(id) >= len(t.c.v.pieces) {
		return fmt.Errorf("grammar: token %d: want 0 to %d", id, len(t.c.v.pieces)-1)
	}
	piece := t.c.v.pieces[id]
	if piece == "" {
		if slices.Contains(t.c.v.ends, id) && t.at.ends {
			return nil
		}
		return fmt.Errorf("grammar: token %d is not allowed: it is markup, or ends a text that is not whole", id)
	}
	t.c.m.work = 0
	s, err := t.c.m.take(t.at, piece)
	if err == nil {
		t.at = s
	}
	return err
}

// Ends reports whether the text is whole: it may end here.
func (t *Text) Ends() bool { return t.at.ends }

// Full reports whether nothing may follow the text.
func (t *Text) Full() bool { return len(t.at.configs) == 0 }

// Mask returns the tokens that may come next. Those that end a text are among them where it is whole.
// A vocabulary that can spell nothing that may follow is an error.
func (t *Text) Mask() (Mask, error) {
	c := t.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.at.mask != nil {
		return t.at.mask, nil
	}
	if c.m.kept > maxKept {
		c.m.forget()
		c.bases = map[int32]*base{}
	}
	c.m.work = 0
	mask := c.newMask()
	for _, at := range t.at.configs {
		b, err := c.base(at.at)
		if err != nil {
			return nil, err
		}
		for i, w := range b.mask {
			mask[i] |= w
		}
		if at.on == nil || len(b.beyond) == 0 {
			continue
		}
		back, err := c.m.closure(config{at.on.back, at.on.below})
		if err != nil {
			return nil, err
		}
		for _, n := range b.beyond {
			if err := c.walk(n, back, mask, nil); err != nil {
				return nil, err
			}
		}
	}
	if t.at.ends {
		for _, id := range c.v.ends {
			mask.add(id)
		}
	}
	if mask.empty() {
		return nil, fmt.Errorf("grammar: no token of the vocabulary may come next")
	}
	t.at.mask = mask
	return mask, nil
}

func (c *Constraint) newMask() Mask {
	mask := make(Mask, (len(c.v.pieces)+63)/64)
	c.m.kept += 8 * len(mask)
	return mask
}

func (c *Constraint) base(at int32) (*base, error) {
	if b := c.bases[at]; b != nil {
		return b, nil
	}
	s, err := c.m.closure(config{at, nil})
	if err != nil {
		return nil, err
	}
	b := &base{mask: c.newMask()}
	if err := c.walk(0, s, b.mask, &b.beyond); err != nil {
		return nil, err
	}
	c.m.kept += 4 * len(b.beyond)
	c.bases[at] = b
	return b, nil
}

// walk adds to a mask the tokens below a node of the trie that may follow a state. Beyond gets the nodes
// at which the text may have ended and tokens go on.
func (c *Constraint) walk(n int32, from *state, mask Mask, beyond *[]int32) error {
	v, g := c.v, c.m.g
	top := v.depths[n]
	path := append(c.path[:0], from) // by depth below n
	end := v.after[n]
	for i := n + 1; i < end; {
		d := int(v.depths[i] - top)
		class := g.class[v.bytes[i]]
		s := path[d-1].next[class]
		if s == nil {
			var err error
			if s, err = c.m.step(path[d-1], class); err != nil {
				return err
			}
		}
		if s.dead() {
			i = v.after[i]
			continue
		}
		for _, id := range v.order[v.first[i]:v.first[i+1]] {
			mask.add(id)
		}
		if s.ends && beyond != nil && v.after[i] > i+1 {
			*beyond = append(*beyond, i)
		}
		path = append(path[:d], s)
		i++
	}
	c.path = path
	return nil
}
