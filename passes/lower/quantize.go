package lower

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
	"github.com/vkc-go/vkc/passes/plan"
	"github.com/vkc-go/vkc/quant"
)

// lowerQuantize makes a kernel that quantizes a tensor to a block format. The parallel axes enumerate the blocks, and
// the fold axis the elements of a block.
func (l *lowerer) lowerQuantize() {
	n := l.c.Cores[0]
	l.storeBlocks(n, n, l.blockCoords(n))
}

// addFaultCheck makes a run fail if an element, such as a NaN, has no representation in n's block format: the kernel
// then writes the number of the block to a word that the host reads.
func (l *lowerer) addFaultCheck(n *ir.Node) {
	word := l.f.Plan.AddValue(plan.Value{Type: ir.Type{DType: ir.U32, Shape: ir.ShapeOf(1)}, Origin: plan.Fault,
		Node: n})
	l.k.Fault = &kernel.Fault{Bind: len(l.k.Bindings), Index: kernel.Linear(l.space, kernel.Axes(l.space)),
		Most: quant.Limit(n.DType())}
	l.k.Bindings = append(l.k.Bindings, kernel.Binding{Name: "fault", DType: ir.U32, Write: true, Buffer: word,
		Elems: 1, Fault: true})
}

// lowerQuantizedUpdate makes a kernel that quantizes rows to blocks and writes these into a state in place.
func (l *lowerer) lowerQuantizedUpdate(w analysis.Write) {
	n := w.Op
	bailout.Unless(len(l.c.Cores) > 0, "%s writes rows of blocks into a state: only op quantize can make these rows",
		analysis.OpAt(n))
	l.ops[n] = true
	l.storeBlocks(l.c.Cores[0], n, l.destination(w, l.blockCoords(l.c.Cores[0])))
}

// blockCoords declares the axes of quantize n's kernel, one point per block, and returns a block's coordinates. They
// are the coordinates of its first element, with the innermost divided by the size of a block.
func (l *lowerer) blockCoords(n *ir.Node) []kernel.Index {
	l.k.Family = kernel.FamilyQuantize
	per := int64(n.DType().BlockElems())
	blocks := append(ir.Shape{}, n.Shape()...)
	inner := len(blocks) - 1
	width, ok := blocks[inner].Quo(per)
	bailout.Unless(ok, "rows of %s are not whole blocks of %s", blocks[inner], n.DType())
	blocks[inner] = width
	l.space = blocks
	at := l.parallel(blocks)
	l.k.Fold = ir.D(int(per))
	return at
}

// storeBlocks adds the store of a block of quantize n, at block coordinates `to` of a tensor. The tensor is n, or the
// state that n is written into.
func (l *lowerer) storeBlocks(n, tensor *ir.Node, to []kernel.Index) {
	from := kernel.Axes(l.space)
	inner, per := len(from)-1, l.k.Fold
	from[inner] = from[inner].Times(per.Add).Plus(kernel.Axis(l.k.FoldAxis(), per))
	v := l.value(n.Arg(0), from)
	shape := append(ir.Shape{}, tensor.Shape()...)
	shape[len(shape)-1] = l.space[inner]
	l.k.Stores = append(l.k.Stores, kernel.Store{Bind: l.binding(tensor, writing), Index: kernel.Linear(shape, to),
		Value: v, PerElement: true})
	l.addFaultCheck(n)
}

// lowerCopy makes a kernel that copies a tensor in a block format as 32-bit words. The last word may extend into the
// padding that every buffer has.
func (l *lowerer) lowerCopy() {
	bailout.Unless(len(l.c.tails) == 1, "a kernel that copies blocks stores nothing else")
	n := l.c.tails[0]
	from := n // becomes the tensor in memory that n is a reshape of
	for from == n || from.Op() == ir.OpReshape && l.f.storedBy[from.ID()] == nil {
		bailout.Unless(from.Op() == ir.OpReshape,
			"%s: %s cannot compute blocks: only quantize makes and reshape copies them", n, n.Op())
		from = from.Arg(0)
	}
	bailout.Unless(n.Shape().IsStatic(), "%s: cannot copy blocks of shape %s: their number must be known when compiled",
		n, n.Shape())
	words := ir.D(int((bailout.Must(n.Type().MaxBytes()) + 3) / 4))
	l.ops[n] = true
	l.space = ir.Shape{words}
	at := l.parallel(l.space)[0]
	asWords := func(node *ir.Node, how access) int {
		i := l.binding(node, how)
		l.k.Bindings[i].DType, l.k.Bindings[i].Elems = ir.U32, words.Add
		return i
	}
	v := l.b.Load(asWords(from, reading), ir.U32, at, "")
	l.k.Stores = append(l.k.Stores, kernel.Store{Bind: asWords(n, writing), Index: at, Value: v})
}

// writesBlocks returns the write into a state in place that is the only user of quantize n, or nil. The quantizing
// kernel then writes into the state itself.
func (f *Fusion) writesBlocks(n *ir.Node) *ir.Node {
	if n.Op() != ir.OpQuantize || f.required[n.ID()] {
		return nil
	}
	var update *ir.Node
	for _, u := range f.uses[n.ID()] {
		if !f.live[u.ID()] || u == update { // u may be listed twice
			continue
		}
		w, ok := analysis.WriteOf(u)
		writesN := ok && w.Op == u && w.Values() == n
		if update != nil || !writesN {
			return nil
		}
		update = u
	}
	if update == nil || f.overwritten[update.ID()] == nil { // the write makes a copy instead of changing the state
		return nil
	}
	return update
}
