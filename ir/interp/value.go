package interp

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"github.com/vkc-go/vkc/internal/hostmem"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// value is a tensor during a run: row-major and immutable, so that views that keep the order of elements can share its
// slices. Exactly one of the six fields of elements is set.
type value struct {
	typ  ir.DType
	dims []int

	f64   []float64 // floats
	f32   []float32 // floats that float32 represents exactly, in half the memory: constants and results of kernels
	i64   []int64   // integers, and bools as 0 and 1
	i32   []int32   // integers of at most 32 bits, and bools; see isWord
	block *blocks   // GGML blocks
	small *Stored   // elements of at most 16 bits in the format of tensors, for kernels of a backend that accept them

	buf   *buffer // the reusable memory of f32, or nil
	lent  bool    // the caller owns the elements, so a state must not keep them
	more  []value // the results of an if or a loop after the first
	apart int     // stride in elements between matrices, for kernels that accept it; 0 means contiguous
}

// blocks is a tensor of blocks. dec has the decoded floats, once an op has needed all elements.
type blocks struct {
	Stored
	once sync.Once
	dec  []float32
	err  error
}

// newBlocks returns a tensor of blocks of dtype t with these bytes.
func newBlocks(t ir.DType, bytes []byte) *blocks {
	return &blocks{Stored: Stored{DType: t, Bytes: bytes}}
}

// decode returns all elements, dequantized. It computes them once; callers share the result.
func (b *blocks) decode() ([]float32, error) {
	b.once.Do(func() {
		n := len(b.Bytes) / b.DType.BlockBytes() * b.DType.BlockElems()
		if b.err = hostmem.Check(4 * int64(n)); b.err != nil {
			return
		}
		dec := make([]float32, n)
		// Guard turns a fault of the mapped file into an error: after a panic, once would never decode again.
		b.err = mmap.Guard(func() error { return quant.DequantizeParallel(dec, b.DType, b.Bytes) })
		if b.err == nil {
			b.dec = dec
		}
	})
	return b.dec, b.err
}

// elems returns the number of elements of a shape.
func elems(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// makeValue returns a zeroed value.
func makeValue(t ir.DType, dims []int) (value, error) {
	if err := hostmem.Check(bytesOf(t, dims)); err != nil {
		return value{}, err
	}
	v := value{typ: t, dims: dims}
	n := elems(dims)
	switch {
	case t.IsBlock():
		size, err := t.BytesFor(int64(n))
		if err != nil {
			return value{}, err
		}
		v.block = newBlocks(t, make([]byte, size))
	case t.IsFloat():
		v.f64 = make([]float64, n)
	default:
		v.i64 = make([]int64, n)
	}
	return v, nil
}

// fromData decodes a host tensor that passed its Check. A value of blocks shares the tensor's memory.
func fromData(d *ir.Data) (value, error) {
	v := value{typ: d.DType, dims: d.Dims}
	if !d.DType.IsBlock() {
		if err := hostmem.Check(bytesOf(d.DType, d.Dims)); err != nil {
			return value{}, err
		}
	}
	switch {
	case d.DType.IsBlock():
		v.block = newBlocks(d.DType, d.Bytes)
	case d.DType == ir.F64:
		v.f64 = make([]float64, d.Elems())
		ir.DecodeFloats(v.f64, d.DType, d.Bytes)
	case d.DType.IsFloat():
		v.f32 = make([]float32, d.Elems())
		decodeNarrow(v.f32, d.DType, d.Bytes)
	case isWord(d.DType):
		v.i32 = make([]int32, d.Elems())
		decodeWords(v.i32, d.DType, d.Bytes)
	default:
		v.i64 = make([]int64, d.Elems())
		ir.DecodeInts(v.i64, d.DType, d.Bytes)
	}
	return v, nil
}

// decodeNarrow decodes floats of at most 32 bits to float32.
func decodeNarrow(dst []float32, t ir.DType, src []byte) {
	if t == ir.F32 { // no conversion
		if from := listIn[float32](src); from != nil {
			copy(dst, from)
			return
		}
		for j := range dst {
			dst[j] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*j:]))
		}
		return
	}
	var buf [1024]float64 // decodes part by part, so that a large tensor needs little memory
	for len(dst) > 0 {
		part := buf[:min(len(buf), len(dst))]
		ir.DecodeFloats(part, t, src)
		for j, x := range part {
			dst[j] = float32(x)
		}
		dst, src = dst[len(part):], src[len(part)*t.Bits()/8:]
	}
}

// newData returns a zeroed host tensor, or an error if there is not enough memory.
func newData(t ir.DType, dims []int) (*ir.Data, error) {
	n, err := ir.ByteSize(t, dims)
	if err == nil {
		err = hostmem.Check(n)
	}
	if err != nil {
		return nil, err
	}
	return ir.NewData(t, dims...)
}

// data encodes the value as a host tensor.
func (v value) data() (*ir.Data, error) {
	d, err := newData(v.typ, v.dims)
	if err != nil {
		return nil, err
	}
	v.encode(d)
	return d, nil
}

// encode writes the elements to a host tensor of the value's dtype and dims.
func (v value) encode(d *ir.Data) {
	switch {
	case v.block != nil:
		copy(d.Bytes, v.block.Bytes)
	case v.small != nil && v.small.DType == v.typ:
		copy(d.Bytes, v.small.Bytes)
	// copyTo has an effect: if it returns true, it has copied the elements.
	case v.copyTo(d):
	case v.typ == ir.F32 && v.f32 != nil: // no conversion
		for j, x := range v.f32 {
			binary.LittleEndian.PutUint32(d.Bytes[4*j:], math.Float32bits(x))
		}
	case v.typ.IsFloat():
		ir.EncodeFloats(d.Bytes, v.typ, v.floats())
	case v.i32 != nil:
		encodeWords(d.Bytes, v.typ, v.i32)
	default:
		ir.EncodeInts(d.Bytes, v.typ, v.i64)
	}
}

// copyTo copies the elements to a tensor and returns true, if they need no conversion. Otherwise it changes nothing and
// returns false.
func (v value) copyTo(d *ir.Data) bool {
	to, ok := valueIn(d)
	if !ok { // the tensor's bytes are not aligned, or are in a format that no slice of v has
		return false
	}
	switch {
	case v.f32 != nil && to.f32 != nil:
		copy(to.f32, v.f32)
		return true
	case v.f64 != nil && to.f64 != nil:
		copy(to.f64, v.f64)
		return true
	case v.i32 != nil && to.i32 != nil:
		copy(to.i32, v.i32)
		return true
	case v.i64 != nil && to.i64 != nil:
		copy(to.i64, v.i64)
		return true
	}
	return false
}

// floats returns the elements of a float, integer or bool value as float64.
func (v value) floats() []float64 {
	switch {
	case v.f64 != nil:
		return v.f64
	case v.f32 != nil:
		return widen(v.f32)
	}
	list := v.ints()
	out := make([]float64, len(list))
	for j, x := range list {
		out[j] = float64(x)
	}
	return out
}

// wide returns the value with float64 or int64 elements. Converting a value once serves all its users.
func (v value) wide() value {
	switch {
	case v.f32 != nil:
		v.f64, v.f32, v.lent = widen(v.f32), nil, false
	case v.i32 != nil:
		v.i64, v.i32, v.lent = v.ints(), nil, false
	}
	return v
}

// widen converts f32 elements to f64.
func widen(src []float32) []float64 {
	out := make([]float64, len(src))
	for j, x := range src {
		out[j] = float64(x)
	}
	return out
}

// withDims returns the same elements under another shape.
func (v value) withDims(dims []int) value {
	v.dims, v.more = dims, nil
	return v
}

// bytesOf returns the memory that a value of this dtype and shape takes during a run: 8 bytes per element, or the bytes
// of its blocks.
func bytesOf(t ir.DType, dims []int) int64 {
	if t.IsBlock() {
		return int64(elems(dims)/t.BlockElems()) * int64(t.BlockBytes())
	}
	return 8 * int64(elems(dims))
}

// bytes returns the memory of all results of a value in a run.
func (v *value) bytes() int64 {
	n := bytesOf(v.typ, v.dims)
	for _, r := range v.more {
		n += bytesOf(r.typ, r.dims)
	}
	return n
}

// roundFloats rounds in place to a float dtype.
func roundFloats(f []float64, t ir.DType) {
	switch t {
	case ir.F64:
	case ir.F32:
		for j, x := range f {
			f[j] = float64(float32(x))
		}
	default:
		for j, x := range f {
			f[j] = ir.RoundTo(x, t)
		}
	}
}

// wrapInts wraps in place to an integer or bool dtype.
func wrapInts(v []int64, t ir.DType) {
	if t == ir.I64 {
		return
	}
	for j, x := range v {
		v[j] = ir.Wrap(x, t)
	}
}

// String describes the value without its elements.
func (v value) String() string { return fmt.Sprintf("%s%v", v.typ, v.dims) }
