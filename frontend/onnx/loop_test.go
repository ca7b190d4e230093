package onnx_test

import (
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir"
)

// nodesOf counts the nodes of an op in a graph and the bodies in it, or all for ir.OpInvalid.
func nodesOf(g *ir.Graph, op ir.Op) (n int) {
	for _, node := range g.Nodes() {
		if node.Op() == op || op == 0 {
			n++
		}
		for _, body := range node.Bodies() {
			n += nodesOf(body, op)
		}
	}
	return n
}

// doubling is the body of a Loop that doubles a value, and shows each. The loop goes on while cond, made by more nodes,
// is true.
func doubling(cond string, more ...msg) msg {
	return graph(inputs(port("i", int64s), port("c", boolean), port("v", float, 1)),
		nodes(append([]msg{node("Add", names("v", "v"), names("w")), node("Identity", names("w"), names("seen"))},
			more...)...),
		outputs(cond, "w", "seen"))
}

func i64(t *testing.T, list ...int64) *ir.Data {
	t.Helper()
	var dims []int
	if len(list) != 1 {
		dims = []int{len(list)}
	}
	d, err := ir.FromInts(ir.I64, list, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestLoop has numbers of trips that are constants, symbols and inputs, and conditions. The body is built once in all.
func TestLoop(t *testing.T) {
	small := doubling("go", node("Less", names("w", "limit"), names("less")),
		node("Reshape", names("less", "scalar"), names("go")))
	x := port("x", float, 1)
	of := func(body msg, in []msg, weight []msg, before ...msg) []byte {
		last := node("Loop", names("n", "", "x"), names("last", "all"), graphAttr("body", body))
		list := append(append(before, last), node("Add", names("last", "last"), names("after")))
		return model(13, graph(inputs(append(in, x)...), weights(append(weight,
			floats("limit", []float32{20}, 1), ints("scalar", nil, 0), ints("zero", []int64{0}))...),
			nodes(list...), outputs("last", "all", "after")))
	}
	shape := []msg{node("Shape", names("y"), names("s")), node("Gather", names("s", "zero"), names("n"))}
	one := f32(t, []float64{1}, 1)
	for name, c := range map[string]struct {
		content []byte
		in      map[string]*ir.Data
		want    []float64
		loops   int
	}{
		"constant": {of(doubling("c"), nil, []msg{ints("n", []int64{3})}), nil, []float64{2, 4, 8}, 1},
		"symbol": {of(doubling("c"), []msg{port("y", float, "N")}, nil, shape...),
			map[string]*ir.Data{"y": f32(t, countUp(4), 4)}, []float64{2, 4, 8, 16}, 1},
		"input": {of(doubling("c"), []msg{port("n", int64s)}, nil), map[string]*ir.Data{"n": i64(t, 2)},
			[]float64{2, 4}, 1},
		"condition":           {of(small, nil, []msg{ints("n", []int64{9})}), nil, []float64{2, 4, 8, 16, 32}, 1},
		"condition and limit": {of(small, nil, []msg{ints("n", []int64{2})}), nil, []float64{2, 4}, 1},
		"condition alone":     {of(small, nil, []msg{ints("n", []int64{1<<63 - 1})}), nil, []float64{2, 4, 8, 16, 32}, 1},
		"never": {of(doubling("c"), []msg{port("n", int64s)}, nil), map[string]*ir.Data{"n": i64(t, -3)},
			[]float64{}, 1},
		"a symbol of 0": {of(doubling("c"), []msg{port("y", float, "N")}, nil, shape...),
			map[string]*ir.Data{"y": f32(t, nil, 0)}, []float64{}, 1},
		"another shape each time": {of(graph(inputs(port("i", int64s), port("c", boolean), port("v", float, 1)),
			nodes(node("Concat", names("v", "v"), names("w"), intAttr("axis", 0)),
				node("ReduceSum", names("w"), names("seen"))), outputs("c", "w", "seen")), nil,
			[]msg{ints("n", []int64{2})}), nil, []float64{2, 4}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := built(t, c.content, onnx.Options{Bounds: map[string]int{"the Loop": 6}})
			if n := nodesOf(f.Graph, ir.OpLoop); n != c.loops {
				t.Errorf("%d loops, want %d:\n%s", n, c.loops, f.Graph)
			}
			in := map[string]*ir.Data{"x": one}
			for name, d := range c.in {
				in[name] = d
			}
			out := run(t, f, in)
			if err := f.Graph.OutputInfo().Trim(out); err != nil {
				t.Fatal(err)
			}
			last := 1.0
			if len(c.want) > 0 {
				last = c.want[len(c.want)-1]
			}
			if c.loops > 0 {
				is(t, out["last"], f32(t, []float64{last}, 1))
				is(t, out["after"], f32(t, []float64{2 * last}, 1))
				is(t, out["all"], f32(t, c.want, len(c.want), 1))
			} else {
				is(t, out["last"], f32(t, []float64{1, 1, 1, 1}, 4))
				is(t, out["all"], f32(t, c.want, 2, 1))
			}
		})
	}
}

// TestLoopPastItsBound runs a loop with more trips than its bound. This is an error, because the results would be
// wrong. A loop without a bound does not build.
func TestLoopPastItsBound(t *testing.T) {
	m := model(13, graph(inputs(port("n", int64s), port("x", float, 1)),
		nodes(node("Loop", names("n", "", "x"), names("last", "all"), graphAttr("body", doubling("c")))),
		outputs("last", "all")))
	f := built(t, m, onnx.Options{Bounds: map[string]int{"the Loop": 4}})
	for n, want := range map[int64]string{4: "", 5: "had not ended at its bound"} {
		out := run(t, f, map[string]*ir.Data{"x": f32(t, []float64{1}, 1), "n": i64(t, n)})
		switch err := f.Graph.OutputInfo().Trim(out); {
		case want == "" && err != nil:
			t.Errorf("%d trips: %v", n, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%d trips: error %v, want %q", n, err, want)
		}
	}
	if _, err := onnx.NewReader(m, onnx.Options{}); err == nil || !strings.Contains(err.Error(), "give an upper "+
		"bound") {
		t.Errorf("error %v", err)
	}
}

// TestScan sums rows and outputs the partial sums: over an axis, from its end, and over a symbol. Scans of one step and
// of many steps have the same graph except for the extent.
func TestScan(t *testing.T) {
	body := graph(inputs(port("sum", float, 2), port("row", float, 2)), weights(floats("one", []float32{1}, 1)),
		nodes(node("Add", names("sum", "row"), names("next")), node("Mul", names("next", "one"), names("seen"))),
		outputs("next", "seen"))
	scan := func(x msg, attributes ...msg) []byte {
		attributes = append(attributes, intAttr("num_scan_inputs", 1), graphAttr("body", body))
		return model(11, graph(inputs(x), weights(floats("first", []float32{10, 20}, 2)),
			nodes(node("Scan", names("first", "x"), names("last", "all"), attributes...)), outputs("last", "all")))
	}
	rows, columns := f32(t, countUp(6), 3, 2), f32(t, []float64{0, 2, 4, 1, 3, 5}, 2, 3)
	last := f32(t, []float64{16, 29}, 2)
	for name, c := range map[string]struct {
		content []byte
		x       *ir.Data
		all     *ir.Data
	}{
		"rows":   {scan(port("x", float, 3, 2)), rows, f32(t, []float64{10, 21, 12, 24, 16, 29}, 3, 2)},
		"symbol": {scan(port("x", float, "N", 2)), rows, f32(t, []float64{10, 21, 12, 24, 16, 29}, 3, 2)},
		"columns": {scan(port("x", float, 2, 3), intsAttr("scan_input_axes", 1), intsAttr("scan_output_axes", 1)),
			columns, f32(t, []float64{10, 12, 16, 21, 24, 29}, 2, 3)},
		"back": {scan(port("x", float, "N", 2), intsAttr("scan_input_directions", 1)), rows,
			f32(t, []float64{14, 25, 16, 28, 16, 29}, 3, 2)},
		"back and shown from the end": {scan(port("x", float, 3, 2), intsAttr("scan_input_directions", 1),
			intsAttr("scan_output_directions", 1)), rows, f32(t, []float64{16, 29, 16, 28, 14, 25}, 3, 2)},
	} {
		t.Run(name, func(t *testing.T) {
			f := built(t, c.content, onnx.Options{})
			if nodesOf(f.Graph, ir.OpLoop) != 1 {
				t.Errorf("no loop:\n%s", f.Graph)
			}
			out := run(t, f, map[string]*ir.Data{"x": c.x})
			is(t, out["last"], last)
			is(t, out["all"], c.all)
		})
	}
	single := built(t, scan(port("x", float, 1, 2)), onnx.Options{}).Graph
	many := built(t, scan(port("x", float, 1000, 2)), onnx.Options{}).Graph
	if a, b := nodesOf(single, 0), nodesOf(many, 0); a != b {
		t.Errorf("%d nodes for one step, %d for 1000", a, b)
	}
}

// TestScanOfSequences is Scan of opset 8: sequences of a batch, of lengths of their own.
func TestScanOfSequences(t *testing.T) {
	body := graph(inputs(port("sum", float, 1), port("x", float, 1)),
		nodes(node("Add", names("sum", "x"), names("next")), node("Identity", names("next"), names("seen"))),
		outputs("next", "seen"))
	build := func(lengths string) *onnx.File {
		return built(t, model(8, graph(inputs(port("lengths", int64s, "B"), port("first", float, "B", 1),
			port("x", float, "B", 3, 1)),
			nodes(node("Scan", names(lengths, "first", "x"), names("last", "all"), intAttr("num_scan_inputs", 1),
				graphAttr("body", body))), outputs("last", "all"))), onnx.Options{})
	}
	in := map[string]*ir.Data{"lengths": i64(t, 3, 1), "first": f32(t, []float64{10, 20}, 2, 1),
		"x": f32(t, []float64{1, 2, 3, 4, 5, 6}, 2, 3, 1)}
	out := run(t, build(""), in)
	is(t, out["last"], f32(t, []float64{16, 35}, 2, 1))
	is(t, out["all"], f32(t, []float64{11, 13, 16, 24, 29, 35}, 2, 3, 1))
	out = run(t, build("lengths"), in)
	is(t, out["last"], f32(t, []float64{16, 24}, 2, 1))
	is(t, out["all"], f32(t, []float64{11, 13, 16, 24, 0, 0}, 2, 3, 1))
}

// TestBodiesSeeTheirSurroundings has an If in a Loop. Its branches use constants and results from outside, one of which
// is also used after the loop, and a large weight of their own. The graph contains the weight only once.
func TestBodiesSeeTheirSurroundings(t *testing.T) {
	big := make([]float32, 32)
	for i := range big {
		big[i] = 1
	}
	yes := graph(weights(floats("big", big, 32)), nodes(node("Add", names("v", "big"), names("p"))), outputs("p"))
	no := graph(nodes(node("Mul", names("v", "half"), names("q")), node("Add", names("q", "twice"), names("r"))),
		outputs("r"))
	body := graph(inputs(port("i", int64s), port("c", boolean), port("v", float, 32)),
		nodes(node("ReduceMax", names("v"), names("m"), intAttr("keepdims", 0)),
			node("Less", names("m", "three"), names("low")),
			node("If", names("low"), names("w"), graphAttr("then_branch", yes), graphAttr("else_branch", no))),
		outputs("c", "w"))
	m := model(13, graph(inputs(port("x", float, 32)),
		weights(ints("n", []int64{4}), floats("half", []float32{0.5}), floats("three", []float32{3})),
		nodes(node("Add", names("x", "x"), names("twice")),
			node("Loop", names("n", "", "x"), names("last"), graphAttr("body", body)),
			node("Mul", names("last", "half"), names("y"))),
		outputs("y")))
	f := built(t, m, onnx.Options{})
	if list := f.Names(); len(list) != 1 || nodesOf(f.Graph, ir.OpIf) != 1 {
		t.Errorf("weights %q:\n%s", list, f.Graph)
	}
	// x = 1: 2, 3, 1.5+2, 1.75+2
	x, want := make([]float64, 32), make([]float64, 32)
	for i := range x {
		x[i], want[i] = 1, 1.875
	}
	is(t, run(t, f, map[string]*ir.Data{"x": f32(t, x, 32)})["y"], f32(t, want, 32))
}
