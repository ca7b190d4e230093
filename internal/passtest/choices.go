// Package passtest stands in for a device in tests of passes.
package passtest

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
)

// Choices is a [passes.Pricer] that answers as its functions do, and no where there is none.
type Choices struct {
	Bytes                             func(t ir.DType, rows, columns ir.Dim) bool
	Windows                           func(direct, product *kernel.Kernel, stores []*kernel.Kernel) bool
	Half                              func(*kernel.Kernel) bool
	SplitOperands, Store              func(*kernel.Kernel) []kernel.StoredOperand
	Tail                              func(*kernel.Kernel) kernel.Tail
	Split                             func(*kernel.Kernel) int
	JoinNorm, JoinSlices, StoreFactor func(product, joined *kernel.Kernel) bool
}

// Pricer returns the choices as what [passes.Options] take.
func (c Choices) Pricer() passes.Pricer { return pricer{c} }

type pricer struct{ c Choices }

func (p pricer) RoundRows(t ir.DType, rows, columns ir.Dim) bool {
	return p.c.Bytes != nil && p.c.Bytes(t, rows, columns)
}

func (p pricer) Layout(ir.DType, []*kernel.Kernel) kernel.Layout { return kernel.LayoutBlocks }

func (p pricer) StoreWindows(direct, product *kernel.Kernel, stores []*kernel.Kernel) bool {
	return p.c.Windows != nil && p.c.Windows(direct, product, stores)
}

func (p pricer) HalveAttention(k *kernel.Kernel) bool { return p.c.Half != nil && p.c.Half(k) }

func (p pricer) SplitOperands(k *kernel.Kernel) []kernel.StoredOperand {
	return operands(p.c.SplitOperands, k)
}

func (p pricer) StoreOperands(k *kernel.Kernel) []kernel.StoredOperand {
	return operands(p.c.Store, k)
}

func operands(choose func(*kernel.Kernel) []kernel.StoredOperand, k *kernel.Kernel) []kernel.StoredOperand {
	if choose == nil {
		return nil
	}
	return choose(k)
}

func (p pricer) CutTail(k *kernel.Kernel) kernel.Tail {
	if p.c.Tail == nil {
		return kernel.Tail{}
	}
	return p.c.Tail(k)
}

func (p pricer) SplitSums(k *kernel.Kernel) int {
	if p.c.Split == nil {
		return 1
	}
	return p.c.Split(k)
}

func (p pricer) JoinNorm(product, joined *kernel.Kernel) bool {
	return p.c.JoinNorm != nil && p.c.JoinNorm(product, joined)
}

func (p pricer) JoinSlices(product, joined *kernel.Kernel) bool {
	return p.c.JoinSlices != nil && p.c.JoinSlices(product, joined)
}

func (p pricer) StoreFactor(product, reading *kernel.Kernel) bool {
	return p.c.StoreFactor != nil && p.c.StoreFactor(product, reading)
}
