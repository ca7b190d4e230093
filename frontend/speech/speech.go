// Package speech builds the graphs of models that write down speech. It reads a model's description from a GGUF file,
// as package llm does for language models.
//
//	f, err := vkc.OpenModel("whisper-base") // a Hugging Face folder, or whisper.cpp's ggml-base.bin
//	cfg, err := speech.FromGGUF(f)
//	g, err := speech.LogMel(cfg) // samples -> a spectrogram
//	g, err = speech.Listen(cfg)  // a spectrogram -> keys and values that the decoder reads
//	g, err = speech.Step(cfg, 1) // tokens -> logits of the next token
//
// A model hears a window of sound at a time. ReadWAV reads sound files, and Tokens knows the tokens that control a
// model. Package transcribe runs models.
package speech

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/ir"
)

// Config describes a model.
type Config struct {
	Architecture, Name string

	Mels         int // bands of the spectrogram
	AudioContext int // positions of the encoder's output, for one window of sound
	EncoderHeads int
	Encoders     int // layers of the encoder

	Context  int // tokens that the decoder reads and writes for a window
	Width    int
	Heads    int
	Decoders int // layers of the decoder
	Hidden   int // units of feed-forward layers
	Vocab    int
	NormEps  float64

	// Suppressed lists tokens that the model never writes, and SuppressedFirst tokens that it does not write first. Nil
	// means that the file does not say.
	Suppressed, SuppressedFirst []int32

	// AlignmentHeads lists the heads whose attention follows the spoken words. Nil means that the file does not say.
	AlignmentHeads []Head

	Types map[string]ir.Type // of the weights
}

// Sizes of the sound that models hear.
const (
	Rate = 16000 // samples per second
	hop  = 160   // samples from one frame of the spectrogram to the next
	fft  = 400   // samples of a frame

	framesPerPosition = 2 // of the encoder's output
)

// SamplesPerPosition is the number of samples for each position of the encoder's output. Timestamps count positions.
const SamplesPerPosition = hop * framesPerPosition

// Window returns the number of samples that the model hears at once.
func (c Config) Window() int { return c.AudioContext * SamplesPerPosition }

// Frames returns the number of frames in the spectrogram of a window.
func (c Config) Frames() int { return c.AudioContext * framesPerPosition }

// Bounds of a model's sizes. They are far above the sizes of any model.
const (
	maxMels    = 1024
	maxLayers  = 1024
	maxWidth   = 1 << 16
	maxContext = 1 << 16
	maxVocab   = 1 << 22
)

// sizeKey is the key of a size, without the architecture, and its bound.
type sizeKey struct {
	key   string
	bound int
	size  func(c *Config) *int
}

// sizeKeys lists the keys of a model's sizes.
var sizeKeys = []sizeKey{
	{"encoder.mel_bins", maxMels, func(c *Config) *int { return &c.Mels }},
	{"encoder.context_length", maxContext, func(c *Config) *int { return &c.AudioContext }},
	{"encoder.attention.head_count", maxWidth, func(c *Config) *int { return &c.EncoderHeads }},
	{"encoder.block_count", maxLayers, func(c *Config) *int { return &c.Encoders }},
	{"context_length", maxContext, func(c *Config) *int { return &c.Context }},
	{"embedding_length", maxWidth, func(c *Config) *int { return &c.Width }},
	{"attention.head_count", maxWidth, func(c *Config) *int { return &c.Heads }},
	{"block_count", maxLayers, func(c *Config) *int { return &c.Decoders }},
	{"feed_forward_length", 4 * maxWidth, func(c *Config) *int { return &c.Hidden }},
	{"vocab_size", maxVocab, func(c *Config) *int { return &c.Vocab }},
}

// Keys of metadata besides sizes, without the architecture.
const (
	normKey            = "attention.layer_norm_epsilon"
	suppressedKey      = "suppress_tokens"
	suppressedFirstKey = "begin_suppress_tokens"
	alignmentKey       = "alignment_heads" // pairs of a layer and a head
)

// Is reports whether a file has a model of speech.
func Is(f *gguf.File) bool {
	name, err := f.String("general.architecture")
	_, ok := find(name)
	return err == nil && ok
}

// FromGGUF reads a model's description, and checks its weights.
func FromGGUF(f *gguf.File) (Config, error) {
	c := Config{Types: map[string]ir.Type{}}
	var err error
	if c.Architecture, err = f.String("general.architecture"); err != nil {
		return c, err
	}
	arch, ok := find(c.Architecture)
	if !ok {
		return c, fmt.Errorf("speech: architecture %q is not a speech model: want one of %s", c.Architecture,
			strings.Join(Architectures(), ", "))
	}
	if _, ok := f.Lookup("general.name"); ok {
		if c.Name, err = f.String("general.name"); err != nil {
			return c, err
		}
	}
	prefix := arch.name + "."
	for _, row := range sizeKeys {
		n, err := f.Int(prefix + row.key)
		if err != nil {
			return c, err
		}
		if n < 1 || n > int64(row.bound) {
			return c, fmt.Errorf("speech: %s%s is %d: want 1 to %d", prefix, row.key, n, row.bound)
		}
		*row.size(&c) = int(n)
	}
	if c.NormEps, err = f.Float(prefix + normKey); err != nil {
		return c, err
	}
	if !(c.NormEps >= 0 && c.NormEps < 1) {
		return c, fmt.Errorf("speech: %s%s is %v: want a small number", prefix, normKey, c.NormEps)
	}
	if err := c.readSuppressed(f, prefix); err != nil {
		return c, err
	}
	if err := c.readAlignment(f, prefix); err != nil {
		return c, err
	}
	for _, t := range f.Tensors() {
		c.Types[t.Name] = ir.Type{DType: t.DType, Shape: ir.ShapeOf(t.Dims...)}
	}
	return c, c.check(arch)
}

// readSuppressed reads the tokens that are never chosen, and the tokens that are never chosen first, if the file lists
// them.
func (c *Config) readSuppressed(f *gguf.File, prefix string) error {
	for key, to := range map[string]*[]int32{suppressedKey: &c.Suppressed, suppressedFirstKey: &c.SuppressedFirst} {
		if _, ok := f.Lookup(prefix + key); !ok {
			continue
		}
		list, err := f.Ints(prefix + key)
		if err != nil {
			return err
		}
		*to = []int32{} // an empty list is not a missing one
		for _, id := range list {
			if id < 0 || id >= int64(c.Vocab) {
				return fmt.Errorf("speech: %s%s has token %d: want 0 to %d", prefix, key, id, c.Vocab-1)
			}
			*to = append(*to, int32(id))
		}
	}
	return nil
}

// readAlignment reads the alignment heads (see alignmentHeads) as pairs of a layer and a head, if the file lists them.
func (c *Config) readAlignment(f *gguf.File, prefix string) error {
	if _, ok := f.Lookup(prefix + alignmentKey); !ok {
		return nil
	}
	list, err := f.Ints(prefix + alignmentKey)
	if err != nil {
		return err
	}
	for pair := range slices.Chunk(list, 2) {
		if len(pair) < 2 || pair[0] < 0 || pair[0] >= int64(c.Decoders) || pair[1] < 0 || pair[1] >= int64(c.Heads) {
			return fmt.Errorf("speech: %s%s has %v: want pairs of a layer, 0 to %d, and a head, 0 to %d", prefix,
				alignmentKey, pair, c.Decoders-1, c.Heads-1)
		}
		c.AlignmentHeads = append(c.AlignmentHeads, Head{int(pair[0]), int(pair[1])})
	}
	return nil
}

// check returns an error if sizes do not fit each other, or if the weights do not fit the architecture.
func (c Config) check(arch architecture) error {
	for _, heads := range []int{c.EncoderHeads, c.Heads} {
		if c.Width%heads != 0 {
			return fmt.Errorf("speech: %d heads for a width of %d: want a divisor of the width", heads, c.Width)
		}
	}
	want := map[string]bool{}
	for _, w := range arch.weights(c) {
		want[w.name] = true
		t, ok := c.Types[w.name]
		switch {
		case !ok && w.optional: // nothing to check
		case !ok:
			return fmt.Errorf("speech: the model has no weight %q: want %v", w.name, w.dims)
		case !t.Shape.Equal(ir.ShapeOf(w.dims...)):
			return fmt.Errorf("speech: weight %q has the shape %s: want %v", w.name, t.Shape, w.dims)
		case !t.DType.IsFloat() && !t.DType.IsBlock():
			return fmt.Errorf("speech: weight %q is %s: want floats, or blocks of a quantized format", w.name, t.DType)
		case t.DType.IsBlock() && !w.matrix:
			return fmt.Errorf("speech: weight %q is %s: want floats, because it is not the matrix of a "+
				"matmul", w.name, t.DType)
		}
	}
	var unknown []string
	for name := range c.Types {
		if !want[name] {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return fmt.Errorf("speech: vkc does not know weight %[2]q of architecture %[1]q, one of %[3]d such weights in "+
			"the file", arch.name,
			unknown[0], len(unknown))
	}
	return nil
}
