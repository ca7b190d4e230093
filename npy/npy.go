// Package npy reads and writes NumPy's .npy files, and reads tensors written as text. The command line uses both for
// inputs and outputs.
//
// Start from [ReadFile], [WriteFile], and [ParseLiteral] for text such as [[1, 2], [3, 4]].
//
// A .npy file has a magic, a version, a header length, a header that is a Python dict literal, and the elements.
// NumPy's numpy.lib.format describes the layout. Files are untrusted: the header is parsed strictly and its shape is
// checked against the size of the file.
package npy

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/internal/filefmt"
	"github.com/vkc-go/vkc/internal/hostmem"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
)

const (
	magic          = "\x93NUMPY"
	preambleBytes  = len(magic) + 2 // and the version
	maxHeaderBytes = 1 << 16        // a header of eight axes takes 250
	alignment      = 64             // where NumPy puts the first element
)

// dtypes lists the element types that .npy files and ir share, with their names in files.
var dtypes = []struct {
	descr string
	dtype ir.DType
}{
	{"<f4", ir.F32}, {"<f2", ir.F16}, {"<f8", ir.F64},
	{"<i8", ir.I64}, {"<i4", ir.I32}, {"<i2", ir.I16}, {"|i1", ir.I8},
	{"<u4", ir.U32}, {"<u2", ir.U16}, {"|u1", ir.U8}, {"|b1", ir.Bool},
}

// Descr returns NumPy's name of a dtype, and false for dtypes that NumPy lacks.
func Descr(t ir.DType) (descr string, ok bool) {
	for _, row := range dtypes {
		if row.dtype == t {
			return row.descr, true
		}
	}
	return "", false
}

// Held returns a tensor as .npy files can hold it: the same tensor if NumPy has its dtype, and otherwise its values as
// f32 or, for integers of less than 8 bits, as i8 or u8.
func Held(d *ir.Data) (*ir.Data, error) {
	if _, ok := Descr(d.DType); ok || d.DType.IsBlock() {
		return d, nil
	}
	if d.DType.IsFloat() {
		list, err := d.Floats()
		if err != nil {
			return nil, err
		}
		return ir.FromFloats(ir.F32, list, d.Dims...)
	}
	list, err := d.Ints()
	if err != nil {
		return nil, err
	}
	return ir.FromInts(map[ir.Kind]ir.DType{ir.KindInt: ir.I8, ir.KindUint: ir.U8}[d.DType.Kind()], list, d.Dims...)
}

// As returns an array as a tensor of dtype t, which NumPy may lack: floats rounded to a float dtype, or integers in the
// range of an integer dtype. Otherwise it returns an error.
func As(d *ir.Data, t ir.DType) (*ir.Data, error) {
	switch {
	case d.DType == t:
		return d, nil
	case d.DType.IsFloat() && t.IsFloat():
		list, err := d.Floats()
		if err != nil {
			return nil, err
		}
		return ir.FromFloats(t, list, d.Dims...)
	case d.DType.IsInteger() && t.IsInteger():
		list, err := d.Ints()
		if err != nil {
			return nil, err
		}
		lo, hi := ir.IntRange(t)
		for i, v := range list {
			if v < lo || v > hi {
				return nil, fmt.Errorf("element %d is %d: want an %s, %d to %d", i, v, t, lo, hi)
			}
		}
		return ir.FromInts(t, list, d.Dims...)
	}
	return nil, fmt.Errorf("the array is of %s, which does not become %s", d.DType, t)
}

// ReadFile reads the .npy file at path. An array in Fortran order is turned into C order.
func ReadFile(path string) (*ir.Data, error) {
	m, err := mmap.Open(path)
	if err != nil {
		return nil, fmt.Errorf("npy: %w", err)
	}
	defer m.Close()
	var d *ir.Data
	err = mmap.Guard(func() (err error) {
		d, err = read(filefmt.Source{Format: "npy", Path: path}, m.Bytes())
		return err
	})
	return d, err
}

// Read reads an array from the content of a .npy file. The result does not alias content.
func Read(content []byte) (*ir.Data, error) {
	return read(filefmt.Source{Format: "npy"}, content)
}

// read parses the content of an .npy file.
func read(src filefmt.Source, content []byte) (*ir.Data, error) {
	text, start, err := findHeader(src, content)
	if err != nil {
		return nil, err
	}
	h, err := parseHeader(src, text, start-int64(len(text)))
	if err != nil {
		return nil, err
	}
	t, err := dtypeOf(h.descr)
	if err != nil {
		return nil, src.Errorf(h.descrPos, "%v", err)
	}
	want, err := filefmt.ByteSize(t, h.shape)
	if err != nil {
		return nil, src.Errorf(h.shapePos, "%v", err)
	}
	elems := content[start:]
	if int64(len(elems)) != want {
		return nil, src.Errorf(start, "%s%v takes %d bytes, but %d follow the header", t, h.shape, want, len(elems))
	}
	if t == ir.Bool {
		if i := slices.IndexFunc(elems, func(b byte) bool { return b > 1 }); i >= 0 {
			return nil, src.Errorf(start+int64(i), "a bool is %d: want 0 or 1", elems[i])
		}
	}
	if err := hostmem.Check(want); err != nil {
		return nil, fmt.Errorf("npy: %w", err)
	}
	d := &ir.Data{DType: t, Dims: h.shape, Bytes: append([]byte{}, elems...)}
	if h.fortran {
		fortranToC(d.Bytes, elems, h.shape, t.BlockBytes())
	}
	return d, nil
}

// findHeader returns the text of an .npy file's header, and the position where the elements start.
func findHeader(src filefmt.Source, content []byte) (text []byte, start int64, err error) {
	if len(content) < preambleBytes || string(content[:len(magic)]) != magic {
		return nil, 0, src.Errorf(0, "the file does not begin with the magic %q and a version", magic)
	}
	rest := content[preambleBytes:]
	// The size of the field for the header's length, which depends on the version.
	lengthBytes := 4
	switch major := content[len(magic)]; major {
	case 1:
		lengthBytes = 2
	case 2, 3:
	default:
		return nil, 0, src.Errorf(int64(len(magic)), "version is %d: want 1, 2 or 3", major)
	}
	if len(rest) < lengthBytes {
		return nil, 0, src.Errorf(int64(len(content)), "the file ends inside the header length")
	}
	var length [4]byte
	copy(length[:], rest[:lengthBytes])
	rest = rest[lengthBytes:]
	n := binary.LittleEndian.Uint32(length[:])
	switch {
	case n > maxHeaderBytes:
		return nil, 0, src.Errorf(int64(preambleBytes), "the header length is %d: want at most %d", n, maxHeaderBytes)
	case int(n) > len(rest):
		return nil, 0, src.Errorf(int64(preambleBytes), "the header length is %d, but %d bytes are left", n, len(rest))
	}
	return rest[:n], int64(preambleBytes + lengthBytes + int(n)), nil
}

// dtypeOf returns the element type for a descr, such as "<f4".
func dtypeOf(descr string) (ir.DType, error) {
	const save = "load the array in NumPy and save it again with a.astype(%q)"
	byteOrder, kind := descr[:min(1, len(descr))], descr[min(1, len(descr)):]
	for _, row := range dtypes {
		// One-byte types have no order. It is written as '|' but any order is accepted.
		if descr == row.descr || row.descr == "|"+kind && strings.Contains("<>=", byteOrder) {
			return row.dtype, nil
		}
		if byteOrder == ">" && row.descr == "<"+kind {
			return 0, fmt.Errorf("the elements are big-endian (%s): "+save, descr, row.descr)
		}
	}
	if kind == "V2" {
		return 0, fmt.Errorf("the elements are untyped pairs of bytes (%s), which is how bfloat16 is saved: "+save,
			descr, "<f4")
	}
	return 0, fmt.Errorf("element type %q is not supported: want one of %s; "+save, descr, descrList(), "<f4")
}

// descrList lists the dtypes in NumPy's notation, for errors.
func descrList() string {
	var all []string
	for _, row := range dtypes {
		all = append(all, row.descr)
	}
	return strings.Join(all, " ")
}

// fortranToC copies src, with its first axis contiguous, to dst, with its last axis contiguous. Both have elements of
// size bytes.
func fortranToC(dst, src []byte, dims []int, size int) {
	strides := make([]int, len(dims)) // of src, in bytes
	stride := size
	for i, d := range dims {
		strides[i] = stride
		stride *= d
	}
	index := make([]int, len(dims))
	from := 0
	for to := 0; to < len(dst); to += size {
		copy(dst[to:to+size], src[from:])
		for axis := len(dims) - 1; axis >= 0; axis-- {
			index[axis]++
			from += strides[axis]
			if index[axis] < dims[axis] {
				break
			}
			from -= strides[axis] * dims[axis]
			index[axis] = 0
		}
	}
}

// WriteFile writes the array at path. The file appears whole or not at all.
func WriteFile(path string, d *ir.Data) error {
	return filefmt.Source{Format: "npy", Path: path}.WriteFile(func(w io.Writer) error { return Write(w, d) })
}

// Write writes an array as .npy, in version 1 of the format, which every reader supports.
func Write(w io.Writer, d *ir.Data) error {
	if err := d.Check(); err != nil {
		return err
	}
	descr, err := descrOf(d.DType)
	if err != nil {
		return err
	}
	if _, err := w.Write(encodeHeader(descr, d.Dims)); err != nil {
		return err
	}
	_, err = w.Write(d.Bytes)
	return err
}

// descrOf returns NumPy's description of a dtype, such as "<f4".
func descrOf(t ir.DType) (string, error) {
	if descr, ok := Descr(t); ok {
		return descr, nil
	}
	if t.IsBlock() {
		return "", fmt.Errorf("NumPy has no type for %s blocks: dequantize to f32 first", t)
	}
	return "", fmt.Errorf("NumPy has no type for %s: cast to f32 first", t)
}

// encodeHeader returns everything that stands before the elements.
func encodeHeader(descr string, dims []int) []byte {
	var shape strings.Builder
	for _, d := range dims {
		fmt.Fprintf(&shape, "%d, ", d)
	}
	tuple := shape.String()
	if len(dims) > 1 {
		tuple = strings.TrimSuffix(tuple, ", ")
	} else {
		tuple = strings.TrimSuffix(tuple, " ") // Python needs the comma of "(3,)"
	}
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, tuple)
	const before = len(magic) + 2 + 2                      // with the version and the length of dict
	padding := -(before + len(dict) + 1) & (alignment - 1) // so that a line end and the padding complete the alignment
	dict += strings.Repeat(" ", padding) + "\n"
	b := append([]byte(magic), 1, 0) // version 1.0
	return append(binary.LittleEndian.AppendUint16(b, uint16(len(dict))), dict...)
}
