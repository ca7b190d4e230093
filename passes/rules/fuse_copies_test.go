package rules

import (
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// TestCopiesOfHeads takes columns of several heads for a copy of heads in another order, into a buffer with padding.
func TestCopiesOfHeads(t *testing.T) {
	const rows, heads, each, padded = 10, 3, 8, 16
	b := kernel.NewBuilder()
	row, column := kernel.Axis(0, ir.D(rows)), kernel.Axis(1, ir.D(heads*each))
	head, of := column.DivMod(ir.D(each))
	x := b.Load(0, ir.F32, head.Times(rows*each).Plus(row.Times(each)).Plus(of), "x")
	k := &kernel.Kernel{Family: kernel.FamilyMap, Parallel: ir.ShapeOf(rows, heads*each),
		Bindings: []kernel.Binding{{DType: ir.F32, Elems: rows * heads * each, Read: true},
			{DType: ir.F16, Elems: padded * heads * each, Write: true, Buffer: 1}},
		Stores: []kernel.Store{{Bind: 1, Index: row.Times(heads * each).Plus(column), Value: b.Cast(ir.F16, x)}}}
	c, ok := copyOf(k)
	if !ok || c.place == nil {
		t.Fatalf("%v is no copy in another order", k)
	}
	h, q, d := kernel.Axis(0, ir.D(heads)), kernel.Axis(1, ir.D(rows)), kernel.Axis(2, ir.D(each))
	from := h.Times(rows * each).Plus(q.Times(each)).Plus(d)
	if to := q.Times(heads * each).Plus(h.Times(each)).Plus(d); !c.place(from).Equal(to) {
		t.Errorf("the element at %s is stored at %s, want %s", from, c.place(from), to)
	}
}
