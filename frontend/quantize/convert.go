package quantize

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
	"github.com/x448/float16"
)

// chunkElems is the approximate number of elements converted at a time: enough work for all cores, but only a few
// megabytes.
const chunkElems = 1 << 20

// run is the state of one WriteFile. done and total count bytes of the source.
type run struct {
	plan        *Plan
	report      *Report
	done, total int64
}

// convert writes tensor i of the plan to out, and adds its errors to the report.
func (r *run) convert(ctx context.Context, i int, out io.Writer) error {
	t := r.plan.Tensors[i]
	src, err := r.plan.source.file.Weight(t.Name)
	if err != nil {
		return err
	}
	c := &converter{Tensor: t, options: &r.plan.options, src: src.Bytes, out: out}
	for first := int64(0); first < t.elems(); {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := c.chunkAt(first)
		if err := c.chunk(first, n); err != nil {
			return err
		}
		first += n
		if report := r.plan.options.Progress; report != nil {
			done := r.done + t.BytesIn*first/t.elems()
			report(Progress{Tensor: t.Name, Index: i, Tensors: len(r.plan.Tensors), Done: done, Total: r.total})
		}
	}
	r.done += t.BytesIn
	r.report.add(t, c.loss)
	return nil
}

// converter converts one tensor.
type converter struct {
	Tensor
	options *Options
	src     []byte
	out     io.Writer
	loss    errorSums // of the chunks so far: the difference between x and y
	x, y    []float32 // a chunk's values, and the values decoded from packed
	raw     []byte    // the chunk in the source's format
	packed  []byte    // the chunk in the new format
}

// chunkAt returns the number of elements of the chunk that begins at element `first`. A chunk has whole rows. If
// matrices have separate importance weights, it does not go past the end of a matrix.
func (c *converter) chunkAt(first int64) int64 {
	columns := int64(c.columns())
	n := max(1, chunkElems/columns) * columns
	if c.Weighted && len(c.Dims) > 2 {
		matrix := columns * int64(c.Dims[len(c.Dims)-2])
		n = min(n, matrix-first%matrix)
	}
	return min(n, c.elems()-first)
}

// chunk converts n elements from element first on, writes them, and adds the error of storing them to c.loss. If the
// tensor keeps its integer dtype or block format, chunk only copies the elements.
func (c *converter) chunk(first, n int64) error {
	from, err := byteRange(c.From, first, n)
	if err != nil {
		return err
	}
	c.raw = resize(c.raw, int(from[1]-from[0]))
	raw := c.raw
	// Another program may truncate the file meanwhile. Guard turns the fault that reading then causes into an error.
	if err := mmap.Guard(func() error { copy(raw, c.src[from[0]:from[1]]); return nil }); err != nil {
		return err
	}
	if !c.From.IsFloat() && c.To == c.From { // integers, and blocks that stay
		_, err := c.out.Write(raw)
		return err
	}
	c.x = resize(c.x, int(n))
	if err := toFloats(c.x, c.From, raw, c.options.Workers); err != nil {
		return err
	}
	c.placeColumns(first)
	size, err := c.To.BytesFor(n)
	if err != nil {
		return err
	}
	c.packed = resize(c.packed, int(size))
	if err := c.pack(first); err != nil {
		return c.locate(err, first)
	}
	c.y = resize(c.y, int(n))
	if err := toFloats(c.y, c.To, c.packed, c.options.Workers); err != nil {
		return err
	}
	c.loss.add(c.x, c.y)
	_, err = c.out.Write(c.packed)
	return err
}

// placeColumns moves column i of each row of c.x to column c.order[i]. `first` is the index of c.x's first element in
// the tensor.
func (c *converter) placeColumns(first int64) {
	if c.order == nil {
		return // the columns are in their places
	}
	c.y = resize(c.y, len(c.x))
	columns := c.columns()
	each := int(c.elems()) / c.matrices() // elements of a matrix
	for i, v := range c.x {
		row, column := i/columns, i%columns
		matrix := (int(first) + i) / each
		c.y[row*columns+c.order[matrix*columns+column]] = v
	}
	c.x, c.y = c.y, c.x
}

// pack encodes c.x into c.packed, with importance weights if the plan says so. first is the index of c.x's first
// element in the tensor.
func (c *converter) pack(first int64) error {
	if !c.To.IsBlock() {
		return fromFloats(c.packed, c.To, c.x)
	}
	opt := &quant.Options{Workers: c.options.Workers}
	if c.Weighted {
		columns := int64(c.columns())
		matrix := 0 // of the stack, whose matrices have their own weights
		if len(c.Dims) > 2 {
			matrix = int(first / (columns * int64(c.Dims[len(c.Dims)-2])))
		}
		row, _, err := c.options.Imatrix.Row(c.Name, int(columns), c.matrices(), matrix)
		if err != nil {
			return err
		}
		opt.Weights = row
	}
	return quant.Quantize(c.packed, c.To, c.x, opt)
}

// locate returns err with the value's place in the tensor instead of the chunk, if err is a *quant.ValueError. `first`
// is the index of the chunk's first element in the tensor.
func (c *converter) locate(err error, first int64) error {
	var bad *quant.ValueError
	if !errors.As(err, &bad) {
		return err
	}
	moved := *bad
	moved.Index += int(first)
	at := make([]int, len(c.Dims))
	rest := moved.Index
	for i := len(c.Dims) - 1; i >= 0; i-- {
		at[i], rest = rest%c.Dims[i], rest/c.Dims[i]
	}
	return fmt.Errorf("element %v: %w", at, &moved)
}

// byteRange returns the byte range of n elements of type t from element first on.
func byteRange(t ir.DType, first, n int64) (r [2]int64, err error) {
	for i, elems := range []int64{first, first + n} {
		if r[i], err = t.BytesFor(elems); err != nil {
			return r, err
		}
	}
	return r, nil
}

// resize returns a slice of n elements with any contents. It reuses the memory of s if that suffices.
func resize[E any](s []E, n int) []E {
	if cap(s) < n {
		return make([]E, n)
	}
	return s[:n]
}

// toFloats decodes elements of type t, in raw, into dst.
func toFloats(dst []float32, t ir.DType, raw []byte, workers int) error {
	le := binary.LittleEndian
	switch {
	case t.IsBlock() && workers == 1:
		return quant.Dequantize(dst, t, raw)
	case t.IsBlock():
		return quant.DequantizeParallel(dst, t, raw)
	case t == ir.F32:
		for i := range dst {
			dst[i] = math.Float32frombits(le.Uint32(raw[4*i:]))
		}
	case t == ir.F16:
		for i := range dst {
			dst[i] = float16.Frombits(le.Uint16(raw[2*i:])).Float32()
		}
	case t == ir.BF16:
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(le.Uint16(raw[2*i:])) << 16)
		}
	default:
		wide, err := (&ir.Data{DType: t, Dims: []int{len(dst)}, Bytes: raw}).Floats()
		if err != nil {
			return err
		}
		for i, v := range wide {
			dst[i] = float32(v)
		}
	}
	return nil
}

// limits are the largest finite numbers of the float types that can be written.
var limits = map[ir.DType]float32{ir.F32: math.MaxFloat32, ir.F16: 65504, ir.BF16: 0x1.fep127}

// fromFloats encodes x as floats of type t. A value out of t's range is an error.
func fromFloats(dst []byte, t ir.DType, x []float32) error {
	limit := limits[t]
	wide := make([]float64, len(x))
	for i, v := range x {
		if !(v <= limit && v >= -limit) {
			return &quant.ValueError{Type: t, Index: i, Value: v, Limit: limit}
		}
		wide[i] = float64(v)
	}
	d, err := ir.FromFloats(t, wide, len(x))
	if err != nil {
		return err
	}
	copy(dst, d.Bytes)
	return nil
}
