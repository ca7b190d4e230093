package kernel

import (
	"fmt"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// Family is the skeleton of a kernel: the loops its body stands in.
type Family string

// The kernel families.
const (
	// FamilyMap computes every store once per point of the parallel axes:
	// elementwise chains, gathers, copies.
	FamilyMap Family = "map"
	// FamilyRow folds the row axis, in one or several phases, once per point of
	// the parallel axes: reductions, softmax, norms.
	FamilyRow Family = "row"
	// FamilyMatMul sums products over the contraction axis; the last two
	// parallel axes are the rows and columns of the result.
	FamilyMatMul Family = "matmul"
	// FamilyScan goes along the fold axis once per point of the parallel axes,
	// and stores at each element what has been folded so far: running sums.
	FamilyScan Family = "scan"
	// FamilySort orders each row by its phase's value, and stores per place of
	// the order, whose number is then the coordinate along the fold axis.
	FamilySort Family = "sort"
	// FamilyAttention weighs values by the softmax of products of queries and
	// keys, in one pass over the keys.
	FamilyAttention Family = "attention"
	// FamilyGroup groups the elements of the fold axis by a number of each.
	FamilyGroup Family = "group"
	// FamilyQuantize makes a block, of the elements of the fold axis, once per
	// point of the parallel axes.
	FamilyQuantize Family = "quantize"
)

// Kernel is one fused computation, before anything is decided about the
// device: axes, bindings, and a body of expressions.
type Kernel struct {
	Name   string
	Family Family

	// Parallel axes, outermost first; their ids are 0, 1, …
	Parallel []ir.Dim
	// Fold is the extent of the row, contraction or key axis, whose id is
	// FoldAxis(); not used by maps.
	Fold ir.Dim

	Bindings []Binding
	Phases   []Phase   // of a row kernel; the one of a scan; of a matmul kernel, see RowSums
	Products []Product // of a matmul kernel
	Stores   []Store
	Loop     *Loop   // of a loop, which has bindings and else nothing
	Custom   *Custom // of a custom kernel, which has bindings and else nothing
	Take     ir.Dim  // of a sort: for how many places of the order it stores
	Limit    *Limit  // of a scan; nil where rows have no more elements than exist

	// Attention is what a kernel of FamilyAttention computes.
	Attention *Attention
	// Group is what a kernel of FamilyGroup does.
	Group *Group
	// Guard leaves parts of a map, a quantize or a matrix product out; nil leaves out none.
	Guard *Guard
	// Fault is what makes the run fail; nil where nothing does.
	Fault *Fault
	// After are values, as Binding.Buffer names them, that are computed before the kernel runs, though it reads
	// none of them. It says when the kernel runs, not what it does.
	After []int

	// Ops names the fused graph ops in order; Notes says what a reader of the
	// kernel wants to know besides.
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
	Buffer int // the value it holds, in the namespace of whoever lowered it
	// Elems is the number of elements at the bound of every symbol.
	Elems int64
	// Fixed says that the buffer holds a weight or constant, the same in every run.
	Fixed bool
	// Params says that the buffer holds the values of symbols.
	Params bool
	// Fault says that the buffer is the word in which the kernel notes a fault.
	Fault bool
	// Codebook is the block format whose table of levels the buffer holds, or
	// ir.Invalid: what decoding that format reads besides the blocks.
	Codebook ir.DType
	// Layout is how blocks lie in the buffer.
	Layout Layout
}

// Combine is the operator of a fold.
type Combine string

// The fold operators. Argmax and argmin give the i32 coordinate.
const (
	CombineSum    Combine = "sum"
	CombineProd   Combine = "prod"
	CombineMax    Combine = "max"
	CombineMin    Combine = "min"
	CombineArgmax Combine = "argmax"
	CombineArgmin Combine = "argmin"
	// CombineOrder gives, of a sort, the i32 coordinate of the element at each
	// place: smallest first, NaN last, equal ones as they come.
	CombineOrder Combine = "order"
	// CombineOrderDown is the same with the largest first, NaN before all.
	CombineOrderDown Combine = "order_down"
)

// Phase folds a value over the row axis. Its value may use the results of
// earlier phases.
type Phase struct {
	Combine Combine
	Value   *Expr
	Name    string // for a reader: "row_max", "sum_sq"
	// Exclusive, of a scan, leaves the element itself out of its result.
	Exclusive bool
}

// Limit leaves out the elements of a row at which At is Below or more: the end
// of a last chunk that is not full. Nothing is computed or stored there.
type Limit struct {
	At    Index
	Below ir.Dim
}

// Product is one sum over the contraction axis of A*B, in f32, or of bytes in
// i32. A uses the row coordinate and not the column, B the other way round.
type Product struct {
	A, B *Expr
	Name string
	// Operands, where it is F16 or BF16, is a dtype that both operands may be
	// rounded to before they are multiplied, which is what matrix units take. I8
	// or U8 says that they are such integers. Otherwise they are multiplied in f32.
	Operands ir.DType
	// HalfSums says that sums may be rounded to f16, too.
	HalfSums bool
	// ByteRows says that A may be rounded to bytes, with a scale for every 32
	// neighbours along the contraction.
	ByteRows bool
	// BF16x3 says that the f32 operands may count as sums of two bf16, and the
	// product of the lesser two of those may be left out.
	BF16x3 bool
}

// Sums returns the dtype of the product's result: I32, wrapping around, for
// bytes, else F32.
func (p Product) Sums() ir.DType {
	if p.Operands == ir.I8 || p.Operands == ir.U8 {
		return ir.I32
	}
	return ir.F32
}

// Store writes a value to element Index of a binding: once per point of the
// parallel axes, and once per row element too where PerElement is set. In an
// attention it writes once per row, and where PerElement is set once per
// element of the row's result, which is once per point of the parallel axes.
type Store struct {
	Bind       int
	Index      Index
	Value      *Expr
	PerElement bool
	// Cols, of a matrix product, are the columns for which it writes.
	Cols Cols
	// Where, of some columns, is a bool: where it is false nothing is written. Nil is always true.
	Where *Expr
}

// Cols are columns From to To-1 of a matrix product, or all if both are 0. What
// is stored for them counts them from From on.
type Cols struct{ From, To int64 }

// All reports whether all columns are meant.
func (c Cols) All() bool { return c == Cols{} }

// Symbols returns the symbols that the kernel needs at run time, in order of
// first use; of products those of their factors.
func (k *Kernel) Symbols() []string {
	var names []string
	seen := map[string]bool{"": true}
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

// SymbolFactors returns the factors that the value of a symbol is the product of, without bounds: itself, unless it
// stands for a product, which no program has among its symbols. The symbol of a factor such as 2*A*B+1 may be a product
// again.
func SymbolFactors(sym string) []ir.Dim {
	if ir.IsIdent(sym) {
		return []ir.Dim{{Sym: sym, Mul: 1}}
	}
	return ir.Dim{Sym: sym, Mul: 1}.Factors()[1:]
}

// Roots returns the expressions that the kernel's phases, products, attention
// and stores consist of.
func (k *Kernel) Roots() []*Expr {
	var roots []*Expr
	for _, p := range k.Phases {
		roots = append(roots, p.Value)
	}
	for _, p := range k.Products {
		roots = append(roots, p.A, p.B)
	}
	if a := k.Attention; a != nil {
		roots = append(roots, a.Operands()...)
	}
	guards, _ := k.Guard.parts()
	roots = append(roots, guards...)
	addIndex := func(x Index) {
		x.Walk(func(f *Factor) {
			if f.Kind == FactorValue {
				roots = append(roots, f.Value)
			}
		})
	}
	if k.Group != nil {
		addIndex(k.Group.Of)
	}
	if k.Attention != nil && k.Attention.End != nil {
		addIndex(*k.Attention.End)
	}
	if k.Fault != nil {
		addIndex(k.Fault.Index)
	}
	for _, s := range k.Stores {
		roots = append(roots, s.Value)
		if s.Where != nil {
			roots = append(roots, s.Where)
		}
		addIndex(s.Index)
	}
	return roots
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
	if k.Limit != nil {
		visit(k.Limit.At)
	}
	if k.Group != nil {
		visit(k.Group.Of)
	}
	if k.Attention != nil && k.Attention.End != nil {
		visit(*k.Attention.End)
	}
	if k.Fault != nil {
		visit(k.Fault.Index)
	}
}

// BF16Terms returns how many products of bf16 stand for each of the products of
// a kernel whose operands are taken apart (see Product.BF16x3): three, and one
// less for a side all operands of which are loaded bf16 and have no lesser part.
func (k *Kernel) BF16Terms() (terms int, exactA, exactB bool) {
	exactA, exactB = true, true
	for _, p := range k.Products {
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

// loadsBF16 reports whether e is a loaded bf16 as an f32.
func (e *Expr) loadsBF16() bool {
	return e.Kind == ExprApply && e.Op == ir.OpCast && e.DType == ir.F32 && e.Args[0].Kind == ExprLoad &&
		e.Args[0].DType == ir.BF16
}

// operandNote says what the operands and sums may be rounded to.
func (p Product) operandNote() string {
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

// describe prints x with loaded values numbered, so that the text does not
// depend on the order in which a builder met them.
func (x Index) describe(number map[*Expr]int) string {
	s := x.String()
	x.Walk(func(f *Factor) {
		if f.Kind == FactorValue {
			s += fmt.Sprintf(" where v%d=%%%d", f.Value.ID, number[f.Value])
		}
	})
	if !strings.Contains(s, " where ") {
		return s
	}
	x.Walk(func(f *Factor) {
		if f.Kind == FactorValue {
			s = strings.ReplaceAll(s, fmt.Sprintf("v%d", f.Value.ID), fmt.Sprintf("{%d}", number[f.Value]))
		}
	})
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
		mode := map[[2]bool]string{{true, false}: "read", {false, true}: "write",
			{true, true}: "read-write"}[[2]bool{bd.Read, bd.Write}]
		fmt.Fprintf(&b, "  binding %d %s %s %s\n", i, bd.Name, bd.DType, mode)
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
	for i, p := range k.Phases {
		how := ""
		if p.Exclusive {
			how = " of those before"
		}
		fmt.Fprintf(&b, "  acc %d %s = %s %%%d%s\n", k.PhaseAcc(i), p.Name, p.Combine, number[p.Value], how)
	}
	if k.Limit != nil {
		fmt.Fprintf(&b, "  while %s < %s\n", k.Limit.At, k.Limit.Below)
	}
	for i, p := range k.Products {
		fmt.Fprintf(&b, "  acc %d %s = %%%d x %%%d%s\n", i, p.Name, number[p.A], number[p.B], p.operandNote())
	}
	if k.Attention != nil {
		fmt.Fprintf(&b, "  acc 0 to 2 = %s\n", k.Attention.describe(number))
	}
	if k.Group != nil {
		fmt.Fprintf(&b, "  %s\n", k.Group.describe(number))
	}
	if k.Guard != nil {
		fmt.Fprintf(&b, "  %s\n", k.Guard.describe(number))
	}
	if f := k.Fault; f != nil {
		fmt.Fprintf(&b, "  fault %d[%s] above %g\n", f.Bind, f.Index.describe(number), f.Most)
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
		fmt.Fprintf(&b, "  store %d[%s] = %%%d%s\n", s.Bind, s.Index.describe(number), number[s.Value], each)
	}
	return b.String()
}
