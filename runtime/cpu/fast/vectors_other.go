//go:build !amd64

package fast

import (
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

func multiply(out []float32, stride int, a, b []float32, rows, cols, k int) {
	multiplyPlain(out, stride, a, b, rows, cols, k)
}

func weigh(out, weights, rows []float32) { weighPlain(out, weights, rows, 0) }

func multiplyStored([]float32, int, []float32, *interp.Stored, int, int, int, int) bool { return false }

func decode(dst []float32, s *interp.Stored, first int) error { return s.Decode(dst, first) }

func exps(x []float32, shift float32) { expsPlain(x, shift) }

func fill(list []float32, x float32) { fillPlain(list, x) }

func assembled() map[string]func(out, x, y, z *float32, n int) { return nil }

// byteDots is empty, so that no matmul is computed in int8 without assembly.
var byteDots map[ir.DType]func(out *float32, a *int8, scales, sums *float32, b *byte, ldb, n int)

func roundBytes(*int8, *float32, *float32, *float32, int) {}

// reductions is empty, because there is no assembly. Reducers fold one element after the other.
var reductions map[string]reduction
