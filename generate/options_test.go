package generate

import (
	"errors"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/cpu"
)

// TestDefaultPrecision: a GPU and a processor with dot products of int8 round rows to int8. Other processors and the
// reference round nothing. Options may say otherwise.
func TestDefaultPrecision(t *testing.T) {
	check := func(device, precision, want string) {
		t.Helper()
		m := openModel(t, tinyModel(t), Options{Device: device, Precision: precision, Context: 16})
		if m.options.Precision != want {
			t.Errorf("%s, %q: precision %s, want %s", device, precision, m.options.Precision, want)
		}
	}
	want := vkc.Exact
	if cpu.HasInt8Dots() {
		want = DefaultPrecision
	}
	check("cpu", "", want)
	check("cpu", vkc.Exact, vkc.Exact)
	check("reference", "", vkc.Exact)
	check("cpu", DefaultPrecision, DefaultPrecision)
	needDevice(t)
	check("vulkan", "", DefaultPrecision)
	check("vulkan", vkc.Exact, vkc.Exact)
}

// TestOptions: errors in options are reported with the field, before a file is opened.
func TestOptions(t *testing.T) {
	for _, tt := range []struct {
		field, want string
		o           Options
	}{
		{"Context", "-1 positions", Options{Context: -1}},
		{"Parallel", "1025 answers at once: want 1 to 1024", Options{Parallel: 1025}},
		{"Positions", "KV cache of -4 positions", Options{Positions: -4}},
		{"Keep", "the first -1 tokens", Options{Keep: new(-1)}},
		{"Ahead", "65 steps in flight: want 0 to 64", Options{Ahead: 65}},
		{"Tokens", "65 speculated tokens at a time: want 0 to 64", Options{Speculation: Speculation{Tokens: 65}}},
		{"Tokens", "0 speculated tokens at a time", Options{Speculation: Speculation{Draft: "x.gguf"}}},
		{"Precision", `no precision "quarter": want one of exact`, Options{Precision: "quarter"}},
		{"Split", `no split "odd": want one of layers, tensor, auto`, Options{Split: "odd"}},
		{"Split", `one device ("0") always has whole layers: want several`, Options{Split: "tensor", Device: "0"}},
		{"Cache", "KV cache of type i8: want a float, or one of [q4_0", Options{Cache: ir.I8}},
		{"Cache", "KV cache of type bool", Options{Cache: ir.Bool}},
		{"Cache", "KV cache of type iq2_s", Options{Cache: ir.IQ2_S}},
	} {
		_, err := Open(t.Context(), "no such file", tt.o)
		wrong := (*OptionError)(nil)
		if !errors.As(err, &wrong) || wrong.Field != tt.field || !strings.Contains(wrong.Of("--x"), "--x: ") ||
			!strings.Contains(err.Error(), "generate: "+tt.field+": ") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q of %s", tt.o, err, tt.want, tt.field)
		}
	}
	_, err := Open(t.Context(), tinyModel(t), Options{Device: "cpu", Keep: new(3)})
	wrong := (*OptionError)(nil)
	if !errors.As(err, &wrong) || wrong.Field != "Keep" || !strings.Contains(err.Error(), "needs a context shift too") {
		t.Errorf("tokens that stay where none is forgotten: %v", err)
	}
	if err := (Options{Cache: ir.BF16, Keep: new(3), Context: 5}).Check(); err != nil {
		t.Error(err)
	}
}

// TestCacheOfIntegers: a graph that would round keys and values to whole numbers, or cut heads within a block, is none.
func TestCacheOfIntegers(t *testing.T) {
	m := openModel(t, gollama, Options{Device: "cpu", Context: 16})
	for _, c := range []ir.DType{ir.I32, ir.U8, ir.Bool, ir.Q4_K, ir.IQ1_S} { // heads of 64, and blocks of 256
		_, err := llm.Step(m.config, 16, llm.Cache(c))
		_, batch := llm.Batch(m.config, 2, 16, llm.Cache(c))
		for _, err := range []error{err, batch, m.config.CheckCache(c)} {
			if err == nil ||
				!strings.Contains(err.Error(), "KV cache of type "+c.String()+": want one of [f32 f16") ||
				!strings.Contains(err.Error(), "q8_0") || strings.Contains(err.Error(), "q2_K") {
				t.Errorf("%s: %v", c, err)
			}
		}
	}
	for _, c := range []ir.DType{ir.F8E4M3, ir.F64, ir.Q8_0, ir.MXFP4} {
		if err := m.config.CheckCache(c); err != nil {
			t.Error(err)
		}
	}
}
