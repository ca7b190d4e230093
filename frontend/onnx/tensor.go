package onnx

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/vkc-go/vkc/internal/filefmt"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
	"google.golang.org/protobuf/encoding/protowire"
)

// Tensor is a tensor in a file. Its values alias the file's memory if the file stores them as they are in memory.
type Tensor struct {
	Name string
	Type DataType
	Dims []int64

	raw      []byte            // as in memory, little-endian
	integers []int64           // instead of raw: one for each element
	strings  int               // number of strings; their content is ignored
	external map[string]string // if the values are in another file: location, offset and length
	pos      int64             // in the file, for errors
	r        *reader
}

// tensor parses a TensorProto.
func (r *reader) tensor(b []byte, pos int64) (*Tensor, error) {
	t := &Tensor{pos: pos, r: r}
	external := int64(0)
	err := r.fields(b, pos, func(f field) error {
		switch f.num {
		case 1:
			return r.ints(f, &t.Dims)
		case 2:
			t.Type = DataType(f.value)
			return r.want(f, protowire.VarintType)
		case 3:
			return r.src.Errorf(f.pos, "tensor %q is a segment of another: store it whole", t.Name)
		case 4: // float_data
			return r.fixed(f, 4, &t.raw)
		case 5, 7, 11: // int32_data, int64_data, uint64_data
			return r.ints(f, &t.integers)
		case 6: // string_data, which is only counted: vkc has no strings
			t.strings++
			return r.want(f, protowire.BytesType)
		case 8:
			return r.text(f, &t.Name)
		case 9: // raw_data
			t.raw = f.bytes[:len(f.bytes):len(f.bytes)]
			return r.want(f, protowire.BytesType)
		case 10: // double_data
			return r.fixed(f, 8, &t.raw)
		case 13: // external_data: the other file, and the place in it
			return r.pair(f, &t.external)
		case 14: // data_location: 1 says that external_data applies
			return r.int(f, &external)
		}
		return nil
	})
	if err == nil && len(t.Dims) > maxRank {
		err = r.src.Errorf(pos, "tensor %q has %d axes, more than %d", t.Name, len(t.Dims), maxRank)
	}
	if external == 0 {
		t.external = nil
	}
	return t, err
}

// dims returns the extents. It returns an error if vkc does not support the dtype, or if an extent is invalid.
func (t *Tensor) dims() ([]int, error) {
	if dataTypes[t.Type].dtype == ir.Invalid {
		return nil, fmt.Errorf("tensor %q is of %s (type %d), which vkc does not support", t.Name, t.Type, t.Type)
	}
	dims, s := make([]int, len(t.Dims)), make(ir.Shape, len(t.Dims))
	for i, d := range t.Dims {
		dims[i], s[i] = int(d), ir.D(int(d))
	}
	if err := s.Check(); err != nil {
		return nil, t.r.src.Errorf(t.pos, "tensor %q: %v", t.Name, err)
	}
	return dims, nil
}

// data returns the values. They alias the memory of the file that stores them, if possible.
func (t *Tensor) data(x *externals) (*ir.Data, error) {
	dims, err := t.dims()
	if err != nil {
		return nil, err
	}
	if dataTypes[t.Type].dtype.IsPacked() {
		return t.packed(dims, x)
	}
	d := &ir.Data{DType: t.Type.DType(), Dims: dims, Bytes: t.raw}
	n := int64(d.Elems())
	switch {
	case t.external != nil:
		want, err := d.DType.BytesFor(n)
		if err != nil {
			return nil, err
		}
		if d.Bytes, err = x.bytes(t, want); err != nil {
			return nil, err
		}
	case int64(len(t.integers)) == n && len(t.raw) == 0 && n > 0: // one field for each element
		if d, err = t.encode(dims); err != nil {
			return nil, err
		}
	case len(t.integers) > 0:
		return nil, t.r.src.Errorf(t.pos, "tensor %q has %d numbers, but its shape %v has %d", t.Name,
			len(t.integers), t.Dims, n)
	}
	if err := d.Check(); err != nil {
		return nil, t.r.src.Errorf(t.pos, "tensor %q: %v", t.Name, err)
	}
	return d, nil
}

// packed returns the values of a tensor with elements of less than 8 bits. Each number in t.integers is a byte with
// several elements.
func (t *Tensor) packed(dims []int, x *externals) (*ir.Data, error) {
	d := &ir.Data{DType: t.Type.DType(), Dims: dims, Bytes: t.raw}
	want, err := d.DType.BytesFor(int64(d.Elems()))
	switch {
	case err != nil:
		return nil, err
	case t.external != nil:
		if d.Bytes, err = x.bytes(t, want); err != nil {
			return nil, err
		}
	case len(d.Bytes) == 0:
		for _, v := range t.integers {
			d.Bytes = append(d.Bytes, byte(v))
		}
	}
	if int64(len(d.Bytes)) != want {
		return nil, t.r.src.Errorf(t.pos, "tensor %q has %d bytes, but its shape %v of %s takes %d", t.Name,
			len(d.Bytes), t.Dims, t.Type, want)
	}
	if d.Elems()%d.DType.BlockElems() != 0 { // the file may have other bits after the last value
		d.Bytes = slices.Clone(d.Bytes)
		d.ClearUnused()
	}
	return d, nil
}

// encode returns the values of a tensor from t.integers. Floats of 16 or 8 bits are there as integers with their bits.
func (t *Tensor) encode(dims []int) (*ir.Data, error) {
	d, err := ir.NewData(t.Type.DType(), dims...)
	if err != nil {
		return nil, err
	}
	switch {
	case !d.DType.IsFloat():
		ir.EncodeInts(d.Bytes, d.DType, t.integers)
	case d.DType.BlockBytes() == 2:
		for i, v := range t.integers {
			binary.LittleEndian.PutUint16(d.Bytes[2*i:], uint16(v))
		}
	case d.DType.BlockBytes() == 1:
		for i, v := range t.integers {
			d.Bytes[i] = byte(v)
		}
	default:
		return nil, t.r.src.Errorf(t.pos, "tensor %q is of %s, but has integers", t.Name, t.Type)
	}
	return d, nil
}

// externals holds the files with a model's external tensors, each mapped once.
type externals struct {
	folder string // "" for a model in memory
	files  map[string]*mmap.File
}

// maxExternals is the largest number of files that are open at a time.
const maxExternals = 4096

// bytes returns the bytes of tensor t from a separate file. want is their number by the tensor's type and shape.
func (x *externals) bytes(t *Tensor, want int64) ([]byte, error) {
	name := t.external["location"]
	fault := func(format string, args ...any) error {
		return t.r.src.Errorf(t.pos, "tensor %q, in %q: %s", t.Name, name, fmt.Sprintf(format, args...))
	}
	number := func(key string, otherwise int64) (int64, error) {
		s, ok := t.external[key]
		if !ok {
			return otherwise, nil
		}
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil || v < 0 {
			return 0, fault("%s is %q, want a number of bytes", key, s)
		}
		return v, nil
	}
	offset, err := number("offset", 0)
	if err != nil {
		return nil, err
	}
	length, err := number("length", want)
	if err != nil {
		return nil, err
	}
	if length != want {
		return nil, fault("it has %d bytes there, but its type and shape take %d", length, want)
	}
	file, err := x.open(name)
	if err != nil {
		return nil, fault("%v", err)
	}
	all := file.Bytes()
	if offset > int64(len(all)) || length > int64(len(all))-offset {
		return nil, fault("bytes %d to %d are past its end, %d", offset, offset+length, len(all))
	}
	return all[offset : offset+length : offset+length], nil
}

// open maps a file in the model's folder into memory. It keeps the mapping for further tensors. It returns an error for
// a file outside of the folder, or for a link to such a file.
func (x *externals) open(name string) (*mmap.File, error) {
	if f, ok := x.files[name]; ok {
		return f, nil
	}
	if x.folder == "" {
		return nil, fmt.Errorf("the model was read from memory, so there are no files next to it")
	}
	if !filepath.IsLocal(name) {
		return nil, fmt.Errorf("the file must be in the model's folder")
	}
	if len(x.files) == maxExternals {
		return nil, fmt.Errorf("more than %d files", maxExternals)
	}
	folder, err := filepath.EvalSymlinks(x.folder)
	if err != nil {
		return nil, err
	}
	path, err := filepath.EvalSymlinks(filepath.Join(folder, name))
	if err != nil {
		return nil, err
	}
	if rest, err := filepath.Rel(folder, path); err != nil || !filepath.IsLocal(rest) {
		return nil, fmt.Errorf("the file is a link out of the model's folder")
	}
	f, err := mmap.Open(path)
	if err != nil {
		return nil, err
	}
	if x.files == nil {
		x.files = map[string]*mmap.File{}
	}
	x.files[name] = f
	return f, nil
}

// close unmaps all files, and returns the first error.
func (x *externals) close() error {
	var first error
	for _, f := range x.files {
		if err := f.Close(); first == nil {
			first = err
		}
	}
	return first
}

// ReadTensors returns the tensors in the content of a test's .pb file: a tensor, a sequence or an optional, as t says.
// An empty optional has none. name is the file's name, for errors. The tensors alias content.
func ReadTensors(name string, content []byte, t Type) ([]*ir.Data, error) {
	r := &reader{src: filefmt.Source{Format: "onnx", Path: name}}
	var found []*Tensor
	var read func(b []byte, pos int64, t Type) error
	read = func(b []byte, pos int64, t Type) error {
		if t.Kind == KindTensor {
			one, err := r.tensor(b, pos)
			found = append(found, one)
			return err
		}
		return r.fields(b, pos, func(f field) error {
			if f.typ != protowire.BytesType || t.Of == nil {
				return nil
			}
			switch f.num {
			case 3: // the tensors of a SequenceProto or OptionalProto
				return read(f.bytes, f.pos, Type{Kind: KindTensor})
			case 5: // sequences in them
				return read(f.bytes, f.pos, *t.Of)
			}
			return nil
		})
	}
	if err := read(content, 0, t); err != nil {
		return nil, err
	}
	var out []*ir.Data
	for _, one := range found {
		d, err := one.data(&externals{})
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}
