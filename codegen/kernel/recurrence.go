package kernel

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// Recurrence is the computation of a kernel of FamilyRecurrence. The last parallel axis counts the rows of the state,
// and the key axis their elements. For each time step, each row S of the state becomes
//
//	S(key) = S(key)*Decay + (sum over keys of S*A)*B(key) + V*K(key)
//
// where S in the sum is the state before this time step. A row has the results:
//
//	result 0: at each time step, the sum over keys of S*Q
//	result 1: an element of S after the last time step
//
// A store with PerElement (see [Store]) writes once per time step, and may use result 0. A store without it writes once
// per key, and may use result 1.
type Recurrence struct {
	Keys  ir.Dim // extent of the key axis
	State *Expr  // S before the first time step; uses the parallel axes and the key axis
	Decay *Expr  // uses all axes except the row axis; the key axis only if each element has its own
	Q, K  *Expr  // use all axes except the row axis
	V     *Expr  // uses the parallel axes and the time axis
	A, B  *Expr  // use all axes except the row axis; both nil for none
}

// KeyAxis returns the id of the key axis of a kernel of FamilyRecurrence.
func (k *Kernel) KeyAxis() int { return k.FoldAxis() + 1 }

// Vectors lists the operands that have an element for each key and each time step.
func (r *Recurrence) Vectors(key int) []*Expr {
	list := []*Expr{r.Q, r.K}
	if r.A != nil {
		list = append(list, r.A, r.B)
	}
	if r.Decay.Uses(key) {
		list = append(list, r.Decay)
	}
	return list
}

// Operands lists the expressions of a recurrence, without those that are nil.
func (r *Recurrence) Operands() []*Expr {
	list := []*Expr{r.State, r.Decay, r.Q, r.K, r.V}
	if r.A != nil {
		list = append(list, r.A, r.B)
	}
	return list
}

// CheckRecurrence checks that a kernel of FamilyRecurrence has its operands and axes, and that its operands use only
// the axes that they may.
func (k *Kernel) CheckRecurrence() error {
	r := k.Recurrence
	switch {
	case r == nil || r.State == nil || r.Decay == nil || r.Q == nil || r.K == nil || r.V == nil ||
		(r.A == nil) != (r.B == nil):
		return fmt.Errorf("a recurrence without all of its operands")
	case len(k.Parallel) == 0 || !r.Keys.IsStatic() || r.Keys.Add < 1:
		return fmt.Errorf("a recurrence without rows, or with rows of %s elements", r.Keys)
	}
	row, time, key := len(k.Parallel)-1, k.FoldAxis(), k.KeyAxis()
	forbidden := map[*Expr]int{r.State: time, r.V: key, r.Decay: row, r.Q: row, r.K: row} // axes, by operand
	if r.A != nil {
		forbidden[r.A], forbidden[r.B] = row, row
	}
	for _, e := range r.Operands() {
		if e.UsesAnyAcc() || e.Uses(forbidden[e]) {
			return fmt.Errorf("an operand of the recurrence uses a result, or an axis that is not its own")
		}
	}
	for i, s := range k.Stores {
		axis, acc := time, 1
		if s.PerElement {
			axis, acc = key, 0
		}
		values := append([]*Expr{s.Value}, s.Index.Values()...)
		if s.Index.Uses(axis) || slices.ContainsFunc(values, func(e *Expr) bool {
			return e.Uses(axis) || e.UsesAcc(1-acc)
		}) {
			return fmt.Errorf("store %d of a recurrence uses a result, or an axis that is not its own", i)
		}
	}
	return nil
}

// describe prints the operands by their numbers in the kernel's listing.
func (r *Recurrence) describe(number map[*Expr]int) string {
	t := fmt.Sprintf("recurrence state %%%d decay %%%d q %%%d k %%%d v %%%d", number[r.State], number[r.Decay],
		number[r.Q], number[r.K], number[r.V])
	if r.A != nil {
		t += fmt.Sprintf(" a %%%d b %%%d", number[r.A], number[r.B])
	}
	return t + fmt.Sprintf(" over %s", r.Keys)
}
