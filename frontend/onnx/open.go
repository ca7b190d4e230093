// Package onnx reads ONNX models (onnx.ai, opsets 1 to 28) and builds their graphs.
//
//	m, err := onnx.Open("model.onnx", onnx.Options{})
//	...
//	defer m.Close()
//	// m.Graph is the computation, m its weights: m implements ir.WeightSource
//
// The file is memory-mapped and parsed field by field. Weights alias it, or the external files next to it. Files are
// untrusted: every size is bounded, and no file outside of the model's folder is opened.
//
// Each ONNX op has a row in one table. The row builds the op, in the form of the newest opset, with package frontend.
// Another table converts nodes of older opsets to newer forms.
//
// Expressions of constants are computed while the graph is built. Shape arithmetic is computed symbolically: results of
// Shape, Gather, Concat and similar ops on extents stay expressions over symbols, so that a model with symbolic extents
// has one graph for all sizes.
//
// All nodes that cannot be built are reported at once. An attribute, input or result that a row does not read is an
// error too, because it would otherwise be ignored silently.
package onnx

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/filefmt"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
)

// DefaultBound is the default bound of a symbolic extent.
const DefaultBound = 512

// File is an open model: its graph, and its weights by name. Weight may be called concurrently.
type File struct {
	Model *Model
	Graph *ir.Graph
	// Outputs has, for each output of the model in order, the names of the graph's outputs that represent it: one for a
	// tensor, any number for a sequence, and none for an empty optional.
	Outputs [][]string

	src       filefmt.Source
	mapping   *mmap.File
	externals *externals
	weights   map[string]*ir.Data
}

// Open maps the model at path and builds its graph. If some nodes cannot be built, the error is an *UnsupportedError
// that lists all of them.
func Open(path string, options Options) (*File, error) {
	f, err := Read(path)
	if err != nil {
		return nil, err
	}
	if err := mmap.Guard(func() error { return f.build(options) }); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Read maps the model at path into memory and parses it. It builds no graph: File.Graph is nil.
func Read(path string) (*File, error) {
	m, err := mmap.Open(path)
	if err != nil {
		return nil, fmt.Errorf("onnx: %w", err)
	}
	f := &File{src: filefmt.Source{Format: "onnx", Path: path}, mapping: m,
		externals: &externals{folder: filepath.Dir(path)}}
	if err := mmap.Guard(func() error { return f.read(m.Bytes()) }); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// NewReader builds the graph of a model in memory. Weights alias content.
func NewReader(content []byte, options Options) (*File, error) {
	f := &File{src: filefmt.Source{Format: "onnx"}, externals: &externals{}}
	if err := f.read(content); err != nil {
		return nil, err
	}
	if err := f.build(options); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *File) read(content []byte) (err error) {
	r := &reader{src: f.src}
	f.Model, err = r.model(content)
	return err
}

// Close unmaps the model. Weights must not be used afterwards.
func (f *File) Close() error {
	err := f.externals.close()
	if f.mapping != nil {
		err = errors.Join(err, f.mapping.Close())
	}
	return err
}

// Names lists the weights of the graph, in its order.
func (f *File) Names() []string {
	var names []string
	for _, n := range f.Graph.Leaves(ir.OpWeight) {
		names = append(names, n.Name())
	}
	return names
}

// Weight returns the weight of that name. It implements ir.WeightSource.
func (f *File) Weight(name string) (*ir.Data, error) {
	d, ok := f.weights[name]
	if !ok {
		return nil, f.src.Unknown("weight", name, f.Names())
	}
	if f.mapping != nil {
		if err := f.mapping.Intact(); err != nil {
			return nil, fmt.Errorf("onnx: weight %q: %w", name, err)
		}
	}
	return d, nil
}

// Unsupported is a node that cannot be built.
type Unsupported struct {
	Node string // its name, or the name of its first output
	Op   string // with its domain, unless that is ONNX's own
	Err  error
}

// UnsupportedError lists the nodes of a model that cannot be built.
type UnsupportedError struct {
	Path  string
	Nodes []Unsupported
	// Inputs names the inputs with values that must be known when the graph is built: see Options.Inputs.
	Inputs []string
	// Dims names the symbolic extents of inputs. If Options.Dims replaces one by a number, a multiple or another
	// extent, more nodes may be possible.
	Dims []string
}

// listedNodes is how many nodes an error lists, since the same unsupported op may occur a hundred times.
const listedNodes = 30

// Error names the nodes, a line each.
func (e *UnsupportedError) Error() string {
	var b strings.Builder
	what := "a node"
	if n := len(e.Nodes); n != 1 {
		what = fmt.Sprintf("%d nodes", n)
	}
	fmt.Fprintf(&b, "onnx: %s: %s cannot be built:", e.Path, what)
	for i, n := range e.Nodes {
		if i == listedNodes {
			fmt.Fprintf(&b, "\n  and %d more", len(e.Nodes)-i)
			break
		}
		fmt.Fprintf(&b, "\n  %s (%s): %v", ir.Printable(n.Node), ir.Printable(n.Op), n.Err)
	}
	if len(e.Inputs) > 0 {
		fmt.Fprintf(&b, "\n  inputs whose values, given when the graph is built (--constant; in Go Inputs of "+
			"onnx.Options), may help: %q", e.Inputs)
	}
	if len(e.Dims) > 0 {
		fmt.Fprintf(&b, "\n  extents that may help as numbers, as multiples such as 32*W, or as the name of one that "+
			"they equal (--dim; in Go Dims of onnx.Options): %q", e.Dims)
	}
	return b.String()
}

// maxBuilds is the largest number of times that a graph is built.
const maxBuilds = 8

// build builds the graph. While building, it may find facts about extents, for example that two are equal. It then
// builds the graph again with these facts.
func (f *File) build(options Options) error {
	options, err := options.check(f.Model)
	if err != nil {
		return fmt.Errorf("onnx: %s: %w", f.src.Path, err)
	}
	name := f.Model.Graph.Name
	if !ir.IsIdent(name) {
		name = "onnx"
	}
	var im *importer
	var g *ir.Graph
	symbols, spellings := f.Model.symbols(), f.Model.spellings()
	least, same := map[string]int64{}, map[string]string{} // facts: minimum extents, and equal ones
	for range maxBuilds {
		im = newImporter(f, options)
		im.least, im.names, im.spellings, im.same = least, symbols, spellings, same
		g, err = frontend.Build(name, func(b *frontend.Builder) {
			im.b = b
			im.main()
		})
		if len(im.longer)+len(im.derived)+len(im.joined) == 0 { // no new facts
			break
		}
		maps.Copy(same, im.joined)
		options.Bounds = joinedBounds(options.Bounds, im.joined)
		maps.Copy(least, im.longer)
		options.Dims = maps.Clone(options.Dims)
		if options.Dims == nil {
			options.Dims = map[string]ir.Dim{}
		}
		maps.Copy(options.Dims, im.derived)
	}
	if len(im.problems) > 0 {
		return im.unsupported()
	}
	if err != nil {
		return fmt.Errorf("onnx: %s: %w", f.src.Path, err)
	}
	f.Graph, f.weights, f.Outputs = g, im.weights, im.outputs
	return g.SetOutputInfo(ir.OutputInfo{Found: im.validParts, Loops: im.loops, Mismatches: im.checks})
}

// unsupported returns the error for a model with nodes that cannot be built.
func (im *importer) unsupported() error {
	slices.Sort(im.needed)
	e := &UnsupportedError{Path: im.file.src.Path, Nodes: im.problems, Inputs: slices.Compact(im.needed)}
	for _, extent := range im.symbols {
		e.Dims = append(e.Dims, im.names[extent])
	}
	return e
}

// joinedBounds returns bounds with a bound for each extent that replaces another: without a bound of its own, it gets
// the bound of the extent that it replaces. joined maps the replaced extents to their replacements.
func joinedBounds(bounds map[string]int, joined map[string]string) map[string]int {
	bounds = maps.Clone(bounds)
	for _, name := range slices.Sorted(maps.Keys(joined)) {
		to := joined[name]
		if _, has := bounds[to]; !has && bounds[name] != 0 {
			bounds[to] = bounds[name]
		}
	}
	return bounds
}
