package frontend

import (
	"errors"
	"fmt"

	"github.com/vkc-go/vkc/ir"
)

// Histogram counts the elements of t, floats, in bins of equal width: i32[bins]. Bin i has the elements from low+i*w to
// below low+(i+1)*w, for w = (high-low)/bins. The last bin has high too. Elements outside of low to high, and NaN, do
// not count.
func (t Tensor) Histogram(bins int, low, high float64) Tensor {
	const op = "histogram"
	t.must(op)
	if !t.DType().IsFloat() || bins < 1 || !(low < high) {
		fail(op, fmt.Errorf("%d bins from %v to %v: want floats, at least one bin, and an ascending range", bins, low,
			high), t)
	}
	t = t.wide()
	bin := t.SubScalar(low).MulScalar(float64(bins)/(high-low)).Clamp(0, float64(bins-1)).Cast(ir.I32)
	inside := t.Ge(t.Lit(low)).And(t.Le(t.Lit(high)))
	return inside.Where(bin, bin.Lit(-1)).Bincount(bins) // Bincount ignores -1
}

// Bincount counts how often each of the numbers 0 to n-1 occurs in t, integers: i32[n]. Other numbers do not count.
func (t Tensor) Bincount(n int) Tensor {
	const op = "bincount"
	t.must(op)
	if !t.DType().IsInteger() || n < 1 {
		fail(op, fmt.Errorf("numbers below %d: want integers, and at least one number", n), t)
	}
	t = t.Reshape(-1)
	return t.b.Full(ir.I32, 0, n).ScatterAdd(0, t, t.b.Full(ir.I32, 1, t.Dim(0)))
}

// CSR is a sparse matrix by compressed rows. Row i has the elements Starts[i] to below Starts[i+1] of Values, which are
// in the columns Columns of the same positions.
type CSR struct {
	Starts  Tensor // integers, one more than rows; the first is 0, and the last the number of elements
	Columns Tensor // integers, one for each element
	Values  Tensor // floats
}

// MatMul returns the matmul of the sparse matrix and x, [columns, k] or a vector [columns]. Values and x have
// gradients. Columns out of range are clamped. It gathers rows of x, and adds them in the order of the elements.
func (s CSR) MatMul(x Tensor) Tensor {
	const op = "sparse matmul"
	for _, t := range []Tensor{s.Starts, s.Columns, s.Values, x} {
		t.must(op)
	}
	if x.Rank() == 1 {
		return s.MatMul(x.Unsqueeze(1)).Squeeze(1)
	}
	if s.Starts.Rank() != 1 || s.Values.Rank() != 1 || x.Rank() != 2 || !s.Columns.Shape().Equal(s.Values.Shape()) {
		fail(op, errors.New("want starts [rows+1], columns and values [elements], and [columns, k] or [columns]"),
			s.Starts, s.Columns, s.Values, x)
	}
	rows, elements := s.Starts.Dim(0).Plus(-1), s.Values.Dim(0)
	// The row of an element is the number of rows after the first that start at it or before it.
	starts := s.Starts.Slice(0, 1, rows)
	marks := x.b.Full(ir.I32, 0, elements).ScatterAdd(0, starts, x.b.Full(ir.I32, 1, rows.Plus(-1)))
	products := s.Values.Unsqueeze(1).Mul(x.IndexSelect(0, s.Columns))
	return x.b.Full(x.DType(), 0, rows, x.Dim(1)).IndexAdd(0, marks.CumSum(0), products)
}
