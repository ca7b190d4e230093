package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/chat"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/frontend/vision"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/grammar"
	"github.com/vkc-go/vkc/internal/inputfile"
	"github.com/vkc-go/vkc/ir"
)

// loadFlags select a language model, a device and the options of generation.
type loadFlags struct {
	path, kv string
	trusted  string // file of the public keys whose bundles are trusted
	options  generate.Options
	guesses  *int // tokens guessed at a time, --draft-tokens; nil if not given
	adapters loraFlag
	images   []string // files of pictures
	tune     time.Duration
}

type generateFlags struct {
	model       loadFlags
	prompt      string
	gbnf        string // files of the grammar that constrains the output
	schema      string
	sampling    generate.Sampling
	chat, stats bool
}

// generateCommand declares the command vkc generate and its flags.
func (a *app) generateCommand() *cobra.Command {
	var f generateFlags
	cmd := &cobra.Command{
		Use:   "generate -m MODEL.gguf -p PROMPT",
		Short: "Run a language model: continue a text",
		Long: `Run a language model and print its continuation of a text. With --chat the text is a user's message, and
the chat template in the model's file turns it into a conversation. With -p - the text is standard input.

The model may be a folder of Transformers.js or onnxruntime-genai, with an ONNX graph, its configuration and
tokenizer.json.

Without --temp, vkc generate takes the most likely token each time. With --temp it samples. --top-k, --top-p and --min-p
restrict the choice to the most likely tokens.

With --image the model reads pictures before the text. Pictures need the vision tower: the mmproj file that llama.cpp's
converter writes, next to the model or named by --mmproj, or the model's Hugging Face folder.

With --grammar or --json-schema, vkc generate takes only tokens that continue an allowed text.`,
		Example: `  vkc generate -m MODEL.gguf -p Once -n 64
  vkc generate -m MODEL.gguf --chat -p Hello --temp 0.8 --min-p 0.05 --seed 1
  vkc generate -m MODEL.gguf --chat --image photo.jpg -p 'What is this?'`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("prompt") {
				return usagef("-p PROMPT is missing; see vkc generate --help")
			}
			return a.generate(cmd.Context(), &f)
		},
	}
	f.register(a, cmd.Flags())
	cmd.Flags().StringVarP(&f.prompt, "prompt", "p", "", "the `TEXT` to continue")
	f.model.registerImages(cmd.Flags(), "read the picture in this `FILE` (PNG, JPEG, GIF, WebP or BMP) before the "+
		"text; may be repeated")
	cmd.Flags().BoolVar(&f.chat, "chat", false, "send the text to the model as a message")
	cmd.Flags().StringVar(&f.gbnf, "grammar", "", "restrict the output to the GBNF grammar (of llama.cpp) in this "+
		"`FILE`")
	cmd.Flags().StringVar(&f.schema, "json-schema", "", "restrict the output to JSON that conforms to the JSON Schema "+
		"in this `FILE`")
	return cmd
}

// register declares the flags that vkc generate and vkc chat share.
func (f *generateFlags) register(a *app, flags *pflag.FlagSet) {
	f.model.registerText(a, flags)
	flags.IntVarP(&f.sampling.MaxTokens, "tokens", "n", 0,
		"print at most `N` tokens; 0 means until the model ends or the context is full")
	flags.Float64Var(&f.sampling.Temperature, "temp", 0,
		"sample at temperature `T`: 1 keeps the model's probabilities, and less favours likely tokens")
	flags.IntVar(&f.sampling.TopK, "top-k", 0, "sample from the `K` most likely tokens; 0 means all")
	f.sampling.TopP = new(float64)
	flags.Float64Var(f.sampling.TopP, "top-p", 1,
		"sample from the smallest set of most likely tokens with total probability `P`; 0 means the most likely token")
	flags.Float64Var(&f.sampling.MinP, "min-p", 0, "sample from tokens with at least `P` times the probability of the "+
		"most likely token")
	flags.Float64Var(&f.sampling.RepeatPenalty, "repeat-penalty", 1, "divide the logits of the last 64 tokens by `X`")
	flags.Float64Var(&f.sampling.PresencePenalty, "presence-penalty", 0,
		"subtract `X` from the logit of each token among the last 64")
	flags.Float64Var(&f.sampling.FrequencyPenalty, "frequency-penalty", 0,
		"subtract `X` from a token's logit for each occurrence among the last 64")
	flags.Uint64Var(&f.sampling.Seed, "seed", 0, "equal `N` give equal texts")
	flags.BoolVar(&f.stats, "stats", false, "print the device and the speed")
}

// register declares the flags for a model that continues text.
func (f *loadFlags) register(a *app, flags *pflag.FlagSet) {
	f.registerModel(a, flags)
	f.adapters.add(flags)
	flags.Var((*sizeFlag)(&f.options.GPUMemory), "gpu-memory", "use at most `SIZE` of the GPU's memory, such as 8G; "+
		"other weights stay in host memory")
	flags.StringVar(&f.kv, "kv", "", "store the KV cache in this `TYPE`, such as f32 or q8_0 (default f16, or f32 on "+
		"a device without 16-bit storage)")
}

// registerText declares the flags for a model that generates text.
func (f *loadFlags) registerText(a *app, flags *pflag.FlagSet) {
	f.register(a, flags)
	flags.Lookup("model").Usage = "the GGUF `FILE` of the model, its Hugging Face folder, or a bundle of vkc compile " +
		"--generate"
	flags.StringVar(&f.trusted, "trusted-keys", "", trustedHelp)
	flags.DurationVar(&f.tune, "tune", 0, "first measure schedules of the model's kernels, as vkc tune does, for this "+
		"`TIME` at most (0 means no time); later runs use the results and continue")
	flags.BoolVar(&f.options.ContextShift, "context-shift", false,
		"when the context is full, forget the older half of the text and continue")
	flags.Var(&optionalInt{&f.options.Keep}, "keep",
		"with --context-shift, never forget the first `N` tokens (default 4)")
	guess := &f.options.Speculation
	flags.Var(&optionalInt{&f.guesses}, "draft-tokens", "speculate `N` tokens at a time, by earlier occurrences of "+
		"the last words or by --draft, and keep the right ones (default 4 with --draft)")
	flags.StringVar(&guess.Draft, "draft", "", "speculate with the smaller model in this GGUF `FILE`, which has the "+
		"same vocabulary")
}

// registerImages declares the flags for pictures.
func (f *loadFlags) registerImages(flags *pflag.FlagSet, help string) {
	flags.StringArrayVar(&f.images, "image", nil, help)
	f.registerProjector(flags)
}

// registerProjector declares the flag for the vision tower.
func (f *loadFlags) registerProjector(flags *pflag.FlagSet) {
	flags.StringVar(&f.options.Projector, "mmproj", "", "read pictures with the vision tower in this GGUF `FILE`, or "+
		"none (default the mmproj file next to the model)")
}

// findProjector sets the vision tower if no flag names one. If flags name pictures, it must be found.
func (f *loadFlags) findProjector() (err error) {
	switch {
	case f.options.Projector != "":
	case len(f.images) > 0:
		f.options.Projector, err = generate.FindProjector(f.path)
	default:
		f.options.Projector = generate.AutoProjector
	}
	return err
}

// readImages reads the pictures that flags name.
func (f *loadFlags) readImages(ctx context.Context, m textModel) (images []*generate.Image, err error) {
	for _, path := range f.images {
		p, err := readImage(ctx, m, path)
		if err != nil {
			return nil, err
		}
		images = append(images, p)
	}
	return images, nil
}

// readImage reads a picture.
func readImage(ctx context.Context, m textModel, path string) (*generate.Image, error) {
	reader, ok := m.(*generate.Model)
	if !ok {
		return nil, fmt.Errorf("%s: vkc reads no pictures for a model with an ONNX graph: leave out --image", path)
	}
	data, err := inputfile.ReadAtMost(path, vision.MaxBytes)
	if err != nil {
		return nil, err
	}
	p, err := reader.ReadImage(ctx, data)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return p, err
}

// registerModel declares the flags for every model.
func (f *loadFlags) registerModel(a *app, flags *pflag.FlagSet) {
	f.options.Fallback = func(why error) { a.noteFallback(why) }
	flags.StringVarP(&f.path, "model", "m", "", "the GGUF `FILE` of the model, or its Hugging Face folder")
	flags.IntVar(&f.options.Context, "ctx", 0, "read at most `N` tokens of prompt and text; 0 means 4096, or fewer if "+
		"the model was trained with fewer")
	flags.StringVar(&f.options.Precision, "precision", "", precisionHelp+" (default "+generate.DefaultPrecision+
		" on a GPU and on a processor with AVX-512 VNNI; else exact)")
	flags.StringVarP(&f.options.Device, "device", "d", "auto",
		"as for vkc run, or a list such as 0,1, which --split divides the model among")
	flags.StringVar(&f.options.Split, "split", generate.SplitLayers, splitHelp+autoHelp)
}

const splitHelp = "with several devices (--device 0,1): give each device some of the layers (layers), or a part of " +
	"every layer (tensor)"

const autoHelp = "; auto takes the fastest of these and of one device alone, by the expected time of one answer"

// check refuses wrong flags before a file is opened, and completes f.options. command is the verb, for error
// messages.
func (f *loadFlags) check(command string) error {
	if f.path == "" {
		return usagef("-m MODEL.gguf is missing; see vkc %s --help", command)
	}
	if f.tune < 0 {
		return usagef("--tune %v: want a time, at least 0", f.tune)
	}
	guess := &f.options.Speculation
	if f.guesses != nil {
		guess.Tokens = *f.guesses
	} else if guess.Draft != "" {
		guess.Tokens = draftTokens
	}
	splits := []string{generate.SplitLayers, generate.SplitTensor, generate.SplitAuto}
	if command == "serve" {
		splits = append(splits, splitNone)
	}
	if !slices.Contains(splits, f.options.Split) {
		return usagef("--split %s: want one of %s", f.options.Split, strings.Join(splits, ", "))
	}
	var err error
	if f.options.Cache, err = parseKV(f.kv); err != nil {
		return err
	}
	if f.options.Adapters, err = f.adapters.files(); err != nil {
		return err
	}
	o := f.options
	if o.Split == splitNone {
		o.Split = ""
	}
	return o.Check()
}

// parseKV parses the dtype of the KV cache; empty means the default. An *OptionError of package generate stays as it
// is, because the caller names its flag.
func parseKV(text string) (ir.DType, error) {
	if text == "" {
		return ir.Invalid, nil
	}
	t, err := ir.ParseDType(text)
	if err == nil {
		err = generate.Options{Cache: t}.Check()
	}
	if wrong := (*generate.OptionError)(nil); err != nil && !errors.As(err, &wrong) {
		err = usagef("--kv: %w", err)
	}
	return t, err
}

// optionFlags maps fields of generate.Options to the flags that set them.
var optionFlags = map[string]string{"Context": "--ctx", "Cache": "--kv", "Precision": "--precision",
	"Parallel": "--parallel", "Positions": "--kv-tokens", "Keep": "--keep", "Tokens": "--draft-tokens",
	"Split": "--split", "Adapters": "--lora", "Projector": "--mmproj", "Tune": "--tune"}

// open checks the flags and loads the model.
func (f *loadFlags) open(ctx context.Context, a *app, command string) (*generate.Model, error) {
	if err := f.check(command); err != nil {
		return nil, err
	}
	done := f.setCallbacks(a)
	defer done()
	return generate.Open(ctx, f.path, f.options)
}

// setCallbacks sets the callbacks for loading a model: a progress bar, which done removes, and the check that a
// bundle is trusted.
func (f *loadFlags) setCallbacks(a *app) (done func()) {
	bar := a.progress("loading")
	f.options.Progress = bar.stage
	if f.tune > 0 {
		f.options.Tune = func(ctx context.Context, dev *vkc.Device, graphs []*ir.Graph) error {
			return a.tuneBefore(ctx, dev, graphs, nil, f.tune)
		}
	}
	f.options.Trust = func(ctx context.Context, p *vkc.Program) error { return a.trust(ctx, p, f.trusted) }
	return bar.end
}

// draftTokens is the default number of tokens that a draft model guesses.
const draftTokens = 4

// samplingFlags maps fields of generate.Sampling to the flags that set them.
var samplingFlags = map[string]string{"Temperature": "--temp", "TopP": "--top-p", "TopK": "--top-k", "MinP": "--min-p",
	"RepeatPenalty": "--repeat-penalty", "PresencePenalty": "--presence-penalty",
	"FrequencyPenalty": "--frequency-penalty", "MaxTokens": "-n"}

// check refuses wrong flags.
func (f *generateFlags) check(command string) error {
	if f.sampling.RepeatPenalty == 0 {
		return usagef("--repeat-penalty is 0: want a number above 0, because logits are divided by it")
	}
	if err := f.sampling.Check(); err != nil {
		if wrong := (*generate.SamplingError)(nil); errors.As(err, &wrong) && samplingFlags[wrong.Field] != "" {
			err = errors.New(wrong.Of(samplingFlags[wrong.Field]))
		}
		return usagef("%w", err)
	}
	return f.model.check(command)
}

// open checks the flags and the kind of the model, and loads it.
func (f *generateFlags) open(ctx context.Context, a *app, command string) (*generate.Model, error) {
	if err := f.check(command); err != nil {
		return nil, err
	}
	if f.chat {
		talks, err := generate.HasChatTemplate(f.model.path)
		if err != nil {
			return nil, err
		}
		if !talks {
			return nil, noTemplate(f.model.path)
		}
	}
	return f.model.open(ctx, a, command)
}

func noTemplate(path string) error {
	return fmt.Errorf("%s has no chat template, so it cannot hold a conversation: vkc generate -m %[1]s -p TEXT "+
		"continues a text", path)
}

// maxGrammar bounds the file of a grammar or schema, in bytes.
const maxGrammar = 1 << 20

// grammar reads the grammar that constrains the output. It returns nil if there is none.
func (f *generateFlags) grammar() (*grammar.Grammar, error) {
	if f.gbnf != "" && f.schema != "" {
		return nil, usagef("--grammar and --json-schema exclude each other: give one of them")
	}
	path, parse := f.gbnf, func(data []byte) (*grammar.Grammar, error) { return grammar.ParseGBNF(string(data)) }
	if f.schema != "" {
		path, parse = f.schema, grammar.ParseSchema
	}
	if path == "" {
		return nil, nil
	}
	file, err := inputfile.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w; want the name of a file with the grammar or schema", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxGrammar))
	if err != nil {
		return nil, err
	}
	g, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return g, nil
}

// generate runs vkc generate: it prints the model's continuation of the prompt or, with --chat, its answer.
func (a *app) generate(ctx context.Context, f *generateFlags) (err error) {
	text, err := textOf(ctx, []string{f.prompt})
	if err != nil {
		return err
	}
	if f.sampling.Grammar, err = f.grammar(); err != nil {
		return err
	}
	start := time.Now()
	if len(f.model.images) > 0 {
		if err := f.model.findProjector(); err != nil {
			return err
		}
	}
	m, err := f.openText(ctx, a, "generate")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	images, err := f.model.readImages(ctx, m)
	if err != nil {
		return err
	}
	f.sampling.Images = images
	prompt, err := f.promptOf(m, text, images)
	if err != nil {
		return err
	}
	ready := time.Since(start)
	stats, err := answer(ctx, m, prompt, f.sampling, func(text string) error {
		if _, err := fmt.Fprint(a.stdout, text); err != nil {
			return err
		}
		return a.stdout.Flush()
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(a.stdout)
	if f.stats {
		a.say("%s; ready after %v", m.Why(), ready.Round(time.Millisecond))
		a.say("%s", stats)
	}
	return nil
}

// promptOf returns the tokens of a text with pictures: with --chat a message in the form of the chat template, and
// otherwise the pictures and the plain text.
func (f *generateFlags) promptOf(m textModel, text string, images []*generate.Image) ([]int32, error) {
	talk := chat.Context{Messages: []chat.Message{{Role: "user", Content: messageOf(text, images)}},
		AddGenerationPrompt: true}
	reader, readsImages := m.(*generate.Model) // readImages has refused pictures for other models
	switch {
	case f.chat && readsImages:
		return reader.PromptWith(talk, images)
	case f.chat:
		return m.Prompt(talk)
	case len(images) > 0:
		return reader.EncodeWith(text, images)
	}
	return m.Tokenizer().Encode(text, tokenizer.Options{Whole: true}), nil
}

// messageOf returns the content of a user's message: the pictures, then the text.
func messageOf(text string, images []*generate.Image) any {
	if len(images) == 0 {
		return text
	}
	var parts []any
	for range images {
		parts = append(parts, generate.ImagePart())
	}
	return append(parts, generate.TextPart(text))
}

// textModel continues texts: a language model that vkc builds, or one that is an ONNX graph.
type textModel interface {
	Tokenizer() *tokenizer.Tokenizer
	Prompt(c chat.Context) ([]int32, error)
	Generate(ctx context.Context, prompt []int32, s generate.Sampling) iter.Seq2[generate.Token, error]
	Why() string
	Close() error
}

// openText opens the model that the flags name: a language model that vkc builds, or an ONNX decoder. command is the
// verb, for errors.
func (f *generateFlags) openText(ctx context.Context, a *app, command string) (textModel, error) {
	decoder, err := generate.IsDecoder(f.model.path)
	if err != nil {
		return nil, err
	}
	if !decoder {
		return f.open(ctx, a, command)
	}
	if err := f.check(command); err != nil {
		return nil, err
	}
	done := f.model.setCallbacks(a)
	defer done()
	d, err := generate.OpenDecoder(ctx, f.model.path, f.model.options)
	if err != nil {
		return nil, err
	}
	if f.chat && d.ChatTemplate() == "" {
		return nil, errors.Join(noTemplate(f.model.path), d.Close())
	}
	return d, nil
}

// speculated returns how often a model's guesses were right. Only models that vkc builds guess.
func speculated(m textModel) generate.Speculated {
	if m, ok := m.(*generate.Model); ok {
		return m.Speculated()
	}
	return generate.Speculated{}
}

// answer generates a continuation of the prompt, and calls show for each piece of text. stats is a line with the
// speed.
func answer(ctx context.Context, m textModel, prompt []int32, s generate.Sampling,
	show func(text string) error) (stats string, err error) {
	start := time.Now()
	first, n, before := start, 0, speculated(m)
	for token, err := range m.Generate(ctx, prompt, s) {
		if err != nil {
			return "", err
		}
		n++
		if n == 1 {
			first = time.Now()
		}
		if err := show(token.Text); err != nil {
			return "", err
		}
	}
	perSecond := func(n int, d time.Duration) string {
		if d == 0 { // less than the clock's resolution, which is milliseconds on Windows
			return "too fast to tell"
		}
		return fmt.Sprintf("%.1f a second", float64(n)/d.Seconds())
	}
	// The first token ends the reading of the prompt, so it does not count for the speed of generation.
	stats = fmt.Sprintf("%d tokens of the prompt, %s; %d generated, %s", len(prompt),
		perSecond(len(prompt), first.Sub(start)), n, perSecond(max(n-1, 0), time.Since(first)))
	g := speculated(m)
	guesses, right, steps := g.Guesses-before.Guesses, g.Accepted-before.Accepted, g.Steps-before.Steps
	if guesses > 0 {
		stats += fmt.Sprintf("; %d of %d guesses right (%.1f %%), %.2f tokens a step", right, guesses,
			100*float64(right)/float64(guesses), float64(steps+right)/float64(steps))
	}
	return stats, nil
}
