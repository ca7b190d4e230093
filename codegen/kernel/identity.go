package kernel

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// Identity identifies kernels that are equal except for names. Two kernels with equal identities compute the same
// function on the same shapes, from buffers of the same sizes. They get the same schedules. With the same schedule and
// device, their shaders differ only in names. An Identity is comparable, so it can be the key of a map.
type Identity struct {
	// Structure describes the kernel without names of kernels, ops, buffers, values and symbols. Symbols are numbered
	// instead.
	Structure string
	// Symbols lists the names of the symbols that Structure numbers, separated by commas. Two kernels of one program
	// may read different symbols, at different offsets.
	Symbols string
}

// Identity returns the kernel's identity.
func (k *Kernel) Identity() Identity {
	w := identityWriter{number: map[*Expr]int{}, extents: map[int]ir.Dim{}}
	w.text(string(k.Family))
	w.dims(k.Parallel)
	w.dims([]ir.Dim{k.Fold, k.Take})
	w.bindings(k)
	Walk(k.Roots(), w.expr)
	w.folds(k)
	w.stores(k)
	return Identity{Structure: string(w.b), Symbols: strings.Join(w.symbols, ",")}
}

// identityWriter writes Identity.Structure. It numbers expressions and symbols in order of first use.
type identityWriter struct {
	b       []byte
	number  map[*Expr]int
	symbols []string       // in order of first use
	bounds  []int64        // the bounds of symbols that were written last; -1 for none
	extents map[int]ir.Dim // the extents of axes that were written last
}

// bindings writes the bindings, and the custom op or loop of a kernel without expressions.
func (w *identityWriter) bindings(k *Kernel) {
	for _, b := range k.Bindings {
		w.line("bind ", b.DType.String(), string(b.Layout), b.Codebook.String())
		w.flags(b.Read, b.Write, b.Params, b.Fault)
		w.ints(b.Elems)
	}
	if c := k.Custom; c != nil {
		w.line("custom ", c.Op.String(), c.Op.Info().Custom.Definition())
		w.attrs(c.Attrs)
		w.ints(int64(c.Args))
		for _, t := range c.Types {
			w.text(t.DType.String())
			w.dims(t.Shape)
		}
	}
	if l := k.Loop; l != nil {
		w.line("loop ")
		w.dims([]ir.Dim{l.Trips})
		w.flags(l.While)
		w.ints(int64(l.Carried), int64(l.Body))
	}
}

// folds writes everything that goes along the fold axis: phases, matmuls, an attention or a recurrence.
func (w *identityWriter) folds(k *Kernel) {
	for _, p := range k.Phases {
		w.line("phase ", string(p.Combine))
		w.refs(p.Value)
		w.flags(p.Exclusive)
	}
	if l := k.Limit; l != nil {
		w.line("limit ")
		w.index(l.At)
		w.dims([]ir.Dim{l.Below})
	}
	for _, p := range k.MatMuls {
		w.line("product ", p.Operands.String())
		w.refs(p.A, p.B)
		w.flags(p.HalfSums, p.ByteRows, p.BF16x3)
	}
	if a := k.Attention; a != nil {
		w.line("attention ")
		w.refs(a.Q, a.K, a.V, a.Mask)
		w.dims([]ir.Dim{a.Dot})
		w.ints(int64(math.Float64bits(a.Scale)), int64(math.Float64bits(a.Softcap)), a.Window)
		w.flags(a.Causal, a.Reversed, a.Half)
		if f := a.Factor; f != nil {
			w.line("factor ")
			w.refs(f.Q, f.K, f.Delta)
			w.dims([]ir.Dim{f.Dot})
		}
		if a.End != nil {
			w.line("end ")
			w.index(*a.End)
		}
	}
	if r := k.Recurrence; r != nil {
		w.line("recurrence ")
		w.refs(r.State, r.Decay, r.Q, r.K, r.V, r.A, r.B)
		w.dims([]ir.Dim{r.Keys})
	}
}

// stores writes the groups of a grouping kernel, the guard, the fault and the stores.
func (w *identityWriter) stores(k *Kernel) {
	if g := k.Group; g != nil {
		w.line("group ")
		w.index(g.Of)
		w.ints(g.Rows, int64(g.Bind), g.Groups)
	}
	if g := k.Guard; g != nil {
		w.line("guard ")
		w.refs(g.Point, g.Batch, g.Row, g.Col)
	}
	if f := k.Fault; f != nil {
		w.line("fault ")
		w.index(f.Index)
		w.ints(int64(f.Bind), int64(math.Float32bits(f.Most)))
	}
	for _, s := range k.Stores {
		w.line("store ")
		w.refs(s.Value, s.Where)
		w.index(s.Index)
		w.ints(int64(s.Bind), s.Cols.From, s.Cols.To)
		w.flags(s.PerElement)
	}
}

// line begins a new line with some words.
func (w *identityWriter) line(words ...string) {
	w.b = append(w.b, '\n')
	for _, s := range words {
		w.text(s)
	}
}

func (w *identityWriter) text(s string) { w.b = append(append(w.b, s...), ' ') }

func (w *identityWriter) ints(list ...int64) {
	for _, n := range list {
		w.b = append(strconv.AppendInt(w.b, n, 10), ' ')
	}
}

func (w *identityWriter) flags(list ...bool) {
	for _, f := range list {
		w.b = append(w.b, map[bool]byte{true: '+', false: '-'}[f])
	}
}

// refs writes the numbers of expressions that were written before; nil is written as "none".
func (w *identityWriter) refs(list ...*Expr) {
	for _, e := range list {
		if e == nil {
			w.text("none")
			continue
		}
		w.b = append(strconv.AppendInt(append(w.b, '%'), int64(w.number[e]), 10), ' ')
	}
}

// attrs writes the names and values of attributes.
func (w *identityWriter) attrs(attrs ir.Attrs) {
	for _, at := range attrs {
		w.text(strconv.Quote(at.Name))
		w.text(ir.FormatAttr(at.Value))
	}
}

// dims writes the number of extents, and the extents.
func (w *identityWriter) dims(list []ir.Dim) {
	w.ints(int64(len(list)))
	for _, d := range list {
		w.dim(d)
	}
}

// dim writes an extent: its symbol with bound and factor, if it has one, and its constant.
func (w *identityWriter) dim(d ir.Dim) {
	if !d.IsStatic() {
		w.value(d.Sym, d.Bound)
		w.ints(d.Mul)
	}
	w.ints(d.Add)
}

// value writes a symbol. If the symbol stands for a product of symbols, it writes the factors.
func (w *identityWriter) value(name string, bound int64) {
	factors := SymbolFactors(name)
	if len(factors) == 1 {
		w.symbol(name, bound)
		return
	}
	w.b = strconv.AppendInt(append(w.b, "<="...), bound, 10)
	w.b = append(w.b, '(')
	for _, f := range factors {
		w.value(f.Sym, 0)
		w.ints(f.Mul, f.Add)
	}
	w.b = append(w.b, ')')
}

// symbol writes the number of a symbol, in the order of first uses. It also writes the symbol's bound, if that is not
// 0 (none) and is not the bound that was written for the symbol last.
func (w *identityWriter) symbol(name string, bound int64) {
	i := slices.Index(w.symbols, name)
	if i < 0 {
		i = len(w.symbols)
		w.symbols, w.bounds = append(w.symbols, name), append(w.bounds, -1)
	}
	w.b = strconv.AppendInt(append(w.b, '$'), int64(i), 10)
	if bound > 0 && w.bounds[i] != bound {
		w.bounds[i] = bound
		w.b = strconv.AppendInt(append(w.b, '<', '='), bound, 10)
	}
	w.b = append(w.b, ' ')
}

// index writes an index: every term with its coefficient and factors, and the constant.
func (w *identityWriter) index(x Index) {
	w.b = append(w.b, '[')
	for _, t := range x.terms {
		w.ints(t.Coef)
		for _, f := range t.Factors {
			w.factor(f)
		}
		w.b = append(w.b, ", "...)
	}
	w.ints(x.c)
	w.b = append(w.b, "] "...)
}

// factor writes a factor of an index.
func (w *identityWriter) factor(f *Factor) {
	switch f.Kind {
	case FactorAxis:
		w.b = strconv.AppendInt(append(w.b, 'a'), int64(f.Axis), 10)
		// An extent is written only where the axis has none yet, or another one.
		if have, ok := w.extents[f.Axis]; !ok || have != f.Extent {
			w.extents[f.Axis] = f.Extent
			w.b = append(w.b, '<')
			w.dim(f.Extent)
		}
		w.b = append(w.b, ' ')
	case FactorSym:
		w.value(f.Sym, f.Bound)
	case FactorValue:
		w.refs(f.Value)
	default:
		w.b = append(w.b, map[FactorKind]byte{FactorDiv: '/', FactorMod: 'm', FactorClamp: 'c'}[f.Kind])
		w.index(f.X)
		w.index(f.D)
	}
}

// expr writes an expression and numbers it. The caller has written its arguments before.
func (w *identityWriter) expr(e *Expr) {
	// Later expressions refer to this one by its number.
	w.number[e] = len(w.number)
	w.line(strconv.Itoa(int(e.Kind)), e.DType.String())
	switch e.Kind {
	case ExprLoad:
		w.ints(int64(e.Bind))
	case ExprConst:
		w.ints(int64(math.Float64bits(e.Value)), e.Int)
	case ExprApply:
		w.text(e.Op.String())
		if custom := e.Op.Info().Custom; custom != nil {
			w.text(custom.Definition())
		}
		w.attrs(e.Attrs)
	case ExprAcc:
		w.ints(int64(e.Acc))
		w.flags(e.Other)
	case ExprRandom:
		w.ints(int64(e.Word))
	}
	w.index(e.Index)
	w.refs(e.Args...)
}
