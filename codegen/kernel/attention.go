package kernel

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// Attention is the computation of a kernel of FamilyAttention. It makes one pass over the keys and never materializes
// the matrix of scores (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al.,
// "FlashAttention", 2022). A row is one query of one head. Let
//
//	score(key) = Scale * (sum of Q*K over the contraction axis)
//	score(key) = Softcap * tanh(score(key)), if Softcap is not 0
//	score(key) = score(key) + Mask
//
// A row has the results:
//
//	result 0: the largest score of the keys that the row sees
//	result 1: the sum over these keys of 2^(score - largest)
//	result 2: the sum over these keys of 2^(score - largest) * V, times Factor in gradients
//
// Scores are exponents of 2, because hardware has exp2. A pass that lowers a softmax multiplies Scale or Softcap, and
// Mask, by log2(e). A row that sees no key, or only keys of score -inf, has the results -inf (or the smallest float), 0
// and 0. Its quotient is then NaN.
//
// [Kernel.AttentionAxes] names the parallel axes.
type Attention struct {
	Q    *Expr // uses the row axes and the contraction axis
	K    *Expr // uses the batch, group, key and contraction axes
	V    *Expr // uses the batch, group, key and value axes
	Mask *Expr // uses the row and key axes; nil for none
	// Factor multiplies the weights of the values in result 2, but not result 1; nil for none.
	Factor *AttentionFactor

	Dot   ir.Dim // extent of the axis that Q and K are summed over
	Scale float64
	// Softcap bounds the scores, or is 0.
	Softcap float64
	// Causal means that the row of query i sees only keys up to i + keys - queries, where keys and queries are their
	// numbers. With Reversed it sees only keys from there on: gradients of keys exchange queries and keys.
	Causal, Reversed bool
	// Window, if not 0, bounds the number of keys that a causal row sees. Mask hides earlier keys, so a kernel may skip
	// them or not.
	Window int64
	// End, if not nil, is the first hidden key of a row: Mask hides it and all later keys, so a kernel may skip them or
	// not. It is equal for all queries of heads that share keys.
	End *Index
	// Half allows rounding Q, K and V to f16.
	Half bool
}

// AttentionFactor multiplies the weights of an attention in gradients. It is the sum of Q*K over a contraction axis of
// its own, minus Delta. If scores have a Softcap, it is also multiplied by 1 - (score/Softcap)^2, the derivative of the
// tanh (Dao, "FlashAttention-2", 2023, section 3.1).
type AttentionFactor struct {
	Q     *Expr  // uses the row axes and the factor's contraction axis
	K     *Expr  // uses the batch, group and key axes and the factor's contraction axis
	Delta *Expr  // uses the row and key axes
	Dot   ir.Dim // extent of the factor's contraction axis
}

// AttentionAxes are the ids of the axes of an attention kernel. Split to Value are its parallel axes, outermost first.
// Split divides the keys into runs of equal length, one per coordinate; its extent is 1 if the keys are not divided.
// Between Split and Group there may be batch axes. Group counts key heads, and Head counts the query heads that share a
// key head. Value counts the elements of a row's result.
type AttentionAxes struct {
	Split, Group, Head, Query, Value int
	Key                              int // the folded axis
	Dot                              int // the contraction axis of Q*K
	Factor                           int // the contraction axis of AttentionFactor
}

// attentionAxes is the least number of parallel axes: all except batch axes.
const attentionAxes = 5

// AttentionAxes returns the axis ids of a kernel of FamilyAttention.
func (k *Kernel) AttentionAxes() AttentionAxes {
	n := len(k.Parallel)
	return AttentionAxes{Split: 0, Group: n - 4, Head: n - 3, Query: n - 2, Value: n - 1, Key: n, Dot: n + 1,
		Factor: n + 2}
}

// Seen returns the end of the keys that a row of the given query sees: the number of its first hidden key.
func (k *Kernel) Seen(query Index) Index {
	keys := DimIndex(k.Fold)
	switch a := k.Attention; {
	case !a.Causal && a.End != nil:
		return *a.End
	case !a.Causal, a.Reversed && a.Window == 0:
		return keys
	case a.Reversed:
		return k.diagonal(query, a.Window)
	}
	return k.diagonal(query, 1)
}

// FirstSeen returns the first key that the given query sees. A window starts Window-1 keys before the diagonal.
// With Reversed, queries and keys have exchanged their places, and a row sees the folded axis from the diagonal on.
func (k *Kernel) FirstSeen(query Index) Index {
	a := k.Attention
	switch {
	case a.Reversed:
		return k.diagonal(query, 0)
	case a.Window == 0:
		return Const(0)
	}
	return k.diagonal(query, 1-a.Window)
}

// SkipsFirst reports whether some rows do not see the first keys.
func (k *Kernel) SkipsFirst() bool { return k.Attention.Window > 0 || k.Attention.Reversed }

// diagonal returns the number of the key that is aligned with a query, plus offset, clamped to 0..keys. The last query
// is aligned with the last key.
func (k *Kernel) diagonal(query Index, offset int64) Index {
	keys, queries := DimIndex(k.Fold), DimIndex(k.Parallel[k.AttentionAxes().Query])
	return Clamp(query.Plus(Const(offset)).Plus(keys).Minus(queries), keys)
}

// KeysSeen is the largest number of keys that the given number of consecutive queries see together.
func (k *Kernel) KeysSeen(queries int64) int64 {
	if w := k.Attention.Window; w > 0 {
		return min(w+queries-1, k.Fold.Max())
	}
	return k.Fold.Max()
}

// CheckAttention returns an error if a kernel of FamilyAttention lacks operands or axes, if its window or end of keys
// has no mask, or if an operand uses an axis that it may not use.
func (k *Kernel) CheckAttention() error {
	a := k.Attention
	switch {
	case a == nil || a.Q == nil || a.K == nil || a.V == nil:
		return fmt.Errorf("an attention without operands")
	// A kernel may process keys before the window, so the mask must hide them.
	case (a.Window != 0 || a.Reversed) && (!a.Causal || a.Mask == nil):
		return fmt.Errorf("an attention with a window, or with queries and keys exchanged: want a causal one, with a " +
			"mask that hides the keys before the window")
	// A kernel may process keys after End, so the mask must hide them.
	case a.End != nil && (a.Causal || a.Mask == nil):
		return fmt.Errorf("an attention with an end of its keys: want one that is not causal, with a mask that hides " +
			"the keys after the end")
	case len(k.Parallel) < attentionAxes:
		return fmt.Errorf("an attention of %d parallel axes, want at least %d", len(k.Parallel), attentionAxes)
	}
	ax := k.AttentionAxes()
	if !a.Dot.IsStatic() || !k.Parallel[ax.Value].IsStatic() || !k.Parallel[ax.Head].IsStatic() ||
		!k.Parallel[ax.Split].IsStatic() {
		return fmt.Errorf("an attention with a symbolic number of heads, splits or vector elements: want constants")
	}
	// Each operand may vary only along the axes of its tensor, and must not use the kernel's results.
	uses := func(e *Expr, axes ...int) bool { return slices.ContainsFunc(axes, e.Uses) || e.UsesAnyAcc() }
	switch {
	case uses(a.Q, ax.Split, ax.Value, ax.Key),
		uses(a.K, ax.Split, ax.Head, ax.Query, ax.Value),
		uses(a.V, ax.Split, ax.Head, ax.Query, ax.Dot),
		a.Mask != nil && uses(a.Mask, ax.Split, ax.Value, ax.Dot),
		a.End != nil && slices.ContainsFunc([]int{ax.Split, ax.Head, ax.Query, ax.Value, ax.Key, ax.Dot}, a.End.Uses):
		return fmt.Errorf("an operand of the attention uses an axis that is not its own")
	}
	if f := a.Factor; f != nil {
		switch {
		case f.Q == nil || f.K == nil || f.Delta == nil || !f.Dot.IsStatic():
			return fmt.Errorf("the factor of an attention lacks an operand, or its vectors have a symbolic length")
		case uses(f.Q, ax.Split, ax.Value, ax.Key, ax.Dot),
			uses(f.K, ax.Split, ax.Head, ax.Query, ax.Value, ax.Dot),
			uses(f.Delta, ax.Split, ax.Value, ax.Dot, ax.Factor):
			return fmt.Errorf("an operand of the attention's factor uses an axis that is not its own")
		}
	}
	return nil
}

// VectorElems is the number of multiplications for one score, and for its factor if there is one.
func (a *Attention) VectorElems() int64 {
	if a.Factor == nil {
		return a.Dot.Max()
	}
	return a.Dot.Max() + a.Factor.Dot.Max()
}

// Operands lists the expressions of an attention. It leaves out nil.
func (a *Attention) Operands() []*Expr {
	list := []*Expr{a.Q, a.K, a.V}
	if a.Mask != nil {
		list = append(list, a.Mask)
	}
	if f := a.Factor; f != nil {
		list = append(list, f.Q, f.K, f.Delta)
	}
	return list
}

// describe prints the operands by their numbers in the kernel's listing.
func (a *Attention) describe(number map[*Expr]int) string {
	t := fmt.Sprintf("attention q %%%d k %%%d v %%%d over %s scale %s", number[a.Q], number[a.K], number[a.V], a.Dot,
		ir.FormatFloat(a.Scale))
	if a.Softcap != 0 {
		t += " softcap " + ir.FormatFloat(a.Softcap)
	}
	if a.Mask != nil {
		t += fmt.Sprintf(" mask %%%d", number[a.Mask])
	}
	if f := a.Factor; f != nil {
		t += fmt.Sprintf(" times q %%%d k %%%d over %s less %%%d", number[f.Q], number[f.K], f.Dot, number[f.Delta])
	}
	if a.Causal {
		t += " causal"
	}
	if a.Reversed {
		t += " reversed"
	}
	if a.Window != 0 {
		t += fmt.Sprintf(" window %d", a.Window)
	}
	if a.End != nil {
		t += " before " + a.End.describe(number)
	}
	if a.Half {
		t += " in f16"
	}
	return t
}
