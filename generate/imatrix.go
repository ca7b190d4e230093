package generate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/ir"
)

// ImportanceMatrix has the mean squared activations per column of a model's matrices. Quantizing keeps columns with
// large activations more exact.
type ImportanceMatrix struct {
	Chunks, ChunkSize int
	Dataset           string // the name of the text

	sums map[string]*sums // by the name in the file
}

// sums are the sums for one tensor of the file.
type sums struct {
	dims   []int
	values []float64
}

// MeasureImportance runs a model on a text as MeasurePerplexity does, and returns the importance of the columns of all
// matrices in its layers. chunks, if not 0, bounds the number of chunks of the text. If progress is not nil, it
// is called after each chunk.
func MeasureImportance(ctx context.Context, path, text string, o Options, chunks int,
	progress func(done, total int)) (im *ImportanceMatrix, err error) {
	m, err := prepare(ctx, path, &o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	list, err := m.chunks(text, o, chunks)
	if err != nil {
		return nil, err
	}
	graph, err := llm.Activations(m.config, m.context) // its outputs are what the matrices are multiplied by
	if err != nil {
		return nil, err
	}
	exe, err := m.load(ctx, graph, o, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, exe.Close()) }()
	im = &ImportanceMatrix{Chunks: len(list), ChunkSize: m.context, sums: map[string]*sums{}}
	for i, chunk := range list {
		in, err := vkc.Of(chunk, len(chunk))
		if err != nil {
			return nil, err
		}
		res, err := exe.Run(ctx, vkc.Tensors{"tokens": in})
		if err != nil {
			return nil, err
		}
		for name, d := range res.Outputs {
			if err := im.add(name, d); err != nil {
				return nil, err
			}
		}
		if progress != nil {
			progress(i+1, len(list))
		}
	}
	return im, nil
}

// add adds a chunk's output d to the sums for the tensor with that name.
func (im *ImportanceMatrix) add(name string, d *ir.Data) error {
	values, err := d.Floats()
	if err != nil {
		return err
	}
	s := im.sums[name]
	if s == nil {
		s = &sums{dims: slices.Clone(d.Dims), values: make([]float64, len(values))}
		im.sums[name] = s
	}
	for i, v := range values {
		if !(v >= 0) || v > 1e38 { // NaN, or close to the largest f32
			return fmt.Errorf("generate: %s: value %d is %v: the model's activations are NaN or infinite", name, i, v)
		}
		s.values[i] += v
	}
	return nil
}

// WriteFile writes the matrix in llama.cpp's GGUF format, which llama-quantize and vkc quantize read.
func (im *ImportanceMatrix) WriteFile(path string) error {
	var w gguf.Writer
	for _, kv := range []gguf.KV{
		{Key: "general.type", Value: "imatrix"},
		{Key: "imatrix.datasets", Value: []string{im.Dataset}},
		{Key: "imatrix.chunk_count", Value: uint32(im.Chunks)},
		{Key: "imatrix.chunk_size", Value: uint32(im.ChunkSize)},
	} {
		if err := w.Set(kv.Key, kv.Value); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(im.sums)) {
		s := im.sums[name]
		dims := s.dims
		if strings.HasSuffix(name, llm.CountsSuffix) {
			dims = []int{len(s.values), 1}
		}
		d, err := ir.FromFloats(ir.F32, s.values, dims...)
		if err == nil {
			err = w.Add(name, d)
		}
		if err != nil {
			return err
		}
	}
	return w.WriteFile(path)
}
