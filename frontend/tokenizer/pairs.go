package tokenizer

import "math/bits"

// pairs maps pairs of tokens to the results of merging them. It is a hash table with open addressing, at most half
// full, because merging spends nearly all of its time on lookups, most of which fail.
type pairs struct {
	slots []pairSlot
	shift int // of a hash, to an index of slots
}

type pairSlot struct {
	left, right int32
	rank, id    int32 // id is none in a free slot
}

func newPairs(n int) *pairs {
	size := bits.Len(uint(2*n) | 1)
	p := &pairs{slots: make([]pairSlot, 1<<size), shift: 64 - size}
	for i := range p.slots {
		p.slots[i].id = none
	}
	return p
}

// slot returns a pair's slot, or else the free slot to put it in.
func (p *pairs) slot(left, right int32) *pairSlot {
	// Multiplication by the golden ratio spreads similar keys (Knuth, TAOCP 3, 6.4).
	hash := (uint64(uint32(left))<<32 | uint64(uint32(right))) * 0x9e3779b97f4a7c15
	hash ^= hash >> 32
	hash *= 0x9e3779b97f4a7c15
	for at := int(hash >> p.shift); ; at++ {
		s := &p.slots[at&(len(p.slots)-1)]
		if s.id == none || s.left == left && s.right == right {
			return s
		}
	}
}

// add adds a pair, unless it is there.
func (p *pairs) add(left, right, rank, id int32) {
	if s := p.slot(left, right); s.id == none {
		*s = pairSlot{left, right, rank, id}
	}
}

// find returns the result of merging a pair. The id is none if the pair does not merge.
func (p *pairs) find(left, right int32) (rank, id int32) {
	s := p.slot(left, right)
	return s.rank, s.id
}
