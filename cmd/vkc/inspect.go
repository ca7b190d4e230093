package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/bundle"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/huggingface"
	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/frontend/safetensors"
	"github.com/vkc-go/vkc/internal/filefmt"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// inspectCommand declares the command vkc inspect and its flags.
func (a *app) inspectCommand() *cobra.Command {
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:   "inspect FILE.gguf|FOLDER|FILE.safetensors|MODEL.onnx|BUNDLE.vkb|GRAPH",
		Short: "List the contents of a weight file, bundle or graph: metadata, tensors, types, sizes",
		Long: `List the contents of a file of weights: metadata, tensors, types and sizes, and the average number of
bits per weight. Shapes are row-major, with the innermost axis last, which is the reverse of ggml's order. For a graph
the list has the symbols, inputs, outputs, states and weights; for a bundle also the sections; for an ONNX model the
opsets and the number of nodes of each op. Long arrays and strings of the metadata are cut unless --all is given.`,
		Example: "  vkc inspect MODEL.gguf\n  vkc inspect MODEL.safetensors --json\n  vkc inspect MODEL.onnx\n  vkc inspect BUNDLE.vkb\n  vkc inspect GRAPH.json",
		Args:    exactArgs("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			info, err := inspect(args[0])
			if err != nil {
				return err
			}
			if !all {
				info.cut()
			}
			if asJSON {
				return a.printJSON(info)
			}
			return a.printInspected(info)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "print arrays and strings of the metadata in full")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// inspected is the output of vkc inspect --json.
type inspected struct {
	File      string            `json:"file"`
	Format    string            `json:"format"`          // with its version
	FileBytes int64             `json:"file_bytes"`      // of all parts
	Parts     []string          `json:"parts,omitempty"` // the files of a model in several GGUF files
	Metadata  []inspectedKey    `json:"metadata"`
	Sections  []inspectedPart   `json:"sections,omitempty"` // of a bundle
	Ports     []inspectedPort   `json:"ports,omitempty"`    // of a graph or bundle
	Tensors   []inspectedTensor `json:"tensors"`
	Types     []typeTotal       `json:"types"`
	Elements  int64             `json:"elements"`
	Bytes     int64             `json:"bytes"` // of all tensors
	Bits      float64           `json:"bits_per_weight"`
}

type inspectedKey struct {
	Key   string `json:"key"`
	Type  string `json:"type"`
	Value any    `json:"value"`
	Count int    `json:"count,omitempty"` // of an array; Value may have only its first elements
}

type inspectedPart struct {
	Name   string `json:"name"`
	Offset int64  `json:"offset"`
	Bytes  int64  `json:"bytes"`
}

// inspectedPort is an input, an output or a state of a program.
type inspectedPort struct {
	Kind string `json:"kind"` // input, output or state
	Name string `json:"name"`
	Type string `json:"type"`
}

type inspectedTensor struct {
	Name     string  `json:"name"`
	Type     string  `json:"type"`
	Shape    []int   `json:"shape"`
	Part     int     `json:"part,omitempty"`   // number of the file in a model's parts, from 1
	Offset   int64   `json:"offset,omitempty"` // in the file, if known
	Bytes    int64   `json:"bytes"`
	Elements int64   `json:"elements"`
	Bits     float64 `json:"bits_per_weight"`
}

// typeTotal sums the tensors of one type up.
type typeTotal struct {
	Type     string `json:"type"`
	Tensors  int    `json:"tensors"`
	Elements int64  `json:"elements"`
	Bytes    int64  `json:"bytes"`
}

// inspect reads a file of any kind that vkc knows, and returns its description.
func inspect(path string) (_ *inspected, err error) {
	if path, err = modelFile(path); err != nil {
		return nil, err
	}
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	info := &inspected{File: path, FileBytes: st.Size(), Metadata: []inspectedKey{}, Tensors: []inspectedTensor{},
		Types: []typeTotal{}}
	isBundle, err := filefmt.IsBundle(path)
	if err != nil {
		return nil, err
	}
	isGraph, err := looksLikeGraph(path)
	if err != nil {
		return nil, err
	}
	switch {
	case isBundle:
		err = info.bundle(path)
	case isONNX(path):
		err = info.onnx(path)
	case isGraph:
		err = info.graph(path)
	default:
		err = info.weights(path)
	}
	if err != nil {
		return nil, err
	}
	info.total()
	return info, nil
}

// looksLikeGraph reports whether a file begins like a graph in JSON or text IR. Safetensors files and their index files
// begin similarly, so their names exclude them.
func looksLikeGraph(path string) (bool, error) {
	if name := strings.ToLower(path); strings.HasSuffix(name, ".safetensors") ||
		strings.HasSuffix(name, ".safetensors.index.json") {
		return false, nil
	}
	head, err := filefmt.Head(path, 512)
	if err != nil {
		return false, err
	}
	start := bytes.TrimSpace(head)
	return slices.ContainsFunc([]string{"{", "[", "graph", ";"}, func(s string) bool {
		return bytes.HasPrefix(start, []byte(s))
	}), nil
}

// graph adds the description of a graph file to info.
func (info *inspected) graph(path string) error {
	g, err := vkc.ReadGraph(path)
	if err != nil {
		return err
	}
	info.Format = "vkc graph"
	info.addKey("name", g.Name)
	info.addKey("graph_hash", g.HashString())
	info.addKey("nodes", int64(len(g.Nodes())))
	for _, s := range g.Symbols() {
		bound, _ := g.SymbolBound(s)
		info.addKey("symbol "+s, bound)
	}
	info.addPorts(runtime.SignatureOf(g))
	for _, n := range g.Leaves(ir.OpWeight) {
		dims, err := n.Shape().Eval(nil) // weights are static
		if err != nil {
			return err
		}
		size, err := n.Type().MaxBytes()
		if err != nil {
			return err
		}
		info.addTensor(n.Name(), n.DType().String(), dims, 0, size)
	}
	return nil
}

// onnx describes an ONNX model, whether or not its ops are supported. Extents without a number are shown as symbol
// names.
func (info *inspected) onnx(path string) (err error) {
	f, err := onnx.Read(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	m := f.Model
	info.Format = fmt.Sprintf("ONNX, IR version %d", m.IRVersion)
	info.addKey("graph", m.Graph.Name)
	if m.Producer != "" {
		info.addKey("producer", m.Producer)
	}
	for _, domain := range slices.Sorted(maps.Keys(m.Opsets)) {
		info.addKey(strings.TrimSpace("opset "+domain), m.Opsets[domain])
	}
	for _, key := range slices.Sorted(maps.Keys(m.Metadata)) {
		info.addKey(key, m.Metadata[key])
	}
	info.onnxNodes(m)
	for _, list := range []struct {
		kind   string
		values []onnx.Value
	}{{"input", m.Graph.Inputs}, {"output", m.Graph.Outputs}} {
		for _, v := range list.values {
			info.Ports = append(info.Ports, inspectedPort{list.kind, v.Name, m.Shown(v).String()})
		}
	}
	for _, t := range m.Tensors() {
		dims := make([]int, len(t.Dims))
		elems := int64(1)
		for i, d := range t.Dims {
			dims[i] = int(d)
			elems *= d
		}
		info.addTensor(t.Name, t.Type.String(), dims, 0, t.Type.Bytes(elems))
	}
	return nil
}

// onnxNodes adds the numbers of an ONNX model's functions, nodes and ops, the ops that vkc cannot build, and the
// symbolic extents.
func (info *inspected) onnxNodes(m *onnx.Model) {
	info.addKey("functions", int64(len(m.Functions)))
	info.addKey("nodes", int64(len(m.Graph.Nodes)))
	ops := m.Ops()
	for _, op := range slices.Sorted(maps.Keys(ops)) {
		info.addKey("op "+op, int64(ops[op]))
	}
	unknown := m.UnknownOps()
	for _, op := range slices.Sorted(maps.Keys(unknown)) {
		info.addKey("cannot build "+op, unknown[op].Error())
	}
	for _, name := range m.Extents() {
		text := fmt.Sprintf("a symbol, at most %d: --bound and --dim change it", onnx.DefaultBound)
		if in := m.Spelling(name); in != name {
			text += "; in the file " + ir.Printable(in)
		}
		info.addKey("extent "+name, text)
	}
}

// addPorts appends the inputs, outputs and states of a program.
func (info *inspected) addPorts(sig *runtime.Signature) {
	for _, list := range []struct {
		kind  string
		ports []runtime.Port
	}{{"input", sig.Inputs()}, {"output", sig.Outputs()}, {"state", sig.States()}} {
		for _, p := range list.ports {
			info.Ports = append(info.Ports, inspectedPort{list.kind, p.Name, p.Type.String()})
		}
	}
}

// weights describes a file of weights: GGUF, safetensors, one part of a model in several files, or their index.
func (info *inspected) weights(path string) (err error) {
	w, err := vkc.OpenWeights(path)
	part := (*filefmt.PartError)(nil)
	if errors.As(err, &part) { // a part may be inspected
		w, err = openPart(path, part.Format)
	}
	if model, _ := isModel(path); err != nil && !model && !strings.Contains(strings.ToLower(path), ".safetensors") {
		return fmt.Errorf("%w; vkc inspect reads these, bundles, ONNX models (.onnx) and graphs (JSON or text IR)", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	switch f := w.(type) {
	case *gguf.File:
		if err := info.gguf(f, path); err != nil {
			return err
		}
	case *safetensors.File:
		info.Format = "safetensors"
		texts := f.Metadata()
		for _, key := range slices.Sorted(maps.Keys(texts)) {
			info.addKey(key, texts[key])
		}
		for _, t := range f.Tensors() {
			info.addTensor(t.Name, strings.ToLower(t.Type), t.Dims, t.Offset, t.Bytes)
		}
	default: // the index of several files
		info.Format = "safetensors index"
		for _, name := range w.Names() {
			d, err := w.Weight(name)
			if err != nil {
				return err
			}
			info.addTensor(name, d.DType.String(), d.Dims, 0, int64(len(d.Bytes)))
		}
	}
	if part != nil {
		info.Format += fmt.Sprintf(", part %d of %d (%s)", part.Part, part.Of, part.Remedy)
	}
	return nil
}

// gguf describes a GGUF file, or a Hugging Face folder, which package huggingface opens as one.
func (info *inspected) gguf(f *gguf.File, path string) error {
	info.Format = fmt.Sprintf("GGUF %d", f.Version())
	if huggingface.IsFolder(path) {
		info.Format = "Hugging Face folder, in GGUF's spelling"
	}
	if err := info.parts(f.Paths()); err != nil {
		return err
	}
	for _, kv := range f.Metadata() {
		info.addKey(kv.Key, kv.Value)
	}
	for _, t := range f.Tensors() {
		name := t.DType.String()
		if t.DType == ir.Invalid { // vkc does not support the type
			name = fmt.Sprintf("ggml type %d", t.Type)
		}
		info.addTensor(t.Name, name, t.Dims, t.Offset, t.Bytes)
		if info.Parts != nil {
			info.Tensors[len(info.Tensors)-1].Part = t.Part + 1
		}
	}
	return nil
}

// parts describes the files of a model, if there are several.
func (info *inspected) parts(paths []string) error {
	if len(paths) < 2 {
		return nil
	}
	info.Parts, info.FileBytes = paths, 0
	info.Format += fmt.Sprintf(" in %d parts", len(paths))
	for _, path := range paths {
		st, err := os.Stat(path)
		if err != nil {
			return err
		}
		info.FileBytes += st.Size()
	}
	return nil
}

// openPart opens one file of a model in several files.
func openPart(path, format string) (vkc.Weights, error) {
	if format == "gguf" {
		return gguf.OpenPart(path)
	}
	return safetensors.OpenPart(path)
}

// bundle describes a compiled bundle.
func (info *inspected) bundle(path string) (err error) {
	f, err := bundle.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	p, meta := f.Program(), f.Meta()
	info.Format = "vkb bundle"
	for _, s := range f.Sections() {
		info.Sections = append(info.Sections, inspectedPart{s.String(), s.Offset, s.Length})
	}
	info.addKey("vkc", meta.Version)
	if key := f.Signer(); key != nil {
		info.addKey("signed_with", bundle.KeyName(key))
	}
	for key, value := range map[string]string{"created_by": meta.CreatedBy, "source": meta.Source} {
		if value != "" {
			info.addKey(key, value)
		}
	}
	slices.SortFunc(info.Metadata, func(a, b inspectedKey) int { return strings.Compare(a.Key, b.Key) })
	info.addKey("program", p.Name)
	info.addKey("graph_hash", p.GraphHash)
	info.addKey("target", p.Target)
	info.addKey("kernels", int64(len(p.Steps)))
	info.addKey("shaders", int64(len(p.Shaders)))
	info.addKey("arena_bytes", p.ArenaBytes)
	g, err := f.Graph()
	if err != nil {
		return err
	}
	info.addPorts(runtime.SignatureOf(g))
	for _, name := range f.WeightNames() {
		t, dims, err := f.WeightType(name)
		if err != nil {
			return err
		}
		d := ir.Data{DType: t, Dims: dims}
		n, err := t.BytesFor(int64(d.Elems()))
		if err != nil {
			return err
		}
		info.addTensor(name, t.String(), dims, 0, n)
	}
	return nil
}

// addKey adds an entry of the metadata. For a list it also records the number of elements.
func (info *inspected) addKey(key string, value any) {
	k := inspectedKey{Key: key, Type: strings.TrimPrefix(fmt.Sprintf("%T", value), "[]"), Value: value}
	if v := reflect.ValueOf(value); v.Kind() == reflect.Slice {
		k.Type, k.Count = "["+strconv.Itoa(v.Len())+"]"+k.Type, v.Len()
	}
	info.Metadata = append(info.Metadata, k)
}

// addTensor appends a tensor of n bytes. offset is its position in the file, or 0.
func (info *inspected) addTensor(name, dtype string, dims []int, offset, n int64) {
	t := inspectedTensor{Name: name, Type: dtype, Shape: dims, Offset: offset, Bytes: n, Elements: 1}
	if t.Shape == nil {
		t.Shape = []int{}
	}
	for _, d := range dims {
		t.Elements *= int64(d)
	}
	t.Bits = bitsPer(t.Bytes, t.Elements)
	info.Tensors = append(info.Tensors, t)
}

// bitsPer returns the bits per element, or 0 if there are no elements.
func bitsPer(bytes, elements int64) float64 {
	if elements == 0 {
		return 0
	}
	return 8 * float64(bytes) / float64(elements)
}

// total adds up the tensors of each type, with the largest type first, and of all types.
func (info *inspected) total() {
	for _, t := range info.Tensors {
		i := slices.IndexFunc(info.Types, func(s typeTotal) bool { return s.Type == t.Type })
		if i < 0 {
			i = len(info.Types)
			info.Types = append(info.Types, typeTotal{Type: t.Type})
		}
		s := &info.Types[i]
		s.Tensors++
		s.Elements += t.Elements
		s.Bytes += t.Bytes
		info.Elements += t.Elements
		info.Bytes += t.Bytes
	}
	slices.SortStableFunc(info.Types, func(a, b typeTotal) int { return cmp.Compare(b.Bytes, a.Bytes) })
	info.Bits = bitsPer(info.Bytes, info.Elements)
}

// The number of elements and characters of a long metadata value that are shown.
const (
	shownItems = 6
	shownRunes = 100
)

// cut shortens lists and texts of the metadata to shownItems elements and shownRunes characters.
func (info *inspected) cut() {
	for i := range info.Metadata {
		k := &info.Metadata[i]
		switch v := reflect.ValueOf(k.Value); {
		case v.Kind() == reflect.Slice && v.Len() > shownItems:
			k.Value = v.Slice(0, shownItems).Interface()
		case v.Kind() == reflect.String:
			if runes := []rune(v.String()); len(runes) > shownRunes {
				k.Value = string(runes[:shownRunes]) + "…"
			}
		}
	}
}

// printInspected prints the description as tables.
func (a *app) printInspected(info *inspected) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s: %s, %s\n", ir.Printable(info.File), info.Format, size(info.FileBytes))
	for _, k := range info.Metadata {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", ir.Printable(k.Key), k.Type, k.text())
	}
	for _, s := range info.Sections {
		fmt.Fprintf(w, "  section %s\tat %d\t%s\n", s.Name, s.Offset, size(s.Bytes))
	}
	for _, p := range info.Ports {
		fmt.Fprintf(w, "  %s %s\t%s\n", p.Kind, ir.Printable(p.Name), p.Type)
	}
	if len(info.Tensors) > 0 {
		fmt.Fprintln(w, "\nTENSOR\tSHAPE\tTYPE\tBYTES\tBITS/WEIGHT")
	}
	for _, t := range info.Tensors {
		fmt.Fprintf(w, "%s\t%v\t%s\t%d\t%.4g\n", ir.Printable(t.Name), t.Shape, ir.Printable(t.Type), t.Bytes, t.Bits)
	}
	fmt.Fprintln(w)
	for _, t := range info.Types {
		fmt.Fprintf(w, "%s:\t%s\t%d elements\t%s\n", ir.Printable(t.Type), plural(t.Tensors, "tensor"),
			t.Elements, size(t.Bytes))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.stdout, "%s, %d elements, %s, %.4g bits per weight\n", plural(len(info.Tensors), "tensor"),
		info.Elements, size(info.Bytes), info.Bits)
	return err
}

// plural returns a count with its noun, which gets an s unless the count is 1.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// text returns the value for people, on one line.
func (k *inspectedKey) text() string {
	v := reflect.ValueOf(k.Value)
	if v.Kind() != reflect.Slice {
		return itemText(k.Value)
	}
	parts := make([]string, v.Len())
	for i := range parts {
		parts[i] = itemText(v.Index(i).Interface())
	}
	if v.Len() < k.Count {
		parts = append(parts, "…")
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// itemText formats a metadata value, or an element of one.
func itemText(v any) string {
	switch v := v.(type) {
	case string:
		return strconv.Quote(v)
	case float32:
		return strconv.FormatFloat(float64(v), 'g', -1, 32)
	}
	return fmt.Sprint(v)
}
