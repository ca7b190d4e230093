package kernel

import (
	"fmt"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// ExprKind is the kind of an Expr.
type ExprKind uint8

// The expression kinds.
const (
	ExprLoad   ExprKind = iota + 1 // element Index of binding Bind, decoded from a block and converted
	ExprConst                      // Value
	ExprApply                      // an elementwise op on Args
	ExprIndex                      // Index as an i32
	ExprAcc                        // the result of phase or matmul number Acc
	ExprRandom                     // a random word for element Index; Args are seed and offset
)

// Word selects one of the four random words of a block of a random stream, for an element; see ir.RandomBlock.
type Word uint8

// The word that element i uses. Words 0 and 1 of a block are a pair, and so are words 2 and 3. A method such as
// Box-Muller makes two values from a pair of words, so each of the two elements needs both words.
const (
	WordOwn    Word = iota // word i%4 for element i
	WordFirst              // the even word of its pair
	WordSecond             // the odd word of its pair
)

// Of returns the number, 0 to 3, of the selected word for an element.
func (w Word) Of(element int64) int64 {
	switch w {
	case WordFirst:
		return element % 4 &^ 1
	case WordSecond:
		return element%4 | 1
	}
	return element % 4
}

// Nearest is the attribute of a quotient that must be the nearest f32, because a later op rounds it to an integer or to
// a narrower float. The ops of a graph have no such attribute.
const Nearest = "nearest"

// Expr is one scalar value of a kernel body. Expressions of one Builder are unique: equal ones are the same pointer, so
// a shared value is computed once.
type Expr struct {
	ID    int // numbers the expressions of a Builder from 0, in the order of their creation
	Kind  ExprKind
	DType ir.DType // of the value; an op computed at a wider dtype has the wider dtype and is cast afterwards
	Bind  int
	Index Index
	Value float64 // of a float constant
	Int   int64   // of an integer or bool constant
	Op    ir.Op
	Attrs ir.Attrs
	Args  []*Expr
	Acc   int
	Word  Word   // of ExprRandom
	Other bool   // of ExprAcc: the result at column Index, see AccOfPair
	Hint  string // a name for readers of the shader

	axes uint64 // bit i: depends on axis i
	accs uint64 // bit i: depends on phase or matmul i
}

// Uses reports whether the value depends on the coordinate along the axis.
func (e *Expr) Uses(axis int) bool { return e.axes>>axis&1 != 0 }

// UsesAcc reports whether the value depends on phase or matmul i.
func (e *Expr) UsesAcc(i int) bool { return e.accs>>i&1 != 0 }

// UsesAnyAcc reports whether the value depends on any phase or matmul.
func (e *Expr) UsesAnyAcc() bool { return e.accs != 0 }

// Builder makes the expressions of one kernel.
type Builder struct {
	unique map[string]*Expr
}

// NewBuilder returns an empty builder.
func NewBuilder() *Builder { return &Builder{unique: map[string]*Expr{}} }

// add returns the expression with the given key, so that equal expressions are one pointer. If there is none, it adds
// e. The key must describe e completely except for its hint: equal expressions have equal keys, and others have
// different ones.
func (b *Builder) add(key string, e Expr) *Expr {
	if have, ok := b.unique[key]; ok {
		return have
	}
	e.ID = len(b.unique)
	// axes and accs are sets, a bit each, of the axes and results that the expression depends on.
	e.Index.Walk(func(f *Factor) {
		if f.Kind == FactorAxis {
			e.axes |= 1 << f.Axis
		}
	})
	for _, a := range append(e.Index.Values(), e.Args...) {
		e.axes |= a.axes
		e.accs |= a.accs
	}
	b.unique[key] = &e
	return &e
}

// Load returns the expression that loads the element at index x of binding bind. t is the dtype of the binding. The
// value has this dtype too, but it is an f32 if t is a block format. hint is a name for the value in the shader. Equal
// loads are one expression, with the hint of the first.
func (b *Builder) Load(bind int, t ir.DType, x Index, hint string) *Expr {
	value := t
	if t.IsBlock() {
		value = ir.F32
	}
	return b.add(fmt.Sprintf("load %d %s", bind, x),
		Expr{Kind: ExprLoad, DType: value, Bind: bind, Index: x, Hint: hint})
}

// Float returns a float constant.
func (b *Builder) Float(t ir.DType, v float64) *Expr {
	v = ir.RoundTo(v, t)
	return b.add(fmt.Sprintf("const %s %s", t, ir.FormatFloat(v)), Expr{Kind: ExprConst, DType: t, Value: v})
}

// Integer returns an integer or bool constant.
func (b *Builder) Integer(t ir.DType, v int64) *Expr {
	return b.add(fmt.Sprintf("const %s %d", t, v), Expr{Kind: ExprConst, DType: t, Int: v})
}

// Number returns v as a constant of any scalar dtype.
func (b *Builder) Number(t ir.DType, v float64) *Expr {
	if t.IsFloat() {
		return b.Float(t, v)
	}
	return b.Integer(t, ir.FloatToInt(v, t))
}

// FromIndex returns an index as an i32 value.
func (b *Builder) FromIndex(x Index) *Expr {
	if x.IsConst() {
		return b.Integer(ir.I32, x.c)
	}
	return b.add("index "+x.String(), Expr{Kind: ExprIndex, DType: ir.I32, Index: x})
}

// Acc returns the result of phase or matmul i, of dtype t.
func (b *Builder) Acc(i int, t ir.DType, hint string) *Expr {
	e := b.add(fmt.Sprintf("acc %d %s", i, t), Expr{Kind: ExprAcc, DType: t, Acc: i, Hint: hint})
	e.accs = 1 << i
	return e
}

// AccOfPair returns the result of matmul i, of dtype t, at the other column of a pair. Columns 2n and 2n+1 are a pair,
// as in a gated activation. col is the column coordinate that the store uses, and hint a name for the value in the
// shader. The number of columns must be even.
func (b *Builder) AccOfPair(i int, t ir.DType, col Index, hint string) *Expr {
	return b.accOf(i, t, OtherOfPair(col), hint)
}

// accOf returns the result of matmul i, of dtype t, at column x instead of the store's own column.
func (b *Builder) accOf(i int, t ir.DType, x Index, hint string) *Expr {
	e := b.add(fmt.Sprintf("acc %d %s of column %s", i, t, x),
		Expr{Kind: ExprAcc, DType: t, Acc: i, Index: x, Other: true, Hint: hint})
	e.accs = 1 << i
	return e
}

// OtherOfPair returns the other coordinate of a pair: 2n+1 for 2n, and 2n for 2n+1.
func OtherOfPair(x Index) Index {
	first, second := x.DivMod(ir.D(2))
	return first.Times(2).Plus(Const(1)).Minus(second)
}

// Random returns a word of a stream of the Philox generator, as a u32 (see ir.RandomBlock). seed and offset, both u32
// or i64, select the stream. element and w select the word.
func (b *Builder) Random(seed, offset *Expr, element Index, w Word) *Expr {
	key := fmt.Sprintf("random e%d e%d %s %d", seed.ID, offset.ID, element, w)
	return b.add(key, Expr{Kind: ExprRandom, DType: ir.U32, Args: []*Expr{seed, offset}, Index: element,
		Word: w, Hint: "random"})
}

// Apply returns an elementwise op on values; t is its result dtype. If the result is provable without computing, such
// as a comparison of coordinates, it returns that result instead.
func (b *Builder) Apply(op ir.Op, t ir.DType, attrs ir.Attrs, args ...*Expr) *Expr {
	if e := b.decided(op, t, args); e != nil {
		return e
	}
	var key strings.Builder
	fmt.Fprintf(&key, "%s %s", op, t)
	for _, at := range attrs {
		fmt.Fprintf(&key, " %s=%s", at.Name, ir.FormatAttr(at.Value))
	}
	for _, a := range args {
		fmt.Fprintf(&key, " e%d", a.ID)
	}
	return b.add(key.String(), Expr{Kind: ExprApply, DType: t, Op: op, Attrs: attrs, Args: args})
}

// decided returns the value of an op that needs no computation, or nil. Examples are a comparison of coordinates with a
// provable result, and ops that are trivial because of constants, equal operands or the range of a dtype.
func (b *Builder) decided(op ir.Op, t ir.DType, args []*Expr) *Expr {
	switch {
	case op == ir.OpWhere && args[0].Kind == ExprConst:
		chosen := args[1]
		if args[0].Int == 0 {
			chosen = args[2]
		}
		if chosen.DType == t {
			return chosen
		}
	case op == ir.OpWhere && args[1] == args[2] && args[1].DType == t:
		return args[1]
	case (op == ir.OpMin || op == ir.OpMax) && t.IsInteger():
		return decidedExtremum(op, t, args)
	case (op == ir.OpAdd || op == ir.OpSub) && t.IsInteger() && args[1].Kind == ExprConst && args[1].Int == 0 &&
		args[0].DType == t:
		return args[0]
	case (op == ir.OpAnd || op == ir.OpOr) && t == ir.Bool:
		return decidedLogic(op, args)
	case t == ir.Bool && len(args) == 2: // a comparison
		return b.decidedComparison(op, args[0], args[1])
	}
	return nil
}

// decidedExtremum is decided for the minimum or maximum of two integers. It returns one of them if one is a constant of
// at most 0 and the other is at least 0.
func decidedExtremum(op ir.Op, t ir.DType, args []*Expr) *Expr {
	for i, a := range args {
		x := args[1-i]
		if a.Kind != ExprConst || a.Int > 0 || a.DType != t || x.DType != t || !x.isUnsigned() {
			continue
		}
		if op == ir.OpMin {
			return a
		}
		return x
	}
	return nil
}

// decidedLogic is decided for "and" and "or" of two bools. It returns one of them if one is constant.
func decidedLogic(op ir.Op, args []*Expr) *Expr {
	for i, a := range args {
		if a.Kind != ExprConst {
			continue
		}
		if (a.Int != 0) == (op == ir.OpAnd) { // true and x, false or x
			return args[1-i]
		}
		return a // false and x, true or x
	}
	return nil
}

// decidedComparison is decided for a comparison. It returns a constant if both operands are coordinates and the result
// is provable.
func (b *Builder) decidedComparison(op ir.Op, left, right *Expr) *Expr {
	x, isX := left.coordinate()
	y, isY := right.coordinate()
	if !isX || !isY {
		return nil
	}
	switch holds, fails := compare(op, x, y); {
	case holds:
		return b.Integer(ir.Bool, 1)
	case fails:
		return b.Integer(ir.Bool, 0)
	}
	return nil
}

// isUnsigned reports whether an integer cannot be negative by its dtype, or by the dtype it is cast from.
func (e *Expr) isUnsigned() bool {
	if e.DType.Kind() == ir.KindUint {
		return true
	}
	cast := e.Kind == ExprApply && e.Op == ir.OpCast && e.Args[0].DType.Kind() == ir.KindUint
	return cast && e.Args[0].DType.BlockBytes() < e.DType.BlockBytes()
}

// coordinate returns the index that e converts to an i32 value, and false if e is another kind of expression.
func (e *Expr) coordinate() (Index, bool) {
	if e.Kind == ExprConst && e.DType == ir.I32 {
		return Const(e.Int), true
	}
	return e.Index, e.Kind == ExprIndex
}

// compare reports whether a comparison of two indices is proven (holds), and whether its opposite is (fails).
func compare(op ir.Op, x, y Index) (holds, fails bool) {
	atMost := func(a, b Index) bool { return b.Minus(a).NonNegative() }
	below := func(a, b Index) bool { return atMost(a.Plus(Const(1)), b) }
	switch op {
	case ir.OpLt:
		return below(x, y), atMost(y, x)
	case ir.OpLe:
		return atMost(x, y), below(y, x)
	case ir.OpGt:
		return below(y, x), atMost(x, y)
	case ir.OpGe:
		return atMost(y, x), below(x, y)
	case ir.OpEq:
		return x.Equal(y), below(x, y) || below(y, x)
	case ir.OpNe:
		return below(x, y) || below(y, x), x.Equal(y)
	}
	return false, false
}

// Cast returns v converted to t by the rule of op cast. If v has dtype t it returns v.
func (b *Builder) Cast(t ir.DType, v *Expr) *Expr {
	if v.DType == t {
		return v
	}
	if v.Kind == ExprConst && t.IsFloat() {
		if v.DType.IsFloat() {
			return b.Float(t, v.Value)
		}
		return b.Float(t, ir.IntToFloat(v.Int, t))
	}
	return b.Apply(ir.OpCast, t, ir.Attrs{{Name: "dtype", Value: t}}, v)
}

// Widened returns v without casts of loaded floats to f32, which do not change the value.
func Widened(v *Expr) *Expr {
	for v.Kind == ExprApply && v.Op == ir.OpCast && v.DType == ir.F32 &&
		v.Args[0].DType.IsFloat() && v.Args[0].DType != ir.F64 {
		v = v.Args[0]
	}
	return v
}

// Unstored returns the value to store in place of v. If v is a cast from f32 to a narrower float, it returns the cast's
// argument, because the store performs the cast anyway.
func Unstored(v *Expr) *Expr {
	if v.Kind == ExprApply && v.Op == ir.OpCast && v.DType.IsFloat() && v.DType != ir.F64 {
		if v.Args[0].DType == ir.F32 { // storing rounds an f64 to f32 first
			return v.Args[0]
		}
	}
	return v
}

// Walk calls visit once for every expression that the roots depend on, arguments before their users.
func Walk(roots []*Expr, visit func(*Expr)) {
	WalkUnknown(roots, func(*Expr) bool { return false }, visit)
}

// WalkUnknown calls visit for every expression on which the roots depend, arguments first, except the known expressions
// and the expressions on which only known ones depend.
func WalkUnknown(roots []*Expr, known func(*Expr) bool, visit func(*Expr)) {
	seen := map[*Expr]bool{}
	var walk func(e *Expr)
	walk = func(e *Expr) {
		if e == nil || seen[e] || known(e) {
			return
		}
		seen[e] = true
		for _, v := range e.Index.Values() {
			walk(v)
		}
		for _, a := range e.Args {
			walk(a)
		}
		visit(e)
	}
	for _, r := range roots {
		walk(r)
	}
}

// Any reports whether a condition holds for some expression that the roots depend on.
func Any(roots []*Expr, holds func(*Expr) bool) bool {
	found := false
	Walk(roots, func(e *Expr) { found = found || holds(e) })
	return found
}
