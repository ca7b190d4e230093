// Quantize writes a GGUF model with its matrices quantized to Q8_0. Vectors
// (norms, biases) become f32 and metadata stays.
//
//	go run ./examples/gollama/quantize -in gollama-f16.gguf -out gollama-q8_0.gguf
package main

import (
	"flag"
	"fmt"
	"log"
	"os"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

func main() {
	log.SetFlags(0)
	in := flag.String("in", "", "the model `file` to read")
	out := flag.String("out", "", "the model `file` to write")
	flag.Parse()
	if *in == "" || *out == "" {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*in, *out); err != nil {
		log.Fatal("quantize: ", err)
	}
}

func run(in, out string) error {
	f, err := gguf.Open(in)
	if err != nil {
		return err
	}
	defer f.Close()
	w, err := quantized(f)
	if err != nil {
		return err
	}
	return w.WriteFile(out)
}

// Metadata values of llama.cpp.
const (
	mostlyQ8_0    = uint32(7) // general.file_type of a model whose matrices are Q8_0
	layoutVersion = uint32(2) // general.quantization_version of GGML's block layouts
)

// quantized returns a file to be written that holds the model f in Q8_0. Its
// tensors are converted one by one as they are written, so f must stay open.
func quantized(f *gguf.File) (*gguf.Writer, error) {
	w := &gguf.Writer{}
	for _, kv := range f.Metadata() {
		if err := w.Set(kv.Key, kv.Value); err != nil {
			return nil, err
		}
	}
	if err := w.Set("general.file_type", mostlyQ8_0); err != nil {
		return nil, err
	}
	if err := w.Set("general.quantization_version", layoutVersion); err != nil {
		return nil, err
	}
	for _, t := range f.Tensors() {
		to := target(t)
		if err := w.AddFunc(t.Name, to, t.Dims, func() (*ir.Data, error) { return convert(f, t.Name, to) }); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// target is the dtype for a tensor: Q8_0 where it is a matrix of whole blocks.
func target(t gguf.Tensor) ir.DType {
	if len(t.Dims) == 2 && t.Dims[1]%ir.Q8_0.BlockElems() == 0 {
		return ir.Q8_0
	}
	return ir.F32
}

func convert(f *gguf.File, name string, to ir.DType) (*ir.Data, error) {
	src, err := f.Weight(name)
	if err != nil {
		return nil, err
	}
	values, err := src.Floats()
	if err != nil {
		return nil, fmt.Errorf("want a model of float weights: %w", err)
	}
	if to == ir.F32 {
		return ir.FromFloats(to, values, src.Dims...)
	}
	dst, err := ir.NewData(to, src.Dims...)
	if err != nil {
		return nil, err
	}
	narrow := make([]float32, len(values))
	for i, v := range values {
		narrow[i] = float32(v)
	}
	return dst, quant.Quantize(dst.Bytes, to, narrow, nil)
}
