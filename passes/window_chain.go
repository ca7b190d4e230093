package passes

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
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
			// Padding takes the place of the kernel that stored the argument, but runs
			// with the one that stores that of the convolution before.
			padding := to.padding()
			s.replace(to.argument, padding, s.levelOf(from.argument))
			s.replace(from.result, result, s.levelOf(from.result))
			to.argument, from.result = padding, result
			break
		}
	}
	var list leveled
	for i, k := range s.Kernels {
		list.add(k, s.levels[i])
	}
	s.Kernels, s.levels = list.sorted()
}

// replace puts a kernel of some level in the place of another.
func (s *State) replace(old, k *kernel.Kernel, level int) {
	i := slices.Index(s.Kernels, old)
	s.Kernels[i], s.levels[i] = k, level
}

func (s *State) levelOf(k *kernel.Kernel) int { return s.levels[slices.Index(s.Kernels, k)] }

// feeds reports whether the results of one convolution are read by nothing but
// the kernel that stores the argument of another, what else that reads is there
// before the first, and both count the same positions.
func (s *State) feeds(from, to *storedWindows) bool {
	if from == to || from.dtype != to.dtype || !from.pitch.Equal(to.pitch) || !from.n.Shape().Equal(to.n.Arg(0).Shape()) || len(from.result.Stores) != 1 {
		return false
	}
	buffer := from.resultBuffer()
	if p := (preparer{s: s}); !p.isTemp(buffer) || buffer >= len(s.Graph.Nodes()) || !reads(to.argument, buffer) {
		return false
	}
	level := s.levelOf(from.result)
	for i, k := range s.Kernels {
		if k != to.argument && reads(k, buffer) {
			return false
		}
		for _, b := range k.Bindings {
			if b.Write && b.Buffer != buffer && reads(to.argument, b.Buffer) && s.levels[i] >= level {
				return false
			}
		}
	}
	return true
}

// reads reports whether a kernel reads a buffer.
func reads(k *kernel.Kernel, buffer int) bool {
	return slices.ContainsFunc(k.Bindings, func(b kernel.Binding) bool { return b.Read && b.Buffer == buffer })
}

// resultBuffer is the buffer of the results.
func (w *storedWindows) resultBuffer() int { return w.result.Bindings[w.result.Stores[0].Bind].Buffer }

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
	ok, from := true, *w.result
	from.Guard = nil
	ops := slices.Concat(from.Ops, slices.DeleteFunc(slices.Clone(to.argument.Ops), func(op string) bool { return op == "copy" }))
	return kernel.Map(&from, kernel.Edit{Ops: ops, Stores: func(m *kernel.Mapping) []kernel.Store {
		place := kernel.Axis(0, from.Parallel[0]).Plus(kernel.Const(to.lead()))
		col := kernel.Axis(1, from.Parallel[1])
		// The coordinates of the next argument's kernel, by those of this one.
		shape := to.argumentShape()
		at := append(unflatten(shape[:len(shape)-1], place), col)
		argument := m.Part(to.argument, func(axis int, _ ir.Dim) kernel.Index { return at[axis] })
		argument.Load = func(e *kernel.Expr) *kernel.Expr {
			if to.argument.Bindings[e.Bind].Buffer != w.resultBuffer() {
				return nil
			}
			ok = ok && e.Index.Equal(w.readByNext(to))
			return m.Builder.Cast(e.DType, m.Value(from.Stores[0].Value))
		}
		st := argument.Store(to.argument.Stores[0])
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
