package gguf

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// Header returns a GGUF file without tensors. Its metadata are f's and more; a key in more overrides the same key of f.
func (f *File) Header(more map[string]any) ([]byte, error) {
	var w Writer
	for _, kv := range f.kvs {
		if _, ok := more[kv.Key]; ok {
			continue
		}
		if err := w.Set(kv.Key, kv.Value); err != nil {
			return nil, err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(more)) {
		if err := w.Set(key, more[key]); err != nil {
			return nil, err
		}
	}
	var b bytes.Buffer
	_, err := w.WriteTo(&b)
	return b.Bytes(), err
}

// Named is a source of weights that can list their names and types without reading the weights.
type Named interface {
	ir.WeightSource
	WeightNames() []string
	WeightType(name string) (ir.DType, []int, error)
}

// Scaled is a source with matrices that have separate tensors of scales, as package nn takes them. GGUF files have no
// type for such matrices. Unscaled returns the source with the scales multiplied into the matrices.
type Scaled interface {
	Named
	// Unscaled returns the source with the scales multiplied into the matrices.
	Unscaled() (Named, error)
}

// Unscaled returns the file with the scales multiplied into the matrices, if its tensors are from a Scaled source, or
// else the file itself. Closing the result closes the file.
func (f *File) Unscaled() (*File, error) {
	from, ok := f.from.(Scaled)
	if !ok {
		return f, nil
	}
	plain, err := from.Unscaled()
	if err != nil {
		return nil, err
	}
	return Of(f.kvs, plain, f.Close)
}

// Of returns a file with some metadata and the tensors of another source, as if it had been written and opened. Closing
// the file calls close, if that is not nil.
func Of(metadata []KV, from Named, close func() error) (*File, error) {
	var w Writer
	for _, kv := range metadata {
		if err := w.Set(kv.Key, kv.Value); err != nil {
			return nil, err
		}
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		return nil, err
	}
	f, err := WithWeights(b.Bytes(), from)
	if err == nil {
		f.close = close
	}
	return f, err
}

// WithWeights returns a file with the metadata of header, a GGUF file without tensors, and the tensors of the source
// `from`. Tensor.Offset is 0, because they are in no file.
func WithWeights(header []byte, from Named) (*File, error) {
	f, err := NewReader(header)
	if err != nil {
		return nil, err
	}
	if len(f.tensors) > 0 {
		return nil, fmt.Errorf("gguf: a file with %d tensors: want none, because they come from "+
			"elsewhere", len(f.tensors))
	}
	f.from, f.names = from, map[string]int{}
	for i, name := range from.WeightNames() {
		t := Tensor{Name: name}
		if t.DType, t.Dims, err = from.WeightType(name); err != nil {
			return nil, err
		}
		t.Type, _ = t.DType.GGML()
		if t.Bytes, err = checkTensor(name, t.DType, t.Dims); err != nil {
			return nil, err
		}
		f.tensors, f.names[name] = append(f.tensors, t), i
	}
	return f, nil
}
