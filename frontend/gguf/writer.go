package gguf

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/internal/filefmt"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
)

// Writer collects metadata and tensors and writes them as a GGUF v3 file. The zero value is ready to use. Metadata and
// tensors keep their order.
type Writer struct {
	kvs       []encodedKV
	keys      map[string]int
	tensors   []pendingTensor
	names     map[string]bool
	alignment int64 // 0 until set by general.alignment
}

// encodedKV is a metadata pair. Set encodes the value, so that it can report an invalid one, and so that the caller may
// change a slice afterwards.
type encodedKV struct {
	key   string
	value []byte
}

// pendingTensor is a tensor that was added and will be written.
type pendingTensor struct {
	name  string
	dtype ir.DType
	dims  []int // row-major
	bytes int64
	write func(io.Writer) error // writes exactly that many bytes
}

// Set adds a metadata pair, or replaces the value of an existing key. The value has one of the Go types that KV
// documents.
func (w *Writer) Set(key string, value any) error {
	if key == "" || len(key) > maxKeyBytes {
		return fmt.Errorf("gguf: metadata key has %d bytes: want 1 to %d", len(key), maxKeyBytes)
	}
	encoded, err := encodedValue(value)
	if err != nil {
		return fmt.Errorf("gguf: metadata %q: %w", key, err)
	}
	if key == alignmentKey {
		if err := w.setAlignment(value); err != nil {
			return fmt.Errorf("gguf: %w", err)
		}
	}
	if i, ok := w.keys[key]; ok {
		w.kvs[i].value = encoded
		return nil
	}
	if w.keys == nil {
		w.keys = make(map[string]int)
	}
	w.keys[key] = len(w.kvs)
	w.kvs = append(w.kvs, encodedKV{key, encoded})
	return nil
}

// setAlignment sets the alignment of tensors to a metadata value, and returns an error if the value is none.
func (w *Writer) setAlignment(value any) error {
	a, ok := value.(uint32)
	if !ok {
		return fmt.Errorf("%s is a %T: want a uint32", alignmentKey, value)
	}
	if err := checkAlignment(a); err != nil {
		return err
	}
	w.alignment = int64(a)
	return nil
}

// Add adds a tensor, with at most four axes. It does not copy the data: they must stay unchanged until the file is
// written.
func (w *Writer) Add(name string, d *ir.Data) error {
	return w.AddFunc(name, d.DType, d.Dims, func() (*ir.Data, error) { return d, nil })
}

// AddFunc adds a tensor of a known type and shape. Each write of the file calls load once, when it comes to the tensor,
// so that a large model need not be in memory as a whole.
func (w *Writer) AddFunc(name string, t ir.DType, dims []int, load func() (*ir.Data, error)) error {
	return w.AddStream(name, t, dims, func(out io.Writer) error {
		d, err := load()
		if err != nil {
			return err
		}
		if d.DType != t || !slices.Equal(d.Dims, dims) {
			return fmt.Errorf("the data is %s of %d bytes: want %s%v", d, len(d.Bytes), t, dims)
		}
		err = mmap.Guard(func() error { _, err := out.Write(d.Bytes); return err })
		return err
	})
}

// AddStream adds a tensor of a known type and shape that need not be in memory as a whole. Each write of the file calls
// write once, which must write exactly the tensor's bytes, in any number of pieces. AddStream returns an error for a
// name that is already there, and for a type that GGUF lacks.
func (w *Writer) AddStream(name string, t ir.DType, dims []int, write func(io.Writer) error) error {
	if w.names[name] {
		return fmt.Errorf("gguf: tensor %q is added twice", name)
	}
	if _, ok := t.GGML(); !ok {
		return fmt.Errorf("gguf: tensor %q: GGUF has no type for %s: convert it to another", name, t)
	}
	n, err := checkTensor(name, t, dims)
	if err != nil {
		return fmt.Errorf("gguf: tensor %q: %w", name, err)
	}
	if w.names == nil {
		w.names = make(map[string]bool)
	}
	w.names[name] = true
	w.tensors = append(w.tensors, pendingTensor{name, t, slices.Clone(dims), n, write})
	return nil
}

// checkTensor returns the size in bytes of a tensor, or an error if GGUF cannot represent it.
func checkTensor(name string, t ir.DType, dims []int) (int64, error) {
	if name == "" || len(name) > maxNameBytes {
		return 0, fmt.Errorf("the name has %d bytes: want 1 to %d", len(name), maxNameBytes)
	}
	if len(dims) > maxDims {
		return 0, fmt.Errorf("shape %v has %d axes: GGUF takes at most %d, so reshape it", dims, len(dims), maxDims)
	}
	for _, d := range dims {
		if d > math.MaxInt32 {
			return 0, fmt.Errorf("shape %v has a dim over %d", dims, math.MaxInt32)
		}
	}
	return filefmt.ByteSize(t, dims)
}

// WriteFile writes the file at path. After an error, the file at path is unchanged. A path that names a part of a model
// is an error.
func (w *Writer) WriteFile(path string) error {
	if err := refusePartName(path); err != nil {
		return err
	}
	return filefmt.Source{Format: "gguf", Path: path}.WriteFile(func(out io.Writer) error {
		_, err := w.WriteTo(out)
		return err
	})
}

// Edit copies a GGUF file from one path to another, and adds or replaces some metadata. Tensors stay unchanged.
func Edit(from, to string, set ...KV) error {
	f, err := Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	var w Writer
	for _, kv := range append(f.Metadata(), set...) {
		if err := w.Set(kv.Key, kv.Value); err != nil {
			return err
		}
	}
	for _, name := range f.Names() {
		d, err := f.Weight(name)
		if err == nil {
			err = w.Add(name, d)
		}
		if err != nil {
			return err
		}
	}
	return w.WriteFile(to)
}

// WriteTo writes the file and returns the number of bytes written.
func (w *Writer) WriteTo(out io.Writer) (int64, error) {
	alignment := w.alignment
	if alignment == 0 {
		alignment = defaultAlignment
	}
	p := &paddedWriter{out: out, alignment: alignment}
	if _, err := p.Write(w.header(alignment)); err != nil {
		return p.n, err
	}
	if err := p.pad(); err != nil {
		return p.n, err
	}
	for _, t := range w.tensors {
		if err := t.writeChecked(p); err != nil {
			return p.n, fmt.Errorf("tensor %q: %w", t.name, err)
		}
	}
	return p.n, nil
}

// header returns everything before the tensor data.
func (w *Writer) header(alignment int64) []byte {
	b := appendU32([]byte(magic), writeVersion)
	b = appendU64(b, uint64(len(w.tensors)))
	b = appendU64(b, uint64(len(w.kvs)))
	for _, kv := range w.kvs {
		b = append(appendString(b, kv.key), kv.value...)
	}
	offset := int64(0)
	for _, t := range w.tensors {
		b = t.appendRecord(b, offset)
		offset = ceil.Multiple(offset+t.bytes, alignment)
	}
	return b
}

// appendRecord appends the tensor's record, with an offset relative to the start of the data.
func (t pendingTensor) appendRecord(b []byte, offset int64) []byte {
	b = appendString(b, t.name)
	b = appendU32(b, uint32(len(t.dims)))
	for _, d := range slices.Backward(t.dims) {
		b = appendU64(b, uint64(d))
	}
	number, _ := t.dtype.GGML() // checked by AddFunc
	return appendU64(appendU32(b, number), uint64(offset))
}

// writeChecked writes the tensor's data and padding. It is an error if the data have another size than the record says.
func (t pendingTensor) writeChecked(p *paddedWriter) error {
	start := p.n
	if err := t.write(p); err != nil {
		return err
	}
	if n := p.n - start; n != t.bytes {
		return fmt.Errorf("the data has %d bytes: want %d for %s%v", n, t.bytes, t.dtype, t.dims)
	}
	return p.pad()
}

// paddedWriter counts the bytes written, and can pad them to the alignment.
type paddedWriter struct {
	out       io.Writer
	alignment int64
	n         int64
}

func (p *paddedWriter) Write(b []byte) (int, error) {
	n, err := p.out.Write(b)
	p.n += int64(n)
	return n, err
}

func (p *paddedWriter) pad() error {
	_, err := p.Write(make([]byte, ceil.Multiple(p.n, p.alignment)-p.n))
	return err
}
