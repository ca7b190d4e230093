package interp

import (
	"math"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

func TestCompare(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	e32 := 0x1p-23
	for _, tc := range []struct {
		name      string
		dt        ir.DType
		got, want []float64
		tol       ir.Tolerance
		bad       int
		index     int
	}{
		{"equal", ir.F32, []float64{1, 2}, []float64{1, 2}, ir.Tolerance{}, 0, 0},
		{"special values", ir.F32, []float64{nan, inf, -inf}, []float64{nan, inf, -inf}, ir.Tolerance{}, 0, 0},
		{"inf against -inf", ir.F32, []float64{1, inf}, []float64{1, -inf}, ir.Tolerance{Abs: 1e30}, 1, 1},
		{"number against NaN", ir.F32, []float64{1, 1}, []float64{nan, 1}, ir.Tolerance{Abs: 1e30}, 1, 0},
		{"NaN against number", ir.F32, []float64{nan, 1}, []float64{1, 1}, ir.Tolerance{Abs: 1e30}, 1, 0},
		{"exact refuses one unit", ir.F32, []float64{1 + e32}, []float64{1}, ir.Tolerance{}, 1, 0},
		{"exact refuses a flush", ir.F32, []float64{0}, []float64{1e-40}, ir.Tolerance{}, 1, 0},
		{"inexact takes a flush", ir.F32, []float64{0}, []float64{1e-40}, ir.Tolerance{Eps: 1}, 0, 0},
		{"two units of two", ir.F32, []float64{4 + 8*e32}, []float64{4}, ir.Tolerance{Eps: 2}, 0, 0},
		{"three units of two", ir.F32, []float64{4, 4 + 12*e32}, []float64{4, 4}, ir.Tolerance{Eps: 2}, 1, 1},
		{"not a sum", ir.F32, []float64{1000, 1e-4}, []float64{1000, 0}, ir.Tolerance{Eps: 2}, 1, 1},
		{"a sum", ir.F32, []float64{1000, 1e-4}, []float64{1000, 0}, ir.Tolerance{Eps: 2, Sum: true}, 0, 1},
		{"a sum beside infinity", ir.F32, []float64{inf, 1}, []float64{inf, 0}, ir.Tolerance{Eps: 2, Sum: true}, 1, 1},
		{"absolute", ir.F32, []float64{1e-6}, []float64{0}, ir.Tolerance{Abs: 2e-6}, 0, 0},
		{"half precision", ir.F16, []float64{1 + 0x1p-10}, []float64{1}, ir.Tolerance{Eps: 1}, 0, 0},
		{"double precision", ir.F64, []float64{1 + 0x1p-52}, []float64{1}, ir.Tolerance{Eps: 1}, 0, 0},
		{"single is not double", ir.F64, []float64{1 + e32}, []float64{1}, ir.Tolerance{Eps: 1}, 1, 0},
		{"integers are exact", ir.I32, []float64{7, 8}, []float64{7, 9}, ir.Tolerance{Eps: 1e9, Abs: 10}, 1, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := Compare(floats(t, tc.dt, tc.got, len(tc.got)), floats(t, tc.dt, tc.want, len(tc.want)), tc.tol)
			if r.OK != (tc.bad == 0) || r.Bad != tc.bad || r.Index != tc.index || r.Elems != len(tc.want) ||
				(r.Err() == nil) != r.OK {
				t.Errorf("got %+v", r)
			}
		})
	}
}

func TestCompareReport(t *testing.T) {
	want := floats(t, ir.F32, []float64{1, 2, 4, 0.5}, 2, 2)
	r := Compare(floats(t, ir.F32, []float64{1, 2.5, 4.25, 0.5}, 2, 2), want, ir.Tolerance{Abs: 0.3})
	if r.WorstAbs != 0.5 || r.WorstRel != 0.25 || r.Coord[0] != 0 || r.Coord[1] != 1 || r.Got != 2.5 || r.Want != 2 {
		t.Errorf("got %+v", r)
	}
	if s := r.Err().Error(); s != "1 of 4 elements are past the tolerance, worst at [0 1]: have 2.5, want 2 ±0.3" {
		t.Error(s)
	}
	r = Compare(floats(t, ir.F16, nil, 0), want, ir.Tolerance{})
	if r.OK || r.Err() == nil || r.Err().Error() != "have f16[0], want f32[2 2]" {
		t.Errorf("got %v", r.Err())
	}
	big := integers(t, ir.I64, []int64{math.MaxInt64}, 1)
	if r := Compare(integers(t, ir.I64, []int64{math.MaxInt64 - 1}, 1), big, ir.Tolerance{}); r.OK {
		t.Error("integers that float64 cannot tell apart count as equal")
	}
	if r := Compare(&ir.Data{DType: ir.F32, Dims: []int{1}}, &ir.Data{DType: ir.F32, Dims: []int{1}},
		ir.Tolerance{}); r.OK || !strings.Contains(r.Mismatch, "needs 4 bytes") {
		t.Errorf("tensors without bytes give %+v", r)
	}
}

// TestTolerancesOfPrecisions: the tolerance of a matmul covers the error that its precision allows. Matmuls with
// matrices selected by ids have the same tolerance.
func TestTolerancesOfPrecisions(t *testing.T) {
	for _, tc := range []struct {
		precision string
		least     float64 // relative
	}{
		{ir.PrecisionFull, 0}, {ir.PrecisionBF16x3, 0x1p-15 + 4*0x1p-24}, {ir.PrecisionHalf, 0x1p-10}, {ir.PrecisionHalfSums, 32 * 0x1p-10}, {ir.PrecisionBytes, 6.0 / 254},
	} {
		b := newGraph(t)
		x, w := b.input("x", ir.F32, ir.ShapeOf(2, 1, 32)), b.input("w", ir.F32, ir.ShapeOf(3, 8, 32))
		ids := b.input("ids", ir.I32, ir.ShapeOf(2, 1))
		for _, n := range []*ir.Node{
			b.add(ir.OpMatMul, []*ir.Node{x, b.input("one", ir.F32, ir.ShapeOf(32, 8))}, "precision", tc.precision),
			b.add(ir.OpMatMulID, []*ir.Node{x, w, ids}, "precision", tc.precision),
		} {
			usual := n.Op().Info().Tol.Eps * 0x1p-23
			if rel := ToleranceOf(b.Graph, n).Eps * 0x1p-23; rel < usual || math.Abs(rel-usual-tc.least) > 1e-9 {
				t.Errorf("%s in %s: %g relative, want %g", n.Op(), tc.precision, rel, usual+tc.least)
			}
		}
	}
}

func TestTolerances(t *testing.T) {
	b := newGraph(t)
	x := b.input("x", ir.F32, ir.ShapeOf(4))
	exact := b.add(ir.OpNeg, []*ir.Node{x})
	once := b.add(ir.OpExp, []*ir.Node{exact})               // 64 units
	twice := b.add(ir.OpExp, []*ir.Node{once})               // 64*sqrt(2)
	join := b.add(ir.OpMax, []*ir.Node{exact, twice})        // exact itself
	test := b.add(ir.OpGt, []*ir.Node{twice, x})             // a bool
	half := b.add(ir.OpCast, []*ir.Node{x}, "dtype", ir.F16) // one unit of f16, one of f32
	back := b.add(ir.OpCast, []*ir.Node{half}, "dtype", ir.F32)
	index := b.add(ir.OpArgmax, []*ir.Node{twice}, "axis", 0)
	after := b.add(ir.OpIndexSelect, []*ir.Node{x, b.add(ir.OpReshape, []*ir.Node{index}, "shape", ir.ShapeOf(1))})
	total := b.add(ir.OpSum, []*ir.Node{exact})
	for _, tc := range []struct {
		name     string
		n        *ir.Node
		eps, abs float64
		sum      bool
	}{
		{"input", x, 0, 0, false},
		{"exact op", exact, 0, 0, false},
		{"one op", once, 64, 64e-9, false},
		{"two ops", twice, 64 * math.Sqrt2, 64e-9 * math.Sqrt2, true},
		{"the worse path", join, 64 * math.Sqrt2, 64e-9 * math.Sqrt2, true},
		{"bool", test, 0, 0, false},
		{"narrow", half, 1 + 0x1p-13, 0, false},
		{"wide after narrow", back, math.Hypot(1<<13+1, 1), 0, true},
		{"index", index, 0, 0, false},
		{"after an index", after, 0, 0, false},
		{"a sum of exact numbers", total, 64, 1e-6, true},
	} {
		got := ToleranceOf(b.Graph, tc.n)
		near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }
		if !near(got.Eps, tc.eps) || !near(got.Abs, tc.abs) || got.Sum != tc.sum {
			t.Errorf("%s: got %+v, want Eps %g Abs %g Sum %v", tc.name, got, tc.eps, tc.abs, tc.sum)
		}
	}
}
