package bundle

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/filefmt"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/internal/spv"
	"github.com/vkc-go/vkc/internal/strictjson"
	"github.com/vkc-go/vkc/ir"
)

const format = "vkb"

// wayOut is the advice that ends every error about the content of a bundle.
const wayOut = "rebuild it with vkc compile"

// File is an open bundle. Its methods may be called from several goroutines, except Close.
type File struct {
	src      filefmt.Source
	mapping  *mmap.File // nil for Read
	sections []Section
	meta     Meta
	graph    []byte
	program  *kernel.Program
	spirv    [][]byte
	glsl     []string
	weights  *store // nil without weights
	model    []byte // nil for the bundle of a plain graph
	parts    []*File
	// signature is nil if the bundle is not signed.
	signature *signature
	closed    bool
}

// Open maps the bundle at path and checks everything except the weights. A weight is checked at its first use.
func Open(path string) (*File, error) {
	m, err := mmap.Open(path)
	if err != nil {
		return nil, fmt.Errorf("vkb: %w", err)
	}
	f := &File{src: filefmt.Source{Format: format, Path: path}}
	err = mmap.Guard(func() error { return f.read(m.Bytes()) })
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	f.mapping = m
	return f, nil
}

// Read reads a bundle from data. Its weights are slices of data.
func Read(data []byte) (*File, error) {
	f := &File{src: filefmt.Source{Format: format}}
	if err := f.read(data); err != nil {
		return nil, err
	}
	return f, nil
}

// Close unmaps the file. The weights must not be used afterwards; everything else may be.
func (f *File) Close() error {
	if f == nil {
		return nil
	}
	f.closed = true
	if f.mapping == nil {
		return nil
	}
	return f.mapping.Close()
}

// read reads and checks a bundle. It copies everything except the weights, so that later changes of the file cannot
// affect data that was checked.
func (f *File) read(data []byte) error {
	sections, err := decodeHead(data)
	if err != nil {
		return f.located(err)
	}
	f.sections = sections
	var idx *index
	var weights Section
	for i, s := range sections {
		if s.Kind == KindData {
			weights = s
			continue
		}
		// If there is no weight data before it, the index has nothing to describe: idx stays nil, and readSection
		// fails.
		if s.Kind == KindIndex && i > 0 && sections[i-1].Kind == KindData {
			idx = new(index)
		}
		if err := f.readSection(s, data[s.Offset:s.end()], idx); err != nil {
			return f.located(faultf(s.Offset, "section %s: %v", s, err))
		}
	}
	if err := f.complete(idx, weights); err != nil {
		// The directory is wrong. It begins after the header.
		return f.located(faultf(headerSize, "%v", err))
	}
	if idx == nil {
		return nil
	}
	f.weights, err = newStore(*idx, data[weights.Offset:weights.end()], weights.Offset)
	if err != nil {
		return f.located(faultf(weights.end(), "section %s: %v", KindIndex, err))
	}
	if f.signature != nil {
		f.weights.shas = f.signature.WeightSums
	}
	return nil
}

// located adds the file's name and advice to an error about its content.
func (f *File) located(err error) error {
	var at *fault
	if !errors.As(err, &at) {
		return err
	}
	return f.src.Errorf(at.pos, "%s; %s", at.msg, wayOut)
}

// readSection decodes section s with contents b into f, or into idx for the index of the weights. It does not read the
// weights themselves.
func (f *File) readSection(s Section, b []byte, idx *index) error {
	switch s.Kind {
	case KindMeta:
		return strictjson.Decode(b, &f.meta)
	case KindGraph:
		f.graph = slices.Clone(b)
	case KindProgram:
		f.program = new(kernel.Program)
		if err := strictjson.Decode(b, f.program); err != nil {
			return err
		}
		return f.program.Check()
	case KindSPIRV:
		if s.Index != len(f.spirv) {
			return fmt.Errorf("want spirv %d here", len(f.spirv))
		}
		f.spirv = append(f.spirv, slices.Clone(b))
		return spv.Check(b)
	case KindGLSL:
		if s.Index != len(f.glsl) {
			return fmt.Errorf("want glsl %d here", len(f.glsl))
		}
		f.glsl = append(f.glsl, string(b))
	case KindIndex:
		if idx == nil {
			return errors.New("there is no weight data")
		}
		return strictjson.Decode(b, idx)
	case KindModel:
		f.model = slices.Clone(b)
	case KindPart:
		if s.Index != len(f.parts) || s.Index >= maxParts {
			return fmt.Errorf("want part %d here, of %d at most", len(f.parts), maxParts)
		}
		return f.readPart(slices.Clone(b))
	case KindSignature:
		f.signature = new(signature)
		if err := strictjson.Decode(b, f.signature); err != nil {
			return err
		}
		return f.signature.check(f.sections)
	}
	return nil
}

// readPart reads another program of a model.
func (f *File) readPart(b []byte) error {
	// Check the kinds first. Otherwise parts inside parts could make reading recurse too deeply.
	sections, err := decodeHead(b)
	if err != nil {
		return err
	}
	for _, inner := range sections {
		// Only a whole bundle may have the kinds from KindData on.
		if inner.Kind >= KindData {
			return fmt.Errorf("it has a section %s, and may be a program only", inner.Kind)
		}
	}
	part := &File{src: filefmt.Source{Format: format, Path: f.src.Path}}
	if err := part.read(b); err != nil {
		return err
	}
	f.parts = append(f.parts, part)
	return nil
}

// complete checks that no section is missing.
func (f *File) complete(idx *index, weights Section) error {
	// decodeHead has checked that the kinds are in order, so these three must come first.
	for i, want := range []Kind{KindMeta, KindGraph, KindProgram} {
		if len(f.sections) <= i || f.sections[i].Kind != want {
			return fmt.Errorf("there is no section %s", want)
		}
	}
	n := len(f.program.Shaders)
	switch {
	case len(f.spirv) != n:
		return fmt.Errorf("SPIR-V of %d shaders for a program of %d", len(f.spirv), n)
	case len(f.glsl) != 0 && len(f.glsl) != n:
		return fmt.Errorf("GLSL of %d shaders for a program of %d", len(f.glsl), n)
	case idx == nil && weights.Kind == KindData:
		return fmt.Errorf("there is weight data, but no section %s", KindIndex)
	}
	for i := range f.spirv {
		if err := checkShader(f.spirv[i], &f.program.Shaders[i]); err != nil {
			return fmt.Errorf("shader %d (%q): %w", i, clip(f.program.Shaders[i].Name), err)
		}
	}
	return nil
}

// checkShader checks that a module matches the program's declaration of the shader. Drivers trust their input, and
// nothing more can be checked without tools.
func checkShader(module []byte, s *kernel.Shader) error {
	return spv.CheckShader(module, spv.Interface{Bindings: s.Bindings, Workgroup: s.Workgroup, Needs: s.Needs})
}

// Sections lists the file's sections, in order.
func (f *File) Sections() []Section { return slices.Clone(f.content().sections) }

// Meta returns the bundle's metadata.
func (f *File) Meta() Meta { return f.content().meta }

// Program returns the program; do not modify.
func (f *File) Program() *kernel.Program { return f.content().program }

// Model returns the metadata of the model's file, as a GGUF file without tensors. It is nil if the bundle was made from
// a plain graph. Do not modify it.
func (f *File) Model() []byte { return f.content().model }

// Parts returns the other programs of the model, which use the same weights. Do not modify them.
func (f *File) Parts() []*File { return f.content().parts }

// Graph reads the graph that the program was compiled from.
func (f *File) Graph() (*ir.Graph, error) {
	if f == nil {
		return nil, errNoFile
	}
	name := "graph.json of " + f.src.Path
	if f.src.Path == "" {
		name = "graph.json of the bundle"
	}
	g, err := ir.ReadJSON(name, f.graph)
	if errors.Is(err, ir.ErrNotRegistered) {
		return nil, fmt.Errorf("vkb: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("vkb: %w; %s", err, wayOut)
	}
	return g, nil
}

// SPIRV returns the code of each shader, by index in Program.Shaders; do not modify it.
func (f *File) SPIRV() [][]byte { return f.content().spirv }

// GLSL returns the source of each shader, or nil if the bundle has no sources.
func (f *File) GLSL() []string { return f.content().glsl }
