package llm_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// plainForward returns the logits of the tiny model after each token, computed with loops over float64, as an
// independent check of the graphs.
func plainForward(t *testing.T, m tiny, tokens []int32) [][]float64 {
	t.Helper()
	weights := m.weights(t)
	p := plain{t: t, weights: weights, headDim: cmp.Or(m.headDim, headDim), factor: cmp.Or(m.factor, 1),
		experts: m.experts}
	residual := make([][]float64, len(tokens)) // by position
	table := p.matrix("token_embd.weight")
	for i, id := range tokens {
		residual[i] = append([]float64{}, table[int(id)*width:][:width]...)
	}
	for l := range layers {
		blk := fmt.Sprintf("blk.%d.", l)
		var keys, values [][]float64
		for pos, x := range residual {
			h := p.norm(x, blk+"attn_norm.weight")
			keys = append(keys, p.rotate(p.linear(h, blk+"attn_k.weight"), pos))
			values = append(values, p.linear(h, blk+"attn_v.weight"))
			q := p.rotate(p.linear(h, blk+"attn_q.weight"), pos)
			addTo(x, p.linear(p.attend(q, keys, values), blk+"attn_output.weight"))
			h = p.norm(x, blk+"ffn_norm.weight")
			addTo(x, p.feedForward(h, blk))
		}
	}
	head := "token_embd.weight"
	if weights["output.weight"] != nil {
		head = "output.weight"
	}
	logits := make([][]float64, len(tokens))
	for i, x := range residual {
		logits[i] = p.linear(p.norm(x, "output_norm.weight"), head)
	}
	return logits
}

type plain struct {
	t       *testing.T
	weights map[string]*ir.Data
	headDim int
	factor  float64 // of positions
	experts int
}

func (p plain) feedForward(h []float64, blk string) []float64 {
	if p.experts == 0 {
		return p.swiglu(h, p.matrix(blk+"ffn_gate.weight"), p.matrix(blk+"ffn_up.weight"),
			p.matrix(blk+"ffn_down.weight"))
	}
	score := p.linear(h, blk+"ffn_gate_inp.weight")
	order := make([]int, len(score))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(score[b], score[a]) })
	out, total := make([]float64, len(h)), 0.0
	for _, e := range order[:2] { // the softmax of the scores of those used
		total += math.Exp(score[e])
	}
	expert := func(name string, e int) []float64 {
		w := p.matrix(blk + name)
		return w[e*len(w)/p.experts : (e+1)*len(w)/p.experts]
	}
	for _, e := range order[:2] {
		for i, y := range p.swiglu(h, expert("ffn_gate_exps.weight", e), expert("ffn_up_exps.weight", e),
			expert("ffn_down_exps.weight", e)) {
			out[i] += math.Exp(score[e]) / total * y
		}
	}
	return out
}

func (p plain) swiglu(h, gate, up, down []float64) []float64 {
	g, u := product(gate, h), product(up, h)
	for i := range u {
		u[i] *= g[i] / (1 + math.Exp(-g[i]))
	}
	return product(down, u)
}

// matrix decodes a weight.
func (p plain) matrix(name string) []float64 {
	d := p.weights[name]
	if !d.DType.IsBlock() {
		v, err := d.Floats()
		if err != nil {
			p.t.Fatal(err)
		}
		return v
	}
	return decoded(p.t, d)
}

func (p plain) linear(x []float64, name string) []float64 { return product(p.matrix(name), x) }

func product(w, x []float64) []float64 {
	y := make([]float64, len(w)/len(x))
	for o := range y {
		y[o] = dot(w[o*len(x):][:len(x)], x)
	}
	return y
}

func (p plain) norm(x []float64, name string) []float64 {
	scale := 1 / math.Sqrt(dot(x, x)/float64(len(x))+1e-5)
	y := p.matrix(name)
	for i := range y {
		y[i] *= x[i] * scale
	}
	return y
}

// rotate turns neighbouring pairs of each head.
func (p plain) rotate(x []float64, pos int) []float64 {
	var factors []float64
	if p.weights["rope_freqs.weight"] != nil {
		factors = p.matrix("rope_freqs.weight")
	}
	for i := 0; i < len(x); i += 2 {
		angle := float64(pos) / p.factor * math.Pow(500, -float64(i%p.headDim)/float64(p.headDim))
		if factors != nil {
			angle /= factors[i%p.headDim/2]
		}
		sin, cos := math.Sincos(angle)
		x[i], x[i+1] = x[i]*cos-x[i+1]*sin, x[i]*sin+x[i+1]*cos
	}
	return x
}

// attend is attention of one position over all up to it.
func (p plain) attend(q []float64, keys, values [][]float64) []float64 {
	out, headDim := make([]float64, len(q)), p.headDim
	for h := range heads {
		g := h / (heads / kvHeads)
		head := func(x []float64, h int) []float64 { return x[h*headDim:][:headDim] }
		weights, sum := make([]float64, len(keys)), 0.0
		for s, k := range keys {
			weights[s] = math.Exp(dot(head(q, h), head(k, g)) / math.Sqrt(float64(headDim)))
			sum += weights[s]
		}
		for s, v := range values {
			for i, e := range head(v, g) {
				out[h*headDim+i] += weights[s] / sum * e
			}
		}
	}
	return out
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func addTo(x, y []float64) {
	for i := range x {
		x[i] += y[i]
	}
}
