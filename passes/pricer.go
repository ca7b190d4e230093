package passes

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// Pricer says what of all that rules propose pays on a device. They know none
// themselves, and propose only what is right on any.
type Pricer interface {
	// RoundRows reports whether so many rows are to be rounded to bytes that meet so
	// many columns of a weight in a block format.
	RoundRows(t ir.DType, rows, columns ir.Dim) bool
	// Layout returns how the blocks of a weight are to lie that some kernels read.
	Layout(t ir.DType, readers []*kernel.Kernel) kernel.Layout
	// StoreWindows reports whether a convolution is to be done by product, of operands
	// that stores store first, rather than directly.
	StoreWindows(direct, product *kernel.Kernel, stores []*kernel.Kernel) bool
	// HalveAttention reports whether an attention, whose operands are f16, is better so
	// than in f32.
	HalveAttention(*kernel.Kernel) bool
	// SplitOperands returns how the operands of a product are to be stored that are taken
	// apart into bf16: all of them or none, and those whose contraction is padded padded
	// alike. Rows and Depth are those of an operand before it is taken apart.
	SplitOperands(*kernel.Kernel) []kernel.StoredOperand
	// StoreOperands returns which operands of a product kernels of their own are to
	// store. Operands whose contraction is padded must be padded alike.
	StoreOperands(*kernel.Kernel) []kernel.StoredOperand
	// CutTail returns which results of a product, if any, are to be computed apart.
	CutTail(*kernel.Kernel) kernel.Tail
	// SplitSums returns into how many parts the sums of a product are to be split, a
	// divisor of its contraction, or the keys of an attention; 1 is not at all.
	SplitSums(*kernel.Kernel) int
	// JoinNorm reports whether a product is to be done as another, with the kernel joined
	// to it that makes its rows by a sum along them.
	JoinNorm(product, joined *kernel.Kernel) bool
	// JoinSlices reports whether a product is to be done as another, which stores what
	// kernels made of slices of its row.
	JoinSlices(product, joined *kernel.Kernel) bool
	// StoreFactor reports whether a product that adds up its rows is to be done as
	// another, which reads them multiplied by a weight already.
	StoreFactor(product, reading *kernel.Kernel) bool
}

// noDevice is the Pricer of no device, on which nothing pays.
type noDevice struct{}

func (noDevice) RoundRows(ir.DType, ir.Dim, ir.Dim) bool                   { return false }
func (noDevice) Layout(ir.DType, []*kernel.Kernel) kernel.Layout           { return kernel.LayoutBlocks }
func (noDevice) StoreWindows(_, _ *kernel.Kernel, _ []*kernel.Kernel) bool { return false }
func (noDevice) HalveAttention(*kernel.Kernel) bool                        { return false }
func (noDevice) SplitOperands(*kernel.Kernel) []kernel.StoredOperand       { return nil }
func (noDevice) StoreOperands(*kernel.Kernel) []kernel.StoredOperand       { return nil }
func (noDevice) CutTail(*kernel.Kernel) kernel.Tail                        { return kernel.Tail{} }
func (noDevice) SplitSums(*kernel.Kernel) int                              { return 1 }
func (noDevice) JoinNorm(_, _ *kernel.Kernel) bool                         { return false }
func (noDevice) JoinSlices(_, _ *kernel.Kernel) bool                       { return false }
func (noDevice) StoreFactor(_, _ *kernel.Kernel) bool                      { return false }
