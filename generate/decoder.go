package generate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/chat"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/frontend/onnx/folder"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// Decoder is a language model that is an ONNX graph. The graph has inputs for the cache of earlier tokens, such as keys
// and values, and outputs for the cache of all tokens. Answers in progress take turns, one run each. At most
// Options.Parallel answers, 1 by default, are in progress, and more answers wait. The caches of finished answers stay
// on the device: a prompt with the same first tokens reuses one, unless Options.Deterministic is set.
//
//	d, err := generate.OpenDecoder(ctx, "folder", generate.Options{})
//	defer d.Close()
//	for token, err := range d.Generate(ctx, prompt, generate.Sampling{}) {
type Decoder struct {
	model *Model       // without programs of its own
	files []*onnx.File // of next, and of first if that differs
	// first computes a text's first tokens, and next all others. They differ for a merged decoder.
	first, next *vkc.Executable
	ports       folder.Ports
	one         sync.Mutex    // held by the run in progress
	running     chan struct{} // holds an element for each answer in progress
	cutter      *pastCutter   // or nil

	mu     sync.Mutex
	load   Load
	used   int // tokens of answers in progress with keys and values on the device
	reused Reused
	idle   []*decoding // finished answers, the oldest first
}

// partOfDecoder is the largest number of a prompt's tokens in one run.
const partOfDecoder = 128

// IsDecoder reports whether path is a folder with an ONNX model that generates text, or such a model in a folder.
func IsDecoder(path string) (bool, error) {
	if !folder.Is(path) {
		return false, nil
	}
	f, err := folder.Open(path)
	if err != nil {
		return false, err
	}
	return f.IsDecoder()
}

// OpenDecoder opens a folder with an ONNX model as Transformers.js or onnxruntime-genai have it, or a model in such a
// folder, and compiles it for a device. Options about caches, several answers, adapters and speculation are errors.
func OpenDecoder(ctx context.Context, path string, o Options) (_ *Decoder, err error) {
	if err := o.checkONNX(); err != nil {
		return nil, err
	}
	f, err := folder.Open(path)
	if err != nil {
		return nil, err
	}
	d := &Decoder{running: make(chan struct{}, max(1, o.Parallel))}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: %w", path, err), d.Close())
		}
	}()
	if d.model, err = prepareONNX(ctx, f, &o); err != nil {
		return d, err
	}
	merged, err := f.Merged()
	if err != nil {
		return d, err
	}
	part := min(partOfDecoder, d.model.context)
	const later, first = true, false // see Decoder.first
	if d.next, d.ports, err = d.compile(ctx, f, part, later, o); err != nil {
		return d, err
	}
	d.first = d.next
	if merged {
		// A merged model has two graphs: one for the first tokens of a text, and one with a past.
		if d.first, _, err = d.compile(ctx, f, part, first, o); err != nil {
			return d, err
		}
	}
	if len(d.ports.Past) == 0 {
		return d, errors.New("the model has no inputs for earlier tokens, such as past_key_values.0.key: export it " +
			"for text generation")
	}
	d.model.step = d.next
	if err := d.setVocabulary(); err != nil {
		return d, err
	}
	d.cutter, err = d.newPastCutter(ctx)
	return d, err
}

// setVocabulary sets the number of tokens in the vocabulary to the last extent of the logits. If that is symbolic and
// the number is not known already, it returns an error.
func (d *Decoder) setVocabulary() error {
	for _, out := range d.next.Outputs() {
		if n := len(out.Type.Shape); out.Name == d.ports.Output && n > 0 && out.Type.Shape[n-1].IsStatic() {
			d.model.config.Vocab = out.Type.Shape[n-1].Static()
		}
	}
	if d.model.config.Vocab == 0 {
		return fmt.Errorf("the last extent of output %q is symbolic: want the number of tokens in the "+
			"vocabulary", d.ports.Output)
	}
	return nil
}

// checkONNX refuses options that an ONNX model cannot follow.
func (o Options) checkONNX() error {
	if err := o.Check(); err != nil {
		return err
	}
	for _, wrong := range []struct {
		field string
		given bool
	}{{"Cache", o.Cache != ir.Invalid}, {"Positions", o.Positions != 0},
		{"ContextShift", o.ContextShift}, {"Tokens", o.Speculation.Tokens > 0 || o.Speculation.Draft != ""},
		{"Adapters", len(o.Adapters) > 0 || o.AdapterScales}, {"GPUMemory", o.GPUMemory > 0},
		{"Tune", o.Tune != nil}} {
		if wrong.given {
			return wrongOption(wrong.field, "this option does not work with a model that is an ONNX graph: leave it "+
				"out")
		}
	}
	return nil
}

// prepareONNX reads a folder's tokenizer and configuration, and opens the device.
func prepareONNX(ctx context.Context, f *folder.Folder, o *Options) (m *Model, err error) {
	m = &Model{fallback: o.Fallback, progress: o.Progress, slotCount: 1}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
			m = nil
		}
	}()
	if m.file, err = f.Tokenizer(); err != nil {
		return m, err
	}
	if m.tok, err = tokenizer.New(m.file); err != nil {
		return m, err
	}
	trained := f.Context
	if trained == 0 {
		trained = defaultContext // the folder does not say
	}
	m.context = o.Context
	if m.context == 0 {
		m.context = min(defaultContext, trained)
	}
	m.config = llm.Config{Context: trained, Vocab: f.Vocabulary}
	if err := m.config.CheckContext(m.context); err != nil {
		return m, wrongOption("Context", "%w", err)
	}
	want := strings.TrimSpace(o.Device)
	m.auto = want == "" || strings.EqualFold(want, "auto")
	if m.device, err = m.openDevice(ctx, *o); err != nil {
		return m, err
	}
	if o.Precision == "" {
		o.Precision = vkc.Exact // as for other graphs
	}
	m.options = *o
	return m, nil
}

// compile builds and loads a program for runs of up to part tokens. later says that they follow other tokens of the
// text; otherwise they are its first tokens.
func (d *Decoder) compile(ctx context.Context, f *folder.Folder, part int, later bool, o Options) (*vkc.Executable,
	folder.Ports, error) {
	file, ports, err := f.Build(part, d.model.context, later)
	if err != nil {
		return nil, ports, err
	}
	d.files = append(d.files, file)
	d.model.weights, d.model.first = file, nil
	exe, err := d.model.load(ctx, file.Graph, o, nil)
	return exe, ports, err
}

// Close releases the model, its programs, its files and the caches of finished answers.
func (d *Decoder) Close() error {
	errs := []error{d.closePast()}
	if d.first != nil && d.first != d.next {
		errs = append(errs, d.first.Close())
	}
	if d.model != nil {
		// The model closes next itself if next is its step (after a complete Open).
		if d.model.step == nil && d.next != nil {
			errs = append(errs, d.next.Close())
		}
		errs = append(errs, d.model.Close())
	}
	for _, f := range d.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// Tokenizer returns the model's tokenizer.
func (d *Decoder) Tokenizer() *tokenizer.Tokenizer { return d.model.tok }

// Context returns how many tokens a prompt and its answer may have together.
func (d *Decoder) Context() int { return d.model.context }

// Why names the model's device, and the reason for its choice.
func (d *Decoder) Why() string { return d.next.Why() }

// Prompt returns the tokens of a conversation, formatted by the folder's chat template.
func (d *Decoder) Prompt(c chat.Context) ([]int32, error) { return d.model.Prompt(c) }

// ChatTemplate returns the folder's template of conversations, or "".
func (d *Decoder) ChatTemplate() string { return d.model.ChatTemplate() }

// Render returns the text of a conversation, formatted by the folder's chat template.
func (d *Decoder) Render(c chat.Context) (string, error) { return d.model.Render(c) }

// FitWith is Model.FitWith. The model reads no pictures.
func (d *Decoder) FitWith(c chat.Context, images []*Image, room int) (prompt []int32, rest []*Image, forgotten int,
	err error) {
	return d.model.FitWith(c, images, room)
}

// Parallel returns the largest number of answers that have keys and values on the device.
func (d *Decoder) Parallel() int { return cap(d.running) }

// DeviceBytes is Model.DeviceBytes.
func (d *Decoder) DeviceBytes() uint64 { return d.model.DeviceBytes() }

// Load returns the current load of the model.
func (d *Decoder) Load() Load {
	d.mu.Lock()
	defer d.mu.Unlock()
	load := d.load
	load.Cache = float64(d.used) / float64(d.Parallel()*d.model.context)
	return load
}

// Reused counts the prefix reuse of all prompts so far.
func (d *Decoder) Reused() Reused {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reused
}

// update calls change, which changes the counts in d, while it holds d.mu.
func (d *Decoder) update(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

// begin waits until an answer to a prompt may begin. The answer takes over the cache of an earlier answer with the same
// first tokens, at most reuse of them. The caller must call end after the answer. begin returns an error if ctx ends
// first or if the cache cannot be cut.
func (d *Decoder) begin(ctx context.Context, prompt []int32, reuse int) (_ *decoding, end func(), err error) {
	d.update(func() { d.load.Waiting++ })
	defer d.update(func() { d.load.Waiting-- })
	select {
	case d.running <- struct{}{}: // takes one of the Parallel places
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	d.update(func() {
		d.load.Running++
		d.reused.Tokens += len(prompt)
	})
	r := d.takeIdle(prompt[:reuse])
	if err := r.keepPrefix(ctx, prompt[:reuse]); err != nil {
		d.update(func() { d.load.Running-- })
		<-d.running
		return nil, nil, err
	}
	d.update(func() {
		d.used += len(r.tokens)
		d.reused.Known += len(r.tokens)
	})
	return r, func() {
		d.update(func() {
			d.load.Running--
			d.used -= len(r.tokens)
		})
		d.putIdle(r)
		<-d.running
	}, nil
}

// Score returns each token of a text with its log-probability, as Model.Score does. It is an error if the graph gives
// the logits of its last token alone.
func (d *Decoder) Score(ctx context.Context, text []int32, likely int) ([]Token, error) {
	if err := d.model.checkScore(text, likely); err != nil {
		return nil, err
	}
	r, end, err := d.begin(ctx, text, 0) // the logits of all tokens are needed
	if err != nil {
		return nil, err
	}
	defer end()
	decoder, vocab := d.model.tok.Decoder(), d.model.config.Vocab
	list := []Token{{ID: text[0], Text: decoder.Next(text[0])}}
	for at := 0; at < len(text)-1; { // the last token predicts none
		part := text[at:min(at+partOfDecoder, len(text)-1)]
		rows, err := r.run(ctx, part)
		if err == nil && len(rows) != len(part)*vocab {
			err = fmt.Errorf("generate: output %q has the logits of only %d of %d tokens: scores need all",
				r.ports.Output, len(rows)/vocab, len(part))
		}
		if err != nil {
			return nil, err
		}
		for i, id := range text[at+1 : at+len(part)+1] {
			row := rows[i*vocab:][:vocab]
			all := logSumExp(row)
			list = append(list, Token{ID: id, Text: decoder.Next(id),
				Odds: &Odds{float64(row[id]) - all, likeliest(row, all, likely)}})
		}
		at += len(part)
	}
	list[len(list)-1].Text += decoder.Flush()
	return list, nil
}

// Generate continues a prompt, as Model.Generate does. After each token it begins the search for the tokens that the
// grammar allows next, which goes on while the model runs.
func (d *Decoder) Generate(ctx context.Context, prompt []int32, s Sampling) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		m := d.model
		err := m.check(prompt, s)
		var c *chooser
		if err == nil {
			c, err = m.chooser(ctx, s)
		}
		if err != nil {
			yield(Token{}, err)
			return
		}
		r, end, err := d.begin(ctx, prompt, len(prompt)-1) // the logits of the last token are needed
		if err != nil {
			yield(Token{}, err)
			return
		}
		defer end()
		if err := r.answer(ctx, c, prompt, yield); err != nil {
			yield(Token{}, err)
		}
	}
}

// decoding is the state of one answer: the keys and values of its tokens so far.
type decoding struct {
	*Decoder
	tokens []int32
	past   map[string]*vkc.DeviceTensor // the cache of tokens, by the names of the graph's outputs
}

// answer continues a prompt, and calls yield with each token and no error, until it returns false. The answer ends when
// the model ends it, after Sampling.MaxTokens, or when the context is full.
func (r *decoding) answer(ctx context.Context, c *chooser, prompt []int32, yield func(Token, error) bool) error {
	s, tok, known := c.sampling, r.model.tok, len(r.tokens)
	maskSlots, decoder := newMaskSlots(), tok.Decoder()
	if c.guide != nil {
		c.beginMask(ctx, firstMask, maskSlots, nil)
	}
	text := slices.Clone(prompt)
	for n := 1; ; n++ {
		token, grammarEnds, err := r.choose(ctx, c, text)
		if err != nil {
			return err
		}
		if n == 1 && s.Known != nil {
			s.Known(known)
		}
		if grammarEnds { // with a whole character, so there is nothing to flush
			return nil
		}
		if tok.IsEnd(token.ID) {
			token.Text = decoder.Flush()
			if token.Text != "" || token.Odds != nil {
				yield(token, nil)
			}
			return nil
		}
		text = append(text, token.ID)
		token.Text = decoder.Next(token.ID)
		last := n == s.MaxTokens || len(text) >= r.model.context
		if last {
			token.Text += decoder.Flush()
		} else if c.guide != nil {
			c.beginMask(ctx, token.ID, maskSlots, nil)
		}
		if !yield(token, nil) || last {
			return nil
		}
	}
}

// choose returns the token after a text, or reports that none follows because the grammar's text is complete.
func (r *decoding) choose(ctx context.Context, c *chooser, text []int32) (t Token, grammarEnds bool, err error) {
	logits, err := r.logits(ctx, text)
	if err == nil {
		err = c.waitForMask(ctx)
	}
	if err != nil || c.next != nil && c.next.grammarEnds {
		return Token{}, err == nil, err
	}
	t, err = c.choose(ctx, outcome{logits: logits}, text)
	return t, false, err
}

// logits computes the tokens of a text that are not computed yet, and returns the logits after the last one.
func (r *decoding) logits(ctx context.Context, text []int32) (logits []float32, err error) {
	for len(r.tokens) < len(text) {
		n := min(len(text)-len(r.tokens), partOfDecoder)
		if logits, err = r.run(ctx, text[len(r.tokens):][:n]); err != nil {
			return nil, err
		}
	}
	return logits[len(logits)-r.model.config.Vocab:], nil
}

// run runs the graph on the next tokens of the text, and adds them to r.tokens and r.past. It returns the logits after
// each of these tokens, or only after the last one if the graph returns no others.
func (r *decoding) run(ctx context.Context, tokens []int32) ([]float32, error) {
	exe, graph := r.next, r.files[0].Graph
	if len(r.tokens) == 0 { // some models have another graph for a prompt's beginning
		exe, graph = r.first, r.files[len(r.files)-1].Graph
	}
	in, err := r.ports.Inputs(graph, tokens, len(r.tokens))
	if err != nil {
		return nil, err
	}
	o := vkc.RunOptions{Inputs: map[string]*vkc.DeviceTensor{}, Symbols: map[string]int64{}}
	for _, c := range r.ports.Past {
		if r.past != nil {
			o.Inputs[c.Past] = r.past[c.Present]
		} else if hasInput(exe, c.Past) {
			// The first run has no past. A graph with an input for it gets an empty tensor.
			in[c.Past] = c.First
		}
		o.Keep = append(o.Keep, c.Present)
	}
	for _, s := range exe.Symbols() {
		switch s.Name {
		case folder.TokensSymbol:
			o.Symbols[s.Name] = int64(len(tokens))
		case folder.PastSymbol:
			o.Symbols[s.Name] = int64(len(r.tokens))
		}
	}
	r.one.Lock()
	res, err := exe.Run(ctx, in, o)
	r.one.Unlock()
	if err != nil {
		return nil, err
	}
	closeAll(r.past)
	r.past = res.Kept
	r.tokens = append(r.tokens, tokens...)
	r.update(func() { r.used += len(tokens) })
	all, err := floats(res.Outputs[r.ports.Output])
	if err != nil || len(all) < r.model.config.Vocab {
		return nil, errors.Join(err, fmt.Errorf("output %q has %d elements, fewer than the vocabulary of %d",
			r.ports.Output, len(all), r.model.config.Vocab))
	}
	return all, nil
}

func hasInput(exe *vkc.Executable, name string) bool {
	return name != "" && slices.ContainsFunc(exe.Inputs(), func(p runtime.Port) bool { return p.Name == name })
}

// floats returns the elements of a float tensor.
func floats(d *ir.Data) ([]float32, error) {
	if d == nil {
		return nil, errors.New("the output is missing")
	}
	if d.DType == ir.F32 {
		return vkc.Values[float32](d)
	}
	wide, err := d.Floats()
	list := make([]float32, len(wide))
	for i, v := range wide {
		list[i] = float32(v)
	}
	return list, err
}
