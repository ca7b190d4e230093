package kernel

import (
	"fmt"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// Family is the loop structure of a kernel.
type Family string

// The kernel families.
const (
	// FamilyMap computes every store once per point of the parallel axes:
	// elementwise chains, gathers, copies.
	FamilyMap Family = "map"
	// FamilyRow folds the row axis, in one or several phases, once per point of the parallel axes: reductions, softmax,
	// norms.
	FamilyRow Family = "row"
	// FamilyMatMul is a matmul: it sums A*B over the contraction axis. The last two parallel axes are the rows and
	// columns of the result.
	FamilyMatMul Family = "matmul"
	// FamilyScan goes along the fold axis once per point of the parallel axes, and stores the running result at each
	// element.
	FamilyScan Family = "scan"
	// FamilySort orders each row by its phase's value. It stores once per rank; the rank is then the coordinate along
	// the fold axis.
	FamilySort Family = "sort"
	// FamilyAttention computes the softmax of query-key scores times values, in one pass over the keys.
	FamilyAttention Family = "attention"
	// FamilyRecurrence goes along the fold axis, time by time, with a matrix as its state: ops ssm_scan and delta_rule.
	FamilyRecurrence Family = "recurrence"
	// FamilyGroup groups the elements of the fold axis by a group number.
	FamilyGroup Family = "group"
	// FamilyQuantize quantizes the elements of the fold axis to one block, once per point of the parallel axes.
	FamilyQuantize Family = "quantize"
)

// Kernel is one fused computation, before any decision that depends on a device: axes, bindings, and a body of
// expressions.
type Kernel struct {
	Name   string
	Family Family

	// Parallel axes, outermost first; their ids are 0, 1, …
	Parallel []ir.Dim
	// Fold is the extent of the row, contraction or key axis; the axis has the id FoldAxis(). Maps do not use it.
	Fold ir.Dim

	Bindings []Binding
	Phases   []Phase  // of a row kernel; one for a scan; for a matmul, see RowSums
	MatMuls  []MatMul // of a matmul kernel
	Stores   []Store
	Loop     *Loop   // for FamilyLoop; such a kernel has only bindings in addition
	Custom   *Custom // for FamilyCustom; such a kernel has only bindings in addition
	Take     ir.Dim  // for a sort: the number of ranks that it stores
	Limit    *Limit  // of a scan; nil if all elements of a row exist

	// Attention is for FamilyAttention.
	Attention *Attention
	// Recurrence is for FamilyRecurrence.
	Recurrence *Recurrence
	// Group is for FamilyGroup.
	Group *Group
	// Guard skips parts of a map, a quantize or a matmul; nil skips nothing.
	Guard *Guard
	// Fault makes the run fail under a condition; nil for none.
	Fault *Fault
	// After lists values (see Binding.Buffer) that must be computed before the kernel runs, although it does not read
	// them. It affects only the order of steps.
	After []int

	// Ops names the fused graph ops in order, for readers.
	Ops []string
}

// FoldAxis returns the id of the row, contraction or key axis.
func (k *Kernel) FoldAxis() int { return len(k.Parallel) }

// Binding is one buffer that the kernel touches.
type Binding struct {
	Name   string // for a reader: "x", "weight", "positions"
	DType  ir.DType
	Read   bool
	Write  bool
	Buffer int // the graph value in the buffer, numbered by the pass that lowered the kernel
	// Elems is the number of elements when every symbol has its bound.
	Elems int64
	// Fixed says that the buffer holds a weight or constant, the same in every run.
	Fixed bool
	// KeepsDecoded says that the buffer holds quantized weights, and that the device has room for them as f16, too.
	KeepsDecoded bool
	// Params says that the buffer holds the values of symbols.
	Params bool
	// Fault says that the buffer is the word in which the kernel records a fault.
	Fault bool
	// Codebook is set if the buffer holds the codebook of a block format, and names that format; otherwise it is
	// ir.Invalid. Decoding the format reads the codebook in addition to the blocks.
	Codebook ir.DType
	// Layout is the layout of blocks in the buffer.
	Layout Layout
}

// Combine is the operator of a fold.
type Combine string

// The fold operators. Argmax and argmin return the coordinate, an i32.
const (
	CombineSum    Combine = "sum"
	CombineProd   Combine = "prod"
	CombineMax    Combine = "max"
	CombineMin    Combine = "min"
	CombineArgmax Combine = "argmax"
	CombineArgmin Combine = "argmin"
	// CombineOrder sorts: it returns the i32 coordinate of the element at each rank. The smallest element comes first,
	// NaN last, and equal elements keep their order.
	CombineOrder Combine = "order"
	// CombineOrderDown sorts with the largest element first and NaN before all.
	CombineOrderDown Combine = "order_down"
)

// IsPlace reports whether the fold returns a coordinate of the largest or smallest element.
func (c Combine) IsPlace() bool { return c == CombineArgmax || c == CombineArgmin }

// Phase folds a value over the row axis. The value may use the results of earlier phases.
type Phase struct {
	Combine Combine
	Value   *Expr
	Name    string // for a reader: "row_max", "sum_sq"
	// Exclusive, for a scan, excludes the element itself from its result.
	Exclusive bool
}

// Limit ends the rows of a scan early: elements for which At >= Below are neither computed nor stored. Rows are chunks
// of a longer axis, and the last chunk may be partial.
type Limit struct {
	At    Index
	Below ir.Dim
}

// AccType returns the dtype of the accumulator in a sum of elements of dtype t.
func AccType(t ir.DType) ir.DType {
	switch {
	case t == ir.F64 || t == ir.I64 || t == ir.U32:
		return t
	case t.IsFloat():
		return ir.F32
	case t.Kind() == ir.KindUint:
		return ir.U32
	}
	return ir.I32
}

// MatMul is one matmul: the sum over the contraction axis of A*B, in f32, or in i32 for int8 operands. A does not use
// the column coordinate, and B does not use the row coordinate.
type MatMul struct {
	A, B *Expr
	Name string
	// Operands F16 or BF16 allows rounding both operands to that dtype before they are multiplied, as cooperative
	// matrices need. I8 or U8 says that the operands are such integers. Otherwise they are multiplied in f32.
	Operands ir.DType
	// HalfSums allows rounding the sums to f16.
	HalfSums bool
	// ByteRows allows quantizing A to int8, with a scale per 32 elements along the contraction axis.
	ByteRows bool
	// BF16x3 allows splitting each f32 operand into a high and a low bf16 part. low*low may be dropped.
	BF16x3 bool
}

// Sums returns the dtype of the matmul's result: I32 with wrap-around for int8 operands, else F32.
func (p MatMul) Sums() ir.DType {
	if p.Operands == ir.I8 || p.Operands == ir.U8 {
		return ir.I32
	}
	return ir.F32
}

// Store writes a value to element Index of a binding, once per point of the parallel axes. With PerElement it writes
// once per element of the row. In an attention, a store without PerElement writes once per row, and a store with
// PerElement once per element of the row's result. In a recurrence, a store with PerElement writes once per time, and a
// store without PerElement once per key.
type Store struct {
	Bind       int
	Index      Index
	Value      *Expr
	PerElement bool
	// Cols, for a matmul, are the columns that the store writes.
	Cols Cols
	// Where, only for some columns, is the bool condition of the store; nil means always.
	Where *Expr
}

// Cols are columns From to To-1 of a matmul, or all columns if both are 0. In the store's value and index, the column
// coordinate counts from From.
type Cols struct{ From, To int64 }

// All reports whether c stands for all columns.
func (c Cols) All() bool { return c == Cols{} }

// Symbols returns the symbols that the kernel needs at run time, in order of first use. If a symbol stands for a
// product of symbols, it lists the factors' symbols instead.
func (k *Kernel) Symbols() []string {
	var names []string
	seen := map[string]bool{"": true} // "" is the symbol of a constant extent
	var add func(s string)
	add = func(s string) {
		if seen[s] {
			return
		}
		seen[s] = true
		factors := SymbolFactors(s)
		if len(factors) == 1 {
			names = append(names, s)
			return
		}
		for _, factor := range factors {
			add(factor.Sym)
		}
	}
	for _, d := range k.Parallel {
		add(d.Sym)
	}
	add(k.Fold.Sym)
	add(k.Take.Sym)
	if k.Custom != nil {
		for _, s := range k.Custom.Symbols() {
			add(s)
		}
	}
	if k.Limit != nil {
		add(k.Limit.Below.Sym)
	}
	k.WalkIndices(func(x Index) {
		x.Walk(func(f *Factor) { add(f.Sym); add(f.Extent.Sym) })
	})
	return names
}

// SymbolFactors returns the factors of a symbol's value, without bounds. A plain symbol is its own only factor. A
// symbol such as 2*A*B+1, which stands for a product, is not among a program's symbols. Its factors may again be such
// symbols.
func SymbolFactors(sym string) []ir.Dim {
	if ir.IsIdent(sym) {
		return []ir.Dim{{Sym: sym, Mul: 1}}
	}
	return ir.Dim{Sym: sym, Mul: 1}.Factors()[1:]
}

// Roots returns the expressions in the kernel's phases, matmuls, attention, recurrence and stores.
func (k *Kernel) Roots() []*Expr {
	var roots []*Expr
	for _, p := range k.Phases {
		roots = append(roots, p.Value)
	}
	for _, p := range k.MatMuls {
		roots = append(roots, p.A, p.B)
	}
	if a := k.Attention; a != nil {
		roots = append(roots, a.Operands()...)
	}
	if r := k.Recurrence; r != nil {
		roots = append(roots, r.Operands()...)
	}
	guards, _ := k.Guard.parts()
	roots = append(roots, guards...)
	for _, x := range k.otherIndices() {
		roots = append(roots, x.Values()...)
	}
	for _, s := range k.Stores {
		roots = append(roots, s.Value)
		if s.Where != nil {
			roots = append(roots, s.Where)
		}
		roots = append(roots, s.Index.Values()...)
	}
	return roots
}

// Loads returns the number of loads of each binding by one point of the kernel.
func (k *Kernel) Loads() map[int]int64 {
	n := map[int]int64{}
	Walk(k.Roots(), func(e *Expr) {
		if e.Kind == ExprLoad {
			n[e.Bind]++
		}
	})
	return n
}

// WalkIndices calls visit for the index of every load, store and index value.
func (k *Kernel) WalkIndices(visit func(Index)) {
	Walk(k.Roots(), func(e *Expr) {
		if e.Kind == ExprLoad || e.Kind == ExprIndex || e.Kind == ExprRandom {
			visit(e.Index)
		}
	})
	for _, s := range k.Stores {
		visit(s.Index)
	}
	for _, x := range k.otherIndices() {
		visit(*x)
	}
}

// otherIndices returns the kernel's indices that are in no expression and no store.
func (k *Kernel) otherIndices() []*Index {
	var all []*Index
	if k.Limit != nil {
		all = append(all, &k.Limit.At)
	}
	if k.Group != nil {
		all = append(all, &k.Group.Of)
	}
	if k.Attention != nil && k.Attention.End != nil {
		all = append(all, k.Attention.End)
	}
	if k.Fault != nil {
		all = append(all, &k.Fault.Index)
	}
	return all
}

// BF16Terms returns the number of bf16 matmuls that compute one matmul with operands split into a high and a low part
// (see MatMul.BF16x3). It is three, and one less for each operand without low parts. exactA reports that the operands
// A of all matmuls of the kernel are loaded bf16 values, which have no low parts, and exactB reports the same of B.
func (k *Kernel) BF16Terms() (terms int, exactA, exactB bool) {
	exactA, exactB = true, true
	for _, p := range k.MatMuls {
		exactA, exactB = exactA && p.A.loadsBF16(), exactB && p.B.loadsBF16()
	}
	terms = 3
	if exactA {
		terms--
	}
	if exactB {
		terms--
	}
	return terms, exactA, exactB
}

// loadsBF16 reports whether e is a loaded bf16 value, cast to f32.
func (e *Expr) loadsBF16() bool {
	return e.Kind == ExprApply && e.Op == ir.OpCast && e.DType == ir.F32 && e.Args[0].Kind == ExprLoad &&
		e.Args[0].DType == ir.BF16
}

// operandNote describes the allowed rounding of operands and sums, for listings.
func (p MatMul) operandNote() string {
	note := ""
	if p.Operands == ir.F16 || p.Operands == ir.BF16 {
		note = " in " + p.Operands.String()
	}
	if p.Sums() == ir.I32 {
		note = " of " + p.Operands.String() + " in i32"
	}
	if p.HalfSums {
		note += ", sums in f16"
	}
	if p.BF16x3 {
		note += " in bf16x3"
	}
	if p.ByteRows {
		note += ", rows in bytes"
	}
	return note
}

// describe prints an expression for the listing of a kernel. number has the listing's numbers of expressions.
func (e *Expr) describe(number map[*Expr]int) string {
	switch e.Kind {
	case ExprLoad:
		return fmt.Sprintf("load %d [%s] %s", e.Bind, e.Index.describe(number), e.DType)
	case ExprConst:
		if e.DType.IsFloat() {
			return fmt.Sprintf("const %s %s", e.DType, ir.FormatFloat(e.Value))
		}
		return fmt.Sprintf("const %s %d", e.DType, e.Int)
	case ExprIndex:
		return fmt.Sprintf("index [%s]", e.Index.describe(number))
	case ExprAcc:
		if e.Other {
			return fmt.Sprintf("acc %d of column %s %s", e.Acc, e.Index, e.DType)
		}
		return fmt.Sprintf("acc %d %s", e.Acc, e.DType)
	case ExprRandom:
		return fmt.Sprintf("random %%%d %%%d [%s] word %d", number[e.Args[0]], number[e.Args[1]],
			e.Index.describe(number), e.Word)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s", e.Op)
	for _, a := range e.Args {
		fmt.Fprintf(&b, " %%%d", number[a])
	}
	for _, at := range e.Attrs {
		fmt.Fprintf(&b, " %s=%s", at.Name, ir.FormatAttr(at.Value))
	}
	fmt.Fprintf(&b, " : %s", e.DType)
	return b.String()
}

// describe prints x with the numbers that the loaded values have in the listing of a kernel. Expr.ID would not do: it
// depends on the order in which the builder created the values.
func (x Index) describe(number map[*Expr]int) string {
	s := x.String()
	for _, v := range x.Values() {
		s += fmt.Sprintf(" where v%d=%%%d", v.ID, number[v])
	}
	for _, v := range x.Values() {
		s = strings.ReplaceAll(s, fmt.Sprintf("v%d", v.ID), fmt.Sprintf("{%d}", number[v]))
	}
	return s
}

// String prints the kernel for `vkc dump --stage kernels`.
func (k *Kernel) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "kernel %s (%s) over %s", k.Name, k.Family, ir.Shape(k.Parallel))
	if k.Family != FamilyMap && k.Custom == nil && k.Loop == nil {
		fmt.Fprintf(&b, " fold %s", k.Fold)
	}
	fmt.Fprintf(&b, " ; %s\n", strings.Join(k.Ops, ", "))
	for i, bd := range k.Bindings {
		fmt.Fprintf(&b, "  binding %d %s %s %s\n", i, bd.Name, bd.DType, bd.access())
	}
	for _, v := range k.After {
		fmt.Fprintf(&b, "  after value %d\n", v)
	}
	if k.Custom != nil {
		fmt.Fprintf(&b, "  %s\n", k.Custom.describe())
	}
	if k.Loop != nil {
		fmt.Fprintf(&b, "  %s\n", k.Loop.describe())
	}
	number := map[*Expr]int{}
	Walk(k.Roots(), func(e *Expr) {
		number[e] = len(number)
		fmt.Fprintf(&b, "  %%%d = %s\n", number[e], e.describe(number))
	})
	k.writeFolds(&b, number)
	k.writeStores(&b, number)
	return b.String()
}

// access returns the accesses of a binding for listings: "read", "write", "read-write", or "" for none.
func (b Binding) access() string {
	switch {
	case b.Read && b.Write:
		return "read-write"
	case b.Read:
		return "read"
	case b.Write:
		return "write"
	}
	return ""
}

// writeFolds writes a line for each result that goes along the fold axis. number has the numbers of expressions.
func (k *Kernel) writeFolds(b *strings.Builder, number map[*Expr]int) {
	for i, p := range k.Phases {
		how := ""
		if p.Exclusive {
			how = " of those before"
		}
		fmt.Fprintf(b, "  acc %d %s = %s %%%d%s\n", k.PhaseAcc(i), p.Name, p.Combine, number[p.Value], how)
	}
	if k.Limit != nil {
		fmt.Fprintf(b, "  while %s < %s\n", k.Limit.At, k.Limit.Below)
	}
	for i, p := range k.MatMuls {
		fmt.Fprintf(b, "  acc %d %s = %%%d x %%%d%s\n", i, p.Name, number[p.A], number[p.B], p.operandNote())
	}
	if k.Attention != nil {
		fmt.Fprintf(b, "  acc 0 to 2 = %s\n", k.Attention.describe(number))
	}
	if k.Recurrence != nil {
		fmt.Fprintf(b, "  acc 0 to 1 = %s\n", k.Recurrence.describe(number))
	}
}

// writeStores writes the groups, the guard, the fault and the stores, a line each.
func (k *Kernel) writeStores(b *strings.Builder, number map[*Expr]int) {
	if k.Group != nil {
		fmt.Fprintf(b, "  %s\n", k.Group.describe(number))
	}
	if k.Guard != nil {
		fmt.Fprintf(b, "  %s\n", k.Guard.describe(number))
	}
	if f := k.Fault; f != nil {
		fmt.Fprintf(b, "  fault %d[%s] above %g\n", f.Bind, f.Index.describe(number), f.Most)
	}
	for _, s := range k.Stores {
		each := ""
		if s.PerElement {
			each = " per element"
		}
		each += s.Cols.String()
		if s.Where != nil {
			each += fmt.Sprintf(" where %%%d", number[s.Where])
		}
		fmt.Fprintf(b, "  store %d[%s] = %%%d%s\n", s.Bind, s.Index.describe(number), number[s.Value], each)
	}
}
