package llm

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// Pooling says how the outputs of a text's tokens are combined into one vector.
type Pooling string

// The kinds of pooling.
const (
	PoolMean Pooling = "mean" // the mean of all tokens
	PoolCLS  Pooling = "cls"  // the first token, which BERT calls CLS
	PoolLast Pooling = "last" // the last token
)

// poolings lists the kinds of pooling by their number in metadata key pooling_type.
var poolings = []Pooling{"", PoolMean, PoolCLS, PoolLast}

// pooling reads the model's pooling.
func (r *metadata) pooling(c *Config) {
	key := r.prefix + "pooling_type"
	if _, ok := r.f.Lookup(key); !ok || r.err != nil {
		return
	}
	n, err := r.f.Int(key)
	if err == nil && (n < 0 || n >= int64(len(poolings))) {
		err = fmt.Errorf("metadata %q is %d, which is not supported: want 1 (mean), 2 (cls) or 3 (last)", key, n)
	}
	if r.err = err; err == nil {
		c.Pooling = poolings[n]
	}
}

// Embedding returns the graph that maps a text to a vector: input "tokens" i32[T], for a symbol T up to maxTokens, and
// output "embedding" f32[Width], not normalized. The vector is the output of the last layer, after the last norm if
// there is one, pooled as Config.Pooling says.
func Embedding(cfg Config, maxTokens int) (*ir.Graph, error) {
	if err := cfg.CheckContext(maxTokens); err != nil {
		return nil, err
	}
	if !slices.Contains(poolings[1:], cfg.Pooling) {
		return nil, fmt.Errorf("llm: the model makes no embeddings, pooling %q: want %s, %s or %s, which a model made "+
			"for embeddings names in its file", cfg.Pooling, PoolMean, PoolCLS, PoolLast)
	}
	return frontend.Build(graphName(cfg, "embedding"), func(b *frontend.Builder) {
		tokens := b.Input("tokens", ir.I32, b.Sym("T", maxTokens))
		m := newModel(b, cfg, tokens.Dim(0).Max())
		m.adapt(b)
		x := m.layers(tokens, b.Iota(ir.I32, 0, tokens.Dim(0)), noHistory)
		if m.w.Sub(outputNorm).Has("weight") {
			x = m.norm(x, m.w.Sub(outputNorm))
		}
		m.adapters.check(b, m.Layers)
		switch cfg.Pooling {
		case PoolMean:
			x = x.Mean(0)
		case PoolCLS:
			x = x.IndexSelect(0, b.Const([]int32{0}))
		case PoolLast:
			x = lastRow(x)
		}
		b.Output("embedding", x.Reshape(-1))
	})
}
