package transcribe

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/speech"
)

// beamProgram is the program of a beam search, speech.Beams. It is made for a number of beams, at the first request for
// it.
type beamProgram struct {
	size int
	exe  *vkc.Executable
}

// close closes the program, if it is loaded, and forgets it.
func (p *beamProgram) close() (err error) {
	if p.exe != nil {
		err = p.exe.Close()
	}
	*p = beamProgram{}
	return err
}

// loadBeams loads the program for a number of beams.
func (m *Model) loadBeams(ctx context.Context, beams int) error {
	if m.beams.size == beams {
		return nil
	}
	if err := m.beams.close(); err != nil {
		return err
	}
	g, err := speech.Beams(m.config, beams, m.cache)
	if m.beams.exe, err = m.load(ctx, g, err, m.precision, m.options, m.steps); err != nil {
		return err
	}
	m.beams.size = beams
	return nil
}

// beam is a text of a beam search.
type beam struct {
	tokens []int32
	sum    float64 // of the log probabilities, with the end's if the text has ended
	from   int     // the number of the text that it continues, or the number of beams for the prompt
}

// perToken returns the measure of a text that has ended.
func (b beam) perToken() float64 { return b.sum / float64(max(len(b.tokens), 1)) }

// search writes the text of the window by a beam search, as Whisper's definition does it. In each step all tokens may
// follow all texts, and the likeliest texts remain. The search ends when as many texts have ended as there are beams.
// The result is the text with the highest mean log probability of its tokens.
func (j *job) search(ctx context.Context, length int, logits []float64) (w written, err error) {
	if err := j.loadBeams(ctx, j.Beams); err != nil {
		return w, err
	}
	texts, ended := []beam{{from: j.Beams}}, []beam(nil)
	for {
		var done []beam
		texts, done = j.extend(texts, logits)
		ended = append(ended, done[:min(len(done), j.Beams-len(ended))]...)
		if len(texts) == 0 || len(ended) >= j.Beams {
			break
		}
		if len(texts[0].tokens) >= j.maxText() || length >= j.config.Context { // all texts are equally long
			break
		}
		length++
		if logits, err = j.beamLogits(ctx, texts, length); err != nil {
			return w, err
		}
	}
	// Texts that have not ended make up the number.
	ended = append(ended, texts[:min(len(texts), j.Beams-len(ended))]...)
	best := slices.MaxFunc(ended, func(a, b beam) int { return cmp.Compare(a.perToken(), b.perToken()) })
	w.tokens = best.tokens
	return j.measured(w, best.sum), nil
}

// extend continues each text with its likeliest tokens, by logits, which has a row for each text. It goes through the
// results from the likeliest one on: going has the first j.Beams results that have not ended, and done the results
// among them that have.
func (j *job) extend(texts []beam, logits []float64) (going, done []beam) {
	var all []beam
	size := len(logits) / len(texts)
	for n, t := range texts {
		if len(t.tokens) > 0 { // else it still continues the prompt
			t.from = n
		}
		all = append(all, j.continuations(t, slices.Clone(logits[n*size:][:size]))...)
	}
	slices.SortStableFunc(all, func(a, b beam) int { return cmp.Compare(b.sum, a.sum) })
	for _, b := range all {
		if last := len(b.tokens) - 1; b.tokens[last] == j.tokens.End {
			b.tokens = b.tokens[:last]
			done = append(done, b)
			continue
		}
		going = append(going, b)
		if len(going) == j.Beams {
			break
		}
	}
	return going, done
}

// continuations returns a text with each of its j.Beams+1 likeliest next tokens, by their logits, which it modifies.
// More are not needed: the search keeps at most j.Beams texts that go on, and one of the tokens may end the text.
func (j *job) continuations(t beam, logits []float64) (list []beam) {
	with := func(id int32, sum float64) beam { return beam{append(slices.Clone(t.tokens), id), sum, t.from} }
	j.allow(logits, t.tokens)
	total := logSumExp(logits)
	if math.IsInf(total, -1) { // nothing is allowed
		return []beam{with(j.tokens.End, t.sum)}
	}
	ids := make([]int32, 0, len(logits))
	for id, v := range logits {
		if !math.IsInf(v, -1) {
			ids = append(ids, int32(id))
		}
	}
	slices.SortStableFunc(ids, func(a, b int32) int { return cmp.Compare(logits[b], logits[a]) })
	for _, id := range ids[:min(len(ids), j.Beams+1)] {
		list = append(list, with(id, t.sum+logits[id]-total))
	}
	return list
}

// beamLogits runs the decoder for the last token of each text, and returns the logits of the next tokens, one text
// after another. The program runs j.Beams rows, and rows without a text are not used.
func (j *job) beamLogits(ctx context.Context, texts []beam, length int) ([]float64, error) {
	tokens, from := make([]int32, j.Beams), make([]int32, j.Beams)
	for i, t := range texts {
		tokens[i], from[i] = t.tokens[len(t.tokens)-1], int32(t.from)
	}
	last, err := vkc.Of(tokens, len(tokens))
	if err != nil {
		return nil, err
	}
	continued, err := vkc.Of(from, len(from))
	if err != nil {
		return nil, err
	}
	in := vkc.Tensors{"tokens": last, "from": continued}
	res, err := j.beams.exe.Run(ctx, in, vkc.RunOptions{Symbols: map[string]int64{"S": int64(length)}})
	if err != nil {
		return nil, err
	}
	logits, err := res.Outputs["logits"].Floats()
	if err != nil {
		return nil, err
	}
	logits = logits[:len(texts)*j.config.Vocab]
	if slices.ContainsFunc(logits, isUnusable) {
		return nil, errUnusable
	}
	return logits, nil
}
