package llm_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/ir"
)

// mixedRows is the size of the mixed step of these tests.
const mixedRows = 64

// runMixed runs parts of texts together, and returns the logits of those that have them.
func (b batched) runMixed(t *testing.T, exe *vkc.Executable, parts ...llm.Part) (logits [][]float64) {
	t.Helper()
	in, tensors := llm.InputsOf(parts), vkc.Tensors{}
	for _, p := range []struct {
		name    string
		values  []int32
		columns int
	}{{"rows", in.Rows, 4}, {"single", in.Single, 3}, {"runs", in.Tiles, 3}} {
		var err error
		if tensors[p.name], err = vkc.Of(p.values, len(p.values)/p.columns, p.columns); err != nil {
			t.Fatal(err)
		}
	}
	tensors["ends"] = data(t, in.Ends)
	if b.pages != nil {
		var err error
		if tensors["pages"], err = vkc.Of(slices.Concat(b.pages...), len(b.pages), len(b.pages[0])); err != nil {
			t.Fatal(err)
		}
	}
	res, err := exe.Run(t.Context(), tensors)
	if err != nil {
		t.Fatal(err)
	}
	all, err := res.Outputs["logits"].Floats()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(slices.Chunk(all, b.vocab))
}

// compareMixed runs parts of three texts together: in one run a text goes on by one token, another one by several, and
// a third one begins. The logits are those of the whole text. Models with recurrent layers have no mixed program.
func (m goldenModel) compareMixed(t *testing.T, b batched) {
	t.Helper()
	cfg, err := llm.FromGGUF(m.file(t))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.IsRecurrent() {
		return
	}
	exe := b.mixed()
	at := make([]int, 3) // of each text, the position of its next token
	for step, sizes := range [][]int{{0, 0, 2}, {2, 0, 1}, {1, 3, 2}, {3, 0, 0}, {1, 3, 1}, {3, 3, 3}} {
		var parts []llm.Part
		for i := range at {
			text := (i + step) % len(at) // in any order
			begin := at[text]
			if at[text] = min(begin+sizes[text], len(m.Tokens)); at[text] > begin {
				parts = append(parts, llm.Part{Text: text, Position: begin, Tokens: m.Tokens[begin:at[text]],
					Ends: true})
			}
		}
		for i, got := range b.runMixed(t, exe, parts...) {
			compare(t, fmt.Sprintf("mixed step %d, text %d", step, parts[i].Text), got,
				m.Logits[at[parts[i].Text]-1], 1e-3)
		}
	}
}

// TestMixedInputs: rows, and what attention takes together, for parts of one token, of a run, and of more.
func TestMixedInputs(t *testing.T) {
	long := make([]int32, llm.QueryTile+2)
	for i := range long {
		long[i] = int32(100 + i)
	}
	in := llm.InputsOf([]llm.Part{{Text: 4, Position: 7, Tokens: []int32{9}, Ends: true}, {Text: 2, Position: 3,
		Tokens: long}, {Text: 1, Tokens: []int32{5, 6}, Ends: true},
		{Text: 0, Position: 1, Tokens: []int32{8}, Ends: true}})
	const last = 1 + llm.QueryTile + 2
	if want := []int32{4, 7, 0, 0, 1, last + 2}; !slices.Equal(in.Single, want) {
		t.Errorf("single %v, want %v", in.Single, want)
	}
	if want := []int32{2, 3, 1, 2, 3 + llm.QueryTile, 1 + llm.QueryTile, 1, 0, last}; !slices.Equal(in.Tiles, want) {
		t.Errorf("runs %v, want %v", in.Tiles, want)
	}
	if want := []int32{0, last + 1, last + 2}; !slices.Equal(in.Ends, want) {
		t.Errorf("ends %v, want %v", in.Ends, want)
	}
	for row, want := range map[int][]int32{0: {9, 4, 7, 0}, 1: {100, 2, 3, 2},
		llm.QueryTile + 2: {101 + llm.QueryTile, 2, 4 + llm.QueryTile, 3 + llm.QueryTile},
		last + 1:          {6, 1, 1, 3 + 2*llm.QueryTile}, last + 2: {8, 0, 1, 1}} {
		if got := in.Rows[4*row:][:4]; !slices.Equal(got, want) {
			t.Errorf("row %d is %v, want %v", row, got, want)
		}
	}
	only := llm.InputsOf([]llm.Part{{Text: 3, Position: 2, Tokens: []int32{1, 2}}})
	if first := []int32{3, 2, 0}; !slices.Equal(only.Single, first) || !slices.Equal(only.Ends, []int32{0}) ||
		only.Rows[3] != 1 {
		t.Errorf("one part: %+v", only)
	}
	for _, tt := range []struct{ rows, parts, length, want int }{{128, 0, 0, 128}, {128, 1, 100, 28}, {128, 7, 2, 32},
		{128, 8, 2, 1}, {40, 39, 1, 1}, {40, 40, 1, 0}} {
		parts := slices.Repeat([]llm.Part{{Tokens: make([]int32, tt.length)}}, tt.parts)
		if got := llm.RoomFor(tt.rows, parts); got != tt.want {
			t.Errorf("%+v: room for %d tokens", tt, got)
		}
	}
}

func TestMixedRefuses(t *testing.T) {
	cfg, err := llm.FromGGUF(tiny{dtype: ir.F32}.file(t))
	if err != nil {
		t.Fatal(err)
	}
	recurrent := cfg
	recurrent.Recurrent.Window = 4
	for want, build := range map[string]func() (*ir.Graph, error){
		"want at least 2":    func() (*ir.Graph, error) { return llm.Mixed(cfg, 8, 1, cfg.Context) },
		"want at least one":  func() (*ir.Graph, error) { return llm.Mixed(cfg, 0, 2, cfg.Context) },
		"recurrent states":   func() (*ir.Graph, error) { return llm.Mixed(recurrent, 8, 2, cfg.Context) },
		"context of the mod": func() (*ir.Graph, error) { return llm.Mixed(cfg, 8, 2, cfg.Context+1) },
	} {
		if _, err := build(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
