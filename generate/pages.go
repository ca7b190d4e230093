package generate

import (
	"github.com/vkc-go/vkc/frontend/llm"
)

// checkPositions refuses room for keys and values that no answer could use.
func (m *Model) checkPositions(o Options) error {
	m.pages = llm.PagesOf(o.Positions)
	switch {
	case o.Positions == 0:
	case m.places == 1:
		return wrongOption("Positions", "room for %d positions that answers share: want at least 2 answers at once",
			o.Positions)
	case o.Positions < m.context:
		return wrongOption("Positions", "room for %d positions that answers share, and a context of %d: want at least "+
			"as many", o.Positions, m.context)
	}
	return nil
}

// positions is how many positions of keys and values there are for all texts together.
func (m *Model) positions() int {
	if m.pages > 0 {
		return m.pages * llm.PageSize
	}
	return m.places * m.context
}

// pages is how many an answer may come to take.
func (a *answer) pages(context int) int {
	if most := a.chooser.sampling.MaxTokens; most > 0 {
		context = min(context, len(a.text)+most)
	}
	return llm.PagesOf(context)
}

// provide gives a slot as many pages as an answer may come to take, so that no answer has to wait once it is begun. It
// takes them from texts that nobody goes on with, their ends first, the text that was left first before others. It
// reports whether there were enough.
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

// oldest is the slot but for s whose text was left first, of those that have pages and no answer.
func (e *engine) oldest(s *slot) (first *slot) {
	for i := range e.slots {
		o := &e.slots[i]
		if o != s && o.of == nil && len(o.pages) > 0 && (first == nil || o.since < first.since) {
			first = o
		}
	}
	return first
}

// giveBack frees the last page of a text that nobody goes on with.
func (s *slot) giveBack(e *engine) {
	last := len(s.pages) - 1
	s.pages, e.spare = s.pages[:last], append(e.spare, s.pages[last])
	s.keep(min(len(s.past), last*llm.PageSize))
}

// table lists the pages of the text as the programs want them.
func (s *slot) table() []int32 {
	all := make([]int32, llm.PagesOf(s.model.context)) // what no position of the text needs may be any page
	copy(all, s.pages)
	return all
}

// room is how many positions a text has a place for that is no other text's.
func (s *slot) room() int {
	if s.model.pages == 0 {
		return s.model.context
	}
	return min(len(s.pages)*llm.PageSize, s.model.context)
}
