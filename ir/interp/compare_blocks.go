package interp

import (
	"bytes"
	"fmt"
	"math"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// compareBlocks compares quantized tensors. Blocks with the same bits are equal. Otherwise elements may be one level
// apart and scales rounded differently: values that differ in their last bits can be rounded to either side of the
// midpoint of two levels.
func compareBlocks(got, want *ir.Data) Report {
	g, errG := decodeAll(got)
	w, errW := decodeAll(want)
	if errG != nil || errW != nil {
		return Report{Mismatch: fmt.Sprintf("have %v, want %v", errG, errW)}
	}
	t := want.DType
	n, size := t.BlockElems(), t.BlockBytes()
	r := Report{OK: true, Elems: len(w)}
	worst := -1.0
	for i := range len(w) / n {
		if bytes.Equal(got.Bytes[i*size:(i+1)*size], want.Bytes[i*size:(i+1)*size]) {
			continue
		}
		allowed := levelOf(t, w[i*n:(i+1)*n])
		for j := i * n; j < (i+1)*n; j++ {
			err := math.Abs(float64(g[j]) - float64(w[j]))
			r.WorstAbs = max(r.WorstAbs, err)
			r.WorstRel = max(r.WorstRel, err/math.Abs(float64(w[j])))
			if !(err <= allowed) { // also if err is NaN
				r.OK = false
				r.Bad++
			}
			// The report has the element that is the farthest beyond its bound.
			if past := err - allowed; past > worst || worst < 0 {
				worst = max(past, 0)
				r.Index, r.Got, r.Want, r.Allowed = j, float64(g[j]), float64(w[j]), allowed
			}
		}
	}
	r.locate(want.Dims)
	return r
}

// decodeAll returns all elements of a quantized tensor.
func decodeAll(d *ir.Data) ([]float32, error) {
	out := make([]float32, d.Elems())
	return out, quant.DequantizeParallel(out, d.DType, d.Bytes)
}

// levelOf returns an upper bound for the distance between neighbouring levels of a block with these elements.
func levelOf(t ir.DType, block []float32) float64 {
	largest := 0.0
	for _, v := range block {
		largest = max(largest, math.Abs(float64(v)))
	}
	bits := t.BlockBytes() * 8 / t.BlockElems()
	return 1.5 * largest / float64(int(1)<<(bits-1)-1) // some formats have a larger distance between levels on one side
}
