// Package export writes graphs as ONNX models.
//
//	err := export.WriteFile("model.onnx", g, weights, export.Options{})
//
// Each op has a row in one table, which writes it by a formula of ONNX ops or by a function. An error lists all nodes
// with ops that ONNX cannot express. The model declares the oldest opset with all its ops, but at least opset 21.
//
// A symbol becomes a free dimension, with the symbol's name. If it is the extent of no input, it becomes an int64
// input. A state becomes an input past.NAME and, if a run changes it, an output present.NAME.
//
// Weights of q4_0 and q8_0 stay quantized: in a matmul as MatMulNBits (domain com.microsoft), and otherwise as int8
// with DequantizeLinear. Weights of other block formats become f32, because no ONNX op represents them.
package export

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/internal/atomicfile"
	"github.com/vkc-go/vkc/ir"
)

// DefaultInline is the default of Options.Inline. Protobuf files end at 2 GiB.
const DefaultInline = 256 << 20

// Options adjust how a model is written. The zero value suits most models.
type Options struct {
	// Inline is the largest size in bytes of all weights together with which they are written into the model's file. If
	// they are larger, they go to a file next to it, with the suffix DataSuffix. 0 means DefaultInline, and a negative
	// number means 0.
	Inline int64
}

// DataSuffix is the suffix of the file of large weights: model.onnx_data for model.onnx.
const DataSuffix = "_data"

// Refused is an op that ONNX has no equivalent of.
type Refused struct {
	Node *ir.Node
	Err  error
}

// RefusedError lists the nodes of a graph that cannot be written. It wraps errors.ErrUnsupported.
type RefusedError struct {
	Nodes []Refused
}

// listed is the largest number of nodes that an error lists.
const listed = 20

// Error names the nodes, a line each.
func (e *RefusedError) Error() string {
	var b strings.Builder
	b.WriteString("the graph cannot be written as ONNX:")
	for i, n := range e.Nodes {
		if i == listed {
			fmt.Fprintf(&b, "\n  and %d more", len(e.Nodes)-i)
			break
		}
		fmt.Fprintf(&b, "\n  %s (%s): %v", n.Node, n.Node.Label(), n.Err)
	}
	return b.String()
}

// Unwrap returns errors.ErrUnsupported.
func (e *RefusedError) Unwrap() error { return errors.ErrUnsupported }

// Marshal returns the graph as an ONNX model with all weights in it.
func Marshal(g *ir.Graph, weights ir.WeightSource) ([]byte, error) {
	w, err := build(g, weights)
	if err != nil {
		return nil, err
	}
	return w.model("")
}

// WriteFile writes the graph to an ONNX file. If the weights have more than o.Inline bytes, large ones are in a file
// next to it, with the suffix DataSuffix. It returns a *RefusedError if ONNX cannot express a node.
func WriteFile(path string, g *ir.Graph, weights ir.WeightSource, o Options) error {
	w, err := build(g, weights)
	if err != nil {
		return err
	}
	limit := o.Inline
	if limit == 0 {
		limit = DefaultInline
	}
	if w.size() <= max(limit, 0) { // a limit below 0 is none
		content, err := w.model("")
		if err != nil {
			return err
		}
		return atomicfile.WriteFile(path, content, 0o666)
	}
	return w.writeExternal(path)
}

// align is the alignment of weights in the file of large weights: a page, so that each can be mapped.
const align = 4096

// writeExternal writes the model, and large weights to a file of their own.
func (w *writer) writeExternal(path string) (err error) {
	data, err := atomicfile.Create(path+DataSuffix, 0o666)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	var at int64
	for _, t := range w.tensors {
		if t.size < leastExternal {
			continue
		}
		gap := (align - at%align) % align
		if _, err := data.Write(make([]byte, gap)); err != nil {
			return err
		}
		t.external, t.offset = true, at+gap
		content, err := t.content()
		if err != nil {
			return err
		}
		if _, err := data.Write(content); err != nil {
			return err
		}
		at += gap + t.size
	}
	content, err := w.model(filepath.Base(path) + DataSuffix)
	if err != nil {
		return err
	}
	if err := data.Commit(); err != nil {
		return err
	}
	return atomicfile.WriteFile(path, content, 0o666)
}

// leastExternal is the size in bytes of the smallest tensor in the file of large weights. Readers need smaller tensors,
// such as shapes, in the model's file.
const leastExternal = 1024

// size returns the size of all tensors in bytes.
func (w *writer) size() (n int64) {
	for _, t := range w.tensors {
		n += t.size
	}
	return n
}

// Versions of what vkc writes.
const (
	irVersion    = 10 // of ONNX's file format: int4 tensors, and opset 21
	leastOpset   = 21
	microsoft    = "com.microsoft"
	producerName = "vkc"
)

// model writes the ModelProto. data is the name of the file of large weights, or "" if all are in the model.
func (w *writer) model(data string) ([]byte, error) {
	// The numbers of fields are those of ModelProto and GraphProto in onnx.proto.
	graph := w.scope.message(w.rename)
	for _, t := range w.tensors {
		m, err := t.message(data)
		if err != nil {
			return nil, err
		}
		graph = graph.bytes(5, m)
	}
	m := message{}.int(1, irVersion).text(2, producerName).bytes(7, graph)
	m = m.bytes(8, message{}.int(2, int64(w.opset)))
	if w.microsoft {
		m = m.bytes(8, message{}.text(1, microsoft).int(2, 1))
	}
	for _, p := range w.metadata {
		m = m.bytes(14, p)
	}
	if len(m) > 1<<31-1 {
		return nil, fmt.Errorf("the model has %d bytes, and a protobuf file ends at 2 GiB", len(m))
	}
	return m, nil
}

// writer builds the model of a graph.
type writer struct {
	graph     *ir.Graph
	weights   ir.WeightSource
	scope     *scope
	tensors   []*tensor
	constants map[string]string     // names of tensors by a key for their content
	names     map[*ir.Node]string   // of values
	results   map[*ir.Node][]string // by node of an if or loop: the names of its results
	taken     map[string]bool       // names that a value or tensor has
	rename    map[string]string     // by value: the name of the output that it becomes
	symbols   map[string]source
	opset     int  // the oldest opset with all ops so far
	microsoft bool // an op of ONNX Runtime is used
	metadata  []message
	refused   []Refused
	count     int // of values made so far
}

// build builds the model in memory, except the contents of weights.
func build(g *ir.Graph, weights ir.WeightSource) (*writer, error) {
	g, _, err := ir.FitWeights(g, weights)
	if err != nil {
		return nil, err
	}
	w := &writer{graph: g, weights: weights, scope: newScope(nil, g.Name), constants: map[string]string{},
		names: map[*ir.Node]string{}, results: map[*ir.Node][]string{},
		taken: map[string]bool{"": true}, rename: map[string]string{}, symbols: map[string]source{}, opset: leastOpset}
	if w.scope.name == "" {
		w.scope.name = "graph"
	}
	w.ports()
	live := g.Live()
	for _, n := range g.Nodes() {
		if live[n.ID()] {
			w.node(n)
		}
	}
	if len(w.refused) > 0 {
		return nil, &RefusedError{Nodes: w.refused}
	}
	w.declareOutputs()
	return w, nil
}

// newScope returns an empty scope inside another, or inside none.
func newScope(outer *scope, name string) *scope {
	return &scope{outer: outer, name: name, made: map[string]string{}}
}

// unique returns a name that no value has yet.
func (w *writer) unique(name string) string {
	try := name
	for n := 2; w.taken[try]; n++ {
		try = fmt.Sprintf("%s_%d", name, n)
	}
	w.taken[try] = true
	return try
}

// fresh returns a new name: the given name with a number.
func (w *writer) fresh(name string) string {
	w.count++
	return w.unique(fmt.Sprintf("%s_%d", name, w.count))
}

// ports declares the inputs of the ONNX graph: the graph's inputs, its states (as past.NAME), and symbols that no
// extent of an input determines.
func (w *writer) ports() {
	// An output keeps its name, so no input may get it.
	for _, o := range w.graph.Outputs() {
		w.taken[o.Name] = true
	}
	for _, n := range w.graph.Nodes() {
		if n.Op() != ir.OpInput && n.Op() != ir.OpState {
			continue
		}
		name := n.Name()
		if n.Op() == ir.OpState {
			if n.DType().IsBlock() {
				w.refuse(n, fmt.Errorf("it is %s, and ONNX has no block formats: use a float type (--kv f16)",
					n.DType()))
				continue
			}
			name = "past." + name
			if init := n.Attrs().String_("init"); init != "" {
				w.metadata = append(w.metadata, message(pair("init."+name, init)))
			}
		}
		name = w.unique(name)
		w.names[n] = name
		w.scope.inputs = append(w.scope.inputs, port(name, n.Type()))
		for axis, d := range n.Shape() {
			w.measure(name, axis, d)
		}
	}
	for _, symbol := range w.graph.Symbols() {
		if _, ok := w.symbols[symbol]; ok || !w.reads(symbol) {
			continue
		}
		name := w.unique(symbol)
		w.symbols[symbol] = source{input: name}
		w.scope.inputs = append(w.scope.inputs, port(name, ir.Type{DType: ir.I64}))
	}
}

// reads reports whether a live node has the symbol in its type or attributes.
func (w *writer) reads(symbol string) bool {
	live := w.graph.Live()
	for _, n := range w.graph.Nodes() {
		if !live[n.ID()] {
			continue
		}
		shapes := []ir.Shape{n.Shape()}
		for _, a := range n.Attrs() {
			switch v := a.Value.(type) {
			case ir.Shape:
				shapes = append(shapes, v)
			case *ir.Graph:
				if slices.Contains(v.Symbols(), symbol) {
					return true
				}
			}
		}
		for _, s := range shapes {
			for _, d := range s {
				if slices.Contains(d.Symbols(), symbol) {
					return true
				}
			}
		}
	}
	return false
}

// port writes a ValueInfoProto.
func port(name string, t ir.Type) message {
	var shape message
	for _, d := range t.Shape {
		if d.IsStatic() {
			shape = shape.bytes(1, message{}.int(1, d.Add))
		} else {
			shape = shape.bytes(1, message{}.text(2, d.String()))
		}
	}
	return message{}.text(1, name).bytes(2, message{}.bytes(1, message{}.int(1, elemType(t.DType)).bytes(2, shape)))
}

// declareOutputs declares the outputs of the graph, and the states after a run.
func (w *writer) declareOutputs() {
	for _, o := range w.graph.Outputs() {
		w.result(o.Name, o.Node)
	}
	for _, u := range w.graph.Updates() {
		w.result(w.unique("present."+u.State.Name()), u.Value)
	}
}

// result makes a value an output. The value gets the output's name. If it is an input, a tensor or another output
// already, a copy gets the name.
func (w *writer) result(name string, n *ir.Node) {
	value := w.names[n]
	if _, renamed := w.rename[value]; renamed || !w.isMade(value) {
		value = w.emitNew("Identity", []string{value})
	}
	w.rename[value] = name
	w.scope.outputs = append(w.scope.outputs, port(name, n.Type()))
}

// isMade reports whether a node of the main graph computes the value.
func (w *writer) isMade(value string) bool {
	return slices.ContainsFunc(w.scope.nodes, func(n *node) bool { return slices.Contains(n.out, value) })
}

// refuse notes that a node cannot be written, and why.
func (w *writer) refuse(n *ir.Node, err error) { w.refused = append(w.refused, Refused{n, err}) }

// node writes a node of the graph.
func (w *writer) node(n *ir.Node) {
	if _, ok := w.names[n]; ok {
		return // an input or a state
	}
	for _, a := range n.Args() {
		if _, ok := w.names[a]; !ok {
			return // the argument was refused, or needs a node that was
		}
	}
	r, ok := table[n.Op()]
	if !ok {
		w.refuse(n, reason(n.Op()))
		return
	}
	c := &call{writer: w, node: n}
	name, formula := "", r.formulaFor(n)
	switch {
	case r.build != nil:
		name = r.build(c)
	case formula != "":
		name = c.formula(formula)
	default:
		c.fail("ONNX has no such op for %s", n.Arg(0).DType())
	}
	if c.err != nil {
		w.refuse(n, c.err)
		return
	}
	w.opset = max(w.opset, r.since, typesSince[n.DType()])
	w.names[n] = name
}

// emit writes an ONNX node and returns the name of its first result. If an equal node exists already, it returns the
// name of that node's result.
func (w *writer) emit(op string, in []string, attrs ...attribute) string {
	key := fmt.Sprintf("%s(%q)%v", op, in, attrs)
	for s := w.scope; s != nil; s = s.outer {
		if name, ok := s.made[key]; ok {
			return name
		}
	}
	name := w.emitNew(op, in, attrs...)
	w.scope.made[key] = name
	return name
}

// emitNew writes an ONNX node with one result, even if there is an equal node, and returns the result's name.
func (w *writer) emitNew(op string, in []string, attrs ...attribute) string {
	return w.emitAll(op, 1, in, attrs...)[0]
}

// emitAll writes an ONNX node, and returns the names of its results. op is the op's name. The op's domain and a colon
// come before it for an op of ONNX Runtime.
func (w *writer) emitAll(op string, results int, in []string, attrs ...attribute) (out []string) {
	domain, name, ok := strings.Cut(op, ":")
	if !ok {
		domain, name = "", op
	} else {
		w.microsoft = true
	}
	for range results {
		out = append(out, w.fresh(strings.ToLower(name)))
	}
	w.scope.nodes = append(w.scope.nodes, &node{op: name, domain: domain, in: in, out: out, attrs: attrs})
	return out
}
