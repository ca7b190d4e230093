package ir

import (
	"container/heap"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The "format" and "version" fields of every graph.json file.
const (
	graphFormat  = "vkc.graph"
	graphVersion = "1"
)

// ReadJSON reads a graph.json file; docs/GRAPH-JSON.md describes the format. Nodes may come in any order; the graph
// keeps that order as far as dependencies allow. name is the file's name, for errors. Errors have type *ReadError, or
// [ReadErrors] if there are several. Reading is strict: anything unknown is an error.
func ReadJSON(name string, data []byte) (*Graph, error) {
	if len(data) > maxJSONBytes {
		return nil, fmt.Errorf("%s: %d bytes are over the limit of %d: keep large constants as weights", name,
			len(data), maxJSONBytes)
	}
	r := &jsonReader{file: name, text: string(data), splatLeft: maxSplatBytes, g: NewGraph("")}
	root, pos, err := parseJSON(r.text)
	r.root = root
	if err != nil {
		r.report(r.errorAt(pos, err))
	} else {
		r.report(r.graph(&r.root))
	}
	if len(r.faults) > 0 {
		return nil, r.readErrors()
	}
	return r.g, nil
}

// maxReadErrors is the maximum number of errors reported for a file.
const maxReadErrors = 20

// fault is an error and its byte offset in the file.
type fault struct {
	pos int
	err error
}

func (f *fault) Error() string { return f.err.Error() }

// report records err in r.faults and returns true. It returns false if err is nil.
func (r *jsonReader) report(err error) bool {
	f, ok := err.(*fault)
	if !ok {
		return false
	}
	r.count++
	// at is the index after all faults up to f.pos.
	at, _ := slices.BinarySearchFunc(r.faults, f.pos+1, func(have *fault, pos int) int { return have.pos - pos })
	r.faults = slices.Insert(r.faults, at, f)
	if len(r.faults) > maxReadErrors {
		r.faults = r.faults[:maxReadErrors]
	}
	return true
}

// readErrors returns the file's errors in the order of the file.
func (r *jsonReader) readErrors() error {
	var list ReadErrors
	for _, f := range r.faults {
		line, col := lineCol(r.text, f.pos)
		list = append(list, &ReadError{File: r.file, Line: line, Col: col, Path: r.root.pathTo(f.pos), Err: f.err})
	}
	if len(list) == 1 {
		return list[0]
	}
	if more := r.count - len(list); more > 0 {
		last := list[len(list)-1]
		last.Err = fmt.Errorf("%w (and %d more mistakes after this one)", last.Err, more)
	}
	return list
}

// jsonReader builds a graph from the tree of a graph.json file.
type jsonReader struct {
	file, text string
	root       jsonValue
	splatLeft  int64 // bytes still available for repeated values
	g          *Graph
	faults     []*fault // the first maxReadErrors errors, by position
	count      int      // number of all errors
	nodes      []jsonNode
	byID       map[string]int // index into nodes
	info       OutputInfo
}

// jsonNode is a node as read, before its arguments are known to exist.
type jsonNode struct {
	id    string
	op    Op
	value *jsonValue
	args  []int // indices into nodes
	wrong bool  // an argument does not exist
	done  bool  // it and its arguments were visited
	made  *Node // in the graph; nil if it or an argument is wrong
}

// errorAt adds a byte offset to an error.
func (r *jsonReader) errorAt(pos int, err error) error {
	return &fault{pos, err}
}

// wrap adds the position of a value to an error, if there is one.
func (r *jsonReader) wrap(v *jsonValue, err error) error {
	if err == nil {
		return nil
	}
	return r.errorAt(v.pos, err)
}

func (r *jsonReader) errorf(v *jsonValue, format string, args ...any) error {
	return r.errorAt(v.pos, fmt.Errorf(format, args...))
}

// want checks a value's kind.
func (r *jsonReader) want(v *jsonValue, kind jsonKind) error {
	if v.kind != kind {
		return r.errorf(v, "found %s, expected %s", v.kind, kind)
	}
	return nil
}

// object checks that v is an object with all required fields and no unknown ones. It returns the required and then the
// optional fields, nil if missing.
func (r *jsonReader) object(v *jsonValue, required, optional []string) ([]*jsonValue, error) {
	if err := r.want(v, jsonObject); err != nil {
		return nil, err
	}
	all := slices.Concat(required, optional)
	// The last unknown field is returned as the error, and the ones before it are reported.
	var unknown error
	for _, k := range v.keys {
		if !slices.Contains(all, k.name) {
			r.report(unknown)
			unknown = r.errorAt(k.pos, fmt.Errorf("unknown field %q: want %s", clip(k.name), strings.Join(all, ", ")))
		}
	}
	fields := make([]*jsonValue, len(all))
	for i, name := range all {
		fields[i] = v.field(name)
		if fields[i] == nil && i < len(required) {
			r.report(unknown)
			return nil, r.errorf(v, "field %q is missing", name)
		}
	}
	return fields, unknown
}

// str returns the value of a string.
func (r *jsonReader) str(v *jsonValue) (string, error) { return v.text, r.want(v, jsonString) }

// all calls f for every item of an array and reports each item's error.
func (r *jsonReader) all(v *jsonValue, f func(item *jsonValue) error) error {
	return r.each(v, func(item *jsonValue) error {
		r.report(f(item))
		return nil
	})
}

// each calls f for every item of an array, up to the first error; a missing array has no items.
func (r *jsonReader) each(v *jsonValue, f func(item *jsonValue) error) error {
	if v == nil {
		return nil
	}
	if err := r.want(v, jsonArray); err != nil {
		return err
	}
	for i := range v.items {
		if err := f(&v.items[i]); err != nil {
			return err
		}
	}
	return nil
}

// graph checks the file's format and version, and reads its graph.
func (r *jsonReader) graph(root *jsonValue) error {
	f, err := r.object(root, []string{"format", "version", "nodes"}, []string{"name", "symbols", "updates", "outputs"})
	if err != nil {
		return err
	}
	format, version, nodes, name, symbols, updates, outputs := f[0], f[1], f[2], f[3], f[4], f[5], f[6]
	if format.kind != jsonString || format.text != graphFormat {
		return r.errorf(format, "this is not a vkc graph: want %q", graphFormat)
	}
	if version.kind != jsonNumber || version.text != graphVersion {
		return r.errorf(version, "unknown version: this vkc reads version %s", graphVersion)
	}
	if name != nil {
		if r.g.Name, err = r.str(name); err != nil {
			return err
		}
	}
	return r.content(root, nodes, symbols, updates, outputs)
}

// body reads the graph that is an attribute's value. It has the fields of a file except format and version.
func (r *jsonReader) body(v *jsonValue) (*Graph, error) {
	f, err := r.object(v, []string{"nodes"}, []string{"name", "symbols", "updates", "outputs"})
	if err != nil {
		return nil, err
	}
	nodes, name, symbols, updates, outputs := f[0], f[1], f[2], f[3], f[4]
	// A body has nodes and symbols of its own, but shares the file's limit of splats.
	sub := &jsonReader{file: r.file, text: r.text, root: r.root, splatLeft: r.splatLeft, g: NewBody("")}
	if name != nil {
		if sub.g.Name, err = r.str(name); err != nil {
			return nil, err
		}
	}
	sub.report(sub.content(v, nodes, symbols, updates, outputs))
	r.splatLeft = sub.splatLeft
	if len(sub.faults) == 0 {
		return sub.g, nil
	}
	for _, f := range sub.faults[1:] {
		r.report(f)
	}
	return nil, sub.faults[0]
}

// content builds the graph from its fields. root is the value of the whole graph, for errors.
func (r *jsonReader) content(root, nodes, symbols, updates, outputs *jsonValue) error {
	r.report(r.symbols(symbols))
	if err := r.readNodes(nodes); err != nil {
		return err
	}
	r.addNodes()
	r.report(r.all(updates, r.update))
	r.report(r.all(outputs, r.output))
	if outputs != nil && r.count == 0 {
		r.report(r.wrap(outputs, r.g.SetOutputInfo(r.info)))
	}
	if r.count == 0 && len(r.g.outputs) == 0 && len(r.g.updates) == 0 {
		return r.errorf(root, "the graph has no outputs and no updates, so it computes nothing")
	}
	return nil
}

// symbols reads {"T": 64, …}.
func (r *jsonReader) symbols(v *jsonValue) error {
	if v == nil {
		return nil
	}
	if err := r.want(v, jsonObject); err != nil {
		return err
	}
	for i, key := range v.keys {
		bound, err := r.int(&v.items[i])
		if r.report(err) {
			bound = 1 // so that dims may use it
		}
		if err := r.g.DeclareSymbol(key.name, bound); err != nil {
			r.report(r.errorAt(key.pos, err))
			r.g.DeclareSymbol(key.name, 1) // the same, in case only the bound is wrong
		}
		if key.name == "" {
			r.report(r.errorAt(key.pos, fmt.Errorf("a symbol needs a name")))
		}
	}
	return nil
}

// readNodes reads the ids and ops of all nodes, and then their arguments, which may come later in the file.
func (r *jsonReader) readNodes(v *jsonValue) error {
	r.byID = map[string]int{}
	if err := r.all(v, r.readNode); err != nil {
		return err
	}
	for i := range r.nodes {
		n := &r.nodes[i]
		wrong := r.each(n.value.field("args"), func(arg *jsonValue) error {
			j, err := r.ref(arg)
			if r.report(err) {
				n.wrong = true
				return nil
			}
			n.args = append(n.args, j)
			return nil
		})
		n.wrong = r.report(wrong) || n.wrong
	}
	return nil
}

// readNode reads the id and op of a node.
func (r *jsonReader) readNode(v *jsonValue) error {
	if len(r.nodes) >= MaxNodes {
		return r.errorf(v, "more than %d nodes", MaxNodes)
	}
	f, wrong := r.object(v, []string{"id", "op"}, []string{"args", "attrs", "type"})
	if f == nil {
		return wrong
	}
	r.report(wrong)
	id, err := r.str(f[0])
	if err != nil {
		return err
	}
	if first, ok := r.byID[id]; ok {
		return r.errorf(f[0], "id %q is already the id of nodes[%d]: choose another", clip(id), first)
	}
	// Register the id before checking the rest, so that references to an invalid node are not reported too.
	r.byID[id] = len(r.nodes)
	r.nodes = append(r.nodes, jsonNode{id: id, value: v, wrong: true})
	n := &r.nodes[len(r.nodes)-1]
	name, err := r.str(f[1])
	if err != nil {
		return err
	}
	if n.op, err = ParseOp(name); err != nil {
		return r.wrap(f[1], err)
	}
	n.wrong = wrong != nil
	return nil
}

// ref returns the index in r.nodes of the node that v names.
func (r *jsonReader) ref(v *jsonValue) (int, error) {
	id, err := r.str(v)
	if err != nil {
		return 0, err
	}
	i, ok := r.byID[id]
	if !ok {
		return 0, r.errorf(v, "no node has the id %q", clip(id))
	}
	return i, nil
}

// intHeap is a heap of node indices, smallest first.
type intHeap []int

func (h intHeap) Len() int           { return len(h) }
func (h intHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h intHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *intHeap) Push(x any)        { *h = append(*h, x.(int)) }
func (h *intHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// addNodes adds the nodes to the graph, in dependency order and otherwise in file order (Kahn's algorithm with a heap).
func (r *jsonReader) addNodes() {
	waits := make([]int, len(r.nodes))
	users := make([][]int, len(r.nodes))
	ready := &intHeap{}
	for i, n := range r.nodes {
		waits[i] = len(n.args)
		for _, a := range n.args {
			users[a] = append(users[a], i)
		}
		if len(n.args) == 0 {
			*ready = append(*ready, i)
		}
	}
	// waits has the number of arguments that are not in the graph yet. ready has the nodes without any.
	for ready.Len() > 0 {
		i := heap.Pop(ready).(int)
		r.nodes[i].done = true
		r.report(r.addNode(&r.nodes[i]))
		for _, u := range users[i] {
			waits[u]--
			if waits[u] == 0 {
				heap.Push(ready, u)
			}
		}
	}
	if i := slices.IndexFunc(r.nodes, func(n jsonNode) bool { return !n.done }); i >= 0 {
		r.report(r.cycleError(i))
	}
}

// cycleError returns an error that lists the nodes of a dependency cycle. Node i never became ready, so it depends on
// one.
func (r *jsonReader) cycleError(i int) error {
	seen := map[int]int{} // node to its index in path
	var path []int
	for {
		if at, ok := seen[i]; ok {
			path = append(path[at:], i)
			break
		}
		seen[i] = len(path)
		path = append(path, i)
		args := r.nodes[i].args
		i = args[slices.IndexFunc(args, func(a int) bool { return !r.nodes[a].done })] // it never became ready either
	}
	const most = 8
	names := make([]string, 0, most+2)
	for k, at := range path {
		if k == most && len(path) > most+1 {
			names = append(names, "…", strconv.Quote(clip(r.nodes[path[len(path)-1]].id)))
			break
		}
		names = append(names, strconv.Quote(clip(r.nodes[at].id)))
	}
	return r.errorf(r.nodes[i].value, "cycle of %d nodes: %s: a node cannot depend on itself (use a state and an "+
		"update to carry a value over to the next run)",
		len(path)-1, strings.Join(names, " needs "))
}

// addNode adds a node if its arguments were added and it has no error.
func (r *jsonReader) addNode(n *jsonNode) error {
	if n.op == 0 {
		return nil // already reported
	}
	attrs, err := r.attrs(n)
	if err != nil || n.wrong {
		return err
	}
	args := make([]*Node, len(n.args))
	for i, a := range n.args {
		args[i] = r.nodes[a].made
		if args[i] == nil {
			return nil
		}
	}
	if n.made, err = r.g.Add(n.op, args, attrs, ""); err != nil {
		return r.wrap(n.value, err)
	}
	if v := n.value.field("type"); v != nil {
		given, err := r.str(v)
		if err != nil {
			return err
		}
		if given != n.made.typ.String() {
			return r.errorf(v, "the graph says type %q, but %s makes %q", clip(given), n.op, n.made.typ)
		}
	}
	return nil
}

// update reads a state update.
func (r *jsonReader) update(v *jsonValue) error {
	f, err := r.object(v, []string{"state", "value"}, nil)
	if err != nil {
		return err
	}
	state, err := r.ref(f[0])
	if err != nil {
		return err
	}
	value, err := r.ref(f[1])
	if err != nil {
		return err
	}
	// The node could not be added, and its error is reported already.
	if r.nodes[state].made == nil || r.nodes[value].made == nil {
		return nil
	}
	return r.wrap(v, r.g.Update(r.nodes[state].made, r.nodes[value].made))
}

// found reads field found (v, nil if missing) of the output with that name: which part of the output is valid.
func (r *jsonReader) found(name string, v *jsonValue) error {
	if v == nil {
		return nil
	}
	f, err := r.object(v, []string{"axis", "count"}, nil)
	if err != nil {
		return err
	}
	axis, err := r.int(f[0])
	if err != nil {
		return err
	}
	count, err := r.str(f[1])
	if err != nil {
		return err
	}
	if axis < 0 || axis >= MaxRank {
		return r.errorf(f[0], "axis %d: want an axis of an output, at least 0", axis)
	}
	if r.info.Found == nil {
		r.info.Found = map[string]Found{}
	}
	r.info.Found[name] = Found{Axis: int(axis), Count: count}
	return nil
}

// reports reads fields unfinished and mismatched (nil if missing) of the output with that name: whether the output
// reports that the graph's results are wrong.
func (r *jsonReader) reports(name string, unfinished, mismatched *jsonValue) error {
	for _, flag := range []struct {
		value *jsonValue
		names *[]string
	}{{unfinished, &r.info.Loops}, {mismatched, &r.info.Mismatches}} {
		if flag.value == nil {
			continue
		}
		if err := r.want(flag.value, jsonBool); err != nil {
			return err
		}
		if flag.value.text == "true" {
			*flag.names = append(*flag.names, name)
		}
	}
	return nil
}

// output reads an output: its name, its node, and which part of it is valid.
func (r *jsonReader) output(v *jsonValue) error {
	f, err := r.object(v, []string{"name", "node"}, []string{"found", "unfinished", "mismatched"})
	if err != nil {
		return err
	}
	name, err := r.str(f[0])
	if err != nil {
		return err
	}
	if err := r.found(name, f[2]); err != nil {
		return err
	}
	if err := r.reports(name, f[3], f[4]); err != nil {
		return err
	}
	node, err := r.ref(f[1])
	if err != nil {
		return err
	}
	if r.nodes[node].made == nil { // its error is reported already
		return nil
	}
	return r.wrap(f[0], r.g.Output(name, r.nodes[node].made))
}
