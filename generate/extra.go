package generate

import (
	"context"
	"errors"
	"sync"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/ir"
)

// extra is a program beside those that read texts and go on with them. It is loaded when somebody first wants it.
type extra int

const (
	sampler         extra = iota // chooses tokens where the logits are
	rankedSampler                // and sorts for it
	scorer                       // says how probable the tokens of a text are
	likeliestScorer              // and which ones would be the likeliest
	extraCount
)

// extraGraph is the graph of one, and what its matrix products may lose.
func (m *Model) extraGraph(e extra, o Options) (g *ir.Graph, precision string, err error) {
	switch e {
	case sampler, rankedSampler:
		g, err = llm.Sampler(m.config, m.places, e == rankedSampler)
	case scorer, likeliestScorer:
		likeliest := 0
		if e == likeliestScorer {
			likeliest = min(maxLikeliest, m.config.Vocab)
		}
		precision = o.Precision
		g, err = llm.Scores(m.config, m.scored(), m.context, likeliest, m.cache(o)...)
	}
	return g, precision, err
}

// extras are those that were wanted so far.
type extras struct {
	mu     sync.Mutex
	loaded [extraCount]*vkc.Executable
	closed bool
}

// extra returns one of them.
func (m *Model) extra(ctx context.Context, e extra) (*vkc.Executable, error) {
	m.extras.mu.Lock()
	defer m.extras.mu.Unlock()
	if m.extras.closed {
		return nil, errClosed
	}
	exe := &m.extras.loaded[e]
	if *exe != nil {
		return *exe, nil
	}
	g, precision, err := m.extraGraph(e, m.options)
	if err == nil {
		*exe, err = m.load(ctx, g, Options{Precision: precision}, m.step)
	}
	return *exe, err
}

// close releases them.
func (x *extras) close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	var errs []error
	for _, exe := range x.loaded {
		if exe != nil {
			errs = append(errs, exe.Close())
		}
	}
	return errors.Join(errs...)
}
