// Package safetensors reads and writes safetensors files, Hugging Face's weight format: single files, or shards with an
// index.
//
// Start from [Open] and [File]; [OpenIndex] reads shards, and [Write] makes files.
//
// A file has an 8-byte little-endian header length, a JSON header with each tensor's type, shape and byte range, and
// the tensor data. The file is memory-mapped and tensors alias the mapping. Files are untrusted: the package parses the
// header strictly, and checks every byte range before use. It also checks that the ranges cover the data without gap or
// overlap, as the format requires.
package safetensors

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/vkc-go/vkc/internal/filefmt"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
)

const (
	lengthBytes    = 8
	maxHeaderBytes = 100_000_000 // the limit of the format's own implementation
	metadataKey    = "__metadata__"
)

// dtypes maps the format's type names to ir's.
var dtypes = map[string]ir.DType{
	"F64": ir.F64, "F32": ir.F32, "F16": ir.F16, "BF16": ir.BF16, "F8_E4M3": ir.F8E4M3, "F8_E5M2": ir.F8E5M2,
	"F4": ir.F4E2M1, "F8_E8M0": ir.F8E8M0, "F8_E4M3FNUZ": ir.F8E4M3FNUZ, "F8_E5M2FNUZ": ir.F8E5M2FNUZ,
	"I64": ir.I64, "I32": ir.I32, "I16": ir.I16, "I8": ir.I8, "U32": ir.U32, "U16": ir.U16, "U8": ir.U8, "BOOL": ir.Bool,
}

// Tensor describes one tensor of a file.
type Tensor struct {
	Name   string
	Type   string   // the file's name of the element type, such as "BF16"
	DType  ir.DType // ir.Invalid for unsupported types
	Dims   []int    // row-major
	Offset int64    // of the first byte, from the start of the file
	Bytes  int64
}

// File is an open safetensors file. Its methods may be called from several goroutines, except Close.
type File struct {
	src      filefmt.Source
	mapping  *mmap.File // nil for NewReader
	data     []byte
	metadata map[string]string
	tensors  []Tensor
	names    map[string]int // index into tensors
}

// Open maps the file at path and reads its header. If the file's name says that it is one of several parts of a model,
// Open returns an error: use OpenIndex, which opens all parts.
func Open(path string) (*File, error) {
	if part, of := filefmt.PartOf(path); of > 1 {
		return nil, &filefmt.PartError{Source: filefmt.Source{Format: "safetensors", Path: path}, Part: part, Of: of,
			Remedy: "give the index of all parts, MODEL.safetensors.index.json in the same folder"}
	}
	return OpenPart(path)
}

// OpenPart opens a file that may be one part of a model. Open refuses such a file.
func OpenPart(path string) (*File, error) {
	m, err := mmap.Open(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	var f *File
	err = mmap.Guard(func() (err error) {
		f, err = parse(filefmt.Source{Format: "safetensors", Path: path}, m.Bytes())
		return err
	})
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	f.mapping = m
	return f, nil
}

// NewReader reads a safetensors file in memory. Tensors alias data.
func NewReader(data []byte) (*File, error) {
	return parse(filefmt.Source{Format: "safetensors"}, data)
}

// Close unmaps the file. Tensors returned by Weight must not be used afterwards.
func (f *File) Close() error {
	f.data = nil
	if f.mapping == nil {
		return nil
	}
	return f.mapping.Close()
}

// Metadata returns the pairs of strings in the header's __metadata__, if any.
func (f *File) Metadata() map[string]string { return maps.Clone(f.metadata) }

// Tensors describes all tensors, in the order of the header.
func (f *File) Tensors() []Tensor {
	all := slices.Clone(f.tensors)
	for i := range all {
		all[i].Dims = slices.Clone(all[i].Dims)
	}
	return all
}

// Names returns the names of all tensors, in the order of the header.
func (f *File) Names() []string {
	names := make([]string, len(f.tensors))
	for i, t := range f.tensors {
		names[i] = t.Name
	}
	return names
}

// HasWeight reports whether there is a tensor of that name.
func (f *File) HasWeight(name string) bool { _, ok := f.names[name]; return ok }

// Weight returns the tensor of that name. Its bytes alias the file, so they are read-only and valid until Close. It
// implements ir.WeightSource.
func (f *File) Weight(name string) (*ir.Data, error) {
	i, ok := f.names[name]
	if !ok {
		return nil, f.src.Unknown("tensor", name, f.Names())
	}
	t := f.tensors[i]
	if t.DType == ir.Invalid {
		return nil, f.src.Errorf(t.Offset, "tensor %q has type %q, which is not supported: convert it to one of %q",
			name, t.Type, slices.Sorted(maps.Keys(dtypes)))
	}
	if err := f.intact(); err != nil {
		return nil, fmt.Errorf("safetensors: tensor %q: %w", name, err)
	}
	end := t.Offset + t.Bytes
	return &ir.Data{DType: t.DType, Dims: slices.Clone(t.Dims), Bytes: f.data[t.Offset:end:end]}, nil
}

// intact returns an error if the file was closed or has changed.
func (f *File) intact() error {
	if f.mapping != nil {
		return f.mapping.Intact()
	}
	if f.data == nil {
		return os.ErrClosed
	}
	return nil
}

// parse reads the header of a file and checks it.
func parse(src filefmt.Source, data []byte) (*File, error) {
	if len(data) < lengthBytes {
		return nil, src.Errorf(0, "the file has %d bytes: want a header length of %d bytes", len(data), lengthBytes)
	}
	n := binary.LittleEndian.Uint64(data)
	rest := data[lengthBytes:]
	switch {
	case n > maxHeaderBytes:
		return nil, src.Errorf(0, "the header length is %d: want at most %d", n, maxHeaderBytes)
	case n > uint64(len(rest)):
		return nil, src.Errorf(0, "the header length is %d, but %d bytes are left", n, len(rest))
	}
	h, err := parseHeader(src, rest[:n])
	if err != nil {
		return nil, err
	}
	f := &File{src: src, data: data, metadata: h.metadata, names: make(map[string]int, len(h.entries))}
	if err := f.place(h.entries, int64(lengthBytes+n)); err != nil {
		return nil, err
	}
	return f, nil
}

// place converts the header's entries to tensors, and checks that each byte range is inside the file and has the right
// size. start is the offset of the data in the file.
func (f *File) place(entries []entry, start int64) error {
	size := int64(len(f.data)) - start
	for i, e := range entries {
		if e.end < e.begin || e.end > size {
			return f.src.Errorf(e.pos, "tensor %q has the byte range [%d, %d): want one inside the data, which has %d "+
				"bytes", e.name, e.begin, e.end, size)
		}
		t := Tensor{Name: e.name, Type: e.dtype, DType: dtypes[e.dtype], Dims: e.shape, Offset: start + e.begin,
			Bytes: e.end - e.begin}
		if t.DType != ir.Invalid {
			want, err := filefmt.ByteSize(t.DType, t.Dims)
			if err != nil {
				return f.src.Errorf(e.pos, "tensor %q: %v", e.name, err)
			}
			if want != t.Bytes {
				return f.src.Errorf(e.pos, "tensor %q is %s%v, which is %d bytes, but its range has %d",
					e.name, t.DType, t.Dims, want, t.Bytes)
			}
		}
		f.tensors = append(f.tensors, t)
		f.names[t.Name] = i
	}
	return f.checkTiling(entries, size)
}

// checkTiling checks that the entries' byte ranges, once sorted, cover the data of that size without gap or overlap.
func (f *File) checkTiling(entries []entry, size int64) error {
	order := slices.Clone(entries)
	slices.SortFunc(order, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	at := int64(0)
	for _, e := range order {
		if e.begin != at {
			return f.src.Errorf(e.pos, "tensor %q begins at byte %d of the data: want %d, where the one before ends",
				e.name, e.begin, at)
		}
		at = e.end
	}
	if at != size {
		return f.src.Errorf(int64(len(f.data))-(size-at), "%d bytes of data belong to no tensor", size-at)
	}
	return nil
}
