package rules

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/lower"
	"github.com/vkc-go/vkc/passes/plan"
)

// PackOperands adds a kernel that stores an operand of a matmul, in the layout and dtype in which the matmul
// multiplies it. It pays off if the operand is computed or badly laid out: every tile of the result would otherwise
// repeat that work.
//
// In an f32 matmul with precision bf16x3 it also splits each operand x into two bf16 values: high(x) is x rounded to
// bf16, and low(x) is the remainder, also rounded. It sums three of the four products of parts,
//
//	low(a)*high(b) + high(a)*low(b) + high(a)*high(b)
//
// as one matmul with a contraction axis three times as long. The smallest terms come first because tensor cores
// truncate sums. The relative error of a product is at most 2^-16 (the omitted low(a)*low(b)) plus twice 2^-17 (the
// difference between an f32 and its two bf16 values). An operand that is bf16 already has no low part. Then two
// products are left, or one if both operands are bf16.
func PackOperands(o *Optimizer, id plan.KernelID) (list []Proposal) {
	k := o.Plan.Kernel(id)
	if k.Family != kernel.FamilyMatMul {
		return nil
	}
	// splits becomes false if bf16 represents all operands, so that they need no second part.
	splits := slices.ContainsFunc(k.MatMuls, func(p kernel.MatMul) bool { return p.BF16x3 })
	if splits {
		unsplit := propose("keep f32", id, resolveBF16x3(k, keepsOperands))
		if terms, _, _ := k.BF16Terms(); terms == 1 && canSplit(k) { // both operands are bf16
			k, splits = resolveBF16x3(k, splitsOperands), false
			unsplit = propose("multiply bf16", id, k)
		}
		unsplit.Default = true
		list = append(list, unsplit)
		if splits && !canSplit(k) {
			return list
		}
	}
	for _, operands := range o.sizes(k).Operands {
		if k.Guard != nil || splits && !coversAll(k, operands) {
			continue
		}
		stores, rest := o.packOperandsOf(k, operands, splits)
		switch {
		case len(stores) == 0:
		case splits: // the margin is large, because the estimates for these matmuls are too optimistic
			p := propose("store operands as sums of bf16", id, append(stores, resolveBF16x3(rest, splitsOperands))...)
			p.Margin = 1.25
			list = append(list, p)
		default:
			p := o.fuseOperandStores(propose("store operands", id, append(stores, rest)...), id, stores, rest)
			if slices.ContainsFunc(operands, func(o kernel.StoredOperand) bool { return k.ReadsBlocks(o.Operand) }) {
				p.What, p.Margin = "store operands, decoded", 1.1 // decoded operands need more memory, too
			}
			list = append(list, p)
		}
	}
	return list
}

// fuseOperandStores improves proposal p, in which kernels `stores` store operands of matmul id. If such a kernel only
// copies the result of another kernel, that other kernel stores the operand itself. It stops storing its own result
// unless other kernels read it. So an f16 operand needs no kernel of its own. rest is the matmul that reads the stored
// operands.
func (o *Optimizer) fuseOperandStores(p Proposal, id plan.KernelID, stores []*kernel.Kernel,
	rest *kernel.Kernel) Proposal {
	var unfused []*kernel.Kernel
	for i, st := range stores {
		c, ok := copyOf(st)
		if !ok {
			unfused = append(unfused, st)
			continue
		}
		reads := func(k *kernel.Kernel) bool {
			return slices.ContainsFunc(k.Bindings, func(b kernel.Binding) bool { return b.Read && b.Buffer == c.from })
		}
		// Other operands, this matmul or later stores may still read the original.
		keep := o.Plan.ReadByOthers(c.from, id) || reads(rest) || slices.ContainsFunc(stores[i+1:], reads)
		source, ok := o.Plan.Source(c.from, keep)
		if !ok || source == id { // no single kernel computes the value, or the matmul itself does
			unfused = append(unfused, st)
			continue
		}
		p.replace(source, c.storedBy(p.kernel(o, source), keep))
	}
	if len(unfused) < len(stores) {
		p.replace(id, append(unfused, rest)...)
	}
	return p
}

// coversAll reports whether a list has all operands of k's matmuls. Splitting an operand makes its contraction axis
// longer, so the other operand must be split too.
func coversAll(k *kernel.Kernel, list []kernel.StoredOperand) bool {
	listed := map[*kernel.Expr]bool{}
	for _, o := range list {
		listed[o.Operand] = true
	}
	return !slices.ContainsFunc(k.MatMuls, func(p kernel.MatMul) bool { return !listed[p.A] || !listed[p.B] })
}

// packOperandsOf returns kernels that store the listed operands of matmul k, and the matmul that reads them (rest). If
// splits is true the operands are split into bf16 values. If nothing can be stored it returns no kernels, and k itself
// as rest.
func (o *Optimizer) packOperandsOf(k *kernel.Kernel, list []kernel.StoredOperand,
	splits bool) (stores []*kernel.Kernel, rest *kernel.Kernel) {
	if len(list) == 0 || multipliesItself(k, list) {
		return nil, k
	}
	all := make([]*operandStore, len(list))
	for i, operand := range list {
		st := &operandStore{k: k, StoredOperand: operand, fold: k.FoldAxis(), parts: 1}
		for _, p := range k.MatMuls {
			if p.A == operand.Operand || p.B == operand.Operand {
				st.isB, st.dtype = p.B == operand.Operand, p.Operands
			}
		}
		if splits {
			st.parts, _, _ = k.BF16Terms()
			st.dtype = ir.BF16
		}
		st.layOut()
		st.buffer = o.Plan.Scratch(ir.Type{DType: st.dtype, Shape: st.shape})
		all[i] = st
		stores = append(stores, st.storing())
	}
	return stores, readStored(k, all)
}

// multipliesItself reports whether a listed operand is both an A and a B. Such an operand varies along neither rows nor
// columns, like a broadcast number. It is not stored, because stored rows would belong to one side.
func multipliesItself(k *kernel.Kernel, list []kernel.StoredOperand) bool {
	isA, isB := map[*kernel.Expr]bool{}, map[*kernel.Expr]bool{}
	for _, p := range k.MatMuls {
		isA[p.A], isB[p.B] = true, true
	}
	return slices.ContainsFunc(list, func(o kernel.StoredOperand) bool { return isA[o.Operand] && isB[o.Operand] })
}

// operandStore describes the buffer in which one operand of matmul k is stored.
type operandStore struct {
	kernel.StoredOperand
	k      *kernel.Kernel
	fold   int  // the matmul's contraction axis
	isB    bool // whether it is operand B
	dtype  ir.DType
	axes   []int    // axes of the matmul that the operand depends on
	shape  ir.Shape // extents along those axes, padded
	along  int      // the index of the contraction axis among them
	parts  int      // number of bf16 parts that the operand is split into, consecutive along the contraction axis
	depth  ir.Dim   // padded length of one part along the contraction axis
	buffer int      // its value in the plan
}

// layOut determines the axes and the shape of the stored operand: batch axes, then rows and the contraction axis, or
// the reverse of these two if the schedule wants the contraction axis outermost (Across).
func (o *operandStore) layOut() {
	rank := len(o.k.Parallel) // the last two axes of a matmul are its rows and columns
	row := rank - 2
	if o.isB {
		row = rank - 1
	}
	for axis, d := range o.k.Parallel[:rank-2] {
		if o.Operand.Uses(axis) {
			o.axes, o.shape = append(o.axes, axis), append(o.shape, d)
		}
	}
	rows := o.k.Parallel[row]
	if o.Rows > 0 {
		rows = ir.D(o.Rows)
	}
	o.depth = o.k.Fold
	if o.Depth > 0 {
		o.depth = ir.D(o.Depth)
	}
	o.along = len(o.axes) + 1
	o.axes, o.shape = append(o.axes, row, o.fold), append(o.shape, rows, o.depth.Times(int64(o.parts)))
	if o.Across {
		o.along-- // the contraction axis and the rows trade places
		slices.Reverse(o.axes[o.along:])
		slices.Reverse(o.shape[o.along:])
	}
}

// storing returns the kernel that stores the operand. It fills the padding of the contraction axis with 0. It leaves
// the padding of rows uninitialized, because the matmul does not store results for these rows.
func (o *operandStore) storing() *kernel.Kernel {
	parallel := slices.Clone(o.shape)
	for i, axis := range o.axes {
		if axis != o.fold {
			parallel[i] = o.k.Parallel[axis]
		}
	}
	parallel[o.along] = o.depth
	at := kernel.Axes(parallel)
	along := at[o.along]
	return kernel.Map(o.k, kernel.Edit{
		Name: o.k.Name + "_operand", Family: kernel.FamilyMap, Parallel: parallel, Ops: []string{"cast"},
		At: func(axis int, extent ir.Dim) kernel.Index {
			i := slices.Index(o.axes, axis)
			if i < 0 {
				return kernel.Const(0) // the operand does not depend on it
			}
			return kernel.Clamp(kernel.Axis(i, parallel[i]), kernel.DimIndex(extent).Minus(kernel.Const(1)))
		},
		Stores: func(m *kernel.Mapping) (stores []kernel.Store) {
			values := []*kernel.Expr{m.Builder.Cast(o.dtype, m.Value(o.Operand))}
			if o.parts > 1 {
				values = bf16Parts(m.Builder, o.k, m.Value(o.Operand), o.isB)
			}
			bind := m.Bind(o.binding(kernel.Binding{Write: true}))
			for i, v := range values {
				at[o.along] = kernel.DimIndex(o.depth).Mul(kernel.Const(int64(i))).Plus(along)
				stores = append(stores,
					kernel.Store{Bind: bind, Index: kernel.Linear(o.shape, at), Value: o.padded(m.Builder, v, along)})
			}
			return stores
		},
	})
}

// binding completes a binding of the stored operand. b says whether the kernel reads or writes it.
func (o *operandStore) binding(b kernel.Binding) kernel.Binding {
	b.Name, b.DType, b.Buffer, b.Elems = o.name(), o.dtype, o.buffer, o.shape.MaxElems()
	return b
}

// padded returns v, or 0 if coordinate k of the contraction axis is in the padding.
func (o *operandStore) padded(b *kernel.Builder, v *kernel.Expr, k kernel.Index) *kernel.Expr {
	if o.Depth == 0 {
		return v
	}
	within := b.Apply(ir.OpLt, ir.Bool, nil, b.FromIndex(k), b.FromIndex(kernel.DimIndex(o.k.Fold)))
	return b.Apply(ir.OpWhere, o.dtype, nil, within, v, b.Number(o.dtype, 0))
}

// name returns the suffix of the kernel that stores the operand.
func (o *operandStore) name() string {
	if o.isB {
		return "b_stored"
	}
	return "a_stored"
}

// readStored returns matmul k changed to read stored operands. It replaces only whole operands: another value that
// contains the operand's expression is still computed from the unrounded original.
func readStored(k *kernel.Kernel, all []*operandStore) *kernel.Kernel {
	fold, depth := k.FoldAxis(), all[0].shape[all[0].along]
	return kernel.Map(k, kernel.Edit{
		Fold: depth,
		At: func(axis int, extent ir.Dim) kernel.Index {
			if axis == fold {
				extent = depth
			}
			return kernel.Axis(axis, extent)
		},
		MatMuls: func(m *kernel.Mapping) (matmuls []kernel.MatMul) {
			stored := map[*kernel.Expr]*kernel.Expr{}
			for _, o := range all {
				at := make([]kernel.Index, len(o.axes))
				for i, axis := range o.axes {
					extent := depth
					if axis != fold {
						extent = k.Parallel[axis]
					}
					at[i] = kernel.Axis(axis, extent)
				}
				bind := m.Bind(o.binding(kernel.Binding{Read: true}))
				stored[o.Operand] = m.Builder.Load(bind, o.dtype, kernel.Linear(o.shape, at), o.name())
			}
			operand := func(v *kernel.Expr) *kernel.Expr {
				if load, ok := stored[v]; ok {
					return load
				}
				return m.Value(v)
			}
			for _, p := range k.MatMuls {
				p.A, p.B = operand(p.A), operand(p.B)
				matmuls = append(matmuls, p)
			}
			return matmuls
		},
	})
}

// largestHigh is the largest finite bf16. largestLow is the largest low part for which largestHigh + largestLow does
// not round to infinity.
const largestHigh, largestLow = 0x1.fep127, 0x1.fep119

// canSplit reports whether the operands of all matmuls of a kernel may be split into bf16.
func canSplit(k *kernel.Kernel) bool {
	return k.Guard == nil && !slices.ContainsFunc(k.MatMuls, func(p kernel.MatMul) bool { return !p.BF16x3 })
}

// The ways to resolve the choice that precision bf16x3 leaves, see resolveBF16x3.
const (
	keepsOperands  = false
	splitsOperands = true
)

// resolveBF16x3 returns k without the choice that precision bf16x3 leaves. Its matmuls get bf16 operands if split is
// true, and keep their operands otherwise.
func resolveBF16x3(k *kernel.Kernel, split bool) *kernel.Kernel {
	return kernel.Map(k, kernel.Edit{MatMuls: func(m *kernel.Mapping) (matmuls []kernel.MatMul) {
		for _, p := range k.MatMuls {
			p.BF16x3 = false
			if split {
				p.Operands = ir.BF16
			}
			matmuls = append(matmuls, m.MatMul(p))
		}
		return matmuls
	}})
}

// bf16Parts returns the bf16 parts of x, a left or right operand of k, in their order along the contraction axis. An
// infinity or NaN is put only into the part that meets the other operand's high part: elsewhere it could be multiplied
// by 0 or by a part of the opposite sign. Finite values that would round to infinity are clamped.
func bf16Parts(b *kernel.Builder, k *kernel.Kernel, x *kernel.Expr, right bool) []*kernel.Expr {
	f32 := func(op ir.Op, args ...*kernel.Expr) *kernel.Expr { return b.Apply(op, ir.F32, nil, args...) }
	is := func(op ir.Op, args ...*kernel.Expr) *kernel.Expr { return b.Apply(op, ir.Bool, nil, args...) }
	rounded := func(x *kernel.Expr, most float64) *kernel.Expr {
		return b.Cast(ir.BF16, f32(ir.OpMin, f32(ir.OpMax, x, b.Float(ir.F32, -most)), b.Float(ir.F32, most)))
	}
	special := is(ir.OpOr, is(ir.OpIsNaN, x), is(ir.OpIsInf, x))
	finite := f32(ir.OpWhere, special, b.Float(ir.F32, 0), x)
	high := rounded(finite, largestHigh)
	low := rounded(f32(ir.OpSub, finite, b.Cast(ir.F32, high)), largestLow)
	all := b.Apply(ir.OpWhere, ir.BF16, nil, special, b.Cast(ir.BF16, x), high)
	special.Hint, finite.Hint, high.Hint, low.Hint = "special", "finite", "high", "low"
	_, exactA, exactB := k.BF16Terms()
	exact, other := exactA, exactB
	if right {
		exact, other = exactB, exactA
	}
	switch {
	case exact:
		// The parts of both operands are aligned: part i of a meets part i of b (see PackOperands).
		return []*kernel.Expr{high, all}
	case other:
		return []*kernel.Expr{low, all}
	case right:
		return []*kernel.Expr{high, low, all}
	}
	return []*kernel.Expr{low, high, all}
}

// ImplicitGEMM computes a convolution as a matmul, without storing its windows (no im2col). Two small kernels run
// before it. One stores the argument padded and with the channels innermost. The other stores the weights as a matrix,
// with a row for each element of a window in the same order. So a window consists of contiguous runs of elements, and
// neighbouring windows are a fixed distance apart, as tensor cores require.
func ImplicitGEMM(o *Optimizer, id plan.KernelID) []Proposal {
	k := o.Plan.Kernel(id)
	w := lower.NewStoredConv(o.fusion, k)
	if w == nil || k.ReadsBlocks(k.MatMuls[0].A) { // every run would dequantize them
		return nil
	}
	stores, matmul, err := w.Kernels()
	if err != nil {
		return nil
	}
	w.Result = id
	o.windows[w.X], o.windows[k.FirstStored()] = w, w // for ChainConvs
	return []Proposal{propose("store windows as runs", id, append(stores, matmul)...)}
}

// ChainConvs lets a convolution that ImplicitGEMM rewrote store its result directly as the padded argument of the next
// such convolution, if no other kernel reads the result. Both convolutions number positions in the same way. So each
// row of the result is a row of the argument, at a fixed offset. The argument's other rows are padding.
func ChainConvs(o *Optimizer, id plan.KernelID) []Proposal {
	k := o.Plan.Kernel(id)
	to := o.windows[k.FirstStored()]
	if to == nil || k.FirstStored() != to.X {
		return nil
	}
	for _, b := range k.Bindings {
		from := o.windows[b.Buffer]
		if from == nil || !from.Feeds(to, id) {
			continue
		}
		if result, ok := from.AsArgument(to, k); ok {
			// A kernel that only stores the padding replaces the kernel that stored the argument.
			p := propose("store results as the next argument", from.Result, to.Padding(), result)
			p.Default = true
			p.replace(id)
			return []Proposal{p}
		}
	}
	return nil
}

// PrepackWeights finds the kernels that depend only on weights and constants, such as kernels that repack weights for
// tensor cores, and marks them to run once, when the program is loaded. Their results are kept outside of the arena. In
// a loop body, values from outside of the loop count as constants: such kernels run once before the trips.
func (o *Optimizer) PrepackWeights() {
	ready := map[plan.ValueID]bool{}
	if o.Plan.InLoop {
		for _, n := range o.Plan.Ops.Leaves(ir.OpInput) {
			ready[n.ID()] = true
		}
	}
	var once []plan.KernelID
	for _, id := range o.Plan.IDs() {
		k := o.Plan.Kernel(id)
		if !o.canPrepare(k, ready) {
			continue
		}
		once = append(once, id)
		for _, b := range k.Bindings {
			ready[b.Buffer] = ready[b.Buffer] || b.Write
		}
	}
	o.Plan.RunOnce(once)
}

// canPrepare reports whether a kernel can run once, when the values in ready exist. It must be the only kernel that
// writes its results.
func (o *Optimizer) canPrepare(k *kernel.Kernel, ready map[plan.ValueID]bool) bool {
	return k.CanPrepare(func(buffer int) bool { return ready[buffer] }) &&
		!slices.ContainsFunc(k.Bindings, func(b kernel.Binding) bool {
			return b.Write && !b.Fault &&
				(o.Plan.Value(b.Buffer).Origin != plan.Temp || len(o.Plan.Writers(b.Buffer)) > 1)
		})
}
