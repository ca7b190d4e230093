package ir

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxJSONValues is the largest number of elements of a constant that is written as values; larger constants are written
// as base64.
const maxJSONValues = 64

// WriteJSON writes the graph as a graph.json file in canonical form: fields and attributes have a fixed order,
// attributes with default values are omitted, and each node is one line, so that diffs are readable. Inputs, weights
// and states have their name as id, other nodes their number.
func (g *Graph) WriteJSON(w io.Writer) error {
	text, err := g.MarshalJSONText()
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// MarshalJSONText returns the output of WriteJSON. It fails only if the graph's name is not UTF-8.
func (g *Graph) MarshalJSONText() ([]byte, error) {
	if !utf8.ValidString(g.Name) {
		return nil, fmt.Errorf("the graph's name %q is not UTF-8, so graph.json cannot hold it", g.Name)
	}
	w := &jsonWriter{g: g, splatLeft: maxSplatBytes}
	w.graph()
	return w.b.Bytes(), nil
}

// jsonWriter formats a graph as graph.json.
type jsonWriter struct {
	b         bytes.Buffer
	g         *Graph
	splatLeft int64 // bytes that readers would still accept as repeated values
}

func (w *jsonWriter) printf(format string, args ...any) { fmt.Fprintf(&w.b, format, args...) }

func (w *jsonWriter) graph() {
	w.printf("{\n  \"format\": %q,\n  \"version\": %s,\n", graphFormat, graphVersion)
	w.content()
}

// body returns the graph that is an attribute's value, indented below its node.
func (w *jsonWriter) body(g *Graph) string {
	sub := &jsonWriter{g: g, splatLeft: w.splatLeft}
	sub.printf("{\n")
	sub.content()
	w.splatLeft = sub.splatLeft
	return strings.ReplaceAll(strings.TrimSuffix(sub.b.String(), "\n"), "\n", "\n    ")
}

// content writes the fields that every graph has, and the end of the object.
func (w *jsonWriter) content() {
	w.printf("  \"name\": %s,\n", quoteJSON(w.g.Name))
	if symbols := w.g.Symbols(); len(symbols) > 0 {
		pairs := make([]string, len(symbols))
		for i, s := range symbols {
			pairs[i] = fmt.Sprintf("%q: %d", s, w.g.symbols[s])
		}
		w.printf("  \"symbols\": {%s},\n", strings.Join(pairs, ", "))
	}
	w.lines("nodes", len(w.g.nodes), func(i int) { w.node(w.g.nodes[i]) })
	if len(w.g.updates) > 0 {
		w.printf(",\n")
		w.lines("updates", len(w.g.updates), func(i int) {
			u := w.g.updates[i]
			w.printf(`{"state": %s, "value": %s}`, w.id(u.State), w.id(u.Value))
		})
	}
	if len(w.g.outputs) > 0 {
		w.printf(",\n")
		w.lines("outputs", len(w.g.outputs), func(i int) {
			o := w.g.outputs[i]
			w.printf(`{"name": %s, "node": %s`, quoteJSON(o.Name), w.id(o.Node))
			if part, ok := w.g.info.Found[o.Name]; ok {
				w.printf(`, "found": {"axis": %d, "count": %s}`, part.Axis, quoteJSON(part.Count))
			}
			if slices.Contains(w.g.info.Loops, o.Name) {
				w.printf(`, "unfinished": true`)
			}
			if slices.Contains(w.g.info.Mismatches, o.Name) {
				w.printf(`, "mismatched": true`)
			}
			w.printf("}")
		})
	}
	w.printf("\n}\n")
}

// lines writes a field that is an array with one item a line.
func (w *jsonWriter) lines(field string, n int, item func(i int)) {
	w.printf("  %q: [", field)
	sep := "\n    "
	for i := range n {
		w.printf("%s", sep)
		item(i)
		sep = ",\n    "
	}
	w.printf("\n  ]")
}

// id returns a node's id, quoted: its name, or else its number, followed by underscores if a name looks the same.
func (w *jsonWriter) id(n *Node) string {
	id := n.Name()
	if id == "" {
		id = strconv.Itoa(n.id)
		for w.g.named[id] != nil {
			id += "_"
		}
	}
	return quoteJSON(id)
}

// node writes a node on one line.
func (w *jsonWriter) node(n *Node) {
	w.printf(`{"id": %s, "op": %q`, w.id(n), n.op)
	if len(n.args) > 0 {
		ids := make([]string, len(n.args))
		for i, a := range n.args {
			ids[i] = w.id(a)
		}
		w.printf(`, "args": [%s]`, strings.Join(ids, ", "))
	}
	sep := `, "attrs": {`
	for i, spec := range n.op.Info().Attrs {
		v := n.attrs[i].Value
		if spec.Default != nil && FormatAttr(spec.Default) == FormatAttr(v) {
			continue
		}
		w.printf("%s%q: %s", sep, spec.Name, w.attr(v))
		sep = ", "
	}
	if sep == ", " {
		w.printf("}")
	}
	// The attributes of a leaf already say its type.
	if len(n.args) > 0 {
		w.printf(`, "type": %q`, n.typ)
	}
	w.printf("}")
}

// attr returns the JSON of an attribute's value.
func (w *jsonWriter) attr(v any) string {
	switch x := v.(type) {
	case string:
		return quoteJSON(x)
	case DType:
		return strconv.Quote(x.String())
	case float64:
		return quoteNonFinite(FormatFloat(x))
	case []int64:
		return strings.ReplaceAll(FormatAttr(x), ",", ", ")
	case Shape:
		return jsonShape(x)
	case *Data:
		return w.data(x)
	case *Graph:
		return w.body(x)
	}
	return FormatAttr(v)
}

// jsonShape returns the JSON of a shape: numbers, and strings for symbolic dims.
func jsonShape(s Shape) string {
	dims := make([]string, len(s))
	for i, d := range s {
		dims[i] = d.String()
		if !d.IsStatic() {
			dims[i] = strconv.Quote(dims[i])
		}
	}
	return "[" + strings.Join(dims, ", ") + "]"
}

// data writes a constant in the shortest of its three forms.
func (w *jsonWriter) data(d *Data) string {
	n := d.Elems()
	head := fmt.Sprintf(`{"dtype": %q, "shape": %s, `, d.DType, jsonShape(ShapeOf(d.Dims...)))
	elem := func(i int) string { return quoteNonFinite(formatElem(d.DType, d.elem(i))) }
	switch {
	case d.DType.IsBlock(): // written as base64
	case n > 1 && d.uniform() && int64(len(d.Bytes)) <= w.splatLeft:
		w.splatLeft -= int64(len(d.Bytes))
		return head + `"all": ` + elem(0) + "}"
	case n <= maxJSONValues:
		values := make([]string, n)
		for i := range values {
			values[i] = elem(i)
		}
		return head + `"values": [` + strings.Join(values, ", ") + "]}"
	}
	return head + `"base64": "` + base64.StdEncoding.EncodeToString(d.Bytes) + `"}`
}

// quoteNonFinite quotes inf, -inf and nan:HEX, because JSON has no such numbers.
func quoteNonFinite(text string) string {
	if strings.HasPrefix(text, "nan:") {
		return strconv.Quote(text)
	}
	if v, err := strconv.ParseFloat(text, 64); err == nil && math.IsInf(v, 0) {
		return strconv.Quote(text)
	}
	return text
}

// quoteJSON quotes a UTF-8 string as JSON without HTML escapes.
func quoteJSON(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // encoding a string cannot fail
	return strings.TrimSuffix(b.String(), "\n")
}
