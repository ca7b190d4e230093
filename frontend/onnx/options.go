package onnx

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// Options say what of a model is known when its graph is built. The zero value is fine for most models. A name that the
// model does not have is an error.
type Options struct {
	// Bounds gives, by name, how large a symbolic extent is at most, which sizes buffers: DefaultBound unless it is
	// here. By the name of a node it gives how often a Loop runs at most, where only a run knows how often it does.
	Bounds map[string]int
	// Dims gives symbolic extents another form, by name: a number, or an expression such as 32*W, of which some ops
	// need to know that it is a multiple; or that of another extent, which it equals. Extents without a name have that
	// of their input and axis, such as x_0. Model.Extents lists them. One whose name says how it follows from others,
	// such as "past + 1", does so. One that nodes need to be n or more, as x[:n] does, is a symbol and n. Here and in
	// Bounds an extent may have the name that its symbol has, or the file's own spelling, which may be no identifier.
	Dims map[string]ir.Dim
	// Inputs gives values of inputs that are constants of this graph, such as one that is a shape. One that has a
	// default value gets this one instead.
	Inputs map[string]*ir.Data
	// Lists gives, for inputs that are sequences, the type of each element, which is then an input of the graph:
	// those of "x" are "x.0", "x.1" and so on. An optional has one element, under its own name, or none.
	Lists map[string][]ir.Type
}

// NameError is a name in Options that the model does not have.
type NameError struct{ what string }

func (e *NameError) Error() string { return e.what }

// check refuses names that the model does not have: with a *NameError. It returns the options by the file's spelling of
// extents.
func (o Options) check(m *Model) (Options, error) {
	var err error
	spelling := m.spellings()
	if o.Dims, err = spelled(o.Dims, spelling); err != nil {
		return o, err
	}
	if o.Bounds, err = spelled(o.Bounds, spelling); err != nil {
		return o, err
	}
	extents := slices.Concat(m.spelled(), slices.DeleteFunc(m.extentNames(), func(name string) bool {
		return m.expressionOf(name) == ""
	}))
	bounded := slices.Concat(m.spelled(), m.loops())
	for _, d := range o.Dims {
		bounded = append(bounded, d.Symbols()...)
	}
	var inputs []string
	for _, in := range m.Graph.Inputs {
		inputs = append(inputs, in.Name)
	}
	for _, option := range []struct {
		flag, field, what string
		given, known      []string
	}{
		{"--dim", "Dims", "extent", slices.Sorted(maps.Keys(o.Dims)), extents},
		{"--bound", "Bounds", "extent and no Loop", slices.Sorted(maps.Keys(o.Bounds)), bounded},
		{"--constant", "Inputs", "input", slices.Sorted(maps.Keys(o.Inputs)), inputs},
		{"", "Lists", "input", slices.Sorted(maps.Keys(o.Lists)), inputs},
	} {
		for _, name := range option.given {
			if slices.Contains(option.known, name) {
				continue
			}
			known := slices.Clone(option.known)
			if option.flag == "--dim" || option.flag == "--bound" {
				symbols := m.symbols()
				for i, name := range known {
					known[i] = cmp.Or(symbols[name], name)
				}
			}
			from := option.field + " of onnx.Options"
			if option.flag != "" {
				from = option.flag + "; in Go " + from
			}
			if len(known) == 0 {
				return o, &NameError{fmt.Sprintf("no %s is called %s (%s): the model has none to name", option.what,
					ir.Printable(name), from)}
			}
			return o, &NameError{fmt.Sprintf("no %s is called %s (%s): the model has %q", option.what,
				ir.Printable(name), from, known)}
		}
	}
	return o, nil
}

// spelled returns values by the file's spelling of extents. Other names stay as they are.
func spelled[T any](values map[string]T, spelling map[string]string) (map[string]T, error) {
	if values == nil {
		return nil, nil
	}
	out := map[string]T{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		as := cmp.Or(spelling[name], name)
		if _, twice := out[as]; twice {
			return nil, &NameError{fmt.Sprintf("%s and %s are one extent: name it once", ir.Printable(as),
				ir.Printable(name))}
		}
		out[as] = values[name]
	}
	return out, nil
}

// Extents lists the symbols of the extents of inputs that are no numbers, in their order: the model's names for them,
// or those of input and axis, made identifiers. Of an extent whose name says how it follows from others it lists those.
func (m *Model) Extents() []string {
	names, symbols := m.spelled(), m.symbols()
	for i, name := range names {
		names[i] = symbols[name]
	}
	return names
}

// Spelling is the file's own name for an extent that Extents lists.
func (m *Model) Spelling(symbol string) string { return m.spellings()[symbol] }

// Shown is the type of an input or output with the names that Extents has for what is no number.
func (m *Model) Shown(v Value) Type {
	t := v.Type
	t.Shape = slices.Clone(t.Shape)
	symbols := m.symbols()
	for i, d := range t.Shape {
		if d.Size < 0 {
			name := d.Name
			if slices.ContainsFunc(m.Graph.Inputs, func(in Value) bool { return in.Name == v.Name }) {
				name = extentName(v, i)
			}
			t.Shape[i].Name = cmp.Or(symbols[name], name)
		}
	}
	return t
}

// symbols gives each extent, by the file's spelling, a name that a symbol can have and that no other has: its own, if
// it can.
func (m *Model) symbols() map[string]string {
	symbols, taken := map[string]string{}, map[string]bool{}
	for _, name := range m.spelled() {
		if ir.IsIdent(name) {
			symbols[name], taken[name] = name, true
		}
	}
	for _, name := range m.spelled() {
		if symbols[name] != "" {
			continue
		}
		id := SymbolOf(name)
		for n := 2; taken[id]; n++ {
			end := fmt.Sprintf("_%d", n)
			id = SymbolOf(name)
			id = id[:min(len(id), 64-len(end))] + end
		}
		symbols[name], taken[id] = id, true
	}
	return symbols
}

// spellings is the reverse of symbols.
func (m *Model) spellings() map[string]string {
	all := map[string]string{}
	for name, symbol := range m.symbols() {
		all[symbol] = name
	}
	return all
}

// SymbolOf makes an extent's name in a file one that a symbol can have. Where two come to the same, one gets a number.
func SymbolOf(name string) string {
	if ir.IsIdent(name) {
		return name
	}
	s := strings.Map(func(r rune) rune {
		if r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '_'
	}, name)
	if s == "" || s[0] >= '0' && s[0] <= '9' {
		s = "n" + s
	}
	return s[:min(len(s), 64)]
}

// spelled lists the extents of inputs that are no numbers as Extents does, by the file's spelling.
func (m *Model) spelled() []string {
	var names []string
	for _, name := range m.extentNames() {
		list := []string{name}
		if text := m.expressionOf(name); text != "" {
			d, err := ir.ParseDimOf(text, anyExtent)
			if err == nil {
				list = d.Symbols()
			}
		}
		for _, name := range list {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// expressionOf returns the text of an extent that its name says, such as "2*s0" or "past + 1": one that follows from
// other extents of the model, or is linear in one symbol, which the extent then tells. It is empty where the name is
// just a name.
func (m *Model) expressionOf(name string) string {
	text := strings.ReplaceAll(name, " ", "")
	d, err := ir.ParseDimOf(text, anyExtent)
	if err != nil || d.IsStatic() || ir.IsIdent(text) {
		return ""
	}
	names := m.extentNames()
	alone := func(symbol string) bool { return !slices.Contains(names, symbol) }
	if !ir.IsIdent(d.Sym) && slices.ContainsFunc(d.Symbols(), alone) {
		return ""
	}
	return text
}

// anyExtent is a symbol of any value.
func anyExtent(symbol string) (ir.Dim, error) { return ir.Symbol(symbol, DefaultBound), nil }

// extentNames lists the names of the extents of inputs that are no numbers.
func (m *Model) extentNames() []string {
	var names []string
	for _, in := range m.Graph.Inputs {
		for axis, d := range in.Type.Shape {
			if name := extentName(in, axis); d.Size < 0 && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// extentName is what Options call an extent that is no number: by the model's name for it, or by its input and axis.
func extentName(in Value, axis int) string {
	if name := in.Type.Shape[axis].Name; name != "" {
		return name
	}
	return fmt.Sprintf("%s_%d", in.Name, axis)
}

// loops lists the names of nodes that are loops.
func (m *Model) loops() []string {
	var names []string
	m.eachNode(func(n *Node) {
		if n.Op == "Loop" {
			names = append(names, n.title())
		}
	})
	return names
}
