package llm_test

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// TestShift drops tokens in the middle of a text. The first layer's keys and values, which depend only on a token and
// its position, must equal those of the text without these tokens. The other layers' values are moved. The continuation
// must equal that of a program with manually rotated keys.
func TestShift(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(goldenDir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	tested := 0
	for _, path := range paths {
		m := readGolden(t, path)
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		if m.Pooled != nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			cfg, err := llm.FromGGUF(m.file(t))
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{"gpt2": "has learned positions", "starcoder": "has learned positions",
				"hunyuan-dense": "normalizes keys after", "hunyuan-moe": "normalizes keys after"}[name]
			if cfg.IsRecurrent() {
				want = "cannot forget tokens"
			}
			if want != "" {
				if _, err := llm.Shift(cfg, cfg.Context); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("keys that cannot move: %v, want %s", err, want)
				}
				return
			}
			m.testShift(t, "cpu", 1e-5)
			m.testShift(t, "cpu", 1e-5, llm.Texts(3))
			tested++
		})
	}
	if tested < 10 {
		t.Errorf("%d architectures", tested)
	}
}

// TestShiftOnDevice is TestShift for pairs of both kinds, with caches of f32 and f16.
func TestShiftOnDevice(t *testing.T) {
	readGolden(t, filepath.Join(goldenDir, "gemma3.json")).testShift(t, "vulkan", 1e-4)
	readGolden(t, filepath.Join(goldenDir, "llama.json")).testShift(t, "vulkan", 2e-3, llm.Cache(ir.F16), llm.Texts(2))
}

func (m goldenModel) testShift(t *testing.T, device string, within float64, options ...llm.Option) {
	t.Helper()
	f := m.file(t)
	cfg, err := llm.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	dev, err := vkc.OpenDevice(device)
	vktest.Need(t, err)
	vktest.CloseAfter(t, dev)
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
	g, err := llm.Steps(cfg, len(m.Tokens), cfg.Context, options...)
	steps := load(g, err, nil)
	g, err = llm.Shift(cfg, cfg.Context, options...)
	shift := load(g, err, steps)
	const keep, drop = 2, 3
	text, texts := int32(0), 1
	for _, port := range steps.Inputs() {
		if port.Name == "text" {
			texts = int(steps.States()[0].Type.Shape[1].Max()) / cfg.Context
			text = int32(texts - 1)
		}
	}
	run := func(exe *vkc.Executable, in vkc.Tensors, symbol string, n int) {
		t.Helper()
		if texts > 1 {
			in["text"] = scalar(t, text)
		}
		if _, err := exe.Run(t.Context(), in, vkc.RunOptions{Symbols: map[string]int64{symbol: int64(n)}}); err != nil {
			t.Fatal(err)
		}
	}
	lastLayer := strconv.Itoa(cfg.Layers - cfg.SharedKV - 1)
	sizeOf := func(name string) (heads, width int) {
		for _, s := range steps.States() {
			if s.Name == name {
				heads, width = int(s.Type.Shape[0].Max()), int(s.Type.Shape[2].Max())
			}
		}
		return heads, width
	}
	read := func(name string, tokens int) (rows []float64) { // of each head, for the given number of tokens
		t.Helper()
		heads, width := sizeOf(name)
		d, err := steps.ReadState(name)
		if err != nil {
			t.Fatal(err)
		}
		all, err := d.Floats()
		if err != nil {
			t.Fatal(err)
		}
		for head := range heads {
			at := (head*texts + int(text)) * cfg.Context * width
			rows = append(rows, all[at:at+tokens*width]...)
		}
		return rows
	}
	values := func(layer string, tokens int) []float64 {
		if cfg.Latent == 0 {
			return read("cache_v."+layer, tokens)
		}
		var latent []float64 // behind the rotated elements of each position
		_, width := sizeOf("cache_k." + layer)
		for position := range slices.Chunk(read("cache_k."+layer, tokens), width) {
			latent = append(latent, position[cfg.RopeDims:]...)
		}
		return latent
	}
	all, left := len(m.Tokens), len(m.Tokens)-drop
	run(steps, vkc.Tensors{"tokens": data(t, m.Tokens)}, "S", all)
	before := values(lastLayer, all)
	heads, _ := sizeOf("cache_k." + lastLayer)
	run(shift, vkc.Tensors{"keep": scalar(t, keep), "drop": scalar(t, drop)}, "N", left-keep)
	keys, first, moved := read("cache_k.0", left), values("0", left), values(lastLayer, left)
	var want []float64
	for head := range slices.Chunk(before, len(before)/heads) {
		position := len(head) / all
		want = append(append(want, head[:keep*position]...), head[(keep+drop)*position:]...)
	}
	compare(t, "values of the last layer", moved, want, 0)
	short := slices.Delete(slices.Clone(m.Tokens), keep, keep+drop)
	if err := steps.ResetStates(); err != nil {
		t.Fatal(err)
	}
	run(steps, vkc.Tensors{"tokens": data(t, short)}, "S", left)
	compare(t, "keys of the first layer", keys, read("cache_k.0", left), within)
	compare(t, "values of the first layer", first, values("0", left), within)
}

func scalar(t *testing.T, v int32) *ir.Data {
	t.Helper()
	d, err := vkc.Of([]int32{v})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestShiftOfBlocks: quantized keys are rotated and quantized again.
func TestShiftOfBlocks(t *testing.T) {
	f := tiny{dtype: ir.F32, headDim: 32}.file(t)
	cfg, err := llm.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	tokens := []int32{7, 1, 3, 30, 2, 9, 11, 5}
	for dtype, within := range map[ir.DType]float64{ir.Q8_0: 0.05, ir.Q4_0: 0.8} {
		g, err := llm.Steps(cfg, len(tokens), cfg.Context, llm.Cache(dtype))
		steps := program(t, f, g, err)
		g, err = llm.Shift(cfg, cfg.Context, llm.Cache(dtype))
		shift := program(t, f, g, err)
		read := func(tokens []int32) {
			t.Helper()
			if err := steps.ResetStates(); err != nil {
				t.Fatal(err)
			}
			run(t, steps, tokens, map[string]int64{"S": int64(len(tokens))})
		}
		state := func(from interface {
			State(name string) (*ir.Data, error)
		}, name string) *ir.Data {
			t.Helper()
			d, err := from.State(name)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		read(tokens)
		for i := range cfg.Layers {
			for _, name := range []string{"cache_k.", "cache_v."} {
				name += strconv.Itoa(i)
				if err := shift.SetState(name, state(steps, name)); err != nil {
					t.Fatal(err)
				}
			}
		}
		_, err = shift.Run(t.Context(), map[string]*ir.Data{"keep": scalar(t, 1), "drop": scalar(t, 3)},
			map[string]int64{"N": 4})
		if err != nil {
			t.Fatal(err)
		}
		read(slices.Delete(slices.Clone(tokens), 1, 4))
		for _, name := range []string{"cache_k.0", "cache_v.0"} {
			got, want := decoded(t, state(shift, name)), decoded(t, state(steps, name))
			for head := range cfg.KVHeads {
				at := head * cfg.Context * cfg.HeadDim
				compare(t, name, got[at:at+5*cfg.HeadDim], want[at:at+5*cfg.HeadDim], within)
			}
		}
	}
}

// decoded are the values of a tensor of floats or in blocks.
func decoded(t *testing.T, d *ir.Data) []float64 {
	t.Helper()
	if !d.DType.IsBlock() {
		return must(d.Floats())
	}
	values := make([]float32, d.Elems())
	if err := quant.Dequantize(values, d.DType, d.Bytes); err != nil {
		t.Fatal(err)
	}
	wide := make([]float64, len(values))
	for i, v := range values {
		wide[i] = float64(v)
	}
	return wide
}
