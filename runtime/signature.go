package runtime

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// Signature describes a program's ports and symbols, and checks callers' tensors against them. A backend embeds it to
// implement the methods of Executable that describe the program.
type Signature struct {
	name                    string // of the graph
	inputs, outputs, states []Port
	symbols                 []Symbol
	// leaves is a graph with the program's inputs and states, possibly without other nodes. Package ir checks a run's
	// inputs against it, so that both backends report the same errors.
	leaves *ir.Graph
	picks  []ir.Pick // the axes from which ops such as argmax select an element; they must not be empty in a run
}

var errNoSignature = errors.New("there is no signature: it is nil")

// Explain wraps err with the call `doing` and the name of the program's graph (see the function [Explain]).
func (s *Signature) Explain(doing string, err error) error {
	if s == nil {
		return err
	}
	return Explain(doing, s.name, err)
}

// NewSignature returns the signature of a program known only by its name and ports, such as one read from a bundle.
// picks lists the axes from which ops select an element, and which must therefore not be empty in a run. It may be left
// out if unknown.
func NewSignature(name string, inputs, outputs, states []Port, symbols []Symbol,
	picks ...ir.Pick) (*Signature, error) {
	g := ir.NewGraph("signature")
	var given []Symbol // the symbols that callers may give; the others follow from them
	for _, s := range symbols {
		if err := g.DeclareDim(ir.Dim{Sym: s.Name, Bound: s.Bound, Mul: 1}); err != nil {
			return nil, err
		}
		if ir.IsIdent(s.Name) {
			given = append(given, s)
		}
	}
	for _, list := range []struct {
		op    ir.Op
		ports []Port
	}{{ir.OpInput, inputs}, {ir.OpState, states}} {
		for _, p := range list.ports {
			if err := addLeaf(g, list.op, p); err != nil {
				return nil, err
			}
		}
	}
	for _, p := range outputs {
		for _, d := range p.Type.Shape {
			if err := g.DeclareDim(d); err != nil {
				return nil, fmt.Errorf("output %q: %w", p.Name, err)
			}
		}
	}
	if n := len(g.Symbols()) + len(g.Derived()); n != len(symbols) {
		return nil, fmt.Errorf("%d symbols for %d in the types of ports: each needs one declaration", len(symbols), n)
	}
	return &Signature{name: name, inputs: inputs, outputs: outputs, states: states, symbols: given, leaves: g,
		picks: picks}, nil
}

// addLeaf adds an input or state to a graph.
func addLeaf(g *ir.Graph, op ir.Op, p Port) error {
	_, err := g.Add(op, nil, []ir.Attr{
		{Name: "name", Value: p.Name}, {Name: "dtype", Value: p.Type.DType}, {Name: "shape", Value: p.Type.Shape},
	}, "")
	if err != nil {
		return fmt.Errorf("%s %q: %w", op, p.Name, err)
	}
	return nil
}

// SignatureOf returns the signature of a graph.
func SignatureOf(g *ir.Graph) *Signature {
	s := &Signature{name: g.Name, leaves: g, picks: g.Picks(), inputs: leafPorts(g, ir.OpInput),
		states: leafPorts(g, ir.OpState)}
	for _, o := range g.Outputs() {
		s.outputs = append(s.outputs, Port{o.Name, o.Node.Type()})
	}
	for _, name := range g.Symbols() {
		bound, _ := g.SymbolBound(name)
		s.symbols = append(s.symbols, Symbol{name, bound})
	}
	return s
}

// leafPorts returns the graph's inputs or states as ports.
func leafPorts(g *ir.Graph, op ir.Op) []Port {
	var ports []Port
	for _, n := range g.Leaves(op) {
		ports = append(ports, Port{n.Name(), n.Type()})
	}
	return ports
}

// orNone returns s, or an empty signature if s is nil.
func (s *Signature) orNone() *Signature {
	if s == nil {
		return &Signature{}
	}
	return s
}

// Inputs describes the program's inputs in the graph's order.
func (s *Signature) Inputs() []Port { return s.orNone().inputs }

// Outputs describes the program's outputs in the graph's order.
func (s *Signature) Outputs() []Port { return s.orNone().outputs }

// States describes the program's states in the graph's order.
func (s *Signature) States() []Port { return s.orNone().states }

// Symbols lists the program's symbols.
func (s *Signature) Symbols() []Symbol { return s.orNone().symbols }

// Bind checks the inputs of a run, both in and opt.Inputs, and returns the value of every symbol: given in opt, or
// derived from the shapes of inputs. It returns an error of one line for
//
//   - an input that is missing, unknown or given twice;
//   - a wrong dtype, shape or number of bytes;
//   - a symbol without a value or with two different ones;
//   - a symbol's value that makes an axis empty from which an op must select an element.
func (s *Signature) Bind(in map[string]*ir.Data, opt RunOptions) (map[string]int64, error) {
	if s == nil || s.leaves == nil {
		return nil, errNoSignature
	}
	dims, err := ir.InputDims(s.leaves, in)
	if err != nil {
		return nil, err
	}
	for name, t := range opt.Inputs {
		i := slices.IndexFunc(s.inputs, func(p Port) bool { return p.Name == name })
		switch _, twice := dims[name]; {
		case i < 0:
			return nil, fmt.Errorf("unknown input %q: the graph has %s", name, portNames(s.inputs))
		case twice:
			return nil, fmt.Errorf("input %q is given twice: to Run, and in RunOptions.Inputs", name)
		case t.none():
			return nil, fmt.Errorf("input %q is a nil device tensor, want %s", name, s.inputs[i].Type)
		case t.dtype != s.inputs[i].Type.DType:
			return nil, fmt.Errorf("input %q is %v, want %s", name, t, s.inputs[i].Type)
		}
		dims[name] = t.dims
	}
	symbols, err := ir.BindSymbols(s.leaves, dims, opt.Symbols)
	for _, p := range s.picks {
		if err == nil {
			err = p.Check(symbols)
		}
	}
	return symbols, err
}

// State returns the index in States of the named state.
func (s *Signature) State(name string) (int, error) {
	if s == nil {
		return 0, errNoSignature
	}
	if i := slices.IndexFunc(s.states, func(p Port) bool { return p.Name == name }); i >= 0 {
		return i, nil
	}
	if len(s.states) == 0 {
		return 0, fmt.Errorf("no state %q: the program has no states", name)
	}
	return 0, fmt.Errorf("no state %q: the program has %s", name, portNames(s.states))
}

// CheckState checks a value for the named state, and returns the state's index in States.
func (s *Signature) CheckState(name string, d *ir.Data) (int, error) {
	i, err := s.State(name)
	if err != nil {
		return 0, err
	}
	want := s.states[i].Type
	if d == nil {
		return 0, fmt.Errorf("state %q: the value is nil, want %s", name, want)
	}
	if have := (ir.Type{DType: d.DType, Shape: ir.ShapeOf(d.Dims...)}); !have.Equal(want) {
		return 0, fmt.Errorf("state %q is %s, the value is %s", name, want, have)
	}
	if err := d.Check(); err != nil {
		return 0, fmt.Errorf("state %q: %w", name, err)
	}
	return i, nil
}

// Output is the destination of one output of a run: the caller's memory, new memory, or the device.
type Output struct {
	// Data has the output's type and shape. Its bytes are the caller's memory. They are nil if the output stays on the
	// device or if the run allocates them.
	*ir.Data
	Keep bool  // whether the output stays on the device
	Size int64 // in bytes
}

// NewOutputs returns the destinations of the outputs of a run with these symbols, in the order of Outputs: the tensors
// in opt.Into, and tensors without bytes for the others.
func (s *Signature) NewOutputs(symbols map[string]int64, opt RunOptions) ([]Output, error) {
	if s == nil || s.leaves == nil {
		return nil, errNoSignature
	}
	if err := s.checkDestinations(opt); err != nil {
		return nil, err
	}
	list := make([]Output, len(s.outputs))
	for i, port := range s.outputs {
		dims, err := port.Type.Shape.Eval(symbols)
		if err != nil {
			return nil, fmt.Errorf("output %q: %w", port.Name, err)
		}
		d, given := opt.Into[port.Name]
		list[i] = Output{Data: d, Keep: slices.Contains(opt.Keep, port.Name)}
		switch {
		case given:
			err = checkOutput(d, port.Type.DType, dims)
		default:
			list[i].Data = &ir.Data{DType: port.Type.DType, Dims: dims}
		}
		if err == nil {
			list[i].Size, err = ir.ByteSize(port.Type.DType, dims)
		}
		if err != nil {
			return nil, fmt.Errorf("output %q: %w", port.Name, err)
		}
	}
	return list, nil
}

// checkDestinations returns an error if opt gives a destination for an unknown output, or two for one output.
func (s *Signature) checkDestinations(opt RunOptions) error {
	for name := range opt.Into {
		if !s.hasOutput(name) {
			return fmt.Errorf("memory for output %q: the program has no such output, but %s", name,
				portNames(s.outputs))
		}
	}
	for i, name := range opt.Keep {
		_, given := opt.Into[name]
		switch {
		case !s.hasOutput(name):
			return fmt.Errorf("keep output %q: the program has no such output, but %s", name, portNames(s.outputs))
		case given:
			return fmt.Errorf("output %q is in RunOptions.Keep and in Into: it goes to one of them", name)
		case slices.Contains(opt.Keep[:i], name):
			return fmt.Errorf("output %q is in RunOptions.Keep twice", name)
		}
	}
	return nil
}

// hasOutput reports whether the program has an output of that name.
func (s *Signature) hasOutput(name string) bool {
	return slices.ContainsFunc(s.outputs, func(p Port) bool { return p.Name == name })
}

// checkOutput checks that d, the caller's tensor for an output, has the output's dtype and dims.
func checkOutput(d *ir.Data, t ir.DType, dims []int) error {
	if d == nil {
		return errors.New("the tensor given for it is nil")
	}
	if d.DType != t || !slices.Equal(d.Dims, dims) {
		return fmt.Errorf("the tensor given for it is %s, in this run it is %s", d, &ir.Data{DType: t, Dims: dims})
	}
	if err := d.Check(); err != nil {
		return fmt.Errorf("the tensor given for it: %w", err)
	}
	return nil
}

// portNames joins the names of ports, for errors.
func portNames(ports []Port) string {
	names := make([]string, len(ports))
	for i, p := range ports {
		names[i] = ir.Printable(p.Name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
