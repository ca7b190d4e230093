package llm_test

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
)

// batched has the programs of a model that takes several texts.
type batched struct {
	batch, steps *vkc.Executable
	mixed        func() *vkc.Executable // loads the mixed program
	short        *vkc.Executable        // batch of short texts; nil unless set
	vocab        int
	// pages has the pages of each text. It is nil if texts share no pages.
	pages [][]int32
}

func openBatched(t *testing.T, device string, f *gguf.File, texts int, options ...llm.Option) batched {
	t.Helper()
	return openShort(t, device, f, texts, math.MaxInt, options...)
}

// openShort is openBatched with another program, for texts of at most that number of positions.
func openShort(t *testing.T, device string, f *gguf.File, texts, within int, options ...llm.Option) batched {
	t.Helper()
	dev, err := vkc.OpenDevice(device)
	if device == "vulkan" {
		vktest.Need(t, err)
	} else if err != nil {
		t.Fatal(err)
	}
	vktest.CloseAfter(t, dev)
	cfg, err := llm.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	load := func(g *ir.Graph, err error, share *vkc.Executable) *vkc.Executable {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		exe, err := dev.LoadGraph(t.Context(), g, f, vkc.LoadOptions{Share: share})
		if err != nil {
			t.Fatal(err)
		}
		vktest.CloseAfter(t, exe)
		return exe
	}
	b := batched{vocab: cfg.Vocab}
	g, err := llm.Batch(cfg, texts, cfg.Context, options...)
	b.batch = load(g, err, nil)
	g, err = llm.Steps(cfg, 3, cfg.Context, append(options, llm.Texts(texts))...)
	b.steps = load(g, err, b.batch)
	b.mixed = func() *vkc.Executable {
		g, err := llm.Mixed(cfg, mixedRows, texts, cfg.Context, options...)
		return load(g, err, b.batch)
	}
	if within < cfg.Context {
		g, err = llm.Batch(cfg, texts, cfg.Context, append(options, llm.Within(within))...)
		b.short = load(g, err, b.batch)
	}
	return b
}

// row is a token of a text.
type row struct{ token, text, position int32 }

// run takes one step, and returns the logits of each row.
func (b batched) run(t *testing.T, rows ...row) (logits [][]float64) {
	t.Helper()
	var tokens, texts, positions []int32
	for _, r := range rows {
		tokens, texts, positions = append(tokens, r.token), append(texts, r.text), append(positions, r.position)
	}
	in := vkc.Tensors{"tokens": data(t, tokens), "texts": data(t, texts), "positions": data(t, positions)}
	if b.pages != nil {
		var pages []int32
		for _, r := range rows {
			pages = append(pages, b.pages[r.text]...)
		}
		var err error
		if in["pages"], err = vkc.Of(pages, len(rows), len(pages)/len(rows)); err != nil {
			t.Fatal(err)
		}
	}
	res, err := b.batch.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	all, err := res.Outputs["logits"].Floats()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(slices.Chunk(all, b.vocab))
}

// read takes the beginning of a text.
func (b batched) read(t *testing.T, text int32, tokens []int32) []float64 {
	t.Helper()
	which, err := vkc.Of([]int32{text})
	if err != nil {
		t.Fatal(err)
	}
	var logits []float64
	for begin := 0; begin < len(tokens); begin += 3 {
		end := min(begin+3, len(tokens))
		in := vkc.Tensors{"tokens": data(t, tokens[begin:end]), "text": which}
		if b.pages != nil {
			in["pages"] = data(t, b.pages[text])
		}
		res, err := b.steps.Run(t.Context(), in, vkc.RunOptions{Symbols: map[string]int64{"S": int64(end)}})
		if err != nil {
			t.Fatal(err)
		}
		if logits, err = res.Outputs["logits"].Floats(); err != nil {
			t.Fatal(err)
		}
	}
	return logits
}

// TestBatch runs the text of each golden model three times in a batch, at different positions: one text reads its first
// half at once, one joins later, and one leaves early.
func TestBatch(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(goldenDir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		m := readGolden(t, path)
		if m.Pooled == nil {
			t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
				if m.hasWindow(t) {
					m.testBatch(t, "cpu")
				}
				m.compareMixed(t, m.testBatch(t, "cpu", llm.KeepWindow(3)))
			})
		}
	}
}

// TestBatchOnDevice is TestBatch for models that together have every part of a layer.
func TestBatchOnDevice(t *testing.T) {
	for _, name := range []string{"gemma2", "gpt-oss", "qwen3next"} {
		t.Run(name, func(t *testing.T) {
			m := readGolden(t, filepath.Join(goldenDir, name+".json"))
			b := m.testBatch(t, "vulkan", llm.KeepWindow(3))
			if name == "gemma2" { // which has every part of attention
				m.compareMixed(t, b)
			}
		})
	}
}

func (m goldenModel) testBatch(t *testing.T, device string, options ...llm.Option) batched {
	b := openBatched(t, device, m.file(t), 3, options...)
	m.compareBatch(t, b)
	return b
}

// compareBatch is testBatch with programs that are loaded.
func (m goldenModel) compareBatch(t *testing.T, b batched) {
	t.Helper()
	half := len(m.Tokens) / 2
	compare(t, "the beginning", b.read(t, 2, m.Tokens[:half]), m.Logits[half-1], 1e-3)
	at := []int{0, -2, half} // of each text, the position of its next token
	for step := 0; at[1] < len(m.Tokens); step++ {
		var rows []row
		for i := range at {
			text := (i + step) % len(at) // in any order
			if p := at[text]; p >= 0 && p < len(m.Tokens) && (text != 0 || p < half) {
				rows = append(rows, row{m.Tokens[p], int32(text), int32(p)})
			}
			at[text]++
		}
		for i, got := range b.run(t, rows...) {
			compare(t, fmt.Sprintf("step %d, text %d", step, rows[i].text), got, m.Logits[rows[i].position], 1e-3)
		}
	}
}

// TestBatchOfBlocks: a batch of texts at different positions keeps keys and values in blocks. Each row is written at
// its text's position.
func TestBatchOfBlocks(t *testing.T) {
	f := tiny{dtype: ir.F32, headDim: 32}.file(t)
	exact := openBatched(t, "cpu", f, 3)
	for _, format := range []struct {
		dtype ir.DType
		loses float64 // largest error of a logit
	}{{ir.Q8_0, 0.1}, {ir.Q4_0, 1}} {
		blocks := openBatched(t, "cpu", f, 3, llm.Cache(format.dtype))
		device := openBatched(t, "vulkan", f, 3, llm.Cache(format.dtype))
		for _, b := range []batched{exact, blocks, device} {
			b.read(t, 2, []int32{7, 1, 3, 30})
		}
		for step := range int32(4) {
			rows := []row{{5 + step, 2, 4 + step}, {9 * step, 0, step}}
			if step >= 2 {
				rows = append(rows, row{11, 1, step - 2})
			}
			want, on := blocks.run(t, rows...), device.run(t, rows...)
			for i, near := range exact.run(t, rows...) {
				what := fmt.Sprintf("%v, step %d, row %d", format.dtype, step, i)
				compare(t, what+" in blocks", want[i], near, format.loses)
				compare(t, what+" on the device", on[i], want[i], 0.02)
				if slices.Equal(want[i], near) {
					t.Errorf("%s: blocks lose nothing", what)
				}
			}
		}
	}
}
