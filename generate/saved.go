package generate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/ir"
)

// SlotInfo describes a slot: the part of the KV cache that one answer at a time uses.
type SlotInfo struct {
	Tokens int  // in its cache
	Busy   bool // whether an answer uses it
}

// SlotError says why a slot cannot be saved or restored.
type SlotError struct{ what string }

func (e *SlotError) Error() string { return e.what }

func wrongSlot(format string, args ...any) error { return &SlotError{fmt.Sprintf(format, args...)} }

// Slots describes the slots, in order.
func (m *Model) Slots() []SlotInfo {
	m.engine.mu.Lock()
	defer m.engine.mu.Unlock()
	return slices.Clone(m.engine.described)
}

// SaveSlot writes the tokens of a slot, with their keys and values, to w. It waits while an answer uses the slot. It
// returns the number of tokens. The file has a magic word, the length of the head, the head as JSON, the states, and a
// SHA-256 checksum.
func (m *Model) SaveSlot(ctx context.Context, index int, w io.Writer) (tokens int, err error) {
	var head savedSlot
	var parts [][]byte
	err = m.engine.withSlot(ctx, index, func(s *slot) (err error) {
		head, parts, err = s.save()
		return err
	})
	if err != nil {
		return 0, err
	}
	text, err := json.Marshal(head)
	if err != nil {
		return 0, err
	}
	sum := sha256.New()
	all := io.MultiWriter(w, sum)
	prefix := binary.LittleEndian.AppendUint32([]byte(slotMagic), uint32(len(text)))
	for _, part := range append([][]byte{prefix, text}, parts...) {
		if _, err := all.Write(part); err != nil {
			return 0, err
		}
	}
	_, err = w.Write(sum.Sum(nil))
	return len(head.Tokens), err
}

// RestoreSlot reads a file of SaveSlot into a slot. It waits while an answer uses the slot, and returns the number of
// tokens. The file must come from the same model, with the same dtype of the KV cache and the same context shift.
// Otherwise, or if it is damaged, RestoreSlot returns an error and changes nothing.
func (m *Model) RestoreSlot(ctx context.Context, index int, r io.Reader) (tokens int, err error) {
	sum := sha256.New()
	all := io.TeeReader(r, sum)
	prefix := make([]byte, len(slotMagic)+4)
	if _, err := io.ReadFull(all, prefix); err != nil || string(prefix[:len(slotMagic)]) != slotMagic {
		return 0, wrongSlot("the file is not a saved slot: want a file that this server has written")
	}
	size := binary.LittleEndian.Uint32(prefix[len(slotMagic):])
	// A hostile file must not make the server allocate more than a head may need.
	if size > uint32(64*m.context+maxSlotHead) {
		return 0, wrongSlot("the file is damaged, or of a model with more context: its head has %d bytes", size)
	}
	var head savedSlot
	text := make([]byte, size)
	if _, err := io.ReadFull(all, text); err != nil || json.Unmarshal(text, &head) != nil {
		return 0, wrongSlot("the file is damaged: its head is not complete")
	}
	if err := m.checkSaved(head); err != nil {
		return 0, err
	}
	ports, err := m.textStates()
	if err != nil {
		return 0, err
	}
	parts := make([][]byte, len(ports))
	for i, p := range ports {
		parts[i] = make([]byte, p.heads*len(p.positions(m, len(head.Tokens), nil))*p.row)
		if _, err := io.ReadFull(all, parts[i]); err != nil {
			return 0, wrongSlot("the file ends too early, in %s", p.name)
		}
	}
	want, have := sum.Sum(nil), make([]byte, sha256.Size)
	if _, err := io.ReadFull(r, have); err != nil || !bytes.Equal(have, want) {
		return 0, wrongSlot("the file is damaged: its checksum is wrong")
	}
	err = m.engine.withSlot(ctx, index, func(s *slot) error { return s.restore(head, parts) })
	return len(head.Tokens), err
}

// EraseSlot empties an idle slot. It returns the number of tokens that it had.
func (m *Model) EraseSlot(ctx context.Context, index int) (tokens int, err error) {
	err = m.engine.withSlot(ctx, index, func(s *slot) error {
		tokens = len(s.cached)
		s.truncate(0)
		return nil
	})
	return tokens, err
}

// slotMagic begins the file of a slot. The length of its head in JSON follows, then the head, the bytes of the states,
// and the SHA-256 of all that.
const slotMagic = "vkc slot 1\n"

// maxSlotHead bounds the head of a file without its tokens.
const maxSlotHead = 64 << 10

// savedSlot is the head of a slot's file.
type savedSlot struct {
	Model      string    `json:"model"` // see Model.fingerprint
	Tokens     []int32   `json:"tokens"`
	Written    int       `json:"written"`
	Moved      bool      `json:"moved"`
	WholeParts int       `json:"whole_parts"`
	Scales     []float32 `json:"scales"`
}

// textState is a state [heads, positions, width] of the KV cache.
type textState struct {
	name       string
	heads, all int
	row        int  // bytes of one position of one head
	paged      bool // whether texts share its positions in pages
}

// textStates lists the states of the KV cache.
func (m *Model) textStates() (list []textState, err error) {
	for _, p := range m.step.States() {
		if !strings.HasPrefix(p.Name, "cache_") || len(p.Type.Shape) != 3 {
			return nil, wrongSlot("state %s of this model cannot be saved: only models with a KV cache and no other "+
				"states can", p.Name)
		}
		dims := make([]int, 3)
		for i, d := range p.Type.Shape {
			dims[i] = int(d.Max())
		}
		size, err := ir.ByteSize(p.Type.DType, dims)
		if err != nil {
			return nil, err
		}
		var layer int // the name ends with its number
		fmt.Sscanf(p.Name[strings.LastIndex(p.Name, ".")+1:], "%d", &layer)
		list = append(list, textState{p.Name, dims[0], dims[1], int(size) / (dims[0] * dims[1]),
			m.pages > 0 && !m.config.KeepsRing(layer, m.context, m.cache(m.options)...)})
	}
	return list, nil
}

// positions lists the positions in the state that hold the keys or values of the first tokens of a slot's text. If s is
// nil, only the length of the list has a meaning.
func (p textState) positions(m *Model, tokens int, s *slot) []int {
	each := p.all / m.slotCount // positions of a slot
	used := each                // in a ring of the last positions, which a sliding-window layer has
	if p.paged || each >= m.context {
		used = tokens
	}
	list := make([]int, used)
	for i := range list {
		switch {
		case s == nil:
		case p.paged:
			list[i] = int(s.pages[i/llm.PageSize])*llm.PageSize + i%llm.PageSize
		default:
			list[i] = int(s.index)*each + i
		}
	}
	return list
}

// fingerprint returns a hash of the model, its adapters and the form of its KV cache. From each weight it hashes only
// the name, the type and the first 64 bytes.
func (m *Model) fingerprint() (string, error) {
	sum := sha256.New()
	arch, err := m.file.String("general.architecture")
	if err != nil {
		return "", err
	}
	fmt.Fprintf(sum, "%v %v %v %v\n", arch, m.cacheType(m.options), m.shift != nil, m.part)
	for _, f := range m.AdapterFiles() {
		fmt.Fprintln(sum, f.Path, f.Scale)
	}
	for _, t := range m.file.Tensors() {
		d, err := m.file.Weight(t.Name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %v %v %x\n", t.Name, d.DType, d.Dims, d.Bytes[:min(len(d.Bytes), 64)])
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}

// checkSaved refuses the head of a file that does not fit the model.
func (m *Model) checkSaved(head savedSlot) error {
	own, err := m.fingerprint()
	n := len(head.Tokens)
	switch {
	case err != nil:
		return err
	case head.Model != own:
		return wrongSlot("the file is of another model, or has another dtype of the KV cache")
	case n == 0 || n > m.context:
		return wrongSlot("the file has %d tokens, and the context %d: want 1 to %[2]d", n, m.context)
	case head.Written < n || head.WholeParts < 0 || head.WholeParts > n || len(head.Scales) > len(m.adapters):
		return wrongSlot("the file is damaged: its head is wrong")
	}
	return m.checkTokens(head.Tokens)
}

// save returns the contents of a slot: a head with its tokens, and for each state the bytes of its heads at the slot's
// positions. It returns an error for an empty slot, and for one with a picture.
func (s *slot) save() (head savedSlot, parts [][]byte, err error) {
	m := s.model
	head = savedSlot{Tokens: slices.Clone(s.cached), Written: s.written, Moved: s.moved, WholeParts: s.wholeParts,
		Scales: s.scales}
	if untilImage(s.cached) < len(s.cached) {
		return head, nil, wrongSlot("slot %d has a picture: only text can be saved", s.index)
	}
	if len(s.cached) == 0 {
		return head, nil, wrongSlot("slot %d is empty: want a slot that has answered", s.index)
	}
	if head.Model, err = m.fingerprint(); err != nil {
		return head, nil, err
	}
	ports, err := m.textStates()
	for _, p := range ports {
		d, err := m.step.ReadState(p.name)
		if err != nil {
			return head, nil, err
		}
		var part []byte
		for h := range p.heads {
			for _, at := range p.positions(m, len(s.cached), s) {
				// The state is [heads, p.all], of p.row bytes.
				part = append(part, d.Bytes[(h*p.all+at)*p.row:][:p.row]...)
			}
		}
		parts = append(parts, part)
	}
	return head, parts, err
}

// restore replaces the contents of a slot by a head and the bytes of each state, in the order of save. It returns an
// error if the cache has too few free pages.
func (s *slot) restore(head savedSlot, parts [][]byte) error {
	m := s.model
	s.truncate(0)
	if m.pages > 0 && !m.engine.reservePages(s, llm.PagesOf(len(head.Tokens))) {
		return wrongSlot("the KV cache has no room for %d tokens now, because other answers use its pages: try again "+
			"later", len(head.Tokens))
	}
	ports, err := m.textStates()
	if err != nil {
		return err
	}
	for i, p := range ports {
		d, err := m.step.ReadState(p.name)
		if err != nil {
			return err
		}
		// A state is [heads, positions, bytes]. part has only the positions of the slot's text, head by head.
		part := parts[i]
		for h := range p.heads {
			for _, at := range p.positions(m, len(head.Tokens), s) {
				copy(d.Bytes[(h*p.all+at)*p.row:], part[:p.row])
				part = part[p.row:]
			}
		}
		if err := m.step.WriteState(p.name, d); err != nil {
			return err
		}
	}
	s.cached, s.written, s.moved, s.wholeParts = head.Tokens, head.Written, head.Moved, head.WholeParts
	s.scales, s.lastUse = head.Scales, m.engine.steps
	return nil
}

// slotTask is work on an idle slot, which the engine's goroutine does between two steps.
type slotTask struct {
	ctx   context.Context
	index int
	do    func(*slot) error
	done  chan error // has room for the result
}

// withSlot calls do with a slot as soon as no answer uses it, and returns do's error. It returns an error early if ctx
// ends or the engine closes.
func (e *engine) withSlot(ctx context.Context, index int, do func(*slot) error) error {
	if index < 0 || index >= len(e.slots) {
		return wrongSlot("there is no slot %d: want 0 to %d", index, len(e.slots)-1)
	}
	task := slotTask{ctx, index, do, make(chan error, 1)}
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return errClosed
	}
	e.tasks = append(e.tasks, task)
	e.mu.Unlock()
	notify(e.wake)
	defer context.AfterFunc(ctx, func() { notify(e.wake) })()
	select {
	case err := <-task.done:
		return err
	case <-e.ended:
		return errClosed
	}
}

// runTasks runs the tasks of withSlot for slots that are idle, and ends tasks with a canceled context. A slot with a
// waiting task gets no answer.
func (e *engine) runTasks() {
	e.mu.Lock()
	var now, later []slotTask
	for _, t := range e.tasks {
		if t.ctx.Err() == nil && e.slots[t.index].answer != nil {
			later = append(later, t)
		} else {
			now = append(now, t)
		}
	}
	e.tasks = later
	e.mu.Unlock()
	for _, t := range now {
		err := t.ctx.Err()
		if err == nil {
			err = t.do(&e.slots[t.index])
		}
		e.mu.Lock()
		e.describeSlots() // before the caller asks what the slots have now
		e.mu.Unlock()
		t.done <- err
	}
}

// hasTask reports whether work on a slot waits.
func (e *engine) hasTask(index int) bool {
	return slices.ContainsFunc(e.tasks, func(t slotTask) bool { return t.index == index })
}
