package onnx_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
)

var updateGolden = flag.Bool("update-golden", false, "rewrite testdata/cases")

// small are cases of our own, in the layout of ONNX's tests: the folder, and its files.
func small() map[string]map[string][]byte {
	set := func(model []byte, in []msg, out msg) map[string][]byte {
		files := map[string][]byte{"model.onnx": model, "test_data_set_0/output_0.pb": out}
		for i, m := range in {
			files["test_data_set_0/input_"+string(rune('0'+i))+".pb"] = m
		}
		return files
	}
	// A branch that fits the other rate only: which one is taken must be known when the graph is built.
	flat := func(n int64) msg {
		return graph(weights(ints("to", []int64{n}, 1)), nodes(node("Reshape", names("x", "to"), names("r"))),
			outputs("r"))
	}
	// A recurrent layer, h = tanh(x + h*r), as a scan over any number of rows.
	cell := graph(inputs(port("h", float, 1, 2), port("row", float, 1, 2)),
		weights(floats("r", []float32{0, 1, -1, 0}, 2, 2)),
		nodes(node("MatMul", names("h", "r"), names("m")), node("Add", names("m", "row"), names("s")),
			node("Tanh", names("s"), names("n")), node("Identity", names("n"), names("shown"))), outputs("n", "shown"))
	return map[string]map[string][]byte{
		"scan": set(model(13, graph(inputs(port("x", float, "N", 1, 2)), weights(floats("zero", []float32{0, 0}, 1, 2)),
			nodes(node("Scan", names("zero", "x"), names("last", "y"), intAttr("num_scan_inputs", 1),
				graphAttr("body", cell))), outputs("y"))),
			[]msg{floats("x", []float32{1, 0, 0, 0, 0, 0}, 3, 1, 2)},
			floats("y", []float32{0.7615942, 0, 0, 0.6420150, -0.5662700, 0}, 3, 1, 2)),
		// Doubles a small number; the number of trips is known only during a run.
		"loop": set(model(13, graph(inputs(port("x", float, 1)),
			weights(ints("n", []int64{8}), floats("limit", []float32{20}, 1), ints("scalar", nil, 0)),
			nodes(node("Loop", names("n", "", "x"), names("last", "y"), graphAttr("body", doubling("go",
				node("Less", names("w", "limit"), names("less")),
				node("Reshape", names("less", "scalar"), names("go")))))), outputs("y"))),
			[]msg{floats("x", []float32{3}, 1)}, floats("y", []float32{6, 12, 24}, 3, 1)),
		// A convolution and a matmul of dequantized bytes with quantized results.
		"bytes": set(model(13, graph(inputs(port("q", 2, "N", 1, 2, 3)),
			weights(floats("s", []float32{0.5}), bytesOf("z", 2, []byte{10}), floats("t", []float32{0.25, 2}, 2),
				bytesOf("k", 3, []byte{4, 0, 0, 0xff, 1, 1, 0, 0}, 2, 1, 2, 2),
				bytesOf("w", 3, []byte{1, 2, 0xfe, 3}, 2, 2),
				floats("ys", []float32{5}), bytesOf("yz", 3, []byte{5})),
			nodes(node("DequantizeLinear", names("q", "s", "z"), names("x")),
				node("DequantizeLinear", names("k", "t"), names("kx"), intAttr("axis", 0)),
				node("Conv", names("x", "kx"), names("c")), node("QuantizeLinear", names("c", "s", "z"), names("cq")),
				node("DequantizeLinear", names("cq", "s", "z"), names("cx")),
				node("DequantizeLinear", names("w", "t"), names("wx"), intAttr("axis", 1)),
				node("Reshape", names("cx", "to"), names("rows")), node("MatMul", names("rows", "wx"), names("m")),
				node("QuantizeLinear", names("m", "ys", "yz"), names("y"))),
			weights(ints("to", []int64{-1, 2}, 2)), outputs("y"))),
			[]msg{bytesOf("q", 2, []byte{12, 14, 8, 10, 11, 20}, 1, 1, 2, 3)},
			bytesOf("y", 3, []byte{5, 7, 5, 12}, 2, 2)),
		"linear": set(model(13, graph(inputs(port("x", float, "N", 2)),
			weights(floats("w", []float32{1, 2, 3, 4}, 2, 2), floats("b", []float32{-10, 1}, 2)),
			nodes(node("MatMul", names("x", "w"), names("m")), node("Add", names("m", "b"), names("s")),
				node("Relu", names("s"), names("y"))), outputs("y"))),
			[]msg{floats("x", []float32{1, 1, 2, 3, 0, 0}, 3, 2)}, floats("y", []float32{0, 7, 1, 17, 0, 1}, 3, 2)),
		"shape": set(model(13, graph(inputs(port("x", float, "N", 2), port("shape", int64s, 1)),
			nodes(node("Reshape", names("x", "shape"), names("y"))), outputs("y"))),
			[]msg{floats("x", []float32{1, 2, 3, 4}, 2, 2), ints("shape", []int64{4}, 1)},
			floats("y", []float32{1, 2, 3, 4}, 4)),
		"branch": set(model(13, graph(inputs(port("x", float, 1, 4), port("rate", int64s)),
			weights(ints("fast", []int64{16000})),
			nodes(node("Equal", names("rate", "fast"), names("c")), node("If", names("c"), names("y"),
				graphAttr("then_branch", flat(4)), graphAttr("else_branch", flat(5)))), outputs("y"))),
			[]msg{floats("x", []float32{1, 2, 3, 4}, 1, 4), ints("rate", []int64{16000})},
			floats("y", []float32{1, 2, 3, 4}, 4)),
		// What is not zero, and 1 more: how many that are is known only in a run.
		"found": set(model(13, graph(inputs(port("x", float, "N", 3)),
			weights(floats("one", []float32{1}, 1)),
			nodes(node("NonZero", names("x"), names("columns")), node("Transpose", names("columns"), names("rows")),
				node("GatherND", names("x", "rows"), names("v")), node("Add", names("v", "one"), names("y"))),
			outputs("y"))),
			[]msg{floats("x", []float32{0, 5, 0, 6, 0, 7}, 2, 3)}, floats("y", []float32{6, 7, 8}, 3)),
		// An extent with a name that is not a valid symbol, and a weight that is a node.
		"dotted": set(model(13, graph(inputs(port("x", float, "p2o.DynamicDimension.0", 2)),
			nodes(node("Constant", nil, names("held"), msg{}.text(1, "value").bytes(5,
				floats("", []float32{10, 20}, 2)).int(20, attrTensor)),
				node("Add", names("x", "held"), names("y"))), outputs("y"))),
			[]msg{floats("x", []float32{1, 2, 3, 4}, 2, 2)}, floats("y", []float32{11, 22, 13, 24}, 2, 2)),
		// An unnamed extent, and a stride that does not divide a symbol.
		"stride": set(model(13, graph(inputs(port("x", float, 1, 1, nil)),
			weights(floats("w", []float32{1, 1, 1}, 1, 1, 3)),
			nodes(node("Conv", names("x", "w"), names("y"), intsAttr("strides", 2))), outputs("y"))),
			[]msg{floats("x", []float32{1, 2, 3, 4, 5, 6}, 1, 1, 6)}, floats("y", []float32{6, 12}, 1, 1, 2)),
	}
}

// TestSmallCases runs the models in testdata/cases. This package's test encoder writes them, and the tests of cmd/vkc
// read them too.
func TestSmallCases(t *testing.T) {
	const folder = "testdata/cases"
	for name, files := range small() {
		for file, content := range files {
			path := filepath.Join(folder, name, file)
			if *updateGolden {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, content, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, content) {
				t.Errorf("%s is not what the test writes (%v): go test ./frontend/onnx -run SmallCases -update-golden",
					path, err)
			}
		}
	}
	cases, err := onnx.Cases(folder)
	if err != nil || len(cases) != len(small()) {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, c := range cases {
		if err := runCase(c); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}
