// Package llm builds the graphs of language models. It reads a model's description from a GGUF file, for the
// architectures that Architectures lists. The graphs refer to weights by the file's names, in the file's dtypes.
//
//	f, err := gguf.Open("model.gguf")
//	cfg, err := llm.FromGGUF(f)
//	g, err := llm.Prefill(cfg, 512) // tokens -> logits of the next token
//
// For other uses of a model, a program builds its own graph with Forward or Decode.
//
// Each architecture has a source file in this package: its metadata, its weights, and the construction of a layer. The
// package refuses a model with unknown weights, because a graph without them would compute something else.
package llm

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// Rows says for which tokens logits are computed.
type Rows int

const (
	LastToken  Rows = iota // for the last one: logits [1, vocabulary]
	EveryToken             // for all: logits [T, vocabulary]
	someTokens             // for model.ends: logits [B, vocabulary]
)

// Prefill returns the graph of one pass over a prompt: input "tokens" i32[T], for a symbol T up to maxTokens, and
// output "logits" f32[vocabulary] for the token after the last one. It has no state.
func Prefill(cfg Config, maxTokens int) (*ir.Graph, error) {
	if err := cfg.checkLogits(maxTokens); err != nil {
		return nil, err
	}
	return frontend.Build(graphName(cfg, "prefill"), func(b *frontend.Builder) {
		tokens := b.Input("tokens", ir.I32, b.Sym("T", maxTokens))
		b.Output("logits", Forward(b, cfg, tokens, LastToken).Reshape(-1))
	})
}

// Step returns the graph of one decoding step: input "tokens" i32[1] and output "logits" f32[vocabulary] for the next
// token. The symbol S, up to maxContext, is the length of the text including this token: 1 in the first run, and one
// more in each later run. No input has S in its shape, so runs pass its value by name. The KV cache stays on the
// device, in states of maxContext positions.
func Step(cfg Config, maxContext int, options ...Option) (*ir.Graph, error) {
	return step(cfg, "step", maxContext, options, func(*frontend.Builder) ir.Dim { return ir.D(1) })
}

// Steps returns the graph of a step for several tokens at once, such as a prompt. Its input "tokens" is i32[T], for a
// symbol T up to maxTokens, and the symbol S is the length of the text including all of them. The graph has the output
// and the states of Step, so either graph can continue a text that the other has begun.
func Steps(cfg Config, maxTokens, maxContext int, options ...Option) (*ir.Graph, error) {
	if maxTokens < 1 || maxTokens > maxContext {
		return nil, fmt.Errorf("llm: %d tokens at once: want 1 to %d, the number of positions", maxTokens, maxContext)
	}
	return step(cfg, "steps", maxContext, options, func(b *frontend.Builder) ir.Dim { return b.Sym("T", maxTokens) })
}

// step builds the graph of Step or Steps. tokens returns the number of tokens of a run.
func step(cfg Config, name string, maxContext int, options []Option,
	tokens func(*frontend.Builder) ir.Dim) (*ir.Graph, error) {
	if err := cfg.checkLogits(maxContext); err != nil {
		return nil, err
	}
	return frontend.Build(graphName(cfg, name), func(b *frontend.Builder) {
		in := b.Input("tokens", ir.I32, tokens(b))
		how := newDecoding(options)
		length := b.Sym("S", min(cmp.Or(how.maxLength, maxContext), maxContext))
		logits := Decode(b, cfg, in, length, maxContext, LastToken, options...)
		how.output(b, logits, logits.Reshape(-1))
	})
}

// Forward returns the logits, f32, for tokens i32[T] that begin a text.
func Forward(b *frontend.Builder, cfg Config, tokens frontend.Tensor, rows Rows) frontend.Tensor {
	m := newModel(b, cfg, tokens.Dim(0).Max())
	m.adapt(b)
	positions := b.Iota(ir.I32, 0, tokens.Dim(0))
	return m.forward(tokens, positions, noHistory, rows)
}

// noHistory is the [history] of tokens that begin a text: there are no earlier keys and values.
var noHistory = history{attend: func(l layer, q, k, v frontend.Tensor, o []frontend.AttentionOption) frontend.Tensor {
	keys, values := l.extended(k, v, func(_ string, x frontend.Tensor) frontend.Tensor { return x })
	return l.attendText(q, keys, values, o)
}}

// Option changes the graphs of Step and Decode.
type Option func(*decoding)

// decoding holds the options of Step and Decode.
type decoding struct {
	cache     ir.DType
	atOnce    int  // maximum tokens per run if layers cache only their window, see KeepWindow; otherwise 0
	texts     int  // number of texts in the cache
	pages     int  // number of pages that the texts share, of PageSize positions; 0 if each has its own memory
	rows      int  // maximum texts per step, see AtMost; 0 for all
	likeliest bool // see Likeliest
	maxLength int  // bound of S, see Within; 0 for the cache's size
}

func newDecoding(options []Option) decoding {
	how := decoding{cache: ir.F32, texts: 1}
	for _, o := range options {
		o(&how)
	}
	return how
}

// Cache sets the dtype of the KV cache: f32 by default, or another type that CheckCache accepts. Attention converts the
// values while reading them, so half the bytes take half the time.
func Cache(t ir.DType) Option { return func(d *decoding) { d.cache = t } }

// Likeliest adds two outputs to Step, Steps and Batch, for B texts or 1. "likeliest" i32[B] is the index of the largest
// logit, the first of equal ones. "top" f32[B] is the largest logit, or NaN if any logit is NaN. With greedy sampling
// the host then need not read the logits, and the next step reads the token on the device.
func Likeliest() Option { return func(d *decoding) { d.likeliest = true } }

// Within limits the texts of Step, Steps and Batch to n positions, fewer than the states have. The compiler then
// chooses kernels that suit short texts.
func Within(n int) Option { return func(d *decoding) { d.maxLength = n } }

// output adds the outputs of a step for logits [B, vocabulary]. shaped is the same tensor in the shape of output
// "logits".
func (d decoding) output(b *frontend.Builder, logits, shaped frontend.Tensor) {
	b.Output("logits", shaped)
	if d.likeliest {
		best := logits.Argmax(-1)
		b.Output("likeliest", best)
		// This gather fuses with the argmax into one kernel.
		b.Output("top", logits.Gather(1, best.Reshape(best.Dim(0), 1)).Reshape(best.Dim(0)))
	}
}

// Decode returns the logits, f32, for tokens i32[T], the last tokens of a text of length positions. rows selects the
// tokens after which logits are computed. Decode declares two states per layer, cache_k.N and cache_v.N [KVHeads,
// maxContext, HeadDim], with the keys and values of earlier runs, and appends to them. See KeepWindow for shorter
// states, and Texts for several texts.
func Decode(b *frontend.Builder, cfg Config, tokens frontend.Tensor, length ir.Dim, maxContext int, rows Rows,
	options ...Option) frontend.Tensor {
	m, how := newModel(b, cfg, int64(maxContext)), newDecoding(options)
	positions, past := m.continued(b, how, tokens.Dim(0), length, maxContext)
	return m.forward(tokens, positions, past, rows)
}

// continued returns the rotary positions and the [history] of n tokens that continue a text, the last n of its length
// positions.
func (m model) continued(b *frontend.Builder, how decoding, n, length ir.Dim, maxContext int) (
	rotary frontend.Tensor, past history) {
	if most := n.Max(); how.atOnce > 0 && most > int64(how.atOnce) {
		b.Fail("llm", fmt.Errorf("%d tokens at once: layers have room for only %d in addition to their "+
			"window", most, how.atOnce))
	}
	m.adapt(b)
	start := b.DimValue(length).Sub(b.DimValue(n)) // the position of the first token
	positions := b.Iota(ir.I32, 0, n).Add(start)
	text := how.textInput(b)
	var pages frontend.Tensor
	if how.pages > 0 {
		pages = b.Input("pages", ir.I32, ir.D(PagesOf(maxContext)))
	}
	cache := cachedText{b: b, how: how, context: maxContext, text: text, pages: pages, start: start,
		positions: positions, length: length}
	attend := func(l layer, q, k, v frontend.Tensor, o []frontend.AttentionOption) frontend.Tensor {
		keys, values := l.extended(k, v, func(name string, x frontend.Tensor) frontend.Tensor {
			return cache.extend(l, name, x)
		})
		return l.attendText(q, keys, values, o)
	}
	end := func() frontend.Tensor { return b.DimValue(length) }
	return m.offset(positions), history{attend: attend, perText: n.Max(),
		states: &states{texts: how.texts, text: text, begin: start, end: end}}
}

// cachedText is the KV cache of the text that a graph continues.
type cachedText struct {
	b         *frontend.Builder
	how       decoding
	context   int             // positions that the cache has for each text
	text      frontend.Tensor // i32[], the text's number; the zero Tensor if there is only one
	pages     frontend.Tensor // the text's pages, or the zero Tensor without paging
	start     frontend.Tensor // i32[], the position of the first current token
	positions frontend.Tensor // i32[T], of the current tokens
	length    ir.Dim          // positions of the text, including the current tokens
}

// extend appends x [KVHeads, T, width], a layer's keys or values of the current tokens, to the state of that name. It
// returns the keys or values of the whole text, [KVHeads, length, width].
func (c cachedText) extend(l layer, name string, x frontend.Tensor) frontend.Tensor {
	how := c.how
	ring, kept := how.ring(l.Config, l.index, c.context)
	cache := how.state(c.b, name, l, ring, kept)
	// The state belongs to pages, to several texts (each with a part of it, whole or a ring), or to one text.
	switch {
	case !ring && how.pages > 0:
		extended := how.scatter(cache, x, paged(c.pages, c.positions))
		c.b.Update(cache, extended)
		return how.pageValues(extended, c.pages).Slice(1, 0, c.length)
	case how.texts > 1:
		first := c.text.MulScalar(float64(kept)) // the index of the text's first position in the state
		if ring {
			extended := how.scatter(cache, x, first.Add(c.positions.Mod(c.positions.Lit(float64(kept)))))
			c.b.Update(cache, extended)
			own := how.fromCacheType(extended).DynamicSlice(1, first, ir.D(kept))
			return unroll(own, c.context).Slice(1, 0, c.length)
		}
		extended := cache.DynamicUpdateSlice(1, how.toCacheType(x), c.start.Add(first))
		c.b.Update(cache, extended)
		return how.fromCacheType(extended).DynamicSlice(1, first, c.length)
	case ring:
		extended := cache.RingUpdateSlice(1, how.toCacheType(x), c.start)
		c.b.Update(cache, extended)
		return unroll(how.fromCacheType(extended), c.context).Slice(1, 0, c.length)
	}
	extended := cache.DynamicUpdateSlice(1, how.toCacheType(x), c.start)
	c.b.Update(cache, extended)
	return how.fromCacheType(extended).Slice(1, 0, c.length)
}

// state declares the state for one layer's keys or values. It has the given number of positions per text or, with
// paging, the pages of all texts. Layers with a ring have one ring per text even with paging.
func (d decoding) state(b *frontend.Builder, name string, l layer, ring bool, positions int) frontend.Tensor {
	if err := l.CheckCache(d.cache); err != nil {
		b.Fail("llm", err)
	}
	all := d.texts * positions
	if d.pages > 0 && !ring {
		all = d.pages * PageSize
	}
	heads, width := l.cached()
	return b.ShardedState(0, fmt.Sprintf("%s.%d", name, l.index), d.cache, heads, all, width)
}

// toCacheType converts x to the dtype of the cache.
func (d decoding) toCacheType(x frontend.Tensor) frontend.Tensor {
	if d.cache.IsBlock() {
		return x.Quantize(d.cache)
	}
	return x.Cast(d.cache)
}

// fromCacheType converts cached values to f32.
func (d decoding) fromCacheType(x frontend.Tensor) frontend.Tensor {
	if d.cache.IsBlock() {
		return x.Dequantize(ir.F32)
	}
	return x.Cast(ir.F32)
}

// CheckLogits returns an error if the model is an encoder, which predicts no tokens.
func (c Config) CheckLogits() error {
	a, err := findArchitecture(c.Architecture)
	if err == nil && a.encoder {
		err = fmt.Errorf("architecture %q makes an embedding of a whole text and predicts no tokens: use it for "+
			"embeddings or to rate documents", a.name)
	}
	if err != nil {
		return fmt.Errorf("llm: %w", err)
	}
	return nil
}

// checkLogits returns an error if the model has no logits, or n positions are too many for it; see CheckLogits and
// CheckContext.
func (c Config) checkLogits(n int) error {
	if err := c.CheckLogits(); err != nil {
		return err
	}
	return c.CheckContext(n)
}

// CheckContext returns an error for a number of positions beyond the model's training, for which its output would be
// noise.
func (c Config) CheckContext(n int) error {
	if n < 1 || n > c.Context {
		return fmt.Errorf("llm: %d positions: want 1 to %d, the context of the model", n, c.Context)
	}
	return nil
}

// CheckCache returns an error if dtype t is unsuitable for the KV cache. Suitable are floats, and block formats that
// devices can quantize to, if a head is whole blocks. Integers would round keys and values to 0.
func (c Config) CheckCache(t ir.DType) error {
	if c.keeps(t) {
		return nil
	}
	return fmt.Errorf("KV cache of type %s: want one of %v, for heads of %d elements", t,
		slices.DeleteFunc(ir.DTypes(), func(t ir.DType) bool { return !c.keeps(t) }), c.cachedWidth())
}

// keeps reports whether the KV cache can have dtype t.
func (c Config) keeps(t ir.DType) bool {
	if slices.Contains(ir.QuantizeFormats(), t) { // a head must be whole blocks
		return c.cachedWidth()%t.BlockElems() == 0 && c.LocalHeadDim%t.BlockElems() == 0
	}
	return t.IsFloat() && !t.StorageOnly()
}

// graphName returns the name of a graph: the model's name and the purpose.
func graphName(cfg Config, what string) string {
	if cfg.Name == "" {
		return what
	}
	return cfg.Name + " " + what
}
