package generate

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/bundle"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/vision"
	"github.com/vkc-go/vkc/internal/filefmt"
	"github.com/vkc-go/vkc/ir"
)

// Metadata keys of a model's bundle for the options that it was compiled with.
const (
	keyContext       = "vkc.generate.context"
	keyParallel      = "vkc.generate.parallel"
	keyPositions     = "vkc.generate.positions"
	keyCache         = "vkc.generate.cache"
	keyPrecision     = "vkc.generate.precision"
	keyDeterministic = "vkc.generate.deterministic"
	keyShift         = "vkc.generate.context_shift"
)

// Bundle compiles all programs that Open needs for a model, for the device that opt names. It writes them to a bundle
// at out, together with the model's weights and metadata, so that Open of the bundle needs no compiler. o has the same
// meaning as for Open, except that Bundle ignores Options.Device and speculation. It signs the bundle if key is not
// nil. It returns the program of a decoding step, which is the bundle's main program.
func Bundle(ctx context.Context, path, out string, o Options, opt vkc.CompileOptions, key ed25519.PrivateKey) (
	_ *vkc.Program, err error) {
	m := &Model{halfCache: opt.Target.Features.Storage16}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := m.read(path, &o); err != nil {
		return nil, err
	}
	if err := m.checkLogits(path); err != nil {
		return nil, err
	}
	if m.bundle != nil {
		return nil, fmt.Errorf("%s is a bundle: want the model's GGUF file", path)
	}
	if o.Precision == "" {
		o.Precision = DefaultPrecision
	}
	weights := bundledWeights{m.file}
	if m.vision != nil {
		weights = append(weights, m.vision.file)
	}
	o.Context, o.Cache, opt.Weights = m.context, m.cacheType(o), weights
	if len(o.Adapters) > 0 {
		return nil, wrongOption("Adapters", "a bundle takes no adapters: give a model with merged adapters")
	}
	graphs, err := m.bundleGraphs(o)
	if err != nil {
		return nil, err
	}
	opt.OneKernel = true // as in compile
	var first *vkc.Program
	for _, g := range graphs {
		p, err := vkc.Compile(ctx, g, opt)
		switch {
		case err != nil:
			return nil, err
		case first == nil:
			first = p
		default:
			first.Contents.Parts = append(first.Contents.Parts, &p.Contents)
		}
	}
	if first.Contents.Model, err = m.file.Header(m.bundleMetadata(o)); err != nil {
		return nil, err
	}
	first.Contents.Sign = key
	return first, first.Save(out, weights)
}

// bundleMetadata returns the metadata that a bundle has in addition to the metadata of its model's file: the options of
// its compilation, which openBundle reads, and the configuration of the vision tower.
func (m *Model) bundleMetadata(o Options) map[string]any {
	metadata := map[string]any{
		keyContext: uint32(o.Context), keyParallel: uint32(m.slotCount), keyPositions: uint32(o.Positions),
		keyCache: o.Cache.String(), keyPrecision: o.Precision,
		keyDeterministic: o.Deterministic, keyShift: o.ContextShift}
	if m.vision != nil {
		for _, kv := range m.vision.file.Metadata() {
			if strings.HasPrefix(kv.Key, towerKeys) {
				metadata[kv.Key] = kv.Value
			}
		}
	}
	return metadata
}

// towerKeys is the prefix of the metadata keys of vision towers.
const towerKeys = "clip."

// isTowerWeight reports whether a weight of a bundle is the vision tower's. Language models have no such names.
func isTowerWeight(name string) bool {
	return strings.HasPrefix(name, "v.") || strings.HasPrefix(name, "mm.") || name == vision.Newline
}

// bundledWeights has the weights of these files: the language model's and, last, its vision tower's if there is one.
type bundledWeights []*gguf.File

// Weight implements ir.WeightSource.
func (w bundledWeights) Weight(name string) (*ir.Data, error) {
	if isTowerWeight(name) {
		return w[len(w)-1].Weight(name)
	}
	return w[0].Weight(name)
}

// Names lists the weights.
func (w bundledWeights) Names() (list []string) {
	for _, f := range w {
		list = append(list, f.Names()...)
	}
	return list
}

// partOfBundle is the file of a bundle with some of its weights.
type partOfBundle struct {
	*bundle.File
	tower bool // the weights are the vision tower's, and otherwise the language model's
}

// WeightNames implements gguf.Named.
func (p partOfBundle) WeightNames() []string {
	return slices.DeleteFunc(p.File.WeightNames(), func(name string) bool { return isTowerWeight(name) != p.tower })
}

// bundledTower returns the vision tower of the model's bundle as an mmproj file, or nil if the bundle has none.
func (m *Model) bundledTower() (*gguf.File, error) {
	metadata := []gguf.KV{{Key: "general.architecture", Value: "clip"}}
	for _, kv := range m.file.Metadata() {
		if strings.HasPrefix(kv.Key, towerKeys) {
			metadata = append(metadata, kv)
		}
	}
	if len(metadata) == 1 { // only the architecture, which is set above
		return nil, nil
	}
	return gguf.Of(metadata, partOfBundle{m.bundle.Contents.Weights.(*bundle.File), true}, nil)
}

// bundleGraphs returns the graphs of all programs that Open needs. The precision of the options is applied to their
// matmuls. The first graph is a decoding step.
func (m *Model) bundleGraphs(o Options) (graphs []*ir.Graph, err error) {
	programs, err := m.candidates(o)
	if err != nil {
		return nil, err
	}
	add := func(g *ir.Graph, precision string) error {
		g, err := withPrecision(g, precision)
		graphs = append(graphs, g)
		return err
	}
	for _, c := range programs {
		if err := add(c.graph, o.Precision); err != nil {
			return nil, err
		}
	}
	if o.ContextShift {
		g, err := llm.Shift(m.config, m.context, m.cache(o)...)
		if err == nil {
			err = add(g, o.Precision)
		}
		if err != nil {
			return nil, err
		}
	}
	if m.vision != nil {
		images := func() (*ir.Graph, error) { return m.imagesGraph(o) }
		for _, graph := range []func() (*ir.Graph, error){m.towerGraph, images} {
			g, err := graph()
			if err == nil {
				err = add(g, o.Precision)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	for e := range extraCount {
		g, precision, err := m.extraGraph(e, o)
		if err == nil {
			err = add(g, precision)
		}
		if err != nil {
			return nil, err
		}
	}
	return graphs, nil
}

// IsBundle reports whether the file at path is a bundle, of whatever program.
func IsBundle(path string) (bool, error) {
	head, err := filefmt.Head(path, len(filefmt.BundleMagic))
	return string(head) == filefmt.BundleMagic, err
}

// openBundle opens a bundle of a model, and sets unset options to the options of its compilation.
func (m *Model) openBundle(path string, o *Options) (err error) {
	if m.bundle, err = vkc.OpenBundle(path); err != nil {
		return err
	}
	weights, ok := m.bundle.Contents.Weights.(*bundle.File)
	if !ok || m.bundle.Contents.Model == nil {
		return fmt.Errorf("%s is the bundle of a graph, not of a language model: want a bundle of vkc compile "+
			"--generate", path)
	}
	if m.file, err = gguf.WithWeights(m.bundle.Contents.Model, partOfBundle{weights, false}); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	parts, err := m.bundle.Parts()
	if err != nil {
		return err
	}
	// Programs are found by the hash of their graph. The bundle itself is the first program.
	m.bundled = map[string]*vkc.Program{}
	for _, p := range append(parts, m.bundle) {
		m.bundled[p.Contents.Program.GraphHash] = p
	}
	return m.completeOptions(path, o)
}

// completeOptions sets unset options to those that the bundle at path was compiled with.
func (m *Model) completeOptions(path string, o *Options) error {
	for key, option := range map[string]*int{keyContext: &o.Context, keyParallel: &o.Parallel,
		keyPositions: &o.Positions} {
		number, err := m.file.Int(key)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if *option == 0 {
			*option = int(number)
		}
	}
	cache, errCache := m.file.String(keyCache)
	if errCache == nil && o.Cache == ir.Invalid {
		o.Cache, errCache = ir.ParseDType(cache)
	}
	precision, errPrecision := m.file.String(keyPrecision)
	if precision == "" || precision == ir.PrecisionFull { // bundles of earlier versions
		precision = vkc.Exact
	}
	if o.Precision == ir.PrecisionFull {
		o.Precision = vkc.Exact
	}
	if o.Precision != "" && o.Precision != precision && errPrecision == nil {
		return wrongOption("Precision", "%s: the precision of a bundle is fixed when it is compiled, and this one has "+
			"%s", path, precision)
	}
	o.Precision = precision
	deterministic, errDeterministic := m.file.Bool(keyDeterministic)
	shift, errShift := m.file.Bool(keyShift)
	o.Deterministic, o.ContextShift = o.Deterministic || deterministic, o.ContextShift || shift
	if err := errors.Join(errCache, errPrecision, errDeterministic, errShift); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := o.Check(); err != nil { // the file is invalid, not the caller's options
		return fmt.Errorf("%s: cannot read how the bundle was compiled: %v", path, err)
	}
	return nil
}

// withPrecision applies a precision to the matmuls of a graph; "" changes nothing.
func withPrecision(g *ir.Graph, precision string) (*ir.Graph, error) {
	if precision == "" {
		return g, nil
	}
	return vkc.WithPrecision(g, precision)
}

// fromBundle returns the program of a graph with some weights, or nil if the model has no bundle or the bundle has no
// such program. It also returns nil on a CPU and on several devices, which do not run the programs of a bundle.
func (m *Model) fromBundle(g *ir.Graph, weights ir.WeightSource) (*vkc.Program, error) {
	if m.bundle == nil || m.device.IsCPU() || len(m.device.Parts()) > 1 {
		return nil, nil
	}
	g, _, err := ir.FitWeights(g, weights)
	if err != nil {
		return nil, err
	}
	return m.bundled[g.HashString()], nil
}
