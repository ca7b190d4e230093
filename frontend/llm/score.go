package llm

import (
	"fmt"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// Scores returns a graph that says how probable a text is: as Steps, with another
// input "next" i32[T] and, in place of the logits, the output "scores" f32[T, 1+likeliest]. Row i has natural
// logarithms of probabilities that the model gives what follows tokens[i]: that of token next[i], and those of the
// likeliest tokens, the likeliest first. The output "likeliest" i32[T, likeliest], which there is unless these are
// none, names them. Logits of all tokens never leave the device.
func Scores(cfg Config, maxTokens, maxContext, likeliest int, options ...Option) (*ir.Graph, error) {
	if maxTokens < 1 || maxTokens > maxContext {
		return nil, fmt.Errorf("llm: %d tokens at once: want 1 to %d, the positions there are", maxTokens, maxContext)
	}
	if likeliest < 0 || likeliest > cfg.Vocab {
		return nil, fmt.Errorf("llm: the likeliest %d of %d tokens: want 0 to all", likeliest, cfg.Vocab)
	}
	if err := cfg.CheckContext(maxContext); err != nil {
		return nil, err
	}
	return frontend.Build(graphName(cfg, "scores"), func(b *frontend.Builder) {
		t := b.Sym("T", maxTokens)
		tokens, next := b.Input("tokens", ir.I32, t), b.Input("next", ir.I32, t)
		logits := Decode(b, cfg, tokens, b.Sym("S", maxContext), maxContext, EveryToken, options...)
		asked := next.Unsqueeze(1)
		if likeliest > 0 {
			best := logits.TopKIndices(1, likeliest)
			b.Output("likeliest", best)
			asked = asked.Concat(1, best)
		}
		b.Output("scores", logits.Gather(1, asked).Sub(logits.LogSumExpKeep(1)))
	})
}
