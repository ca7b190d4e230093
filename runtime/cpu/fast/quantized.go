package fast

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// Quantized models multiply floats that are 8-bit integers minus a zero point, times a scale. If the weights w are
// constant, such a matmul or convolution is computed with integers x and w, and the scales are applied to its results.
// The zero point z of x is applied to the results too: the sum of (x-z)*w over a row is the sum of x*w minus z times
// the sum of w.

// quantized is the kernel of a matmul or convolution of a quantized model: x*w, with a zero point and scale of x and
// factors of w. zero, scale and factors may be nil.
type quantized struct {
	node    *ir.Node
	x       *ir.Node // 8-bit integers
	zero    *ir.Node // one element, subtracted from x
	scale   *ir.Node // one element, by which x is multiplied
	w       *ir.Node // the weights without factors, which are integers from -255 to 255
	factors *ir.Node // one element, or one for each channel or column of the result
	after   *epilogue
}

// quantized returns the kernel that computes node n, a matmul or convolution of dequantized numbers, with integers. It
// returns nil if n is another node, or if integers would not give the same result.
func (c *chains) quantized(n *ir.Node) *quantized {
	if n.Op() != ir.OpMatMul && n.Op() != ir.OpConv || !multipliesInts() || n.DType() != ir.F32 ||
		n.Attrs().Bool("transpose_a") {
		return nil
	}
	q := &quantized{node: n, w: n.Arg(1)}
	x := n.Arg(0)
	x, q.scale = peel(x, ir.OpMul)
	x, q.zero = peel(x, ir.OpSub)
	q.x = integersIn(x)
	if w, factors := peel(q.w, ir.OpMul); factors != nil {
		q.w, q.factors = w, factors
	}
	w, zeros := peel(q.w, ir.OpSub)
	if q.x == nil || integersIn(w) == nil || !c.constant[q.w.ID()] || zeros != nil && integersIn(zeros) == nil {
		return nil
	}
	zeroFits := q.zero == nil || integersIn(q.zero) != nil && single(q.zero)
	scaleFits := q.scale == nil || single(q.scale)
	factorsFit := q.factors == nil || single(q.factors) || q.perOutput()
	if !zeroFits || !scaleFits || !factorsFit {
		return nil
	}
	dims, err := q.w.Shape().Eval(nil)
	if err != nil || n.Op() == ir.OpMatMul && len(dims) != 2 {
		return nil
	}
	// The number of terms of a sum. In a matmul, either axis may be the contraction axis.
	terms := volume(dims[1:])
	if n.Op() == ir.OpMatMul {
		terms = max(dims[0], dims[1])
	}
	const most = (1<<31 - 1) / (255 * 255) // sums of more terms may exceed 32 bits
	if terms > most || slices.Contains(dims, 0) {
		return nil
	}
	return q
}

// peel takes the outermost op off a dequantization such as (x - zero) * scale: it returns both arguments of n, which
// has the given op. The second is returned without its broadcasts. peel returns n and nil if n has another op,
// broadcasts its first argument, or has a second argument that is not f32.
func peel(n *ir.Node, op ir.Op) (first, second *ir.Node) {
	if n.Op() != op || !n.Arg(0).Shape().Equal(n.Shape()) || n.Arg(1).DType() != ir.F32 {
		return n, nil
	}
	second = n.Arg(1)
	for second.Op() == ir.OpBroadcast {
		second = second.Arg(0)
	}
	return n.Arg(0), second
}

// integersIn returns the node of 8-bit integers that n converts to float32. A node n of one element may also reshape
// the converted element. It returns nil if n is something else.
func integersIn(n *ir.Node) *ir.Node {
	for single(n) && (n.Op() == ir.OpReshape || n.Op() == ir.OpUnsqueeze || n.Op() == ir.OpSqueeze) {
		n = n.Arg(0)
	}
	if n.Op() != ir.OpCast || n.DType() != ir.F32 || n.Arg(0).DType() != ir.I8 && n.Arg(0).DType() != ir.U8 {
		return nil
	}
	return n.Arg(0)
}

// single reports whether a node has one element.
func single(n *ir.Node) bool {
	dims, err := n.Shape().Eval(nil)
	return err == nil && volume(dims) == 1
}

// perOutput reports whether the factors vary only from one output channel (of a convolution) or column (of a matmul) to
// the next.
func (q *quantized) perOutput() bool {
	dims, err := q.factors.Shape().Eval(nil)
	if err != nil {
		return false
	}
	axis := 0
	if q.node.Op() == ir.OpMatMul && !q.node.Attrs().Bool("transpose_b") {
		axis = 1 // weights [k,n]
	}
	shift := q.w.Rank() - len(dims)
	for i, d := range dims {
		if d != 1 && i+shift != axis {
			return false
		}
	}
	return true
}

// complete sets the kernel's functions and arguments.
func (q *quantized) complete(k *interp.Kernel) {
	k.Args, k.Compute, k.Pack, k.Rounds = []*ir.Node{q.x, q.w}, q.conv, q.packConv, true
	if q.node.Op() == ir.OpMatMul {
		k.Compute, k.Pack = q.matmul, q.packMatmul
	}
	for _, n := range []*ir.Node{q.zero, q.scale, q.factors} {
		if n != nil {
			k.Args = append(k.Args, n)
		}
	}
}

// packed is packed weights. The first word is 1 if they are packed as signed bytes, and otherwise 0. The other words
// depend on the op.
type packed []float32

// form returns the form of packed weights p. In a convolution x is operand b (see intForm) and isConv is true; in a
// matmul the weights are b.
func (q *quantized) form(p packed, isConv bool) *intForm {
	if p[0] == 0 {
		return formOf(ir.U8)
	}
	f := formOf(ir.I8)
	if isConv && q.x.DType() == ir.U8 { // the elements of b are unsigned already
		f.shift = 0
	}
	return f
}

// integersOf returns the weights as integers, and packed weights with only the first word: 1 if the weights fit in
// signed bytes and the CPU has an instruction that multiplies those, and otherwise 0.
func (q *quantized) integersOf(t interp.Tensor) (list []int32, first packed) {
	list, first = make([]int32, len(t.Floats)), packed{0}
	if vector.quads != nil {
		first[0] = 1
	}
	for i, x := range t.Floats {
		if list[i] = int32(x); x < -128 || x > 127 {
			first[0] = 0
		}
	}
	return list, first
}

// packConv packs the weights of a convolution.
func (q *quantized) packConv(t interp.Tensor) []float32 {
	list, p := q.integersOf(t)
	return append(p, newIntConv(q.node, q.form(p, true), t.Dims).packAll(list, t.Dims[0])...)
}

// packMatmul packs the weights of a matmul: the first word, the panels (groups of columns, see intMatmul.panels), and
// then the sums of the columns, by which results with a zero point are corrected.
func (q *quantized) packMatmul(t interp.Tensor) []float32 {
	list, p := q.integersOf(t)
	m := newIntMatmul(q.node, nil, t.Dims)
	m.intForm = q.form(p, false)
	count, size := m.panels()
	panels, sums := make([]float32, count*size/4), make([]float32, m.n)
	for i := range count {
		m.pack(as[byte](panels)[i*size:][:size], list, i)
	}
	for j := range m.n {
		for k := range m.k {
			as[int32](sums)[j] += list[k*m.bRow+j*m.bCol]
		}
	}
	return slices.Concat(p, panels, sums)
}

// scalars returns the zero point of x, and the function that returns the factor of the results of channel or column i.
// A missing zero point is 0, a missing scale or factor 1.
func (q *quantized) scalars(c *interp.Call) (zero int32, factor func(i int) float32) {
	rest := c.Args[2:]
	take := func(n *ir.Node) (t interp.Tensor) {
		if n != nil {
			t, rest = rest[0], rest[1:]
		}
		return t
	}
	if z := take(q.zero); z.Floats != nil {
		zero = int32(z.Floats[0])
	}
	scale := float32(1)
	if s := take(q.scale); s.Floats != nil {
		scale = s.Floats[0]
	}
	factors := take(q.factors).Floats
	switch len(factors) {
	case 0:
		return zero, func(int) float32 { return scale }
	case 1:
		return zero, func(int) float32 { return scale * factors[0] }
	}
	return zero, func(i int) float32 { return scale * factors[i] }
}

// conv computes a convolution of quantized numbers with integers.
func (q *quantized) conv(c *interp.Call) error {
	x, weights := c.Args[0], c.Args[1]
	dims, err := c.Extents(q.w)
	if err != nil {
		return err
	}
	p := newIntConv(q.node, q.form(weights.Packed, true), dims)
	p.setExtents(x.Dims, c.Dims)
	channels, words := c.Dims[1], len(p.offsets)
	rows := weights.Packed[1:]
	zero, factor := q.scalars(c)
	memory, free := scratchWords(channels)
	defer free()
	sums := as[int32](memory)
	for i, sum := range as[int32](rows[channels*words:]) {
		// The sum of (x-zero)*w is the sum of (x+shift)*w less (shift+zero) times the sum of w.
		sums[i] = -(p.shift + zero) * sum
	}
	return p.compute(c, sourceOf(x), as[byte](rows), sums, zero, factor, q.after)
}

// matmul computes a matmul: integer sums of the packed rows of x and columns of weights, plus a number per column for
// the zero point, as floats times a scale per column.
func (q *quantized) matmul(c *interp.Call) error {
	x, weights := c.Args[0], c.Args[1]
	dims, err := c.Extents(q.w)
	if err != nil {
		return err
	}
	p, run := newIntMatmul(q.node, nil, dims), q.after.run(c, c.Args, c.Dims)
	defer run.end()
	p.intForm = q.form(weights.Packed, false)
	p.m = volume(x.Dims[:len(x.Dims)-1])
	count, size := p.panels()
	panels := as[byte](weights.Packed[1:])[:count*size]
	rowBytes := p.rowBytes()
	zero, factor := q.scalars(c)
	offset := int32(0) // is subtracted from x to make it a signed byte
	if q.x.DType() == ir.U8 && p.elems == 4 {
		offset = 128
	}
	memory, free := scratchWords(p.m*(rowBytes/4+1) + 2*p.n)
	defer free()
	rows, sums, memory := p.cutRows(memory, p.m)
	ofColumn, scales := memory[:p.n], memory[p.n:] // to add to the sums of a column, and to multiply them by
	for j, sum := range as[int32](weights.Packed[1+count*size/4:]) {
		wordsOf(ofColumn)[j], scales[j] = (offset-zero)*sum, factor(j)
	}
	source := sourceOf(x)
	err = c.Parallel(p.m, p.k, func(worker, i int) {
		row := source.list(i*p.k, p.k, as[int32](c.Room(worker, p.k)))
		sums[i] = -p.shift * (p.packRow(rows[i*rowBytes:], row, offset))
	})
	if err != nil {
		return err
	}
	return p.tiles(c, 1, func(worker, _, row, n, first, panelsOf int) {
		cols := min(panelsOf*p.cols, p.n-first)
		room := c.Room(worker, n*(p.cols+cols))
		lines, stride := run.lines(room[n*p.cols:], row*p.n+first, cols, p.n)
		p.tile(wordsOf(lines), stride, rows[row*rowBytes:], panels[first/p.cols*size:], sums[row:], n, cols,
			as[int32](room))
		for i := range n {
			to := lines[i*stride:][:cols]
			primitives["+ words"].apply(to, to, ofColumn[first:], to)
			primitives[floatOfWords].apply(to, to, to, to)
			primitives["*"].apply(to, to, scales[first:], to)
		}
		run.apply(worker, lines, stride, row*p.n+first, cols, p.n, n)
	})
}
