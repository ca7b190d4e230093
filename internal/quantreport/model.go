package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	goruntime "runtime"
	"slices"
	"sync"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
)

// model is a language model computed in f32, whatever the dtype of its stored weights, so that a measurement shows only
// the loss of the weights.
type model struct {
	graph     *ir.Graph
	weights   vkc.WeightMap // f32
	tokenizer *tokenizer.Tokenizer
	context   int // maximum tokens per run
	device    *vkc.Device
}

// openModel reads an f16 model, converts its weights to f32, and builds its graph.
func openModel(path string, device *vkc.Device) (*model, error) {
	f, err := vkc.OpenModel(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cfg, err := llm.FromGGUF(f)
	if err != nil {
		return nil, err
	}
	m := &model{weights: vkc.WeightMap{}, context: cfg.Context, device: device}
	for name, t := range cfg.Types {
		if t.DType != ir.F32 && t.DType != ir.F16 {
			return nil, fmt.Errorf("%s: %q is %s: want the f16 model", path, name, t.DType)
		}
		if m.weights[name], err = loadF32(f, name); err != nil {
			return nil, err
		}
		t.DType = ir.F32
		cfg.Types[name] = t
	}
	m.graph, err = frontend.Build("every token", func(b *frontend.Builder) {
		b.Output("logits", llm.Forward(b, cfg, b.Input("tokens", ir.I32, b.Sym("T", cfg.Context)), llm.EveryToken))
	})
	if err != nil {
		return nil, err
	}
	m.tokenizer, err = tokenizer.New(f)
	return m, err
}

// loadF32 returns a weight of the file, converted to f32.
func loadF32(f *gguf.File, name string) (*ir.Data, error) {
	d, err := f.Weight(name)
	if err != nil {
		return nil, err
	}
	var values []float64
	err = mmap.Guard(func() (err error) { values, err = d.Floats(); return err })
	if err != nil {
		return nil, err
	}
	return ir.FromFloats(ir.F32, values, d.Dims...)
}

// windows cuts texts into lists of tokens, one for each run of the model. Each starts with the beginning-of-text token.
// The last token of a list is only predicted, not given to the model. predicted is the number of predicted tokens.
func (m *model) windows(texts []string) (list [][]int64, predicted int, err error) {
	bos, ok := m.tokenizer.BOS()
	if !ok {
		return nil, 0, errors.New("the model has no token that begins a text")
	}
	for _, text := range texts {
		for ids := range slices.Chunk(m.tokenizer.Encode(text, tokenizer.Options{}), m.context) {
			window := []int64{int64(bos)}
			for _, id := range ids {
				window = append(window, int64(id))
			}
			list = append(list, window)
			predicted += len(ids)
		}
	}
	return list, predicted, nil
}

// outputs runs a graph over each window, without its last token, and calls visit with the window's index and the
// outputs.
func (m *model) outputs(ctx context.Context, g *ir.Graph, w ir.WeightSource, windows [][]int64,
	visit func(i int, out map[string]*ir.Data) error) (err error) {
	exe, err := m.device.LoadGraph(ctx, g, w)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, exe.Close()) }()
	for i, window := range windows {
		n := len(window) - 1
		tokens, err := ir.FromInts(ir.I32, window[:n], n)
		if err != nil {
			return err
		}
		res, err := exe.Run(ctx, map[string]*ir.Data{"tokens": tokens})
		if err != nil {
			return err
		}
		if err := visit(i, res.Outputs); err != nil {
			return err
		}
	}
	return nil
}

// quantizedWeights returns the model's weights after a round trip: matrices are quantized to t and dequantized, and the
// others are unchanged.
func (m *model) quantizedWeights(t ir.DType, importance importances) (vkc.WeightMap, error) {
	all := vkc.WeightMap{}
	for name, d := range m.weights {
		all[name] = d
		if len(d.Dims) != 2 {
			continue
		}
		wide, err := d.Floats()
		if err != nil {
			return nil, err
		}
		x := make([]float32, len(wide))
		for i, v := range wide {
			x[i] = float32(v)
		}
		row, err := importance.row(name, d.Dims[1])
		if err != nil {
			return nil, err
		}
		if x, err = roundTrip(t, x, row); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if all[name], err = ir.FromFloats(ir.F32, widen(x), d.Dims...); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// evaluate scores weights on the windows. For the f16 model ref is nil, and evaluate returns its logits; the other
// models are compared with these.
func (m *model) evaluate(ctx context.Context, w vkc.WeightMap, windows [][]int64,
	ref [][]float64) (s score, logits [][]float64, err error) {
	n := 0
	err = m.outputs(ctx, m.graph, w, windows, func(i int, out map[string]*ir.Data) error {
		all, err := out["logits"].Floats()
		if err != nil {
			return err
		}
		base := all
		if ref != nil {
			base = ref[i]
		} else {
			logits = append(logits, all)
		}
		s.window(base, all, windows[i][1:])
		n += len(windows[i]) - 1
		return nil
	})
	s.finish(n)
	return s, logits, err
}

// window adds the scores of one run, whose predictions are logits [len(next), vocab]. base are the f16 model's logits
// and next the right tokens. It uses all cores, and adds in a fixed order so that the sums are reproducible.
func (s *score) window(base, logits []float64, next []int64) {
	vocab := len(logits) / len(next)
	each := make([]score, len(next))
	var wg sync.WaitGroup
	workers := goruntime.GOMAXPROCS(0)
	for worker := range workers {
		wg.Go(func() {
			for j := worker; j < len(next); j += workers {
				each[j].token(base[j*vocab:][:vocab], logits[j*vocab:][:vocab], int(next[j]))
			}
		})
	}
	wg.Wait()
	for _, e := range each {
		s.KL += e.KL
		s.Perplexity += e.Perplexity
		s.Accuracy += e.Accuracy
		s.Agreement += e.Agreement
	}
}

// token adds one prediction: the logits of the f16 model and of the current one, and the actual token.
func (s *score) token(base, logits []float64, next int) {
	baseTop, baseSum := logSumExp(base)
	top, sum := logSumExp(logits)
	for i, v := range base {
		logP, logQ := v-baseSum, logits[i]-sum
		s.KL += math.Exp(logP) * (logP - logQ)
	}
	s.Perplexity += sum - logits[next] // the logarithm, until finish
	if top == next {
		s.Accuracy++
	}
	if top == baseTop {
		s.Agreement++
	}
}

// finish divides the sums by the number n of tokens. The perplexity is the exponential of the mean loss.
func (s *score) finish(n int) {
	for _, v := range []*float64{&s.KL, &s.Perplexity, &s.Accuracy, &s.Agreement} {
		*v /= float64(n)
	}
	s.Perplexity = math.Exp(s.Perplexity)
}

// logSumExp returns the index of the largest element, and the logarithm of the sum of exponentials.
func logSumExp(x []float64) (top int, sum float64) {
	for i, v := range x {
		if v > x[top] {
			top = i
		}
	}
	for _, v := range x {
		sum += math.Exp(v - x[top])
	}
	return top, x[top] + math.Log(sum)
}
