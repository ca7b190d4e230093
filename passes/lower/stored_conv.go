package lower

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/plan"
)

// sparePositions is the number of extra positions at the end of a stored argument, so that the last tile can be read as
// a whole.
const sparePositions = 256

// StoredConv is a convolution that is computed as a matmul of two operands in scratch buffers (an implicit GEMM, see
// rules.ImplicitGEMM). A position is one spatial element of one image. The stored argument is [positions, channels], so
// that a window is a few runs of contiguous elements. A line is a row of positions along the last spatial axis.
type StoredConv struct {
	f       *Fusion
	cluster *Cluster
	n       *ir.Node
	ir.Window
	// pitch has for each spatial axis its extent in the stored argument, with padding: positions per line, lines per
	// image and so on. The padding after a line is also the padding before the next line, and likewise for images.
	pitch ir.Shape
	// phases has for each spatial axis the number of parts that the stored argument is divided into. With stride s,
	// part p has the positions i*s + p. Neighbouring windows then read neighbouring positions of a part.
	phases     []int64
	dtype      ir.DType
	halfSums   bool
	X, weights plan.ValueID  // the stored argument and weights
	Result     plan.KernelID // the matmul
}

// NewStoredConv returns the StoredConv of convolution kernel k. It returns nil if k is no convolution or cannot be
// computed in this way. That requires narrow operands, one group of channels, and static extents other than 0.
func NewStoredConv(f *Fusion, k *kernel.Kernel) *StoredConv {
	c := f.clusterOfKernel(k)
	if c == nil || len(c.Cores) != 1 || c.Kind != ClusterMatMul || c.Cores[0].Op() != ir.OpConv {
		return nil
	}
	n := c.Cores[0]
	w := &StoredConv{f: f, cluster: c, n: n, Window: ir.WindowOf(n), dtype: k.MatMuls[0].Operands,
		halfSums: k.MatMuls[0].HalfSums}
	narrow := slices.Contains([]ir.DType{ir.F16, ir.BF16, ir.I8, ir.U8}, w.dtype)
	unknown := func(d ir.Dim) bool { return !d.IsStatic() || d.Add == 0 }
	if !narrow || n.Attrs().Int("groups") != 1 ||
		slices.ContainsFunc(slices.Concat(n.Shape(), n.Arg(0).Shape()), unknown) {
		return nil
	}
	for i, d := range n.Arg(0).Shape()[2:] {
		low, high, stride := w.Low[i], w.High[i], w.Stride[i]
		if low < 0 || high < 0 {
			return nil
		}
		// own counts a line's elements and the padding before them. reached counts the positions that windows of the
		// line read: beyond its end they read the padding of the next line.
		own, reached := ceil.Div(d.Add+low, stride), (d.Add+low+high-1)/stride+ceil.Div(stride-low, stride)
		w.pitch = append(w.pitch, ir.Dim{Add: max(own, reached, n.Shape()[2+i].Add)})
		// A window shorter than the stride reaches only some of its positions.
		w.phases = append(w.phases, min(stride, w.Reach(i)))
	}
	w.X = f.Plan.Scratch(ir.Type{DType: w.dtype, Shape: ir.Shape{{Add: w.argumentElems()}}})
	w.weights = f.Plan.Scratch(ir.Type{DType: w.dtype, Shape: w.weightShape()})
	return w
}

// Kernels returns the kernels that store the two operands, and the matmul of the stored operands: windows [positions,
// window] times weights [window, outputs]. Rows are positions in storage order through all images, so that they have
// one stride. A guard skips positions without a result.
func (w *StoredConv) Kernels() (stores []*kernel.Kernel, matmul *kernel.Kernel, err error) {
	defer bailout.Caught(&err)
	stores = []*kernel.Kernel{w.storeArgument(), w.storeWeights()}
	l := newLowerer(w.f, w.cluster)
	return stores, bailout.Must(l.buildKernel(func() { w.lowerMatMul(l) })), nil
}

// channels returns the number of channels of the argument.
func (w *StoredConv) channels() ir.Dim { return w.n.Arg(0).Shape()[1] }

// images returns the number of images of the argument.
func (w *StoredConv) images() ir.Dim { return w.n.Shape()[0] }

// distance returns the distance, in positions of the stored argument, between neighbours along a spatial axis.
func (w *StoredConv) distance(axis int) int64 { return w.pitch[axis+1:].MaxElems() }

// positions returns the number of positions from the first result to the last. It includes positions without a result,
// between lines and between images.
func (w *StoredConv) positions() int64 { return w.positionsOf(w.n.Shape()[2:]) }

// positionsOf returns the number of positions from the first element of the first image to the last element of the last
// image, with all padding between them. An image has the given spatial extents.
func (w *StoredConv) positionsOf(spatial ir.Shape) int64 {
	n := (w.images().Add-1)*w.pitch.MaxElems() + 1
	for i, d := range spatial {
		n += (d.Add - 1) * w.distance(i)
	}
	return n
}

// lines returns the number of positions along the first spatial axis, of all images together, that windows read.
func (w *StoredConv) lines() ir.Dim {
	reached := w.positions()
	for i := range w.Kernel {
		reached += (w.Reach(i) - 1) / w.Stride[i] * w.distance(i)
	}
	return ir.Dim{Add: ceil.Div(reached, w.distance(0))}
}

// phaseShape returns the number of parts along each spatial axis; see StoredConv.phases.
func (w *StoredConv) phaseShape() (s ir.Shape) {
	for _, n := range w.phases {
		s = append(s, ir.Dim{Add: n})
	}
	return s
}

// argumentShape returns the shape of the stored argument: lines of all parts, then the other spatial axes, then
// channels.
func (w *StoredConv) argumentShape() ir.Shape {
	lines := w.lines().Times(w.phaseShape().MaxElems())
	return slices.Concat(ir.Shape{lines}, w.pitch[1:], ir.Shape{w.channels()})
}

// outputs returns the number of channels of the result.
func (w *StoredConv) outputs() ir.Dim { return w.n.Shape()[1] }

// windowShape returns the shape of a window in the order of the contraction axis: spatial axes, then channels.
func (w *StoredConv) windowShape() ir.Shape {
	return append(slices.Clone(w.n.Arg(1).Shape()[2:]), w.channels())
}

// weightShape returns the shape of the stored weights. It is [window, output], because tensor cores read that a tenth
// faster than the transpose. It is [output, window] for int8, and if rows of outputs would be unaligned (M-i8).
func (w *StoredConv) weightShape() ir.Shape {
	if !w.outputsInnermost() {
		return slices.Concat(ir.Shape{w.outputs()}, w.windowShape())
	}
	return append(w.windowShape(), w.outputs())
}

// outputsAligned is the number of 16-bit elements in 16 bytes, the alignment of rows of outputs.
const outputsAligned = 8

// outputsInnermost reports whether the stored weights are [window, output] rather than [output, window].
func (w *StoredConv) outputsInnermost() bool {
	return w.dtype.BlockBytes() > 1 && w.outputs().Add%outputsAligned == 0
}

// weightIndex returns the index in the stored weights of the weight with which an element of the window contributes to
// an output channel.
func (w *StoredConv) weightIndex(element, output kernel.Index) kernel.Index {
	if w.outputsInnermost() {
		return element.Mul(kernel.DimIndex(w.outputs())).Plus(output)
	}
	return output.Mul(kernel.Const(w.windowShape().MaxElems())).Plus(element)
}

// argumentElems returns the number of elements of the stored argument with the spare positions.
func (w *StoredConv) argumentElems() int64 {
	return w.argumentShape().MaxElems() + sparePositions*w.channels().Add
}

// storeKernel returns a kernel that fills a buffer of a shape. At each point it stores the result of function value, in
// the dtype of the convolution's operands.
func (w *StoredConv) storeKernel(name string, shape ir.Shape, buffer kernel.Binding,
	value func(l *lowerer, at []kernel.Index) *kernel.Expr) *kernel.Kernel {
	l := newLowerer(w.f, w.cluster)
	k := bailout.Must(l.buildKernel(func() {
		l.k.Family = kernel.FamilyMap
		at := l.parallel(shape)
		v := value(l, at)
		buffer.Write, buffer.Elems = true, shape.MaxElems() // spare positions are never stored
		l.k.Bindings = append(l.k.Bindings, buffer)
		l.k.Stores = []kernel.Store{{Bind: len(l.k.Bindings) - 1, Index: kernel.Linear(shape, at),
			Value: l.b.Cast(w.dtype, v)}}
	}))
	k.Name = name
	return k
}

func (w *StoredConv) argumentBinding() kernel.Binding {
	return kernel.Binding{Name: "x_stored", DType: w.dtype, Buffer: w.X, Elems: w.argumentElems()}
}

func (w *StoredConv) weightBinding() kernel.Binding {
	return kernel.Binding{Name: "w_stored", DType: w.dtype, Buffer: w.weights, Elems: w.weightShape().MaxElems()}
}

// storeArgument returns the kernel that stores the padded argument in shape argumentShape.
func (w *StoredConv) storeArgument() *kernel.Kernel {
	return w.storeKernel("conv_argument", w.argumentShape(), w.argumentBinding(),
		func(l *lowerer, at []kernel.Index) *kernel.Expr {
			x, last := w.n.Arg(0), len(at)-1
			// The first axis of the stored argument joins three: the part, the image, and the first spatial axis.
			part, line := at[0].DivMod(w.lines())
			phase := kernel.Unflatten(w.phaseShape(), part)
			image, first := line.DivMod(w.pitch[0])
			var t tap
			t.add(l, image, w.images()) // positions after the last image have no element
			for i, d := range x.Shape()[2:] {
				position := first
				if i > 0 {
					position = at[i]
				}
				t.add(l, position.Times(w.Stride[i]).Plus(phase[i]).Minus(kernel.Const(w.Low[i])), d)
			}
			image, t.at = t.at[0], t.at[1:]
			return l.tapValue(x, []kernel.Index{image, at[last]}, t, paddingOf(w.n))
		})
}

// storeWeights returns the kernel that stores the weights in shape weightShape.
func (w *StoredConv) storeWeights() *kernel.Kernel {
	return w.storeKernel("conv_weights", w.weightShape(), w.weightBinding(),
		func(l *lowerer, at []kernel.Index) *kernel.Expr {
			output, window := at[len(at)-1], at[:len(at)-1]
			if !w.outputsInnermost() {
				output, window = at[0], at[1:]
			}
			last := len(window) - 1
			return l.value(w.n.Arg(1), slices.Concat([]kernel.Index{output, window[last]}, window[:last]))
		})
}

// lowerMatMul adds the axes, the guard, the operands and the stores of the matmul to the kernel that l builds.
func (w *StoredConv) lowerMatMul(l *lowerer) {
	l.k.Family = kernel.FamilyMatMul
	l.ops[w.n] = true
	row := l.parallel(ir.Shape{{Add: w.positions()}})[0]
	col := l.parallel(ir.Shape{w.outputs()})[0]
	l.k.Fold = ir.Dim{Add: w.windowShape().MaxElems()}
	at := kernel.Unflatten(slices.Concat(ir.Shape{w.images()}, w.pitch), row)
	var inside *kernel.Expr
	for i, d := range w.n.Shape()[2:] {
		inside = l.and(inside, l.inside(at[1+i], kernel.Const(0), kernel.DimIndex(d)))
		at[1+i] = kernel.Clamp(at[1+i], kernel.Last(d)) // later code may assume that it is in range
	}
	if inside != nil {
		l.k.Guard = &kernel.Guard{Row: inside}
	}
	l.at, l.space = slices.Concat([]kernel.Index{at[0], col}, at[1:]), w.n.Shape()
	w.addOperands(l, row, col)
	l.storeResults(perPoint)
}

// addOperands adds the matmul of the stored argument and the stored weights to a kernel. The kernel's result has the
// coordinates row (a position) and col (an output channel). The contraction axis runs over the elements of the window.
// The address of such an element in the argument is (at + part*positions of a part)*channels + channel: `at` is its
// position, and part the part of the stored argument that has it (see StoredConv.phases).
func (w *StoredConv) addOperands(l *lowerer, row, col kernel.Index) {
	fold := kernel.Axis(l.k.FoldAxis(), l.k.Fold)
	window, last := w.windowShape(), len(w.Kernel)-1
	// The window's elements along the last axis are adjacent positions, so they are one axis with their channels.
	if w.Dilation[last] == 1 && w.Stride[last] == 1 {
		window = append(window[:last:last], window[last].Times(window[last+1].Add))
	}
	within := kernel.Unflatten(window, fold)
	at, part := row, kernel.Const(0)
	for i, k := range within[:len(within)-1] {
		position, phase := k.Times(w.Dilation[i]).DivMod(ir.Dim{Add: w.Stride[i]})
		at = at.Plus(position.Times(w.distance(i)))
		part = part.Times(w.phases[i]).Plus(phase)
	}
	at = at.Plus(part.Times(w.lines().Add * w.distance(0)))
	at = at.Mul(kernel.DimIndex(w.channels())).Plus(within[len(within)-1])
	l.k.Bindings = append(l.k.Bindings, w.argumentBinding(), w.weightBinding())
	for i := range l.k.Bindings {
		l.k.Bindings[i].Read = true
	}
	a := l.b.Load(0, w.dtype, at, "x_stored")
	b := l.b.Load(1, w.dtype, w.weightIndex(fold, col), "w_stored")
	p := kernel.MatMul{A: a, B: b, Name: "acc", Operands: w.dtype, HalfSums: w.halfSums}
	l.k.MatMuls = []kernel.MatMul{p}
	l.accs[w.n] = []*kernel.Expr{l.b.Acc(0, p.Sums(), "acc")}
}

// Feeds reports whether this convolution can store its results directly as the stored argument of convolution `to`.
// argument is the kernel that stores that argument. It must be the only reader of the results, its other inputs must be
// available before this convolution runs, and both convolutions must number positions in the same way.
func (from *StoredConv) Feeds(to *StoredConv, argument plan.KernelID) bool {
	p := from.f.Plan
	samePositions := from.pitch.Equal(to.pitch) && to.phaseShape().MaxElems() == 1 &&
		from.n.Shape().Equal(to.n.Arg(0).Shape())
	matmul := p.Kernel(from.Result)
	replaced := !matmul.ReadsBuffer(from.X) || len(matmul.Stores) != 1 // by a rule that ran since ImplicitGEMM
	if from == to || from.dtype != to.dtype || !samePositions || replaced {
		return false
	}
	v := matmul.FirstStored()
	return p.Value(v).Origin == plan.Temp && p.Value(v).Node != nil &&
		slices.Equal(p.Readers(v), []plan.KernelID{argument}) &&
		p.CanMove(argument, from.Result, v)
}

// leadingPadding returns the number of padding positions before the first element in the stored argument.
func (w *StoredConv) leadingPadding() int64 {
	n := int64(0)
	for i, low := range w.Low {
		n += low * w.distance(i)
	}
	return n
}

// AsArgument returns the matmul of convolution w, changed so that it stores its results as the stored argument of
// convolution `to`. argument is the kernel that stored that argument before, and the matmul also computes its ops. ok
// is false if an element of the argument depends on other results than the one at the same position.
func (w *StoredConv) AsArgument(to *StoredConv, argument *kernel.Kernel) (*kernel.Kernel, bool) {
	ok, from := true, w.f.Plan.Kernel(w.Result)
	ops := slices.Concat(from.Ops,
		slices.DeleteFunc(slices.Clone(argument.Ops), func(op string) bool { return op == "copy" }))
	// Positions without a result are padding, which the matmul now stores too.
	noGuard := func(*kernel.Mapping) *kernel.Guard { return nil }
	changed := kernel.Map(from, kernel.Edit{Ops: ops, Guard: noGuard, Stores: func(m *kernel.Mapping) []kernel.Store {
		position := kernel.Axis(0, from.Parallel[0]).Plus(kernel.Const(to.leadingPadding()))
		col := kernel.Axis(1, from.Parallel[1])
		// The coordinates of kernel argument as functions of this kernel's coordinates.
		shape := to.argumentShape()
		at := append(kernel.Unflatten(shape[:len(shape)-1], position), col)
		next := m.Part(argument, func(axis int, _ ir.Dim) kernel.Index { return at[axis] })
		next.Load = func(e *kernel.Expr) *kernel.Expr {
			if argument.Bindings[e.Bind].Buffer != from.FirstStored() {
				return nil
			}
			ok = ok && e.Index.Equal(w.readByNext(to))
			return m.Builder.Cast(e.DType, m.Value(from.Stores[0].Value))
		}
		st := next.Store(argument.Stores[0])
		st.Index = position.Mul(kernel.DimIndex(w.outputs())).Plus(col)
		m.To.Bindings[st.Bind].Elems = to.argumentElems()
		return []kernel.Store{st}
	}})
	return changed, ok // Map has called Stores, which sets ok
}

// readByNext returns the index at which the kernel that stores the padded argument of convolution `to` reads this
// convolution's result, as a function of that kernel's coordinates.
func (w *StoredConv) readByNext(to *StoredConv) kernel.Index {
	shape := to.argumentShape()
	at := kernel.Axes(shape)
	// The first axis of the stored argument joins the image and the first spatial axis.
	image, first := at[0].DivMod(to.pitch[0])
	x := to.n.Arg(0).Shape()
	positions := []kernel.Index{kernel.Clamp(image, kernel.Last(x[0])), at[len(at)-1]}
	for i, d := range x[2:] {
		position := first
		if i > 0 {
			position = at[i]
		}
		positions = append(positions, kernel.Clamp(position.Minus(kernel.Const(to.Low[i])), kernel.Last(d)))
	}
	return kernel.Linear(x, positions)
}

// Padding returns a kernel that stores only the padding of the argument: the positions before the first and after the
// last one that the previous convolution stores (see AsArgument).
func (w *StoredConv) Padding() *kernel.Kernel {
	shape := w.argumentShape()
	head, all := w.leadingPadding(), shape[:len(shape)-1].MaxElems() // in positions
	rows := w.positionsOf(w.n.Arg(0).Shape()[2:])                    // that the previous convolution stores
	k := &kernel.Kernel{Name: "conv_padding", Family: kernel.FamilyMap,
		Parallel: []ir.Dim{{Add: all - rows}, w.channels()}, Ops: []string{"pad"}}
	binding := w.argumentBinding()
	binding.Write, binding.Elems = true, shape.MaxElems()
	k.Bindings = []kernel.Binding{binding}
	row := kernel.Axis(0, k.Parallel[0])
	position := row
	if head > 0 { // rows from head on are after the previous convolution's rows
		beyond, _ := row.DivMod(ir.Dim{Add: head})
		position = row.Plus(kernel.Clamp(beyond, kernel.Const(1)).Times(rows))
	} else {
		position = row.Plus(kernel.Const(rows))
	}
	b := kernel.NewBuilder()
	k.Stores = []kernel.Store{{Bind: 0, Index: position.Mul(kernel.DimIndex(w.channels())).
		Plus(kernel.Axis(1, w.channels())), Value: b.Number(w.dtype, paddingOf(w.n))}}
	return k
}
