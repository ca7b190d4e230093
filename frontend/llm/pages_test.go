package llm_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/ir"
)

// TestPages: texts that share pages have the logits that texts with room of their own have, whichever pages they have.
func TestPages(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(goldenDir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		m := readGolden(t, path)
		if m.Pooled == nil {
			t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
				m.compareMixed(t, m.testPages(t, "cpu"))
				if m.hasWindow(t) {
					m.testPages(t, "cpu", llm.KeepWindow(3))
				}
			})
		}
	}
}

// TestPagesOnDevice is TestPages for models that together have every part of a layer.
func TestPagesOnDevice(t *testing.T) {
	for _, name := range []string{"deepseek2", "gemma2"} {
		t.Run(name, func(t *testing.T) {
			readGolden(t, filepath.Join(goldenDir, name+".json")).testPages(t, "vulkan", llm.KeepWindow(3))
		})
	}
}

func (m goldenModel) testPages(t *testing.T, device string, options ...llm.Option) batched {
	t.Helper()
	const pages = 5
	b := openBatched(t, device, m.file(t), 3, append(options, llm.Pages(pages))...)
	cfg, err := llm.FromGGUF(m.file(t))
	if err != nil {
		t.Fatal(err)
	}
	if n := llm.PagesOf(cfg.Context); n != 1 {
		t.Fatalf("the context of %d takes %d pages", cfg.Context, n)
	}
	b.pages = [][]int32{{4}, {1}, {2}}
	m.compareBatch(t, b)
	return b
}

// TestManyPages: a text in several pages, in any order, next to another text, for every cache dtype; and a step for
// short texts.
func TestManyPages(t *testing.T) {
	for _, device := range []string{"cpu", "vulkan"} {
		for _, dtype := range []ir.DType{ir.F32, ir.F16, ir.Q8_0, ir.Q4_0} {
			if device == "vulkan" && dtype != ir.Q8_0 { // TestPagesOnDevice has f32 there, and package generate f16
				continue
			}
			testManyPages(t, device, dtype)
		}
	}
}

func testManyPages(t *testing.T, device string, dtype ir.DType) {
	t.Helper()
	f := tiny{dtype: ir.F32, headDim: 32,
		meta: map[string]any{"llama.context_length": uint32(3 * llm.PageSize)}}.file(t)
	const within = llm.PageSize + 17
	own := openShort(t, device, f, 2, within, llm.Cache(dtype))
	shared := openShort(t, device, f, 2, within, llm.Cache(dtype), llm.Pages(7))
	shared.pages = [][]int32{{6, 0, 3}, {2, 5, 1}}
	tokens := make([]int32, 2*llm.PageSize+20)
	for i := range tokens {
		tokens[i] = int32(i * i % 31)
	}
	for text, n := range []int{llm.PageSize - 2, len(tokens) - 6} {
		want, got := own.read(t, int32(text), tokens[:n]), shared.read(t, int32(text), tokens[:n])
		compare(t, fmt.Sprintf("%s, %v, text %d is read", device, dtype, text), got, want, 1e-4)
	}
	for step := range int32(6) { // over the end of a page
		rows := []row{{tokens[step], 0, llm.PageSize - 2 + step}, {tokens[step], 1, int32(len(tokens)) - 6 + step}}
		slices.Reverse(rows)
		want, got := own.run(t, rows...), shared.run(t, rows...)
		for i := range rows {
			compare(t, fmt.Sprintf("%s, %v, step %d, row %d", device, dtype, step, i), got[i], want[i], 1e-4)
		}
	} // The last step again, by the programs of short texts.
	last := row{tokens[5], 0, llm.PageSize + 3}
	want := own.run(t, last)
	for i, b := range []batched{own, shared} {
		b.batch = b.short
		compare(t, fmt.Sprintf("%s, %v, short texts %d", device, dtype, i), b.run(t, last)[0], want[0], 1e-4)
	}
}
