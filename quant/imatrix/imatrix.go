// Package imatrix reads importance matrices: for each weight matrix of a model,
// how large the activations are that each of its columns meets. Package quant
// takes one row of it as weights, so that the columns that matter keep more of
// their precision.
//
// Two file forms are in use, both written by llama.cpp's llama-imatrix: an older
// binary form (Read) and a GGUF file (FromTensors). Either holds sums of squared
// activations and how many were summed. Only the ratios within a row matter to a
// quantizer, so the numbers of summands are not used and rows get a mean of one.
package imatrix

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// Matrix holds the importance of the weights of one model.
type Matrix struct {
	Chunks   int      // pieces of text that were run; zero where the file does not say
	Datasets []string // names of the texts, as the file has them

	// sums are the sums of squares for each weight, matrix by matrix where it is a
	// stack of matrices, as the weights of a mixture of experts are.
	sums map[string][]float32
}

// Names returns the weights that m knows, sorted.
func (m *Matrix) Names() []string { return slices.Sorted(maps.Keys(m.sums)) }

// Row returns the importance of each of the columns of a weight that has that
// many columns (its innermost axis) in each of a number of stacked matrices, for
// one of these. The mean is one, and all are one where the matrix saw no
// activation. ok is false where m does not know the weight.
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

// scaled returns sums with a mean of one, or ones where all are zero.
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

// firstBad returns the index of the first value that is not a sum of squares:
// negative, infinite or NaN. It is -1 where all are.
func firstBad(values []float32) int {
	return slices.IndexFunc(values, func(v float32) bool { return !(v >= 0 && v <= math.MaxFloat32) })
}
