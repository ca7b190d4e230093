package kernel

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// CheckQuantize returns an error if the kernel is not a valid kernel of FamilyQuantize. Such a kernel has one store: it
// stores the elements along the fold axis as one block. The store's Index is the number of the block.
func (k *Kernel) CheckQuantize() error {
	switch {
	case len(k.Stores) != 1 || len(k.Phases)+len(k.MatMuls) > 0:
		return fmt.Errorf("a kernel that quantizes stores blocks, once, and does nothing else")
	case k.Stores[0].Bind < 0 || k.Stores[0].Bind >= len(k.Bindings):
		return fmt.Errorf("blocks go to binding %d of %d", k.Stores[0].Bind, len(k.Bindings))
	case !k.Stores[0].PerElement || !k.Stores[0].Value.DType.IsFloat():
		return fmt.Errorf("the elements of a block are floats")
	}
	if f := k.Fault; f != nil && (f.Bind < 0 || f.Bind >= len(k.Bindings) || !k.Bindings[f.Bind].Fault) {
		return fmt.Errorf("a fault goes to binding %d, which is none for faults", f.Bind)
	}
	if t := k.Quantized(); !t.IsBlock() || k.Fold != ir.D(t.BlockElems()) {
		return fmt.Errorf("blocks of %s elements of %s", k.Fold, t)
	}
	return nil
}

// QuantizeLanes is the number of invocations that encode one block of a format together.
func QuantizeLanes(t ir.DType) int {
	f, _ := ir.BlockFormatOf(t)
	return f.Elems / f.EncodeRun()
}

// Quantized is the block format that a kernel of FamilyQuantize stores.
func (k *Kernel) Quantized() ir.DType { return k.Bindings[k.Stores[0].Bind].DType }

// SearchedCodebook returns the binding of the codebook that a kernel of FamilyQuantize searches for the entries nearest
// to elements, or nil. A codebook of floats is not searched: functions compute its levels.
func (k *Kernel) SearchedCodebook() *Binding {
	i := slices.IndexFunc(k.Bindings, func(b Binding) bool { return b.Codebook == k.Quantized() && b.DType == ir.U32 })
	if i < 0 {
		return nil
	}
	return &k.Bindings[i]
}
