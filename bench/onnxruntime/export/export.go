// Export checks what package export writes with onnxruntime: it runs the cases of vkc's ops, written as ONNX, and
// prints a row for each op.
//
//	npm install --ignore-scripts --prefix .tools/onnxruntime onnxruntime-node@1.30.0
//	cd bench/onnxruntime
//	go run ./export
//	go run ./export -filter '^(rope|attention)/'
//
// onnxruntime lacks kernels for some dtypes that ONNX allows. These cases count as refused.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/vkc-go/vkc/bench/onnxruntime/peer"
	"github.com/vkc-go/vkc/frontend/onnx/export"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/optest"
	"github.com/vkc-go/vkc/runtime"
)

var (
	folder  = flag.String("peer", "../../.tools/onnxruntime", "the `FOLDER` with node_modules/onnxruntime-node")
	filter  = flag.String("filter", "", "only cases with names that match this `RE`")
	smoke   = flag.Bool("smoke", false, "only a few cases of each op")
	verbose = flag.Bool("v", false, "print the reasons of refusals")
)

func main() {
	flag.Parse()
	if err := peer.With(*folder, check); err != nil {
		log.Fatal(err)
	}
}

// check exports the cases of all ops to ONNX, compares onnxruntime's results with the reference, and prints a row for
// each op.
func check(ort *peer.Peer, scratch string) error {
	re, err := regexp.Compile(*filter)
	if err != nil {
		return err
	}
	load := func(_ context.Context, g *ir.Graph, w ir.WeightSource) (runtime.Executable, error) {
		path := filepath.Join(scratch, "model.onnx")
		if err := export.WriteFile(path, g, w, export.Options{}); err != nil {
			return nil, err
		}
		return newModel(ort, path, scratch, g)
	}
	report, err := optest.Run(context.Background(), load, optest.Options{Filter: re, Smoke: *smoke, Refused: isRefused})
	if err != nil {
		return err
	}
	fmt.Println("| op | cases | passed | refused | largest difference, of the tolerance |")
	fmt.Println("|---|---:|---:|---:|---:|")
	for _, s := range report.Summaries() {
		fmt.Printf("| %s | %d | %d | %d | %.2g |\n", s.Op, s.Cases, s.Passed, s.Refused, float64(s.Worst))
		if *verbose {
			for _, r := range s.Reasons {
				fmt.Fprintf(os.Stderr, "%s: %s\n", s.Op, r)
			}
		}
	}
	total := report.Total()
	fmt.Printf("\n%d cases: %d passed, %d refused, %d failed\n", total.Cases, total.Passed, total.Refused, total.Failed)
	for _, f := range report.Failures() {
		fmt.Fprintf(os.Stderr, "%s: %.300s\n", f.Case, f.Reason)
	}
	return nil
}

// isRefused reports whether vkc refused to write a graph, or onnxruntime has no kernel for it.
func isRefused(err error) bool {
	return optest.Refused(err) || strings.Contains(err.Error(), "NOT_IMPLEMENTED") ||
		strings.Contains(err.Error(), "Could not find an implementation") || errors.Is(err, errNoType)
}

var errNoType = errors.New("onnxruntime-node has no tensors of this dtype")

// model is an ONNX file that onnxruntime runs. It implements what package optest uses of an executable.
type model struct {
	runtime.Executable
	ort           *peer.Peer
	path, scratch string
	graph         *ir.Graph
	states        map[string]*ir.Data
}

func newModel(ort *peer.Peer, path, scratch string, g *ir.Graph) (*model, error) {
	m := &model{ort: ort, path: path, scratch: scratch, graph: g, states: map[string]*ir.Data{}}
	for _, o := range g.Outputs() {
		if peer.Types[o.Node.DType()] == "" {
			return nil, fmt.Errorf("%w: %s", errNoType, o.Node.DType())
		}
	}
	for _, n := range g.Leaves(ir.OpInput) {
		if peer.Types[n.DType()] == "" {
			return nil, fmt.Errorf("%w: %s", errNoType, n.DType())
		}
	}
	for _, n := range g.Leaves(ir.OpState) {
		dims, err := n.Shape().Eval(nil)
		if err != nil {
			return nil, err
		}
		if m.states["past."+n.Name()], err = ir.NewData(n.DType(), dims...); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Close implements runtime.Executable.
func (m *model) Close() error { return nil }

// Run runs the model once in onnxruntime. States of the graph are inputs "past.NAME" and outputs "present.NAME" of the
// model, which Run carries over to the next run.
func (m *model) Run(_ context.Context, in map[string]*ir.Data, _ ...runtime.RunOptions) (*runtime.Result, error) {
	given := map[string]*ir.Data{}
	for _, n := range m.graph.Leaves(ir.OpInput) {
		given[n.Name()] = in[n.Name()]
	}
	for name, d := range m.states {
		given[name] = d
	}
	files, err := peer.Write(given, m.scratch)
	if err != nil {
		return nil, err
	}
	answer, err := m.ort.Ask(peer.Request{Load: m.path, Threads: 1, Folder: m.scratch, Inputs: files, Plain: true})
	if err != nil {
		return nil, err
	}
	types := map[string]ir.DType{}
	for t, name := range peer.Types {
		types[name] = t
	}
	out := map[string]*ir.Data{}
	for _, o := range answer.Outputs {
		content, err := os.ReadFile(o.File)
		if err != nil {
			return nil, err
		}
		d := &ir.Data{DType: types[o.Type], Dims: o.Dims, Bytes: content}
		if state, ok := strings.CutPrefix(o.Name, "present."); ok {
			m.states["past."+state] = d
		} else {
			out[o.Name] = d
		}
	}
	return &runtime.Result{Outputs: out}, nil
}
