// Package imatrix reads importance matrices: for each weight matrix of a model, the mean squared activations per
// column. Package quant uses one row as weights, so that important columns keep more precision.
//
// There are two file formats, both written by llama.cpp's llama-imatrix: an older binary format (Read) and a GGUF file
// (FromTensors). Both have sums of squared activations and the number of summands. Only ratios within a row matter to a
// quantizer, so the numbers of summands are ignored and rows are scaled to a mean of one.
package imatrix

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// Matrix holds the importance of the weights of one model.
type Matrix struct {
	Chunks   int      // chunks of text that were run; zero if unknown
	Datasets []string // names of the texts, as the file has them

	// sums are the sums of squares for each weight. For a stack of matrices, as in a mixture of experts, they are
	// listed matrix by matrix.
	sums map[string][]float32
}

// Names returns the weights that m knows, sorted.
func (m *Matrix) Names() []string { return slices.Sorted(maps.Keys(m.sums)) }

// Row returns the importance of each column of one matrix in a weight. The weight is a stack of matrices, and columns
// is the extent of its innermost axis. The mean of a row is 1. If the matrix had no activations, each element is 1.
// ok is false if m does not have the weight.
func (m *Matrix) Row(name string, columns, matrices, matrix int) (row []float32, ok bool, err error) {
	sums, ok := m.sums[name]
	if !ok {
		return nil, false, nil
	}
	if matrix < 0 || matrix >= matrices || columns <= 0 {
		return nil, true, fmt.Errorf("imatrix: %q: matrix %d of %d with %d columns", name, matrix, matrices, columns)
	}
	switch len(sums) {
	case columns:
		matrix = 0 // one row for all
	case columns * matrices:
	default:
		return nil, true, fmt.Errorf("imatrix: %q has %d values; a weight of %d matrices with %d columns takes %d: "+
			"is the file of this model?",
			name, len(sums), matrices, columns, columns*matrices)
	}
	return scaled(sums[matrix*columns:][:columns]), true, nil
}

// scaled returns sums divided by their mean. If all are zero, it returns ones.
func scaled(sums []float32) []float32 {
	var total float64
	for _, v := range sums {
		total += float64(v)
	}
	row := make([]float32, len(sums))
	for i, v := range sums {
		row[i] = 1
		if total > 0 {
			row[i] = float32(float64(v) * float64(len(sums)) / total)
		}
	}
	return row
}

// firstBad returns the index of the first value that cannot be a sum of squares: negative, infinite or NaN. It is -1 if
// there is none.
func firstBad(values []float32) int {
	return slices.IndexFunc(values, func(v float32) bool { return !(v >= 0 && v <= math.MaxFloat32) })
}
