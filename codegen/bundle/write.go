package bundle

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/atomicfile"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// Contents is the input of a new bundle.
type Contents struct {
	Meta    Meta
	Graph   *ir.Graph // the program's source graph
	Program *kernel.Program
	SPIRV   [][]byte // by index in Program.Shaders
	// GLSL is the source of each shader, for people to read; nil to leave it out.
	GLSL []string
	// Weights provides the weights to include. If it is nil, the bundle has no weights, and they are given when it is
	// run.
	Weights ir.WeightSource
	// Model is the metadata of a model's file, as a GGUF file without tensors, or nil for a plain graph. A bundle of a
	// model includes all weights that Weights names.
	Model []byte
	// Parts are the model's other programs. They share its weights, and have no weights, parts or signature themselves.
	Parts []*Contents
	// Sign is the private key that signs the bundle, or nil.
	Sign ed25519.PrivateKey
}

// Meta describes the origin of a bundle. It has neither a time nor a machine, so that equal inputs give equal bundles.
type Meta struct {
	Version   string `json:"vkc"`                  // version of vkc
	CreatedBy string `json:"created_by,omitempty"` // program that wrote the bundle
	Source    string `json:"source,omitempty"`     // name of the model or graph file, as its author named it

	// The versions that produced the program, so that it can be reproduced and compared: the version of the generator,
	// the versions of the GLSL tools, the device, and the hash of the tuning, if any.
	Generator string       `json:"generator,omitempty"`
	Tools     string       `json:"tools,omitempty"`
	Target    *device.Caps `json:"target,omitempty"`
	Tuning    string       `json:"tuning,omitempty"`
	// OneKernel says that the program was compiled without alternatives for small values of symbols.
	OneKernel bool `json:"one_kernel,omitempty"`
}

// Encode returns the bundle as bytes. Equal contents give equal bytes.
func Encode(c *Contents) ([]byte, error) {
	var b buffer
	if err := encode(&b, c); err != nil {
		return nil, fmt.Errorf("vkb: %w", err)
	}
	return b.data, nil
}

// Write writes the bundle to path. The file appears only when it is complete. Weights are copied one at a time.
func Write(path string, c *Contents) error {
	if err := atomicfile.Write(path, 0o666, func(f *atomicfile.File) error { return encode(f, c) }); err != nil {
		return fmt.Errorf("vkb: write %s: %w", path, err)
	}
	return nil
}

// buffer is a sink in memory.
type buffer struct{ data []byte }

func (b *buffer) Write(p []byte) (int, error) { b.data = append(b.data, p...); return len(p), nil }

func (b *buffer) WriteAt(p []byte, at int64) (int, error) { return copy(b.data[at:], p), nil }

// sink receives a bundle. The header and the directory contain the checksums of everything else. So they are first
// written as zeros, and overwritten at the end.
type sink interface {
	io.Writer
	io.WriterAt
}

// writer writes sections one after another, and remembers them for the directory.
type writer struct {
	err      error // the first error; after it, nothing is written
	to       sink
	pos      int64     // number of bytes written
	sections []Section // all that were begun
	sums     chunkSums // of the weight data
}

// encode writes a bundle to a sink.
func encode(to sink, c *Contents) error {
	program, err := c.programSections()
	if err != nil {
		return err
	}
	model, err := c.modelSections()
	if err != nil {
		return err
	}
	refs, err := c.weightRefs()
	if err != nil {
		return err
	}
	w := &writer{to: to, sums: chunkSums{signed: c.Sign != nil}}
	n := len(program) + len(model)
	if len(refs) > 0 {
		n += 2 // the weight data and its index
	}
	if c.Sign != nil {
		n++
	}
	if n > maxSections {
		return fmt.Errorf("%d sections are over the limit of %d", n, maxSections)
	}
	w.zeros(headSize(n)) // finish overwrites them
	w.writeReady(program)
	if len(refs) > 0 {
		if err := w.writeWeights(refs, c.Weights); err != nil {
			return err
		}
	}
	w.writeReady(model)
	return w.finish(c.Sign)
}

// modelSections returns the sections of a model: its metadata and its other programs. They come after the weights.
func (c *Contents) modelSections() (list []readySection, err error) {
	if c.Model != nil {
		list = append(list, readySection{KindModel, 0, c.Model})
	}
	if len(c.Parts) > maxParts {
		return nil, fmt.Errorf("%d parts are over the limit of %d", len(c.Parts), maxParts)
	}
	for i, part := range c.Parts {
		if part == nil || part.Weights != nil || part.Model != nil || part.Parts != nil || part.Sign != nil {
			return nil, fmt.Errorf("part %d is missing, or is more than a program", i)
		}
		var b buffer
		if err := encode(&b, part); err != nil {
			return nil, fmt.Errorf("part %d: %w", i, err)
		}
		list = append(list, readySection{KindPart, i, b.data})
	}
	return list, nil
}

// finish writes the signature if there is a key, and then the header and the directory, over the zeros at the start.
func (w *writer) finish(key ed25519.PrivateKey) error {
	if key != nil {
		w.json(KindSignature, sign(key, w.sections, w.sums.shas))
	}
	if w.err != nil {
		return w.err
	}
	_, err := w.to.WriteAt(encodeHead(w.sections, w.pos), 0)
	return err
}

// readySection is a section with its content in memory. Only weight data is never in memory as a whole.
type readySection struct {
	kind    Kind
	index   int
	content []byte
}

// programSections returns the sections before the weights. It checks that the contents are consistent, because every
// bundle that is written must be readable.
func (c *Contents) programSections() ([]readySection, error) {
	if c == nil {
		return nil, errors.New("a bundle needs a graph and a program: its contents are nil")
	}
	if c.Graph == nil || c.Program == nil {
		return nil, fmt.Errorf("needs a graph and a program")
	}
	if err := c.Program.Check(); err != nil {
		return nil, fmt.Errorf("program: %w", err)
	}
	meta, err := json.Marshal(c.Meta)
	if err != nil {
		return nil, err
	}
	graph, err := c.Graph.MarshalJSONText()
	if err != nil {
		return nil, fmt.Errorf("graph: %w", err)
	}
	program, err := json.Marshal(c.Program)
	if err != nil {
		return nil, fmt.Errorf("program: %w", err)
	}
	list := []readySection{{KindMeta, 0, meta}, {KindGraph, 0, graph}, {KindProgram, 0, program}}
	shaders, err := c.shaderSections()
	return append(list, shaders...), err
}

// shaderSections returns the sections with the shaders' SPIR-V and GLSL.
func (c *Contents) shaderSections() ([]readySection, error) {
	n := len(c.Program.Shaders)
	switch {
	case n > maxShaders:
		return nil, fmt.Errorf("%d shaders are over the limit of %d", n, maxShaders)
	case len(c.SPIRV) != n:
		return nil, fmt.Errorf("SPIR-V of %d shaders for a program of %d", len(c.SPIRV), n)
	case c.GLSL != nil && len(c.GLSL) != n:
		return nil, fmt.Errorf("GLSL of %d shaders for a program of %d", len(c.GLSL), n)
	}
	var list []readySection
	for i, code := range c.SPIRV {
		if err := checkShader(code, &c.Program.Shaders[i]); err != nil {
			return nil, fmt.Errorf("shader %d (%s): %w", i, c.Program.Shaders[i].Name, err)
		}
		list = append(list, readySection{KindSPIRV, i, code})
	}
	for i, source := range c.GLSL {
		list = append(list, readySection{KindGLSL, i, []byte(source)})
	}
	return list, nil
}

// writeReady writes sections with their content in memory.
func (w *writer) writeReady(list []readySection) {
	for _, s := range list {
		w.section(s.kind, s.index, s.content)
	}
}

// json writes a section with the JSON of a value.
func (w *writer) json(kind Kind, value any) {
	content, err := json.Marshal(value)
	w.err = cmp.Or(w.err, err)
	w.section(kind, 0, content)
}

// section writes a section with the given content.
func (w *writer) section(kind Kind, index int, content []byte) {
	w.begin(kind, index)
	w.sections[len(w.sections)-1].SHA256 = sha256.Sum256(content)
	w.write(content)
	w.end()
}

// begin starts a section. Everything written until end is its content.
func (w *writer) begin(kind Kind, index int) {
	w.zeros(ceil.Multiple(w.pos, kind.align()) - w.pos)
	w.sections = append(w.sections, Section{Kind: kind, Index: index, Offset: w.pos})
}

// end ends the current section and records its length.
func (w *writer) end() {
	s := &w.sections[len(w.sections)-1]
	s.Length = w.pos - s.Offset
	if limit := kinds[s.Kind].max; w.err == nil && s.Length > limit {
		w.err = fmt.Errorf("section %s has %d bytes, the limit is %d", s, s.Length, limit)
	}
}

// write writes p and advances the position. After an error it does nothing.
func (w *writer) write(p []byte) {
	if w.err == nil {
		var n int
		n, w.err = w.to.Write(p)
		w.pos += int64(n)
	}
}

func (w *writer) zeros(n int64) { w.write(bytes.Repeat([]byte{0}, int(n))) }
