package llm

import (
	"fmt"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// Scores returns a graph that says how probable a text is: as Steps, with another
// input "next" i32[T] and, in place of the logits, the output "scores" f32[T], the
// natural logarithm of the probability that the model gives token next[i] to follow
// tokens[i]. Logits of all tokens never leave the device.
func Scores(cfg Config, maxTokens, maxContext int, options ...Option) (*ir.Graph, error) {
	if maxTokens < 1 || maxTokens > maxContext {
		return nil, fmt.Errorf("llm: %d tokens at once: want 1 to %d, the positions there are", maxTokens, maxContext)
	}
	if err := cfg.checkContext(maxContext); err != nil {
		return nil, err
	}
	return frontend.Build(graphName(cfg, "scores"), func(b *frontend.Builder) {
		t := b.Sym("T", maxTokens)
		tokens, next := b.Input("tokens", ir.I32, t), b.Input("next", ir.I32, t)
		logits := Decode(b, cfg, tokens, b.Sym("S", maxContext), maxContext, EveryToken, options...)
		chosen := logits.Gather(1, next.Unsqueeze(1)).Reshape(t)
		b.Output("scores", chosen.Sub(logits.LogSumExp(1)))
	})
}
