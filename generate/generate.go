// Package generate runs language models of GGUF files: it reads a text and goes on
// with it, token by token.
//
//	m, err := generate.Open(ctx, "model.gguf", generate.Options{})
//	defer m.Close()
//	prompt := m.Tokenizer().Encode("Once upon a time", tokenizer.Options{Whole: true})
//	for token, err := range m.Generate(ctx, prompt, generate.Sampling{Temperature: 0.8, MinP: 0.05}) {
//		if err != nil {
//			return err
//		}
//		fmt.Print(token.Text)
//	}
//
// A conversation becomes a prompt by the template in the model's file: see
// Model.Prompt.
package generate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/chat"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/ir"
)

// Options say where and how a model runs.
type Options struct {
	Device    string   // as vkc.OpenDevice takes it; empty for the best
	Context   int      // tokens of prompt and answer; 0 for 4096, or what the model was trained for
	Cache     ir.DType // what keys and values are kept in, as llm.Cache takes it; f32 unless set
	Precision string   // what matrix products may lose, as vkc.WithPrecision takes it

	Speculation Speculation
}

// cache says what is kept of keys and values, and in what.
func (o Options) cache() []llm.Option {
	list := []llm.Option{llm.KeepWindow(promptStep)}
	if o.Cache != ir.Invalid {
		list = append(list, llm.Cache(o.Cache))
	}
	return list
}

const (
	defaultContext = 4096
	// promptStep is how many tokens of a prompt are taken at a time.
	promptStep = 128
)

// Model is a model that is loaded on a device. It may be used by several
// goroutines, which take turns.
type Model struct {
	file    *gguf.File
	config  llm.Config
	tok     *tokenizer.Tokenizer
	context int
	device  *vkc.Device
	prompt  *vkc.Executable // several tokens at once
	step    *vkc.Executable // one token
	drafts  *vkc.Executable // a token and guesses of what follows it; nil where none are made

	guesser drafter
	guesses int // at a time

	turn       sync.Mutex
	past       []int32 // the tokens whose keys and values the device has
	written    int     // positions at most, since a text began
	speculated Speculated
}

// Token is a part of an answer.
type Token struct {
	ID   int32
	Text string // may be empty where a character takes several tokens
}

// Open reads a model and compiles it for a device.
func Open(ctx context.Context, path string, o Options) (m *Model, err error) {
	if m, err = prepare(path, o); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
			m = nil
		}
	}()
	options := o.cache()
	step, err := llm.Step(m.config, m.context, options...)
	if err != nil {
		return m, err
	}
	if m.step, err = m.load(ctx, step, o, nil); err != nil {
		return m, err
	}
	steps, err := llm.Steps(m.config, min(promptStep, m.context), m.context, options...)
	if err != nil {
		return m, err
	}
	if m.prompt, err = m.load(ctx, steps, o, m.step); err != nil {
		return m, err
	}
	return m, m.openSpeculation(ctx, o)
}

// prepare reads what a model's file says and opens the device. It compiles nothing.
func prepare(path string, o Options) (m *Model, err error) {
	m = &Model{}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
			m = nil
		}
	}()
	if m.file, err = gguf.Open(path); err != nil {
		return m, err
	}
	if m.config, err = llm.FromGGUF(m.file); err != nil {
		return m, fmt.Errorf("%s: %w", path, err)
	}
	if m.tok, err = tokenizer.New(m.file); err != nil {
		return m, fmt.Errorf("%s: %w", path, err)
	}
	if m.context = o.Context; m.context == 0 {
		m.context = min(defaultContext, m.config.Context)
	}
	m.device, err = vkc.OpenDevice(o.Device)
	return m, err
}

func (m *Model) load(ctx context.Context, g *ir.Graph, o Options, share *vkc.Executable) (*vkc.Executable, error) {
	if o.Precision != "" {
		var err error
		if g, err = vkc.WithPrecision(g, o.Precision); err != nil {
			return nil, err
		}
	}
	p, err := m.device.Compile(ctx, g, vkc.CompileOptions{Weights: m.file})
	if err != nil {
		return nil, err
	}
	return m.device.Load(ctx, p, vkc.LoadOptions{Weights: m.file, Share: share})
}

// Close releases the model.
func (m *Model) Close() error {
	errs := []error{m.closeSpeculation()}
	for _, exe := range []*vkc.Executable{m.prompt, m.step} {
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

// Tokenizer returns the model's tokenizer.
func (m *Model) Tokenizer() *tokenizer.Tokenizer { return m.tok }

// Why says what the model runs on, and why there.
func (m *Model) Why() string { return m.step.Why() }

// Prompt returns the tokens of a conversation, by the template in the model's file.
// BOS and EOS of the context are the model's.
func (m *Model) Prompt(c chat.Context) ([]int32, error) {
	source, err := m.file.String("tokenizer.chat_template")
	if err != nil {
		return nil, fmt.Errorf("the model was not made for conversations: %w", err)
	}
	t, err := chat.Parse(source)
	if err != nil {
		return nil, err
	}
	if bos, ok := m.tok.BOS(); ok {
		c.BOS = m.tok.Token(bos)
	}
	if eos, ok := m.tok.EOS(); ok {
		c.EOS = m.tok.Token(eos)
	}
	pieces, err := t.Render(c)
	if err != nil {
		return nil, err
	}
	return m.tok.EncodeChat(pieces), nil
}

// Context returns how many tokens a prompt and its answer may have together.
func (m *Model) Context() int { return m.context }

// Fit is Prompt of as much of a conversation as leaves room for an answer of so many tokens:
// its oldest messages go first, those of the system stay, and so does the last one. Forgotten
// is how many went.
func (m *Model) Fit(c chat.Context, room int) (prompt []int32, forgotten int, err error) {
	c.Messages = slices.Clone(c.Messages)
	for {
		if prompt, err = m.Prompt(c); err != nil || len(prompt)+room <= m.context {
			return prompt, forgotten, err
		}
		oldest := slices.IndexFunc(c.Messages, func(m chat.Message) bool { return m.Role != "system" })
		if oldest < 0 || oldest == len(c.Messages)-1 {
			return nil, forgotten, fmt.Errorf("generate: the last message alone makes a prompt of %d tokens, and the "+
				"answer is to have %d: the context is %d; shorten it or give more context", len(prompt), room,
				m.context)
		}
		c.Messages = slices.Delete(c.Messages, oldest, oldest+1)
		forgotten++
		for oldest < len(c.Messages)-1 && c.Messages[oldest].Role != "user" { // an answer goes with its question
			c.Messages = slices.Delete(c.Messages, oldest, oldest+1)
			forgotten++
		}
	}
}

// Generate goes on with a prompt, until the model ends its answer, or as many
// tokens are there as are wanted or fit. The token that ends it is not among
// them, unless a character before it was not finished, which it then stands for as
// U+FFFD. What an earlier call left of the same beginning is not computed anew.
// A model has one answer at a time: another call waits until the loop over this one
// ends, so none may be made inside the loop.
func (m *Model) Generate(ctx context.Context, prompt []int32, s Sampling) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		m.turn.Lock()
		defer m.turn.Unlock()
		if err := m.generate(ctx, prompt, s, func(t Token) bool { return yield(t, nil) }); err != nil {
			yield(Token{}, err)
		}
	}
}

func (m *Model) generate(ctx context.Context, prompt []int32, s Sampling, yield func(Token) bool) error {
	if err := s.Check(); err != nil {
		return err
	}
	switch {
	case len(prompt) == 0:
		return errors.New("generate: the prompt is empty: want at least one token, such as the one that begins a text")
	case len(prompt) >= m.context:
		return fmt.Errorf("generate: the prompt has %d tokens: want at most %d, less than the context; "+
			"shorten it or give more context", len(prompt), m.context-1)
	}
	if err := m.known(prompt); err != nil {
		return err
	}
	logits, err := m.read(ctx, prompt)
	if err != nil {
		return err
	}
	ahead := steps{m: m}
	random, decoder := rand.New(rand.NewPCG(s.Seed, 0)), m.tok.Decoder()
	text := append([]int32(nil), prompt...)
	for n := 1; ; n++ {
		id, err := s.choose(logits, text, random)
		if err != nil {
			return err
		}
		if m.tok.IsEnd(id) {
			if rest := decoder.Flush(); rest != "" {
				yield(Token{id, rest})
			}
			return nil
		}
		token, last := Token{id, decoder.Next(id)}, n == s.MaxTokens || len(text)+1 >= m.context
		if last {
			token.Text += decoder.Flush()
		}
		if !yield(token) || last {
			return nil
		}
		text = append(text, id)
		if logits, err = ahead.next(ctx, text); err != nil {
			return err
		}
	}
}

// known refuses tokens that the model does not have.
func (m *Model) known(tokens []int32) error {
	for i, id := range tokens {
		if id < 0 || int(id) >= m.config.Vocab {
			return fmt.Errorf("generate: token %d of the text is %d: want 0 to %d", i, id, m.config.Vocab-1)
		}
	}
	return nil
}

// read has the device take a prompt, but for what it begins with that the device
// has already. The last token is taken always, for its logits.
func (m *Model) read(ctx context.Context, prompt []int32) (logits []float32, err error) {
	known := 0
	for known < min(len(m.past), len(prompt)-1) && m.past[known] == prompt[known] {
		known++
	}
	if known = m.config.Reach(m.written, known, promptStep); known == 0 {
		m.written = 0
	}
	m.past = m.past[:known]
	for rest := prompt[known:]; len(rest) > 0; {
		n := min(len(rest), promptStep)
		exe := m.prompt
		if n == 1 {
			exe = m.step
		}
		if logits, err = m.run(ctx, exe, rest[:n]); err != nil {
			return nil, err
		}
		rest = rest[n:]
	}
	return logits, nil
}

// run takes tokens and returns the logits of what comes next.
func (m *Model) run(ctx context.Context, exe *vkc.Executable, tokens []int32) ([]float32, error) {
	in, err := vkc.Of(tokens, len(tokens))
	if err != nil {
		return nil, err
	}
	length := len(m.past) + len(tokens)
	m.written = max(m.written, length) // even if the run ends before it is waited for
	res, err := exe.Run(ctx, vkc.Tensors{"tokens": in}, vkc.RunOptions{Symbols: map[string]int64{"S": int64(length)}})
	if err != nil {
		return nil, err
	}
	m.past = append(m.past, tokens...)
	return vkc.Values[float32](res.Outputs["logits"])
}
