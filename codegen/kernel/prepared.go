package kernel

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// CanPrepare reports whether a kernel computes the same in every run: it reads
// only what is fixed, or what ready reports of a buffer, and has no symbols.
func (k *Kernel) CanPrepare(ready func(buffer int) bool) bool {
	return k.Loop == nil && !isSymbolic(k.Fold) && !slices.ContainsFunc(k.Parallel, isSymbolic) &&
		!slices.ContainsFunc(k.Bindings, func(b Binding) bool {
			return b.Read && (b.Write || !b.Fixed && !ready(b.Buffer))
		})
}

// IsFixed reports whether a value is the same in every run, at each point of
// the axes that it uses.
func (k *Kernel) IsFixed(v *Expr) bool {
	for axis, d := range append(slices.Clone(k.Parallel), k.Fold) {
		if isSymbolic(d) && v.Uses(axis) {
			return false
		}
	}
	fixed := true
	Walk([]*Expr{v}, func(e *Expr) {
		fixed = fixed && e.Kind != ExprAcc && (e.Kind != ExprLoad || k.Bindings[e.Bind].Fixed)
	})
	return fixed
}

func isSymbolic(d ir.Dim) bool { return !d.IsStatic() }

// Begins reports whether step i is the first of the prepared steps, or of those
// of a run: nothing that stands before it needs a barrier.
func (p *Program) Begins(i int) bool { return i == 0 || i == p.Prepared }

// checkPrepared checks that prepared steps depend on nothing that a run
// changes, and that no run changes what they make.
func (p *Program) checkPrepared() error {
	if p.Prepared < 0 || p.Prepared > len(p.Steps) {
		return fmt.Errorf("%d prepared steps of %d", p.Prepared, len(p.Steps))
	}
	for i, s := range p.Steps {
		prepared := i < p.Prepared
		if prepared && !s.Grid.IsStatic() {
			return fmt.Errorf("step %d (%s) is prepared, but its grid depends on symbols", i, s.Name)
		}
		for _, b := range s.Binds {
			kind := p.Buffers[b.Buffer].Kind
			switch {
			case prepared && kind != BufWeight && kind != BufPrepared && kind != BufTemp &&
				kind != BufFault:
				return fmt.Errorf("step %d (%s) is prepared, but uses buffer %d, of kind %s", i, s.Name, b.Buffer, kind)
			case !prepared && kind == BufPrepared && b.Write:
				return fmt.Errorf("step %d (%s) writes buffer %d, which is prepared", i, s.Name, b.Buffer)
			}
		}
	}
	return nil
}
