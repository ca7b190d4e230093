package generate

import (
	"github.com/vkc-go/vkc/frontend/llm"
)

// checkPositions checks Options.Positions, the size of a KV cache that answers share. It refuses a size that is of no
// use: with one answer at a time, or below the context of one answer.
func (m *Model) checkPositions(o Options) error {
	m.pages = llm.PagesOf(o.Positions)
	switch {
	case o.Positions == 0:
	case m.slotCount == 1:
		return wrongOption("Positions", "room for %d positions that answers share: want at least 2 answers at once",
			o.Positions)
	case o.Positions < m.context:
		return wrongOption("Positions", "room for %d positions that answers share, and a context of %d: want at least "+
			"as many", o.Positions, m.context)
	}
	return nil
}

// positions returns the total number of positions in the KV cache, for all texts.
func (m *Model) positions() int {
	if m.pages > 0 {
		return m.pages * llm.PageSize
	}
	return m.slotCount * m.context
}

// pages returns the maximum number of pages that an answer can need.
func (a *answer) pages(context int) int {
	if most := a.chooser.sampling.MaxTokens; most > 0 {
		context = min(context, len(a.text)+most)
	}
	return llm.PagesOf(context)
}

// provide gives a slot the number of pages that its answer may need at most, so that a running answer never waits for
// pages. If there are no more spare pages, it takes pages from idle slots: last pages first, beginning with the slot
// that was released longest ago. If all these are too few, it changes nothing and returns false.
func (e *engine) provide(s *slot, need int) bool {
	there := len(s.pages) + len(e.spare)
	for i := range e.slots {
		if o := &e.slots[i]; o != s && o.of == nil {
			there += len(o.pages)
		}
	}
	if there < need {
		return false
	}
	for len(s.pages) < need {
		if len(e.spare) == 0 {
			e.oldest(s).giveBack(e)
		}
		last := len(e.spare) - 1
		s.pages, e.spare = append(s.pages, e.spare[last]), e.spare[:last]
	}
	for len(s.pages) > need {
		s.giveBack(e)
	}
	return true
}

// oldest is the idle slot with pages, other than s, that was released longest ago.
func (e *engine) oldest(s *slot) (first *slot) {
	for i := range e.slots {
		o := &e.slots[i]
		if o != s && o.of == nil && len(o.pages) > 0 && (first == nil || o.since < first.since) {
			first = o
		}
	}
	return first
}

// giveBack frees the last page of an idle slot.
func (s *slot) giveBack(e *engine) {
	last := len(s.pages) - 1
	s.pages, e.spare = s.pages[:last], append(e.spare, s.pages[last])
	s.keep(min(len(s.past), last*llm.PageSize))
}

// table lists the slot's pages as the programs expect them.
func (s *slot) table() []int32 {
	all := make([]int32, llm.PagesOf(s.model.context)) // pages beyond the text's length may be any
	copy(all, s.pages)
	return all
}

// room is the number of positions that the slot may write.
func (s *slot) room() int {
	if s.model.pages == 0 {
		return s.model.context
	}
	return min(len(s.pages)*llm.PageSize, s.model.context)
}
