//go:build !amd64

package fast

func multiply(out []float32, stride int, a, b []float32, rows, cols, k int) {
	multiplyPlain(out, stride, a, b, rows, cols, k)
}

func axpy(y []float32, a float32, x []float32) { axpyPlain(y, a, x) }
