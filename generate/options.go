package generate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/ir"
)

// Options say where and how a model runs.
type Options struct {
	Device  string // as vkc.OpenDevice takes it; empty for the best
	Split   string // how several devices have the model: SplitLayers, SplitTensor or SplitAuto; empty for layers
	Context int    // tokens of prompt and answer; 0 for 4096, or what the model was trained for
	// Cache is what keys and values are kept in, as llm.Cache takes it. Unless set it is f16, as with llama.cpp, or f32
	// on a device that has no elements of 16 bits in memory.
	Cache     ir.DType
	Precision string // what matrix products may lose, as vkc.WithPrecision takes it
	// Parallel is how many answers may be under way at once; 0 for 1. Each has keys and values
	// of its own for the whole context.
	Parallel int
	// Positions is how many positions of keys and values there are for all answers together, if not 0: then they share
	// room, in pages, and an answer begins once there are pages for its prompt and as many tokens as it may have.
	// Without it each has room for the whole context. Windows have room of their own in both cases.
	Positions int
	// Deterministic has the bits of an answer not depend on what else is or was asked: steps of few or short answers
	// then take the kernels of the largest batch, and of what a prompt begins with only that is not computed anew which
	// was read in whole parts. Without it a step has kernels for as few answers as there are, which add up in other
	// orders, so that a token may be another one where two are equally likely up to rounding.
	Deterministic bool

	// Trust, if set, is asked of a model's bundle before any of its programs is loaded. Its error refuses the bundle.
	Trust func(context.Context, *vkc.Program) error

	// ContextShift has an answer that fills the context go on: of the tokens after the first Keep, the older half is
	// forgotten. Layers with a window then keep keys and values of the whole context.
	ContextShift bool
	Keep         *int // see ContextShift; 4 unless set

	Speculation Speculation // of one answer at a time

	// GPUMemory is how many bytes of the device's memory the model may take, if not 0: weights, keys and values,
	// temporaries. Weights that have no room there stay in the machine's memory, which kernels read over
	// the bus, first those of which a step reads a few rows or experts. A device without a memory of its own
	// refuses that. Programs for guesses and for sampling are not counted.
	GPUMemory uint64

	// Progress, if set, is told how far compiling and loading of the model's programs are, by one call at a time. Each
	// program has stages of its own, and shaders of one may be compiled while weights are uploaded for another.
	Progress func(vkc.Progress)

	// Ahead is how many steps the device has at a time, of which each takes the tokens that the one before it chose:
	// so it never waits for the host. Answers do not depend on it, but steps that follow the end of one are for
	// nothing. 0 means as many as take 10 ms, 2 to 32, and 1 where runs are waited for, such as on the CPU fast path;
	// more than 32 wait for each other.
	Ahead int
}

// partOf is how many tokens of a prompt are taken at a time, at most. A GPU is faster with more (M-prompt-parts), but
// what is computed anew of a prompt with Deterministic begins at a whole part, and each text keeps as many positions
// more where layers have a window.
func (m *Model) partOf(o Options) int {
	several := o.Parallel > 1
	switch {
	case several && (o.Deterministic || m.config.Window > 0):
		return 128
	case o.Deterministic:
		return 512
	}
	return llm.LargestPart
}

// cache says what is kept of keys and values, and in what.
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

// cacheType is what keys and values are kept in.
func (m *Model) cacheType(o Options) ir.DType {
	switch {
	case o.Cache != ir.Invalid:
		return o.Cache
	case m.half:
		return ir.F16
	}
	return ir.F32
}

const (
	defaultContext = 4096
	// maxParallel bounds what is asked of a device before anything is known of it.
	maxParallel = 1024
	maxAhead    = 64 // of Options.Ahead
)

// OptionError is what is wrong with a field of Options.
type OptionError struct {
	Field string // its name here; of Options.Speculation "Tokens" or "Draft"
	what  string
}

func (e *OptionError) Error() string { return "generate: " + e.Of(e.Field) }

// Of is the error for whoever knows the field by another name.
func (e *OptionError) Of(name string) string { return name + ": " + e.what }

func wrongOption(field, format string, args ...any) error {
	return &OptionError{field, fmt.Errorf(format, args...).Error()}
}

// Check says what is wrong with options for any model: an *OptionError, as what Open says of those that the model
// does not take.
func (o Options) Check() error {
	precisions := append(vkc.Precisions(), "")
	splits := []string{SplitLayers, SplitTensor, SplitAuto}
	guess := o.Speculation
	switch {
	case o.Context < 0:
		return wrongOption("Context", "%d positions: want at least 1, or 0 for the default", o.Context)
	case o.Parallel < 0 || o.Parallel > maxParallel:
		return wrongOption("Parallel", "%d answers at once: want 1 to %d", o.Parallel, maxParallel)
	case o.Positions < 0:
		return wrongOption("Positions", "room for %d positions that answers share: want as many as the context has",
			o.Positions)
	case o.Keep != nil && *o.Keep < 0:
		return wrongOption("Keep", "the first %d tokens stay in a context: want at least 0", *o.Keep)
	case o.Ahead < 0 || o.Ahead > maxAhead:
		return wrongOption("Ahead", "%d steps at a time: want 0 to %d", o.Ahead, maxAhead)
	case guess.Tokens < 0 || guess.Tokens > maxGuesses:
		return wrongOption("Tokens", "%d guesses at a time: want 0 to %d", guess.Tokens, maxGuesses)
	case guess.Tokens == 0 && guess.Draft != "":
		return wrongOption("Tokens", "a draft model makes 0 guesses at a time: want at least 1")
	case o.Cache != ir.Invalid && !o.Cache.IsFloat() && !slices.Contains(ir.QuantizeFormats(), o.Cache):
		return wrongOption("Cache", "keys and values in %s: want floats, or one of %v", o.Cache,
			ir.QuantizeFormats())
	case !slices.Contains(precisions, o.Precision):
		return wrongOption("Precision", "no precision %q: want one of %s", o.Precision,
			strings.Join(vkc.Precisions(), ", "))
	case o.Split != "" && !slices.Contains(splits, o.Split):
		return wrongOption("Split", "no split %q: want one of %s", o.Split, strings.Join(splits, ", "))
	case o.Split == SplitTensor && !strings.Contains(o.Device, ","):
		return wrongOption("Split", "one device (%q) has every layer whole: want several, such as 0,1, or no split",
			o.Device)
	}
	return nil
}
