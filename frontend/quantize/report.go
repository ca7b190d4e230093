package quantize

import "math"

// Report describes the errors that quantization has made in a model.
type Report struct {
	Tensors []TensorReport
	Notes   []string // about the file as a whole
	Files   []string // that were written

	BytesIn, BytesOut int64   // of all tensors
	RMSE              float64 // of all elements, see TensorReport
	sums              errorSums
}

// TensorReport describes the error of one tensor.
type TensorReport struct {
	Tensor

	// RMSE is the square root of the mean squared error divided by the values' mean square: 0 for a lossless result, 1
	// if all values became zeros.
	RMSE     float64
	MaxError float64 // of any element, absolute
}

// Ratio returns by which factor the tensors became smaller.
func (r *Report) Ratio() float64 {
	if r.BytesOut == 0 {
		return 1
	}
	return float64(r.BytesIn) / float64(r.BytesOut)
}

// add adds the line of a tensor.
func (r *Report) add(t Tensor, e errorSums) {
	r.Tensors = append(r.Tensors, TensorReport{Tensor: t, RMSE: e.relative(), MaxError: e.worst})
	r.BytesIn += t.BytesIn
	r.BytesOut += t.BytesOut
	r.sums.error += e.error
	r.sums.total += e.total
	r.RMSE = r.sums.relative()
}

// errorSums accumulates the error of storing values x as y.
type errorSums struct {
	error, total float64 // sums of the squares of y-x, and of x
	worst        float64 // the largest |y-x|
}

// add adds the errors of elements x that were stored as y.
func (e *errorSums) add(x, y []float32) {
	for i, v := range x {
		d := float64(y[i]) - float64(v)
		// float64 rounds the product before the sum, on every processor.
		e.error += float64(d * d)
		e.total += float64(float64(v) * float64(v))
		e.worst = max(e.worst, math.Abs(d))
	}
}

// relative returns the root of the squared error divided by the sum of squares. It is 0 for a tensor without errors.
func (e *errorSums) relative() float64 {
	if e.error == 0 {
		return 0
	}
	return math.Sqrt(e.error / e.total)
}
