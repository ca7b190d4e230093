package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/chat"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/optim"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

//go:embed template.jinja
var templateText string

// template is the chat template.
var template = sync.OnceValue(func() *chat.Template {
	t, err := chat.Parse(templateText)
	if err != nil {
		panic(err)
	}
	return t
})

// sizes are the sizes of a model, which has the architecture of Llama.
type sizes struct {
	context, layers, width, heads, kvHeads, feedForward int
}

func (s sizes) headDim() int { return s.width / s.heads }

// shipped are the sizes of the model in this folder.
var shipped = sizes{context: 512, layers: 5, width: 256, heads: 8, kvHeads: 4, feedForward: 512}

// vocabularySize is the number of tokens.
const vocabularySize = 2048

// model is the model before its training: its file with empty weights, and what is read from it.
type model struct {
	sizes
	metadata  []gguf.KV
	config    llm.Config
	tokenizer *tokenizer.Tokenizer
	answer    []int32 // the tokens that begin an answer
}

// weightTypes lists the names and shapes of the weights.
func (s sizes) weightTypes() (names []string, dims map[string][]int) {
	dims = map[string][]int{}
	add := func(name string, d ...int) { names, dims[name] = append(names, name), d }
	add("token_embd.weight", vocabularySize, s.width)
	for i := range s.layers {
		p := fmt.Sprintf("blk.%d.", i)
		add(p+"attn_norm.weight", s.width)
		add(p+"attn_q.weight", s.width, s.width)
		add(p+"attn_k.weight", s.kvHeads*s.headDim(), s.width)
		add(p+"attn_v.weight", s.kvHeads*s.headDim(), s.width)
		add(p+"attn_output.weight", s.width, s.width)
		add(p+"ffn_norm.weight", s.width)
		add(p+"ffn_gate.weight", s.feedForward, s.width)
		add(p+"ffn_up.weight", s.feedForward, s.width)
		add(p+"ffn_down.weight", s.width, s.feedForward)
	}
	add("output_norm.weight", s.width)
	return names, dims
}

// newModel describes a model of the given sizes.
func newModel(s sizes) (*model, error) {
	m := &model{sizes: s}
	v := readVocabulary()
	if len(v.tokens) != vocabularySize {
		return nil, fmt.Errorf("the vocabulary has %d tokens: want %d", len(v.tokens), vocabularySize)
	}
	const normal, control, userDefined, controls = 1, 3, 4, 3 // GGUF's types, and how many tokens are control
	types := make([]int32, len(v.tokens))
	for i := range types {
		switch {
		case i < controls:
			types[i] = control
		case i < len(special):
			types[i] = userDefined
		default:
			types[i] = normal
		}
	}
	m.metadata = []gguf.KV{
		{Key: "general.architecture", Value: "llama"},
		{Key: "general.name", Value: "gochat"},
		{Key: "general.license", Value: "mit"},
		{Key: "llama.vocab_size", Value: uint32(vocabularySize)},
		{Key: "llama.context_length", Value: uint32(s.context)},
		{Key: "llama.embedding_length", Value: uint32(s.width)},
		{Key: "llama.block_count", Value: uint32(s.layers)},
		{Key: "llama.feed_forward_length", Value: uint32(s.feedForward)},
		{Key: "llama.rope.dimension_count", Value: uint32(s.headDim())},
		{Key: "llama.rope.freq_base", Value: float32(10000)},
		{Key: "llama.attention.head_count", Value: uint32(s.heads)},
		{Key: "llama.attention.head_count_kv", Value: uint32(s.kvHeads)},
		{Key: "llama.attention.layer_norm_rms_epsilon", Value: float32(1e-5)},
		{Key: "tokenizer.ggml.model", Value: "gpt2"},
		{Key: "tokenizer.ggml.pre", Value: "smollm"},
		{Key: "tokenizer.ggml.tokens", Value: v.tokens},
		{Key: "tokenizer.ggml.token_type", Value: types},
		{Key: "tokenizer.ggml.merges", Value: v.merges},
		{Key: "tokenizer.ggml.bos_token_id", Value: uint32(1)},
		{Key: "tokenizer.ggml.eos_token_id", Value: uint32(2)},
		{Key: "tokenizer.ggml.add_bos_token", Value: false},
		{Key: "tokenizer.chat_template", Value: templateText},
	}
	// The configuration and the tokenizer are read from a file with the metadata and weights of 0.
	var file bytes.Buffer
	w, err := m.writer(ir.F32, func(_ string, dims []int) (*ir.Data, error) { return ir.NewData(ir.F32, dims...) })
	if err != nil {
		return nil, err
	}
	if _, err := w.WriteTo(&file); err != nil {
		return nil, err
	}
	f, err := gguf.NewReader(file.Bytes())
	if err != nil {
		return nil, err
	}
	if m.config, err = llm.FromGGUF(f); err == nil {
		m.tokenizer, err = tokenizer.New(f)
	}
	if err != nil {
		return nil, err
	}
	m.answer = m.tokenizer.Encode("<|im_start|>assistant\n", tokenizer.Options{Special: true})
	return m, nil
}

// writer is the model's file, with matrices in type t and vectors in f32.
func (m *model) writer(t ir.DType, weight func(name string, dims []int) (*ir.Data, error)) (*gguf.Writer, error) {
	w := &gguf.Writer{}
	for _, kv := range m.metadata {
		if err := w.Set(kv.Key, kv.Value); err != nil {
			return nil, err
		}
	}
	names, dims := m.weightTypes()
	for _, name := range names {
		d, err := weight(name, dims[name])
		if err == nil && len(dims[name]) > 1 && t != ir.F32 {
			d, err = quantized(d, t)
		}
		if err == nil {
			err = w.Add(name, d)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return w, nil
}

// quantized returns an f32 matrix in a block format.
func quantized(d *ir.Data, t ir.DType) (*ir.Data, error) {
	values, err := d.Floats()
	if err != nil {
		return nil, err
	}
	narrow := make([]float32, len(values))
	for i, x := range values {
		narrow[i] = float32(x)
	}
	q, err := ir.NewData(t, d.Dims...)
	if err != nil {
		return nil, err
	}
	return q, quant.Quantize(q.Bytes, t, narrow, nil)
}

// save writes the trained weights of a program to a GGUF file, matrices as q8_0.
func (m *model) save(exe *vkc.Executable, path string) error {
	w, err := m.writer(ir.Q8_0, func(name string, _ []int) (*ir.Data, error) { return exe.ReadState(name) })
	if err != nil {
		return err
	}
	err = errors.Join(w.Set("general.file_type", uint32(7)), w.Set("general.quantization_version", uint32(2)))
	if err != nil {
		return err
	}
	return w.WriteFile(path)
}

// row is a conversation of length tokens, and for each the token that follows it. Tokens that the model does not
// write
// have -100 there, so that they do not count.
func (m *model) row(r *rand.Rand, length int) (tokens, next []int32, err error) {
	pieces, err := template().Render(conversation(r, turns))
	if err != nil {
		return nil, nil, err
	}
	ids := m.tokenizer.EncodeChat(pieces)
	for len(ids) <= length {
		ids = append(ids, 0)
	}
	tokens = ids[:length]
	answer := false
	for i := range length {
		if i+1 >= len(m.answer) && slices.Equal(ids[i+1-len(m.answer):i+1], m.answer) {
			answer = true
		}
		if answer {
			next = append(next, ids[i+1])
		} else {
			next = append(next, -100)
		}
		if answer && ids[i+1] == 2 {
			answer = false
		}
	}
	return tokens, next, nil
}

// turns is the number of questions in a conversation. They fill the context, and the rest is cut off.
const turns = 24

// random is the source of a step's conversations.
func random(o options, step int) *rand.Rand { return rand.New(rand.NewPCG(o.seed, uint64(step)+1)) }

// batch is the inputs of a step.
func (m *model) batch(o options, step int) (vkc.Tensors, error) {
	r := random(o, step)
	var tokens, next []int32
	for range o.batch {
		t, n, err := m.row(r, m.context)
		if err != nil {
			return nil, err
		}
		tokens, next = append(tokens, t...), append(next, n...)
	}
	a, errA := vkc.Of(tokens, o.batch, m.context)
	b, errB := vkc.Of(next, o.batch, m.context)
	c, errC := vkc.Of([]float32{float32(o.rateAt(step))})
	return vkc.Tensors{"tokens": a, "next": b, "rate": c}, errors.Join(errA, errB, errC)
}

// rateAt is the learning rate of a step: it warms up, and falls to a hundredth.
func (o options) rateAt(step int) float64 {
	warm := max(1, min(100, o.steps/20))
	if step < warm {
		return o.rate * float64(step+1) / float64(warm)
	}
	return o.rate * (1 - 0.99*float64(step-warm)/float64(max(1, o.steps-warm)))
}

// ahead returns the inputs of the steps after some. All processors make batches, so that a fast device has no wait.
func (m *model) ahead(o options, after int) iter.Seq2[vkc.Tensors, error] {
	type batch struct {
		inputs vkc.Tensors
		err    error
	}
	return func(yield func(vkc.Tensors, error) bool) {
		queue, stop := make(chan chan batch, goruntime.GOMAXPROCS(0)), make(chan struct{})
		defer close(stop)
		go func() {
			for step := after; ; step++ {
				made := make(chan batch, 1)
				select {
				case queue <- made:
				case <-stop:
					return
				}
				go func() {
					inputs, err := m.batch(o, step)
					made <- batch{inputs, err}
				}()
			}
		}()
		for made := range queue {
			if b := <-made; !yield(b.inputs, b.err) {
				return
			}
		}
	}
}

// step is the graph of a training step: inputs "tokens" and "next" i32[batch, context] and "rate" f32, and output
// "loss".
func (m *model) step(o options) (*ir.Graph, error) {
	return frontend.Build("train", func(b *frontend.Builder) {
		tokens := b.Input("tokens", ir.I32, o.batch, m.context)
		next := b.Input("next", ir.I32, o.batch, m.context)
		rate := b.Input("rate", ir.F32)
		var list []frontend.Tensor
		weight := func(name string, t ir.Type) frontend.Tensor {
			const deviation = 0.05
			seed := o.seed<<20 + uint64(len(list)) // another one for each weight
			first := ir.InitialNormal(0, deviation, seed)
			switch {
			case len(t.Shape) == 1: // of a norm
				first = ir.InitialConstant(1)
			// These matrices add to the residual, two of them in each layer (Radford et al. 2019, section 2.3).
			case strings.Contains(name, "attn_output") || strings.Contains(name, "ffn_down"):
				first = ir.InitialNormal(0, deviation/math.Sqrt(2*float64(m.layers)), seed)
			}
			list = append(list, b.StateFrom(first, name, ir.F32, t.Shape))
			return list[len(list)-1]
		}
		loss := llm.Loss(b, m.config, tokens, next, llm.TrainOptions{Weights: weight})
		b.Output("loss", loss)
		grads, _ := optim.ClipGlobalNorm(1, frontend.Grad(loss, list...)...)
		optim.Train(nil, list, grads, optim.Steps(b, "step"), optim.RuleOf(rules(rate)))
	})
}

// rules returns the rule that trains a weight at a rate: Muon for matrices inside of the model, and AdamW for the
// others.
func rules(rate frontend.Tensor) func(frontend.Tensor) optim.Rule {
	adam := optim.AdamW{Beta1: 0.9, Beta2: 0.98, Eps: 1e-9, RateOf: rate}
	muon := optim.NewMuon(0)
	muon.RateOf = rate.Mul(rate.Lit(5))
	muon.WeightDecay = 0.01
	return func(t frontend.Tensor) optim.Rule {
		if t.Rank() > 1 && !strings.HasPrefix(t.Node().Name(), "token_embd") {
			return muon
		}
		return adam
	}
}
