package rules

import (
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// TestCopiesOfHeads takes columns of several heads for a copy of heads in another order, into a buffer with padding:
// of a known number of rows, and of T rows.
func TestCopiesOfHeads(t *testing.T) {
	const most, heads, each, padded = 10, 3, 8, 16
	for _, rows := range []ir.Dim{ir.D(most), ir.Symbol("T", most)} {
		b := kernel.NewBuilder()
		row, column := kernel.Axis(0, rows), kernel.Axis(1, ir.D(heads*each))
		head, of := column.DivMod(ir.D(each))
		ofHead := kernel.DimIndex(rows.Times(each)) // elements
		x := b.Load(0, ir.F32, head.Mul(ofHead).Plus(row.Times(each)).Plus(of), "x")
		k := &kernel.Kernel{Family: kernel.FamilyMap, Parallel: ir.Shape{rows, ir.D(heads * each)},
			Bindings: []kernel.Binding{{DType: ir.F32, Elems: most * heads * each, Read: true},
				{DType: ir.F16, Elems: padded * heads * each, Write: true, Buffer: 1}},
			Stores: []kernel.Store{{Bind: 1, Index: row.Times(heads * each).Plus(column), Value: b.Cast(ir.F16, x)}}}
		c, ok := copyOf(k)
		if !ok || c.place == nil {
			t.Errorf("%s rows: %v is no copy in another order", rows, k)
			continue
		}
		h, q, d := kernel.Axis(0, ir.D(heads)), kernel.Axis(1, rows), kernel.Axis(2, ir.D(each))
		from := h.Mul(ofHead).Plus(q.Times(each)).Plus(d)
		if to := q.Times(heads * each).Plus(h.Times(each)).Plus(d); !c.place(from).Equal(to) {
			t.Errorf("%s rows: the element at %s is stored at %s, want %s", rows, from, c.place(from), to)
		}
	}
}
