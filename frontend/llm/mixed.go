package llm

import (
	"fmt"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// QueryTile is the number of rows of a query tile of Mixed: successive tokens of one text. Attention reads the keys of
// the text once for all of them.
const QueryTile = 32

// MixedTiles returns the maximum number of query tiles in a step of Mixed with up to that many rows.
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

// RoomFor returns the largest number of tokens that another part may have in a step of Mixed that has the given parts.
// A step has at most `rows` rows, one per token, and MixedTiles(rows) query tiles.
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

// MixedInputs are the inputs "rows", "single", "runs" (Tiles) and "ends" of Mixed, row by row.
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
		row += int32(len(p.Tokens))
		if p.Ends {
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
	single, tile := int32(0), int32(len(in.Single)/3) // the next result of a single row, and of a tile's first row
	for _, p := range parts {
		result := tile
		if len(p.Tokens) == 1 {
			result = single
			single++
		}
		tile += int32(p.tiles() * QueryTile) // a part of one token has no tiles
		for at, token := range p.Tokens {
			in.Rows = append(in.Rows, token, int32(p.Text), int32(p.Position+at), result+int32(at))
		}
	}
	return in
}

// Mixed returns the graph of a step with tokens of several texts, any number of each: one token of some texts, and
// parts of the prompts of others. A row is one token, and rows is the maximum number of them. For attention, a row that
// is alone in its text is a single row. The other rows are in query tiles: QueryTile rows of one text with successive
// positions. The inputs, for symbols T, A, N and B, are:
//
//   - "rows" i32[T, 4], by row: a token, its text, its position (the number of tokens before it in its text), and the
//     index of its result of attention. The results of single rows come first, then QueryTile results for each tile.
//   - "single" i32[A, 3], by single row: its text, its position, and its index in "rows"
//   - "runs" i32[N, 3], by query tile: the text, and the position and the index in "rows" of the tile's first row. N is
//     at most MixedTiles(rows). A tile may have places after the last row of its text: their results are not used.
//   - "ends" i32[B]: the rows to compute logits for, at most one of each text
//   - "pages" i32[texts, PagesOf(maxContext)], with Pages: the page tables of all texts
//   - "adapters" f32[T, adapters], with Config.AdapterInputs
//   - "rope_offset" i32[T], with Config.Pictures in models with Sections
//
// Its output is "logits" f32[B, vocabulary]. The states are the same as for Steps and Batch with the same options. A
// and N must be at least 1: for a step without single rows, "single" repeats any row, and so does "runs" without tiles.
// Models with recurrent layers are refused: their states go from one token of a text to the next.
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
		columnsOf := func(name, symbol string, most, columns int) (list []frontend.Tensor) {
			x := b.Input(name, ir.I32, b.Sym(symbol, most), ir.D(columns))
			for i := range columns {
				list = append(list, x.Slice(1, i, ir.D(i+1)).Squeeze(1))
			}
			return list
		}
		columns := columnsOf("rows", "T", rows, 4)
		tokens, textIDs, positions, results := columns[0], columns[1], columns[2], columns[3]
		groupOf := func(each int, columns []frontend.Tensor) group {
			return group{each: each, texts: columns[0], positions: columns[1], rows: columns[2]}
		}
		r := batch{how: newDecoding(append(options, Texts(texts))), context: maxContext, texts: textIDs,
			positions: positions, at: results}
		r.groups = []group{groupOf(1, columnsOf("single", "A", texts, 3)),
			groupOf(QueryTile, columnsOf("runs", "N", MixedTiles(rows), 3))}
		if r.how.pages > 0 {
			tables := b.Input("pages", ir.I32, texts, PagesOf(maxContext))
			r.pages = tables.IndexSelect(0, r.texts)
			for i := range r.groups {
				r.groups[i].pages = tables.IndexSelect(0, r.groups[i].texts)
			}
		}
		m := newModel(b, cfg, int64(maxContext))
		m.adapt(b, tokens.Dim(0))
		m.ends = b.Input("ends", ir.I32, b.Sym("B", texts))
		past := history{attend: r.attend, perText: 1}
		logits := m.forward(tokens, m.offset(positions, tokens.Dim(0)), past, someTokens)
		r.how.output(b, logits, logits)
	})
}
