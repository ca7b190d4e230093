package passes

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/plan"
)

// chainWindows lets a convolution store its results as the argument of the next
// where nobody else reads them. Both count positions alike, so the results are
// rows of the argument, at one distance from where they are computed, and the
// rows that are no results are its padding.
func (s *State) chainWindows(stored []*storedWindows) {
	for _, to := range stored {
		for _, from := range stored {
			if !s.feeds(from, to) {
				continue
			}
			result, ok := from.storeAsArgument(to)
			if !ok {
				continue
			}
			// Padding takes the place of the kernel that stored the argument.
			s.Plan.Replace(to.argument)
			to.argument = s.Plan.Replace(from.result, to.padding(), result)[0]
			break
		}
	}
}

// feeds reports whether the results of one convolution are read by nothing but
// the kernel that stores the argument of another, what else that reads is there
// before the first, and both count the same positions.
func (s *State) feeds(from, to *storedWindows) bool {
	if from == to || from.dtype != to.dtype || !from.pitch.Equal(to.pitch) || !from.n.Shape().Equal(to.n.Arg(0).Shape()) || len(from.stores()) != 1 {
		return false
	}
	v, results := from.resultBuffer(), s.Plan.Value(from.resultBuffer())
	return results.Origin == plan.Temp && results.Node != nil && slices.Equal(s.Plan.Readers(v), []plan.KernelID{to.argument}) &&
		s.Plan.CanMove(to.argument, from.result, v)
}

func (w *storedWindows) stores() []kernel.Store { return w.s.Plan.Kernel(w.result).Stores }

// resultBuffer is the buffer of the results.
func (w *storedWindows) resultBuffer() plan.ValueID {
	return w.s.Plan.Kernel(w.result).Bindings[w.stores()[0].Bind].Buffer
}

// lead is how many positions of the stored argument stand before that of the
// first window's middle: the padding before the first element.
func (w *storedWindows) lead() int64 {
	n := int64(0)
	for i, low := range w.Low {
		n += low * w.apart(i)
	}
	return n
}

// storeAsArgument is the product with its results stored as the next argument,
// and false where that argument is not made of the result at the same place.
func (w *storedWindows) storeAsArgument(to *storedWindows) (*kernel.Kernel, bool) {
	ok, from, argument := true, *w.s.Plan.Kernel(w.result), w.s.Plan.Kernel(to.argument)
	from.Guard = nil
	ops := slices.Concat(from.Ops, slices.DeleteFunc(slices.Clone(argument.Ops), func(op string) bool { return op == "copy" }))
	return kernel.Map(&from, kernel.Edit{Ops: ops, Stores: func(m *kernel.Mapping) []kernel.Store {
		place := kernel.Axis(0, from.Parallel[0]).Plus(kernel.Const(to.lead()))
		col := kernel.Axis(1, from.Parallel[1])
		// The coordinates of the next argument's kernel, by those of this one.
		shape := to.argumentShape()
		at := append(unflatten(shape[:len(shape)-1], place), col)
		next := m.Part(argument, func(axis int, _ ir.Dim) kernel.Index { return at[axis] })
		next.Load = func(e *kernel.Expr) *kernel.Expr {
			if argument.Bindings[e.Bind].Buffer != w.resultBuffer() {
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

// readByNext is where the kernel that stores the next argument reads an element
// of it that is stored as it lies, in that kernel's coordinates.
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

// padding is a kernel that stores the zeros before the first and after the last
// row that results of another convolution are stored in.
func (w *storedWindows) padding() *kernel.Kernel {
	shape := w.argumentShape()
	head, all := w.lead(), shape[:len(shape)-1].MaxElems()
	// Of a chain, the convolution before has as many positions as results.
	rows := w.before()
	k := &kernel.Kernel{Name: "conv_padding", Family: kernel.FamilyMap, Parallel: []ir.Dim{{Add: all - rows}, w.channels()}, Ops: []string{"pad"}}
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
	k.Stores = []kernel.Store{{Bind: 0, Index: place.Mul(kernel.DimIndex(w.channels())).Plus(kernel.Axis(1, w.channels())), Value: b.Number(w.dtype, 0)}}
	return k
}

// before is how many positions the convolution has whose results are the
// argument: from its first result to its last.
func (w *storedWindows) before() int64 {
	n := (w.images().Add-1)*w.pitch.MaxElems() + 1
	for i, d := range w.n.Arg(0).Shape()[2:] {
		n += (d.Add - 1) * w.apart(i)
	}
	return n
}
