package ir

import (
	"fmt"
	"strings"
)

// BindInputs checks the tensors of a run against the graph's inputs (names, dtypes, shapes, byte counts) and returns
// the value of every symbol. explicit gives symbols by name, and may be nil; see BindSymbols.
func BindInputs(g *Graph, in map[string]*Data, explicit map[string]int64) (map[string]int64, error) {
	dims, err := InputDims(g, in)
	if err != nil {
		return nil, err
	}
	return BindSymbols(g, dims, explicit)
}

// InputDims checks the names, dtypes and byte counts of tensors against the graph's inputs, and returns their shapes.
// BindSymbols checks the shapes.
func InputDims(g *Graph, in map[string]*Data) (map[string][]int, error) {
	if name, ok := firstBad(in, func(name string, d *Data) bool { return checkInput(g, name, d) != nil }); ok {
		return nil, checkInput(g, name, in[name])
	}
	dims := make(map[string][]int, len(in))
	for name, d := range in {
		dims[name] = d.Dims
	}
	return dims, nil
}

// checkInput checks everything about a tensor except its shape.
func checkInput(g *Graph, name string, d *Data) error {
	n, ok := g.named[name]
	switch {
	case !ok || n.op != OpInput:
		return unknownInput(g, name)
	case d == nil:
		return fmt.Errorf("input %q is nil, want %s", name, n.typ)
	case d.DType != n.typ.DType:
		return fmt.Errorf("input %q is %s, want %s", name, d, n.typ)
	}
	if err := d.Check(); err != nil {
		return fmt.Errorf("input %q: %w", name, err)
	}
	return nil
}

// firstBad returns the first bad key of a map in alphabetical order. It does not sort, since most runs have none.
func firstBad[V any](of map[string]V, bad func(key string, v V) bool) (first string, found bool) {
	for key, v := range of {
		if (!found || key < first) && bad(key, v) {
			first, found = key, true
		}
	}
	return first, found
}

// BindSymbols returns the value of every symbol of the graph, from the shapes of its inputs: an axis of extent 4*T+1
// with length 9 implies T = 2. It also returns the values of sums and quotients, which Graph.Derived lists. explicit
// must have the symbols that are not the extent of any input axis. It may have others, which must then agree. Every
// input must have a shape that fits its declared one.
func BindSymbols(g *Graph, dims map[string][]int, explicit map[string]int64) (map[string]int64, error) {
	isNone := func(name string, _ []int) bool { n, ok := g.named[name]; return !ok || n.op != OpInput }
	if name, ok := firstBad(dims, isNone); ok {
		return nil, unknownInput(g, name)
	}
	b := binding{value: make(map[string]int64, len(g.symbols)), source: map[string]symbolSource{}}
	if err := b.explicit(g, explicit); err != nil {
		return nil, err
	}
	for _, n := range g.inputs {
		have, ok := dims[n.Name()]
		if !ok {
			return nil, fmt.Errorf("input %q is missing, want %s", n.Name(), n.typ)
		}
		if err := b.input(n, have); err != nil {
			return nil, err
		}
	}
	unbound := func(s string, _ int64) bool { _, ok := b.value[s]; return !ok }
	if s, ok := firstBad(g.symbols, unbound); ok {
		return nil, noValue(s)
	}
	// Sums and quotients follow from the symbols in them.
	for _, s := range g.Derived() {
		v, err := Dim{Sym: s, Bound: g.derived[s], Mul: 1}.Eval(b.value)
		if err != nil {
			return nil, err
		}
		b.value[s] = v
	}
	return b.value, b.checkDerived(g, dims)
}

// checkDerived checks the axes with derived extents, such as S+T: each must have the value that the symbols imply.
func (b binding) checkDerived(g *Graph, dims map[string][]int) error {
	for _, n := range g.inputs {
		for i, d := range n.typ.Shape {
			if !d.isDerived() {
				continue
			}
			if want, err := d.Eval(b.value); err != nil || int64(dims[n.Name()][i]) != want {
				return fmt.Errorf("input %q has shape %v, want %s: %s is %d, not %d as %s is", n.Name(),
					dims[n.Name()], n.typ.Shape, symbolSource{n.Name(), i}, dims[n.Name()][i], want, d)
			}
		}
	}
	return nil
}

// binding collects the values of symbols, and for each the axis that determines it.
type binding struct {
	value  map[string]int64
	source map[string]symbolSource // for errors
}

// symbolSource is the source of a symbol's value: an axis of an input, or the caller if input is "". It is only
// formatted for errors.
type symbolSource struct {
	input string
	axis  int
}

// String says where a run finds the symbol's value.
func (p symbolSource) String() string {
	if p.input == "" {
		return "by name"
	}
	return fmt.Sprintf("axis %d of input %q", p.axis, p.input)
}

// explicit sets the symbols that the caller gives by name.
func (b binding) explicit(g *Graph, values map[string]int64) error {
	outside := func(s string, v int64) bool { bound, ok := g.symbols[s]; return !ok || v < 0 || v > bound }
	if s, ok := firstBad(values, outside); ok {
		bound, known := g.symbols[s]
		if !known {
			return fmt.Errorf("unknown symbol %s: the graph has %s", s, listOrNone(g.Symbols()))
		}
		return OutsideBound(s, values[s], 0, bound)
	}
	for s, v := range values {
		b.value[s] = v
	}
	return nil
}

// input checks the shape of an input's tensor, and sets the symbols that it determines.
func (b binding) input(n *Node, have []int) error {
	shape := n.typ.Shape
	if len(have) != len(shape) {
		return fmt.Errorf("input %q has shape %v, want %s: rank %d is not %d", n.Name(), have, shape,
			len(have), len(shape))
	}
	for i, d := range shape {
		if err := b.axis(d, int64(have[i]), symbolSource{n.Name(), i}); err != nil {
			return fmt.Errorf("input %q has shape %v, want %s: %w", n.Name(), have, shape, err)
		}
	}
	return nil
}

// axis solves d = have for the symbol of d.
func (b binding) axis(d Dim, have int64, where symbolSource) error {
	if d.isDerived() {
		return nil // checkDerived checks it once all symbols are known
	}
	if d.IsStatic() || d.Mul < 1 {
		if have != d.Add {
			return fmt.Errorf("%s is %d, not %d", where, have, d.Add)
		}
		return nil
	}
	if (have-d.Add)%d.Mul != 0 || have < d.Add {
		return fmt.Errorf("%s is %d, but no %[4]s makes %[3]s that number", where, have, d, d.Sym)
	}
	v := (have - d.Add) / d.Mul
	if v > d.Bound {
		return fmt.Errorf("%s is %d, but %s is at most %d: %s", where, have, d, d.Max(), larger(d.Sym, v))
	}
	if old, ok := b.value[d.Sym]; ok && old != v {
		return fmt.Errorf("%s makes symbol %s %d, but it is %d (%s)", where, d.Sym, v, old, b.source[d.Sym])
	}
	b.value[d.Sym] = v
	b.source[d.Sym] = where
	return nil
}

// OutsideBound returns the error for a value of a symbol outside of least to bound.
func OutsideBound(symbol string, value, least, bound int64) error {
	if value <= bound {
		return fmt.Errorf("symbol %s = %d is outside %d..%d, its declared bound", symbol, value, least, bound)
	}
	return fmt.Errorf("symbol %s = %d is outside %d..%d, its declared bound: %s", symbol, value, least, bound,
		larger(symbol, value))
}

// larger returns advice on how to increase a symbol's bound.
func larger(symbol string, value int64) string {
	return fmt.Sprintf("build the graph with a larger bound (vkc: --bound %s=%d of an ONNX model, --ctx of a GGUF one)",
		symbol, value)
}

// unknownInput returns the error for a tensor whose name no input has.
func unknownInput(g *Graph, name string) error {
	var names []string
	for _, n := range g.inputs {
		names = append(names, n.Name())
	}
	return fmt.Errorf("unknown input %q: the graph has %s", name, listOrNone(names))
}

// listOrNone joins names with commas. Without names it returns "none".
func listOrNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	shown := make([]string, len(names))
	for i, name := range names {
		shown[i] = Printable(name)
	}
	return strings.Join(shown, ", ")
}
