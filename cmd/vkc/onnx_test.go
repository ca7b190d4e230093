package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/devtest"
)

// onnxCases are small models with their inputs and outputs.
const onnxCases = "../../frontend/onnx/testdata/cases"

// TestVerifyONNX runs the cases, and once more with an output that is wrong and a list of exceptions.
func TestVerifyONNX(t *testing.T) {
	for _, device := range []string{"reference", "cpu"} {
		info := okJSON[onnxReport](t, "verify", "--onnx", onnxCases, "--device", device)
		if info.Cases < 5 || info.Passed != info.Cases || info.Failed != 0 {
			t.Errorf("on %s: %+v", device, info)
		}
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(onnxCases)); err != nil {
		t.Fatal(err)
	}
	wrong := filepath.Join(dir, "linear/test_data_set_0/output_0.pb")
	content, err := os.ReadFile(wrong)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)-1]++ // the exponent of the last number, 1
	if err := os.WriteFile(wrong, content, 0o644); err != nil {
		t.Fatal(err)
	}
	line := []string{"verify", "--onnx", dir, "--device", "reference"}
	fails(t, exitFailure, line, "1 of 9 cases failed")
	if r := run(t, line...); !strings.Contains(r.stdout, `linear: compare: output "y": element 5 is 1`) {
		t.Errorf("prints\n%s", r.stdout)
	}
	ok(t, append(line, "--atol", "4")...)
	ok(t, append(line, "--filter", "^shape$")...)
	list := filepath.Join(t.TempDir(), "except.txt")
	for text, want := range map[string]string{
		"linear it is wrong\n": "",
		"linear\n":             "want the name of a case and a reason, and each name only once",
		"# all\nlinear it is wrong\nshape it was so\n": "1 of 9 cases failed",
	} {
		if err := os.WriteFile(list, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if line := append(line, "--except", list); want == "" {
			ok(t, line...)
		} else {
			fails(t, exitFailure, line, want)
		}
	}
	fails(t, exitUsage, []string{"verify", "--ops", "--atol", "1"}, "--atol goes with --onnx")
	fails(t, exitFailure, []string{"verify", "--onnx", t.TempDir()}, "it contains no case: want folders with "+
		"model.onnx")
	fails(t, exitUsage, []string{"verify", "--onnx", onnxCases, "--filter", "^quux$"}, "matches no case", "like ")
}

// TestVerifyONNXShows follows links to folders, each folder once, and shows a failure before the next case runs: the
// second case is made right when the failure of the first is written.
func TestVerifyONNXShows(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"first", "second"} {
		dir := filepath.Join(root, "cases", name)
		if err := os.CopyFS(dir, os.DirFS(filepath.Join(onnxCases, "linear"))); err != nil {
			t.Fatal(err)
		}
	}
	output := func(name string) string { return filepath.Join(root, "cases", name, "test_data_set_0/output_0.pb") }
	right, err := os.ReadFile(output("second"))
	if err != nil {
		t.Fatal(err)
	}
	wrong := slices.Clone(right)
	wrong[len(wrong)-1]++
	for _, name := range []string{"first", "second"} {
		if err := os.WriteFile(output(name), wrong, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{"cases": "link", "../cases": "cases/around", "nothing": "cases/dangling"} {
		if err := os.Symlink(from, filepath.Join(root, to)); err != nil {
			t.Skipf("no links here: %v", err)
		}
	}
	var stdout, stderr strings.Builder
	mend := writer(func(p []byte) (int, error) {
		if err := os.WriteFile(output("second"), right, 0o644); err != nil {
			t.Error(err)
		}
		return stdout.Write(p)
	})
	line := []string{"verify", "--onnx", filepath.Join(root, "link"), "--device", "reference"}
	code := execute(t.Context(), line, mend, &stderr)
	const want = "first: compare: output \"y\": element 5 is 1"
	if code != exitFailure || !strings.HasPrefix(stdout.String(), want) ||
		!strings.Contains(stdout.String(), "2 cases: 1 passed, 0 excepted, 1 failed") {
		t.Errorf("exit code %d\n%s%s", code, &stdout, &stderr)
	}
}

// writer is an io.Writer of a function.
type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// TestONNXNames uses the names of extents as inspect shows them and as the file spells them, in every flag that takes
// one, of the model and of its bundle.
func TestONNXNames(t *testing.T) {
	needTools(t)
	devtest.OwnCache(t)
	model := filepath.Join(onnxCases, "dotted/model.onnx")
	r := ok(t, "inspect", model)
	for _, text := range []string{"extent p2o_DynamicDimension_0", "in the file p2o.DynamicDimension.0",
		"float[p2o_DynamicDimension_0,2]", "held"} {
		if !strings.Contains(r.stdout, text) {
			t.Errorf("inspect does not say %q:\n%s", text, r.stdout)
		}
	}
	bundle := filepath.Join(t.TempDir(), "dotted.vkb")
	ok(t, "compile", model, "--target", "generic", "-o", bundle)
	for _, name := range []string{"p2o_DynamicDimension_0", "p2o.DynamicDimension.0"} {
		for _, file := range []string{model, bundle} {
			r := ok(t, "run", file, "--device", "cpu", "--input", "x=random:1", "--symbol", name+"=3")
			if !strings.Contains(r.stdout, "f32[3 2]") {
				t.Errorf("%s with --symbol %s=3 prints\n%s", file, name, r.stdout)
			}
			line := []string{"run", file, "--device", "cpu", "--input", "x=random:1", "--symbol", name + "=600"}
			fails(t, exitUsage, line, "symbol p2o_DynamicDimension_0 = 600 is outside 0..512")
		}
		r := ok(t, "graph", model, "--dim", name+"=5")
		if !strings.Contains(r.stdout, `[5, 2]`) {
			t.Errorf("with --dim %s=5 it prints\n%s", name, r.stdout)
		}
		r = ok(t, "graph", model, "--bound", name+"=77")
		if !strings.Contains(r.stdout, `"p2o_DynamicDimension_0": 77`) {
			t.Errorf("with --bound %s=77 it prints\n%s", name, r.stdout)
		}
	}
	fails(t, exitUsage, []string{"run", model, "--device", "cpu", "--input", "x=random:1", "--symbol",
		"p2o.DynamicDimension.0=3", "--symbol", "p2o_DynamicDimension_0=3"}, "are the same symbol: give it once")
	fails(t, exitUsage, []string{"run", model, "--device", "cpu", "--input", "x=random:1", "--symbol", "q.r=3"},
		`there is no symbol "q.r"; the program has p2o_DynamicDimension_0`)
}

// TestONNXBundle runs the bundle of a model. Elements beyond the found ones are not printed.
func TestONNXBundle(t *testing.T) {
	needTools(t)
	devtest.OwnCache(t)
	bundle := filepath.Join(t.TempDir(), "found.vkb")
	ok(t, "compile", filepath.Join(onnxCases, "found/model.onnx"), "--target", "generic", "-o", bundle)
	r := ok(t, "run", bundle, "--device", "cpu", "--input", "x=[[0,5,0],[6,0,0]]")
	if !strings.Contains(r.stdout, "[6 7]") {
		t.Errorf("prints\n%s", r.stdout)
	}
}

// TestVerifyONNXDevice runs the cases on the device.
func TestVerifyONNXDevice(t *testing.T) {
	needDevice(t)
	devtest.OwnCache(t)
	if info := okJSON[onnxReport](t, "verify", "--onnx", onnxCases); info.Passed != info.Cases || info.Cases < 5 {
		t.Errorf("%+v", info)
	}
}

// TestONNXModel gives a model to the commands that take one.
func TestONNXModel(t *testing.T) {
	devtest.OwnCache(t)
	linear, shape := filepath.Join(onnxCases, "linear/model.onnx"), filepath.Join(onnxCases, "shape/model.onnx")
	r := ok(t, "run", linear, "--device", "cpu", "--input", "x=[[1,1],[2,3]]", "--check")
	if !strings.Contains(r.stdout, "f32[2 2]") || !strings.Contains(r.stdout, "[0 7 1 17]") {
		t.Errorf("prints\n%s", r.stdout)
	}
	if r := ok(t, "graph", linear, "--dim", "N=2*M", "--bound", "M=8"); !strings.Contains(r.stdout, `"M": 8`) ||
		!strings.Contains(r.stdout, `["2*M", 2]`) {
		t.Errorf("prints\n%s", r.stdout)
	}
	found, loop := filepath.Join(onnxCases, "found/model.onnx"), filepath.Join(onnxCases, "loop/model.onnx")
	r = ok(t, "run", found, "--device", "cpu", "--input", "x=[[0,5,0],[6,0,0]]")
	if !strings.Contains(r.stdout, "[6 7]") {
		t.Errorf("what is not found is printed:\n%s", r.stdout)
	}
	graph := filepath.Join(t.TempDir(), "found.json")
	ok(t, "graph", found, "-o", graph)
	r = ok(t, "run", graph, "--device", "cpu", "--input", "x=[[0,5,0],[6,0,0]]")
	if !strings.Contains(r.stdout, "[6 7]") {
		t.Errorf("what is not found is printed, of the graph:\n%s", r.stdout)
	}
	if r := ok(t, "run", loop, "--device", "cpu", "--input", "x=[5]"); !strings.Contains(r.stdout, "[10 20]") {
		t.Errorf("prints\n%s", r.stdout)
	}
	if r := ok(t, "inspect", linear); !strings.Contains(r.stdout, "op MatMul") ||
		!strings.Contains(r.stdout, "extent N") || strings.Contains(r.stdout, "cannot build") {
		t.Errorf("prints\n%s", r.stdout)
	}
	content, err := os.ReadFile(linear)
	if err != nil {
		t.Fatal(err)
	}
	unknown := filepath.Join(t.TempDir(), "unknown.onnx")
	if err := os.WriteFile(unknown, bytes.ReplaceAll(content, []byte("MatMul"), []byte("MatMud")), 0o666); err != nil {
		t.Fatal(err)
	}
	if r := ok(t, "inspect", unknown); !strings.Contains(r.stdout, "cannot build MatMud") {
		t.Errorf("prints\n%s", r.stdout)
	}
	fails(t, exitFailure, []string{"run", unknown}, "a node cannot be built: ", "(MatMud): vkc does not support this "+
		"op")
	fails(t, exitUsage, []string{"run", loop}, "inputs are missing: pass --input x=FILE.npy", "missing: x, ")
	fails(t, exitUsage, []string{"run", linear, "--input", "x=random:1"}, "pass --symbol N=N (at most 512)")
	folded := filepath.Join(t.TempDir(), "folded.vkir")
	if err := os.WriteFile(folded, []byte(`graph "g" { %a = const {data=f32[2](1, 2)} %i = iota {dtype=f32, axis=0, shape=[2]}
  %s = add %a, %i output "y" %s }`), 0o666); err != nil {
		t.Fatal(err)
	}
	if r := ok(t, "graph", folded, "--fold", "100"); strings.Contains(r.stdout, "add") ||
		!strings.Contains(r.stdout, `"values": [1.0, 3.0]`) {
		t.Errorf("prints\n%s", r.stdout)
	}
	fails(t, exitFailure, []string{"graph", shape}, "--constant; in Go Inputs of onnx.Options", `may help: ["shape"]`)
	ok(t, "graph", shape, "--dim", "N=2", "--constant", "shape=[4]")
	fails(t, exitUsage, []string{"graph", shape, "--constant", "shape"}, "constant")
	fails(t, exitUsage, []string{"graph", shape, "--bound", "N=x"}, "want a number")
	fails(t, exitUsage, []string{"graph", linear, "--dim", "M=2"}, `no extent has the name M (--dim; in Go Dims of `+
		`onnx.Options): the model has ["N"]`)
}
