package vkc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/vkc-go/vkc/codegen/bundle"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/huggingface"
	"github.com/vkc-go/vkc/frontend/safetensors"
	"github.com/vkc-go/vkc/frontend/speech"
	"github.com/vkc-go/vkc/internal/filefmt"
	"github.com/vkc-go/vkc/internal/inputfile"
	"github.com/vkc-go/vkc/ir"
)

// maxGraphBytes limits the size of a graph file. A graph file has no weights, so even large models need only a few
// megabytes.
const maxGraphBytes = 1 << 30

// Weights is an open file of named tensors.
type Weights interface {
	ir.WeightSource
	// Names lists the tensors of the file.
	Names() []string
	io.Closer
}

// OpenModel opens a model of language or speech: a GGUF file, a Hugging Face folder (see package huggingface) or a file
// of whisper.cpp (see package speech). The last two look like a GGUF file, with GGUF's names of metadata and tensors.
func OpenModel(path string) (*gguf.File, error) {
	if huggingface.IsFolder(path) {
		return huggingface.Open(path)
	}
	if head, err := filefmt.Head(path, 4); err == nil && string(head) == speech.GGMLMagic {
		return speech.OpenGGML(path)
	}
	return gguf.Open(path)
}

// OpenWeights opens a weights file: GGUF (recognized by its content), safetensors, the index of a model in several
// safetensors files (model.safetensors.index.json), or a model that [OpenModel] opens. Tensors alias the mapped file
// and are valid until Close. If the file is truncated while it is open, every vkc function that reads the tensors
// returns an error with the file's name. Your own code that reads the bytes would crash.
func OpenWeights(path string) (Weights, error) {
	if huggingface.IsFolder(path) {
		return opened(OpenModel(path))
	}
	head, err := filefmt.Head(path, 4) // the file's magic, if it has one
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	var w Weights
	switch {
	case len(head) == 0:
		err = fmt.Errorf("%s is empty, and neither GGUF nor safetensors", path)
	case string(head) == "GGUF", string(head) == speech.GGMLMagic:
		w, err = opened(OpenModel(path))
	case strings.EqualFold(filepath.Ext(path), ".json"):
		w, err = opened(safetensors.OpenIndex(path))
	case strings.EqualFold(filepath.Ext(path), ".safetensors"):
		w, err = opened(safetensors.Open(path))
	default:
		err = fmt.Errorf("%s is neither GGUF nor safetensors: it begins with %q and its name does not end in "+
			".safetensors or .safetensors.index.json", path, head)
	}
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	return w, nil
}

// opened returns a nil interface after an error, not an interface with a nil pointer in it.
func opened[W Weights](w W, err error) (Weights, error) {
	if err != nil {
		return nil, err
	}
	return w, nil
}

// WeightMap maps names to weights in memory.
type WeightMap map[string]*ir.Data

// Weight implements [ir.WeightSource].
func (m WeightMap) Weight(name string) (*ir.Data, error) {
	if d, ok := m[name]; ok {
		return d, nil
	}
	return nil, fmt.Errorf("there is no weight %q among the %d given", name, len(m))
}

// ReadGraph reads a graph from graph.json or from text IR as printed by [ir.Graph.String]. It detects the format from
// the content.
func ReadGraph(path string) (*ir.Graph, error) {
	if strings.EqualFold(filepath.Ext(path), ".safetensors") {
		return nil, fmt.Errorf("graph: %s is a safetensors file, which has weights but no graph: give the graph's "+
			"file, and this one as its weights (vkc run GRAPH.json --weights FILE)", path)
	}
	text, err := inputfile.ReadAtMost(path, maxGraphBytes)
	if err != nil {
		return nil, fmt.Errorf("graph: %w", err)
	}
	if len(text) > maxGraphBytes {
		return nil, fmt.Errorf("graph: %s is larger than %d MiB, more than a graph may have: weights stay in a file "+
			"of their own", path, maxGraphBytes>>20)
	}
	return parseGraph(path, text)
}

// parseGraph parses the contents of a graph file.
func parseGraph(path string, text []byte) (*ir.Graph, error) {
	start := bytes.TrimSpace(text)
	begins := func(with string) bool { return bytes.HasPrefix(start, []byte(with)) }
	switch {
	case bytes.HasPrefix(text, []byte(filefmt.BundleMagic)):
		return nil, fmt.Errorf("graph: %s is a compiled bundle: vkc run takes it as it is, vkc graph writes its "+
			"graph; in Go OpenBundle opens it", path)
	case begins("GGUF"):
		return nil, fmt.Errorf("graph: %s is a GGUF file, which has weights but no graph: frontend/llm builds the "+
			"graph of a language model, and the file is its weights", path)
	case begins("graph"), begins(";"): // a comment
		g, err := ir.Parse(string(text))
		if where := (*ir.ReadError)(nil); errors.As(err, &where) {
			where.File = path
		}
		return g, err
	case !begins("{") && !begins("["):
		found := "the end of the file"
		if len(start) > 0 {
			found = beginning(start)
		}
		return nil, fmt.Errorf("graph: %s:1:1: found %s, expected a graph: JSON, which begins with {, or text IR, "+
			"which begins with the word graph", path, found)
	}
	return ir.ReadJSON(path, text)
}

// beginning returns the first character of a text, or the first byte of invalid UTF-8.
func beginning(text []byte) string {
	r, size := utf8.DecodeRune(text)
	if r == utf8.RuneError && size == 1 {
		return fmt.Sprintf("byte 0x%02x", text[0])
	}
	return strconv.QuoteRune(r)
}

// OpenBundle opens a program that [Program.Save] wrote. It checks everything but the weights; those are checked on use.
// The program must stay open while executables made from it are loaded.
func OpenBundle(path string) (*Program, error) {
	f, err := bundle.Open(path)
	if err != nil {
		return nil, err
	}
	return openedBundle(f, path)
}

// OpenBundleBytes opens a bundle in memory, such as a go:embed file. Weights alias content. Do not change content while
// the program or its executables are in use.
func OpenBundleBytes(content []byte) (*Program, error) {
	f, err := bundle.Read(content)
	if err != nil {
		return nil, err
	}
	return openedBundle(f, "bundle")
}

// Parts returns the other programs in the bundle of p, which are for other graphs of the same model. Load them with the
// same weights. A bundle of a single graph has none. If p was compiled for several devices, Parts returns the programs
// into which p is split, each for one device.
func (p *Program) Parts() (list []*Program, err error) {
	if p != nil && p.parts != nil {
		return p.parts, nil
	}
	if p == nil || p.file == nil {
		return nil, nil
	}
	for i, f := range p.file.Parts() {
		part, err := openedBundle(f, fmt.Sprintf("part %d of the bundle", i))
		if err != nil {
			return nil, err
		}
		list = append(list, part)
	}
	return list, nil
}

// openedBundle returns the program in a bundle, or an error if a custom op of the graph is registered differently here.
// After an error it closes the file. name is the name of the bundle in errors.
func openedBundle(f *bundle.File, name string) (*Program, error) {
	g, err := f.Graph()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	p := f.Program()
	if err := compiler.SameCustomOps(g, p.GraphHash); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return &Program{
		Contents: bundle.Contents{Meta: f.Meta(), Graph: g, Program: p, SPIRV: f.SPIRV(), GLSL: f.GLSL(),
			Weights: f.Weights(), Model: f.Model()},
		Stats: CompileStats{Kernels: len(p.Steps), Shaders: len(p.Shaders)},
		file:  f,
	}, nil
}
