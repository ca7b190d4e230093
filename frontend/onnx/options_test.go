package onnx_test

import (
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir"
)

// TestUnknownNames gives names that the model does not have: an error that lists those that it has.
func TestUnknownNames(t *testing.T) {
	m := model(13, graph(inputs(port("x", float, "N", nil), port("y", float, "N", nil)),
		nodes(node("Mul", names("x", "x"), names("z"))), outputs("z")))
	for name, c := range map[string]struct {
		options onnx.Options
		want    string
	}{
		"a dim":    {onnx.Options{Dims: map[string]ir.Dim{"n": ir.D(1)}}, `no extent is called n (--dim; in Go Dims of onnx.Options): the model has ["N" "x_1" "y_1"]`},
		"a bound":  {onnx.Options{Bounds: map[string]int{"M": 1}}, `no extent and no Loop is called M`},
		"an input": {onnx.Options{Inputs: map[string]*ir.Data{"z": f32(t, []float64{1})}}, `no input is called z (--constant; in Go Inputs of onnx.Options): the model has ["x" "y"]`},
		"a list":   {onnx.Options{Lists: map[string][]ir.Type{"z": nil}}, `no input is called z (Lists of onnx.Options)`},
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

// TestDefaultIsReplaced gives another value to an input that has a default.
func TestDefaultIsReplaced(t *testing.T) {
	m := model(13, graph(inputs(port("x", float, 2), port("k", float, 2)), weights(floats("k", []float32{1, 2}, 2)),
		nodes(node("Mul", names("x", "k"), names("y"))), outputs("y")))
	in := map[string]*ir.Data{"x": f32(t, []float64{3, 5}, 2)}
	is(t, run(t, built(t, m, onnx.Options{}), in)["y"], f32(t, []float64{3, 10}, 2))
	f := built(t, m, onnx.Options{Inputs: map[string]*ir.Data{"k": f32(t, []float64{2, 4}, 2)}})
	is(t, run(t, f, in)["y"], f32(t, []float64{6, 20}, 2))
}
