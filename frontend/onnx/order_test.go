package onnx_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir"
)

// unordered returns models with nodes in reverse topological order, in each place that contains nodes. Each model
// computes y = (2*x)^2 for x, f32[2].
func unordered() map[string][]byte {
	square := func(in, out string) []msg {
		return []msg{node("Mul", names(in+"2", in+"2"), names(out)), node("Add", names(in, in), names(in+"2"))}
	}
	in := inputs(port("x", float, 2))
	yes := weights(tensorOf("yes", boolean, nil).bytes(9, []byte{1}), ints("one", []int64{1}))
	body := graph(nodes(square("x", "z")...), outputs("z"))
	loopBody := graph(inputs(port("i", int64s), port("go", boolean), port("h", float, 2)),
		nodes(append(square("h", "z"), node("Identity", names("go"), names("on")))...), outputs("on", "z"))
	scanBody := graph(inputs(port("h", float, 2), port("row", float)),
		nodes(append(square("h", "z"), node("Identity", names("row"), names("same")))...), outputs("z", "same"))
	fn := msg{}.text(1, "Square").text(4, "a").text(5, "z").text(10, "own").bytes(9, msg{}.int(2, 13))
	for _, n := range square("a", "z") {
		fn = fn.bytes(7, n)
	}
	return map[string][]byte{
		"the main graph": model(13, graph(in, nodes(square("x", "y")...), outputs("y"))),
		"a branch": model(13, graph(in, yes, nodes(node("If", names("yes"), names("y"),
			graphAttr("then_branch", body), graphAttr("else_branch", body))), outputs("y"))),
		"a loop": model(13, graph(in, yes, nodes(node("Loop", names("one", "yes", "x"), names("y"),
			graphAttr("body", loopBody))), outputs("y"))),
		"a scan": model(13, graph(in, weights(floats("rows", []float32{7}, 1)),
			nodes(node("Scan", names("x", "rows"), names("y", "all"), intAttr("num_scan_inputs", 1),
				graphAttr("body", scanBody))), outputs("y"))),
		"a function": model(13, graph(in, nodes(node("Square", names("x"), names("y")).text(7, "own")), outputs("y")), fn),
		"a graph that reads a node after its own": model(13, graph(in, yes, nodes(
			node("If", names("yes"), names("y"),
				graphAttr("then_branch", graph(nodes(node("Mul", names("x2", "x2"), names("z"))), outputs("z"))),
				graphAttr("else_branch", graph(outputs("x2")))),
			node("Add", names("x", "x"), names("x2"))), outputs("y"))),
		"a graph that gives a node after its own": model(13, graph(in, yes, nodes(
			node("If", names("yes"), names("y"), graphAttr("then_branch", graph(outputs("z"))),
				graphAttr("else_branch", graph(outputs("x2")))),
			node("Mul", names("x2", "x2"), names("z")), node("Add", names("x", "x"), names("x2"))), outputs("y"))),
	}
}

func TestNodesAreOrdered(t *testing.T) {
	for name, content := range unordered() {
		t.Run(name, func(t *testing.T) {
			f := built(t, content, onnx.Options{})
			is(t, run(t, f, map[string]*ir.Data{"x": f32(t, []float64{1, 3}, 2)})["y"], f32(t, []float64{4, 36}, 2))
		})
	}
}

// TestOrderIsKept reads nodes that are already in one of several valid orders.
func TestOrderIsKept(t *testing.T) {
	f := built(t, model(13, graph(inputs(port("x", float, 2)), nodes(node("Abs", names("x"), names("a")),
		node("Neg", names("x"), names("b")), node("Exp", names("a"), names("c")), node("Add", names("b", "c"),
			names("y"))), outputs("y"))), onnx.Options{})
	var ops []string
	for _, n := range f.Model.Graph.Nodes {
		ops = append(ops, n.Op)
	}
	if want := names("Abs", "Neg", "Exp", "Add"); !slices.Equal(ops, want) {
		t.Errorf("nodes are %q, want %q", ops, want)
	}
}

// TestNoOrder names the nodes that no order can compute.
func TestNoOrder(t *testing.T) {
	circle := nodes(node("Relu", names("x"), names("r")), node("Add", names("x", "b"), names("a")),
		node("Neg", names("a"), names("n")), node("Mul", names("n", "r"), names("b")))
	in, yes := inputs(port("x", float, 2)), weights(tensorOf("yes", boolean, nil).bytes(9, []byte{1}))
	const want = "3 nodes read each other's results in a cycle, so no order can compute them: the Add (Add), " +
		"the Mul (Mul), the Neg (Neg), and again the Add (Add)"
	fn := msg{}.text(1, "F").text(4, "x").text(5, "a").text(10, "own").bytes(9, msg{}.int(2, 13))
	for _, p := range circle {
		fn = fn.bytes(7, p.content)
	}
	through := graph(nodes(node("Neg", names("late"), names("z"))), outputs("z"))
	for name, c := range map[string]struct {
		content []byte
		want    string
	}{
		"in the main graph": {model(13, graph(in, circle, outputs("a"))), want},
		"in a branch": {model(13, graph(in, yes, nodes(node("If", names("yes"), names("y"),
			graphAttr("then_branch", graph(circle, outputs("a"))),
			graphAttr("else_branch", graph(circle, outputs("a"))))), outputs("y"))), want},
		"in a function": {model(13, graph(in, nodes(node("F", names("x"), names("y")).text(7, "own")), outputs("y")),
			fn), `function "F": ` + want},
		"of one node": {model(13, graph(in, nodes(node("Add", names("x", "a"), names("a"))), outputs("a"))),
			"the Add (Add) reads its own result"},
		"through a branch": {model(13, graph(in, yes, nodes(node("If", names("yes"), names("y"),
			graphAttr("then_branch", through), graphAttr("else_branch", through)),
			node("Exp", names("y"), names("late"))), outputs("y"))),
			"the If (If), the Exp (Exp), and again the If (If)"},
		"of two that make the same": {model(13, graph(in, nodes(node("Abs", names("x"), names("y")),
			node("Neg", names("x"), names("y"))), outputs("y"))), "the Abs (Abs) and the Neg (Neg) both make y"},
	} {
		_, err := onnx.NewReader(c.content, onnx.Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}
