package matmul

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/kernel"
)

// storeCols writes the stores of a kernel that has different stores for different column ranges. Stores with the same
// range and condition share a block.
func (m *Base) storeCols(col expr.Expr) {
	type part struct {
		cols  kernel.Cols
		where *kernel.Expr // the condition, or nil
	}
	var done []part
	for _, s := range m.K.Stores {
		p := part{s.Cols, s.Where}
		if slices.Contains(done, p) {
			continue
		}
		done = append(done, p)
		var stores []kernel.Store
		for _, other := range m.K.Stores {
			if (part{other.Cols, other.Where}) == p {
				stores = append(stores, other)
			}
		}
		m.openCols(p.cols, col)
		if p.where != nil {
			m.OpenIf(m.Eval(p.where))
		}
		m.bindOtherSums(stores, p.cols)
		m.StoreAll(stores)
		if p.where != nil {
			m.Close()
		}
		m.Close()
	}
}

// openCols opens a block for a range of columns. It binds the column axis to the column counted from the start of the
// range.
func (m *Base) openCols(c kernel.Cols, col expr.Expr) {
	end := m.extent(m.Col).Add
	if c.All() {
		c.To = end
	}
	local := col
	if c.From > 0 {
		local = expr.Binary("-", col, expr.Uint(c.From))
	}
	switch {
	case c.From == 0 && c.To == end:
		m.OpenScope()
	case c.To == end:
		m.OpenIf(expr.Binary(">=", col, expr.Uint(c.From)))
	default: // for columns before the first, the difference wraps around to a large number
		m.OpenIf(expr.Binary("<", local, expr.Uint(c.To-c.From)))
	}
	m.BindAxis(m.Col, m.Named("slice_col", local))
}

// bindOtherSums computes the sums that stores need from columns other than their own, and binds them. A gated
// activation needs the other column of its pair, for example.
func (m *Base) bindOtherSums(stores []kernel.Store, c kernel.Cols) {
	for _, s := range stores {
		for _, e := range kernel.OtherSums(s) {
			if _, known := m.KnownValue(e); known {
				continue
			}
			at := expr.Plus(m.EvalCoordinate(e.Index), expr.Uint(c.From))
			m.BindValue(e, m.OtherSum(e.Acc, m.Variable("uint", "other_col", at)))
		}
	}
}
