package target

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// Layout returns how the blocks of a weight are to lie in the memory of a
// device. readers are all kernels that read it. Every kernel can read every
// layout, so the choice is for those that read all of it for little arithmetic,
// the products of few rows; only custom kernels get blocks as they come.
func Layout(t ir.DType, readers []*kernel.Kernel, caps Caps) kernel.Layout {
	if !slices.Contains(classOf(caps).tune(caps).planes, t) || kernel.PlanesOf(t) == nil {
		return kernel.LayoutBlocks
	}
	custom := func(k *kernel.Kernel) bool { return k.Family == kernel.FamilyCustom }
	product := func(k *kernel.Kernel) bool {
		return k.Family == kernel.FamilyMatMul && blocksOf(k) == t && matShapeOf(k).M <= MaxMatVecRows
	}
	if slices.ContainsFunc(readers, custom) || !slices.ContainsFunc(readers, product) {
		return kernel.LayoutBlocks
	}
	return kernel.LayoutPlanes
}

// WantsBytes reports whether so many rows multiply blocks faster as bytes than
// as floats.
func WantsBytes(t ir.DType, rows ir.Dim, caps Caps) bool {
	return caps.Features.IntegerDotProduct && rows.Max() <= MaxMatVecRows && slices.Contains(classOf(caps).tune(caps).bytes, t)
}
