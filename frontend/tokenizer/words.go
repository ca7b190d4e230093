package tokenizer

import "hash/maphash"

// words caches the tokens of recent words: two words per hash value. Its size is fixed, so a text with only different
// words costs no more than failed lookups.
type words struct {
	seed  maphash.Seed
	slots []wordSlot
}

// Limits of the word cache. Words with more bytes or tokens are not cached, because they rarely repeat.
const (
	wordSlots    = 1 << 13
	maxWordBytes = 46
	maxWordIDs   = 12
)

type wordSlot struct {
	size, count uint8 // number of bytes of the word, 0 for a free slot, and of tokens
	word        [maxWordBytes]byte
	ids         [maxWordIDs]int32
}

// get appends the tokens of a word to out, if the cache has them. ok reports whether it does.
func (w *words) get(out []int32, word string) (all []int32, ok bool) {
	place := w.slotsOf(word)
	for i := range place {
		if s := &place[i]; int(s.size) == len(word) && string(s.word[:s.size]) == word {
			return append(out, s.ids[:s.count]...), true
		}
	}
	return out, false
}

// put caches the tokens of a word, if they fit into an entry.
func (w *words) put(word string, ids []int32) {
	if place := w.slotsOf(word); place != nil && len(ids) <= maxWordIDs {
		place[1] = place[0] // the older word of the two is lost
		s := &place[0]
		s.size, s.count = uint8(copy(s.word[:], word)), uint8(copy(s.ids[:], ids))
	}
}

// slotsOf returns the two slots for words with this word's hash, or nil if the word is too long.
func (w *words) slotsOf(word string) []wordSlot {
	if len(word) > maxWordBytes {
		return nil
	}
	if w.slots == nil {
		w.seed, w.slots = maphash.MakeSeed(), make([]wordSlot, wordSlots)
	}
	at := maphash.String(w.seed, word) % (wordSlots / 2) * 2 // the first slot of a pair
	return w.slots[at : at+2]
}
