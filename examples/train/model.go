package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/lora"
	"github.com/vkc-go/vkc/frontend/optim"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/ir"
)

// model has the contents of a model's GGUF file.
type model struct {
	file      *gguf.File
	config    llm.Config
	tokenizer *tokenizer.Tokenizer
}

// openModel reads a model's GGUF file.
func openModel(o options) (*model, error) {
	path := o.gguf
	if path == "" {
		for _, dir := range []string{"examples", ".."} {
			path = filepath.Join(dir, "gollama", "gollama-q8_0.gguf")
			if _, err := os.Stat(path); err == nil {
				break
			}
		}
	}
	f, err := gguf.Open(path)
	if err != nil && o.gguf == "" {
		err = fmt.Errorf("%w: run this in the root of the repository, or name a model with -gguf", err)
	}
	if err != nil {
		return nil, err
	}
	m := &model{file: f}
	if m.config, err = llm.FromGGUF(f); err == nil {
		m.tokenizer, err = tokenizer.New(f)
	}
	if err == nil && o.layers > m.config.Layers {
		err = fmt.Errorf("-layers %d: the model has %d", o.layers, m.config.Layers)
	}
	if err == nil {
		if err = m.config.CheckContext(o.context); err != nil {
			err = fmt.Errorf("-context: %w", err)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if o.layers > 0 {
		m.config.Layers = o.layers
	}
	return m, nil
}

// step is the graph of a training step: input "tokens" i32[batch, context+1] and output "loss".
func (m *model) step(o options) (*ir.Graph, error) {
	g, err := frontend.Build("train", func(b *frontend.Builder) {
		all := b.Input("tokens", ir.I32, o.batch, o.context+1)
		tokens, next := all.Slice(1, 0, ir.D(o.context)), all.Slice(1, 1, ir.D(o.context+1))
		p := &params{b: b, o: o, layers: m.config.Layers}
		how := llm.TrainOptions{Weights: p.weight}
		if o.lora > 0 {
			how = llm.TrainOptions{Adapt: p.adapt}
		}
		how.Remat = o.remat
		loss := llm.Loss(b, m.config, tokens, next, how)
		b.Output("loss", loss)
		var grads []frontend.Tensor
		var finite frontend.Tensor // whether a step is taken; the zero Tensor is always
		if o.half {
			scale := b.StateFrom(ir.InitialConstant(1<<16), "scale", ir.F32)
			grads, finite = optim.NewLossScale().Step(scale, frontend.Grad(loss.Mul(scale), p.list...)...)
		} else {
			grads = frontend.Grad(loss, p.list...)
		}
		grads, norm := optim.ClipGlobalNorm(1, grads...)
		b.Output("norm", norm)
		step := optim.StepsTaken(b, "step", finite)
		optim.Train(nil, p.list, grads, step, optim.RuleOf(p.rule(step)), optim.TakeIf(finite))
	})
	if err == nil && o.half {
		g, err = vkc.WithPrecision(g, ir.PrecisionHalf)
	}
	return g, err
}

// params are the trained parameters, in states.
type params struct {
	b      *frontend.Builder
	o      options
	layers int
	list   []frontend.Tensor
}

// add makes a state with its own random numbers.
func (p *params) add(name string, first ir.Initial, dims ...frontend.Dim) frontend.Tensor {
	t := p.b.StateFrom(first, name, ir.F32, dims...)
	p.list = append(p.list, t)
	return t
}

// seed returns the seed of the next parameter.
func (p *params) seed() uint64 { return p.o.seed<<20 + uint64(len(p.list)) }

// weight adds a weight that is trained from scratch (Radford et al. 2019). Matrices are normally distributed with a
// standard deviation of 0.02, or less if they write to the residual stream. Scales of norms are 1.
func (p *params) weight(name string, t ir.Type) frontend.Tensor {
	first := ir.InitialNormal(0, 0.02, p.seed())
	switch {
	case len(t.Shape) == 1 && strings.HasSuffix(name, ".bias"):
		first = ir.Initial{}
	case len(t.Shape) == 1:
		first = ir.InitialConstant(1)
	case strings.Contains(name, "attn_output") || strings.Contains(name, "ffn_down"):
		first = ir.InitialNormal(0, 0.02/math.Sqrt(2*float64(p.layers)), p.seed())
	}
	return p.add(name, first, t.Shape)
}

// adapt adds to the matmul y of x with a matrix [out, in] a matmul with two small matrices, [rank, in] and [out,
// rank]. The second matrix is initially zero. The token table has no adapter.
func (p *params) adapt(weight string, x, y frontend.Tensor) frontend.Tensor {
	if strings.HasPrefix(weight, "token_embd") {
		return y
	}
	in, out := x.Dim(-1), y.Dim(-1)
	if most := min(in.Static(), out.Static()); p.o.lora > most {
		p.b.Fail("lora", fmt.Errorf("-lora %d: %s, %s by %s, has a rank of %d at most", p.o.lora, weight, out, in,
			most))
	}
	down := p.add(weight+llm.AdapterA, ir.InitialNormal(0, 1/math.Sqrt(float64(in.Static())), p.seed()), p.o.lora, in)
	up := p.add(weight+llm.AdapterB, ir.Initial{}, out, p.o.lora)
	return y.Add(x.MatMulT(down).MatMulT(up).MulScalar(adapterFactor))
}

// adapterFactor multiplies the matmuls of adapters.
const adapterFactor = 2

// saveAdapter writes the trained matrices of adapters to a GGUF file.
func (m *model) saveAdapter(exe *vkc.Executable, o options) error {
	a, b := map[string]*ir.Data{}, map[string]*ir.Data{}
	for _, port := range exe.States() {
		for suffix, to := range map[string]map[string]*ir.Data{llm.AdapterA: a, llm.AdapterB: b} {
			weight, ok := strings.CutSuffix(port.Name, suffix)
			if !ok {
				continue
			}
			d, err := exe.ReadState(port.Name)
			if err != nil {
				return err
			}
			to[weight] = d
		}
	}
	return lora.Write(o.adapter, m.config.Architecture, float64(adapterFactor*o.lora), a, b)
}

// rules are the values of flag -rule.
var rules = []string{"adamw", "lion", "muon"}

// rule returns the rule that trains a parameter. The learning rate warms up and then decreases to a tenth. Weight
// decay applies only to matrices.
func (p *params) rule(step frontend.Tensor) func(frontend.Tensor) optim.Rule {
	rate := func(top float64) frontend.Tensor {
		warm := max(1, p.o.steps/20)
		return optim.WarmUp(warm, optim.Cosine(top, top/10, max(1, p.o.steps-warm)))(step)
	}
	adam := optim.AdamW{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, RateOf: rate(p.o.rate)}
	lion := optim.NewLion(0)
	muon := optim.NewMuon(0)
	switch p.o.rule {
	case "lion":
		lion.RateOf = rate(p.o.rate / 5)
	case "muon":
		muon.RateOf = rate(20 * p.o.rate)
	}
	return func(t frontend.Tensor) optim.Rule {
		decay := 0.0
		if t.Rank() > 1 {
			decay = 0.1
		}
		switch {
		case p.o.rule == "lion":
			lion.WeightDecay = 5 * decay
			return lion
		case p.o.rule == "muon" && t.Rank() > 1 && !strings.HasPrefix(t.Node().Name(), "token_embd"):
			return muon
		}
		adam.WeightDecay = decay
		return adam
	}
}
