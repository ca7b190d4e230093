package schedule

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// Windows says that the rows that a kernel folds are overlapping windows of a tensor, as in a depthwise convolution
// or a pool. So consecutive rows along an axis read some elements in common. Along that axis, a window covers Taps
// positions (taps), with PerTap elements at each. Row r at tap t reads position RowStep*r + TapStep*t.
type Windows struct {
	Axis    int // the parallel axis along which consecutive rows overlap
	Taps    int
	Inner   int // number of contiguous fold coordinates with the same tap
	PerTap  int // number of elements of a row at each tap
	RowStep int // distance in positions between consecutive rows
	TapStep int // distance in positions between taps
}

// The axes of a blocked kernel (see [Windows.Blocked]), counted from its fold axis on.
const (
	WindowTap      = iota // the tap, within a row
	WindowRow             // the row, within a block
	WindowElem            // the element at a tap
	WindowPosition        // the position, within a block
)

const (
	maxTaps      = 16
	maxPerTap    = 32
	maxPositions = 48 // of a block; an invocation keeps the values of all positions in registers
)

// WindowsOf finds the axis along which a kernel's rows are overlapping windows, and returns false if there is none. It
// never takes the innermost axis, so that neighbouring invocations read adjacent elements.
func WindowsOf(k *kernel.Kernel) (w Windows, ok bool) {
	folds := k.Family == kernel.FamilyRow && len(k.Phases) == 1 && k.Fold.IsStatic()
	if !folds || storesPerElement(k) || k.Phases[0].Combine.IsPlace() {
		return w, false
	}
	for axis := len(k.Parallel) - 2; axis >= 0; axis-- {
		if !mayOverlap(k, axis) {
			continue
		}
		// Many taps first: more windows share each element.
		for taps := min(maxTaps, k.Fold.Add); taps > 1; taps-- {
			for inner := int64(1); inner*taps <= k.Fold.Add; inner++ {
				if k.Fold.Add%(inner*taps) != 0 || k.Fold.Add/taps > maxPerTap {
					continue
				}
				found := Windows{Axis: axis, Taps: int(taps), Inner: int(inner), PerTap: int(k.Fold.Add / taps)}
				if found.overlap(k) {
					return found, true
				}
			}
		}
	}
	return w, false
}

// mayOverlap reports whether some index adds a row coordinate and an element coordinate, and the distance between rows
// is less than the length of a row.
func mayOverlap(k *kernel.Kernel, axis int) bool {
	found := false
	k.WalkIndices(func(x kernel.Index) {
		// The sum may be the index itself, or the dividend of a quotient or remainder in it.
		sums := []kernel.Index{x}
		x.Walk(func(f *kernel.Factor) { sums = append(sums, f.X) })
		for _, sum := range sums {
			row := coefficient(sum, axis)
			for _, t := range sum.Terms() {
				along := slices.ContainsFunc(t.Factors, func(f *kernel.Factor) bool {
					return f.Kind == kernel.FactorAxis && f.Axis == k.FoldAxis() || f.X.Uses(k.FoldAxis())
				})
				// A row's last element is Coef*(length-1) after its first. The next row begins `row` after the first.
				found = found || along && row > 0 && row <= t.Coef*(k.Fold.Add-1)
			}
		}
	})
	return found
}

// overlap reports whether windows along w.Axis share loads, and sets RowStep and TapStep. It tries the strides of row
// and tap in each index of the kernel.
func (w *Windows) overlap(k *kernel.Kernel) bool {
	if k.Parallel[w.Axis].Is(1) {
		return false
	}
	b := w.Blocked(k, 1)
	for _, s := range w.strides(b) {
		w.RowStep, w.TapStep = s[0], s[1]
		// Rows and taps must together visit consecutive positions, and neighbouring windows must overlap.
		oneByOne := w.RowStep == 1 || w.TapStep == 1
		if !oneByOne || w.RowStep >= w.TapStep*w.Taps || int64(w.minRows()) > k.Parallel[w.Axis].Max() {
			continue
		}
		if slices.ContainsFunc(w.Shared(b), func(v *kernel.Expr) bool {
			return len(loadsAlong([]*kernel.Expr{v}, b.FoldAxis()+WindowTap)) > 0
		}) {
			return true
		}
	}
	return false
}

// minRows is the minimum number of consecutive rows among which two share a position.
func (w Windows) minRows() int { return w.TapStep + 1 }

// Positions is the number of positions that the windows of a block of consecutive rows cover.
func (w Windows) Positions(rows int) int { return w.RowStep*(rows-1) + w.TapStep*(w.Taps-1) + 1 }

// Blocked returns the kernel with the axis split into blocks of the given number of rows, and the fold axis into taps
// and elements: its expressions use the coordinates WindowTap, WindowRow and WindowElem. rows must divide the axis's
// extent.
func (w Windows) Blocked(k *kernel.Kernel, rows int) *kernel.Kernel {
	parallel := slices.Clone(k.Parallel)
	parallel[w.Axis], _ = parallel[w.Axis].Quo(int64(rows))
	tap, rest := kernel.Axis(k.FoldAxis()+WindowTap, ir.D(w.Taps)), kernel.Axis(k.FoldAxis()+WindowElem, ir.D(w.PerTap))
	outer, inner := rest.DivMod(ir.D(w.Inner))
	return kernel.Map(k, kernel.Edit{Parallel: parallel, SameBindings: true,
		At: func(axis int, extent ir.Dim) kernel.Index {
			switch axis {
			case w.Axis:
				row := kernel.Axis(k.FoldAxis()+WindowRow, ir.D(max(rows, 2))) // with extent 1, the axis would vanish
				return kernel.Axis(axis, parallel[axis]).Times(int64(rows)).Plus(row)
			case k.FoldAxis():
				return outer.Times(int64(w.Taps)).Plus(tap).Times(int64(w.Inner)).Plus(inner)
			}
			return kernel.Axis(axis, extent)
		}})
}

// strides lists the factors by which sums in the indices of the blocked kernel k multiply row and tap. Each pair is
// divided by its common divisor. Sums without a row or a tap do not count.
func (w *Windows) strides(k *kernel.Kernel) (all [][2]int) {
	k.WalkIndices(func(x kernel.Index) {
		sums := []kernel.Index{x}
		x.Walk(func(f *kernel.Factor) { sums = append(sums, f.X) })
		for _, sum := range sums {
			row, tap := coefficient(sum, k.FoldAxis()+WindowRow), coefficient(sum, k.FoldAxis()+WindowTap)
			if row < 1 || tap < 1 {
				continue
			}
			if by := kernel.GCD(row, tap); !slices.Contains(all, [2]int{int(row / by), int(tap / by)}) {
				all = append(all, [2]int{int(row / by), int(tap / by)})
			}
		}
	})
	return all
}

// coefficient returns the factor by which a sum multiplies the coordinate along an axis, 0 if there is no such term.
func coefficient(x kernel.Index, axis int) int64 {
	for _, t := range x.Terms() {
		if len(t.Factors) == 1 && t.Factors[0].Kind == kernel.FactorAxis && t.Factors[0].Axis == axis {
			return t.Coef
		}
	}
	return 0
}

// Shared lists the largest subexpressions of a blocked kernel's value that depend on row and tap only through their
// position. To find them, it compares the expression at the row plus TapStep with the expression at the tap plus
// RowStep: both moves lead to the same position.
func (w Windows) Shared(k *kernel.Kernel) []*kernel.Expr {
	row, tap := k.FoldAxis()+WindowRow, k.FoldAxis()+WindowTap
	shifted := func(of, by int) *kernel.Rewriter {
		return kernel.NewRewriter(func(axis int, extent ir.Dim) kernel.Index {
			if axis == of {
				return kernel.Axis(axis, extent).Plus(kernel.Const(int64(by)))
			}
			return kernel.Axis(axis, extent)
		})
	}
	rows, taps := shifted(row, w.TapStep), shifted(tap, w.RowStep)
	taps.Builder = rows.Builder // one builder makes equal expressions the same pointer
	var shared []*kernel.Expr
	seen := map[*kernel.Expr]bool{}
	var visit func(v *kernel.Expr)
	visit = func(v *kernel.Expr) {
		switch {
		case seen[v] || !v.Uses(row) || !v.Uses(tap):
		case rows.Value(v) == taps.Value(v):
			shared = append(shared, v)
		default:
			for _, a := range v.Args {
				visit(a)
			}
		}
		seen[v] = true
	}
	visit(k.Phases[0].Value)
	return shared
}

// AtPosition returns the shared values of a blocked kernel, as expressions of the coordinate WindowPosition instead of
// row and tap.
func (w Windows) AtPosition(k *kernel.Kernel, rows int, shared []*kernel.Expr) []*kernel.Expr {
	position := kernel.Axis(k.FoldAxis()+WindowPosition, ir.D(w.Positions(rows)))
	r := kernel.NewRewriter(func(axis int, extent ir.Dim) kernel.Index {
		switch {
		// The one with step 1 becomes the position, and the other 0.
		case axis == k.FoldAxis()+WindowRow && w.RowStep == 1, axis == k.FoldAxis()+WindowTap && w.RowStep > 1:
			return position
		case axis == k.FoldAxis()+WindowRow, axis == k.FoldAxis()+WindowTap:
			return kernel.Const(0)
		}
		return kernel.Axis(axis, extent)
	})
	var all []*kernel.Expr
	for _, v := range shared {
		all = append(all, r.Value(v))
	}
	return all
}

// windows lists the schedules in which an invocation computes several overlapping windows, the fastest first.
func (h heuristics) windows(k *kernel.Kernel) []Candidate {
	w, ok := WindowsOf(k)
	if !ok {
		return nil
	}
	var all []ranked
	for rows := w.minRows(); w.Positions(rows) <= maxPositions; rows++ {
		if !DivisibleBy(k.Parallel[w.Axis], rows) {
			continue
		}
		time := h.windowTime(k, w, rows)
		for _, c := range shrinking(min(h.rowWorkgroup, 2*minWindowGroup), func(wg int) Candidate {
			return Candidate{kernel.Points{Launch: launch(kernel.VarRowWindows, wg, 1), Coarsen: rows},
				fmt.Sprintf("%d windows of %s share what %d places hold", rows, k.Fold, w.Positions(rows))}
		}) {
			all = append(all, ranked{c, time})
		}
	}
	return byCost(all)
}

// windowTime estimates the time in nanoseconds if each invocation computes a block of the given number of rows: the
// shared values at each position, then the values that depend only on the tap, and then the rest for each row and tap.
func (h heuristics) windowTime(k *kernel.Kernel, w Windows, rows int) float64 {
	b := w.Blocked(k, rows)
	value, shared := []*kernel.Expr{b.Phases[0].Value}, w.Shared(b)
	ofRow := func(v *kernel.Expr) bool { return v.Uses(b.FoldAxis() + WindowRow) }
	ofTap := func(v *kernel.Expr) bool { return !ofRow(v) && v.Uses(b.FoldAxis()+WindowTap) }
	all := func(*kernel.Expr) bool { return true }
	each := w.Positions(rows)*operations(shared, nil, all) + w.Taps*operations(value, shared, ofTap) +
		w.Taps*rows*(operations(value, shared, ofRow)+1)
	stored := 0
	for _, s := range b.Stores {
		stored += loadOps + operations([]*kernel.Expr{s.Value}, nil, all)
	}
	invocations := float64(points(b.Parallel))
	slowdown := max(1, float64(h.fill*minWindowGroup)/invocations) // by idle cores
	perNs := h.VectorF32 * 1e3 / 2                                 // operations; VectorF32 counts a multiply-add as two
	return slowdown * invocations * float64(w.PerTap*each+rows*stored) / perNs
}

// minWindowGroup is the number of invocations in the smaller of the usual workgroups of windows; windowTime assumes it.
const minWindowGroup = 64

// loadOps is the number of arithmetic operations that take as long as loading or storing a value.
const loadOps = 6

// operations counts the operations that compute roots if the values in known are computed already, with loadOps for
// each load. It counts only the values for which counts returns true.
func operations(roots, known []*kernel.Expr, counts func(*kernel.Expr) bool) (n int) {
	seen := map[*kernel.Expr]bool{}
	for _, v := range known {
		seen[v] = true
	}
	var visit func(v *kernel.Expr)
	visit = func(v *kernel.Expr) {
		if seen[v] {
			return
		}
		seen[v] = true
		for _, a := range v.Args {
			visit(a)
		}
		switch {
		case !counts(v):
		case v.Kind == kernel.ExprLoad:
			n += loadOps
		case v.Kind == kernel.ExprApply:
			n++
		}
	}
	for _, v := range roots {
		visit(v)
	}
	return n
}

// checkWindows returns an error if a kernel's rows are no windows that a schedule can compute in blocks.
func checkWindows(k *kernel.Kernel, s kernel.Points) error {
	w, ok := WindowsOf(k)
	switch {
	case !ok:
		return fmt.Errorf("the rows are not windows that overlap")
	case s.Coarsen < w.minRows() || !DivisibleBy(k.Parallel[w.Axis], s.Coarsen):
		return fmt.Errorf("%d windows at a time, want %d or more that divide %s", s.Coarsen, w.minRows(),
			k.Parallel[w.Axis])
	case w.Positions(s.Coarsen) > maxPositions:
		return fmt.Errorf("%d windows have %d places, want up to %d", s.Coarsen, w.Positions(s.Coarsen), maxPositions)
	case s.Vec != 1:
		return fmt.Errorf("an invocation folds whole windows, an element at a time")
	}
	return nil
}

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
