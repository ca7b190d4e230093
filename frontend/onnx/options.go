package onnx

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// Options fix properties of a model when its graph is built. The zero value suits most models. A name that the model
// does not have is an error.
type Options struct {
	// Bounds gives upper bounds of symbolic extents by name, which determine buffer sizes; the default is DefaultBound.
	// By the name of a Loop node, it bounds the trips if their number is only known in a run.
	Bounds map[string]int
	// Dims replaces symbolic extents, by name. A replacement is a number, another extent, or an expression such as
	// 32*W, because some ops need a multiple.
	//
	// Model.Extents lists the names. An extent without a name is named by input and axis, such as x_0. An extent with
	// an expression as its name, such as "past + 1", follows from other extents. If nodes require an extent of at least
	// n, as x[:n] does, it becomes a symbol plus n. Here and in Bounds, an extent may be given by its symbol's name or
	// in the file's own spelling, which need not be an identifier.
	Dims map[string]ir.Dim
	// Inputs makes inputs of the model constants of the graph, by name. That is needed for an input that is a shape,
	// for example. It overrides an input's default value.
	Inputs map[string]*ir.Data
	// Lists gives the types of the elements of inputs that are sequences. Each element becomes an input of the graph:
	// "x.0", "x.1" and so on for input "x". An optional has one element, under its own name, or none.
	Lists map[string][]ir.Type
}

// NameError is the error for a name in Options that the model does not have.
type NameError struct{ what string }

func (e *NameError) Error() string { return e.what }

// check returns the options with extents spelled as in the file, or a *NameError for a name that the model lacks.
func (o Options) check(m *Model) (Options, error) {
	var err error
	spelling := m.spellings()
	if o.Dims, err = spelled(o.Dims, spelling); err != nil {
		return o, err
	}
	if o.Bounds, err = spelled(o.Bounds, spelling); err != nil {
		return o, err
	}
	// extents, bounded and inputs are the names that the options may have.
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
		i := slices.IndexFunc(option.given, func(name string) bool { return !slices.Contains(option.known, name) })
		if i < 0 {
			continue
		}
		known := slices.Clone(option.known)
		if option.flag == "--dim" || option.flag == "--bound" { // show extents by their symbols
			symbols := m.symbols()
			for k, name := range known {
				known[k] = cmp.Or(symbols[name], name)
			}
		}
		from := option.field + " of onnx.Options"
		if option.flag != "" {
			from = option.flag + "; in Go " + from
		}
		has := "none"
		if len(known) > 0 {
			has = fmt.Sprintf("%q", known)
		}
		return o, &NameError{fmt.Sprintf("no %s has the name %s (%s): the model has %s", option.what,
			ir.Printable(option.given[i]), from, has)}
	}
	return o, nil
}

// spelled returns values with its keys, names of extents, in the file's spelling. spelling maps symbols to that. Keys
// that are no symbols stay. It returns an error for an extent under two names.
func spelled[T any](values map[string]T, spelling map[string]string) (map[string]T, error) {
	if values == nil {
		return nil, nil
	}
	out := map[string]T{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		as := cmp.Or(spelling[name], name)
		if _, twice := out[as]; twice {
			return nil, &NameError{fmt.Sprintf("%s and %s are the same extent: name it once", ir.Printable(as),
				ir.Printable(name))}
		}
		out[as] = values[name]
	}
	return out, nil
}

// Extents lists the symbols of the inputs' symbolic extents, in order. A symbol is the model's name of the extent, or
// the names of input and axis such as x_0, converted to an identifier. For an extent with an expression as its name,
// Extents lists the symbols in the expression.
func (m *Model) Extents() []string {
	names, symbols := m.spelled(), m.symbols()
	for i, name := range names {
		names[i] = symbols[name]
	}
	return names
}

// Spelling returns the file's own name for a symbol that Extents lists.
func (m *Model) Spelling(symbol string) string { return m.spellings()[symbol] }

// Shown returns the type of an input or output as vkc prints it, with the names of Extents.
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

// symbols maps each extent, in the file's spelling, to a unique identifier: its own name if that is one.
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
			id = id[:min(len(id), maxIdent-len(end))] + end
		}
		symbols[name], taken[id] = id, true
	}
	return symbols
}

// spellings returns the names of extents as the file spells them, by their symbols in the graph.
func (m *Model) spellings() map[string]string {
	all := map[string]string{}
	for name, symbol := range m.symbols() {
		all[symbol] = name
	}
	return all
}

// maxIdent is the largest number of bytes of an identifier (see ir.IsIdent).
const maxIdent = 64

// SymbolOf converts an extent's name in a file to an identifier. Different names may give the same identifier.
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
	return s[:min(len(s), maxIdent)]
}

// spelled lists the names of extents that a user may set, in the file's spelling. An expression such as 2*s0
// contributes its symbols.
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
		for _, extent := range list {
			if !slices.Contains(names, extent) {
				names = append(names, extent)
			}
		}
	}
	return names
}

// expressionOf returns the expression in an extent's name, such as "2*s0" or "past + 1", without spaces. It returns ""
// for a plain name. Extents of the model must determine the symbols of the expression: each symbol is an extent too, or
// the expression is linear in its only symbol.
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

// anyExtent returns a symbol for a name, for parsing expressions.
func anyExtent(symbol string) (ir.Dim, error) { return ir.Symbol(symbol, DefaultBound), nil }

// extentNames lists the names of the inputs' symbolic extents, as extentName returns them.
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

// ForInputs returns options for runs with inputs like the example. Their extents become numbers, except those that the
// options set already. Inputs with names in `constants` become constants of the graph. Some models cannot be built for
// all inputs, but can be built for these.
func (m *Model) ForInputs(o Options, example map[string]*ir.Data, constants []string) Options {
	o.Dims, o.Inputs = maps.Clone(o.Dims), maps.Clone(o.Inputs)
	if o.Dims == nil {
		o.Dims = map[string]ir.Dim{}
	}
	if o.Inputs == nil {
		o.Inputs = map[string]*ir.Data{}
	}
	spelling := m.spellings()
	for _, in := range m.Graph.Inputs {
		d := example[in.Name]
		if d == nil || len(d.Dims) != len(in.Type.Shape) {
			continue
		}
		if slices.Contains(constants, in.Name) {
			o.Inputs[in.Name] = d
		}
		for axis, n := range in.Type.Shape {
			name := extentName(in, axis)
			_, named := o.Dims[name]
			if n.Size < 0 && !named && m.expressionOf(name) == "" && !hasSpelling(o.Dims, spelling, name) {
				o.Dims[name] = ir.D(d.Dims[axis])
			}
		}
	}
	return o
}

// hasSpelling reports whether a key of dims is the symbol of the extent that the file calls name.
func hasSpelling(dims map[string]ir.Dim, spelling map[string]string, name string) bool {
	for symbol := range dims {
		if spelling[symbol] == name {
			return true
		}
	}
	return false
}

// extentName returns the name of a symbolic extent in Options: the model's name, or input and axis.
func extentName(in Value, axis int) string {
	if name := in.Type.Shape[axis].Name; name != "" {
		return name
	}
	return fmt.Sprintf("%s_%d", in.Name, axis)
}

// loops lists the names of the Loop nodes.
func (m *Model) loops() []string {
	var names []string
	m.eachNode(func(n *Node) {
		if n.Op == "Loop" {
			names = append(names, n.title())
		}
	})
	return names
}
