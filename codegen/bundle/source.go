package bundle

import (
	"fmt"
	"os"
	"slices"

	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
)

// HasWeights reports whether the bundle contains weights.
func (f *File) HasWeights() bool { return f.content().weights != nil }

// Weights returns the bundle as a source of its own weights, or nil if it has none.
func (f *File) Weights() ir.WeightSource {
	if !f.HasWeights() {
		return nil
	}
	return f
}

// WeightNames returns the names of all weights, in the order of the file.
func (f *File) WeightNames() []string {
	if !f.HasWeights() {
		return nil
	}
	names := make([]string, len(f.weights.index.Tensors))
	for i, t := range f.weights.index.Tensors {
		names[i] = t.Name
	}
	return names
}

// WeightType returns the type of a weight without reading the weight.
func (f *File) WeightType(name string) (ir.DType, []int, error) {
	t, err := f.tensor(name)
	return t.DType, slices.Clone(t.Dims), err
}

// Weight returns a weight. It verifies the checksums of its chunks once. The bytes are part of the mapped file, so they
// are read-only and valid until Close. They begin at a multiple of 64 bytes in the file. Weight implements
// ir.WeightSource.
func (f *File) Weight(name string) (*ir.Data, error) {
	t, err := f.tensor(name)
	if err != nil {
		return nil, err
	}
	err = f.guard(func() error { return f.weights.check(t.Offset, t.Offset+t.Bytes) })
	if err != nil {
		return nil, fmt.Errorf("weight %q: %w", name, err)
	}
	return &ir.Data{DType: t.DType, Dims: slices.Clone(t.Dims), Bytes: f.weights.bytes(t)}, nil
}

// Verify performs the checks that Open leaves out: it verifies the checksums of all weights, and decodes the graph.
func (f *File) Verify() error {
	if _, err := f.Graph(); err != nil {
		return err
	}
	if f.weights == nil {
		return nil
	}
	return f.guard(func() error { return f.weights.check(0, int64(len(f.weights.data))) })
}

// tensor returns the index entry of a weight.
func (f *File) tensor(name string) (tensor, error) {
	if f == nil {
		return tensor{}, errNoFile
	}
	if f.weights == nil {
		return tensor{}, f.src.Unknown("weight", name, nil)
	}
	i, ok := f.weights.byName[name]
	if !ok {
		return tensor{}, f.src.Unknown("weight", name, f.WeightNames())
	}
	return f.weights.index.Tensors[i], nil
}

// guard calls read, which accesses weight data, and turns a page fault in the mapped file into an error.
func (f *File) guard(read func() error) error {
	if f.closed {
		return fmt.Errorf("vkb: %s: %w", f.src.Path, os.ErrClosed)
	}
	if f.mapping == nil {
		return f.located(read())
	}
	// The caller will read the mapping without guard, so a truncated file must fail here.
	if err := f.mapping.Intact(); err != nil {
		return fmt.Errorf("vkb: %w", err)
	}
	return f.located(mmap.Guard(read))
}
