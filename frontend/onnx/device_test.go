package onnx_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
)

// together returns one model of many lists of nodes, which compute y from the same values. Each list is a function, so
// that lists may use the same names. outputNames has the graph's output of each list. One program of many lists compiles
// faster than many programs.
func together(opset int64, given []string, ports, constants []part, lists map[string][]part) (content []byte,
	outputNames map[string]string) {
	var calls, results []part
	var functions []msg
	outputNames = map[string]string{}
	for i, name := range slices.Sorted(maps.Keys(lists)) {
		function, y := fmt.Sprint("F", i), fmt.Sprint("y", i)
		outputNames[name] = y
		f := msg{}.text(1, function).texts(4, given...).texts(5, "y").text(10, "own")
		for _, n := range lists[name] {
			f = f.bytes(7, n.content)
		}
		functions = append(functions, f.bytes(9, msg{}.int(2, opset)))
		calls = append(calls, nodes(of("own", node(function, given, names(y))))...)
		results = append(results, outputs(y)...)
	}
	return model(opset, graph(ports, constants, calls, results), functions...), outputNames
}

// runOnEach computes the outputs of a model on the CPU backend and on the best Vulkan device.
func runOnEach(t *testing.T, f *onnx.File, in map[string]*ir.Data, then func(t *testing.T, out map[string]*ir.Data)) {
	t.Helper()
	devtest.OnEach(t, func(t *testing.T, dev *vkc.Device) {
		exe, err := dev.LoadGraph(t.Context(), f.Graph, f)
		if err != nil {
			t.Fatal(err)
		}
		defer exe.Close()
		res, err := exe.Run(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Graph.OutputInfo().Trim(res.Outputs); err != nil {
			t.Fatal(err)
		}
		then(t, res.Outputs)
	})
}
