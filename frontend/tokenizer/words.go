package tokenizer

import "hash/maphash"

// words caches the tokens of recent words: the last two per hash value. It has a fixed size, so that a text of distinct
// words costs only failed lookups.
type words struct {
	seed  maphash.Seed
	slots []wordSlot
}

// Limits of the word cache. Longer words rarely repeat.
const (
	wordSlots    = 1 << 13
	maxWordBytes = 46
	maxWordIDs   = 12
)

type wordSlot struct {
	size, count uint8 // of the word and of its tokens; no word is empty
	word        [maxWordBytes]byte
	ids         [maxWordIDs]int32
}

// get appends the tokens of a word, if they are known.
func (w *words) get(out []int32, word string) (all []int32, ok bool) {
	place := w.place(word)
	for i := range place {
		if s := &place[i]; int(s.size) == len(word) && string(s.word[:s.size]) == word {
			return append(out, s.ids[:s.count]...), true
		}
	}
	return out, false
}

// put caches the tokens of a word, if they fit into an entry.
func (w *words) put(word string, ids []int32) {
	if place := w.place(word); place != nil && len(ids) <= maxWordIDs {
		place[1] = place[0]
		s := &place[0]
		s.size, s.count = uint8(copy(s.word[:], word)), uint8(copy(s.ids[:], ids))
	}
}

// place returns the two slots for a word, or nil if the word is too long.
func (w *words) place(word string) []wordSlot {
	if len(word) > maxWordBytes {
		return nil
	}
	if w.slots == nil {
		w.seed, w.slots = maphash.MakeSeed(), make([]wordSlot, wordSlots)
	}
	at := maphash.String(w.seed, word) % (wordSlots / 2) * 2
	return w.slots[at : at+2]
}
