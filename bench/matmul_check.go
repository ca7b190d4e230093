package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// checkMatMul compares all of y[m,n] with x[m,k] times the transpose of w[n,k]. Samples alone could miss a wrong tile.
func checkMatMul(x, w, y *ir.Data, tol ir.Tolerance) error {
	largest, err := largestOf(y)
	if err != nil {
		return err
	}
	allowed := tol.Abs + tol.Eps*epsilon(y.DType)*largest
	if x.Dims[0] == 1 {
		return checkColumns(x, w, y, allowed)
	}
	return checkRows(x, w, y, allowed*math.Sqrt(float64(w.Dims[0])))
}

// checkColumns compares all elements of y[1,n] with the products of x[1,k] and each row of w[n,k]. allowed is the
// largest permitted difference.
func checkColumns(x, w, y *ir.Data, allowed float64) error {
	row, have := make([]float64, x.Dims[1]), make([]float64, y.Dims[1])
	decode(row, x.DType, x.Bytes)
	decode(have, y.DType, y.Bytes)
	want, err := dotRows(w, row)
	if err != nil {
		return err
	}
	for i := range have {
		if d := math.Abs(have[i] - want[i]); !(d <= allowed) { // false for NaN too
			return fmt.Errorf("output \"y\": element [0,%d] is %v, want %v ±%.3g", i, have[i], want[i], allowed)
		}
	}
	return nil
}

// checkRows checks a matmul by Freivalds' method (1977): for a random vector r of signs, y r must equal x (wᵀ r), which
// needs no matmul. allowed is the largest permitted difference of an element of y r. A wrong tile changes the sums of
// its rows by more than tolerated errors can add up to, because those have random signs.
func checkRows(x, w, y *ir.Data, allowed float64) error {
	m, n, k := x.Dims[0], w.Dims[0], x.Dims[1]
	rng := rand.New(rand.NewPCG(11, 13))
	signs := make([]float64, n)
	for i := range signs {
		signs[i] = float64(1 - 2*rng.IntN(2)) // 1 or -1
	}
	folded, err := foldRows(w, signs, k)
	if err != nil {
		return err
	}
	want, err := dotRows(x, folded)
	if err != nil {
		return err
	}
	have, err := dotRows(y, signs)
	if err != nil {
		return err
	}
	for i := range m {
		if d := math.Abs(have[i] - want[i]); !(d <= allowed) {
			return fmt.Errorf("output \"y\": the elements of row %d, added up with random signs, are %v, want %v ±%.3g",
				i, have[i], want[i], allowed)
		}
	}
	return nil
}

// epsilon is half the distance from 1 to the next value of a dtype, at least f32's.
func epsilon(t ir.DType) float64 {
	switch t {
	case ir.F16:
		return 0x1p-11
	case ir.BF16:
		return 0x1p-8
	}
	return 0x1p-24
}

// decode converts raw, elements of dtype t, to float64 values.
func decode(values []float64, t ir.DType, raw []byte) {
	if t.IsFloat() {
		ir.DecodeFloats(values, t, raw)
		return
	}
	list := make([]int64, len(values))
	ir.DecodeInts(list, t, raw)
	for i, v := range list {
		values[i] = float64(v)
	}
}

// rowChunk is how many rows are decoded by one goroutine.
const rowChunk = 64

// eachRow decodes the rows of a matrix to float64 and calls f for each, on all cores. Goroutines process chunks of
// rowChunk rows; chunk is the index of the row's chunk. values is only valid during the call.
func eachRow(d *ir.Data, f func(chunk, row int, values []float64)) error {
	rows, width := d.Dims[0], d.Dims[1]
	size := len(d.Bytes) / max(rows, 1) // bytes of a row
	var failed error
	var mu sync.Mutex
	chunks(rows, rowChunk, func(chunk, from, to int) {
		values, narrow := make([]float64, width), make([]float32, width)
		for i := from; i < to; i++ {
			raw := d.Bytes[i*size : (i+1)*size]
			if d.DType.IsBlock() {
				if err := quant.Dequantize(narrow, d.DType, raw); err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
					return
				}
				for j, v := range narrow {
					values[j] = float64(v)
				}
			} else {
				decode(values, d.DType, raw)
			}
			f(chunk, i, values)
		}
	})
	return failed
}

// foldRows returns the sum of the rows of d, each times its factor: a vector of the given width.
func foldRows(d *ir.Data, factors []float64, width int) ([]float64, error) {
	// Each chunk of rows has its own sum, so that cores need not wait for each other, and sums are reproducible.
	parts := make([][]float64, (d.Dims[0]+rowChunk-1)/rowChunk)
	err := eachRow(d, func(chunk, row int, values []float64) {
		if parts[chunk] == nil {
			parts[chunk] = make([]float64, width)
		}
		for j, v := range values {
			parts[chunk][j] += factors[row] * v
		}
	})
	sum := make([]float64, width)
	for _, p := range parts {
		for j, v := range p {
			sum[j] += v
		}
	}
	return sum, err
}

// dotRows returns the dot product of every row with a vector.
func dotRows(d *ir.Data, vector []float64) ([]float64, error) {
	out := make([]float64, d.Dims[0])
	err := eachRow(d, func(_, row int, values []float64) {
		sum := 0.0
		for j, v := range values {
			sum += v * vector[j]
		}
		out[row] = sum
	})
	return out, err
}

// largestOf returns the largest magnitude of an element of d.
func largestOf(d *ir.Data) (float64, error) {
	rows := make([]float64, d.Dims[0])
	err := eachRow(d, func(_, row int, values []float64) {
		for _, v := range values {
			rows[row] = max(rows[row], math.Abs(v))
		}
	})
	largest := 0.0
	for _, v := range rows {
		largest = max(largest, v)
	}
	return largest, err
}
