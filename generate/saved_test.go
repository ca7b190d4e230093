package generate

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
)

// TestSavedSlot: a slot that is saved and restored, also into another slot or model, continues as before, with the
// same bits, and its prompt is not computed again.
func TestSavedSlot(t *testing.T) {
	path := tinyModel(t)
	text := []int32{1, 5, 6, 7, 8, 9, 5, 6}
	for name, o := range map[string]Options{
		"one": {}, "several": {Parallel: 3}, "pages": {Parallel: 3, Positions: 192}, "shift": {ContextShift: true},
	} {
		t.Run(name, func(t *testing.T) {
			o.Device, o.Context = "cpu", 80
			m := openModel(t, path, o)
			ask := func(m *Model) (said string, known int) {
				var all strings.Builder
				s := Sampling{MaxTokens: 6, Known: func(n int) { known = n }}
				for _, token := range answerOf(t, m, text, s) {
					all.WriteString(token.Text)
				}
				return all.String(), known
			}
			want, _ := ask(m)
			at := 0
			for i, s := range m.Slots() {
				if s.Tokens > 0 {
					at = i
				}
			}
			var file bytes.Buffer
			n, err := m.SaveSlot(t.Context(), at, &file)
			if err != nil || n < len(text) {
				t.Fatalf("%d tokens, %v", n, err)
			}
			if n, err := m.EraseSlot(t.Context(), at); n == 0 || err != nil || m.Slots()[at].Tokens != 0 {
				t.Errorf("erase: %d, %v, %+v", n, err, m.Slots())
			}
			other := openModel(t, path, o)
			for i, m := range []*Model{m, other} {
				into := i * (m.Parallel() - 1)
				if got, err := m.RestoreSlot(t.Context(), into, bytes.NewReader(file.Bytes())); err != nil || got != n {
					t.Fatalf("model %d: %d tokens, %v, want %d", i, got, err, n)
				}
				if got, known := ask(m); got != want || known != len(text)-1 {
					t.Errorf("model %d: %q with %d tokens known, want %q with %d", i, got, known, want, len(text)-1)
				}
			}
			for at := 0; at < file.Len(); at += max(1, file.Len()/40) { // damage is found, and changes nothing
				data := bytes.Clone(file.Bytes())
				data[at] ^= 0x10
				_, err := m.RestoreSlot(t.Context(), 0, bytes.NewReader(data))
				_, short := m.RestoreSlot(t.Context(), 0, bytes.NewReader(data[:at]))
				var wrong *SlotError
				if !errors.As(err, &wrong) || !errors.As(short, &wrong) {
					t.Errorf("byte %d: %v; cut there: %v", at, err, short)
				}
			}
			if got, _ := ask(m); got != want {
				t.Errorf("after damaged files %q, want %q", got, want)
			}
		})
	}
}

// TestSlotErrors: slots that are not there or empty are refused, and a task that is given up leaves the engine alone.
func TestSlotErrors(t *testing.T) {
	m := openModel(t, tinyModel(t), Options{Device: "cpu", Context: 32})
	var file bytes.Buffer
	for _, index := range []int{-1, 1, 0} {
		if _, err := m.SaveSlot(t.Context(), index, &file); err == nil || file.Len() > 0 {
			t.Errorf("slot %d is saved", index)
		}
	}
	for range m.Generate(t.Context(), []int32{1, 5}, Sampling{}) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := m.SaveSlot(ctx, 0, &file); !errors.Is(err, context.Canceled) {
			t.Errorf("a busy slot, given up: %v", err)
		}
		break
	}
	if _, err := m.SaveSlot(t.Context(), 0, &file); err != nil {
		t.Errorf("once it is idle: %v", err)
	}
}
