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
	Halves   int64       // from this number of exact rows on, they are stored as two f16 values; 0 for never
	Scores   bool        // gradients of attentions store their scores
	Form     kernel.Form // form of [kernel.Work] to use if possible
	Lacks    []string    // features that the device does not have
}

// Rules accepts all proposals of the named rules.
func Rules(names ...string) func(kernel.Rewrite) bool {
	return func(r kernel.Rewrite) bool { return slices.Contains(names, r.Rule) }
}

// priceWork estimates the time of a form of work: 0 if the choices name the form, and otherwise by nominal rates. There
// is no estimate for a form that the choices exclude, or that the device of the tests, which is small, cannot run.
func (c Choices) priceWork(w kernel.Work) kernel.Estimate {
	no := kernel.Estimate{Note: "not chosen"}
	switch w.Form {
	case kernel.FormQuantizedRows, kernel.FormStoredRows:
		if c.Bytes == nil || !c.Bytes(w.Format, w.Rows, w.Columns) {
			return no
		}
	case kernel.FormHalves:
		if c.Halves == 0 || w.Rows.Max() < c.Halves {
			return no
		}
	case kernel.FormScores:
		if !c.Scores {
			return no
		}
	case kernel.FormPlanes:
		return no
	}
	lacks := func(feature string) bool { return slices.Contains(c.Lacks, feature) }
	if k := w.Custom; k != nil && (slices.ContainsFunc(k.Needs, lacks) || k.SharedBytes > 16384 ||
		k.Workgroup[0] > 128) {
		return no
	}
	if c.Form != "" && w.Form == c.Form {
		return kernel.Estimate{}
	}
	// 500 bytes per nanosecond, 5 microseconds per launch
	return kernel.Estimate{After: kernel.Rates{Bytes: 500, LaunchNs: 5000}.Time(w)}
}

// Sizes implements [kernel.Pricer]: it returns the sizes that the choices' functions propose for a kernel.
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

// Price returns estimates in which a rewrite pays exactly if the choices accept it. Rewrites that result in more
// kernels pay more.
func (c Choices) Price(r kernel.Rewrite) (e kernel.Estimate) {
	if r.Work != nil {
		return c.priceWork(*r.Work)
	}
	// Sizes has already decided about these.
	sized := slices.Contains([]string{"pack_operands", "peel_tails", "split_k"}, r.Rule)
	if sized || c.Take != nil && c.Take(r) {
		e.Before = float64(1 + len(r.After))
	}
	return e
}
