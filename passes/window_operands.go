package passes

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// storeWindows gives a convolution two small kernels before it, where the device
// says that this pays: one stores its argument with the channels innermost and
// zeros around it, the other the weights in the same order. A window's elements
// then lie in runs, and neighbouring positions at one distance, as matrix units
// take them. The windows themselves are never stored.
func storeWindows(s *State) error {
	if s.windows == nil {
		return nil
	}
	var list leveled
	for i, k := range s.Kernels {
		level := 2 * s.levels[i] // room for one before
		if w := newStoredWindows(s, s.clusters[i], k); w != nil {
			if stores, product, err := w.kernels(); err == nil && s.windows(k, product, stores) {
				s.partials = append(s.partials, w.partials()...)
				for _, store := range stores {
					list.add(store, level)
				}
				k = product
			}
		}
		list.add(k, level+1)
	}
	s.Kernels, s.levels = list.sorted()
	return nil
}

// sparePositions is how many positions a stored argument goes on for, so that
// whole tiles of them may be read.
const sparePositions = 256

// storedWindows is a convolution whose operands are stored first.
type storedWindows struct {
	s       *State
	cluster *Cluster
	n       *ir.Node
	ir.Window
	padded ir.Shape // the spatial extents of the argument, padding included
	dtype  ir.DType
	buffer int // of the argument; that of the weights follows
}

// newStoredWindows returns what is to be known of a convolution, or nil where
// its operands cannot be stored so: neighbouring positions must meet neighbours
// of the argument, all channels and all extents be known.
func newStoredWindows(s *State, c *Cluster, k *kernel.Kernel) *storedWindows {
	if len(c.Cores) != 1 || c.Kind != ClusterMatMul || c.Cores[0].Op() != ir.OpConv {
		return nil
	}
	n := c.Cores[0]
	w := &storedWindows{s: s, cluster: c, n: n, Window: ir.WindowOf(n), dtype: k.Products[0].Operands}
	static := func(d ir.Dim) bool { return d.IsStatic() && d.Add > 0 }
	all := slices.Concat(n.Shape(), n.Arg(0).Shape())
	if w.dtype != ir.F16 && w.dtype != ir.BF16 || n.Attrs().Int("groups") != 1 || slices.ContainsFunc(all, func(d ir.Dim) bool { return !static(d) }) {
		return nil
	}
	for i, d := range n.Arg(0).Shape()[2:] {
		if w.Stride[i] != 1 || w.Low[i] < 0 || w.High[i] < 0 {
			return nil
		}
		w.padded = append(w.padded, d.Plus(w.Low[i]+w.High[i]))
	}
	w.buffer = len(s.Graph.Nodes()) + len(s.partials)
	return w
}

// kernels are those that store the operands, and the product of them.
func (w *storedWindows) kernels() (stores []*kernel.Kernel, product *kernel.Kernel, err error) {
	x, err := w.storeArgument()
	if err != nil {
		return nil, nil, err
	}
	weights, err := w.storeWeights()
	if err != nil {
		return nil, nil, err
	}
	product, err = w.product()
	return []*kernel.Kernel{x, weights}, product, err
}

// channels of the argument.
func (w *storedWindows) channels() ir.Dim { return w.n.Arg(0).Shape()[1] }

// argumentShape is that of the stored argument.
func (w *storedWindows) argumentShape() ir.Shape {
	return slices.Concat(ir.Shape{w.n.Shape()[0]}, w.padded, ir.Shape{w.channels()})
}

// weightShape is that of the stored weights.
func (w *storedWindows) weightShape() ir.Shape {
	return slices.Concat(ir.Shape{w.n.Shape()[1]}, w.n.Arg(1).Shape()[2:], ir.Shape{w.channels()})
}

// argumentElems is how many elements the stored argument takes.
func (w *storedWindows) argumentElems() int64 {
	return w.argumentShape().MaxElems() + sparePositions*w.channels().Add
}

// partials are the buffers of both.
func (w *storedWindows) partials() []ir.Type {
	return []ir.Type{{DType: w.dtype, Shape: ir.Shape{{Add: w.argumentElems()}}}, {DType: w.dtype, Shape: w.weightShape()}}
}

// storing is a kernel that stores value at each point of a shape.
func (w *storedWindows) storing(name string, shape ir.Shape, buffer kernel.Binding, value func(l *lowerer, at []kernel.Index) (*kernel.Expr, error)) (*kernel.Kernel, error) {
	l := newLowerer(w.s.Fusion, w.cluster)
	l.k.Family = kernel.FamilyMap
	at := l.parallel(shape)
	v, err := value(l, at)
	if err != nil {
		return nil, err
	}
	buffer.Write, buffer.Elems = true, shape.MaxElems() // spare positions are never stored
	l.k.Bindings = append(l.k.Bindings, buffer)
	l.k.Stores = []kernel.Store{{Bind: len(l.k.Bindings) - 1, Index: linear(shape, at), Value: l.b.Cast(w.dtype, v)}}
	k, err := l.finish()
	if err == nil {
		k.Name = name
	}
	return k, err
}

func (w *storedWindows) argumentBinding() kernel.Binding {
	return kernel.Binding{Name: "x_stored", DType: w.dtype, Buffer: w.buffer, Elems: w.argumentElems()}
}

func (w *storedWindows) weightBinding() kernel.Binding {
	return kernel.Binding{Name: "w_stored", DType: w.dtype, Buffer: w.buffer + 1, Elems: w.weightShape().MaxElems()}
}

// storeArgument stores [image, position…, channel], with zeros for padding.
func (w *storedWindows) storeArgument() (*kernel.Kernel, error) {
	return w.storing("conv_argument", w.argumentShape(), w.argumentBinding(), func(l *lowerer, at []kernel.Index) (*kernel.Expr, error) {
		x, last := w.n.Arg(0), len(at)-1
		var t tap
		for i, d := range x.Shape()[2:] {
			t.meet(l, at[1+i].Minus(kernel.Const(w.Low[i])), d)
		}
		return l.tapValue(x, []kernel.Index{at[0], at[last]}, t, 0)
	})
}

// storeWeights stores [output channel, window…, channel].
func (w *storedWindows) storeWeights() (*kernel.Kernel, error) {
	return w.storing("conv_weights", w.weightShape(), w.weightBinding(), func(l *lowerer, at []kernel.Index) (*kernel.Expr, error) {
		last := len(at) - 1
		return l.value(w.n.Arg(1), slices.Concat([]kernel.Index{at[0], at[last]}, at[1:last]))
	})
}

// product is the convolution of the stored operands: per image, weights
// [channels, window] times windows [window, positions]. Positions are counted
// with the padding of the argument in every axis but the first, so that all are
// at one distance; of those in the padding nothing is stored.
func (w *storedWindows) product() (*kernel.Kernel, error) {
	l := newLowerer(w.s.Fusion, w.cluster)
	l.k.Family = kernel.FamilyMatMul
	l.ops[w.n] = true
	image := l.parallel(ir.Shape{w.n.Shape()[0]})[0]
	row := l.parallel(ir.Shape{w.n.Shape()[1]})[0]
	counted := slices.Concat(ir.Shape{w.n.Shape()[2]}, w.padded[1:])
	extent := int64(1)
	for i, d := range w.n.Shape()[2:] { // the last position that exists, and 1
		extent += (d.Add - 1) * counted[i+1:].MaxElems()
	}
	col := l.parallel(ir.Shape{{Add: extent}})[0]
	l.k.Fold = ir.Dim{Add: w.weightShape()[1:].MaxElems()}
	at := unflatten(counted, col)
	for i, d := range w.n.Shape()[3:] {
		l.guardColumn(l.inside(at[1+i], kernel.Const(0), kernel.DimIndex(d)))
		at[1+i] = kernel.Clamp(at[1+i], last(d)) // which all that follows may rely on
	}
	l.at, l.space = slices.Concat([]kernel.Index{image, row}, at), w.n.Shape()
	w.addOperands(l, image, row, col)
	if err := l.storeProducts(); err != nil {
		return nil, err
	}
	return l.finish()
}

// addOperands adds the product of the stored operands.
func (w *storedWindows) addOperands(l *lowerer, image, row, col kernel.Index) {
	fold := kernel.Axis(l.k.FoldAxis(), l.k.Fold)
	window := w.weightShape()[1:]
	dilation := append(slices.Clone(w.Dilation), 1)
	position := append(slices.Clone(w.padded), w.channels()) // what dilations count
	if last := len(window) - 1; dilation[last-1] == 1 {      // a run goes on with the channels of the next position
		n := window[last-1].Add * window[last].Add
		window, dilation = append(window[:last-1:last-1], ir.Dim{Add: n}), append(dilation[:last-1:last-1], 1)
	}
	at := image.Mul(kernel.Const(w.padded.MaxElems())).Plus(col).Mul(kernel.DimIndex(w.channels()))
	for i, k := range unflatten(window, fold) {
		stride := int64(1)
		if i < len(window)-1 {
			stride = position[i+1:].MaxElems()
		}
		at = at.Plus(k.Times(dilation[i] * stride))
	}
	l.k.Bindings = append(l.k.Bindings, w.argumentBinding(), w.weightBinding())
	for i := range l.k.Bindings {
		l.k.Bindings[i].Read = true
	}
	b := l.b.Load(0, w.dtype, at, "x_stored")
	a := l.b.Load(1, w.dtype, row.Mul(kernel.DimIndex(l.k.Fold)).Plus(fold), "w_stored")
	l.k.Products = []kernel.Product{{A: a, B: b, Name: "acc", Operands: w.dtype}}
	l.accs[w.n] = []*kernel.Expr{l.b.Acc(0, ir.F32, "acc")}
}

// guardColumn leaves out columns for which a condition does not hold.
func (l *lowerer) guardColumn(cond *kernel.Expr) {
	switch {
	case cond.Kind == kernel.ExprConst && cond.Int != 0:
	case l.k.Guard == nil:
		l.k.Guard = &kernel.Guard{Col: cond}
	default:
		l.k.Guard.Col = l.b.Apply(ir.OpAnd, ir.Bool, nil, l.k.Guard.Col, cond)
	}
}
