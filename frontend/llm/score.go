package llm

import (
	"fmt"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// Scores returns the graph that computes the probability of a text. It has the input "tokens" and the states of Steps.
// A second input, "next" i32[T], has the token after each token. In place of the logits it has the output "scores"
// f32[T, 1+likeliest]. Row i has natural logarithms of probabilities, given the text up to tokens[i]: first of token
// next[i], then of the likeliest tokens in descending order. If likeliest is not 0, the output "likeliest" i32[T,
// likeliest] has the ids of the likeliest tokens. The logits never leave the device.
func Scores(cfg Config, maxTokens, maxContext, likeliest int, options ...Option) (*ir.Graph, error) {
	if maxTokens < 1 || maxTokens > maxContext {
		return nil, fmt.Errorf("llm: %d tokens at once: want 1 to %d, the number of positions", maxTokens, maxContext)
	}
	if likeliest < 0 || likeliest > cfg.Vocab {
		return nil, fmt.Errorf("llm: the %d most likely of %d tokens: want 0 to all", likeliest, cfg.Vocab)
	}
	if err := cfg.checkLogits(maxContext); err != nil {
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
		b.Output("scores", logits.Gather(1, asked).Sub(logits.LogSumExpKeep(1))) // log softmax of the asked tokens
	})
}
