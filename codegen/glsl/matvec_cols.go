package glsl

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// storeCols writes the stores of a result with several ranges of columns, each with stores of its own.
func (m *matMul) storeCols(col text) {
	type part struct {
		cols  kernel.Cols
		where *kernel.Expr
	}
	var done []part
	for _, s := range m.k.Stores {
		p := part{s.Cols, s.Where}
		if slices.Contains(done, p) {
			continue
		}
		done = append(done, p)
		var stores []kernel.Store
		for _, other := range m.k.Stores {
			if (part{other.Cols, other.Where}) == p {
				stores = append(stores, other)
			}
		}
		m.openCols(p.cols, col)
		if p.where != nil {
			m.plan([]*kernel.Expr{p.where}, nil)
			m.openIf(m.value(p.where))
		}
		m.bindOtherSums(stores, p.cols)
		m.storeAll(stores)
		if p.where != nil {
			m.close()
		}
		m.close()
	}
}

// openCols opens a block for a range of columns, and binds the column counted from the range's start.
func (m *matMul) openCols(c kernel.Cols, col text) {
	end := m.extent(m.col).Add
	if c.All() {
		c.To = end
	}
	local := col
	if c.From > 0 {
		local = binary("-", col, uintLit(c.From))
	}
	switch {
	case c.From == 0 && c.To == end:
		m.openScope()
	case c.To == end:
		m.openIf(binary(">=", col, uintLit(c.From)))
	default: // the difference wraps around for columns before the first
		m.openIf(binary("<", local, uintLit(c.To-c.From)))
	}
	m.bindAxis(m.col, m.named("slice_col", local))
}

// bindOtherSums computes the sums of other columns that stores need.
func (m *matMul) bindOtherSums(stores []kernel.Store, c kernel.Cols) {
	for _, s := range stores {
		for _, e := range kernel.OtherSums(s) {
			if _, known := m.knownValue(e); known {
				continue
			}
			m.plan(nil, []kernel.Index{e.Index})
			at := plus(m.coordinate(e.Index), uintLit(c.From))
			m.bindValue(e, m.otherSum(e.Acc, m.variable("uint", "other_col", at)))
		}
	}
}
