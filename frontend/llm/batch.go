package llm

import (
	"cmp"
	"fmt"
	"math"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// Texts makes graphs cache n texts (sequences of tokens) side by side. The states have shape [KVHeads, n*maxContext,
// HeadDim], and position p of text i is at i*maxContext + p. In layers that cache only a window, its length takes the
// place of maxContext. Graphs of Steps and Decode then have one more input, "text" i32[]: the text that their tokens
// continue. n = 1, the default, adds no input.
func Texts(n int) Option { return func(d *decoding) { d.texts = n } }

// AtMost limits a step of Batch to tokens of n texts, fewer than are cached. With n = 1, B is 1 and not a symbol.
// Graphs for different n have the same states. Their kernels add in different orders, so their logits are equal only up
// to rounding.
func AtMost(n int) Option { return func(d *decoding) { d.rows = n } }

// Batch returns the graph of one decoding step for several texts at once, of up to maxContext tokens each. Its inputs,
// for a symbol B up to the number of texts, are:
//
//   - "tokens" i32[B], one token of each text
//   - "texts" i32[B], the texts to which the tokens belong, all distinct
//   - "positions" i32[B], the number of tokens before each token in its text
//
// Its output is "logits" f32[B, vocabulary]: row i is for the token after tokens[i]. The states are the same as the
// states of Steps with the same options.
//
// The logits of a text do not depend on the rest of the batch, bit for bit: the graph alone determines the order of
// every row's sums.
func Batch(cfg Config, texts, maxContext int, options ...Option) (*ir.Graph, error) {
	if err := cfg.checkLogits(maxContext); err != nil {
		return nil, err
	}
	how := newDecoding(append(options, Texts(texts)))
	most := cmp.Or(how.rows, texts)
	switch {
	case texts < 1:
		return nil, fmt.Errorf("llm: a batch of %d texts: want at least one", texts)
	case most < 1 || most > texts:
		return nil, fmt.Errorf("llm: a batch of %d of %d texts: want 1 to as many as there are", most, texts)
	}
	return frontend.Build(graphName(cfg, "batch"), func(b *frontend.Builder) {
		rows := ir.D(1) // no symbol if there can be only one text
		if most > 1 || texts == 1 {
			rows = b.Sym("B", most)
		}
		input := func(name string) frontend.Tensor { return b.Input(name, ir.I32, rows) }
		tokens, textIDs, positions := input("tokens"), input("texts"), input("positions")
		var pages frontend.Tensor
		if how.pages > 0 {
			pages = b.Input("pages", ir.I32, rows, ir.D(PagesOf(maxContext)))
		}
		logits := DecodeBatch(b, cfg, tokens, textIDs, positions, pages, texts, maxContext, options...)
		how.output(b, logits, logits)
	})
}

// DecodeBatch returns the logits f32[B, vocabulary] after one more token of each of several texts. tokens i32[B] are
// the tokens, textIDs i32[B] the texts that they continue, all distinct, and positions i32[B] their positions. pages
// are as described at Pages, or the zero Tensor without paging. texts is the number of texts in the KV cache, and
// maxContext the number of positions of each. Like Decode, it declares the states of the KV cache.
func DecodeBatch(b *frontend.Builder, cfg Config, tokens, textIDs, positions, pages frontend.Tensor, texts,
	maxContext int, options ...Option) frontend.Tensor {
	r := batch{how: newDecoding(append(options, Texts(texts))), context: maxContext, texts: textIDs,
		positions: positions, pages: pages}
	r.groups = []group{{each: 1, texts: textIDs, positions: positions, pages: pages}}
	m := newModel(b, cfg, int64(maxContext))
	m.adapt(b, tokens.Dim(0))
	end := func() frontend.Tensor { return positions.AddScalar(1) }
	past := history{attend: r.attend, perText: 1,
		states: &states{texts: r.how.texts, text: textIDs, begin: positions, end: end}}
	return m.forward(tokens, m.offset(positions, tokens.Dim(0)), past, EveryToken)
}

// batch is a [history] for rows that belong to different texts. A row is one token.
type batch struct {
	how                     decoding
	context                 int
	texts, positions, pages frontend.Tensor // of each row: its text, its position, and the pages of its text
	groups                  []group

	// at has the index of each row's result of attention, i32[T], in the results of all groups. It is the zero Tensor
	// if the only group has all rows, in order.
	at frontend.Tensor
}

// group has N query tiles for attention. A tile has `each` rows of one text with successive positions.
type group struct {
	each             int
	texts, positions frontend.Tensor // i32[N], the text of each tile, and the position of its first row
	rows             frontend.Tensor // i32[N], the first rows of tiles; the zero Tensor if tile i is row i
	pages            frontend.Tensor // i32[N, ...], or the zero Tensor without paging
}

// attend appends each row's key and value to its text's cache, and computes attention of each row to its own text. The
// cache of a text is a ring in layers with a window, or in pages, or a part of one state.
func (r batch) attend(l layer, q, k, v frontend.Tensor, options []frontend.AttentionOption) frontend.Tensor {
	c := rowsCache{batch: r, l: l, extended: map[string]frontend.Tensor{}}
	c.ring, c.kept = r.how.ring(l.Config, l.index, r.context)
	c.inPages = !c.ring && r.how.pages > 0
	if c.inPages {
		c.kept = PagesOf(c.kept) * PageSize
	}
	used := c.kept // attention reads the first `used` of the kept positions
	if !c.ring {
		used = min(cmp.Or(r.how.maxLength, c.kept), c.kept)
	}
	var results []frontend.Tensor // of each group
	for i, g := range r.groups {
		l.group = i
		keys, values := l.extended(k, v, func(name string, x frontend.Tensor) frontend.Tensor {
			return c.read(c.extend(name, x), g, used)
		})
		y := g.queries(q).Attention(keys, values, append(options, frontend.Mask(g.mask(l, c.ring, used)))...)
		if g.each > 1 {
			y = y.SwapAxes(1, 2) // [tiles, each, Heads, width]
		}
		rows := g.texts.Dim(0).Times(int64(g.each))
		results = append(results, y.Reshape(rows, ir.D(l.Heads*int(y.Dim(3).Max()))))
	}
	if r.at.IsZero() {
		return results[0]
	}
	return results[0].Concat(0, results[1:]...).IndexSelect(0, r.at)
}

// rowsCache is the cache of keys and values of a layer for the rows of a batch.
type rowsCache struct {
	batch
	l        layer
	ring     bool                       // each text has a ring buffer
	inPages  bool                       // each text has pages
	kept     int                        // cached positions per text
	extended map[string]frontend.Tensor // the states with the current rows, by name
}

// extend returns the state of that name with x, the keys or values of all rows, added. Groups share the state, so only
// the first call for a name adds x.
func (c rowsCache) extend(name string, x frontend.Tensor) frontend.Tensor {
	if state, ok := c.extended[name]; ok {
		return state
	}
	state, positions := c.how.state(x.Builder(), name, c.l, c.ring, c.kept), c.positions
	if c.ring {
		positions = positions.Mod(positions.Lit(float64(c.kept)))
	}
	at := c.texts.MulScalar(float64(c.kept)).Add(positions)
	if c.inPages {
		at = paged(c.pages, positions)
	}
	c.extended[name] = c.how.scatter(state, x, at)
	x.Builder().Update(state, c.extended[name])
	return c.extended[name]
}

// read returns the first n cached positions of the text of each tile in a group, [tiles, heads, n, width].
func (c rowsCache) read(state frontend.Tensor, g group, n int) frontend.Tensor {
	heads, width := c.l.cached()
	if c.inPages {
		all := c.how.pageValues(state, g.pages).Reshape(heads, g.texts.Dim(0), c.kept, width)
		return all.Slice(2, 0, ir.D(n)).SwapAxes(0, 1)
	}
	all := c.how.fromCacheType(state).Reshape(heads, c.how.texts, c.kept, width)
	return all.Slice(2, 0, ir.D(n)).IndexSelect(1, g.texts).SwapAxes(0, 1)
}

// queries selects the queries of the group's tiles from q, which has the queries of all rows, [Heads, T, HeadDim]. The
// result is [tiles, Heads, each, HeadDim], because a tile has `each` rows.
func (g group) queries(q frontend.Tensor) frontend.Tensor {
	if g.rows.IsZero() {
		return q.SwapAxes(0, 1).Unsqueeze(2)
	}
	q = q.IndexSelect(1, g.along(g.rows).Reshape(-1))
	return q.Reshape(q.Dim(0), g.texts.Dim(0), g.each, q.Dim(2)).SwapAxes(0, 1)
}

// along returns `each` successive numbers from each number in first i32[N] on, as i32[N, each].
func (g group) along(first frontend.Tensor) frontend.Tensor {
	if g.each == 1 {
		return first.Unsqueeze(1)
	}
	return first.Unsqueeze(1).Add(first.Builder().Iota(ir.I32, 0, g.each))
}

// mask returns the mask [N, 1, each, kept] that attention adds to the scores of the group's rows: minus infinity for
// keys after a row's position or before its window, otherwise 0 or the ALiBi bias. kept is the number of cached
// positions per text. With ring, they are a ring buffer, and the distance from a row back to a key is taken modulo
// kept. So a key after the row has a distance beyond the window, and is hidden.
func (g group) mask(l layer, ring bool, kept int) frontend.Tensor {
	b, tiles := g.texts.Builder(), g.texts.Dim(0)
	keys := b.Iota(ir.I32, 0, kept).Reshape(1, 1, 1, kept)
	own := g.along(g.positions).Reshape(tiles, 1, g.each, 1)
	seen, back := keys.Le(own), own.Sub(keys) // back is the distance from a row back to a key
	switch {
	case ring:
		back = back.Mod(back.Lit(float64(kept)))
		written, inWindow := back.Le(own), back.Le(own.Sub(l.firstSeen(own)))
		seen = written.And(inWindow)
	case l.windowed():
		seen = seen.And(keys.Ge(l.firstSeen(own)))
	}
	if g.each > 1 && !ring { // so that attention reads no keys after the tile's last row
		last := g.positions.AddScalar(float64(g.each - 1))
		seen = seen.And(keys.Le(last.Reshape(tiles, 1, 1, 1)))
	}
	score := b.Scalar(ir.F32, 0)
	if l.MaxALiBi != 0 {
		score = l.alibi(back.Neg().SwapAxes(0, 1)).SwapAxes(0, 1)
	}
	return seen.Where(score, b.Scalar(ir.F32, math.Inf(-1)))
}

// scatter writes x, the keys or values of tokens, into the cache at the distinct positions i32[T], and returns the
// new cache.
func (d decoding) scatter(cache, x, positions frontend.Tensor) frontend.Tensor {
	at := positions.Reshape(1, positions.Dim(0), 1)
	if d.cache.IsBlock() { // whole rows, indexed by head and position
		at = at.Broadcast(x.Dim(0), x.Dim(1), 1)
		heads := x.Builder().Iota(ir.I32, 0, x.Dim(0), x.Dim(1), 1)
		return cache.ScatterNDDistinct(heads.Concat(2, at), d.toCacheType(x))
	}
	return cache.ScatterDistinct(1, at.Broadcast(x.Dim(0), x.Dim(1), x.Dim(2)), d.toCacheType(x))
}

// textInput adds the input that selects one of several texts. It returns the zero Tensor if there is only one text.
func (d decoding) textInput(b *frontend.Builder) frontend.Tensor {
	switch {
	case d.texts == 1:
		return frontend.Tensor{}
	case d.texts < 1:
		b.Fail("llm", fmt.Errorf("%d texts: want at least one", d.texts))
	}
	return b.Input("text", ir.I32)
}
