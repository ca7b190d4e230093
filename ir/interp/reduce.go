package interp

import (
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// rows is argument 0 of a reduction with the folded axes moved innermost. Result element i is the fold of row i: n
// consecutive elements.
type rows struct {
	x     value
	count int // rows
	n     int // elements of a row
}

// row returns row i of s. s has the elements of r.x.
func row[T any](r rows, s []T, i int) []T { return s[i*r.n : (i+1)*r.n] }

// foldRows returns argument 0 as rows: one for each result element, with the elements along the given axes.
func foldRows(c *call, axes []int64) (rows, error) {
	x := c.args[0]
	fold, err := ir.ResolveAxes(axes, len(x.dims))
	if err != nil {
		return rows{}, err
	}
	var keep, folded []int64
	n := 1
	for i, in := range fold {
		if in {
			folded = append(folded, int64(i))
			n *= x.dims[i]
		} else {
			keep = append(keep, int64(i))
		}
	}
	x, err = c.permuted(x, append(keep, folded...)) // the elements of a row become contiguous
	return rows{x: x, count: elems(c.dims), n: n}, err
}

// basicFolds defines the basic reductions: floats folds a row of floats. For integers and bools, ints combines the
// result so far with an element, starting with first.
var basicFolds = map[ir.Op]struct {
	floats func(row []float64) float64
	first  func(t ir.DType) int64
	ints   func(acc, x int64) int64
}{
	ir.OpSum:       {sumOf, always(0), func(acc, x int64) int64 { return acc + x }},
	ir.OpProd:      {prodOf, always(1), func(acc, x int64) int64 { return acc * x }},
	ir.OpReduceMax: {maxOf, smallest, func(acc, x int64) int64 { return max(acc, x) }},
	ir.OpReduceMin: {minOf, largest, func(acc, x int64) int64 { return min(acc, x) }},
	ir.OpAny:       {nil, always(0), func(acc, x int64) int64 { return acc | x }},
	ir.OpAll:       {nil, always(1), func(acc, x int64) int64 { return acc & x }},
}

// always returns a function that returns v for every dtype.
func always(v int64) func(ir.DType) int64 { return func(ir.DType) int64 { return v } }

func smallest(t ir.DType) int64 { lo, _ := ir.IntRange(t); return lo }

func largest(t ir.DType) int64 { _, hi := ir.IntRange(t); return hi }

// reduce computes a reduction as the Fold in the op's row defines it.
func reduce(c *call) (value, error) {
	r, err := foldRows(c, c.attrs().Ints("axes"))
	if err != nil {
		return value{}, err
	}
	if !c.args[0].typ.IsFloat() {
		return reduceInts(c, r)
	}
	x, out := r.x.floats(), make([]float64, r.count)
	err = c.parallelRange(r.count, r.n, func(lo, hi int) {
		f := newFolder(c.node.Op().Info().Fold, c.attrs())
		for i := lo; i < hi; i++ {
			scale := f.fold(row(r, x, i))
			out[i] = math.Ldexp(f.finish(), scale) // undoes the scaling of fold
		}
	})
	return c.floats(out), err
}

// reduceInts computes a reduction of integers or bools.
func reduceInts(c *call, r rows) (value, error) {
	by := basicFolds[c.node.Op()]
	out := make([]int64, r.count)
	err := c.parallelRange(r.count, r.n, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			acc := by.first(c.node.DType())
			for _, x := range row(r, r.x.i64, i) {
				acc = by.ints(acc, x)
			}
			out[i] = acc
		}
	})
	return c.ints(out), err
}

// FoldRow returns the results of an op's fold over one row, unrounded: one for a reduction, or else (as for a norm)
// one for each element.
func FoldRow(n *ir.Node, row []float64) []float64 {
	in := n.Op().Info()
	f := newFolder(in.Fold, n.Attrs())
	scale := f.fold(row)
	if in.Class == ir.ClassReduce {
		return []float64{math.Ldexp(f.finish(), scale)}
	}
	// Only folds of reductions scale their rows (Fold.Homogeneous), so scale is 0 here.
	out := make([]float64, len(row))
	for i, x := range row {
		f.x = x
		out[i] = f.finish()
	}
	return out
}

// folder computes the Fold of an op on one row after the other. Its functions read the fields x, first, results and n.
type folder struct {
	steps       []ir.Step
	maps        []func() float64 // by step: the value to fold for element x; nil for x itself
	finish      func() float64   // the result for the last row folded, and for element x
	x, first    float64          // the current element; the row's first
	results     []float64        // by step
	n           int              // elements of the row
	buf, scaled []float64        // the values that a step folds; the scaled row
	homogeneous bool
}

// newFolder compiles a Fold, with the op's attributes, to a folder.
func newFolder(in *ir.Fold, attrs ir.Attrs) *folder {
	f := &folder{steps: in.Steps, results: make([]float64, len(in.Steps)), homogeneous: in.Homogeneous}
	leaf := func(s *ir.Scalar, _ []func() float64) func() float64 { return f.leaf(s, attrs) }
	apply := func(s *ir.Scalar, args []func() float64) func() float64 {
		compute, x := s.Op.Info().Float, make([]float64, len(args))
		return func() float64 {
			for i, a := range args {
				x[i] = a()
			}
			return compute(x, nil)
		}
	}
	for _, s := range in.Steps {
		if s.Map == nil {
			f.maps = append(f.maps, nil)
			continue
		}
		f.maps = append(f.maps, ir.EvalScalar(s.Map, leaf, apply))
	}
	f.finish = ir.EvalScalar(in.Finish, leaf, apply)
	return f
}

// leaf returns the function that reads the value of s, a leaf of a formula of the fold. attrs are the op's attributes.
func (f *folder) leaf(s *ir.Scalar, attrs ir.Attrs) func() float64 {
	switch s.Leaf {
	case ir.LeafElement:
		return func() float64 { return f.x }
	case ir.LeafResult:
		return func() float64 { return f.results[s.Step] }
	case ir.LeafMean:
		return func() float64 { return f.results[s.Step] / float64(f.n) }
	case ir.LeafFirst:
		return func() float64 { return f.first }
	case ir.LeafCount: // such as the divisor of a variance: the number of elements minus attribute correction
		return func() float64 { return max(float64(f.n)-float64(attrs.Int(s.Attr)), 0) }
	case ir.LeafAttr:
		v := attrs.Float(s.Attr)
		return func() float64 { return v }
	case ir.LeafNumber:
		return func() float64 { return s.Value }
	}
	panic(fmt.Sprintf("interp: a fold of a whole row has no leaf %d", s.Leaf))
}

// fold folds a row, for instance to its sum of squares. If scaling the row scales the result (a homogeneous fold), it
// folds the row divided by 2^scale, so that nothing overflows.
func (f *folder) fold(row []float64) (scale int) {
	f.n = len(row)
	if f.homogeneous {
		row, scale = f.withinRange(row)
	}
	if len(row) > 0 {
		f.first = row[0]
	}
	// Each step reads the results of the steps before.
	for i, s := range f.steps {
		values := row
		if f.maps[i] != nil {
			f.buf = slices.Grow(f.buf[:0], len(row))[:len(row)]
			for j, x := range row {
				f.x = x
				f.buf[j] = f.maps[i]()
			}
			values = f.buf
		}
		f.results[i] = basicFolds[s.By].floats(values)
	}
	return scale
}

// withinRange returns row*2^-scale, with the scale that makes the largest magnitude about 1.
func (f *folder) withinRange(row []float64) ([]float64, int) {
	top := 0.0
	for _, x := range row {
		top = max(top, math.Abs(x))
	}
	if top == 0 || math.IsInf(top, 0) || math.IsNaN(top) { // no scale brings these to 1
		return row, 0
	}
	_, scale := math.Frexp(top)
	f.scaled = slices.Grow(f.scaled[:0], len(row))[:len(row)]
	for i, x := range row {
		f.scaled[i] = math.Ldexp(x, -scale)
	}
	return f.scaled, scale
}

// sumOf returns the sum of a row. It adds the rounding errors separately (Neumaier 1974), so that the result is
// accurate also for f64, of which devices add many parts at once.
func sumOf(row []float64) float64 {
	acc, lost := 0.0, 0.0
	for _, x := range row {
		sum := acc + x
		if math.Abs(acc) >= math.Abs(x) {
			lost += (acc - sum) + x
		} else {
			lost += (x - sum) + acc
		}
		acc = sum
	}
	if math.IsInf(acc, 0) { // lost is NaN
		return acc
	}
	return acc + lost
}

// prodOf returns the product of a row, multiplied in order.
func prodOf(row []float64) float64 {
	acc := 1.0
	for _, x := range row {
		acc *= x
	}
	return acc
}

// maxOf returns the largest element, NaN if there is one, -Inf for an empty row.
func maxOf(row []float64) float64 {
	acc := math.Inf(-1)
	for _, x := range row {
		acc = max(acc, x)
	}
	return acc
}

// minOf returns the smallest element of a row. It is NaN if an element is, and +Inf for an empty row.
func minOf(row []float64) float64 {
	acc := math.Inf(1)
	for _, x := range row {
		acc = min(acc, x)
	}
	return acc
}

// argmax computes op argmax. A NaN beats every number.
func argmax(c *call) (value, error) {
	if c.args[0].typ.IsFloat() {
		return search(c, value.floats, func(x, best float64) bool { return x > best || x != x && best == best })
	}
	return search(c, value.ints, func(x, best int64) bool { return x > best })
}

// argmin computes op argmin. A NaN beats every number.
func argmin(c *call) (value, error) {
	if c.args[0].typ.IsFloat() {
		return search(c, value.floats, func(x, best float64) bool { return x < best || x != x && best == best })
	}
	return search(c, value.ints, func(x, best int64) bool { return x < best })
}

// search returns, for each row along the axis, the index of the first element that no other beats.
func search[T any](c *call, get func(value) []T, beats func(x, best T) bool) (value, error) {
	r, err := foldRows(c, []int64{int64(c.attrs().Int("axis"))})
	if err != nil {
		return value{}, err
	}
	x := get(r.x)
	out := make([]int64, r.count)
	err = c.parallelRange(r.count, r.n, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			out[i] = int64(first(row(r, x, i), beats))
		}
	})
	return c.ints(out), err
}

// first returns the index of the first element that no other beats.
func first[T any](row []T, beats func(x, best T) bool) int {
	best := 0
	for j, x := range row {
		if beats(x, row[best]) {
			best = j
		}
	}
	return best
}
