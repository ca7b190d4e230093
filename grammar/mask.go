package grammar

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
)

// Mask is a set of tokens: token i is bit i%64 of element i/64. Do not modify it.
type Mask []uint64

// Allows reports whether a token is in the set.
func (m Mask) Allows(id int32) bool {
	return id >= 0 && int(id) < 64*len(m) && m[id/64]>>(id%64)&1 != 0
}

func (m Mask) add(id int32) { m[id/64] |= 1 << (id % 64) }

func (m Mask) empty() bool { return !slices.ContainsFunc(m, func(w uint64) bool { return w != 0 }) }

// Vocabulary is the tokens of a model as a trie of their bytes. Several goroutines may use it.
type Vocabulary struct {
	pieces []string
	ends   []int32
	// The nodes of the trie in preorder, beginning with the root.
	bytes  []byte
	depths []uint16
	after  []int32 // the next node that is not a descendant
	first  []int32 // the tokens that end at node n are order[first[n]:first[n+1]]
	order  []int32 // tokens by node
}

// maxPiece bounds the bytes of a token.
const maxPiece = 1 << 12

// NewVocabulary returns the vocabulary in which token i has the bytes pieces[i]. Tokens without bytes, such as markup,
// are never allowed, except ends, the tokens that end a text.
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
	// The trie of all tokens in depth-first order. Node 0 is the root.
	v.bytes, v.depths, v.after, v.first = []byte{0}, []uint16{0}, []int32{0}, []int32{0}
	path, last := []int32{0}, "" // the nodes from the root to the end of the last token, and that token
	leave := func(depth int) {   // ends the nodes of path that are deeper
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

// Constraint is a grammar with the tokens of a model. Its texts share its cached masks. Several goroutines may use it.
type Constraint struct {
	v *Vocabulary

	mu        sync.Mutex
	m         *machine
	nodeMasks map[int32]*nodeMask
}

// nodeMask is the part of a mask that depends only on a node, not on the stack.
type nodeMask struct {
	mask   Mask
	beyond []int32 // trie nodes at which the rule may have ended but tokens continue
}

// New returns the constraint of a grammar on the tokens of a vocabulary.
func New(g *Grammar, v *Vocabulary) *Constraint {
	return &Constraint{v: v, m: newMachine(g), nodeMasks: map[int32]*nodeMask{}}
}

// Text is a text being generated. It must not be used concurrently.
type Text struct {
	// Pause, if set, is called after about each millisecond of work in Take or Mask, and before they wait for another
	// text of the same constraint. If it returns an error, they return that error.
	Pause func() error

	c    *Constraint
	at   *state
	work work
	path []*state
}

// Begin returns an empty text.
func (c *Constraint) Begin() (*Text, error) {
	t := &Text{c: c, work: work{left: maxWork}}
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	t.at, err = c.m.begin(&t.work)
	return t, err
}

// lock locks the constraint, which several texts share, for this text. If another text has it, lock calls Pause first.
func (t *Text) lock() error {
	if t.c.mu.TryLock() {
		return nil
	}
	if t.Pause != nil {
		if err := t.Pause(); err != nil {
			return err
		}
	}
	t.c.mu.Lock()
	return nil
}

// spend counts n units of work, and returns an error if the work exceeds its limit. If a pause is due, it unlocks the
// constraint while Pause runs. The caller holds the lock.
func (t *Text) spend(n int) error {
	if err := t.work.take(n); err != nil {
		return err
	}
	if t.c.m.kept > maxKept {
		t.c.forget()
	}
	if t.work.sincePause < pauseWork || t.Pause == nil {
		return nil
	}
	t.work.sincePause = 0
	t.c.mu.Unlock()
	err := t.Pause()
	t.c.mu.Lock()
	return err
}

// Take appends a token to the text. A token that ends a text appends nothing.
func (t *Text) Take(id int32) error {
	v := t.c.v
	if id < 0 || int(id) >= len(v.pieces) {
		return fmt.Errorf("grammar: token %d: want 0 to %d", id, len(v.pieces)-1)
	}
	if err := t.lock(); err != nil {
		return err
	}
	defer t.c.mu.Unlock()
	t.work.left += tokenWork
	s, piece := t.at, v.pieces[id]
	if piece == "" && !(s.ends && slices.Contains(v.ends, id)) {
		return fmt.Errorf("grammar: token %d is not allowed: it is a special token, or it ends an incomplete text", id)
	}
	return t.append(piece)
}

// TakeText appends text.
func (t *Text) TakeText(text string) error {
	if err := t.lock(); err != nil {
		return err
	}
	defer t.c.mu.Unlock()
	t.work.left += tokenWork
	return t.append(text)
}

// append appends bytes to the text. If the grammar does not allow them, it returns an error and leaves the text
// unchanged. The caller holds the lock.
func (t *Text) append(piece string) error {
	s, m := t.at, t.c.m
	for i := range len(piece) {
		var err error
		s, err = m.step(&t.work, s, m.g.class[piece[i]])
		if err == nil {
			err = t.spend(1)
		}
		if err != nil {
			return err
		}
		if s.dead() {
			return fmt.Errorf("grammar: %q is not allowed at byte %d", piece, i)
		}
	}
	t.at = s
	return nil
}

// Ends reports whether the text is complete: it may end here.
func (t *Text) Ends() bool { return t.at.ends }

// Full reports whether the text cannot be continued.
func (t *Text) Full() bool { return len(t.at.configs) == 0 }

// Mask returns the tokens that may come next, including end tokens if the text is complete. It fails if no token can
// spell any continuation.
func (t *Text) Mask() (Mask, error) {
	if err := t.lock(); err != nil {
		return nil, err
	}
	defer t.c.mu.Unlock()
	if t.at.mask != nil {
		return t.at.mask, nil
	}
	c := t.c
	mask := c.newMask()
	for _, at := range t.at.configs {
		b, err := t.nodeMask(at.at)
		if err != nil {
			return nil, err
		}
		for i, w := range b.mask {
			mask[i] |= w
		}
		if err := t.spend(len(mask) / 8); err != nil {
			return nil, err
		}
		if at.on == nil || len(b.beyond) == 0 {
			continue
		}
		// A token may go on after the end of the current rule, where the stack says what follows.
		back, err := c.m.closure(&t.work, config{at.on.back, at.on.below})
		if err != nil {
			return nil, err
		}
		for _, n := range b.beyond {
			if err := t.walk(n, back, mask, nil); err != nil {
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
		return nil, &TextError{"the grammar allows no token of the vocabulary here"}
	}
	t.at.mask = mask
	return mask, nil
}

// forget empties the caches.
func (c *Constraint) forget() {
	c.m.forget()
	c.nodeMasks = map[int32]*nodeMask{}
}

func (c *Constraint) newMask() Mask {
	mask := make(Mask, (len(c.v.pieces)+63)/64)
	c.m.kept += 8 * len(mask)
	return mask
}

// nodeMask returns the tokens that may follow node at, whatever the stack is, and the trie nodes at which tokens reach
// the end of the node's rule. It caches them.
func (t *Text) nodeMask(at int32) (*nodeMask, error) {
	c := t.c
	if b := c.nodeMasks[at]; b != nil {
		return b, nil
	}
	s, err := c.m.closure(&t.work, config{at, nil})
	if err != nil {
		return nil, err
	}
	b := &nodeMask{mask: c.newMask()}
	if err := t.walk(0, s, b.mask, &b.beyond); err != nil {
		return nil, err
	}
	c.m.kept += 4 * len(b.beyond)
	c.nodeMasks[at] = b
	return b, nil
}

// walkBatch is the number of trie nodes that walk visits before it counts them as work.
const walkBatch = 1 << 10

// walk adds to mask the tokens below trie node n that may follow state from. If the rule of from may end at a trie node
// with longer tokens below it, walk appends the node to beyond: the rest of the longer tokens must match the text after
// the rule's call.
func (t *Text) walk(n int32, from *state, mask Mask, beyond *[]int32) error {
	v, m := t.c.v, t.c.m
	top := v.depths[n]
	path := append(t.path[:0], from) // the states by depth below n
	end := v.after[n]
	visited := 0 // nodes since the last call of spend
	for i := n + 1; i < end; {
		depth := int(v.depths[i] - top)
		class := m.g.class[v.bytes[i]]
		s := path[depth-1].next[class] // a cached result of step, or nil
		visited++
		if s == nil || visited == walkBatch {
			var err error
			s, err = m.step(&t.work, path[depth-1], class)
			if err == nil {
				err = t.spend(visited)
			}
			if err != nil {
				return err
			}
			visited = 0
		}
		if s.dead() {
			i = v.after[i] // skip all tokens with this beginning
			continue
		}
		for _, id := range v.order[v.first[i]:v.first[i+1]] { // tokens that end here
			mask.add(id)
		}
		if s.ends && beyond != nil && v.after[i] > i+1 {
			*beyond = append(*beyond, i)
		}
		path = append(path[:depth], s)
		i++
	}
	t.path = path
	return t.work.take(visited + 1)
}
