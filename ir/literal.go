package ir

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// maxSplatBytes limits the total size of a graph's constants that are written as one repeated value (splats). Only
// these can need more memory than the file has bytes.
const maxSplatBytes = 64 << 20

// dataReader collects the values of a constant from text IR or graph.json. It allocates no more memory than the file
// has values for, or than splat allows.
type dataReader struct {
	data  *Data
	elems int64 // number of elements of the shape
	have  int64 // number of elements added
	size  int64 // in bytes
}

// newDataReader returns a reader of a constant with the given dtype and shape, which must be static.
func newDataReader(t DType, shape Shape) (*dataReader, error) {
	if !shape.IsStatic() {
		return nil, fmt.Errorf("a constant needs a static shape, have %s", shape)
	}
	dims, elems := make([]int, len(shape)), int64(1)
	for i, d := range shape {
		dims[i] = d.Static()
	}
	size, err := ByteSize(t, dims)
	if err != nil {
		return nil, err
	}
	for _, d := range shape {
		elems *= d.Add
	}
	return &dataReader{&Data{DType: t, Dims: dims}, elems, 0, size}, nil
}

// add appends one element, given in the form that formatElem prints.
func (r *dataReader) add(text string) error {
	if r.have >= r.elems {
		return fmt.Errorf("there are more than the %d values of %s%s", r.elems, r.data.DType, ShapeOf(r.data.Dims...))
	}
	elem, err := parseElem(r.data.DType, text)
	if err == nil {
		r.append(elem)
	}
	return err
}

// append appends the bytes of one element.
func (r *dataReader) append(elem []byte) {
	switch t := r.data.DType; {
	case t.IsPacked() && r.have%int64(t.BlockElems()) != 0:
		t.setCode(r.data.Bytes, int(r.have), elem[0])
	default:
		r.data.Bytes = append(r.data.Bytes, elem...)
	}
	r.have++
}

// splat sets every element to one value. It subtracts the constant's size from left, the bytes that splats may still
// use.
func (r *dataReader) splat(text string, left *int64) error {
	elem, err := parseElem(r.data.DType, text)
	if err != nil {
		return err
	}
	if r.size > *left {
		return fmt.Errorf("repeated values take more than %d bytes in this graph: broadcast a constant of one "+
			"element instead", maxSplatBytes)
	}
	*left -= r.size
	r.data.Bytes = make([]byte, 0, r.size)
	for r.have < r.elems {
		r.append(elem)
	}
	return nil
}

// base64 sets the elements from raw little-endian bytes.
func (r *dataReader) base64(text string) error {
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return fmt.Errorf("not base64 (RFC 4648, padded): %w", err)
	}
	r.data.Bytes, r.have = raw, r.elems
	return r.done()
}

// done checks that every element has its value.
func (r *dataReader) done() error {
	switch have, unit := int64(len(r.data.Bytes)), int64(r.data.DType.BlockBytes()); {
	case r.data.DType.IsPacked() && (have != r.size || r.have != r.elems):
		return fmt.Errorf("%s%s has %d values in %d bytes, have %d values in %d bytes", r.data.DType,
			ShapeOf(r.data.Dims...), r.elems, r.size, r.have, have)
	case have != r.size:
		return fmt.Errorf("%s%s has %d values of %d bytes, have %d bytes",
			r.data.DType, ShapeOf(r.data.Dims...), r.size/unit, unit, have)
	}
	return checkConst(r.data)
}

// parseElem returns the bytes of one element given as text: a number in the range of the type, inf or -inf, nan:HEX
// with the bytes of a NaN, true or false. A packed element is in the lowest bits of its byte.
func parseElem(t DType, text string) ([]byte, error) {
	raw := make([]byte, t.BlockBytes())
	switch {
	case t.IsBlock():
		return nil, fmt.Errorf("%s has no single values: give its blocks as base64", t)
	case t == Bool:
		if text != "true" && text != "false" {
			return nil, fmt.Errorf("%q is not a bool: want true or false", clip(text))
		}
		EncodeInts(raw, t, []int64{int64(b2f(text == "true"))})
	case t.IsInteger():
		lo, hi := IntRange(t)
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil || v < lo || v > hi {
			return nil, fmt.Errorf("%q is not an %s: want an integer %d to %d", clip(text), t, lo, hi)
		}
		EncodeInts(raw, t, []int64{v})
	default:
		if err := floatElem(raw, t, text); err != nil {
			return nil, err
		}
	}
	return raw, nil
}

// floatElem parses one element of a float type and encodes it into raw.
func floatElem(raw []byte, t DType, text string) error {
	if bits, ok := strings.CutPrefix(text, "nan:"); ok {
		return nanElem(raw, t, bits)
	}
	v, err := parseFloat(text)
	if err != nil {
		return err
	}
	if math.IsInf(v, 0) != math.IsInf(RoundTo(v, t), 0) || !t.Float().holds(v) {
		return fmt.Errorf("%s is out of range for %s", clip(text), t)
	}
	EncodeFloats(raw, t, []float64{v})
	return nil
}

// nanElem encodes a NaN, given as the hex digits of its bytes, into raw.
func nanElem(raw []byte, t DType, bits string) error {
	b, err := hex.DecodeString(bits)
	if err != nil || len(b) != len(raw) {
		return fmt.Errorf("nan:%s: want the %d bytes of the %s as hex digits", clip(bits), len(raw), t)
	}
	var v [1]float64
	DecodeFloats(v[:], t, b)
	if !math.IsNaN(v[0]) {
		return fmt.Errorf("nan:%s is %s, not a NaN", bits, FormatFloat(v[0]))
	}
	copy(raw, b)
	return nil
}

// parseFloat parses the output of FormatFloat: a decimal number, inf or -inf. It rejects the other forms that strconv
// accepts (hexadecimal, underscores, NaN, infinity).
func parseFloat(text string) (float64, error) {
	switch text {
	case "inf", "+inf":
		return math.Inf(1), nil
	case "-inf":
		return math.Inf(-1), nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if strings.Trim(text, "+-.0123456789eE") != "" || err != nil && v == 0 {
		return 0, fmt.Errorf("%q is not a number", clip(text))
	}
	if err != nil {
		return 0, fmt.Errorf("%s is too large for a float (write inf for infinity)", clip(text))
	}
	return v, nil
}

// clip shortens input to 40 bytes for an error.
func clip(s string) string {
	const most = 40
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
