//go:build !amd64

package fast

import (
	"unsafe"

	"github.com/vkc-go/vkc/ir"
)

// On these processors there is no assembly for the functions below. See vectors_amd64.go for their meaning.

const vectors = false

func exps(x []float32, shift float32) { expsPlain(x, shift) }

func within(list []float64, least, most float64) bool { return withinPlain(list, least, most) }

func fill(list []float32, x float32) { fillPlain(list, x) }

func assembled() map[string]func(out, x, y, z *float32, n int) { return nil }

func assembledWide() map[string]func(out, x, y, z *float64, n int) { return nil }

func assembledFormats() map[ir.DType]format { return nil }

// roundBytes rounds n groups of floats to int8, with a scale per group, by the rule of [ir.ByteSteps].
func roundBytes(bytes *int8, scales, sums, x *float32, n int) {
	to, from := unsafe.Slice(bytes, n*ir.ByteGroup), unsafe.Slice(x, n*ir.ByteGroup)
	for g := range n {
		group := from[g*ir.ByteGroup:][:ir.ByteGroup]
		unsafe.Slice(scales, n)[g], unsafe.Slice(sums, n)[g] = roundGroup(to[g*ir.ByteGroup:], group)
	}
}

func roundRecords(*int8, *float32, *float32, int) {}

func replaceByVectors[D, S updatable, T index](_ []D, _ []S, _ []T, _, _, _, _, _, _ int) bool {
	return false
}

func transposeBlocks[T any](_, _ []T, _, _, _, _ int) (wholeRows, wholeCols int) { return 0, 0 }
