package quant

import (
	"fmt"
	"math"

	"github.com/vkc-go/vkc/ir"
)

// Dequantize decodes the blocks src of format t into dst, on the calling goroutine and without allocating. src must be
// whole blocks and dst exactly their elements. It returns an *UnsupportedError if t cannot be decoded.
func Dequantize(dst []float32, t ir.DType, src []byte) error {
	c, err := decoder(t, len(dst), len(src))
	if err != nil {
		return err
	}
	decode(c, t, dst, src)
	return nil
}

// DequantizeParallel is Dequantize spread over all cores, for whole tensors.
func DequantizeParallel(dst []float32, t ir.DType, src []byte) error {
	c, err := decoder(t, len(dst), len(src))
	if err != nil {
		return err
	}
	elems, bytes := t.BlockElems(), t.BlockBytes()
	return forChunks(len(src)/bytes, elems, 0, func(lo, hi int) error {
		decode(c, t, dst[lo*elems:hi*elems], src[lo*bytes:hi*bytes])
		return nil
	})
}

// DequantizeRow decodes one row of a matrix src in format t to dst, which has as many elements as a row. Like
// Dequantize it does not allocate, so it suits table lookups and readers that process one row at a time.
func DequantizeRow(dst []float32, t ir.DType, src []byte, row int) error {
	rowBytes, err := t.BytesFor(int64(len(dst)))
	if err != nil {
		return fmt.Errorf("dequantize row of %s: %w", t, err)
	}
	c, err := decoder(t, len(dst), int(rowBytes))
	if err != nil {
		return err
	}
	if len(dst) == 0 || len(src)%int(rowBytes) != 0 {
		return fmt.Errorf("dequantize %s: %d bytes are not a whole number of rows of %d elements", t,
			len(src), len(dst))
	}
	if rows := len(src) / int(rowBytes); row < 0 || row >= rows {
		return fmt.Errorf("dequantize %s: row %d of a matrix with %d rows", t, row, rows)
	}
	decode(c, t, dst, src[row*int(rowBytes):][:rowBytes])
	return nil
}

// decoder returns the codec of t after checking that nsrc bytes are whole blocks that decode to ndst elements.
func decoder(t ir.DType, ndst, nsrc int) (codec, error) {
	c := codecOf(t)
	if c.dequantize == nil {
		return c, unsupported(t, "dequantize", func(c codec) bool { return c.dequantize != nil })
	}
	return c, checkLengths("dequantize", t, ndst, nsrc)
}

// checkLengths checks that n elements are whole blocks of t that take exactly
// nbytes bytes.
func checkLengths(what string, t ir.DType, n, nbytes int) error {
	elems, bytes := t.BlockElems(), t.BlockBytes()
	switch {
	case nbytes%bytes != 0:
		return fmt.Errorf("%s %s: %d bytes are not a whole number of %d-byte blocks", what, t, nbytes, bytes)
	case n%elems != 0:
		return fmt.Errorf("%s %s: %d elements are not a whole number of blocks of %d", what, t, n, elems)
	case n/elems != nbytes/bytes:
		return fmt.Errorf("%s %s: %d elements take %d bytes, not %d", what, t, n, n/elems*bytes, nbytes)
	}
	return nil
}

// decode decodes whole blocks. The caller has checked the lengths.
func decode(c codec, t ir.DType, dst []float32, src []byte) {
	elems, bytes := t.BlockElems(), t.BlockBytes()
	for len(src) > 0 {
		c.dequantize(dst[:elems], src[:bytes])
		dst, src = dst[elems:], src[bytes:]
	}
}

// Options adjusts Quantize. The zero value, and nil, mean the defaults.
type Options struct {
	// Weights is the importance of each element of a row (one row of an importance matrix). Its length is the row
	// length, and every row of the source uses it. Nil means ggml's behavior without an importance matrix, and least
	// squared error for the formats with a codebook. Only formats that fit their scales can use weights (see
	// UsesWeights); package imatrix reads them.
	Weights []float32

	// Workers bounds the goroutines used for large inputs; zero means one per
	// core. The result does not depend on it.
	Workers int
}

// Quantize encodes src in format t into dst, over all cores if src is large. src must be whole blocks and dst exactly
// their bytes.
//
// It returns an *UnsupportedError if t cannot be encoded (or not with the given options), and a *ValueError for the
// first value that is NaN, infinite or too large for t; dst is then only partly written.
func Quantize(dst []byte, t ir.DType, src []float32, opt *Options) error {
	if opt == nil {
		opt = &Options{}
	}
	c := codecOf(t)
	if c.quantize == nil {
		return unsupported(t, "quantize", func(c codec) bool { return c.quantize != nil })
	}
	if err := checkLengths("quantize", t, len(src), len(dst)); err != nil {
		return err
	}
	if err := checkWeights(c, t, opt.Weights, len(src)); err != nil {
		return err
	}
	elems := t.BlockElems()
	return forChunks(len(src)/elems, elems, opt.Workers, func(lo, hi int) error {
		return encode(c, t, dst, src, opt.Weights, lo, hi)
	})
}

// encode encodes blocks lo to hi-1 of src. It returns a *ValueError for a value that the format cannot represent.
func encode(format codec, t ir.DType, dst []byte, src, weights []float32, lo, hi int) error {
	elems, bytes := t.BlockElems(), t.BlockBytes()
	for i := lo; i < hi; i++ {
		x := src[i*elems:][:elems]
		if j := firstAbove(x, format.limit); j >= 0 {
			return &ValueError{Type: t, Index: i*elems + j, Value: x[j], Limit: format.limit}
		}
		var w []float32
		if weights != nil {
			w = weights[i*elems%len(weights):][:elems] // the same weights for each row
		}
		format.quantize(dst[i*bytes:][:bytes], x, w)
	}
	return nil
}

// firstAbove returns the index of the first element of x with a magnitude above limit, or -1. As integers, the
// magnitude bits of infinities and NaNs are larger than the bits of every finite number, so one comparison detects all
// of them.
func firstAbove(x []float32, limit float32) int {
	bound := math.Float32bits(limit)
	for i, v := range x {
		if math.Float32bits(v)&^(1<<31) > bound {
			return i
		}
	}
	return -1
}

// maxWeight bounds importance weights, so that sums of products stay finite.
const maxWeight = 1e9

// checkWeights checks that the format t can use importance weights, and that there is a valid one for each element of a
// row.
func checkWeights(c codec, t ir.DType, weights []float32, n int) error {
	if weights == nil {
		return nil
	}
	if !c.weighted {
		return unsupported(t, "quantize with weights", func(c codec) bool { return c.weighted })
	}
	if len(weights) == 0 || len(weights)%t.BlockElems() != 0 || n%len(weights) != 0 {
		return fmt.Errorf("quantize %s: %d weights for %d values: want one per element of a row, a multiple of %d "+
			"that divides the values",
			t, len(weights), n, t.BlockElems())
	}
	for i, w := range weights {
		if !(w >= 0 && w <= maxWeight) {
			return fmt.Errorf("quantize %s: weight %d is %g: want 0 to %g", t, i, w, float64(maxWeight))
		}
	}
	return nil
}
