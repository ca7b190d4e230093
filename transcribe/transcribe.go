// Package transcribe runs models that write down speech.
//
//	m, err := transcribe.Open(ctx, "ggml-base.bin", transcribe.Options{})
//	defer m.Close()
//	sound, err := speech.NewWAV(file)
//	t, err := m.Transcribe(ctx, sound, transcribe.Request{})
//	fmt.Println(t.Text())
//
// A model hears a window of 30 seconds at a time. It writes segments of text between timestamps, by the rules of
// Whisper (Radford et al. 2022, arXiv:2212.04356): timestamps do not decrease, text that seems wrong is written again
// at a higher temperature, and a window begins where the last whole segment has ended.
package transcribe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/huggingface"
	"github.com/vkc-go/vkc/frontend/speech"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/internal/inputfile"
	"github.com/vkc-go/vkc/ir"
)

// Options selects the device of a model and its settings.
type Options struct {
	Device    string // as vkc.OpenDevice takes it; empty for the best
	Precision string // as vkc.WithPrecision takes it; vkc.Exact on the CPU, and DefaultPrecision elsewhere

	// Progress, if set, receives the progress of compiling and loading. Its calls do not overlap.
	Progress func(vkc.Progress)
}

// DefaultPrecision is the precision of a model on a GPU without Options.Precision. It is also the default of language
// models. The spectrogram is always exact.
const DefaultPrecision = ir.PrecisionBytes

// Model is a loaded model. Several goroutines may use it; it answers one request at a time.
type Model struct {
	file   *gguf.File
	config speech.Config
	tok    *tokenizer.Tokenizer
	tokens *speech.Tokens
	device *vkc.Device

	mel, listen, steps, step *vkc.Executable

	aligner   *vkc.Executable // of speech.Align; nil until a request asks for words
	beams     beamProgram
	options   Options
	precision string
	cache     speech.Option

	busy chan struct{} // holds an element while a request runs
}

// Is reports whether the file or folder at path is a model of speech. A file that cannot be opened is none.
func Is(path string) bool {
	if huggingface.IsFolder(path) {
		config, err := inputfile.ReadAtMost(filepath.Join(path, "config.json"), maxConfig)
		return err == nil && speech.IsFolder(config)
	}
	f, err := vkc.OpenModel(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return speech.Is(f)
}

// maxConfig is the largest size of a config.json in bytes.
const maxConfig = 4 << 20

// Open reads a model and compiles it for a device. The path names a Hugging Face folder, a file of whisper.cpp, or a
// GGUF file that vkc quantize has made of one of these.
func Open(ctx context.Context, path string, o Options) (*Model, error) {
	m := &Model{busy: make(chan struct{}, 1)}
	if err := m.open(ctx, path, o); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), m.Close())
	}
	return m, nil
}

// open reads the model's file, opens the device and loads the programs. Close releases them, also after an error.
func (m *Model) open(ctx context.Context, path string, o Options) (err error) {
	if m.file, err = vkc.OpenModel(path); err != nil {
		return err
	}
	if m.config, err = speech.FromGGUF(m.file); err != nil {
		return err
	}
	if m.tok, err = tokenizer.New(m.file); err != nil {
		return err
	}
	if m.tokens, err = speech.NewTokens(m.config, m.tok); err != nil {
		return err
	}
	if m.device, err = vkc.OpenDevice(o.Device); err != nil {
		return err
	}
	// All parts of the device are the CPU.
	cpu := !slices.ContainsFunc(m.device.Parts(), func(d *vkc.Device) bool { return !d.IsCPU() })
	cache, precision := ir.F16, o.Precision
	if cpu || !m.device.Caps().Features.Storage16 {
		cache = ir.F32
	}
	if precision == "" && cpu {
		precision = vkc.Exact
	} else if precision == "" {
		precision = DefaultPrecision
	}
	m.options, m.precision, m.cache = o, precision, speech.Cache(cache)
	g, err := speech.LogMel(m.config)
	if m.mel, err = m.load(ctx, g, err, vkc.Exact, o, nil); err != nil {
		return err
	}
	g, err = speech.Listen(m.config, m.cache)
	if m.listen, err = m.load(ctx, g, err, precision, o, nil); err != nil {
		return err
	}
	g, err = speech.Step(m.config, m.maxPrompt(), m.cache)
	if m.steps, err = m.load(ctx, g, err, precision, o, m.listen); err != nil {
		return err
	}
	g, err = speech.Step(m.config, 1, m.cache)
	m.step, err = m.load(ctx, g, err, precision, o, m.listen)
	return err
}

// load compiles and loads a graph. If err is not nil, it returns that error: it is the error of building the graph.
// share, if not nil, is an executable with the same weights and states.
func (m *Model) load(ctx context.Context, g *ir.Graph, err error, precision string, o Options,
	share *vkc.Executable) (*vkc.Executable, error) {
	if err != nil {
		return nil, err
	}
	if g, err = vkc.WithPrecision(g, precision); err != nil {
		return nil, err
	}
	p, err := m.device.Compile(ctx, g, vkc.CompileOptions{Weights: m.file, Progress: o.Progress})
	if err != nil {
		return nil, err
	}
	return m.device.Load(ctx, p, vkc.LoadOptions{Weights: m.file, Share: share, Progress: o.Progress})
}

// maxPrompt returns the largest number of tokens before a text: earlier text and the tokens that control the model.
func (m *Model) maxPrompt() int { return min(m.maxPast()+4, m.config.Context) }

// maxPast returns how many tokens of earlier text a prompt may have, counting the token that marks them.
func (m *Model) maxPast() int { return m.config.Context / 2 }

// maxText returns the largest number of tokens that are written for a window.
func (m *Model) maxText() int { return m.config.Context / 2 }

// Close releases the model. It must not be used by requests.
func (m *Model) Close() error {
	errs := []error{m.beams.close()}
	for _, exe := range []*vkc.Executable{m.aligner, m.step, m.steps, m.listen, m.mel} {
		if exe != nil {
			errs = append(errs, exe.Close())
		}
	}
	if m.device != nil {
		errs = append(errs, m.device.Close())
	}
	if m.file != nil {
		errs = append(errs, m.file.Close())
	}
	return errors.Join(errs...)
}

// Why names the model's device, and the reason for its choice.
func (m *Model) Why() string { return m.listen.Why() }

// Tokenizer returns the model's tokenizer.
func (m *Model) Tokenizer() *tokenizer.Tokenizer { return m.tok }

// Context returns how many tokens the model reads and writes for a window.
func (m *Model) Context() int { return m.config.Context }

// Languages returns the languages that the model knows: English alone, or several.
func (m *Model) Languages() (list []speech.Language) {
	for _, l := range speech.Languages {
		if _, ok := m.tokens.Languages[l.Code]; ok && m.tokens.Multilingual || l.Code == "en" {
			list = append(list, l)
		}
	}
	return list
}

// Sound is sound with one channel at speech.Rate, from -1 to 1: a [speech.WAV], or Samples.
type Sound interface {
	// Read reads the next samples, and returns their number. At the end it returns io.EOF.
	Read(samples []float32) (int, error)
	// Samples returns how many samples there are in all, or -1 if that is not known.
	Samples() int64
}

// Samples makes a Sound of samples in memory.
func Samples(list []float32) Sound { return &samples{list, int64(len(list))} }

type samples struct {
	left []float32
	all  int64
}

func (s *samples) Samples() int64 { return s.all }

// Read implements Sound.
func (s *samples) Read(to []float32) (int, error) {
	if len(s.left) == 0 {
		return 0, io.EOF
	}
	n := copy(to, s.left)
	s.left = s.left[n:]
	return n, nil
}

// Request says how to write down a sound.
type Request struct {
	Language  string // a code such as "en", or a name such as "english"; empty to let the model find out
	Translate bool   // to English
	Prompt    string // text before the sound, such as names with the spelling to use

	// Temperature is the temperature of the first attempt for each window. If the text seems wrong, there are further
	// attempts, each at a temperature higher by 0.2, up to 1.
	Temperature float64
	Seed        uint64 // of random numbers, for temperatures above 0

	// Beams is the number of texts that are written at once at temperature 0. The likeliest text remains (beam
	// search). 0 and 1 mean one text, of the likeliest tokens. Texts at other temperatures are written one at a time.
	Beams int

	Words bool // find out when each word is said

	// Segment, if set, gets each segment as soon as it is written. An error ends the request.
	Segment func(Segment) error
	// Progress, if set, gets the number of samples that are written down, and of all, or -1 if that is not known.
	Progress func(done, all int64)
}

// RequestError describes a request that the model cannot fulfil.
type RequestError struct {
	Field string // the name of a field of Request
	what  string
}

func (e *RequestError) Error() string { return "transcribe: " + e.Of(e.Field) }

// Of returns the error's text with another name for the field.
func (e *RequestError) Of(name string) string { return name + ": " + e.what }

func wrong(field, format string, args ...any) error {
	return &RequestError{field, fmt.Sprintf(format, args...)}
}

// maxPromptBytes is the largest length of Request.Prompt. The model reads the last of its tokens only.
const maxPromptBytes = 1 << 16

// maxBeams is the largest value of Request.Beams. Each beam has keys and values of its own.
const maxBeams = 32

// Check returns a *RequestError if the model cannot fulfil the request.
func (m *Model) Check(r Request) error {
	if _, ok := speech.LanguageNamed(r.Language); !ok && r.Language != "" {
		return wrong("Language", "%q is unknown: want a code such as en, or a name such as english", r.Language)
	}
	if l, _ := speech.LanguageNamed(r.Language); r.Language != "" && !slices.Contains(m.Languages(), l) {
		return wrong("Language", "the model does not know %s: it knows %s", l.Name, m.languageCodes())
	}
	switch {
	case r.Translate && !m.tokens.Multilingual:
		return wrong("Translate", "the model knows only English, and does not translate: leave out the translation, "+
			"or use a multilingual model")
	case !(r.Temperature >= 0 && r.Temperature <= 1):
		return wrong("Temperature", "%v: want 0 to 1", r.Temperature)
	case r.Beams < 0 || r.Beams > maxBeams:
		return wrong("Beams", "%d: want 0 to %d", r.Beams, maxBeams)
	case len(r.Prompt) > maxPromptBytes:
		return wrong("Prompt", "%d bytes: want at most %d", len(r.Prompt), maxPromptBytes)
	}
	return nil
}

// languageCodes returns the codes of the model's languages, separated by spaces, for errors.
func (m *Model) languageCodes() string {
	var codes []string
	for _, l := range m.Languages() {
		codes = append(codes, l.Code)
	}
	return strings.Join(codes, " ")
}

// Transcript is the text of the speech in a sound.
type Transcript struct {
	Language  speech.Language
	Translate bool
	Duration  time.Duration
	Segments  []Segment
}

// Text returns the text of all segments.
func (t *Transcript) Text() string {
	var b strings.Builder
	for _, s := range t.Segments {
		b.WriteString(s.Text)
	}
	return strings.TrimSpace(b.String())
}

// Segment is a part of a transcript, such as a sentence.
type Segment struct {
	Start, End  time.Duration
	Text        string  // it begins with a space if a word begins there
	Tokens      []int32 // with timestamps
	Window      time.Duration
	Temperature float64
	LogProb     float64 // the mean log probability of the tokens in the window
	Compression float64 // the ratio of the sizes of the window's text before and after compressing it
	NoSpeech    float64 // the probability that nothing is said in the window
	Words       []Word  // with Request.Words
}
