package tokenizer

import "math/bits"

// pairs maps a pair of tokens to the token into which they merge, and to the rank of the merge. Merging spends nearly
// all its time on lookups, and most find nothing. So pairs is a hash table with open addressing, at most half full.
type pairs struct {
	slots []pairSlot
	shift int // hash >> shift is an index of slots
}

type pairSlot struct {
	left, right int32
	rank, id    int32 // id is none in a free slot
}

// newPairs returns an empty table for at most n pairs.
func newPairs(n int) *pairs {
	size := bits.Len(uint(2*n) | 1)
	p := &pairs{slots: make([]pairSlot, 1<<size), shift: 64 - size}
	for i := range p.slots {
		p.slots[i].id = none
	}
	return p
}

// slot returns the slot of a pair, or the free slot for it if the table lacks the pair.
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

// add adds a pair, unless the table has it already.
func (p *pairs) add(left, right, rank, id int32) {
	if s := p.slot(left, right); s.id == none {
		*s = pairSlot{left, right, rank, id}
	}
}

// find returns the rank of a pair and the token into which it merges, or none if it does not merge.
func (p *pairs) find(left, right int32) (rank, id int32) {
	s := p.slot(left, right)
	return s.rank, s.id
}
