package schedule

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// Window describes an operand that is read in octets (eight contiguous elements) and is 0 where conditions on the
// index do not hold: the input of a convolution with padding.
type Window struct {
	Load   *kernel.Expr   // of 16-bit elements
	Base   kernel.Index   // index of the octet's first element; it may be outside of the buffer
	All    []*kernel.Expr // conditions that are the same for all elements of an octet
	Ranges []*kernel.Expr // conditions (>= or <) on an index that grows by 1 along the octet
}

// WindowLoad matches an operand as a window that has octets along an axis of the result. It returns false for other
// operands.
func WindowLoad(k *kernel.Kernel, v *kernel.Expr, axis int) (Window, bool) {
	t, ok := MatrixDType(k)
	if !ok || t.IsInteger() || !DivisibleBy(k.Parallel[axis], OctetElems) {
		return Window{}, false
	}
	v = Unrounded(v, t)
	// The operand must be where(condition, load, 0).
	if v.Kind != kernel.ExprApply || v.Op != ir.OpWhere || !isZero(v.Args[2]) || !plainLoad(k, v.Args[1], t) {
		return Window{}, false
	}
	w := Window{Load: Unrounded(v.Args[1], t)}
	b := k.Bindings[w.Load.Bind]
	stride, ok := w.Load.Index.RunStride(axis, OctetElems)
	if !ok || stride != 1 || b.Write || b.Elems%OctetElems != 0 {
		return Window{}, false
	}
	w.Base = w.Load.Index.Unclamped(axis, OctetElems)
	return w, w.addCondition(v.Args[0], axis)
}

// addCondition adds the terms of the conjunction cond to All and Ranges, and reports whether a Window can represent all
// of them.
func (w *Window) addCondition(cond *kernel.Expr, axis int) bool {
	switch {
	case !cond.Uses(axis):
		w.All = append(w.All, cond)
		return true
	case cond.Kind != kernel.ExprApply:
		return false
	case cond.Op == ir.OpAnd:
		return w.addCondition(cond.Args[0], axis) && w.addCondition(cond.Args[1], axis)
	case cond.Op != ir.OpGe && cond.Op != ir.OpLt, cond.Args[0].Kind != kernel.ExprIndex, cond.Args[1].Uses(axis):
		return false
	case cond.Args[0].Index.HasClamp():
		return false
	}
	// Along a run, such a condition is the same for all elements, or becomes true or false at one of them.
	switch stride, ok := cond.Args[0].Index.RunStride(axis, OctetElems); {
	case ok && stride == 0:
		w.All = append(w.All, cond)
	case ok && stride == 1:
		w.Ranges = append(w.Ranges, cond)
	default:
		return false
	}
	return true
}

func isWindow(k *kernel.Kernel, v *kernel.Expr, axis int) bool {
	_, ok := WindowLoad(k, v, axis)
	return ok
}

func isZero(v *kernel.Expr) bool { return v.Kind == kernel.ExprConst && v.Value == 0 && v.Int == 0 }
