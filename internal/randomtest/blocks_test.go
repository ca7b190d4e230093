package randomtest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// TestRandomBlocks runs graphs in which matmuls and other ops read weights in blocks through views: transposed, cut at
// elements inside of blocks, with chosen rows, and joined. A kernel may then decode blocks that it reads in part.
func TestRandomBlocks(t *testing.T) {
	test{graphs: 60, fewer: 4, graph: viewsOfBlocks, differ: differ}.run(t)
}

// viewsOfBlocks returns a graph that reads a weight in blocks through a few views.
func viewsOfBlocks(seed uint64) (*ir.Graph, error) {
	r := rand.New(rand.NewPCG(seed, 0x626c))
	return frontend.Build(fmt.Sprint("blocks ", seed), func(b *frontend.Builder) {
		formats := ir.BlockFormats()
		t := formats[r.IntN(len(formats))]
		k := t.BlockElems() * (1 + r.IntN(max(2, 128/t.BlockElems())))
		dims := []frontend.Dim{1 + r.IntN(20), k}
		if r.IntN(3) == 0 {
			dims = append([]frontend.Dim{1 + r.IntN(4)}, dims...)
		}
		float := []ir.DType{ir.F32, ir.F32, ir.F16, ir.BF16}[r.IntN(4)]
		y := b.Weight("w", t, dims...).Dequantize(float)
		for range r.IntN(4) {
			y = viewOf(b, y, r)
		}
		last, rank := y.Dim(-1).Static(), y.Rank()
		rows := y.Dim(-2).Static()
		x := func(dims ...frontend.Dim) frontend.Tensor { return b.Input("x", float, dims...) }
		m := 1 + r.IntN(9)
		if r.IntN(3) == 0 {
			m = 1
		}
		switch r.IntN(7) {
		case 0, 1:
			y = x(m, last).MatMulT(y)
		case 2:
			y = x(m, rows).MatMul(y)
		case 3:
			y = y.MatMul(x(last, m))
		case 4:
			y = y.MatMulT(x(m, last))
		case 5:
			y = y.Mul(x(rows, last)).Sum(rank - 1)
		case 6:
			y = y.IndexSelect(0, b.Input("at", ir.I32, 1+r.IntN(5)))
		}
		b.Output("y", y)
	})
}

// viewOf returns a random view of y, which has at least two axes.
func viewOf(b *frontend.Builder, y frontend.Tensor, r *rand.Rand) frontend.Tensor {
	axis := r.IntN(y.Rank())
	n := y.Dim(axis).Static()
	switch r.IntN(7) {
	case 0:
		return y.Transpose(r.Perm(y.Rank())...)
	case 1, 2:
		start := r.IntN(n)
		return y.SliceStep(axis, start, start+1+r.IntN(n-start), 1+r.IntN(3))
	case 3:
		return y.Flip(axis)
	case 4:
		if n > 64 {
			return y.Concat(axis, y.Slice(axis, 0, 1+r.IntN(n)))
		}
		at := make([]int32, 1+r.IntN(2*n))
		for i := range at {
			at[i] = int32(r.IntN(n))
		}
		return y.IndexSelect(axis, b.Const(at, len(at)))
	case 5:
		if y.Rank() == 3 {
			return y.Reshape(y.Dim(0).Static()*y.Dim(1).Static(), y.Dim(2))
		}
		for part := 5; part > 1; part-- {
			if n%part == 0 {
				dims := []frontend.Dim{part, n / part, y.Dim(1)}
				if axis == 1 {
					dims = []frontend.Dim{y.Dim(0), part, n / part}
				}
				return y.Reshape(dims...)
			}
		}
	case 6:
		if y.Rank() == 2 {
			return y.Broadcast(1+r.IntN(3), y.Dim(0), y.Dim(1))
		}
	}
	return y
}
