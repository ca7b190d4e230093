package target

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// Pricer says of a device what rewrites of kernels pay on it, as passes ask.
type Pricer struct{ Caps Caps }

// RoundRows is [WantsBytes].
func (p Pricer) RoundRows(t ir.DType, rows, columns ir.Dim) bool {
	return WantsBytes(t, rows, columns, p.Caps)
}

// Layout returns how blocks suit those who read them.
func (p Pricer) Layout(t ir.DType, readers []*kernel.Kernel) kernel.Layout {
	return Layout(t, readers, p.Caps)
}

// StoreWindows is the function of that name, as all that follow.
func (p Pricer) StoreWindows(direct, product *kernel.Kernel, stores []*kernel.Kernel) bool {
	return StoreWindows(direct, product, stores, p.Caps)
}

// HalveAttention reports whether an attention in f16 suits the device.
func (p Pricer) HalveAttention(k *kernel.Kernel) bool { return HalfAttention(k, p.Caps) }

// SplitOperands returns the operands to be stored as parts of bf16.
func (p Pricer) SplitOperands(k *kernel.Kernel) []kernel.StoredOperand {
	return SplitOperands(k, p.Caps)
}

// StoreOperands returns the operands to be stored.
func (p Pricer) StoreOperands(k *kernel.Kernel) []kernel.StoredOperand {
	return StoreOperands(k, p.Caps)
}

// CutTail returns what is to be cut off.
func (p Pricer) CutTail(k *kernel.Kernel) kernel.Tail { return CutTail(k, p.Caps) }

// SplitSums returns the number of parts.
func (p Pricer) SplitSums(k *kernel.Kernel) int { return SplitSums(k, p.Caps) }

// JoinNorm reports whether a product suits the device better with its norm.
func (p Pricer) JoinNorm(product, joined *kernel.Kernel) bool {
	return JoinNorm(product, joined, p.Caps)
}

// JoinSlices reports whether a product suits the device better with what reads its row.
func (p Pricer) JoinSlices(product, joined *kernel.Kernel) bool {
	return JoinSlices(product, joined, p.Caps)
}

// StoreFactor reports whether a product suits the device better that reads a stored row.
func (p Pricer) StoreFactor(product, reading *kernel.Kernel) bool {
	return StoreFactor(product, reading, p.Caps)
}
