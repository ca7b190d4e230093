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
		return wrongOption("Positions", "a KV cache of %d positions that answers share: want at least 2 answers at "+
			"once", o.Positions)
	case o.Positions < m.context:
		return wrongOption("Positions", "a KV cache of %d positions that answers share, with a context of %d: want at "+
			"least as many", o.Positions, m.context)
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

// reservePages gives a slot the number of pages that its answer may need at most, so that a running answer never
// waits for pages. If there are no more free pages, it takes pages from idle slots: last pages first, beginning with
// the slot that was released longest ago. If all these are too few, it changes nothing and returns false.
func (e *engine) reservePages(s *slot, need int) bool {
	available := len(s.pages) + len(e.freePages)
	for i := range e.slots {
		if o := &e.slots[i]; o != s && o.answer == nil {
			available += len(o.pages)
		}
	}
	if available < need {
		return false
	}
	for len(s.pages) < need {
		if len(e.freePages) == 0 {
			e.oldestIdle(s).freeLastPage(e)
		}
		last := len(e.freePages) - 1
		s.pages, e.freePages = append(s.pages, e.freePages[last]), e.freePages[:last]
	}
	// The slot may have more pages from an earlier answer.
	for len(s.pages) > need {
		s.freeLastPage(e)
	}
	return true
}

// oldestIdle returns the idle slot with pages, other than s, that was released longest ago.
func (e *engine) oldestIdle(s *slot) (first *slot) {
	for i := range e.slots {
		o := &e.slots[i]
		if o != s && o.answer == nil && len(o.pages) > 0 && (first == nil || o.lastUse < first.lastUse) {
			first = o
		}
	}
	return first
}

// freeLastPage frees the last page of an idle slot.
func (s *slot) freeLastPage(e *engine) {
	last := len(s.pages) - 1
	s.pages, e.freePages = s.pages[:last], append(e.freePages, s.pages[last])
	s.truncate(min(len(s.cached), last*llm.PageSize))
}

// pageTable lists the slot's pages as the programs expect them.
func (s *slot) pageTable() []int32 {
	all := make([]int32, llm.PagesOf(s.model.context)) // pages beyond the text's length may be any
	copy(all, s.pages)
	return all
}

// capacity returns the number of positions that the slot may write.
func (s *slot) capacity() int {
	if s.model.pages == 0 {
		return s.model.context
	}
	return min(len(s.pages)*llm.PageSize, s.model.context)
}
