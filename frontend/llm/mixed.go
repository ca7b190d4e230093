package llm

import (
	"fmt"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// QueryTile is the number of rows of a query tile of Mixed: successive tokens of one text. Attention reads the keys of
// the text once for all of them.
const QueryTile = 32

// MixedTiles is the maximum number of query tiles in a step of Mixed with up to that many rows.
func MixedTiles(rows int) int { return max(2*rows/QueryTile, 1) }

// Part is a part of a text: successive tokens that a step of Mixed computes.
type Part struct {
	Text, Position int // the text, and the number of tokens before these
	Tokens         []int32
	Ends           bool // whether logits are computed for the last one
}

// tiles returns the number of query tiles of the part. A part of one token has none: its row is in input "single".
func (p Part) tiles() int {
	if len(p.Tokens) == 1 {
		return 0
	}
	return (len(p.Tokens) + QueryTile - 1) / QueryTile
}

// RoomFor returns the largest number of tokens that another part may have in a step of Mixed with these parts. Mixed
// bounds both the rows of a step, one per token, and its query tiles.
func RoomFor(rows int, parts []Part) int {
	tiles := MixedTiles(rows)
	for _, p := range parts {
		rows -= len(p.Tokens)
		tiles -= p.tiles()
	}
	if tiles == 0 {
		return min(rows, 1) // a part of one token needs no tile
	}
	return min(rows, tiles*QueryTile)
}

// MixedInputs are the inputs "rows", "single", "runs" and "ends" of Mixed, row by row.
type MixedInputs struct{ Rows, Single, Tiles, Ends []int32 }

// InputsOf returns the inputs for parts of different texts. The logits are in the order of the parts that have them.
func InputsOf(parts []Part) (in MixedInputs) {
	first := []int32{int32(parts[0].Text), int32(parts[0].Position), 0} // stands for a missing single row or tile
	row := int32(0)                                                     // the number of the part's first row
	for _, p := range parts {
		for at := range p.Tokens {
			where := []int32{int32(p.Text), int32(p.Position + at), row + int32(at)}
			if len(p.Tokens) == 1 {
				in.Single = append(in.Single, where...)
			} else if at%QueryTile == 0 {
				in.Tiles = append(in.Tiles, where...)
			}
		}
		if row += int32(len(p.Tokens)); p.Ends {
			in.Ends = append(in.Ends, row-1)
		}
	}
	for _, list := range []*[]int32{&in.Single, &in.Tiles} {
		if len(*list) == 0 {
			*list = first
		}
	}
	if len(in.Ends) == 0 {
		in.Ends = []int32{0}
	}
	single, tile := int32(0), int32(len(in.Single)/3) // the next results of attention
	for _, p := range parts {
		result := tile
		if tile += int32(p.tiles() * QueryTile); len(p.Tokens) == 1 {
			result = single
			single++
		}
		for at, token := range p.Tokens {
			in.Rows = append(in.Rows, token, int32(p.Text), int32(p.Position+at), result+int32(at))
		}
	}
	return in
}

// Mixed returns the graph of a step with tokens of several texts, any number of each: one token of some texts, and
// parts of the prompts of others. Up to the given number of rows, each is a token. Its inputs, for symbols T, A, N and
// B, are:
//
//   - "rows" i32[T, 4]: a token, its text, the number of tokens before it in its text, and the index of its result
//     among the results of attention: first the results of "single", then of "runs"
//   - "single" i32[A, 3]: rows for attention, as a text, a position, and the number of a row
//   - "runs" i32[N, 3]: query tiles, QueryTile rows of one text with successive positions, as a text, and the position
//     and number of the first row; N is at most MixedTiles(rows). A text's last tile may go on beyond its last row; no
//     row has the results there.
//   - "ends" i32[B]: the rows to compute logits for, at most one of each text
//   - "pages" i32[texts, PagesOf(maxContext)], with Pages: the page tables of all texts
//   - "adapters" f32[T, adapters], with Config.AdapterInputs
//   - "rope_offset" i32[T], with Config.Pictures in models with Sections
//
// Its output is "logits" f32[B, vocabulary]. The states are the same as for Steps and Batch with these options. A and N
// must be at least 1: a step without single rows, or without tiles, repeats some row there. Models with recurrent
// layers are refused: their states go from one token of a text to the next.
func Mixed(cfg Config, rows, texts, maxContext int, options ...Option) (*ir.Graph, error) {
	if err := cfg.checkLogits(maxContext); err != nil {
		return nil, err
	}
	switch {
	case texts < 2:
		return nil, fmt.Errorf("llm: a mixed step of %d texts: want at least 2", texts)
	case rows < 1:
		return nil, fmt.Errorf("llm: a mixed step of %d rows: want at least one", rows)
	case cfg.IsRecurrent():
		return nil, fmt.Errorf("llm: architecture %q has recurrent states, which mixed steps do not support",
			cfg.Architecture)
	}
	return frontend.Build(graphName(cfg, "mixed"), func(b *frontend.Builder) {
		input := func(name, symbol string, most, columns int) (list []frontend.Tensor) {
			x := b.Input(name, ir.I32, b.Sym(symbol, most), ir.D(columns))
			for i := range columns {
				list = append(list, x.Slice(1, i, ir.D(i+1)).Squeeze(1))
			}
			return list
		}
		all, single := input("rows", "T", rows, 4), input("single", "A", texts, 3)
		tiles := input("runs", "N", MixedTiles(rows), 3)
		r := batch{how: newDecoding(append(options, Texts(texts))), context: maxContext, texts: all[1],
			positions: all[2], at: all[3]}
		r.groups = []group{{each: 1, texts: single[0], positions: single[1], rows: single[2]},
			{each: QueryTile, texts: tiles[0], positions: tiles[1], rows: tiles[2]}}
		if r.how.pages > 0 {
			tables := b.Input("pages", ir.I32, texts, PagesOf(maxContext))
			r.pages = tables.IndexSelect(0, r.texts)
			for i := range r.groups {
				r.groups[i].pages = tables.IndexSelect(0, r.groups[i].texts)
			}
		}
		m := newModel(b, cfg, int64(maxContext))
		m.adapt(b, all[0].Dim(0))
		m.ends = b.Input("ends", ir.I32, b.Sym("B", texts))
		logits := m.forward(all[0], m.offset(all[2], all[0].Dim(0)), history{attend: r.attend, perText: 1}, someTokens)
		r.how.output(b, logits, logits)
	})
}
