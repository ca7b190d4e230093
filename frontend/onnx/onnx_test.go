package onnx_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// built opens a model in memory.
func built(t *testing.T, content []byte, o onnx.Options) *onnx.File {
	t.Helper()
	f, err := onnx.NewReader(content, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// run computes the outputs of a model on the reference.
func run(t *testing.T, f *onnx.File, in map[string]*ir.Data) map[string]*ir.Data {
	t.Helper()
	p, err := interp.New(f.Graph, interp.Options{Weights: f})
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Run(context.Background(), in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func f32(t *testing.T, values []float64, dims ...int) *ir.Data {
	t.Helper()
	d, err := ir.FromFloats(ir.F32, values, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// is checks an output's shape and values.
func is(t *testing.T, got *ir.Data, want *ir.Data) {
	t.Helper()
	if err := onnx.Compare(got, want, 1e-6, 1e-6); err != nil {
		t.Error(err)
	}
}

// countUp is 0, 1, 2 and so on.
func countUp(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(i)
	}
	return out
}

// TestSymbolsSurviveShapeArithmetic reshapes [N,4,3] to [2*N,6] with a shape computed from Shape, as exporters write
// it.
func TestSymbolsSurviveShapeArithmetic(t *testing.T) {
	m := model(13, graph(
		inputs(port("x", float, "N", 4, 3)),
		weights(ints("zero", []int64{0}), ints("two", []int64{2}), ints("axis", []int64{0}, 1),
			ints("six", []int64{6}, 1)),
		nodes(
			node("Shape", names("x"), names("s")),
			node("Gather", names("s", "zero"), names("n")),
			node("Mul", names("n", "two"), names("n2")),
			node("Unsqueeze", names("n2", "axis"), names("n2v")),
			node("Concat", names("n2v", "six"), names("to"), intAttr("axis", 0)),
			node("Reshape", names("x", "to"), names("y")),
			node("ConstantOfShape", names("to"), names("zeros")),
			node("Add", names("y", "zeros"), names("z"))),
		outputs("z", "n2")))
	f := built(t, m, onnx.Options{Bounds: map[string]int{"N": 9}})
	if got := f.Graph.Outputs()[0].Node.Shape().String(); got != "[2*N,6]" {
		t.Errorf("z has shape %s, want [2*N,6]", got)
	}
	if bound, _ := f.Graph.SymbolBound("N"); bound != 9 {
		t.Errorf("N is at most %d, want 9", bound)
	}
	out := run(t, f, map[string]*ir.Data{"x": f32(t, countUp(36), 3, 4, 3)})
	is(t, out["z"], f32(t, countUp(36), 6, 6))
	if n, err := out["n2"].Ints(); err != nil || n[0] != 6 || len(out["n2"].Dims) != 0 {
		t.Errorf("n2 is %v %v, want the scalar 6", out["n2"], n)
	}

	f = built(t, m, onnx.Options{Dims: map[string]ir.Dim{"N": ir.D(5)}})
	if got := f.Graph.Outputs()[0].Node.Shape().String(); got != "[10,6]" || len(f.Graph.Symbols()) > 0 {
		t.Errorf("z has shape %s with N = 5, want [10,6]", got)
	}
}

// TestEqualExtents adds tensors of two extents, which only a declaration makes equal.
func TestEqualExtents(t *testing.T) {
	m := model(13, graph(inputs(port("x", float, "N"), port("y", float, "M")),
		nodes(node("Add", names("x", "y"), names("z"))), outputs("z")))
	if _, err := onnx.NewReader(m, onnx.Options{}); err == nil || !strings.Contains(err.Error(), `["N" "M"]`) {
		t.Errorf("error %v", err)
	}
	f := built(t, m, onnx.Options{Dims: map[string]ir.Dim{"M": ir.Symbol("N", onnx.DefaultBound)}})
	in := map[string]*ir.Data{"x": f32(t, []float64{1, 2}, 2), "y": f32(t, []float64{3, 4}, 2)}
	is(t, run(t, f, in)["z"], f32(t, []float64{4, 6}, 2))
	in["y"] = f32(t, []float64{3}, 1)
	p, err := interp.New(f.Graph, interp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Run(context.Background(), in, nil); err == nil {
		t.Error("extents that are not equal after all are no error")
	}
}

// TestConstantsAreComputed builds a node with constant inputs. The graph contains its value.
func TestConstantsAreComputed(t *testing.T) {
	m := model(13, graph(
		inputs(port("x", float, 2)),
		weights(floats("a", []float32{1, 2}, 2), floats("b", []float32{10, 20}, 2)),
		nodes(node("Mul", names("a", "b"), names("c")), node("Add", names("x", "c"), names("y"))),
		outputs("y")))
	f := built(t, m, onnx.Options{})
	for _, n := range f.Graph.Nodes() {
		if n.Op() == ir.OpMul {
			t.Errorf("the graph multiplies constants:\n%s", f.Graph)
		}
	}
	is(t, run(t, f, map[string]*ir.Data{"x": f32(t, []float64{1, 1}, 2)})["y"], f32(t, []float64{11, 41}, 2))
}

// TestWeightsAliasTheFile checks that a weight is no copy, and is found by its name.
func TestWeightsAliasTheFile(t *testing.T) {
	w := make([]float32, 64)
	for i := range w {
		w[i] = float32(i)
	}
	m := model(13, graph(inputs(port("x", float, 1, 8)), weights(floats("w", w, 8, 8)),
		nodes(node("MatMul", names("x", "w"), names("y"))), outputs("y")))
	f := built(t, m, onnx.Options{})
	if !slices.Equal(f.Names(), []string{"w"}) {
		t.Fatalf("weights are %q", f.Names())
	}
	d, err := f.Weight("w")
	if err != nil {
		t.Fatal(err)
	}
	if &d.Bytes[0] != &m[strings.Index(string(m), string(d.Bytes))] {
		t.Error("the weight is a copy of the file's bytes")
	}
	if _, err := f.Weight("v"); err == nil || !strings.Contains(err.Error(), "w") {
		t.Errorf("an unknown weight gives %v", err)
	}
}

// TestAllThatIsNotSupportedIsListed has two nodes with unknown ops, one that depends on them, and one with an input
// that must be constant.
func TestAllThatIsNotSupportedIsListed(t *testing.T) {
	m := model(13, graph(
		inputs(port("x", float, 4), port("shape", int64s, 2)),
		nodes(node("Frobnicate", names("x"), names("a")), node("Relu", names("a"), names("b")),
			node("Twiddle", names("x"), names("c")), node("Reshape", names("x", "shape"), names("d"))),
		outputs("b", "c", "d")))
	_, err := onnx.NewReader(m, onnx.Options{})
	var u *onnx.UnsupportedError
	if !errors.As(err, &u) {
		t.Fatalf("error is %v", err)
	}
	var found []string
	for _, n := range u.Nodes {
		found = append(found, n.Node)
	}
	if want := names("the Frobnicate", "the Twiddle", "the Reshape"); !slices.Equal(found, want) {
		t.Errorf("lists %q, want %q", found, want)
	}
	if !slices.Equal(u.Inputs, names("shape")) {
		t.Errorf("inputs that must be known are %q, want shape", u.Inputs)
	}
	for _, text := range []string{"the Frobnicate (Frobnicate): vkc does not support this op", "3 nodes"} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q is not in the error:\n%v", text, err)
		}
	}
}

// TestInputAsConstant gives an input when the graph is built.
func TestInputAsConstant(t *testing.T) {
	m := model(13, graph(inputs(port("x", float, 4), port("shape", int64s, 2)),
		nodes(node("Reshape", names("x", "shape"), names("y"))), outputs("y")))
	to, err := ir.FromInts(ir.I64, []int64{2, -1}, 2)
	if err != nil {
		t.Fatal(err)
	}
	f := built(t, m, onnx.Options{Inputs: map[string]*ir.Data{"shape": to}})
	is(t, run(t, f, map[string]*ir.Data{"x": f32(t, countUp(4), 4)})["y"], f32(t, countUp(4), 2, 2))
}

// TestOpsetsDiffer computes softmax of [2,2,2] along axis 1 as opset 12 and as opset 13 have it.
func TestOpsetsDiffer(t *testing.T) {
	for _, c := range []struct {
		opset int64
		want  []float64
	}{
		{12, []float64{.25, .25, .25, .25, .25, .25, .25, .25}},
		{13, []float64{.5, .5, .5, .5, .5, .5, .5, .5}},
	} {
		m := model(c.opset, graph(inputs(port("x", float, 2, 2, 2)),
			nodes(node("Softmax", names("x"), names("y"), intAttr("axis", 1))), outputs("y")))
		f := built(t, m, onnx.Options{})
		is(t, run(t, f, map[string]*ir.Data{"x": f32(t, make([]float64, 8), 2, 2, 2)})["y"], f32(t, c.want, 2, 2, 2))
	}
}

// TestFunctionsAndSubgraphs calls a function of the model, and takes a branch by a condition of the run.
func TestFunctionsAndSubgraphs(t *testing.T) {
	double := msg{}.text(1, "Double").text(4, "a").text(5, "b").text(10, "own").
		bytes(7, node("Add", names("a", "a"), names("b"))).bytes(9, msg{}.int(2, 13))
	call := node("Double", names("x"), names("d")).text(7, "own")
	branch := func(op, out string) msg {
		return graph(nodes(node(op, names("d"), names(out))), outputs(out))
	}
	m := model(13, graph(
		inputs(port("x", float, 2), port("cond", boolean)),
		nodes(call, node("If", names("cond"), names("y"), graphAttr("then_branch", branch("Neg", "p")),
			graphAttr("else_branch", branch("Abs", "q")))),
		outputs("y")), double)
	f := built(t, m, onnx.Options{})
	for i, want := range [][]float64{{2, 4}, {2, -4}} {
		cond := &ir.Data{DType: ir.Bool, Bytes: []byte{byte(i)}}
		out := run(t, f, map[string]*ir.Data{"x": f32(t, []float64{-1, 2}, 2), "cond": cond})
		is(t, out["y"], f32(t, want, 2))
	}
}

// TestBatchNormBecomesPartOfTheConvolution compares the fused result with the definition. It checks that no op of the
// normalization depends on the input.
func TestBatchNormBecomesPartOfTheConvolution(t *testing.T) {
	w := make([]float32, 18)
	for i := range w {
		w[i] = 1
	}
	m := model(15, graph(
		inputs(port("x", float, 1, 1, 3, 3)),
		weights(floats("w", w, 2, 1, 3, 3), floats("scale", []float32{2, 4}, 2), floats("bias", []float32{1, 0}, 2),
			floats("mean", []float32{6, 36}, 2), floats("var", []float32{4, 1}, 2)),
		nodes(node("Conv", names("x", "w"), names("c")),
			node("BatchNormalization", names("c", "scale", "bias", "mean", "var"), names("y"))),
		outputs("y")))
	f := built(t, m, onnx.Options{})
	constant := interp.IsConstant(f.Graph)
	for _, n := range f.Graph.Nodes() {
		if !constant[n.ID()] && n.Op() != ir.OpInput && n.Op() != ir.OpConv && n.Op() != ir.OpAdd {
			t.Errorf("%s of the input is left:\n%s", n.Op(), f.Graph)
		}
	}
	// The convolution gives 36. The results are (36-6)/2*2+1 and (36-36)*4, up to epsilon.
	out := run(t, f, map[string]*ir.Data{"x": f32(t, countUp(9), 1, 1, 3, 3)})
	if err := onnx.Compare(out["y"], f32(t, []float64{31, 0}, 1, 2, 1, 1), 1e-5, 1e-5); err != nil {
		t.Error(err)
	}
}

// TestSequences counts 1, 2 and 1,3 in [1 2 3 1 3] with a skip of up to one element, and weights the counts.
func TestSequences(t *testing.T) {
	for mode, want := range map[string][]float64{"TF": {1, 2, 2}, "IDF": {10, 1, 0.5}, "TFIDF": {10, 2, 1}} {
		m := model(9, graph(inputs(port("x", int64s, 5)),
			nodes(node("TfIdfVectorizer", names("x"), names("y"), textAttr("mode", mode), intAttr("min_gram_length", 1),
				intAttr("max_gram_length", 2), intAttr("max_skip_count", 1), intsAttr("ngram_counts", 0, 2),
				intsAttr("ngram_indexes", 1, 0, 2), intsAttr("pool_int64s", 1, 2, 1, 3),
				floatsAttr("weights", 10, 1, 0.5))), outputs("y")))
		x, err := ir.FromInts(ir.I64, []int64{1, 2, 3, 1, 3}, 5)
		if err != nil {
			t.Fatal(err)
		}
		is(t, run(t, built(t, m, onnx.Options{}), map[string]*ir.Data{"x": x})["y"], f32(t, want, 3))
	}
}

// TestExternalData reads a weight from a file next to the model, and from nowhere else.
func TestExternalData(t *testing.T) {
	outer := t.TempDir()
	dir := filepath.Join(outer, "model")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	content := make([]byte, 4+20*4)
	content[4+2], content[4+3] = 0x80, 0x3f // the first number is 1
	for _, path := range []string{filepath.Join(dir, "w.bin"), filepath.Join(outer, "secret")} {
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../secret", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	open := func(location, offset string) (*onnx.File, error) {
		pair := func(key, value string) msg { return msg{}.text(1, key).text(2, value) }
		w := tensorOf("w", float, []int64{20}).bytes(13, pair("location", location)).
			bytes(13, pair("offset", offset)).int(14, 1)
		path := filepath.Join(dir, "m.onnx")
		m := model(13, graph(inputs(port("x", float, 20)), weights(w), nodes(node("Add", names("x", "w"), names("y"))),
			outputs("y")))
		if err := os.WriteFile(path, m, 0o644); err != nil {
			t.Fatal(err)
		}
		return onnx.Open(path, onnx.Options{})
	}
	f, err := open("w.bin", "4")
	if err != nil {
		t.Fatal(err)
	}
	want := make([]float64, 20)
	want[0] = 1
	is(t, run(t, f, map[string]*ir.Data{"x": f32(t, make([]float64, 20), 20)})["y"], f32(t, want, 20))
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	for _, c := range []struct{ location, offset, want string }{
		{"../secret", "4", "must be in the model's folder"},
		{filepath.Join(outer, "secret"), "4", "must be in the model's folder"},
		{"link", "4", "link out of the model's folder"}, {"none.bin", "4", "no such file"},
		{"w.bin", "5", "past its end"}, {"w.bin", "-1", "want a number of bytes"},
		{"w.bin", "99999999999999999999", "want a number of bytes"},
	} {
		if _, err := open(c.location, c.offset); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s at %s: error %v, want %q", c.location, c.offset, err, c.want)
		}
	}
}

// TestHostileModels gives models that are wrong in one way each, and wants an error that says which.
func TestHostileModels(t *testing.T) {
	relu := nodes(node("Relu", names("x"), names("y")))
	x := inputs(port("x", float, 2))
	deep := graph(relu, outputs("y"))
	for range 40 {
		deep = graph(nodes(node("If", names("c"), names("y"), graphAttr("then_branch", deep))), outputs("y"))
	}
	forever := msg{}.text(1, "F").text(4, "a").text(5, "b").text(10, "own").
		bytes(7, node("F", names("a"), names("b")).text(7, "own"))
	loops := node("Loop", names("n", "", "x"), names("y"), graphAttr("body", graph(
		inputs(port("i", int64s), port("c", boolean), port("v", float)),
		nodes(node("Relu", names("v"), names("w"))), outputs("c", "w"))))
	for name, c := range map[string]struct {
		content []byte
		want    string
	}{
		"empty":                {nil, "no graph"},
		"text":                 {[]byte("hello, world, this is no model"), "at byte"},
		"cut short":            {model(13, graph(x, relu, outputs("y")))[:40], "at byte"},
		"graphs in graphs":     {model(13, deep), "more than 16 deep"},
		"a function of itself": {model(13, graph(x, nodes(node("F", names("x"), names("y")).text(7, "own")), outputs("y")), forever), "deep"},
		"no such value":        {model(13, graph(x, nodes(node("Relu", names("z"), names("y"))), outputs("y"))), `"z" is neither`},
		"no output":            {model(13, graph(x, relu, outputs("z"))), "no node makes it"},
		"a huge tensor":        {model(13, graph(x, weights(tensorOf("w", float, []int64{1 << 40, 1 << 40})), relu, outputs("y"))), `"w"`},
		"a tensor cut short":   {model(13, graph(x, weights(floats("w", []float32{1}, 3)), relu, outputs("y"))), "needs 12 bytes"},
		"a negative extent":    {model(13, graph(x, weights(floats("w", nil, -1)), relu, outputs("y"))), "negative"},
		"a huge constant": {model(13, graph(weights(ints("s", []int64{1 << 40, 1 << 20}, 2)),
			nodes(node("ConstantOfShape", names("s"), names("y"))), outputs("y"))), "elements"},
		"an unpool of nothing": {model(11, graph(inputs(port("x", float, 2), port("i", int64s, 2)),
			nodes(node("MaxUnpool", names("x", "i"), names("y"))), outputs("y"))), "kernel_shape"},
		"a scan without its input": {model(11, graph(inputs(port("x", float, 2)), nodes(node("Scan", names("x", ""),
			names("y"), intAttr("num_scan_inputs", 1), graphAttr("body", graph(inputs(port("a", float),
				port("b", float)), nodes(node("Add", names("a", "b"), names("c"))), outputs("c"))))), outputs("y"))),
			"input 1 is missing"},
		"many loops": {model(13, graph(x, weights(ints("n", []int64{1 << 40})), nodes(loops), outputs("y"))), "more than 65536 nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := onnx.NewReader(c.content, onnx.Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// FuzzModel builds whatever it is given: an error or a graph, in bounded time and memory.
func FuzzModel(f *testing.F) {
	body := graph(inputs(port("i", int64s), port("c", boolean), port("v", float, 2)),
		nodes(node("Relu", names("v"), names("w"))), outputs("c", "w"))
	f.Add(model(13, graph(inputs(port("x", float, "N", 2)),
		weights(ints("n", []int64{2}), floats("k", []float32{1, 2}, 2)),
		nodes(node("Shape", names("x"), names("s")), node("Reshape", names("x", "s"), names("r")),
			node("Loop", names("n", "", "k"), names("l"), graphAttr("body", body)),
			node("Transpose", names("r"), names("t"), intsAttr("perm", 1, 0)),
			node("MatMul", names("r", "t"), names("y"))),
		outputs("y", "l"))))
	f.Add(model(6, graph(inputs(port("x", float, 2, "C", 3)), nodes(
		node("Add", names("x", "x"), names("a"), intAttr("broadcast", 1), intAttr("axis", 1)),
		node("Slice", names("a"), names("b"), intsAttr("starts", 0), intsAttr("ends", 1), intsAttr("axes", 2)),
		node("Softmax", names("b"), names("c")), node("Pad", names("c"), names("d"), intsAttr("pads", 0, 1, 0, 0)),
		node("Clip", names("d"), names("y"), floatAttr("max", 1))), outputs("y"))))
	f.Add(model(26, graph(inputs(port("x", float, 2)), nodes(node("BitCast", names("x"), names("y"), intAttr("to", 6))),
		outputs("y"))))
	f.Fuzz(func(t *testing.T, content []byte) {
		m, err := onnx.NewReader(content, onnx.Options{})
		if err == nil && m.Graph.Verify() != nil {
			t.Errorf("a graph that is not right: %v", m.Graph.Verify())
		}
	})
}

// TestTwoSymbols reshapes [B,T,4] to [B*T,4] and back, as exporters write it for a model with batch and sequence axes:
// by a product of extents, by -1, and by Flatten.
func TestTwoSymbols(t *testing.T) {
	m := model(13, graph(
		inputs(port("x", float, "batch", "sequence", 4)),
		weights(ints("zero", []int64{0}), ints("one", []int64{1}), ints("axis", []int64{0}, 1),
			ints("four", []int64{4}, 1), ints("rows", []int64{-1, 4}, 2), ints("rest", []int64{-1}, 1)),
		nodes(
			node("Shape", names("x"), names("s")),
			node("Gather", names("s", "zero"), names("b")),
			node("Gather", names("s", "one"), names("t")),
			node("Mul", names("b", "t"), names("bt")),
			node("Unsqueeze", names("bt", "axis"), names("btv")),
			node("Unsqueeze", names("b", "axis"), names("bv")),
			node("Concat", names("btv", "four"), names("to"), intAttr("axis", 0)),
			node("Reshape", names("x", "to"), names("flat")),
			node("Reshape", names("x", "rows"), names("flat2")),
			node("Add", names("flat", "flat2"), names("twice")),
			node("Concat", names("bv", "rest", "four"), names("back"), intAttr("axis", 0)),
			node("Reshape", names("twice", "back"), names("y")),
			node("Flatten", names("x"), names("f"), intAttr("axis", 2)),
			node("Div", names("bt", "t"), names("b2")),
			node("Unsqueeze", names("b2", "axis"), names("b2v")),
			node("Concat", names("b2v", "rest"), names("wide"), intAttr("axis", 0)),
			node("Reshape", names("f", "wide"), names("z")),
		),
		outputs("y", "f", "z")))
	f := built(t, m, onnx.Options{Bounds: map[string]int{"batch": 8, "sequence": 16}})
	want := map[string]string{"y": "f32[batch,sequence,4]", "f": "f32[batch*sequence,4]", "z": "f32[batch,4*sequence]"}
	for _, o := range f.Graph.Outputs() {
		if got := o.Node.Type().String(); got != want[o.Name] {
			t.Errorf("output %s is %s, want %s", o.Name, got, want[o.Name])
		}
	}
	x := f32(t, countUp(24), 2, 3, 4)
	twice := make([]float64, 24)
	for i := range twice {
		twice[i] = 2 * float64(i)
	}
	out := run(t, f, map[string]*ir.Data{"x": x})
	is(t, out["y"], f32(t, twice, 2, 3, 4))
	is(t, out["f"], f32(t, countUp(24), 6, 4))
	is(t, out["z"], f32(t, countUp(24), 2, 12))
}

// TestExtentsThatFollow: extents with names such as "past + sequence", as written by exporters, are computed from the
// names in them. Names that give the same symbol stay different.
func TestExtentsThatFollow(t *testing.T) {
	sums := func(mask string) []byte {
		return model(13, graph(
			inputs(port("past", float, "P"), port("x", float, "S"), port("mask", float, mask),
				port("u", float, "past.len"), port("v", float, "past_len")),
			nodes(
				node("Concat", names("past", "x"), names("keys"), intAttr("axis", 0)),
				node("Mul", names("keys", "mask"), names("y")),
				node("Neg", names("u"), names("w")),
			),
			outputs("y", "w")))
	}
	o := onnx.Options{Bounds: map[string]int{"P": 8, "S": 4}}
	f := built(t, sums("P + S"), o)
	if got := f.Graph.Outputs()[0].Node.Type().String(); got != "f32[P+S]" {
		t.Errorf("y is %s, want f32[P+S]", got)
	}
	if got, want := f.Model.Extents(), []string{"P", "S", "past_len_2", "past_len"}; !slices.Equal(got, want) {
		t.Errorf("extents %q, want %q", got, want)
	}
	if got := f.Graph.Symbols(); !slices.Equal(got, []string{"P", "S", "past_len", "past_len_2"}) {
		t.Errorf("symbols %q: past.len and past_len must not be one", got)
	}
	if _, err := onnx.NewReader(sums("P + S"), onnx.Options{Bounds: map[string]int{"P + S": 9}}); err == nil {
		t.Error("a bound for what follows from others is taken")
	}
	o.Dims = map[string]ir.Dim{"P": ir.D(3)}
	f = built(t, sums("P + S"), o)
	if got := f.Graph.Outputs()[0].Node.Type().String(); got != "f32[S+3]" {
		t.Errorf("y is %s, want f32[S+3]", got)
	}
	for _, other := range []string{"P + R", "total", "P - S"} { // of R nothing is known
		var e *onnx.UnsupportedError
		if _, err := onnx.NewReader(sums(other), onnx.Options{}); !errors.As(err, &e) {
			t.Errorf("a mask of %q: %v, want an error that its extent is another", other, err)
		}
	}
	total := map[string]ir.Dim{}
	var err error
	if total["total"], err = ir.ParseDim("P+S", map[string]int64{"P": 8, "S": 4}); err != nil {
		t.Fatal(err)
	}
	built(t, sums("total"), onnx.Options{Bounds: map[string]int{"P": 8, "S": 4}, Dims: total})
}

// refused returns the error of a run of a model with input x.
func refused(t *testing.T, f *onnx.File, x *ir.Data) error {
	t.Helper()
	p, err := interp.New(f.Graph, interp.Options{Weights: f})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Run(context.Background(), map[string]*ir.Data{"x": x}, nil)
	return err
}

// TestLeastExtents slices an axis T such that the result depends on whether T is large enough. The graph is for large
// T, and smaller values are rejected.
func TestLeastExtents(t *testing.T) {
	const end = 1<<31 - 1
	for _, tt := range []struct {
		from, to int64
		want     string // of y
		first    func(n int) int
	}{
		{0, 1, "f32[1]", func(int) int { return 0 }},
		{2, 5, "f32[3]", func(int) int { return 2 }},
		{-1, end, "f32[1]", func(n int) int { return n - 1 }},
		{-3, -1, "f32[2]", func(n int) int { return n - 3 }},
		{0, 20, "f32[T]", func(int) int { return 0 }},  // limited by T
		{2, end, "f32[T]", func(int) int { return 2 }}, // of a T+2
	} {
		m := model(13, graph(inputs(port("x", float, "T")),
			weights(ints("from", []int64{tt.from}, 1), ints("to", []int64{tt.to}, 1)),
			nodes(node("Slice", names("x", "from", "to"), names("y"))), outputs("y")))
		f := built(t, m, onnx.Options{Bounds: map[string]int{"T": 20}})
		if got := f.Graph.Outputs()[0].Node.Type().String(); got != tt.want {
			t.Errorf("[%d:%d] is %s, want %s", tt.from, tt.to, got, tt.want)
		}
		for _, n := range []int{5, 9, 20} {
			y := run(t, f, map[string]*ir.Data{"x": f32(t, countUp(n), n)})["y"]
			first := tt.first(n)
			is(t, y, f32(t, countUp(n)[first:first+y.Dims[0]], y.Dims[0]))
		}
		if err := refused(t, f, f32(t, nil, 0)); (err == nil) != (tt.to == 20) {
			t.Errorf("[%d:%d] of nothing: %v", tt.from, tt.to, err)
		}
	}
}

// TestQuotientsOfExtents computes (T/4-3)/2. T must be at least 12, because ONNX would round negative quotients up.
func TestQuotientsOfExtents(t *testing.T) {
	m := model(13, graph(inputs(port("x", float, "T")),
		weights(ints("one", []int64{1}), ints("two", []int64{2}), ints("three", []int64{3}), ints("four", []int64{4}),
			ints("zero", []int64{0})),
		nodes(node("Shape", names("x"), names("s")), node("Squeeze", names("s"), names("n")),
			node("Div", names("n", "four"), names("quarter")), node("Sub", names("quarter", "three"), names("less")),
			node("Div", names("less", "two"), names("to")), node("Range", names("zero", "to", "one"), names("y"))),
		outputs("y")))
	f := built(t, m, onnx.Options{Bounds: map[string]int{"T": 40}})
	for _, n := range []int{12, 19, 20, 27, 28, 40} {
		to := (n/4 - 3) / 2
		y := run(t, f, map[string]*ir.Data{"x": f32(t, countUp(n), n)})["y"]
		if got, err := y.Ints(); err != nil || len(got) != to || to > 0 && got[to-1] != int64(to-1) {
			t.Errorf("of %d elements it counts %v, %v, want up to %d", n, got, err, to)
		}
	}
	if err := refused(t, f, f32(t, countUp(11), 11)); err == nil {
		t.Error("11 elements are enough, want an error: 11/4-3 is negative")
	}
}

// TestOverloads calls two functions of one name, which their overload tells apart, and one that is not there.
func TestOverloads(t *testing.T) {
	function := func(overload, op string) msg {
		return msg{}.text(1, "F").text(4, "a").text(5, "b").text(10, "own").bytes(7, node(op, names("a"), names("b"))).
			bytes(9, msg{}.int(2, 21)).text(13, overload)
	}
	content := func(overload string) []byte {
		n := of("own", node("F", names("x"), names("y"))).text(8, overload)
		return model(21, graph(inputs(port("x", float, 2)), nodes(n), outputs("y")), function("first", "Neg"),
			function("second", "Relu"))
	}
	for overload, want := range map[string][]float64{"first": {-1, 2}, "second": {1, 0}} {
		f := built(t, content(overload), onnx.Options{})
		is(t, run(t, f, map[string]*ir.Data{"x": f32(t, []float64{1, -2}, 2)})["y"], f32(t, want, 2))
	}
	if _, err := onnx.NewReader(content("third"), onnx.Options{}); err == nil || !strings.Contains(err.Error(), "own") {
		t.Errorf("a missing overload: error %v", err)
	}
}

// TestAgreeingExtents gives inputs without names of extents to ops that require equal ones. One symbol stands for all
// of them, and a run compares them.
func TestAgreeingExtents(t *testing.T) {
	m := model(14, graph(
		inputs(port("x", float, 1, "A", 2), port("h", float, 1, "B", 2), port("c", float, 1, "C", 2),
			port("past", float, 1, "D", 2), port("r", float, "E", 3)),
		weights(floats("w", make([]float32, 16), 1, 8, 2)),
		nodes(node("Concat", names("past", "past"), names("p"), intAttr("axis", 2)),
			node("Transpose", names("c"), names("t"), intsAttr("perm", 0, 2, 1)),
			node("MatMul", names("t", "r"), names("m")),
			node("Concat", names("past", "c", "x"), names("j"), intAttr("axis", 0)),
			node("LSTM", names("x", "w", "w", "", "", "h", "c"), names("l"), intAttr("hidden_size", 2))),
		outputs("p", "m", "j", "l")))
	f := built(t, m, onnx.Options{})
	if got := f.Graph.Symbols(); !slices.Equal(got, []string{"A"}) {
		t.Errorf("symbols %q, want A alone", got)
	}
	in := func(n int) map[string]*ir.Data {
		list := map[string]*ir.Data{"r": f32(t, countUp(9), 3, 3)}
		for _, name := range []string{"x", "h", "c", "past"} {
			list[name] = f32(t, countUp(6), 1, 3, 2)
		}
		list["past"] = f32(t, countUp(2*n), 1, n, 2)
		return list
	}
	is(t, run(t, f, in(3))["m"], f32(t, []float64{30, 36, 42, 39, 48, 57}, 1, 2, 3))
	p, err := interp.New(f.Graph, interp.Options{Weights: f})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Run(context.Background(), in(4), nil); err == nil {
		t.Error("extents that are not equal are no error")
	}
	f = built(t, m, onnx.Options{Bounds: map[string]int{"B": 2000}})
	if bound, _ := f.Graph.SymbolBound("A"); bound != 2000 {
		t.Errorf("A is at most %d, want the bound of B, 2000", bound)
	}
	f = built(t, m, onnx.Options{Dims: map[string]ir.Dim{"C": ir.D(3)}})
	if got := f.Graph.Symbols(); len(got) > 0 {
		t.Errorf("symbols %q of extents that equal 3", got)
	}
	if _, err := onnx.NewReader(m, onnx.Options{Dims: map[string]ir.Dim{"C": ir.D(3), "A": ir.D(4)}}); err == nil {
		t.Error("a batch of 4 with states for 3 is no error")
	}
}
