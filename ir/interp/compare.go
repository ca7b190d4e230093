package interp

import (
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// Report is the outcome of comparing a tensor with the reference.
type Report struct {
	OK       bool
	Mismatch string // not empty if the dtypes or shapes differ, so that no elements were compared

	Elems int // elements compared
	Bad   int // elements past the tolerance

	// The worst element: the one with the largest error relative to its tolerance.
	Index   int // in row-major order
	Coord   []int
	Got     float64
	Want    float64
	Allowed float64 // the largest |Got-Want| that the tolerance allows for this element

	// The largest errors of all elements: |got-want| and |got-want|/|want|. If one is NaN or infinite and the other is
	// not, both are +Inf.
	WorstAbs float64
	WorstRel float64
}

// Err returns nil if the comparison succeeded, else a one-line description of the worst difference.
func (r Report) Err() error {
	switch {
	case r.OK:
		return nil
	case r.Mismatch != "":
		return fmt.Errorf("%s", r.Mismatch)
	}
	return fmt.Errorf("%d of %d elements are past the tolerance, worst at %v: have %v, want %v ±%.3g",
		r.Bad, r.Elems, r.Coord, r.Got, r.Want, r.Allowed)
}

// Compare checks got against want element by element: |got-want| may be at most tol.Abs + tol.Eps*epsilon*m. m is
// |want|, or for tolerances of sums the largest finite |want| of the tensor, and at least the smallest normal float of
// the dtype. An error of that smallest float is always allowed, since devices may flush smaller numbers to zero. Two
// NaNs are equal, as are infinities of one sign. Integers and bools must be equal. Elements of blocks may be one level
// apart.
func Compare(got, want *ir.Data, tol ir.Tolerance) Report {
	if got.DType != want.DType || !slices.Equal(got.Dims, want.Dims) {
		return Report{Mismatch: fmt.Sprintf("have %s, want %s", got, want)}
	}
	switch {
	case want.DType.IsBlock():
		return compareBlocks(got, want)
	case want.DType.IsFloat():
		return compareFloats(got, want, tol)
	}
	return compareInts(got, want)
}

// compareFloats implements Compare for two tensors of floats.
func compareFloats(got, want *ir.Data, tol ir.Tolerance) Report {
	g, errG := got.Floats()
	w, errW := want.Floats()
	if errG != nil || errW != nil {
		return Report{Mismatch: fmt.Sprintf("have %v, want %v", errG, errW)}
	}
	tiny := smallestNormal(want.DType)
	largest := tiny // the least m, see Compare
	if tol.Sum {
		for _, x := range w {
			if a := math.Abs(x); a > largest && !math.IsInf(a, 1) {
				largest = a
			}
		}
	}
	r := Report{OK: true, Elems: len(w)}
	eps := tol.Eps * epsilon(want.DType)
	worst := -1.0
	for i := range w {
		allowed := tol.Abs + float64(eps*max(math.Abs(w[i]), largest)) + flushed(tol, tiny)
		if math.IsNaN(w[i]) || math.IsInf(w[i], 0) { // no other number is near it
			allowed = 0
		}
		worst = r.element(i, g[i], w[i], allowed, worst)
	}
	r.locate(want.Dims)
	return r
}

// flushed returns the error that flushing numbers below tiny to zero may cause, and 0 for ops that must be exact.
func flushed(tol ir.Tolerance, tiny float64) float64 {
	if tol.Eps == 0 && tol.Abs == 0 {
		return 0
	}
	return tiny
}

// element compares element i, which may differ by `allowed`, and records it in r. worst is the largest ratio of an
// error to its tolerance so far, or -1 before the first element. element returns the new worst.
func (r *Report) element(i int, got, want, allowed, worst float64) float64 {
	err := difference(got, want)
	r.WorstAbs = max(r.WorstAbs, err)
	ratio := 0.0
	if err > 0 {
		r.WorstRel = max(r.WorstRel, err/math.Abs(want))
		ratio = err / allowed // infinite if nothing is allowed
	}
	if math.IsInf(err, 1) { // then err/|want| may be NaN
		r.WorstRel = err
	}
	if ratio > 1 {
		r.OK = false
		r.Bad++
	}
	if ratio > worst {
		worst = ratio
		r.Index, r.Got, r.Want, r.Allowed = i, got, want, allowed
	}
	return worst
}

// difference returns |got-want|: 0 if both are the same infinity or NaN, +Inf if only one is.
func difference(got, want float64) float64 {
	switch {
	case got == want || got != got && want != want:
		return 0
	case got != got || want != want:
		return math.Inf(1)
	}
	return math.Abs(got - want)
}

// compareInts implements Compare for two tensors of integers or bools, which must be equal.
func compareInts(got, want *ir.Data) Report {
	g, errG := got.Ints()
	w, errW := want.Ints()
	if errG != nil || errW != nil {
		return Report{Mismatch: fmt.Sprintf("have %v, want %v", errG, errW)}
	}
	r := Report{OK: true, Elems: len(w)}
	worst := -1.0
	for i := range w {
		if g[i] == w[i] {
			continue
		}
		// Large integers may differ by less than float64 can show.
		err := max(1, math.Abs(float64(g[i])-float64(w[i])))
		r.OK = false
		r.Bad++
		r.WorstAbs = max(r.WorstAbs, err)
		r.WorstRel = max(r.WorstRel, err/math.Abs(float64(w[i])))
		if err > worst {
			worst = err
			r.Index, r.Got, r.Want = i, float64(g[i]), float64(w[i])
		}
	}
	r.locate(want.Dims)
	return r
}

// locate fills in the coordinates of Index.
func (r *Report) locate(dims []int) {
	r.Coord = make([]int, len(dims))
	rest := r.Index
	for i := len(dims) - 1; i >= 0; i-- {
		if dims[i] > 0 {
			r.Coord[i] = rest % dims[i]
			rest /= dims[i]
		}
	}
}
