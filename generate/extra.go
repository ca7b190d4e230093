package generate

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/ir"
)

// extra names a program other than prefill and decoding. The model loads it at first use.
type extra int

const (
	sampler         extra = iota // chooses tokens where the logits are
	rankedSampler                // see llm.SamplerKind
	anySampler                   // likewise
	mirostatSampler              // likewise
	drySampler                   // likewise
	masker                       // forbids tokens
	scorer                       // scores the tokens of a text
	likeliestScorer              // also returns the likeliest tokens
	extraCount
)

// extraGraph returns the graph of an extra program, and the precision of its matmuls, which is empty for programs
// without matmuls.
func (m *Model) extraGraph(e extra, o Options) (g *ir.Graph, precision string, err error) {
	switch e {
	case sampler, rankedSampler, anySampler, mirostatSampler, drySampler:
		g, err = llm.Sampler(m.config, m.slotCount, llm.SamplerKind(e-sampler))
	case masker:
		g, err = llm.Masker(m.config, m.slotCount)
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

// loadedExtra is an extra program after loading.
type loadedExtra struct {
	*vkc.Executable
	alone bool // on the CPU, while the model is on a device: it has weights and states of its own
}

// extras are the extra programs loaded so far.
type extras struct {
	mu     sync.Mutex
	loaded [extraCount]*loadedExtra
	cpu    *vkc.Device // for programs that the model's device does not run; nil without any
	closed bool
}

// extra returns an extra program, and loads it at the first use. If the program fails on a device that vkc chose, extra
// loads it on the CPU, and reports the reason to Options.Fallback. If the options name the device, the failure is an
// error.
func (m *Model) extra(ctx context.Context, e extra) (*loadedExtra, error) {
	m.extras.mu.Lock()
	defer m.extras.mu.Unlock()
	if m.extras.closed {
		return nil, errClosed
	}
	if p := m.extras.loaded[e]; p != nil {
		return p, nil
	}
	g, precision, err := m.extraGraph(e, m.options)
	if err != nil {
		return nil, err
	}
	exe, err := m.load(ctx, g, Options{Precision: precision}, m.step)
	refused := (*refusedError)(nil)
	if err = m.refusal(ctx, fmt.Sprintf("the program %q", g.Name), err); errors.As(err, &refused) {
		if exe, err = m.loadAlone(ctx, g, precision); err != nil {
			return nil, fmt.Errorf("%w; the CPU fast path cannot run it either: %w", refused, err)
		}
		m.reportFallback(refused)
	}
	if err != nil {
		return nil, err
	}
	m.extras.loaded[e] = &loadedExtra{exe, refused != nil}
	return m.extras.loaded[e], nil
}

// loadAlone loads a program on the CPU, with weights and states of its own. The caller holds m.extras.mu.
func (m *Model) loadAlone(ctx context.Context, g *ir.Graph, precision string) (_ *vkc.Executable, err error) {
	if m.extras.cpu == nil {
		if m.extras.cpu, err = vkc.OpenDevice("cpu"); err != nil {
			return nil, err
		}
	}
	if g, err = withPrecision(g, precision); err != nil {
		return nil, err
	}
	p, err := m.extras.cpu.Compile(ctx, g, vkc.CompileOptions{Weights: m.weights})
	if err != nil {
		return nil, err
	}
	return m.extras.cpu.Load(ctx, p, vkc.LoadOptions{Weights: m.weights})
}

// run runs an extra program that has no states. in has inputs on the host, and o.Inputs inputs on the model's device.
// All outputs stay on the model's device. A program that was loaded on the CPU alone gets copies of the inputs, and its
// outputs are copied back.
func (p *loadedExtra) run(ctx context.Context, m *Model, in vkc.Tensors,
	o vkc.RunOptions) (res *vkc.Result, err error) {
	if !p.alone {
		return p.Run(ctx, in, o)
	}
	for name, t := range o.Inputs {
		if in[name], err = t.Read(ctx); err != nil {
			return nil, err
		}
	}
	here, err := p.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	res = &vkc.Result{Kept: map[string]*vkc.DeviceTensor{}}
	for _, name := range o.Keep {
		if res.Kept[name], err = m.step.Upload(ctx, here.Outputs[name]); err != nil {
			closeAll(res.Kept)
			return nil, err
		}
	}
	return res, nil
}

// close releases all extra programs.
func (x *extras) close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	var errs []error
	for _, p := range x.loaded {
		if p != nil {
			errs = append(errs, p.Close())
		}
	}
	if x.cpu != nil {
		errs = append(errs, x.cpu.Close())
	}
	return errors.Join(errs...)
}
