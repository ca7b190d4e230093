package llm

import (
	"fmt"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// Suffixes of the outputs of Activations. An output's name is a weight's name and a suffix.
const (
	SquaresSuffix = ".in_sum2" // sums of squares
	CountsSuffix  = ".counts"  // how many squares were added
)

// Activations returns the graph that measures how large the inputs of the matrices in a model's layers are, for an
// importance matrix. A run reads the given number of tokens: its input is "tokens" i32[tokens]. For each matrix NAME
// [out, in] there are two outputs:
//
//   - NAME.in_sum2 f32[1, in], the sum over all tokens of each input element's square
//   - NAME.counts f32[1], the number of tokens
//
// A stack of matrices [experts, out, in] has a row and a count for each expert: f32[experts, in] and f32[experts].
func Activations(cfg Config, tokens int) (*ir.Graph, error) {
	if err := cfg.CheckContext(tokens); err != nil {
		return nil, err
	}
	return frontend.Build(graphName(cfg, "activations"), func(b *frontend.Builder) {
		in := b.Input("tokens", ir.I32, tokens)
		m := newModel(b, cfg, int64(tokens))
		m.adapt(b)
		known := map[string]bool{}
		m.w.Observe(func(name string, x, ids frontend.Tensor) {
			if known[name] {
				b.Fail("llm", fmt.Errorf("weight %q is used twice: it is unclear which activations count", name))
			}
			known[name] = true
			x = x.Cast(ir.F32)
			rows := x.Dim(0)
			squares, counts := x.Sqr().SumKeep(0), b.Full(ir.F32, float64(rows.Max()), 1)
			if !ids.IsZero() { // the weight is a stack, and ids has the experts of each row
				experts := int(cfg.Types[name].Shape[0].Max())
				squares, counts = expertSquares(x, ids, experts)
			}
			b.Output(name+SquaresSuffix, squares)
			b.Output(name+CountsSuffix, counts)
		})
		m.layers(in, b.Iota(ir.I32, 0, in.Dim(0)), noHistory)
	})
}

// expertSquares returns for each expert the sums of squares [experts, in] of the rows that use it, and the number of
// such rows, counts [experts]. Each of T tokens uses U experts, with the numbers in ids [T, U]. The rows are x [T, U,
// in], or [T, 1, in] if all experts of a token read the same row.
func expertSquares(x, ids frontend.Tensor, experts int) (squares, counts frontend.Tensor) {
	chosen := ids.OneHot(experts, ir.F32) // [T, U, experts]
	counts = chosen.Sum(0, 1)
	if x.Dim(1).Is(1) {
		chosen = chosen.SumKeep(1)
	}
	rows := x.Sqr().Reshape(-1, x.Dim(2))
	return chosen.Reshape(-1, experts).T().MatMul(rows), counts
}
