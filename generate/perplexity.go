package generate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/tokenizer"
)

// Perplexity measures how well a model predicts a text: the exponential of the mean negative log-probability of its
// tokens (Jelinek et al. 1977).
type Perplexity struct {
	Value  float64 `json:"perplexity"`
	StdErr float64 `json:"standard_error"` // of Value, treating tokens as independent
	Chunks int     `json:"chunks"`
	Tokens int     `json:"tokens"` // number of counted tokens
}

// defaultChunk is the number of tokens per chunk in most published perplexities.
const defaultChunk = 512

// MeasurePerplexity measures a model on a text, as llama.cpp does. It cuts the text into chunks of Options.Context
// tokens, 512 by default, and drops an incomplete last chunk. The model reads each chunk from its beginning, and only
// the tokens in the second half count, because these have enough context. chunks, if not 0, bounds the number of
// chunks. progress, unless nil, is called after each chunk with the result so far.
func MeasurePerplexity(ctx context.Context, path, text string, o Options, chunks int,
	progress func(p Perplexity, total int)) (p Perplexity, err error) {
	o.AdapterScales = false
	m, err := prepare(ctx, path, &o)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := m.checkLogits(path); err != nil {
		return p, err
	}
	list, err := m.chunks(text, o, chunks)
	if err != nil {
		return p, err
	}
	if m.context < 4 {
		return p, wrongOption("Context", "chunks of %d tokens: want at least 4, because only the second half counts",
			m.context)
	}
	atOnce := min(defaultChunk, m.part, m.context) // tokens whose logits are in memory at the same time
	graph, err := llm.Scores(m.config, atOnce, m.context, 0, m.cache(o)...)
	if err != nil {
		return p, err
	}
	exe, err := m.load(ctx, graph, o, nil)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, exe.Close()) }()
	var sum moments
	for i, chunk := range list {
		scores, err := scoresOf(ctx, exe, chunk, atOnce)
		if err != nil {
			return p, err
		}
		for _, s := range scores[m.context/2:] {
			sum.add(-float64(s))
		}
		p = sum.perplexity()
		p.Chunks = i + 1
		if progress != nil {
			progress(p, len(list))
		}
	}
	return p, nil
}

// chunks cuts a text into chunks of Options.Context tokens, 512 by default, and sets the model's context to that
// number. If most is not 0, it returns at most that many chunks.
func (m *Model) chunks(text string, o Options, most int) (list [][]int32, err error) {
	if o.Context == 0 {
		m.context = min(defaultChunk, m.config.Context)
	}
	tokens := m.tok.Encode(text, tokenizer.Options{Whole: true})
	if len(tokens) < m.context {
		return nil, fmt.Errorf("generate: the text has %d tokens: want at least %d, one chunk; take a longer text or "+
			"a smaller context", len(tokens), m.context)
	}
	bos, begins := m.beginsTexts()
	for chunk := range slices.Chunk(tokens[:len(tokens)/m.context*m.context], m.context) {
		if most > 0 && len(list) == most {
			break
		}
		if begins { // it replaces a token, as in other programs
			chunk[0] = bos
		}
		list = append(list, chunk)
	}
	return list, nil
}

// beginsTexts returns the token that begins every text, and whether the tokenizer adds one.
func (m *Model) beginsTexts() (token int32, added bool) {
	bos, ok := m.tok.BOS()
	frame := m.tok.Encode("", tokenizer.Options{Whole: true})
	return bos, ok && len(frame) > 0 && frame[0] == bos
}

// scoresOf returns the log probability of each token of a text except the first, given the tokens before it. A run
// computes at most atOnce of them.
func scoresOf(ctx context.Context, exe *vkc.Executable, text []int32, atOnce int) ([]float32, error) {
	var all []float32
	for begin := 0; begin < len(text)-1; begin += atOnce { // no token follows the last one
		end, in := min(begin+atOnce, len(text)-1), vkc.Tensors{}
		if err := addInput(in, "tokens", text[begin:end], end-begin); err != nil {
			return nil, err
		}
		_, list, err := scores(ctx, exe, in, text, begin, end)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// moments are sums of numbers and of their squares.
type moments struct {
	n            int
	sum, squares float64
}

func (m *moments) add(x float64) {
	m.n++
	m.sum += x
	m.squares += float64(x * x) // the conversion prevents a fused multiply-add, so that all machines agree
}

// perplexity returns the perplexity and its standard error, if the numbers that add got are negative log probabilities.
// The perplexity is the exponential of their mean.
func (m *moments) perplexity() Perplexity {
	n := float64(m.n)
	mean := m.sum / n
	p := Perplexity{Value: math.Exp(mean), Tokens: m.n}
	// The conversion prevents a fused multiply-add.
	if variance := m.squares/n - float64(mean*mean); variance > 0 && m.n > 1 {
		// An error of the mean changes exp(mean) by exp(mean) times as much, to first order.
		p.StdErr = math.Sqrt(variance/(n-1)) * p.Value
	}
	return p
}
