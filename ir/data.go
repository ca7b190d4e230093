package ir

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Data is a host tensor: raw little-endian bytes in row-major order with a concrete shape. It is used for constants,
// weights, inputs and results. Bytes may alias a memory-mapped file, so treat it as read-only unless you made it.
type Data struct {
	DType DType
	Dims  []int
	Bytes []byte
}

// NewData returns a zeroed tensor of that type and shape.
func NewData(t DType, dims ...int) (*Data, error) {
	n, err := ByteSize(t, dims)
	if err != nil {
		return nil, err
	}
	return &Data{DType: t, Dims: slices.Clone(dims), Bytes: make([]byte, n)}, nil
}

// Check returns an error unless the byte count matches type and shape.
func (d *Data) Check() error {
	n, err := ByteSize(d.DType, d.Dims)
	if err != nil {
		return err
	}
	if int64(len(d.Bytes)) != n {
		return fmt.Errorf("%s%v needs %d bytes, have %d", d.DType, d.Dims, n, len(d.Bytes))
	}
	return nil
}

// ClearUnused sets the bits after the last packed element to 0. A device may have left others there.
func (d *Data) ClearUnused() {
	if unused := d.unusedBits(); unused != 0 {
		d.Bytes[len(d.Bytes)-1] &^= unused
	}
}

// unusedBits returns the mask of the bits in the last byte that follow the last packed element, or 0.
func (d *Data) unusedBits() byte {
	if !d.DType.IsPacked() {
		return 0
	}
	inLast := d.Elems() % d.DType.BlockElems()
	if inLast == 0 { // the byte is full
		return 0
	}
	return 0xff << (inLast * d.DType.Bits())
}

// Elems returns the number of elements.
func (d *Data) Elems() int {
	n := 1
	for _, v := range d.Dims {
		n *= v
	}
	return n
}

// String describes the tensor without its values, such as "f32[2 3]".
func (d *Data) String() string { return fmt.Sprintf("%s%v", d.DType, d.Dims) }

// ByteSize checks a concrete shape against the limits and returns its bytes.
func ByteSize(t DType, dims []int) (int64, error) {
	if !t.Valid() {
		return 0, fmt.Errorf("invalid dtype")
	}
	if len(dims) > MaxRank {
		return 0, fmt.Errorf("rank %d is over the limit of %d", len(dims), MaxRank)
	}
	n := int64(1)
	zero := false
	for i, d := range dims {
		if d < 0 {
			return 0, fmt.Errorf("dim %d of %v is negative", i, dims)
		}
		if d == 0 { // the other extents must be in the limits nevertheless
			zero = true
			continue
		}
		if n > maxElems/int64(d) {
			return 0, fmt.Errorf("shape %v has more than %d elements", dims, int64(maxElems))
		}
		n *= int64(d)
	}
	if e := t.BlockElems(); t.IsBlock() && (len(dims) == 0 || dims[len(dims)-1]%e != 0) {
		return 0, fmt.Errorf("innermost dim of %v is not a whole number of %s blocks of %d", dims, t, e)
	}
	if zero {
		return 0, nil
	}
	return t.BytesFor(n)
}

// Floats decodes a float, integer or bool tensor to float64, in row-major
// order. Block types need package quant.
func (d *Data) Floats() ([]float64, error) {
	if d.DType.IsBlock() {
		return nil, fmt.Errorf("%s: decode block types with package quant", d)
	}
	if err := d.Check(); err != nil {
		return nil, err
	}
	out := make([]float64, d.Elems())
	DecodeFloats(out, d.DType, d.Bytes)
	return out, nil
}

// Ints decodes an integer or bool tensor exactly.
func (d *Data) Ints() ([]int64, error) {
	if k := d.DType.Kind(); k == KindFloat || k == KindBlock {
		return nil, fmt.Errorf("%s does not hold integers", d)
	}
	if err := d.Check(); err != nil {
		return nil, err
	}
	out := make([]int64, d.Elems())
	DecodeInts(out, d.DType, d.Bytes)
	return out, nil
}

// FromFloats returns a tensor of a float, integer or bool type with the values, rounded as by a cast.
func FromFloats(t DType, values []float64, dims ...int) (*Data, error) {
	d, err := NewData(t, dims...)
	if err != nil {
		return nil, err
	}
	if t.IsBlock() {
		return nil, fmt.Errorf("%s: encode block types with package quant", d)
	}
	if len(values) != d.Elems() {
		return nil, fmt.Errorf("%s needs %d values, have %d", d, d.Elems(), len(values))
	}
	EncodeFloats(d.Bytes, t, values)
	return d, nil
}

// FromInts returns a tensor of an integer or bool type with the values, wrapped to its range. A float type rounds them.
func FromInts(t DType, values []int64, dims ...int) (*Data, error) {
	if t.IsFloat() || t.IsBlock() {
		fs := make([]float64, len(values))
		for i, v := range values {
			fs[i] = IntToFloat(v, t)
		}
		return FromFloats(t, fs, dims...)
	}
	d, err := NewData(t, dims...)
	if err != nil {
		return nil, err
	}
	if len(values) != d.Elems() {
		return nil, fmt.Errorf("%s needs %d values, have %d", d, d.Elems(), len(values))
	}
	EncodeInts(d.Bytes, t, values)
	return d, nil
}

// formatData prints a constant as in text IR: dtype[dims](v, v, …), or a single value if all have the same bits.
func formatData(d *Data) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s(", d.DType, ShapeOf(d.Dims...))
	n := d.Elems()
	switch {
	case d.DType.IsBlock():
		n = 0
		fmt.Fprintf(&b, "base64 %q", base64.StdEncoding.EncodeToString(d.Bytes))
	case n > 1 && d.uniform():
		n = 1
		b.WriteString("all ")
	}
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(formatElem(d.DType, d.elem(i)))
	}
	b.WriteString(")")
	return b.String()
}

// Number returns the value of all elements of a constant, perhaps broadcast or reshaped. It returns false for other
// nodes, and if float64 cannot represent the number.
func (n *Node) Number() (float64, bool) {
	for n.op == OpBroadcast || n.op == OpReshape {
		n = n.args[0]
	}
	if n.op != OpConst || n.DType().IsBlock() {
		return 0, false
	}
	d := n.attrs.Data("data")
	if len(d.Bytes) == 0 || !d.uniform() {
		return 0, false
	}
	if d.DType == I64 {
		var v [1]int64
		DecodeInts(v[:], d.DType, d.Bytes)
		return float64(v[0]), v[0] >= -1<<53 && v[0] <= 1<<53
	}
	var v [1]float64
	DecodeFloats(v[:], d.DType, d.Bytes)
	return v[0], v[0] == v[0] // false for NaN
}

// uniform reports whether all elements of a scalar type have the same bits.
func (d *Data) uniform() bool {
	if d.DType.IsPacked() {
		for i := range d.Elems() {
			if d.DType.code(d.Bytes, i) != d.DType.code(d.Bytes, 0) {
				return false
			}
		}
		return true
	}
	b, size := d.Bytes, d.DType.BlockBytes()
	for i := size; i < len(b); i++ {
		if b[i] != b[i-size] {
			return false
		}
	}
	return true
}

// elem returns the bytes of element i of a scalar type. A packed element is in the lowest bits of its byte.
func (d *Data) elem(i int) []byte {
	if d.DType.IsPacked() {
		return []byte{d.DType.code(d.Bytes, i)}
	}
	size := d.DType.BlockBytes()
	return d.Bytes[i*size : (i+1)*size]
}

// formatElem prints one element so that it parses to the same bits. A NaN is printed as its bits, since there are
// several.
func formatElem(t DType, raw []byte) string {
	if !t.IsFloat() {
		var v [1]int64
		DecodeInts(v[:], t, raw)
		if t == Bool {
			return strconv.FormatBool(v[0] != 0)
		}
		return strconv.FormatInt(v[0], 10)
	}
	var v [1]float64
	DecodeFloats(v[:], t, raw)
	if v[0] != v[0] {
		return fmt.Sprintf("nan:%x", raw)
	}
	return FormatFloat(v[0])
}
