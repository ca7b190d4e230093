package onnx

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// Options fix properties of a model when its graph is built. The zero value is fine for most models. An unknown name is
// an error.
type Options struct {
	// Bounds gives upper bounds of symbolic extents by name, which determine buffer sizes; the default is DefaultBound.
	// By the name of a node it bounds the trips of a Loop with a run-time trip count.
	Bounds map[string]int
	// Dims replaces symbolic extents by name: by a number; by an expression such as 32*W, because some ops need a
	// multiple; or by another extent. Model.Extents lists the names. Unnamed extents are named by input and axis, such
	// as x_0. An extent whose name is an expression, such as "past + 1", follows from other extents. If nodes require
	// an extent to be at least n, as x[:n] does, it becomes a symbol plus n. Here and in Bounds, an extent may have its
	// symbol's name or the file's own spelling, which may be no identifier.
	Dims map[string]ir.Dim
	// Inputs makes inputs constants of this graph, for example an input that is a shape. It overrides an input's
	// default value.
	Inputs map[string]*ir.Data
	// Lists gives the types of the elements of inputs that are sequences. Each element becomes an input of the graph:
	// "x.0", "x.1" and so on for input "x". An optional has one element, under its own name, or none.
	Lists map[string][]ir.Type
}

// NameError is a name in Options that the model does not have.
type NameError struct{ what string }

func (e *NameError) Error() string { return e.what }

// check refuses unknown names with a *NameError. It returns the options keyed by the file's spelling of extents.
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

// spelled converts the keys of values to the file's spelling of extents. Other keys stay unchanged.
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

// Extents lists the symbols of the inputs' symbolic extents, in order: the model's names or names made of input and
// axis, converted to identifiers. For an extent whose name is an expression it lists the symbols in that.
func (m *Model) Extents() []string {
	names, symbols := m.spelled(), m.symbols()
	for i, name := range names {
		names[i] = symbols[name]
	}
	return names
}

// Spelling returns the file's own name for an extent that Extents lists.
func (m *Model) Spelling(symbol string) string { return m.spellings()[symbol] }

// Shown is the type of an input or output with the names of Extents.
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

// symbols assigns each extent, by the file's spelling, a unique identifier: its own name if possible.
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

// SymbolOf converts an extent's name in a file to a valid symbol. If two names give the same symbol, one of them gets a
// number.
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

// spelled is like Extents, with the file's spelling of the extents.
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

// expressionOf returns the expression in an extent's name, such as "2*s0" or "past + 1". The expression must depend on
// other extents of the model, or be linear in one symbol, which the extent then determines. It returns "" for a plain
// name.
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

// extentName is the name of a symbolic extent in Options: the model's name, or input and axis.
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
