package imatrix

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
)

// Tensors is a file of tensors with metadata. A *gguf.File is one.
type Tensors interface {
	Names() []string
	Weight(name string) (*ir.Data, error)
	Lookup(key string) (value any, ok bool)
}

// sumsSuffix is the suffix of the tensor [matrices][columns] with the sums of squares for a weight, after the weight's
// name.
const sumsSuffix = ".in_sum2"

// FromTensors reads the GGUF format: general.type is "imatrix", imatrix.chunk_count and imatrix.datasets describe the
// run, and each weight NAME has a float32 tensor NAME.in_sum2 of sums of squares. It does not read the number of
// squares in a sum, NAME.counts, because quantizers only compare the columns of a row. The result does not refer to the
// file.
func FromTensors(f Tensors) (*Matrix, error) {
	if t, ok := f.Lookup("general.type"); !ok {
		return nil, fmt.Errorf("imatrix: there is no general.type: want imatrix; the file is a model, not an " +
			"importance matrix")
	} else if t != "imatrix" {
		return nil, fmt.Errorf("imatrix: general.type is %v, not imatrix: the file is a model or an adapter, not an "+
			"importance matrix", t)
	}
	m := &Matrix{sums: map[string][]float32{}}
	if n, ok := f.Lookup("imatrix.chunk_count"); ok {
		chunks, ok := n.(uint32)
		if !ok {
			return nil, fmt.Errorf("imatrix: imatrix.chunk_count is a %T, not a uint32", n)
		}
		m.Chunks = int(chunks)
	}
	if d, ok := f.Lookup("imatrix.datasets"); ok {
		datasets, ok := d.([]string)
		if !ok {
			return nil, fmt.Errorf("imatrix: imatrix.datasets is a %T, not a list of strings", d)
		}
		m.Datasets = slices.Clone(datasets)
	}
	for _, tensor := range f.Names() {
		if name, ok := strings.CutSuffix(tensor, sumsSuffix); ok {
			sums, err := floats(f, tensor)
			if err != nil {
				return nil, fmt.Errorf("imatrix: %w", err)
			}
			m.sums[name] = sums
		}
	}
	return m, nil
}

// floats returns the elements of a float32 tensor, which must be sums of squares.
func floats(f Tensors, name string) ([]float32, error) {
	d, err := f.Weight(name)
	if err != nil {
		return nil, err
	}
	if d.DType != ir.F32 {
		return nil, fmt.Errorf("tensor %q is %s, want f32", name, d)
	}
	var wide []float64
	err = mmap.Guard(func() (err error) { wide, err = d.Floats(); return err })
	if err != nil {
		return nil, fmt.Errorf("tensor %q: %w", name, err)
	}
	values := make([]float32, len(wide))
	for i, v := range wide {
		values[i] = float32(v)
	}
	if i := firstBad(values); i >= 0 {
		return nil, fmt.Errorf("tensor %q: value %d is %g: want a sum of squares, at least 0", name, i, values[i])
	}
	return values, nil
}
