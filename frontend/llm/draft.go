package llm

import (
	"fmt"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// Drafts returns the graph of a step for several tokens, as Steps does, with the logits after every token: output
// "logits" f32[T, vocabulary]. Speculative decoding checks a token and the guesses after it in one run of this graph.
func Drafts(cfg Config, maxTokens, maxContext int, options ...Option) (*ir.Graph, error) {
	if maxTokens < 1 || maxTokens > maxContext {
		return nil, fmt.Errorf("llm: %d tokens at once: want 1 to %d, the number of positions", maxTokens, maxContext)
	}
	if err := cfg.checkLogits(maxContext); err != nil {
		return nil, err
	}
	return frontend.Build(graphName(cfg, "drafts"), func(b *frontend.Builder) {
		tokens := b.Input("tokens", ir.I32, b.Sym("T", maxTokens))
		b.Output("logits", Decode(b, cfg, tokens, b.Sym("S", maxContext), maxContext, EveryToken, options...))
	})
}
