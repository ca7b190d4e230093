package kernel

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

const (
	// preparedGrowth bounds what a kernel may keep: so many times the bytes that
	// it reads. Operands in two or three parts of bf16 take up to 1.5, with their padding
	// a little more. Decoded blocks take 1.88 and more: they are stored in every run, or not at all.
	preparedGrowth = 1.75
	// preparedSmall is what any kernel may keep, if it reads nothing at all.
	preparedSmall = 64 << 10
)

// CanPrepare reports whether a kernel is to run once, when the program is loaded. It then
// computes the same in every run, since it reads only what is fixed, or what ready reports
// of a buffer, and has no symbols. And what it keeps is little, beside what it reads: one that
// makes much of little, as a broadcast does, stays with the run.
func (k *Kernel) CanPrepare(ready func(buffer int) bool) bool {
	return k.Loop == nil && !isSymbolic(k.Fold) && !slices.ContainsFunc(k.Parallel, isSymbolic) &&
		!slices.ContainsFunc(k.After, func(buffer int) bool { return !ready(buffer) }) &&
		!slices.ContainsFunc(k.Bindings, func(b Binding) bool {
			return b.Read && (b.Write || !b.Fixed && !ready(b.Buffer))
		}) && k.keepsLittle()
}

func (k *Kernel) keepsLittle() bool {
	read, kept := int64(0), int64(0)
	for _, b := range k.Bindings {
		bytes, err := b.DType.BytesFor(b.Elems)
		switch {
		case b.Fault:
		case err != nil:
			return false
		case b.Write:
			kept += bytes
		default:
			read += bytes
		}
	}
	return float64(kept) <= max(preparedGrowth*float64(read), preparedSmall)
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
	for i, s := range p.Dispatches() {
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
