package llm

import (
	"fmt"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// RunLength is the number of rows of a run of Mixed. Attention reads the keys of a text once for all of them.
const RunLength = 32

// MixedRuns is the maximum number of runs of Mixed with that many rows.
func MixedRuns(rows int) int { return max(2*rows/RunLength, 1) }

// Part is a part of a text: tokens that a run of Mixed computes together.
type Part struct {
	Text, Position int // the text, and the number of tokens before these
	Tokens         []int32
	Ends           bool // whether logits are computed for the last one
}

// runs returns in how many runs attention takes the part. A part of one token is no run.
func (p Part) runs() int {
	if len(p.Tokens) == 1 {
		return 0
	}
	return (len(p.Tokens) + RunLength - 1) / RunLength
}

// RoomFor returns how many of the next tokens of a text fit in a run of Mixed next to other parts.
func RoomFor(rows int, others []Part) int {
	left := MixedRuns(rows)
	for _, p := range others {
		rows -= len(p.Tokens)
		left -= p.runs()
	}
	if left == 0 {
		return min(rows, 1)
	}
	return min(rows, left*RunLength)
}

// MixedInputs are the inputs "rows", "single", "runs" and "ends" of Mixed, row by row.
type MixedInputs struct{ Rows, Single, Runs, Ends []int32 }

// InputsOf returns the inputs for parts of different texts. The logits are in the order of the parts that have them.
func InputsOf(parts []Part) (in MixedInputs) {
	first := []int32{int32(parts[0].Text), int32(parts[0].Position), 0} // stands for a missing single row or run
	row := int32(0)                                                     // the number of the part's first row
	for _, p := range parts {
		for at := range p.Tokens {
			where := []int32{int32(p.Text), int32(p.Position + at), row + int32(at)}
			if len(p.Tokens) == 1 {
				in.Single = append(in.Single, where...)
			} else if at%RunLength == 0 {
				in.Runs = append(in.Runs, where...)
			}
		}
		if row += int32(len(p.Tokens)); p.Ends {
			in.Ends = append(in.Ends, row-1)
		}
	}
	for _, list := range []*[]int32{&in.Single, &in.Runs} {
		if len(*list) == 0 {
			*list = first
		}
	}
	if len(in.Ends) == 0 {
		in.Ends = []int32{0}
	}
	single, run := int32(0), int32(len(in.Single)/3) // the next results of attention
	for _, p := range parts {
		result := run
		if run += int32(p.runs() * RunLength); len(p.Tokens) == 1 {
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
//   - "runs" i32[N, 3]: runs of RunLength rows of one text with successive positions, as a text, and the position and
//     number of the first row; N is at most MixedRuns(rows). A text's last run may go on beyond its last row; no row
//     has the results there.
//   - "ends" i32[B]: the rows to compute logits for, at most one of each text
//   - "pages" i32[texts, PagesOf(maxContext)], with Pages: the page tables of all texts
//   - "adapters" f32[T, adapters], with Config.AdapterInputs
//   - "rope_offset" i32[T], with Config.Pictures in models with Sections
//
// Its output is "logits" f32[B, vocabulary]. The states are the same as for Steps and Batch with these options. A and N
// must be at least 1: a step without single rows, or without runs, repeats some row there. Models with recurrent layers
// are refused: their states go from one token of a text to the next.
func Mixed(cfg Config, rows, texts, maxContext int, options ...Option) (*ir.Graph, error) {
	if err := cfg.CheckContext(maxContext); err != nil {
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
		runs := input("runs", "N", MixedRuns(rows), 3)
		r := batch{how: newDecoding(append(options, Texts(texts))), context: maxContext, texts: all[1],
			positions: all[2], at: all[3]}
		r.groups = []group{{each: 1, texts: single[0], positions: single[1], rows: single[2]},
			{each: RunLength, texts: runs[0], positions: runs[1], rows: runs[2]}}
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
