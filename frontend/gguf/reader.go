package gguf

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/internal/filefmt"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
)

// Tensor describes one tensor of a file.
type Tensor struct {
	Name   string
	Dims   []int    // row-major, the innermost axis last: the reverse of GGML's ne
	Type   uint32   // GGML's number for the element type
	DType  ir.DType // ir.Invalid if vkc does not support the type
	Part   int      // index of its file in File.Paths: 0, unless the model has several parts
	Offset int64    // of the first byte, from the start of its file
	Bytes  int64    // 0 if DType is ir.Invalid
}

// File is an open GGUF file. Its methods may be called from several goroutines,
// except Close.
type File struct {
	src       filefmt.Source
	mapping   *mmap.File // nil for NewReader
	data      []byte
	version   uint32
	alignment int64
	kvs       []KV
	keys      map[string]int // index into kvs
	tensors   []Tensor
	names     map[string]int // index into tensors
	from      Named          // source of the tensors, if not the file
	close     func() error   // closes that source; nil if it is not the file's to close
	parts     []*File        // files of the tensors, if the model has several
}

// Open maps the file at path and reads everything except the tensor data. If the file is a part of a model, such as
// model-00001-of-00003.gguf, Open opens all parts as one File. All parts must be in the folder of path. It is an error
// if a part is missing or belongs to another model.
func Open(path string) (*File, error) {
	f, err := OpenPart(path)
	if err != nil {
		return nil, err
	}
	return f.whole()
}

// OpenPart opens a single file, which may have only a part of a model's tensors. Open also opens the other parts.
func OpenPart(path string) (*File, error) {
	m, err := mmap.Open(path)
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	var f *File
	err = mmap.Guard(func() (err error) {
		f, err = parse(filefmt.Source{Format: "gguf", Path: path}, m.Bytes())
		return err
	})
	if err != nil {
		m.Close()
		return nil, err
	}
	f.mapping = m
	return f, nil
}

// NewReader reads a GGUF file in memory. Tensors alias data. A file with only a part of a model is an error.
func NewReader(data []byte) (*File, error) {
	f, err := parse(filefmt.Source{Format: "gguf"}, data)
	if err != nil {
		return nil, err
	}
	return f.whole()
}

// Close unmaps the file and its other parts. Tensors returned by Weight must not be used afterwards.
func (f *File) Close() error {
	f.data = nil
	var errs []error
	for _, part := range f.parts {
		errs = append(errs, part.Close())
	}
	if f.close != nil {
		errs = append(errs, f.close())
	}
	if f.mapping != nil {
		errs = append(errs, f.mapping.Close())
	}
	return errors.Join(errs...)
}

// Paths returns the paths of the model's files: one for each part, and none for a file in memory.
func (f *File) Paths() []string {
	if f.src.Path == "" {
		return nil
	}
	if f.parts == nil {
		return []string{f.src.Path}
	}
	paths := make([]string, len(f.parts))
	for i, part := range f.parts {
		paths[i] = part.src.Path
	}
	return paths
}

// Version returns the version of the format that the file is in: 2 or 3.
func (f *File) Version() int { return int(f.version) }

// Tensors describes all tensors, in the order of the file.
func (f *File) Tensors() []Tensor {
	all := slices.Clone(f.tensors)
	for i := range all {
		all[i].Dims = slices.Clone(all[i].Dims)
	}
	return all
}

// Names returns the names of all tensors, in the order of the file.
func (f *File) Names() []string {
	names := make([]string, len(f.tensors))
	for i, t := range f.tensors {
		names[i] = t.Name
	}
	return names
}

// HasWeight reports whether there is a tensor of that name.
func (f *File) HasWeight(name string) bool { _, ok := f.names[name]; return ok }

// Weight returns the tensor of a name. The bytes of the tensor alias the file, so they are read-only and valid until
// Close. Weight implements ir.WeightSource.
func (f *File) Weight(name string) (*ir.Data, error) {
	i, ok := f.names[name]
	if !ok {
		return nil, f.src.Unknown("tensor", name, f.Names())
	}
	if f.from != nil {
		return f.from.Weight(name)
	}
	t := f.tensors[i]
	if f.parts != nil {
		return f.parts[t.Part].Weight(name)
	}
	if t.DType == ir.Invalid {
		return nil, f.src.Errorf(t.Offset,
			"tensor %q has GGML type %s, which is not supported: convert the model to another type",
			name, typeName(t.Type))
	}
	if f.mapping != nil {
		if err := f.mapping.Intact(); err != nil {
			return nil, fmt.Errorf("gguf: tensor %q: %w", name, err)
		}
	}
	if f.data == nil {
		return nil, fmt.Errorf("gguf: tensor %q: the file is closed", name)
	}
	d := &ir.Data{DType: t.DType, Dims: slices.Clone(t.Dims), Bytes: []byte{}}
	if end := t.Offset + t.Bytes; t.Bytes > 0 {
		d.Bytes = f.data[t.Offset:end:end]
	}
	return d, nil
}

// unsupportedTypes names the GGML types in GGUF files that ir does not support.
var unsupportedTypes = map[uint32]string{
	4: "q4_2", 5: "q4_3",
	31: "q4_0_4_4", 32: "q4_0_4_8", 33: "q4_0_8_8",
	36: "iq4_nl_4_4", 37: "iq4_nl_4_8", 38: "iq4_nl_8_8",
}

// typeName returns the number of a GGML type, and its name if it is one of unsupportedTypes.
func typeName(t uint32) string {
	if name, ok := unsupportedTypes[t]; ok {
		return fmt.Sprintf("%d (%s)", t, name)
	}
	return fmt.Sprint(t)
}

// Sizes in bytes of the smallest metadata pair (key length, a key of one byte, type, value) and of the smallest tensor
// record (name length, number of axes, type, offset).
const (
	minKVBytes     = 8 + 1 + 4 + 1
	minTensorBytes = 8 + 4 + 4 + 8
)

// parse reads everything except the tensor data, and checks it.
func parse(src filefmt.Source, data []byte) (*File, error) {
	c := &cursor{src: src, data: data}
	f := &File{src: src, data: data, alignment: defaultAlignment}
	f.readVersion(c)
	nTensors := c.count(minTensorBytes, "the tensor count")
	nKVs := c.count(minKVBytes, "the metadata count")
	f.readMetadata(c, nKVs)
	f.readAlignment(c)
	f.readTensors(c, nTensors)
	if c.err != nil {
		return nil, c.err
	}
	return f, nil
}

// readVersion reads the magic and the version, and refuses versions and byte orders that this package does not read.
func (f *File) readVersion(c *cursor) {
	if m := c.take(len(magic), "the magic"); c.err == nil && string(m) != magic {
		c.failAt(0, "the file begins with %q: want %q, as a GGUF model does", m, magic)
	}
	at := c.pos
	f.version = c.u32("the version")
	switch v := f.version; {
	case v == 1:
		c.failAt(at, "version 1 is not supported: convert the file with a current llama.cpp")
	case v&0xffff == 0 && v != 0:
		c.failAt(at, "the file is big-endian: convert it with llama.cpp's gguf_convert_endian.py")
	case v < minVersion || v > writeVersion:
		c.failAt(at, "version is %d: want %d or %d", v, minVersion, writeVersion)
	}
}

// readMetadata reads n metadata pairs. A repeated or empty key is an error.
func (f *File) readMetadata(c *cursor, n int) {
	f.kvs = make([]KV, 0, n)
	f.keys = make(map[string]int, n)
	for i := range n {
		at := c.pos
		key := c.str(maxKeyBytes, fmt.Sprintf("metadata key %d", i))
		if _, dup := f.keys[key]; dup {
			c.failAt(at, "metadata key %q occurs twice", key)
		} else if key == "" {
			c.failAt(at, "metadata key %d is empty", i)
		}
		value := c.readValue(fmt.Sprintf("metadata value %q", key))
		if c.err != nil {
			return
		}
		f.keys[key] = i
		f.kvs = append(f.kvs, KV{key, value})
	}
}

// readAlignment sets the alignment of tensors from the metadata, if they have one, and refuses an invalid one.
func (f *File) readAlignment(c *cursor) {
	v, ok := f.Lookup(alignmentKey)
	if c.err != nil || !ok {
		return
	}
	a, ok := v.(uint32)
	if !ok {
		c.failf("%s is a %T: want a uint32", alignmentKey, v)
		return
	}
	if err := checkAlignment(a); err != nil {
		c.failf("%v", err)
		return
	}
	f.alignment = int64(a)
}

// readTensors reads the tensor records. Then it computes the tensors' file offsets, because only the end of the last
// record tells where the data begin.
func (f *File) readTensors(c *cursor, n int) {
	f.tensors = make([]Tensor, 0, n)
	f.names = make(map[string]int, n)
	offsets := make([]recordedOffset, 0, n)
	for i := range n {
		at := c.pos
		t := c.readTensor(i)
		if _, dup := f.names[t.Name]; dup {
			c.failAt(at, "tensor %q occurs twice", t.Name)
		}
		off := recordedOffset{at: c.pos, value: c.u64("the offset of tensor " + quote(t.Name))}
		if c.err != nil {
			return
		}
		f.names[t.Name] = i
		f.tensors = append(f.tensors, t)
		offsets = append(offsets, off)
	}
	if c.err == nil {
		f.placeTensors(c, offsets)
	}
}

// readTensor reads the part of tensor record i before the offset.
func (c *cursor) readTensor(i int) (t Tensor) {
	at := c.pos
	t.Name = c.str(maxNameBytes, fmt.Sprintf("tensor name %d", i))
	if c.err == nil && t.Name == "" {
		c.failAt(at, "tensor name %d is empty", i)
	}
	at = c.pos
	rank := c.u32("the axis count of tensor " + quote(t.Name))
	if rank > maxDims {
		c.failAt(at, "tensor %q has %d axes: want at most %d", t.Name, rank, maxDims)
		return t
	}
	t.Dims = make([]int, rank)
	for j := range t.Dims {
		at := c.pos
		d := c.u64("the dims of tensor " + quote(t.Name))
		if d > math.MaxInt32 {
			c.failAt(at, "tensor %q has a dim of %d: want at most %d", t.Name, d, math.MaxInt32)
			return t
		}
		t.Dims[len(t.Dims)-1-j] = int(d) // the file has the innermost axis first
	}
	t.Type = c.u32("the type of tensor " + quote(t.Name))
	if dtype, ok := ir.DTypeOfGGML(t.Type); ok && c.err == nil {
		t.DType = dtype
		var err error
		if t.Bytes, err = filefmt.ByteSize(dtype, t.Dims); err != nil {
			c.failAt(at, "tensor %q: %v", t.Name, err)
		}
	}
	return t
}

func quote(s string) string { return fmt.Sprintf("%q", s) }

// recordedOffset is the offset in a tensor record: its value, relative to the start of the data, and where in the file
// it is, for errors.
type recordedOffset struct {
	at    int
	value uint64
}

// placeTensors sets the tensors' file offsets. It checks that each recorded offset is aligned, and that the tensor's
// bytes are inside the file.
func (f *File) placeTensors(c *cursor, offsets []recordedOffset) {
	start := ceil.Multiple(int64(c.pos), f.alignment)
	for i, off := range offsets {
		t := &f.tensors[i]
		room := int64(len(c.data)) - start
		switch {
		case off.value%uint64(f.alignment) != 0:
			c.failAt(off.at, "tensor %q has offset %d: want a multiple of the alignment, %d", t.Name,
				off.value, f.alignment)
		case t.Bytes == 0 && off.value <= math.MaxInt64-uint64(start):
			// An empty tensor may be past the end, because nothing is read from there.
		case room < t.Bytes || off.value > uint64(room-t.Bytes):
			c.failAt(off.at, "tensor %q has %d bytes at offset %d of the data, which has %d bytes: the file is cut "+
				"short or damaged",
				t.Name, t.Bytes, off.value, max(room, 0))
		}
		if c.err != nil {
			return
		}
		t.Offset = start + int64(off.value)
	}
	f.refuseOverlap(c)
}

// refuseOverlap records an error if two tensors share bytes. No writer does that, so one of the offsets must be wrong.
func (f *File) refuseOverlap(c *cursor) {
	order := make([]*Tensor, 0, len(f.tensors))
	for i := range f.tensors {
		if f.tensors[i].Bytes > 0 {
			order = append(order, &f.tensors[i])
		}
	}
	slices.SortStableFunc(order, func(a, b *Tensor) int { return cmp.Compare(a.Offset, b.Offset) })
	for i := 1; i < len(order); i++ {
		prev, next := order[i-1], order[i]
		if prev.Offset+prev.Bytes > next.Offset {
			c.failAt(int(next.Offset), "tensor %q begins inside tensor %q, which has bytes %d to %d",
				next.Name, prev.Name, prev.Offset, prev.Offset+prev.Bytes)
			return
		}
	}
}
