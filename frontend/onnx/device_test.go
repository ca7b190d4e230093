package onnx_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
)

func TestMain(m *testing.M) { os.Exit(vktest.Main(m)) }

// together returns one model of many lists of nodes, which compute y from the same inputs and constants. Each list is a
// branch that is always taken, so that lists may use the same names. outputNames has the graph's output of each list.
// One program of many lists compiles faster than many programs.
func together(opset int64, ports, constants []part, lists map[string][]part) (content []byte,
	outputNames map[string]string) {
	constants = append(constants, weights(tensorOf("always", boolean, nil).bytes(9, []byte{1}))...)
	var branches, results []part
	outputNames = map[string]string{}
	for i, name := range slices.Sorted(maps.Keys(lists)) {
		y, branch := fmt.Sprint("y", i), graph(lists[name], outputs("y"))
		outputNames[name] = y
		branches = append(branches, nodes(node("If", names("always"), names(y), graphAttr("then_branch", branch),
			graphAttr("else_branch", branch)))...)
		results = append(results, outputs(y)...)
	}
	return model(opset, graph(ports, constants, branches, results)), outputNames
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
