package fast

import "math"

//go:generate go -C gen run . -out ../dots_amd64.s -stubs ../dots_amd64.go -pkg fast
//go:generate go -C gen run . -ints -out ../ints_amd64.s -stubs ../ints_amd64.go -pkg fast
//go:generate go -C gen run . -panels -out ../panels_amd64.s -stubs ../panels_amd64.go -pkg fast
//go:generate go -C gen run . -arm64 ../dots_arm64
//go:generate go -C gen run . -convs -out ../convs_amd64.s -stubs ../convs_amd64.go -pkg fast
//go:generate go -C gen run . -functions -out ../functions_amd64.s -stubs ../functions_amd64.go -pkg fast
//go:generate go -C gen run . -memory -out ../memory_amd64.s -stubs ../memory_amd64.go -pkg fast

// dot returns the dot product of two lists, without assembly. It has four independent sums, so that the processor can
// overlap additions. b has at least as many elements as a.
func dot(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	k := 0
	for ; k+4 <= len(a); k += 4 {
		s0 += float32(a[k] * b[k])
		s1 += float32(a[k+1] * b[k+1])
		s2 += float32(a[k+2] * b[k+2])
		s3 += float32(a[k+3] * b[k+3])
	}
	for ; k < len(a); k++ {
		s0 += float32(a[k] * b[k])
	}
	return (s0 + s1) + (s2 + s3)
}

// multiplyPlain computes in Go what multiply does: the product of a [rows,k] and the transpose of b [cols,k]. Rows of
// out are stride elements apart.
func multiplyPlain(out []float32, stride int, a, b []float32, rows, cols, k int) {
	for i := range rows {
		for j := range cols {
			out[i*stride+j] = dot(a[i*k:(i+1)*k], b[j*k:(j+1)*k])
		}
	}
}

// weighPlain sets the elements of out from index first on to the weighted sums of rows, in Go. weigh does that for all
// elements. Row j has len(out) elements and weight weights[j].
func weighPlain(out, weights, rows []float32, first int) {
	clear(out[first:])
	for j, w := range weights {
		row := rows[j*len(out) : (j+1)*len(out)]
		for i := first; i < len(out); i++ {
			out[i] += float32(w * row[i])
		}
	}
}

// expsPlain replaces each element by exp(x-shift) in Go, as exps does.
func expsPlain(x []float32, shift float32) {
	for i, v := range x {
		x[i] = float32(math.Exp(float64(v - shift)))
	}
}

// fillPlain sets all elements of a list to x in Go, as fill does.
func fillPlain(list []float32, x float32) {
	for i := range list {
		list[i] = x
	}
}
