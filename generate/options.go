package generate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/lora"
	"github.com/vkc-go/vkc/ir"
)

// Options selects the devices of a model and its settings.
type Options struct {
	Device  string // as vkc.OpenDevice takes it; empty for the best
	Split   string // distribution over several devices: SplitLayers, SplitTensor or SplitAuto; empty for layers
	Context int    // tokens of prompt and answer; 0 for 4096, or the trained context if shorter
	// Cache is the dtype of the KV cache, as llm.Cache takes it. The default is f16, as in llama.cpp, or f32 on a
	// device without 16-bit storage.
	Cache ir.DType
	// Precision is the allowed precision of matmuls, as vkc.WithPrecision takes it. If it is empty, a GPU has
	// DefaultPrecision, and so has a processor with dot products of int8. Otherwise it is vkc.Exact. A bundle has the
	// precision that it was compiled with.
	Precision string
	// Parallel is the number of answers that may run at once; 0 means 1. Each has a KV cache for the whole context.
	Parallel int
	// Positions, if not 0, is the number of KV cache positions that all answers share, in pages. An answer starts once
	// there are pages for its prompt and its maximum length. Without it each answer has space for the whole context.
	// Sliding-window layers always have a separate cache per answer.
	Positions int
	// Deterministic makes the bits of an answer independent of other requests, past and present. Steps of few or short
	// answers then use the kernels of the largest batch, and only whole prefill parts of a prompt are reused. Without
	// it a step uses kernels for the actual batch size, which sum in other orders. A token may then differ if two
	// tokens are equally likely up to rounding.
	Deterministic bool

	// Trust, if set, is called with a model's bundle before any of its programs is loaded. If it returns an error, the
	// bundle is rejected.
	Trust func(context.Context, *vkc.Program) error

	// ContextShift lets an answer continue in a full context: it drops the older half of the tokens after the first
	// Keep. Sliding-window layers then cache the whole context.
	ContextShift bool
	Keep         *int // see ContextShift; 4 unless set

	Speculation Speculation // for one answer at a time

	// Adapters are low-rank adapters of the model. All are used, each with its scale. A scale of 0 leaves an adapter
	// out. With AdapterScales each answer may have other scales: see Sampling.AdapterScales.
	Adapters      []lora.File
	AdapterScales bool

	// Projector is the mmproj file of a model that reads pictures, or its Hugging Face folder, or NoProjector or
	// AutoProjector. Without it the model reads none.
	Projector string

	// GPUMemory, if not 0, bounds the model's device memory in bytes: weights, KV cache, temporaries. Weights beyond it
	// stay in host memory, and kernels read them over the bus. If a step reads only a few rows or experts of a weight,
	// this weight goes to host memory first. GPUMemory is an error on a device with unified memory. Programs for
	// speculation and sampling do not count.
	GPUMemory uint64

	// Tune, if set, is called once with the graphs of the programs for steps and prompts, before they are compiled. It
	// may measure schedules on the model's device. Compiling then takes the fastest from the device's tuning file. It
	// is an error with bundles and with models that are ONNX graphs.
	Tune func(context.Context, *vkc.Device, []*ir.Graph) error

	// Progress, if set, receives the progress of compiling and loading. Its calls do not overlap. Each program has its
	// own stages, and the shaders of one may compile while weights upload for another.
	Progress func(vkc.Progress)

	// Fallback, if set, receives the reason if the CPU fast path takes over from the device that vkc chose: for the
	// whole model, or for a program that is loaded at its first use, such as a sampler. Its calls do not overlap.
	Fallback func(why error)

	// Ahead is the number of decoding steps in flight. Each step reads the tokens of the one before on the device, so
	// the device never waits for the host. Answers do not depend on it, but steps submitted after an answer's end are
	// wasted. 0 means about 10 ms of steps, 2 to 32 of them; it means 1 if runs are synchronous, as on the CPU fast
	// path. Steps beyond 32 wait for each other.
	Ahead int
}

// DefaultPrecision is the precision of a language model without Options.Precision, on a GPU and on a processor with dot
// products of int8 (AVX-512 VNNI). It rounds what llama.cpp rounds, in the same way: rows to 8 bits with a scale per 32
// elements before matmuls with quantized weights, and on a GPU operands of other matmuls and of attention to f16.
// vkc.Exact rounds nothing. It is the default on other processors, where it reads prompts faster (M-cpu-llm).
const DefaultPrecision = ir.PrecisionBytes

// partOf returns the maximum number of tokens per prefill part. A GPU is faster with larger parts (M-prompt-parts). But
// with Deterministic the model reuses prefixes in whole parts only, and sliding-window layers need cache for one more
// part in each slot.
func (m *Model) partOf(o Options) int {
	several := o.Parallel > 1
	picture := 0 // tokens of a picture that needs one run
	if m.vision != nil && m.config.WholePictures() {
		picture = m.vision.config.Rows()
	}
	switch {
	case several && (o.Deterministic || m.config.Window > 0):
		return max(128, picture)
	case o.Deterministic:
		return max(512, picture)
	}
	return llm.LargestPart
}

// cache returns the options for the KV cache.
func (m *Model) cache(o Options) []llm.Option {
	var list []llm.Option
	if !o.ContextShift {
		list = append(list, llm.KeepWindow(m.part))
	}
	if o.Parallel > 1 {
		list = append(list, llm.Texts(o.Parallel), llm.Pages(m.pages))
	}
	return append(list, llm.Cache(m.cacheType(o)))
}

// cacheType returns the dtype of the KV cache.
func (m *Model) cacheType(o Options) ir.DType {
	switch {
	case o.Cache != ir.Invalid:
		return o.Cache
	case m.halfCache:
		return ir.F16
	}
	return ir.F32
}

const (
	defaultContext = 4096
	// maxParallel bounds Options.Parallel before the device is known.
	maxParallel = 1024
	maxAhead    = 64 // of Options.Ahead
)

// OptionError describes an invalid field of Options.
type OptionError struct {
	Field string // the field's name; for Options.Speculation "Tokens" or "Draft"
	what  string
}

func (e *OptionError) Error() string { return "generate: " + e.Of(e.Field) }

// Of returns the error's text with another name for the field.
func (e *OptionError) Of(name string) string { return name + ": " + e.what }

func wrongOption(field, format string, args ...any) error {
	return &OptionError{field, fmt.Errorf(format, args...).Error()}
}

// Check reports options that are invalid for every model, as an *OptionError. Open reports options that the model does
// not support in the same way.
func (o Options) Check() error {
	if err := o.checkAdapters(); err != nil {
		return err
	}
	if o.Precision != "" {
		if err := vkc.CheckPrecision(o.Precision); err != nil {
			return wrongOption("Precision", "%v", err)
		}
	}
	splits := []string{SplitLayers, SplitTensor, SplitAuto}
	guess := o.Speculation
	switch {
	case o.Context < 0:
		return wrongOption("Context", "%d positions: want at least 1, or 0 for the default", o.Context)
	case o.Parallel < 0 || o.Parallel > maxParallel:
		return wrongOption("Parallel", "%d answers at once: want 1 to %d", o.Parallel, maxParallel)
	case o.Positions < 0:
		return wrongOption("Positions", "KV cache of %d positions for all answers: want at least as many as the "+
			"context has", o.Positions)
	case o.Keep != nil && *o.Keep < 0:
		return wrongOption("Keep", "keep the first %d tokens: want at least 0", *o.Keep)
	case o.Ahead < 0 || o.Ahead > maxAhead:
		return wrongOption("Ahead", "%d steps in flight: want 0 to %d", o.Ahead, maxAhead)
	case guess.Tokens < 0 || guess.Tokens > maxGuesses: // Tokens: the number of guesses
		return wrongOption("Tokens", "%d speculated tokens at a time: want 0 to %d", guess.Tokens, maxGuesses)
	case guess.Tokens == 0 && guess.Draft != "":
		return wrongOption("Tokens", "a draft model with 0 speculated tokens at a time: want at least 1")
	case o.Cache != ir.Invalid && !o.Cache.IsFloat() && !slices.Contains(ir.QuantizeFormats(), o.Cache):
		return wrongOption("Cache", "KV cache of type %s: want a float, or one of %v", o.Cache,
			ir.QuantizeFormats())
	case o.Split != "" && !slices.Contains(splits, o.Split):
		return wrongOption("Split", "no split %q: want one of %s", o.Split, strings.Join(splits, ", "))
	case o.Split == SplitTensor && !strings.Contains(o.Device, ","):
		return wrongOption("Split", "one device (%q) always has whole layers: want several, such as 0,1, or no split",
			o.Device)
	}
	return nil
}
