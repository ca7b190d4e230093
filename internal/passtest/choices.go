// Package passtest replaces a device in tests of passes.
package passtest

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// Choices is a [kernel.Pricer] for tests. It proposes the sizes that its functions return and always accepts them; it
// accepts other rewrites if Take does. A nil function proposes nothing.
type Choices struct {
	Bytes    func(t ir.DType, rows, columns ir.Dim) bool
	Operands func(*kernel.Kernel) []kernel.StoredOperand
	Tails    func(*kernel.Kernel) []kernel.Tail
	Parts    func(*kernel.Kernel) int
	Take     func(kernel.Rewrite) bool
	Scores   bool     // gradients of attentions store their scores
	Form     string   // form of [kernel.Work] to use if possible
	Lacks    []string // features that the device does not have
}

// Rules accepts all proposals of the named rules.
func Rules(names ...string) func(kernel.Rewrite) bool {
	return func(r kernel.Rewrite) bool { return slices.Contains(names, r.Rule) }
}

// RoundRows is Bytes.
func (c Choices) RoundRows(t ir.DType, rows, columns ir.Dim) bool {
	return c.Bytes != nil && c.Bytes(t, rows, columns)
}

// ReadRows is Bytes.
func (c Choices) ReadRows(t ir.DType, rows, columns ir.Dim) bool {
	return c.RoundRows(t, rows, columns)
}

// StoreScores is Scores.
func (c Choices) StoreScores(int64) bool { return c.Scores }

// Time is 0 for the wanted form, if there is one.
func (c Choices) Time(w kernel.Work) float64 {
	if c.Form != "" && w.Form == c.Form {
		return 0
	}
	return kernel.Rates{Bytes: 500, LaunchNs: 5000}.Time(w)
}

// Runs reports whether the smallest device that has all features except Lacks can run a custom kernel.
func (c Choices) Runs(k *ir.CustomKernel) bool {
	return !slices.ContainsFunc(k.Needs, func(feature string) bool { return slices.Contains(c.Lacks, feature) }) &&
		k.SharedBytes <= 16384 && k.Workgroup[0] <= 128
}

// Layout keeps the layout of blocks.
func (Choices) Layout(ir.DType, []*kernel.Kernel) kernel.Layout { return kernel.LayoutBlocks }

// Sizes returns the proposals of the functions.
func (c Choices) Sizes(k *kernel.Kernel) (s kernel.Sizes) {
	if product := k.Family == kernel.FamilyMatMul; product && c.Operands != nil {
		s.Operands = [][]kernel.StoredOperand{c.Operands(k)}
	}
	if c.Tails != nil {
		s.Tails = c.Tails(k)
	}
	if c.Parts != nil {
		if n := c.Parts(k); n > 1 {
			s.Parts = []int{n}
		}
	}
	return s
}

// Price prefers rewrites that result in more kernels.
func (c Choices) Price(r kernel.Rewrite) (e kernel.Estimate) {
	sized := slices.Contains([]string{"pack_operands", "peel_tails", "split_k"}, r.Rule)
	if sized || c.Take != nil && c.Take(r) {
		e.Before = float64(1 + len(r.After))
	}
	return e
}
