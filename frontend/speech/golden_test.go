package speech_test

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/speech"
	"github.com/vkc-go/vkc/internal/speechtest"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
)

func TestMain(m *testing.M) { os.Exit(vktest.Main(m)) }

// devices are the devices that run the golden model: the reference, the CPU fast path, and a Vulkan device if there is
// one.
func devices(t *testing.T, test func(t *testing.T, dev *vkc.Device)) {
	for _, name := range []string{"reference", "cpu", "vulkan"} {
		t.Run(name, func(t *testing.T) {
			dev, err := vkc.OpenDevice(name)
			if name == "vulkan" {
				vktest.Need(t, err)
			} else if err != nil {
				t.Fatal(err)
			}
			vktest.CloseAfter(t, dev)
			test(t, dev)
		})
	}
}

// load compiles and loads a graph.
func load(t *testing.T, dev *vkc.Device, g *ir.Graph, err error, w ir.WeightSource,
	share *vkc.Executable) *vkc.Executable {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	p, err := dev.Compile(t.Context(), g, vkc.CompileOptions{Weights: w})
	if err != nil {
		t.Fatal(err)
	}
	exe, err := dev.Load(t.Context(), p, vkc.LoadOptions{Weights: w, Share: share})
	if err != nil {
		t.Fatal(err)
	}
	vktest.CloseAfter(t, exe)
	return exe
}

// run returns an output of a run.
func run(t *testing.T, exe *vkc.Executable, in string, d *ir.Data, err error, out string, length int) *ir.Data {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var o vkc.RunOptions
	if length > 0 {
		o.Symbols = map[string]int64{"S": int64(length)}
	}
	res, err := exe.Run(t.Context(), vkc.Tensors{in: d}, o)
	if err != nil {
		t.Fatal(err)
	}
	return res.Outputs[out]
}

// compare compares a tensor with the rows of a matrix.
func compare(t *testing.T, what string, d *ir.Data, rows [][]float64, within float64) {
	t.Helper()
	got, err := d.Floats()
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Concat(rows...)
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	for i := range got {
		if !(math.Abs(got[i]-want[i]) <= within*(1+math.Abs(want[i]))) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// transposed exchanges the axes of a matrix.
func transposed(rows [][]float64) [][]float64 {
	out := make([][]float64, len(rows[0]))
	for i := range out {
		for _, row := range rows {
			out[i] = append(out[i], row[i])
		}
	}
	return out
}

// TestGolden compares spectrogram, encoder and decoder with the results of a program that shares no code with this one.
func TestGolden(t *testing.T) {
	m := speechtest.Read(t, "../..")
	wave := make([]float32, len(m.Samples))
	for i, v := range m.Samples {
		wave[i] = float32(v) / (1 << 15)
	}
	samples, err := vkc.Of(wave, len(wave))
	if err != nil {
		t.Fatal(err)
	}
	f := m.File(t)
	cfg, err := speech.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	devices(t, func(t *testing.T, dev *vkc.Device) {
		wide := cfg
		wide.Mels = 128
		g, err := speech.LogMel(wide)
		mel := run(t, load(t, dev, g, err, nil, nil), "samples", samples, nil, "mel", 0)
		compare(t, "128 bands", mel, transposed(m.Mel128), 1e-4)
		g, err = speech.LogMel(cfg)
		mel = run(t, load(t, dev, g, err, nil, nil), "samples", samples, nil, "mel", 0)
		compare(t, "80 bands", mel, transposed(m.Mel80), 1e-4)
		g, err = speech.Listen(cfg)
		listen := load(t, dev, g, err, f, nil)
		compare(t, "encoder", run(t, listen, "mel", mel, nil, "encoded", 0), m.Encoded, 1e-4)
		g, err = speech.Step(cfg, len(m.Tokens))
		steps := load(t, dev, g, err, f, listen)
		g, err = speech.Step(cfg, 1)
		step := load(t, dev, g, err, f, listen)
		for _, part := range [][2]int{{0, 10}, {0, 3}, {3, 8}} {
			tokens, err := vkc.Of(m.Tokens[part[0]:part[1]], part[1]-part[0])
			got := run(t, steps, "tokens", tokens, err, "logits", part[1])
			compare(t, fmt.Sprintf("tokens %v", part), got, m.Logits[part[1]-1:part[1]], 2e-4)
		}
		for i := range m.Tokens {
			token, err := vkc.Of(m.Tokens[i:i+1], 1)
			got := run(t, step, "tokens", token, err, "logits", i+1)
			compare(t, fmt.Sprintf("step %d", i), got, m.Logits[i:i+1], 2e-4)
		}
		testBeams(t, m, dev, f, cfg, steps)
	})
}

// testBeams reads three tokens, and goes on with beams. The text moves from beam to beam, and the others have other
// tokens.
func testBeams(t *testing.T, m speechtest.Golden, dev *vkc.Device, f *gguf.File, cfg speech.Config,
	steps *vkc.Executable) {
	t.Helper()
	const beams, known = 3, 3
	tokens, err := vkc.Of(m.Tokens[:known], known)
	run(t, steps, "tokens", tokens, err, "logits", known)
	g, err := speech.Beams(cfg, beams)
	step := load(t, dev, g, err, f, steps)
	for i := known; i < len(m.Tokens); i++ {
		own, before := i%beams, (i-1)%beams
		next, from := []int32{1, 2, 3}, []int32{int32(before), int32(own), 0}
		next[own], from[own] = m.Tokens[i], int32(before)
		if i == known {
			from = []int32{beams, beams, beams}
		}
		last, err := vkc.Of(next, beams)
		if err != nil {
			t.Fatal(err)
		}
		continued, err := vkc.Of(from, beams)
		if err != nil {
			t.Fatal(err)
		}
		out, err := step.Run(t.Context(), vkc.Tensors{"tokens": last, "from": continued},
			vkc.RunOptions{Symbols: map[string]int64{"S": int64(i + 1)}})
		if err != nil {
			t.Fatal(err)
		}
		values, err := out.Outputs["logits"].Floats()
		if err != nil {
			t.Fatal(err)
		}
		row, err := ir.FromFloats(ir.F32, values[own*cfg.Vocab:][:cfg.Vocab], cfg.Vocab)
		if err != nil {
			t.Fatal(err)
		}
		compare(t, fmt.Sprintf("beam %d, token %d", own, i), row, m.Logits[i:i+1], 2e-4)
	}
}

// TestCacheType: keys and values in f16 change the logits by little, and other dtypes than floats are refused.
func TestCacheType(t *testing.T) {
	m := speechtest.Read(t, "../..")
	cfg, err := speech.FromGGUF(m.File(t))
	if err != nil {
		t.Fatal(err)
	}
	g, err := speech.Step(cfg, 1, speech.Cache(ir.F16))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range g.Leaves(ir.OpState) {
		if s.DType() != ir.F16 {
			t.Errorf("state %s", s)
		}
	}
	if _, err := speech.Listen(cfg, speech.Cache(ir.I8)); err == nil || !strings.Contains(err.Error(), "want a float") {
		t.Errorf("a cache of i8: %v", err)
	}
}

// TestFromGGUFRefuses: wrong sizes and weights are named.
func TestFromGGUFRefuses(t *testing.T) {
	m := speechtest.Read(t, "../..")
	for _, tt := range []struct {
		key   string
		value any
		want  string
	}{
		{"general.architecture", "llama", `architecture "llama" is not a speech model: want one of whisper`},
		{"whisper.attention.head_count", uint32(5), "5 heads for a width of 32"},
		{"whisper.block_count", uint32(0), "whisper.block_count is 0: want 1 to 1024"},
		{"whisper.block_count", uint32(3), `no weight "dec.blk.2.attn_norm.weight": want [32]`},
		{"whisper.block_count", uint32(1), `know weight "dec.blk.1.`},
		{"whisper.vocab_size", uint32(61), `"token_embd.weight" has the shape [60,32]: want [61 32]`},
		{"whisper.suppress_tokens", []uint32{3, 60}, "whisper.suppress_tokens has token 60: want 0 to 59"},
		{"whisper.encoder.context_length", "8", "encoder.context_length"},
	} {
		_, err := speech.FromGGUF(m.File(t, gguf.KV{Key: tt.key, Value: tt.value}))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s = %v: %v, want %q", tt.key, tt.value, err, tt.want)
		}
	}
}

// TestAlign compares the attention of tokens to the sound, of all heads of the second half of the layers and of heads
// that the file names.
func TestAlign(t *testing.T) {
	m := speechtest.Read(t, "../..")
	f := m.File(t)
	cfg, err := speech.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	some, err := speech.FromGGUF(m.File(t, gguf.KV{Key: "whisper.alignment_heads", Value: []uint32{0, 1, 1, 2}}))
	if err != nil {
		t.Fatal(err)
	}
	wrong := gguf.KV{Key: "whisper.alignment_heads", Value: []uint32{0, 1, 2, 0}}
	if _, err := speech.FromGGUF(m.File(t, wrong)); err == nil {
		t.Error("a head of a layer that is not there is accepted")
	}
	mel, err := ir.FromFloats(ir.F32, slices.Concat(transposed(m.Mel80)...), cfg.Mels, cfg.Frames())
	if err != nil {
		t.Fatal(err)
	}
	a, n := m.Alignment, len(m.Alignment.Tokens)
	devices(t, func(t *testing.T, dev *vkc.Device) {
		g, err := speech.Listen(cfg)
		listen := load(t, dev, g, err, f, nil)
		run(t, listen, "mel", mel, nil, "encoded", 0)
		for _, c := range []struct {
			of   speech.Config
			want [][]float64
		}{{cfg, a.Attention}, {some, a.Some}} {
			g, err = speech.Align(c.of, 40)
			exe := load(t, dev, g, err, f, listen)
			tokens, err := vkc.Of(a.Tokens, n)
			if err != nil {
				t.Fatal(err)
			}
			next, err := vkc.Of(append(slices.Clone(a.Tokens[1:]), 40), n)
			if err != nil {
				t.Fatal(err)
			}
			res, err := exe.Run(t.Context(), vkc.Tensors{"tokens": tokens, "next": next},
				vkc.RunOptions{Symbols: map[string]int64{"F": int64(a.Frames)}})
			if err != nil {
				t.Fatal(err)
			}
			compare(t, "attention", res.Outputs["attention"], c.want, 2e-4)
			chances, err := res.Outputs["chances"].Floats()
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range a.Chances {
				if math.Abs(chances[3+i]-want) > 1e-4 {
					t.Errorf("token %d has the log probability %v, want %v", i, chances[3+i], want)
				}
			}
		}
	})
}
