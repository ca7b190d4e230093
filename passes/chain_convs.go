package passes

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/plan"
)

// chainConvs lets a convolution store its results directly as the stored argument of the next, if nothing else reads
// them. Both count positions in the same way, so the results are rows of the argument, with a fixed distance to the
// rows where they are computed. The other rows are padding.
func chainConvs(s *State, id plan.KernelID) []Proposal {
	k := s.Plan.Kernel(id)
	to := s.windows[storedFirst(k)]
	if to == nil || storedFirst(k) != to.x {
		return nil
	}
	for _, b := range k.Bindings {
		from := s.windows[b.Buffer]
		if from == nil || !s.feeds(from, to, id) {
			continue
		}
		if result, ok := from.storeAsArgument(to, k); ok {
			// A padding kernel replaces the kernel that stored the argument.
			p := propose("store results as the next argument", from.result, to.padding(), result)
			p.Default = true
			p.also(id)
			return []Proposal{p}
		}
	}
	return nil
}

// feeds reports whether convolution to can take its stored argument directly from convolution from. That requires that
// only the kernel storing the argument reads from's results, that its other operands are available before from, and
// that both count positions in the same way.
func (s *State) feeds(from, to *storedWindows, argument plan.KernelID) bool {
	if from == to || from.dtype != to.dtype || !from.pitch.Equal(to.pitch) || to.phaseShape().MaxElems() > 1 ||
		!from.n.Shape().Equal(to.n.Arg(0).Shape()) ||
		// or its windows are not stored at all
		!readsBuffer(s.Plan.Kernel(from.result), from.x) || len(s.Plan.Kernel(from.result).Stores) != 1 {
		return false
	}
	v := storedFirst(s.Plan.Kernel(from.result))
	return s.Plan.Value(v).Origin == plan.Temp && s.Plan.Value(v).Node != nil &&
		slices.Equal(s.Plan.Readers(v), []plan.KernelID{argument}) &&
		s.Plan.CanMove(argument, from.result, v)
}

// lead is the number of positions in the stored argument before the middle of the first window: the padding before the
// first element.
func (w *storedWindows) lead() int64 {
	n := int64(0)
	for i, low := range w.Low {
		n += low * w.apart(i)
	}
	return n
}

// storeAsArgument returns the convolution with its results stored as the argument of the next. It returns false if an
// element of that argument does not depend on exactly the result at the same position.
func (w *storedWindows) storeAsArgument(to *storedWindows, argument *kernel.Kernel) (*kernel.Kernel, bool) {
	ok, from := true, w.s.Plan.Kernel(w.result)
	ops := slices.Concat(from.Ops,
		slices.DeleteFunc(slices.Clone(argument.Ops), func(op string) bool { return op == "copy" }))
	all := func(*kernel.Mapping) *kernel.Guard { return nil }
	return kernel.Map(from, kernel.Edit{Ops: ops, Guard: all, Stores: func(m *kernel.Mapping) []kernel.Store {
		place := kernel.Axis(0, from.Parallel[0]).Plus(kernel.Const(to.lead()))
		col := kernel.Axis(1, from.Parallel[1])
		// The coordinates of the next argument's kernel, as functions of this kernel's coordinates.
		shape := to.argumentShape()
		at := append(unflatten(shape[:len(shape)-1], place), col)
		next := m.Part(argument, func(axis int, _ ir.Dim) kernel.Index { return at[axis] })
		next.Load = func(e *kernel.Expr) *kernel.Expr {
			if argument.Bindings[e.Bind].Buffer != storedFirst(from) {
				return nil
			}
			ok = ok && e.Index.Equal(w.readByNext(to))
			return m.Builder.Cast(e.DType, m.Value(from.Stores[0].Value))
		}
		st := next.Store(argument.Stores[0])
		st.Index = place.Mul(kernel.DimIndex(w.outputs())).Plus(col)
		m.To.Bindings[st.Bind].Elems = to.argumentElems()
		return []kernel.Store{st}
	}}), ok
}

// readByNext returns the index at which the kernel of the next argument reads an unpadded element, in that kernel's
// coordinates.
func (w *storedWindows) readByNext(to *storedWindows) kernel.Index {
	shape := to.argumentShape()
	at := axes(shape)
	image, first := at[0].DivMod(to.pitch[0])
	x := to.n.Arg(0).Shape()
	places := []kernel.Index{kernel.Clamp(image, last(x[0])), at[len(at)-1]}
	for i, d := range x[2:] {
		place := first
		if i > 0 {
			place = at[i]
		}
		places = append(places, kernel.Clamp(place.Minus(kernel.Const(to.Low[i])), last(d)))
	}
	return linear(x, places)
}

// padding is the kernel that stores the padding before the first and after the last row of the results of another
// convolution.
func (w *storedWindows) padding() *kernel.Kernel {
	shape := w.argumentShape()
	head, all := w.lead(), shape[:len(shape)-1].MaxElems()
	// In a chain, the previous convolution has as many positions as results.
	rows := w.before()
	k := &kernel.Kernel{Name: "conv_padding", Family: kernel.FamilyMap,
		Parallel: []ir.Dim{{Add: all - rows}, w.channels()}, Ops: []string{"pad"}}
	binding := w.argumentBinding()
	binding.Write, binding.Elems = true, shape.MaxElems()
	k.Bindings = []kernel.Binding{binding}
	row := kernel.Axis(0, k.Parallel[0])
	place := row
	if head > 0 {
		beyond, _ := row.DivMod(ir.Dim{Add: head})
		place = row.Plus(kernel.Clamp(beyond, kernel.Const(1)).Times(rows))
	} else {
		place = row.Plus(kernel.Const(rows))
	}
	b := kernel.NewBuilder()
	k.Stores = []kernel.Store{{Bind: 0, Index: place.Mul(kernel.DimIndex(w.channels())).
		Plus(kernel.Axis(1, w.channels())), Value: b.Number(w.dtype, paddingOf(w.n))}}
	return k
}

// before is the number of positions from the first to the last result of the convolution that makes the argument.
func (w *storedWindows) before() int64 {
	n := (w.images().Add-1)*w.pitch.MaxElems() + 1
	for i, d := range w.n.Arg(0).Shape()[2:] {
		n += (d.Add - 1) * w.apart(i)
	}
	return n
}
