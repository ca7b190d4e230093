package onnx_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir"
)

// TestUnknownNames uses names that the model does not have. The error lists the model's names.
func TestUnknownNames(t *testing.T) {
	m := model(13, graph(inputs(port("x", float, "N", nil), port("y", float, "N", nil)),
		nodes(node("Mul", names("x", "x"), names("z"))), outputs("z")))
	for name, c := range map[string]struct {
		options onnx.Options
		want    string
	}{
		"a dim":    {onnx.Options{Dims: map[string]ir.Dim{"n": ir.D(1)}}, `no extent has the name n (--dim; in Go Dims of onnx.Options): the model has ["N" "x_1" "y_1"]`},
		"a bound":  {onnx.Options{Bounds: map[string]int{"M": 1}}, `no extent and no Loop has the name M`},
		"an input": {onnx.Options{Inputs: map[string]*ir.Data{"z": f32(t, []float64{1})}}, `no input has the name z (--constant; in Go Inputs of onnx.Options): the model has ["x" "y"]`},
		"a list":   {onnx.Options{Lists: map[string][]ir.Type{"z": nil}}, `no input has the name z (Lists of onnx.Options)`},
		"none":     {onnx.Options{}, ""},
		"a known":  {onnx.Options{Dims: map[string]ir.Dim{"x_1": ir.D(1)}, Bounds: map[string]int{"N": 1}}, ""},
		"a multiple": {onnx.Options{Dims: map[string]ir.Dim{"x_1": ir.Symbol("W", 4).Times(8)},
			Bounds: map[string]int{"W": 4}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := onnx.NewReader(m, c.options)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// TestSpellings names extents as the file spells them and as their symbols are called: both are taken, and the symbols'
// names are the ones that are shown.
func TestSpellings(t *testing.T) {
	m := model(13, graph(inputs(port("x", float, "p2o.DynamicDimension.0", 2), port("y.z", float, nil), port("u", float,
		"a.b"), port("v", float, "a_b")), nodes(node("Neg", names("x"), names("n"))), outputs("n")))
	f := built(t, m, onnx.Options{})
	shown := []string{"p2o_DynamicDimension_0", "y_z_0", "a_b_2", "a_b"}
	if got := f.Model.Extents(); !slices.Equal(got, shown) {
		t.Errorf("extents %q, want %q", got, shown)
	}
	for i, want := range []string{"float[p2o_DynamicDimension_0,2]", "float[y_z_0]", "float[a_b_2]", "float[a_b]"} {
		if got := f.Model.Shown(f.Model.Graph.Inputs[i]).String(); got != want {
			t.Errorf("input %d is %s, want %s", i, got, want)
		}
	}
	for i, spelled := range []string{"p2o.DynamicDimension.0", "y.z_0", "a.b", "a_b"} {
		if got := f.Model.Spelling(shown[i]); got != spelled {
			t.Errorf("%s is %q in the file, want %q", shown[i], got, spelled)
		}
		for _, name := range []string{spelled, shown[i]} {
			f := built(t, m, onnx.Options{Dims: map[string]ir.Dim{name: ir.D(7)}})
			if got := f.Graph.Leaves(ir.OpInput)[i].Shape()[0]; !got.Is(7) {
				t.Errorf("with %s=7, extent %d is %s", name, i, got)
			}
			f = built(t, m, onnx.Options{Bounds: map[string]int{name: 9}})
			if bound, _ := f.Graph.SymbolBound(shown[i]); bound != 9 {
				t.Errorf("with at most 9 of %s, %s is at most %d", name, shown[i], bound)
			}
		}
	}
	_, err := onnx.NewReader(m, onnx.Options{Dims: map[string]ir.Dim{"a.b": ir.D(1), "a_b_2": ir.D(1)}})
	if err == nil || !strings.Contains(err.Error(), "a.b and a_b_2 are the same extent: name it once") {
		t.Errorf("one extent twice: error %v", err)
	}
	_, err = onnx.NewReader(m, onnx.Options{Dims: map[string]ir.Dim{"c": ir.D(1)}})
	if err == nil || !strings.Contains(err.Error(), `["p2o_DynamicDimension_0" "y_z_0" "a_b_2" "a_b"]`) {
		t.Errorf("an unknown one: error %v", err)
	}
	add := model(13, graph(inputs(port("x", float, "a.b"), port("y", float, "c.d")), nodes(node("Add", names("x", "y"),
		names("z"))), outputs("z")))
	_, err = onnx.NewReader(add, onnx.Options{})
	if err == nil || !strings.Contains(err.Error(), `["a_b" "c_d"]`) {
		t.Errorf("what may help: error %v", err)
	}
}

// TestTensors counts constants wherever a model has them.
func TestTensors(t *testing.T) {
	held := func(name string, a msg) msg { return node("Constant", nil, names(name), a) }
	four := tensorOf("", 22, []int64{3}).bytes(9, []byte{0x21, 0x03})
	branch := graph(weights(floats("inner", []float32{1, 2}, 2)), nodes(held("in", msg{}.text(1, "value").
		bytes(5, floats("", []float32{1}, 1)).int(20, attrTensor)), node("Add", names("inner", "in"), names("s"))),
		outputs("s"))
	m := model(13, graph(inputs(port("c", boolean)), weights(floats("w", []float32{1}, 1)), nodes(
		held("k", msg{}.text(1, "value").bytes(5, floats("ignored", []float32{1, 2, 3}, 3)).int(20, attrTensor)),
		held("q", msg{}.text(1, "value").bytes(5, four).int(20, attrTensor)),
		held("i", intsAttr("value_ints", 1, 2)), held("f", floatAttr("value_float", 1)),
		node("If", names("c"), names("y"), graphAttr("then_branch", branch), graphAttr("else_branch", branch))),
		outputs("y")))
	var got []string
	for _, t := range built(t, m, onnx.Options{}).Model.Tensors() {
		elems := int64(1)
		for _, d := range t.Dims {
			elems *= d
		}
		got = append(got, fmt.Sprintf("%s %s%v %d", t.Name, t.Type, t.Dims, t.Type.Bytes(elems)))
	}
	want := []string{"w float[1] 4", "k float[3] 12", "q int4[3] 2", "i int64[2] 16", "f float[] 4", "inner float[2] 8",
		"inner float[2] 8", "in float[1] 4", "in float[1] 4"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestDefaultIsReplaced gives another value to an input that has a default.
func TestDefaultIsReplaced(t *testing.T) {
	m := model(13, graph(inputs(port("x", float, 2), port("k", float, 2)), weights(floats("k", []float32{1, 2}, 2)),
		nodes(node("Mul", names("x", "k"), names("y"))), outputs("y")))
	in := map[string]*ir.Data{"x": f32(t, []float64{3, 5}, 2)}
	is(t, run(t, built(t, m, onnx.Options{}), in)["y"], f32(t, []float64{3, 10}, 2))
	f := built(t, m, onnx.Options{Inputs: map[string]*ir.Data{"k": f32(t, []float64{2, 4}, 2)}})
	is(t, run(t, f, in)["y"], f32(t, []float64{6, 20}, 2))
}
