package generate

import (
	"context"
	"errors"
	"sync"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/ir"
)

// extra is a program besides prefill and decoding. It is loaded at first use.
type extra int

const (
	sampler         extra = iota // chooses tokens where the logits are
	rankedSampler                // also sorts, for top-k and top-p
	scorer                       // scores the tokens of a text
	likeliestScorer              // also returns the likeliest tokens
	extraCount
)

// extraGraph returns the graph of an extra program, and the precision of its matmuls.
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

// extras are the extra programs loaded so far.
type extras struct {
	mu     sync.Mutex
	loaded [extraCount]*vkc.Executable
	closed bool
}

// extra returns an extra program, loading it if necessary.
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
