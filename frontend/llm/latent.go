package llm

import (
	"cmp"
	"math"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/ir"
)

// latentAttention is multi-head latent attention over x [T, Width]; see Config.Latent. The cache has, for each
// position, the rotated elements and the normalized latent vector, RopeDims+Latent numbers, in place of keys and
// values.
//
// There are two forms of the same sum. The plain form makes each head's keys and values of the cached vectors, and is
// ordinary attention. The absorbed form multiplies the queries by the matrix of the keys instead, and the result by the
// matrix of the values: then all heads attend to one key, the cached vector, and its latent part is the value. The
// plain form needs less arithmetic for many tokens of a text, and the absorbed form for few.
func (l layer) latentAttention(x frontend.Tensor) frontend.Tensor {
	plain := l.HeadDim - l.RopeDims // elements of a key that are not rotated
	var q frontend.Tensor
	if l.QueryLatent > 0 {
		q = nn.Linear(l.norm(nn.Linear(x, l.w.Sub("attn_q_a")), "attn_q_a_norm"), l.w.Sub("attn_q_b"))
	} else {
		q = nn.Linear(x, l.w.Sub("attn_q"))
	}
	q = l.split(q, l.Heads) // [Heads, T, HeadDim]; the last RopeDims elements are rotated
	fixed, turned := q.Slice(2, 0, ir.D(plain)), q.Slice(2, plain, ir.D(l.HeadDim))
	both := nn.Linear(x, l.w.Sub("attn_kv_a_mqa"))
	latent := l.norm(both.Slice(1, 0, ir.D(l.Latent)), "attn_kv_a_norm")
	// The cached vectors [1, T, RopeDims+Latent]: the rotated elements come first, because rotate turns the first ones.
	k := l.rotate(both.Slice(1, l.Latent, both.Dim(1)).Concat(1, latent).Unsqueeze(0))

	l.AttentionScale = cmp.Or(l.AttentionScale, 1/math.Sqrt(float64(l.HeadDim)))
	keyOf, valueOf := l.latentMatrices()
	if !l.absorbs() {
		l.unfold = func(cached frontend.Tensor) (keys, values frontend.Tensor) { // [1, S, RopeDims+Latent]
			latent := cached.Slice(2, l.RopeDims, cached.Dim(2))
			shared := cached.Slice(2, 0, ir.D(l.RopeDims)).Broadcast(ir.D(l.Heads), cached.Dim(1), ir.D(l.RopeDims))
			return shared.Concat(2, keyOf.Times(latent)), valueOf.Times(latent)
		}
		y := l.attended(l.rotate(turned.Concat(2, fixed)), k, frontend.Tensor{})
		return nn.Linear(y, l.w.Sub("attn_output"))
	}
	l.unfold = func(cached frontend.Tensor) (keys, values frontend.Tensor) {
		return cached, cached.Slice(-1, l.RopeDims, cached.Dim(-1))
	}
	y := l.attended(l.rotate(turned.Concat(2, keyOf.TimesBack(fixed))), k, frontend.Tensor{})
	y = valueOf.Times(y.Reshape(y.Dim(0), l.Heads, l.Latent).SwapAxes(0, 1))
	return nn.Linear(joinHeads(y), l.w.Sub("attn_output"))
}

// latentMatrices returns the matrices that make keys [Heads, HeadDim-RopeDims, Latent] and values [Heads, ValueDim,
// Latent] of a latent vector. Older files have them in one weight, attn_kv_b. In newer files attn_k_b is transposed.
func (l layer) latentMatrices() (keyOf, valueOf nn.Matrix) {
	plain := l.HeadDim - l.RopeDims
	if k := l.w.Sub("attn_k_b"); k.Has("weight") {
		return nn.MatrixOf(k, ir.F32).T(), nn.MatrixOf(l.w.Sub("attn_v_b"), ir.F32)
	}
	both := nn.MatrixOf(l.w.Sub("attn_kv_b"), ir.F32).Heads(l.Heads)
	return both.Rows(0, plain), both.Rows(plain, plain+l.ValueDim)
}

// absorbs reports whether the absorbed form needs fewer operations. For each head and position, the plain form makes a
// key and a value once, and the absorbed form multiplies longer vectors for each query.
func (l layer) absorbs() bool {
	if l.past.perText == 0 { // no earlier tokens have latent vectors
		return false
	}
	// The plain form makes a key and a value from a latent vector.
	once := l.Latent * (l.HeadDim - l.RopeDims + l.ValueDim)
	// The absorbed form takes 2*Latent+RopeDims multiplications for each query, and the plain form HeadDim+ValueDim.
	more := 2*l.Latent + l.RopeDims - l.HeadDim - l.ValueDim
	return l.past.perText*int64(more) <= int64(once)
}

// latentProjections lists the weights that latentAttention uses.
func (c Config) latentProjections() []weightSpec {
	queries, plain := c.Heads*c.HeadDim, c.HeadDim-c.RopeDims
	list := []weightSpec{matrix("attn_kv_a_mqa", c.Latent+c.RopeDims, c.Width), vector("attn_kv_a_norm", c.Latent),
		matrix("attn_output", c.Width, c.Heads*c.ValueDim)}
	if c.QueryLatent > 0 {
		list = append(list, matrix("attn_q_a", c.QueryLatent, c.Width), vector("attn_q_a_norm", c.QueryLatent),
			matrix("attn_q_b", queries, c.QueryLatent))
	} else {
		list = append(list, matrix("attn_q", queries, c.Width))
	}
	both := weightSpec{name: "attn_kv_b", shape: ir.ShapeOf(c.Heads*(plain+c.ValueDim), c.Latent), linear: true}
	if _, split := c.Types["blk.0.attn_k_b.weight"]; !split {
		return append(list, both)
	}
	return append(append(list, weightSpec{name: "attn_k_b", shape: ir.ShapeOf(c.Heads, c.Latent, plain)},
		weightSpec{name: "attn_v_b", shape: ir.ShapeOf(c.Heads, c.ValueDim, c.Latent)}), optional(both)...)
}

// latent reads the sizes of latent attention. Files in the absorbed form describe a single key head, and have the sizes
// of the plain form in keys that end in _mla.
func (r *metadata) latent(c *Config) {
	c.Latent = r.size("attention.kv_lora_rank")
	if n := r.intOr("attention.q_lora_rank", 0); n > 0 {
		c.QueryLatent = r.size("attention.q_lora_rank")
	}
	c.HeadDim = r.sizeOr("attention.key_length_mla", c.HeadDim)
	c.ValueDim = r.sizeOr("attention.value_length_mla", cmp.Or(c.ValueDim, c.HeadDim))
	c.KVHeads = 1
	for i := range c.PerLayer {
		c.PerLayer[i].KVHeads = 1
	}
}

// cached returns the shape [heads, width] of the cached keys of a position. Values have the same shape, if they are
// cached.
func (c Config) cached() (heads, width int) { return c.KVHeads, c.cachedWidth() }

func (c Config) cachedWidth() int {
	if c.Latent > 0 {
		return c.RopeDims + c.Latent
	}
	return c.HeadDim
}
