package schedule

import (
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// TestBlockVec uses the measured heuristics for a number of rows, or adapts those measured for fewer rows.
func TestBlockVec(t *testing.T) {
	tuned := heuristics{blockRun: 16, blockLanes: 64, blockColumns: 2, blocks: map[ir.DType]blockHeuristics{
		ir.Q4_0: {floats: blockVecs{{rows: 2, run: 32, columns: 8}, {rows: 5, run: 64, columns: 4, staged: true}}},
		ir.Q4_1: {floats: blockVecs{{run: 32, columns: 8, staged: true}}},
	}}
	k := &kernel.Kernel{MatMuls: []kernel.MatMul{{A: &kernel.Expr{Kind: kernel.ExprLoad}}}}
	for _, c := range []struct {
		dtype ir.DType
		rows  int64
		want  blockVec
	}{
		{ir.Q4_0, 1, blockVec{rows: 2, run: 32, columns: 8}},
		{ir.Q4_0, 2, blockVec{rows: 2, run: 32, columns: 8}},
		{ir.Q4_0, 3, blockVec{rows: 5, run: 64, columns: 4, staged: true}},
		{ir.Q4_0, 8, blockVec{rows: 5, run: 16, columns: 4}},
		{ir.Q4_1, 1, blockVec{run: 32, columns: 8, staged: true}},
		{ir.Q4_1, 2, blockVec{run: 32, columns: 4}},
		{ir.Q5_0, 1, blockVec{run: 16, lanes: 64, columns: 2}},
		{ir.Q5_0, 8, blockVec{run: 8, lanes: 64, columns: 2}},
	} {
		if got := tuned.blockVecFor(k, c.dtype, matShape{M: c.rows}); got != c.want {
			t.Errorf("%d rows of %s: %+v, want %+v", c.rows, c.dtype, got, c.want)
		}
	}
}
