package fast

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"
)

// TestRowPrograms compares each function of row programs with the primitives of its text in Go, for each width of
// vectors and both types: results of rows and of columns, and sums.
func TestRowPrograms(t *testing.T) {
	eachWidth(t, func(t *testing.T) {
		rowProgramsTest[float32](t, 1e-6)
		rowProgramsTest[float64](t, 1e-15)
	})
}

// rowProgramsTest tests the row programs of a type, in which sums may have the given relative error.
func rowProgramsTest[T number](t *testing.T, ofSums float64) {
	functions := rowFoldsOf[T](vector).programs
	if functions == nil {
		return
	}
	rng := rand.New(rand.NewPCG(4, 1))
	list := func(n int, odd bool) []T {
		special := []T{0, T(math.Copysign(0, -1)), T(math.Inf(1)), T(math.Inf(-1)), T(math.NaN()), 1e-40, 1e30, -1e30,
			-90, -104, -720, 700}
		x := make([]T, n)
		for i := range x {
			if x[i] = T(rng.NormFloat64() * 5); odd && rng.IntN(6) == 0 {
				x[i] = special[rng.IntN(len(special))]
			}
		}
		return x
	}
	const rows = 3
	for i, text := range rowPrograms {
		for n := 1; n < 5*vector.lanes; n++ {
			x, before := list(rows*n, true), list(rows, false)
			var numbers, lists, columns [3][]T
			for k := range numbers {
				numbers[k], lists[k], columns[k] = list(rows, n%2 == 0), list(n, n%3 == 0), list(n, n%2 == 0)
			}
			run := func(of rowFunction[T], lists [3][]T, stores bool) (out []T, sums []float64) {
				sums = make([]float64, rows)
				fromNumbers(sums, before)
				if stores {
					out = make([]T, rows*n)
				}
				of(unsafe.SliceData(out), &x[0], &x[0], &numbers[0][0], &numbers[1][0], &numbers[2][0], &lists[0][0],
					&lists[1][0], &sums[0], rows, n)
				return out, sums
			}
			f := functions[i]
			want := wantedRows(text, x, numbers, lists, rows)
			each, _ := run(f.each, lists, true)
			equalRows(t, text, n, each, want)
			for k, of := range []rowFunction[T]{f.sum, f.onlySum} {
				if of == nil {
					continue
				}
				out, sums := run(of, lists, k == 0)
				if k == 0 {
					equalRows(t, text+" with sums", n, out, want)
				}
				for row, sum := range sums {
					y := float64(before[row])
					for _, v := range want[row*n : (row+1)*n] {
						y += float64(v)
					}
					if !near(sum, y, ofSums*(float64(n)+math.Abs(y))) {
						t.Errorf("%T %q, a row of %d: the sum is %g, want %g", x, text, n, sum, y)
					}
				}
			}
			if f.columns != nil {
				ofColumns := strings.ReplaceAll(text, "row", "list")
				out, _ := run(f.columns, columns, true)
				equalRows(t, ofColumns, n, out, wantedRows(ofColumns, x, numbers, columns, rows))
			}
		}
	}
}

// fromNumbers sets out to the numbers x.
func fromNumbers[T number](out []float64, x []T) {
	for i, y := range x {
		out[i] = float64(y)
	}
}

// wantedRows returns the results of a row program for rows x.
func wantedRows[T number](text string, x []T, numbers, lists [3][]T, rows int) []T {
	var b *compilerOf[T] // the method reads only its type
	out, n, number, list := append([]T{}, x...), len(x)/rows, 0, 0
	for _, s := range strings.Fields(text) {
		operand := func(int) T { return 0 }
		switch name, ofRow := strings.CutSuffix(s, "row"); {
		case ofRow:
			of := numbers[number]
			operand, s, number = func(i int) T { return of[i/n] }, name, number+1
		case strings.HasSuffix(s, "list"):
			of := lists[list]
			operand, s, list = func(i int) T { return of[i%n] }, strings.TrimSuffix(s, "list"), list+1
		}
		y := make([]T, len(x))
		for i := range y {
			y[i] = operand(i)
		}
		b.primitive(s).plain(out, out, y, y)
	}
	return out
}

// equalRows compares the results of a row program with the wanted ones. They may differ by the error of e^x.
func equalRows[T number](t *testing.T, text string, n int, have, want []T) {
	t.Helper()
	ulp := float64(math.Nextafter32(1, 2) - 1)
	least := float64(math.SmallestNonzeroFloat32)
	if unsafe.Sizeof(T(0)) == 8 {
		ulp, least = math.Nextafter(1, 2)-1, math.SmallestNonzeroFloat64
	}
	for i, y := range want {
		most := 0.0
		if strings.Contains(text, "exp") {
			most = max(4*ulp*math.Abs(float64(y)), 8*least)
		}
		if !near(float64(have[i]), float64(y), most) {
			t.Fatalf("%T %q, rows of %d: element %d is %g, want %g", have, text, n, i, have[i], y)
		}
	}
}

// near reports whether x and y are finite and differ by at most `most`, or are the same infinity, or NaN.
func near(x, y, most float64) bool {
	return x == y || math.Abs(x-y) <= most && !math.IsInf(y, 0) || x != x && y != y
}
