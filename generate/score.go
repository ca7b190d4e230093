package generate

import (
	"context"
	"fmt"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/llm"
)

// maxLikeliest is how many of the likeliest tokens Score names at most.
const maxLikeliest = 20

// Score returns each token of a text with its log-probability given the tokens before it, and with the given number of
// likeliest alternatives, at most 20. The first token has no Odds. The text is computed from its beginning, and
// Generate can then continue it from the KV cache. Score waits for a slot like an answer.
func (m *Model) Score(ctx context.Context, text []int32, likeliest int) ([]Token, error) {
	if err := m.checkScore(text, likeliest); err != nil {
		return nil, err
	}
	decoder := m.tok.Decoder()
	list := []Token{{ID: text[0], Text: decoder.Next(text[0])}}
	if len(text) > 1 {
		which := scorer
		if likeliest > 0 {
			which = likeliestScorer
		}
		exe, err := m.extra(ctx, which)
		if err != nil {
			return nil, err
		}
		scales, err := m.adapterScales(Sampling{})
		if err != nil {
			return nil, err
		}
		ctx, leave := context.WithCancel(ctx)
		defer leave()
		a := m.engine.submit(&answer{ctx: ctx, text: text, scales: scales, scorer: exe, chooser: &chooser{model: m,
			sampling: Sampling{MaxTokens: 1, Likeliest: likeliest}}})
		for {
			tokens, _, err := a.take()
			if err != nil {
				return nil, err
			}
			if len(tokens) == 0 {
				break
			}
			for _, t := range tokens {
				t.Text = decoder.Next(t.ID)
				list = append(list, t)
			}
		}
	}
	list[len(list)-1].Text += decoder.Flush() // bytes of an incomplete character at the end
	return list, nil
}

// checkScore refuses wrong arguments of Score.
func (m *Model) checkScore(text []int32, likeliest int) error {
	switch {
	case len(text) == 0 || len(text) > m.context:
		return fmt.Errorf("generate: the text has %d tokens: want 1 to %d, the context", len(text), m.context)
	case likeliest < 0 || likeliest > maxLikeliest:
		return fmt.Errorf("generate: the %d most likely tokens: want 0 to %d", likeliest, maxLikeliest)
	}
	return m.checkTokens(text)
}

// scored returns the number of tokens scored at a time. It is small because each token has logits for the whole
// vocabulary.
func (m *Model) scored() int { return min(llm.Parts(m.part)[0], m.part) }

// score runs at most limit further tokens of a text that Model.Score scores. The score of a token needs the tokens
// before it, so score queues those of the tokens after each that it runs. Model.Score takes them from the queue.
func (s *slot) score(ctx context.Context, limit int) error {
	a, begin := s.answer, len(s.cached)
	end := min(begin+min(limit, s.model.scored()), len(a.text)-1)
	in, err := s.inputs(a.text[begin:end])
	if err != nil {
		return err
	}
	s.wrote(end)
	out, scores, err := scores(ctx, a.scorer.Executable, in, a.text, begin, end)
	if err != nil {
		return err
	}
	var best []int32
	if d := out["likeliest"]; d != nil {
		if best, err = vkc.Values[int32](d); err != nil {
			return err
		}
	}
	// A row of scores has the token's own log probability, and then those of the likeliest tokens.
	columns := len(scores) / (end - begin)
	for i, id := range a.text[begin+1 : end+1] {
		row, odds := scores[i*columns:][:columns], &Odds{}
		odds.Logprob = float64(row[0])
		for j := range min(a.chooser.sampling.Likeliest, columns-1) {
			odds.Likeliest = append(odds.Likeliest, Alternative{best[i*(columns-1)+j], float64(row[1+j])})
		}
		a.queue(Token{ID: id, Odds: odds})
	}
	s.cached = append(s.cached, a.text[begin:end]...)
	return nil
}

// scores runs an llm.Scores program on the tokens text[begin:end]. in already has them as inputs; scores adds the
// tokens to score, text[begin+1:end+1]. It returns all outputs, and the output "scores" as floats.
func scores(ctx context.Context, exe *vkc.Executable, in vkc.Tensors, text []int32, begin, end int) (vkc.Tensors,
	[]float32, error) {
	if err := addInput(in, "next", text[begin+1:end+1], end-begin); err != nil {
		return nil, nil, err
	}
	res, err := exe.Run(ctx, in, vkc.RunOptions{Symbols: map[string]int64{"S": int64(end)}})
	if err != nil {
		return nil, nil, err
	}
	list, err := vkc.Values[float32](res.Outputs["scores"])
	return res.Outputs, list, err
}
