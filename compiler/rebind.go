package compiler

import (
	"errors"
	"slices"

	"github.com/vkc-go/vkc/codegen/bundle"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// rebind returns the cached program in f with the names of g. The program was compiled from a graph with the same hash
// as g, which may have other names.
func rebind(f *bundle.File, g *ir.Graph) (*kernel.Program, error) {
	old, err := f.Graph()
	if err != nil {
		return nil, err
	}
	a, b := old.Interface(), g.Interface() // the same but for the names, unless the cache was damaged
	if len(a.Inputs) != len(b.Inputs) || len(a.States) != len(b.States) || len(a.Weights) != len(b.Weights) ||
		len(a.Outputs) != len(b.Outputs) || len(a.Symbols) != len(b.Symbols) {
		return nil, errors.New("the cached program has another interface")
	}
	names := renaming{symbols: pairs(a.Symbols, b.Symbols), weights: pairNodes(a.Weights, b.Weights)}
	p := *f.Program()
	p.Name = g.Name
	p.Symbols = slices.Clone(p.Symbols)
	for i := range p.Symbols {
		p.Symbols[i].Name = names.symbol(p.Symbols[i].Name)
	}
	p.Buffers = slices.Clone(p.Buffers)
	for i := range p.Buffers {
		names.buffer(&p.Buffers[i])
	}
	p.Inputs = names.ports(p.Inputs, pairNodes(a.Inputs, b.Inputs))
	p.States = names.ports(p.States, pairNodes(a.States, b.States))
	p.Outputs = names.ports(p.Outputs, pairs(a.Outputs, b.Outputs))
	p.Steps = slices.Clone(p.Steps)
	for i := range p.Steps {
		names.grid(&p.Steps[i].Grid)
		p.Steps[i].Alternatives = slices.Clone(p.Steps[i].Alternatives)
		for j := range p.Steps[i].Alternatives {
			other := &p.Steps[i].Alternatives[j]
			other.Symbol.Name = names.symbol(other.Symbol.Name)
			names.grid(&other.Grid)
		}
	}
	p.Extents = names.shape(p.Extents)
	p.Regions = slices.Clone(p.Regions)
	for i := range p.Regions {
		p.Regions[i].Trips = names.dim(p.Regions[i].Trips)
	}
	return &p, p.Check()
}

// renaming maps the names of symbols and weights in one graph to their names in another. Its methods return a copy of
// their argument with the new names.
type renaming struct{ symbols, weights map[string]string }

// pairs maps each name in from to the name with the same index in to.
func pairs(from, to []string) map[string]string {
	m := map[string]string{}
	for i := range from {
		m[from[i]] = to[i]
	}
	return m
}

// pairNodes maps the name of each node in one list to the name of the node at the same position in the other.
func pairNodes(from, to []*ir.Node) map[string]string {
	m := map[string]string{}
	for i := range from {
		m[from[i].Name()] = to[i].Name()
	}
	return m
}

func (r renaming) symbol(s string) string { return r.dim(ir.Dim{Sym: s}).Sym }

// dim renames the symbols of an extent.
func (r renaming) dim(d ir.Dim) ir.Dim {
	return d.Rename(func(symbol string) string {
		if t, ok := r.symbols[symbol]; ok {
			return t
		}
		return symbol
	})
}

// shape renames the symbols of a shape.
func (r renaming) shape(s ir.Shape) ir.Shape {
	out := slices.Clone(s)
	for i := range out {
		out[i] = r.dim(out[i])
	}
	return out
}

// buffer renames the symbols and weights of a buffer. A buffer that is a single weight has the weight's name.
func (r renaming) buffer(b *kernel.Buffer) {
	b.Shape = r.shape(b.Shape)
	b.Segments = slices.Clone(b.Segments)
	for i := range b.Segments {
		if s := &b.Segments[i]; s.Weight != "" {
			s.Weight = r.weights[s.Weight]
			if len(b.Segments) == 1 {
				b.Name = s.Weight
			}
		}
	}
}

// ports returns the ports with new names, and renames the symbols of their shapes.
func (r renaming) ports(ports []kernel.Port, names map[string]string) []kernel.Port {
	out := slices.Clone(ports)
	for i := range out {
		out[i].Name = names[out[i].Name]
		out[i].Shape = r.shape(out[i].Shape)
	}
	return out
}

// grid renames the symbols of a grid.
func (r renaming) grid(g *kernel.Grid) {
	for i := range g {
		g[i] = slices.Clone(g[i])
		for j := range g[i] {
			g[i][j].Extent = r.dim(g[i][j].Extent)
		}
	}
}
