package llm

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/ir"
)

// Pooling says how the outputs of a text's tokens are combined into one vector.
type Pooling string

// The kinds of pooling.
const (
	PoolMean Pooling = "mean" // the mean of all tokens
	PoolCLS  Pooling = "cls"  // the first token, which BERT calls CLS
	PoolLast Pooling = "last" // the last token
	PoolRank Pooling = "rank" // a head rates two texts, such as a query and a document: see Ranking
)

// poolings lists the kinds of pooling by their number in metadata key pooling_type.
var poolings = []Pooling{"", PoolMean, PoolCLS, PoolLast, PoolRank}

// pooling reads the model's pooling.
func (r *metadata) pooling(c *Config) {
	key := r.prefix + "pooling_type"
	if _, ok := r.f.Lookup(key); !ok || r.err != nil {
		return
	}
	n, err := r.f.Int(key)
	if err == nil && (n < 0 || n >= int64(len(poolings))) {
		err = fmt.Errorf("metadata %q is %d, which is not supported: want 0 (none), 1 (mean), 2 (cls), 3 (last) or "+
			"4 (rank)", key, n)
	}
	if err != nil {
		r.err = err
		return
	}
	c.Pooling = poolings[n]
}

// Embedding returns the graph that maps a text to a vector: input "tokens" i32[T], for a symbol T up to maxTokens, and
// output "embedding" f32[Width], not normalized. The vector is the output of the last layer, after the last norm if
// there is one, pooled as Config.Pooling says.
func Embedding(cfg Config, maxTokens int) (*ir.Graph, error) {
	if err := cfg.CheckContext(maxTokens); err != nil {
		return nil, err
	}
	if cfg.Pooling == PoolRank {
		return nil, errors.New("llm: the model rates pairs of texts and makes no embeddings")
	}
	if !slices.Contains(poolings[1:], cfg.Pooling) { // poolings[0] is none
		return nil, fmt.Errorf("llm: the model makes no embeddings, pooling %q: want %s, %s or %s, as in a model made "+
			"for embeddings", cfg.Pooling, PoolMean, PoolCLS, PoolLast)
	}
	return frontend.Build(graphName(cfg, "embedding"), func(b *frontend.Builder) {
		tokens := b.Input("tokens", ir.I32, b.Sym("T", maxTokens))
		m := newModel(b, cfg, tokens.Dim(0).Max())
		m.adapt(b)
		x := m.pooled(tokens, cfg.Pooling)
		m.adapters.check(b, m.Layers)
		b.Output("embedding", x.Reshape(-1))
	})
}

// pooled returns the vector of a text, [1, Width]: the mean of all tokens' rows, the last row or, for any other
// pooling, the first row.
func (m model) pooled(tokens frontend.Tensor, pooling Pooling) frontend.Tensor {
	b := tokens.Builder()
	x := m.layers(tokens, b.Iota(ir.I32, 0, tokens.Dim(0)), noHistory)
	if m.w.Sub(m.arch.finalNorm()).Has("weight") {
		x = m.norm(x, m.w.Sub(m.arch.finalNorm()))
	}
	switch pooling {
	case PoolMean:
		return x.MeanKeep(0)
	case PoolLast:
		return lastRow(x)
	}
	return x.IndexSelect(0, b.Const([]int32{0}))
}

// Names of the weights of the head that rates two texts: see rankingHead.
const (
	rankHidden = "cls"
	rankNorm   = "cls.norm"
	rankOutput = "cls.output"
)

// rankingHead lists the weights of the head of an encoder that rates two texts. The file determines the number of
// ratings.
func (c Config) rankingHead() []weightSpec {
	if c.Types == nil && c.Pooling != PoolRank { // a folder of another kind: its pooler is not used
		return nil
	}
	return optional(append(c.norms(rankNorm), matrix(rankHidden, c.rows(rankHidden), c.Width),
		matrix(rankOutput, c.rows(rankOutput), c.Width))...)
}

// Ranking returns the graph that rates two texts, such as a query and a document: input "tokens" i32[T], for a symbol T
// up to maxTokens, with the tokens of both texts, and output "scores" f32[ratings]. A model with segments has one more
// input, "first" i32[]: the number of tokens of the first text, and of the special tokens before and after it.
func Ranking(cfg Config, maxTokens int) (*ir.Graph, error) {
	arch, err := findArchitecture(cfg.Architecture)
	if err != nil {
		return nil, fmt.Errorf("llm: %w", err)
	}
	if err := cfg.CheckContext(maxTokens); err != nil {
		return nil, err
	}
	_, hidden := cfg.Types[rankHidden+".weight"]
	_, output := cfg.Types[rankOutput+".weight"]
	if cfg.Pooling != PoolRank || !hidden && !output {
		return nil, fmt.Errorf("llm: the model rates no texts, pooling %q: want %s, and the weight %s or %s",
			cfg.Pooling, PoolRank, rankHidden, rankOutput)
	}
	return frontend.Build(graphName(cfg, "ranking"), func(b *frontend.Builder) {
		tokens := b.Input("tokens", ir.I32, b.Sym("T", maxTokens))
		m := newModel(b, cfg, tokens.Dim(0).Max())
		m.adapt(b)
		// Tokens of the first text are in segment 0, and the others in segment 1.
		if cfg.RanksSegments() {
			m.segments = b.Iota(ir.I32, 0, tokens.Dim(0)).Ge(b.Input("first", ir.I32)).Cast(ir.I32)
		}
		x := m.pooled(tokens, cmp.Or(arch.ranked, PoolCLS))
		head := m.w.Sub(rankHidden)
		if hidden {
			x = nn.Linear(x, head)
		}
		switch {
		case hidden && head.Sub("norm").Has("weight"):
			x = m.norm(x.GeluErf(), head.Sub("norm"))
		case hidden && output:
			x = x.Tanh()
		}
		if output {
			x = nn.Linear(x, head.Sub("output"))
		}
		m.adapters.check(b, m.Layers)
		b.Output("scores", x.Reshape(-1))
	})
}

// RanksSegments reports whether the graph of Ranking has the input "first".
func (c Config) RanksSegments() bool {
	types := c.Types["token_types.weight"].Shape
	return c.Pooling == PoolRank && c.Architecture == bert.name && len(types) == 2 && types[0].Static() > 1
}
