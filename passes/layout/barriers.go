package layout

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// barriers inserts a barrier before every step with a data hazard: it accesses data that a step since the last barrier
// wrote, or writes data that such a step read.
func (pl *planner) barriers() {
	borders := pl.p.Borders()
	since := touched{pl: pl}
	since.clear()
	for i := range pl.p.Steps {
		st := &pl.p.Steps[i]
		if pl.p.Begins(i) {
			since.clear()
		}
		st.Barrier = slices.ContainsFunc(st.Binds, since.conflicts) || borders[i]
		if st.Barrier {
			since.clear()
		}
		for _, b := range st.Binds {
			since.add(b)
		}
	}
}

// touched is the set of buffers and arena bytes that steps have read and written since the last barrier.
type touched struct {
	pl                *planner
	written           map[int]bool // by accessed buffer outside the arena: whether it was written
	arena, arenaWrite spans        // arena bytes that were accessed, and the written ones among them
}

func (t *touched) clear() {
	t.written = map[int]bool{}
	t.arena, t.arenaWrite = t.arena[:0], t.arenaWrite[:0]
}

// bytes returns a buffer's range of bytes in the arena. ok is false if the buffer is not in the arena.
func (t *touched) bytes(buffer int) (from, to int64, ok bool) {
	b := t.pl.p.Buffers[buffer]
	return b.Offset, b.Offset + align(b.Bytes, kernel.ArenaAlign), b.Kind == kernel.BufTemp
}

// add records that a step since the last barrier accesses a buffer.
func (t *touched) add(b kernel.Bind) {
	from, to, ok := t.bytes(b.Buffer)
	switch {
	case !ok:
		t.written[b.Buffer] = t.written[b.Buffer] || b.Write
		return
	case b.Write:
		t.arenaWrite.add(from, to)
	}
	t.arena.add(from, to)
}

// conflicts reports whether a step with binding b must wait for steps since the last barrier.
func (t *touched) conflicts(b kernel.Bind) bool {
	from, to, ok := t.bytes(b.Buffer)
	if !ok {
		written, before := t.written[b.Buffer]
		return written || before && b.Write
	}
	seen := t.arenaWrite
	if b.Write {
		seen = t.arena
	}
	_, overlaps := seen.overlaps(from, to)
	return overlaps
}
