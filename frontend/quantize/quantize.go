// Package quantize writes models with matrices in GGML block formats: from a GGUF or safetensors file to a GGUF file,
// tensor by tensor and a few rows at a time, so that the model is never completely in memory.
//
//	file, err := gguf.Open("model-f16.gguf")
//	src, err := quantize.NewSource(file)
//	plan, err := quantize.New(src, quantize.Options{Recipe: quantize.RecipeNamed("Q4_K_M")})
//	report, err := plan.WriteFile(ctx, "model-q4_K.gguf")
//
// Options.Type gives all matrices one format, and Options.Recipe mixes formats as llama.cpp does. The plan has the new
// type of each tensor, and a note for each tensor that does not get the requested type, so that nothing is changed
// silently. The report adds the quantization errors.
package quantize

import (
	"context"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
	"github.com/vkc-go/vkc/quant/imatrix"
)

// Options says how a model is to be quantized.
type Options struct {
	Type ir.DType // of the matrices: a block format, f32, f16 or bf16

	// Recipe mixes formats by the roles and layers of matrices, in place of Type. It may be nil.
	Recipe *Recipe

	// Keep lists exceptions from Type or Recipe. The first rule that matches a tensor's name applies. Each rule must
	// match a tensor.
	Keep []Rule

	// Search lists more exceptions, after Keep's.
	Search []SearchRule

	// Output and Embedding, if set, are the types of the output matrix and the token embedding, before all rules. If a
	// model has one matrix for both, its type is Embedding or, if that is not set, Output.
	Output, Embedding ir.DType

	// Imatrix has importance weights, or is nil. Tensors that it lacks, and formats that do not use weights, are
	// quantized without weights, with a note.
	Imatrix *imatrix.Matrix

	// Requantize allows tensors that are already quantized. The new error adds to the old one.
	Requantize bool

	// PartBytes divides the result among files of at most that size, or more for a file of one tensor; see
	// gguf.Writer.WriteParts. Zero means one file of any size.
	PartBytes int64

	Workers  int            // goroutines; zero means one per core
	Progress func(Progress) // called often while a file is written; may be nil
}

// Rule sets the type of tensors with names that match a pattern.
type Rule struct {
	Pattern string // as in path.Match: * matches any string without a slash, ? one character
	Type    ir.DType
}

// SearchRule sets the type of tensors if a regular expression matches a part of their name.
type SearchRule struct {
	Name *regexp.Regexp
	Type ir.DType
}

// Progress says how far WriteFile has come.
type Progress struct {
	Tensor         string // the name of the tensor being converted
	Index, Tensors int    // its index, from 0, and the number of tensors
	Done, Total    int64  // bytes of the source's tensors that were read, and of all of them
}

// Tensor is the plan for one tensor.
type Tensor struct {
	Name     string
	Dims     []int // row-major
	From, To ir.DType
	BytesIn  int64
	BytesOut int64
	Wanted   ir.DType // ir.Invalid, or the requested format, if its blocks do not fit the rows
	Note     string   // why To differs from the requested type, or another remark; often empty
	Weighted bool     // quantized with importance weights

	order []int // if not nil, column i is written as column order[i]; of a stack, each matrix has its own
}

// Plan says how each tensor of a model will be quantized.
type Plan struct {
	Tensors []Tensor
	Notes   []string // about the file as a whole
	source  *Source
	options Options
}

// New plans the type of each tensor of src. It reads no elements. It returns an error for options that contradict the
// model, such as a pattern that matches no tensor.
func New(src *Source, opt Options) (*Plan, error) {
	if opt.Recipe != nil {
		opt.Type = opt.Recipe.Base
	}
	if err := checkOptions(opt); err != nil {
		return nil, fmt.Errorf("quantize: %w", err)
	}
	p := &Plan{source: src, options: opt, Notes: src.notes(opt)}
	c := newChooser(src, opt)
	for _, info := range src.tensors {
		t, err := c.choose(info)
		if err != nil {
			return nil, fmt.Errorf("quantize: tensor %q: %w", info.name, err)
		}
		p.Tensors = append(p.Tensors, t)
	}
	if err := p.placeColumns(); err != nil {
		return nil, fmt.Errorf("quantize: %w", err)
	}
	for _, r := range c.rules {
		if !r.used {
			return nil, fmt.Errorf("quantize: no tensor %s", r.what)
		}
	}
	return p, nil
}

// orderSuffix is the suffix of the name of a tensor with the order of a matrix's columns (see nn.Linear). It replaces
// .weight.
const orderSuffix = ".order"

// placeColumns plans matrices with permuted columns. The order of the columns is in a tensor NAME.order. If a matrix
// keeps its type, it keeps the order, although ggml's programs refuse files with such a tensor. If a matrix gets
// another type, its columns get their own order back, and the tensor is left out.
func (p *Plan) placeColumns() error {
	orders := map[string]bool{} // by name of a tensor with an order: whether it is left out
	for _, t := range p.Tensors {
		if strings.HasSuffix(t.Name, orderSuffix) && t.From == ir.I32 {
			orders[t.Name] = false
		}
	}
	for i := range p.Tensors {
		t := &p.Tensors[i]
		name := strings.TrimSuffix(t.Name, ".weight") + orderSuffix
		if _, ok := orders[name]; !ok || name == t.Name || t.To == t.From {
			continue
		}
		d, err := p.source.file.Weight(name)
		if err != nil {
			return err
		}
		if t.order, err = columnsOf(d, t.columns(), t.matrices()); err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		orders[name] = true
		t.addNote("columns put into their own order")
	}
	p.Tensors = slices.DeleteFunc(p.Tensors, func(t Tensor) bool { return orders[t.Name] })
	kept := 0
	for _, out := range orders {
		if !out {
			kept++
		}
	}
	if kept > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%d matrices keep their type and have permuted columns (NAME.order): "+
			"only vkc loads such a file; for ggml programs choose another type, with --requantize", kept))
	}
	return nil
}

// columnsOf returns the order of n columns for each of several matrices, one after another. It returns an error if d
// has no permutation of 0 … n-1 for each.
func columnsOf(d *ir.Data, n, matrices int) ([]int, error) {
	list, err := d.Ints()
	if err != nil {
		return nil, err
	}
	if len(list) != n*matrices {
		return nil, fmt.Errorf("it has %d elements: want a permutation of %d columns for each of %d matrices",
			len(list), n, matrices)
	}
	order, seen := make([]int, len(list)), make([]bool, len(list))
	for i, at := range list {
		first := i - i%n // of the matrix
		if at < 0 || at >= int64(n) || seen[first+int(at)] {
			return nil, fmt.Errorf("it is not a permutation of %d columns", n)
		}
		order[i], seen[first+int(at)] = int(at), true
	}
	return order, nil
}

// checkOptions returns an error for types and patterns that are not valid.
func checkOptions(opt Options) error {
	if err := checkType(opt.Type); err != nil {
		return err
	}
	if opt.PartBytes < 0 {
		return fmt.Errorf("parts of %d bytes: want at least 1, or 0 for one file", opt.PartBytes)
	}
	for _, r := range opt.Keep {
		if _, err := path.Match(r.Pattern, ""); err != nil {
			return fmt.Errorf("pattern %q: %w", r.Pattern, err)
		}
		if err := checkType(r.Type); err != nil {
			return fmt.Errorf("pattern %q: %w", r.Pattern, err)
		}
	}
	for _, r := range opt.Search {
		if err := checkType(r.Type); err != nil {
			return fmt.Errorf("pattern %q: %w", r.Name, err)
		}
	}
	for _, t := range []ir.DType{opt.Output, opt.Embedding} {
		if err := checkType(t); err != nil && t != ir.Invalid {
			return err
		}
	}
	return nil
}

// WriteFile writes the quantized model to path, or to files with names made from path (Options.PartBytes). After an
// error, or if ctx ends, the file at path is unchanged.
//
// A value that its tensor's type cannot represent, such as a NaN, is an error. It names the tensor and the element, and
// wraps a *quant.ValueError.
func (p *Plan) WriteFile(ctx context.Context, path string) (*Report, error) {
	w := &gguf.Writer{}
	if err := p.setMetadata(w); err != nil {
		return nil, fmt.Errorf("quantize: %w", err)
	}
	run := &run{plan: p, report: &Report{Notes: p.Notes}}
	for _, t := range p.Tensors {
		run.total += t.BytesIn
	}
	for i, t := range p.Tensors {
		err := w.AddStream(t.Name, t.To, t.Dims, func(out io.Writer) error { return run.convert(ctx, i, out) })
		if err != nil {
			return nil, fmt.Errorf("quantize: %w", err)
		}
	}
	var err error
	if size := p.options.PartBytes; size > 0 {
		run.report.Files, err = w.WriteParts(path, size)
	} else {
		run.report.Files, err = []string{path}, w.WriteFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("quantize: %w", err)
	}
	return run.report, nil
}

// Metadata keys that quantizing changes.
const (
	fileTypeKey      = "general.file_type"
	layoutVersionKey = "general.quantization_version"
)

// layoutVersion is the version of GGML's block layouts (GGML_QNT_VERSION).
const layoutVersion = uint32(2)

// setMetadata copies the source's metadata, and sets the file type. A file with quantized tensors must also state the
// version of the block layouts.
func (p *Plan) setMetadata(w *gguf.Writer) error {
	for _, kv := range p.source.metadata {
		if err := w.Set(kv.Key, kv.Value); err != nil {
			return err
		}
	}
	main, blocks := p.mainType()
	number, ok := FileType(main)
	if r := p.options.Recipe; r != nil {
		number, ok = r.FileType, true
	}
	if ok {
		if err := w.Set(fileTypeKey, number); err != nil {
			return err
		}
	}
	if !blocks {
		return nil
	}
	return w.Set(layoutVersionKey, layoutVersion)
}

// mainType returns the type that most elements have, and whether any tensor is quantized.
func (p *Plan) mainType() (main ir.DType, blocks bool) {
	elems := map[ir.DType]int64{}
	for _, t := range p.Tensors {
		blocks = blocks || t.To.IsBlock()
		elems[t.To] += t.elems()
	}
	for _, t := range ir.DTypes() { // in a fixed order, so that ties always have the same result
		if elems[t] > elems[main] {
			main = t
		}
	}
	return main, blocks
}

// elems returns the number of elements.
func (t Tensor) elems() int64 {
	n := int64(1)
	for _, d := range t.Dims {
		n *= int64(d)
	}
	return n
}

// FileType returns the value of general.file_type for files in which most elements have type t. For K formats, GGUF has
// numbers for llama.cpp's mixtures, such as Q4_K_S and Q4_K_M; FileType returns the number of the smallest mixture.
func FileType(t ir.DType) (number uint32, ok bool) {
	if f, ok := ir.BlockFormatOf(t); ok {
		return uint32(f.FileType), f.FileType != 0
	}
	number, ok = map[ir.DType]uint32{ir.F32: 0, ir.F16: 1, ir.BF16: 32}[t]
	return number, ok
}

// checkType returns an error for a type in which programs do not load weights.
func checkType(t ir.DType) error {
	f, block := ir.BlockFormatOf(t)
	switch _, encodes := quant.Supported(t); {
	case block && f.Activations:
		return fmt.Errorf("%s is a format of activations, which no program uses for weights: use q8_0", t)
	case encodes, t == ir.F32, t == ir.F16, t == ir.BF16:
		return nil
	}
	return fmt.Errorf("%s is not a quantized type: want a block format, f32, f16 or bf16", t)
}

// Source is an open model file.
type Source struct {
	file     weights
	tensors  []tensorInfo
	metadata []gguf.KV
	isGGUF   bool
}

// weights is the interface that GGUF and safetensors files share.
type weights interface {
	Names() []string
	Weight(name string) (*ir.Data, error)
	Close() error
}

type tensorInfo struct {
	name  string
	dtype ir.DType
	dims  []int
	bytes int64
}

// NewSource returns a source for an open *gguf.File, *safetensors.File or *safetensors.Index. Closing the source closes
// the file. A tensor of an unknown type is an error.
func NewSource(file weights) (*Source, error) {
	s := &Source{file: file}
	if f, ok := file.(*gguf.File); ok {
		f, err := f.Unscaled()
		if err != nil {
			return nil, fmt.Errorf("quantize: %w", err)
		}
		s.file = f
		s.isGGUF, s.metadata = true, f.Metadata()
		for _, t := range f.Tensors() {
			if t.DType == ir.Invalid {
				_, err := f.Weight(t.Name) // says which type it is
				return nil, fmt.Errorf("quantize: %w", err)
			}
			s.tensors = append(s.tensors, tensorInfo{t.Name, t.DType, t.Dims, t.Bytes})
		}
		return s, nil
	}
	for _, name := range file.Names() {
		d, err := file.Weight(name)
		if err != nil {
			return nil, fmt.Errorf("quantize: %w", err)
		}
		s.tensors = append(s.tensors, tensorInfo{name, d.DType, d.Dims, int64(len(d.Bytes))})
	}
	return s, nil
}

// Close closes the file.
func (s *Source) Close() error { return s.file.Close() }

// maxGGMLName is the maximum length of a tensor name in ggml (GGML_MAX_NAME, which includes a zero byte).
const maxGGMLName = 63

// notes lists reasons why ggml's programs could not load a file that is made from the source.
func (s *Source) notes(opt Options) (notes []string) {
	if !s.isGGUF {
		notes = append(notes, "a file from safetensors has no architecture, hyperparameters or tokenizer in its "+
			"metadata, and keeps its tensor names: for ggml programs, convert the model to GGUF first")
	}
	if !s.isGGUF && opt.Recipe != nil {
		notes = append(notes, fmt.Sprintf("recipe %s mixes by the tensor names of GGUF files, which this file lacks: "+
			"all matrices become %s", opt.Recipe.Name, opt.Type))
	}
	for _, t := range s.tensors {
		if len(t.name) > maxGGMLName {
			notes = append(notes, fmt.Sprintf("tensor %q has a name of %d bytes: ggml programs take at most %d", t.name,
				len(t.name), maxGGMLName))
		}
	}
	return notes
}
